"""What a coordinator wants to know of a calibration."""

from collections.abc import Iterable

from fedconformal._text import count
from fedconformal.cli._ranks import votes_needed
from fedconformal.cli._show import number, paragraph, table
from fedconformal.cli._show_plan import coverage_cells, coverage_headers
from fedconformal.documents import Calibration, Refusal, everything_sentences
from fedconformal.protocol import Bearing, assumption_sentences

_HEADERS = ("level", "threshold", "votes\nneeded")
_MOST_NAMES = 20
_TITLES = {
    Bearing.CONDITION: "The promise holds if:",
    Bearing.CAVEAT: "Good to know:",
    Bearing.UNCHECKED: "Not checked:",
}


def show_calibration(calibration: Calibration) -> None:
    """Thresholds, what is guaranteed, who is missing, and on what it rests."""
    if calibration.plan.is_grouped:
        _show_groups(calibration)
    else:
        table([*_HEADERS, *coverage_headers(calibration.designs[0])], _rows(calibration))
        missing = f": {_names(calibration.missing)}" if calibration.missing else ""
        paragraph(f"{_answered(calibration)}, {calibration.n_missing} missing{missing}")
        _show_refused(calibration.refused)
    for sentence in everything_sentences(calibration):
        paragraph(sentence)
    for bearing, title in _TITLES.items():
        if sentences := assumption_sentences(calibration, bearing):
            print(title)
        for sentence in sentences:
            paragraph(sentence, mark="  - ")


def _rows(calibration: Calibration) -> list[list[str]]:
    """Level, threshold, votes and law, for each level."""
    return [
        [
            f"{found.confidence_level:g}",
            number(found.threshold),
            votes_needed(design),
            *coverage_cells(design),
        ]
        for found, design in zip(calibration.levels, calibration.designs, strict=True)
    ]


def _answered(calibration: Calibration) -> str:
    return f"{count(calibration.n_answers, 'site')} answered"


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")


def _show_refused(refused: Iterable[Refusal], where: str = "") -> None:
    for refusal in refused:
        paragraph(f"refused: {refusal.source}{where}: {refusal.reason}")


def _coverage(calibration: Calibration) -> tuple[str, ...]:
    found = next(each for each in calibration.by_label.values() if each.is_calibrated)
    return coverage_headers(found.designs[0])


def _show_groups(calibration: Calibration) -> None:
    """The same group by group, and who is missing where."""
    rows = [
        [label, *row, found.n_answers, found.n_missing]
        for label, found in calibration.by_label.items()
        if found.is_calibrated
        for row in _rows(found)
    ]
    if rows:
        table(["group", *_HEADERS, *_coverage(calibration), "answers", "missing"], rows)
    paragraph(_answered(calibration))
    for label, found in calibration.by_label.items():
        if not found.is_calibrated:
            paragraph(f"group {label!r}: too few answers ({found.n_answers}), the threshold is infinite")
    for label, names in calibration.missing.items():
        if names:
            paragraph(f"group {label!r}: no answer from {_names(names)}")
    _show_refused(calibration.refused)
    for label, found in calibration.by_label.items():
        _show_refused(found.refused, f", group {label!r}")
