"""Help: every choice that there is, what every argument means, and examples that
run.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fedconformal.cli._app import command as fedconformal
from fedconformal.cli._report import score_columns
from fedconformal.documents import Facts
from fedconformal.planning import CRITERIA, PROMISES
from fedconformal.scores import SCORES

ROOT = Path(__file__).parent.parent.parent


def commands():
    """Every command, by the words that are typed."""
    for name, command in fedconformal.commands.items():
        if hasattr(command, "commands"):
            yield from (
                (f"{name} {inner}", each) for inner, each in command.commands.items()
            )
        else:
            yield name, command


COMMANDS = dict(commands())
NOT_RUN = {"planner", "demo", "ledger reseal"}
"""Examples that serve, take minutes or need a lost ledger; tests of their own run
these.
"""


def unbroken(text):
    """Without the places where lines are broken."""
    return "".join(text.split())


def helped(run, name):
    return run(*name.split(), "--help").out


def test_plan_names_every_choice(run):
    printed = re.sub(r"-\n\s+", "-", helped(run, "plan"))
    words = set(re.findall(r"[a-z][a-z-]*[a-z]", printed))
    for registry in (CRITERIA, PROMISES, SCORES):
        assert set(registry) <= words


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(run, name):
    printed = unbroken(helped(run, name))
    assert run(*name.split(), "-h").out.split() == helped(run, name).split()
    assert unbroken(f"Example: fedconformal {name}") in printed
    for mark in (
        " <",
        "{",
        "}",
        "\\[",
        "Positional",
    ):  # of some versions of typer or click
        assert mark not in helped(run, name)
    for param in COMMANDS[name].params:
        assert param.help, f"{name}: {param.name} has no text"
        assert unbroken(param.help) in printed, f"{name}: {param.name}"
        default = param.default
        if isinstance(default, (int, float, str, Path)) and not isinstance(
            default, bool
        ):
            assert unbroken(f"default: {default}") in printed, f"{name}: {param.name}"


def test_help_has_short_and_long_names_and_exit_codes(run):
    printed = run("-h").out
    assert printed == run("--help").out
    assert "--install-completion" in printed
    for command in COMMANDS:
        assert command.split()[0] in printed
    assert "3 infinite threshold" in " ".join(printed.split())


@pytest.mark.parametrize("group", ["", "keys", "ledger", "policy"])
def test_no_command_is_told_by_half_a_sentence(run, monkeypatch, group):
    monkeypatch.setenv("COLUMNS", "60")
    printed = run(*group.split(), "-h").out
    assert "..." not in printed.partition("Commands:")[2]


@pytest.mark.slow
def test_nobody_needs_to_read_to_the_end(tmp_path):
    command = f"set -o pipefail; {sys.executable} -m fedconformal --help | true"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""


def test_the_columns_of_every_score_are_in_the_help_and_on_the_page(run):
    printed = " ".join(helped(run, "report").split())
    page = (ROOT / "docs" / "data-owner.md").read_text()
    assert [name for name, _ in score_columns()] == list(SCORES)
    for name, columns in score_columns():
        assert f"{name} {columns}" in printed
        assert f"| `{name}` | {columns} |\n" in page


@pytest.fixture
def files(tmp_path, monkeypatch):
    """What the examples read."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, n in {
        "cases": 120,
        "south": 40,
        "west": 377,
        "later": 100,
        "new": 5,
    }.items():
        truth, guess = rng.normal(size=(2, n))
        pl.DataFrame({"truth": truth, "guess": guess}).write_csv(f"{name}.csv")
    for name in ("scores", "public"):
        pl.DataFrame({"score": rng.exponential(size=50)}).write_csv(f"{name}.csv")


@pytest.mark.slow
def test_every_example_runs(files, run):
    """In the order of the help, in one folder."""
    order = [name for name in COMMANDS if name not in NOT_RUN]
    assert order[:2] == ["plan", "report"]
    for name in order:
        (example,) = re.findall(
            r"^ +fedconformal (.*)$", COMMANDS[name].epilog, re.MULTILINE
        )
        run(*shlex.split(example))
        if name == "report":
            for site in ("south", "west"):
                run(
                    *shlex.split(
                        example.replace("cases.csv", f"{site}.csv").replace(
                            "north", site
                        )
                    )
                )


@pytest.mark.parametrize("name", ["plan", "certificate"])
def test_every_fact_is_named(run, name):
    printed = unbroken(helped(run, name))
    assert [fact for fact in Facts.model_fields if fact not in printed] == []


@pytest.mark.parametrize("group", ["", "keys", "ledger", "policy"])
def test_without_a_command_there_is_the_help(run, group):
    assert run(*group.split()).out == run(*group.split(), "--help").out


def test_plan_has_few_options():
    assert len(COMMANDS["plan"].params) <= 24
