"""The page of the documentation says what its file of figures says, and leaves no section out."""

from pathlib import Path

from benchmarks._page import docstring, page
from benchmarks._record import Record, read, section_of, this_machine
from benchmarks._rows import Figure, Row

from benchmarks import __main__ as bench

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_what_the_figures_give(tmp_path):
    """`make bench-page` makes it anew."""
    assert bench.main(["page", str(DOCS / "benchmarks.json"), str(tmp_path / "page.md")]) == 0
    assert (DOCS / "benchmarks.md").read_text() == (tmp_path / "page.md").read_text()


def test_the_file_is_as_the_command_writes_it():
    file = DOCS / "benchmarks.json"
    assert read(file).to_json() == file.read_text()
    assert set(read(file).sections) <= set(bench.SECTIONS)


def test_every_section_is_on_the_page_and_says_its_goal():
    for name, section in bench.SECTIONS.items():
        title, _, prose = docstring(section).partition("\n\n")
        assert "Goal" in prose
        heading = f"## {title.removesuffix('.')} (`{name}`)"
        assert f"\n{heading}\n\n{prose}\n" in (DOCS / "benchmarks.md").read_text()


def test_what_misses_its_goal_and_what_was_not_run_is_said():
    rows = (
        Row("slow", "of 3", Figure(3.0, "s"), Figure(2.0, "s"), 1.5, 1.4, 1.6, "<= 1", met=False),
        Row("quick", "of 3", Figure(1.0, "s"), Figure(2.0, "s"), 0.5, 0.4, 0.6, "<= 1", met=True),
    )
    section = section_of(rows, seconds=2, load=(0.4, 1.2), left_out="many sites")
    modules = {name: bench.SECTIONS[name] for name in ("votes", "pair")}
    said = page(Record(this_machine(), {"votes": section}), modules)
    assert "Goals met: 1 of 2. Missed:\n\n- [votes](#what-weighted-votes-several-numbers-and-" in said
    assert "-against-sorting-and-the-plain-case-votes): slow, of 3\n" in said
    assert "| slow | of 3 | 3 s | 2 s | 1.5 | ≤ 1 | **no** |" in said
    assert "load average 0.4 before and 1.2 at the end. Not run: many sites." in said
    assert "Not run for this page: `python -m benchmarks pair` runs it." in said
