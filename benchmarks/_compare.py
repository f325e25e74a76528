"""Two runs side by side."""

from collections.abc import Iterator

from benchmarks._record import Record, Section
from benchmarks._rows import Row, columns, written

RULE = """\
A ratio is ours over the yardstick's: less is better. It is marked BETTER or WORSE if
its two ranges do not touch. The range of a ratio holds those of all repetitions and a
twentieth more at both ends; for what was timed once, half as much again; where there is
no clock, a thousandth. With three repetitions one unchanged
ratio in ten may be marked by chance: run again what is marked."""
HEADINGS = ("what", "setting", "old", "new", "new/old", "", "goal")


def compared(old: Record, new: Record) -> str:
    """The change of every ratio, section by section."""
    parts = [f"old: {old.machine}\nnew: {new.machine}"]
    if old.machine != new.machine:
        parts[0] += (
            "\nThe machines differ: ratios may be compared, with care; seconds may not."
        )
    parts += [
        _section(name, old.sections[name], new.sections[name])
        for name in _shared(old, new)
    ]
    parts += [f"{name}: only in {place}" for name, place in _alone(old, new)]
    return "\n\n".join([*parts, RULE])


def _shared(old: Record, new: Record) -> list[str]:
    return [name for name in new.sections if name in old.sections]


def _alone(old: Record, new: Record) -> Iterator[tuple[str, str]]:
    yield from (
        (name, "the old file") for name in old.sections if name not in new.sections
    )
    yield from (
        (name, "the new file") for name in new.sections if name not in old.sections
    )


def _section(name: str, old: Section, new: Section) -> str:
    before, after = (
        {(row.name, row.setting): row for row in section.rows} for section in (old, new)
    )
    lines = [
        (*key, *_cells(before.get(key), after.get(key))) for key in {**after, **before}
    ]
    return f"{name} ({_taken(old)}; {_taken(new)})\n{columns(HEADINGS, lines)}"


def _taken(section: Section) -> str:
    commit = section.commit or section.version
    return (
        f"{commit} of {section.date}, load {section.load[0]:g} to {section.load[1]:g}"
    )


def _cells(old: Row | None, new: Row | None) -> tuple[str, ...]:
    """Both figures, the change, the verdict, and what became of the goal."""
    if old is None or new is None:
        return (
            _figure(old),
            _figure(new),
            "",
            "gone" if new is None else "new",
            _goal(old, new),
        )
    change = (
        f"{new.ratio / old.ratio:.2f}" if old.ratio and new.ratio is not None else ""
    )
    return _figure(old), _figure(new), change, verdict(old, new), _goal(old, new)


def _figure(row: Row | None) -> str:
    """The ratio; where there is none, what was found."""
    if row is None:
        return ""
    return str(row.ours) if row.ratio is None else written(row.ratio)


def verdict(old: Row, new: Row) -> str:
    """Better or worse beyond noise, or nothing."""
    if old.low is None or old.high is None or new.low is None or new.high is None:
        return ""
    return "BETTER" if new.high < old.low else "WORSE" if new.low > old.high else ""


def _goal(old: Row | None, new: Row | None) -> str:
    was, now = (None if row is None else row.met for row in (old, new))
    words = {True: "met", False: "missed", None: ""}
    return (
        words[now]
        if was in (now, None)
        else f"{words[was]}, now {words[now] or 'not taken'}"
    )
