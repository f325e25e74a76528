"""Two files of figures side by side: what moved, and what is noise."""

from dataclasses import replace

import pytest
from benchmarks._compare import compared, verdict
from benchmarks._record import Record, section_of, this_machine
from benchmarks._rows import ONCE, Figure, Row, beside, timed
from benchmarks._timing import summarise


def times(*ratios, name="plan"):
    """A figure whose repetitions had these ratios."""
    return timed(
        name, "of 3", summarise([(ratio, 1.0) for ratio in ratios]), "sorting", goal=1
    )


def once(ratio):
    return beside("plan", "", Figure(ratio, "s"), Figure(1.0, "s"), factor=ONCE)


def sharp(ratio):
    return beside("spread", "", Figure(ratio), Figure(1.0))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (times(1.0, 1.1, 0.9), times(1.0, 1.2, 1.1), ""),
        (
            times(1.0, 1.1, 0.9),
            times(0.8, 0.85, 0.81),
            "",
        ),  # 0.9 and 0.85 are a twentieth off
        (times(1.0, 1.1, 0.9), times(0.7, 0.8, 0.75), "BETTER"),
        (times(0.7, 0.8, 0.75), times(1.0, 1.1, 0.9), "WORSE"),
        (once(0.1), once(0.2), ""),
        (once(0.1), once(0.23), "WORSE"),
        (sharp(1.18), sharp(1.17), "BETTER"),
        (times(1.0), Row("plan", "of 3", Figure(1.0, "s")), ""),
    ],
)
def test_a_ratio_moved_if_its_ranges_do_not_touch(old, new, said):
    assert verdict(old, new) == said


def record(**rows):
    taken = {
        name: section_of(some, seconds=1, load=(0.4, 1.2))
        for name, some in rows.items()
    }
    return Record(this_machine(), taken)


def test_every_ratio_is_shown_with_its_change():
    old = record(
        votes=(times(1.0), times(1.2, name="other"), times(1, name="old one")),
        pair=(),
        arrays=(once(0.5),),
    )
    new = record(
        votes=(times(0.5), times(0.9, name="other"), times(1, name="new one")),
        sets=(),
        arrays=(once(0.5),),
    )
    said = compared(old, new)
    lines = {
        line.split("  ")[0]: line.split()
        for line in said.splitlines()
        if "of 3" in line
    }
    assert lines["plan"][3:] == ["1", "0.5", "0.50", "BETTER", "met"]
    assert lines["other"][3:] == [
        "1.2",
        "0.9",
        "0.75",
        "BETTER",
        "missed,",
        "now",
        "met",
    ]
    assert lines["old one"][4:] == ["1", "gone", "met,", "now", "not", "taken"]
    assert lines["new one"][4:] == ["1", "new", "met"]
    assert "load 0.4 to 1.2" in said
    assert "pair: only in the old file" in said
    assert "sets: only in the new file" in said
    assert "do not touch" in said
    assert "machines differ" not in said


def test_figures_of_two_machines_are_called_so():
    one = record(votes=(times(1.0),))
    other = replace(one, machine=replace(one.machine, cpu_count=64))
    assert "The machines differ" in compared(one, other)
