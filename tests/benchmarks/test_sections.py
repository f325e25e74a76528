"""Every section of the benchmarks runs, with sizes so small that its figures mean
nothing.
"""

import json
import re
from datetime import date
from pathlib import Path

import pytest
from benchmarks._private_runs import cells, masses_of, private_plan, simulate
from benchmarks._record import read, section_of, this_machine
from benchmarks._rows import Figure, Row

import fedconformal as fc
from benchmarks import __main__ as bench

PRIVACY_PAGE = Path(__file__).parents[2] / "docs" / "privacy.md"
TINY = {
    "accuracy": {
        "tiny": 6,
        "small": 12,
        "large": 60,
        "n_random": 4,
        "tables": [(5, 6)],
        "sizes": (1, 2, 100),
    }
    | {"n_pairs": 2, "n_uneven": 3, "n_tails": 2},
    "table": {"n_sites": 3, "n_points": 4, "repetitions": (1, 1)},
    "pair": {"federations": [(20, 1000, 2)], "memory_size": 20},
    "uneven": {"some": 3, "many": 4, "count": 1000, "repetitions": 1},
    "sharpness": {
        "federations": {"3 x 20": (20,) * 3, "20, 60": (20, 60)},
        "numbers": (1, 2),
        "conditional": 2,
    },
    "votes": {
        "equal": [(5, 20)],
        "uneven": [(7, 2, 0.5)],
        "fewer": 1000,
        "few": [(7, 2)],
        "many": 8,
        "floats": 1000,
        "repetitions": 1,
    },
    "import": {"repetitions": 1},
    "selection": {"in_memory": 1000, "in_file": 2000, "part": 1000, "repetitions": 1},
    "sets": {"rows": 1000, "classes": 3, "calibration": 100, "repetitions": (1, 1)},
    "arrays": {"sites": 3, "scores": 100, "repetitions": 1},
    "risk": {"cases": 200, "settings": 10, "repetitions": 1},
    "start": {"repetitions": 1},
    "collecting": {"sites": 20, "most": 20, "repetitions": 1},
    "watching": {"sites": 3, "months": 2, "repetitions": 1},
    "masked": {
        "sites": 4,
        "cells": 5,
        "repetitions": 1,
        "coverage": [(20, "stable", 1.0)],
    },
    "private": {
        "coverage": [(5, 200, 10, 20, "even", 1.0)],
        "conditional": [(5, 200, 10, 20, "half-normal", 1.0)],
        "single": [(500, 10, 0.92, 0.01)],
        "coverage_runs": 80,
        "hostile_settings": [(5, 200, 10)],
        "n_masses": 4,
        "hostile_runs": 5,
        "fresh_runs": 20,
        "report_size": (200, 20),
        "n_reports": 1,
        "n_entries": 20,
        "planning": [(5, 100, 10, 1000, 2)],
    },
    "planner": {
        "drags": {"5 sites of 20": {"sites": 5, "points": 20}},
        "searches": {"2 sizes": {"points": (20, 30)}},
        "at_rest": 20,
        "levels": (0.9,),
        "at_once": 3,
    },
}
"""Sizes for a look at each section."""


def test_every_section_has_a_test():
    """Those of the engines start processes, and are run with their figures alone."""
    assert TINY.keys() | {"flower", "nvflare"} == bench.SECTIONS.keys()


LONG = {"collecting", "import", "pair", "planner", "private", "start", "votes"}
"""Sections that take several seconds however small their sizes are."""


def marked(name):
    mark = pytest.mark.nightly if name in LONG else pytest.mark.slow
    return pytest.param(name, marks=mark)


@pytest.mark.parametrize("name", [marked(name) for name in sorted(TINY)])
def test_a_section_runs(name):
    rows = tuple(bench.import_module(bench.SECTIONS[name]).run(**TINY[name]))
    assert rows
    section = section_of(
        rows, seconds=1.0, load=(0.5, 1.0)
    )  # refuses rows that cannot be told apart
    for row in section.rows:
        assert row.name
        assert str(row.ours)
        assert row.ratio is None or row.low <= row.ratio <= row.high
        assert (row.met is None) == (not row.goal)
        assert name != "accuracy" or (row.required and row.met)


ROWS_GIVEN = (
    Row(
        "a time",
        "of 3",
        Figure(1.0, "s"),
        Figure(2.0, "s", "sorting"),
        0.5,
        0.4,
        0.6,
        "<= 1",
        met=True,
    ),
    Row("another", "of 4", Figure(3, "MB")),
)


@pytest.fixture
def sections(monkeypatch):
    """Give a section's rows in place of running it; what it was called with."""
    called = []

    def give(rows, **more):
        def run(**sizes):
            called.append(sizes)
            if isinstance(rows, Exception):
                raise rows
            return iter(rows)

        module = type("section", (), {"run": staticmethod(run), **more})
        monkeypatch.setattr(bench, "import_module", lambda name: module)
        return called

    return give


def test_figures_are_printed_in_columns_or_with_a_dash_as_json_alone(sections, capsys):
    sections(ROWS_GIVEN)
    assert bench.main(["table", "--json", "-"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["sections"]["table"]["rows"][0]["ratio"] == 0.5
    machine, _, section, heads, rule, *lines = printed.err.splitlines()
    assert machine == str(this_machine())
    assert section.startswith("table (")
    assert heads.split() == [
        "what",
        "setting",
        "ours",
        "yardstick",
        "ratio",
        "goal",
        "met",
    ]
    assert set(rule) == {"-"}
    assert lines == [
        "a time   of 3     1 s   2 s (sorting)  0.5    <= 1  yes",
        "another  of 4     3 MB",
    ]


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        (
            [Row("error", "", Figure(1e-3), goal="<= 1", met=False, required=True)],
            "error",
        ),
        (ROWS_GIVEN[:1] * 2, "two rows of one name and setting: a time, of 3"),
        (RuntimeError("no such thing"), "broke down"),
    ],
)
def test_the_exit_code_tells_of_trouble(sections, capsys, trouble, said):
    sections(trouble)
    assert bench.main(["table"]) == 1
    assert said in capsys.readouterr().out


def test_a_short_run_leaves_out_what_the_section_says(sections, tmp_path):
    called, file = (
        sections(ROWS_GIVEN, SHORT={"sites": 3}, LEFT_OUT="many sites"),
        tmp_path / "f.json",
    )
    bench.main(["table", "--json", str(file)])
    bench.main(["pair", "--short", "--keep", "--json", str(file)])
    assert called == [{}, {"sites": 3}]
    assert {name: one.left_out for name, one in read(file).sections.items()} == {
        "table": "",
        "pair": "many sites",
    }


def test_figures_are_written_and_read_again(sections, tmp_path):
    sections(
        [
            *ROWS_GIVEN,
            Row(
                "lost", "", Figure(float("inf"), "error"), ratio=float("inf"), met=False
            ),
        ]
    )
    file = tmp_path / "f.json"
    assert bench.main(["table", "--json", str(file)]) == 0
    record = read(file)
    section = record.sections["table"]
    assert record.machine == this_machine()
    assert section.rows[:2] == ROWS_GIVEN
    assert (section.rows[2].ours.value, section.rows[2].ratio) == (
        None,
        None,
    )  # JSON has no infinity
    assert section.version == fc.__version__
    assert date.fromisoformat(section.date)
    assert json.loads(file.read_text(), parse_constant=pytest.fail)["format"] == 1


def refused(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        bench.main([str(argument) for argument in arguments])
    assert end.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


def test_what_cannot_be_run_is_refused(sections, tmp_path, capsys):
    sections(ROWS_GIVEN)
    file, other, bad = (
        tmp_path / name for name in ("f.json", "other.json", "bad.json")
    )
    assert "unknown section nonsense" in refused(capsys, "nonsense")
    assert "--keep needs --json with a file" in refused(capsys, "table", "--keep")
    assert "f.json is no file of benchmarks" in refused(
        capsys, "table", "--keep", "--json", file
    )
    bench.main(["table", "--json", str(file)])
    other.write_text(file.read_text().replace('"cpu_count": ', '"cpu_count": 1000'))
    assert "is of another machine" in refused(
        capsys, "table", "--keep", "--json", other
    )
    for content in ("[]", "{}", "nothing", '{"format": 2}'):
        bad.write_text(content)
        assert "bad.json is no file of benchmarks" in refused(
            capsys, "compare", file, bad
        )
        assert "bad.json is no file of benchmarks" in refused(
            capsys, "page", bad, tmp_path / "page.md"
        )


def test_what_privacy_md_says_of_the_coverage_to_expect():
    """Simulated with the seed of the benchmark; five standard errors, and rounding to
    four digits, are allowed.
    """
    (line,) = (
        line
        for line in PRIVACY_PAGE.read_text().splitlines()
        if line.startswith("**Coverage to expect.**")
    )
    stated = [float(text) for text in re.findall(r"(?<!\d)[01]?\.\d{4}", line)]
    bins = cells(100)
    plans = [private_plan(10, 500, 1, bins=bins)]
    plans.append(private_plan(10, 500, 1, bins=bins, analysis="paper"))
    found = [
        simulate(plan, masses_of(shape, bins), runs=runs, rng=11)
        for plan, runs in zip(plans, (8000, 40_000), strict=True)
        for shape in ("even", "half-normal")
    ]
    assert len(stated) == len(found)
    for text, mean in zip(stated, found, strict=True):
        assert abs(text - mean.value) <= 5 * mean.error + 0.00005, (text, mean)
