"""Run every command and every line of Python in the documentation, and compare the
output.

``python`` blocks with ``>>>`` are doctests, others are executed; ``console`` blocks run
their ``$`` lines in bash (our own commands and loops of one in this process) and
compare what follows. All blocks of a page share one empty directory and one namespace.
In outputs, ``...`` stands for anything.
"""

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from fedconformal.cli import main

pytest.importorskip(
    "typer", reason="the extra [cli] is not installed"
)  # with whatever it warns of

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LOOP = re.compile(r"for (\w+) in ([\w ]+); do (fedconformal [^;]+); done\n")
SHELL = re.compile(r"^(?!fedconformal )|[|<>&;`*]|\$\(|\bdemo\b|\bplanner\b")
"""Commands that need a shell, or a process of their own."""
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run_python(code, namespace, page):
    if ">>>" not in code:
        exec(compile(code, str(page), "exec"), namespace)
        return
    test = doctest.DocTestParser().get_doctest(code, namespace, page.name, str(page), 0)
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    failures = []
    runner.run(test, out=failures.append, clear_globs=False)
    namespace.update(test.globs)
    assert not failures, "".join(failures)


def run_console(code, directory, *, shell):
    for step in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
        command, output = split_command(step)
        returned, printed = run_command(command, directory, shell=shell)
        code_expected = (
            int(match[1]) if (match := re.search(r"# exit code (\d+)", command)) else 0
        )
        assert returned == code_expected, f"{command}\n{printed}"
        if output.strip():
            assert doctest.OutputChecker().check_output(output, printed, FLAGS), (
                f"{command}\n--- documented\n{output}\n--- printed\n{printed}"
            )


def run_command(command, directory, *, shell):
    """Return the exit code and the output; of a loop over sites the largest code."""
    if not shell and (loop := LOOP.fullmatch(command)):
        name, values, body = loop.groups()
        orders = [re.sub(rf"\${name}\b", value, body) for value in values.split()]
        codes, printed = zip(
            *(run_command(order, directory, shell=False) for order in orders),
            strict=True,
        )
        return max(codes), "".join(printed)
    return (run_in_shell if shell or SHELL.search(command) else run_in_process)(
        command, directory
    )


def run_in_shell(command, directory):
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "TERM": "dumb",
    }
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,  # a guard against hanging
        check=False,
    )
    return done.returncode, done.stdout


def run_in_process(command, directory):
    """Run a command of the package without starting a process."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        code = main(shlex.split(command.replace("\\\n", " "), comments=True)[1:])
    return code, printed.getvalue()


def split_command(step):
    """Return the command, with its continuation lines, and the output shown after
    it.
    """
    lines = step.splitlines(keepends=True)
    end = 1
    while lines[end - 1].rstrip("\n").endswith("\\"):
        end += 1
    return "".join(lines[:end]), "".join(lines[end:])


NIGHTLY = {"research.md"}
"""Pages of long simulations."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.nightly if page.name in NIGHTLY else ())
        for page in PAGES
    ],
    ids=lambda page: page.name,
)
def test_page(page, tmp_path, monkeypatch):
    run_page(page, tmp_path, monkeypatch, shell=False)


@pytest.mark.nightly
def test_the_first_hour_in_a_shell(tmp_path, monkeypatch):
    """Run the commands as they are typed, each in a process of its own."""
    run_page(ROOT / "docs" / "first-hour.md", tmp_path, monkeypatch, shell=True)


def run_page(page, directory, monkeypatch, *, shell):
    monkeypatch.chdir(directory)
    namespace = {"__name__": "__page__"}
    for language, code in BLOCK.findall(page.read_text()):
        if language == "python":
            run_python(code, namespace, page)
        else:
            run_console(code, directory, shell=shell)


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(
            r"\]\((?!https?:|#|mailto:)([^)#]+)", page.read_text()
        ):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
