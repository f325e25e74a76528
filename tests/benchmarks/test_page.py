"""The page of the documentation says what its file of figures says, misses first."""

import ast
from pathlib import Path

from benchmarks._page import QUESTIONS, page
from benchmarks._record import Record, read, section_of, this_machine
from benchmarks._rows import Figure, Row

from benchmarks import __main__ as bench

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_what_the_figures_give(tmp_path):
    """`make bench-page` makes it anew."""
    assert (
        bench.main(["page", str(DOCS / "benchmarks.json"), str(tmp_path / "page.md")])
        == 0
    )
    assert (DOCS / "benchmarks.md").read_text() == (tmp_path / "page.md").read_text()


def test_the_file_is_as_the_command_writes_it():
    file = DOCS / "benchmarks.json"
    assert read(file).to_json() == file.read_text()
    assert set(read(file).sections) <= set(bench.SECTIONS)


def test_every_section_answers_a_question_and_says_its_goal():
    assert sorted(name for names in QUESTIONS.values() for name in names) == sorted(
        bench.SECTIONS
    )
    for name, module in bench.SECTIONS.items():
        file = DOCS.parent.joinpath(*module.split(".")).with_suffix(".py")
        assert "Goal" in ast.get_docstring(ast.parse(file.read_text()))
        assert f"| `{name}` " in (DOCS / "benchmarks.md").read_text()


def test_misses_come_first_and_what_was_not_run_is_said():
    rows = (
        Row(
            "plan",
            "of 2",
            Figure(1.8, "s"),
            Figure(2.0, "s"),
            0.9,
            0.8,
            1.0,
            "<= 1",
            met=True,
        ),
        Row(
            "plan",
            "of 3",
            Figure(3.0, "s"),
            Figure(2.0, "s"),
            1.5,
            1.4,
            1.6,
            "<= 1",
            met=False,
        ),
        Row(
            "answer",
            "of 3",
            Figure(1.0, "s"),
            Figure(2.0, "s"),
            0.5,
            0.4,
            0.6,
            "<= 1",
            met=True,
        ),
        Row(
            "memory",
            "of 4",
            Figure(1.0, "MB"),
            Figure(2.0, "MB"),
            0.5,
            0.4,
            0.6,
            "<= 1",
            met=True,
        ),
    )
    section = section_of(rows, seconds=2, load=(0.4, 1.2), left_out="many sites")
    text = page(Record(this_machine(), {"votes": section}))
    missed = "| `votes` plan: of 3 | 3 s | 2 s | 1.5 | ≤ 1 |\n"
    assert "3 of 4 goals are met. Missed:\n\n| figure" in text
    assert missed in text.partition("\n## Time to plan")[0]
    planning = text.partition("\n## Time to plan")[2]
    assert "| `votes` plan: of 2 (worst of 2) | 1.8 s | 2 s | 0.9 | ≤ 1 |\n" in planning
    assert "| `votes` memory: of 4 | 1 MB | 2 MB | 0.5 | ≤ 1 |\n" in planning
    assert missed not in planning
    assert "the load average was at most 1.2" in text
    assert "Run in part: `votes` without many sites." in text
    assert (
        "Not run for this page: `python -m benchmarks table pair uneven planner`."
        in text
    )
