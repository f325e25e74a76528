"""``fedconformal calibrate``."""

from collections.abc import Iterable, Mapping
from json import loads
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedconformal._text import count
from fedconformal.cli._options import AnsweredPlan, Force, Json, Output, Reports, Sign
from fedconformal.cli._show import number, paragraph, table, working

if TYPE_CHECKING:
    from fedconformal.documents import Calibration, Plan, Refusal

_MOST_NAMES = 20
_BYTES_EACH, _BYTES_AROUND = 32, 2**12
"""How large a file of vectors may be: for each number, and around them."""


def calibrate(
    plan: AnsweredPlan,
    reports: Reports,
    skip_refused: Annotated[bool, typer.Option(help="Count refused reports as missing.")] = False,
    histogram: Annotated[bool, typer.Option(help="The files hold one-hot vectors, one site's each.")] = False,
    is_sum: Annotated[
        bool,
        typer.Option("--sum", help="With --histogram: the one file holds the sum of all sites' vectors."),
    ] = False,
    sign: Sign = None,
    output: Output = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Turn reports into a threshold with its guarantee."""
    from fedconformal import protocol
    from fedconformal.cli._files import check_output, read, read_reports, report_files, save, signed
    from fedconformal.documents import Plan

    check_output(output, force=force)
    with working("calibrating"):
        asked, paths = read(Plan, plan), report_files(reports, plan)
        if histogram:
            found = _from_vectors(asked, paths, is_sum=is_sum)
        else:
            sent, unreadable = read_reports(paths)  # what cannot be read is refused like any other
            on_refused: Any = "skip" if skip_refused else "raise"
            found = protocol.calibrate(asked, sent, on_refused=on_refused, unreadable=unreadable)
    found = signed(found, sign)
    save(found, output, lambda: _show(found), force=force, as_json=json)


def _from_vectors(plan: "Plan", paths: list[Path], *, is_sum: bool) -> "Calibration":
    """The sum of one-hot vectors in files, each for this plan."""
    from fedconformal import protocol

    if plan.privacy is None or plan.is_grouped:
        raise ValueError("--histogram goes with a private plan without groups")
    if len({path.resolve() for path in paths}) < len(paths):
        raise ValueError("the same file twice: every site's vector counts once")
    vectors = [_vectors(plan, path) for path in paths]
    if is_sum and len(paths) > 1:
        raise ValueError(f"--sum goes with one file, got {len(paths)}")
    if not is_sum:
        for path, rows in zip(paths, vectors, strict=True):
            if any(sum(row) != 1 for row in rows):
                raise ValueError(
                    f"{path}: not one site's vector, which has one 1 per level; --sum if it is the sum of all"
                )
    sums = [[sum(cells) for cells in zip(*rows, strict=True)] for rows in zip(*vectors, strict=True)]
    return protocol.calibrate_histogram(plan, sums)


def _vectors(plan: "Plan", path: Path) -> list[list[int]]:
    """Read a row of counts for each level, none above the number of sites."""
    from fedconformal.cli._files import read_bytes

    assert plan.bins is not None
    n_rows, n_cells, most = len(plan.levels), plan.bins.n_bins, plan.n_sites or 0
    largest = _BYTES_AROUND + _BYTES_EACH * n_rows * n_cells
    try:
        read = read_bytes(path, largest + 1)
        if len(read) > largest:
            raise ValueError("larger than any of this shape")
        content = loads(read)
        rows: list[list[int]] = content["one_hot"]
        if content["plan"] != plan.digest:
            raise ValueError("answers another plan")
        if [len(row) for row in rows] != [n_cells] * n_rows or any(
            type(cell) is not int or not 0 <= cell <= most for row in rows for cell in row
        ):
            raise ValueError(f"counts from 0 to {most} of shape {(n_rows, n_cells)} are needed")
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        reason = str(error).splitlines()[0][:200]
        raise ValueError(f"{path}: not a one-hot vector for this plan: {reason}") from None
    return rows


def _show(calibration: "Calibration") -> None:
    """Show thresholds, what is guaranteed, who is missing, and on what it rests."""
    from fedconformal.documents import everything_sentences
    from fedconformal.protocol import Bearing, assumption_sentences

    if calibration.plan.is_grouped:
        _show_groups(calibration)
    else:
        _show_thresholds({None: calibration})
        missing = f": {_names(calibration.missing)}" if calibration.missing else ""
        answered = count(calibration.n_answers, "site")
        paragraph(f"{answered} answered, {calibration.n_missing} missing{missing}")
        _show_refused(calibration.refused)
    for sentence in everything_sentences(calibration):
        paragraph(sentence)
    titles = {
        Bearing.CONDITION: "The promise holds if:",
        Bearing.CAVEAT: "Good to know:",
        Bearing.UNCHECKED: "Not checked:",
    }
    for bearing, title in titles.items():
        if sentences := assumption_sentences(calibration, bearing):
            print(title)
        for sentence in sentences:
            paragraph(sentence, mark="  - ")


def _show_thresholds(found: "Mapping[Any, Calibration]") -> None:
    """Show level, threshold, votes and coverage of each group, or of all cases under None."""
    from fedconformal.cli._show_plan import coverage_cells, coverage_headers, votes_needed

    grouped = None not in found
    coverage = coverage_headers(next(iter(found.values())).designs[0])
    table(
        [
            *["group"] * grouped,
            *("level", "threshold", "votes\nneeded", *coverage),
            *["answers", "missing"] * grouped,
        ],
        [
            [
                *[str(label)] * grouped,
                f"{level.confidence_level:g}",
                number(level.threshold),
                votes_needed(design),
                *coverage_cells(design),
                *[str(each.n_answers), str(each.n_missing)] * grouped,
            ]
            for label, each in found.items()
            for level, design in zip(each.levels, each.designs, strict=True)
        ],
    )


def _show_groups(calibration: "Calibration") -> None:
    if found := {label: each for label, each in calibration.by_label.items() if each.is_calibrated}:
        _show_thresholds(found)
    paragraph(f"{count(calibration.n_answers, 'site')} answered")
    for label, each in calibration.by_label.items():
        if not each.is_calibrated:
            paragraph(f"group {label!r}: too few answers ({each.n_answers}), the threshold is infinite")
    for label, names in calibration.missing.items():
        if names:
            paragraph(f"group {label!r}: no answer from {_names(names)}")
    _show_refused(calibration.refused)
    for label, each in calibration.by_label.items():
        _show_refused(each.refused, f", group {label!r}")


def _show_refused(refused: "Iterable[Refusal]", where: str = "") -> None:
    for refusal in refused:
        paragraph(f"refused: {refusal.source}{where}: {refusal.reason}")


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
