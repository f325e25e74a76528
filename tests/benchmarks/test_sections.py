"""Every section of the benchmarks runs, with sizes so small that its figures mean nothing."""

import subprocess
import sys

import pytest

from benchmarks import __main__ as bench

TINY = {
    "accuracy": {"tiny": 6, "small": 12, "large": 60, "n_random": 4, "tables": [(5, 6)], "sizes": (1, 2, 100)}
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
        "uneven": [(7, 1000, 0.5)],
        "few": [(7, 2)],
        "many": 8,
        "count": 1000,
        "repetitions": 1,
    },
    "import": {"repetitions": 1},
    "selection": {"in_memory": 1000, "in_file": 2000, "part": 1000, "repetitions": 1},
    "sets": {"rows": 1000, "classes": 3, "calibration": 100, "repetitions": (1, 1)},
    "arrays": {"sites": 3, "scores": 100, "repetitions": 1},
    "start": {"repetitions": 1},
    "slopes": {"settings": [(5, 200, 10, "even", 0.912), (5, 200, 1, "half-normal", 1.0)], "runs": 20},
    "private": {
        "expected": [(3, 20, 5, 10)],
        "expected_runs": 20,
        "hostile_settings": [(5, 200, 10)],
        "n_masses": 4,
        "hostile_runs": 5,
        "fresh_runs": 20,
        "report_size": (200, 20),
        "n_reports": 1,
        "planning": [(5, 100, 10, 1000, 2)],
    },
    "planner": {
        "drags": {"5 sites of 20": {"sites": 5, "points": 20}},
        "at_rest": 20,
        "levels": (0.9,),
        "at_once": 3,
    },
}
"""Sizes for a look at each section; those of the engines have tests of their own."""

ROWS = {
    "accuracy": 11,
    "sharpness": 6,
    "votes": 13,
    "table": 2,
    "pair": 4,
    "uneven": 4,
    "import": 3,
    "selection": 4,
    "sets": 3,
    "arrays": 2,
    "start": 2,
}
ROWS |= {"slopes": 2, "private": 5, "planner": 7}


def test_every_section_has_a_test():
    assert TINY.keys() | {"flower", "nvflare"} == bench.SECTIONS.keys()


@pytest.mark.untraced
@pytest.mark.slow
@pytest.mark.parametrize("name", TINY)
def test_a_section_runs(name):
    rows = list(bench.import_module(bench.SECTIONS[name]).run(**TINY[name]))
    assert len(rows) == ROWS[name]
    assert all(isinstance(row, bench.Row) and row.what and row.ours for row in rows)


def test_accuracy_is_required_and_met():
    rows = list(bench.import_module(bench.SECTIONS["accuracy"]).run(**TINY["accuracy"]))
    assert all(row.required and row.met for row in rows)


def test_figures_are_printed_in_columns(monkeypatch, capsys):
    """One line for each figure, so that the outputs of two commits can be laid side by side."""
    rows = [
        bench.Row("what is timed", "1 s", "2 s (an anchor)", "0.5", "< 1", met=True),
        bench.Row("another", "3 MB"),
    ]
    monkeypatch.setattr(bench, "import_module", lambda name: type("section", (), {"run": lambda: rows}))
    monkeypatch.setattr(bench, "_machine", lambda: "a machine")
    assert bench.main(["table"]) == 0
    machine, _, section, heads, rule, *lines = capsys.readouterr().out.splitlines()
    assert machine == "a machine"
    assert section.startswith("table (")
    assert heads.split() == ["what", "ours", "anchor", "ratio", "goal", "met"]
    assert set(rule) == {"-"}
    assert lines == ["what is timed  1 s   2 s (an anchor)  0.5    < 1   yes", "another        3 MB"]


@pytest.mark.parametrize("trouble", ["a required figure is not met", "a section breaks down"])
def test_the_exit_code_tells_of_trouble(monkeypatch, capsys, trouble):
    def run():
        if trouble == "a section breaks down":
            raise RuntimeError("no such thing")
        return [bench.Row("error", "1e-3", goal="<= 1e-12", met=False, required=True)]

    monkeypatch.setattr(bench, "_machine", lambda: "a machine")
    monkeypatch.setattr(bench, "import_module", lambda name: type("section", (), {"run": staticmethod(run)}))
    assert bench.main(["table"]) == 1
    assert ("broke down" in capsys.readouterr().out) == (trouble == "a section breaks down")


def test_an_unknown_section_is_refused(capsys):
    with pytest.raises(SystemExit) as end:
        bench.main(["nonsense"])
    assert end.value.code == 2
    assert "unknown section nonsense" in capsys.readouterr().err


def test_it_can_be_run_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--help"], capture_output=True, text=True, check=True
    )
    assert all(name in done.stdout for name in bench.SECTIONS)
