"""``fedconformal calibrate`` and ``verify``."""

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from pathlib import Path
from typing import Any

import typer

from fedconformal import audit, protocol
from fedconformal._text import count
from fedconformal.cli import _files
from fedconformal.cli._plan import coverage_columns, votes_needed
from fedconformal.cli._show import number, paragraph, print_json, table, working
from fedconformal.documents import Calibration, CalibrationPart, Plan, Refusal
from fedconformal.protocol import AssumptionKind, assumption_sentences, everything_sentences

_MOST_NAMES = 20


def calibrate(
    plan: Path,
    reports: list[Path],
    *,
    skip_refused: bool = False,
    sign: Path | None = None,
    output: Path | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Turn reports into a threshold with its guarantee."""
    _files.check_output(output, force=force)
    with working("calibrating"):
        answered, paths = _files.read(Plan, plan), _files.report_files(reports, plan)
        sent, unreadable = _files.read_reports(paths)  # what cannot be read is refused like any other
        on_refused: Any = "skip" if skip_refused else "raise"
        calibration = protocol.calibrate(answered, sent, on_refused=on_refused, unreadable=unreadable)
    calibration = _files.signed(calibration, sign)
    _files.save(calibration, output, lambda: _show(calibration), force=force, as_json=json)


def _show(calibration: Calibration) -> None:
    """Show thresholds, what is guaranteed, who is missing, and what it rests on."""
    if rows := [part for part in calibration.parts if part.design.levels[0].votes is not None]:
        _show_thresholds(rows)
    _show_sites(calibration)
    _show_refused(calibration.refused)
    for part in calibration.parts:
        _show_refused(part.refused, f", group {part.design.group!r}")
    for sentence in (*_infinite_sentences(calibration), *everything_sentences(calibration)):
        paragraph(sentence)
    titles = {
        AssumptionKind.CONDITION: "The promise holds if:",
        AssumptionKind.CAVEAT: "Good to know:",
        AssumptionKind.UNCHECKED: "Not checked:",
    }
    for kind, title in titles.items():
        if sentences := assumption_sentences(calibration, kind):
            print(title)
        for sentence in sentences:
            paragraph(sentence, mark="  - ")


def _show_thresholds(parts: Sequence[CalibrationPart]) -> None:
    """Show level, threshold, votes and coverage of each group, or of all cases."""
    table(
        [
            {
                "group": part.design.group,
                "level": f"{level:g}",
                "threshold": number(part.thresholds[i]),
                "votes\nneeded": votes_needed(part.design, i),
                **coverage_columns(part.design, i),
                "sites\nanswered": _answered(part) if part.design.group is not None else None,
            }
            for part in parts
            for i, level in enumerate(part.design.confidence_levels)
        ]
    )


def _answered(part: CalibrationPart) -> str:
    return f"{part.design.n_sites} of {(part.design.n_sites or 0) + part.n_missing}"


def _show_sites(calibration: Calibration) -> None:
    """Show how many sites answered, and the names of those that did not or were not asked."""
    answered = f"{count(calibration.n_answers, 'site')} answered"
    if not calibration.plan.is_grouped:
        missing = f": {_names(calibration.missing)}" if calibration.missing else ""
        answered += f", {calibration.n_missing} missing{missing}"
    paragraph(answered)
    for part in calibration.parts if calibration.plan.is_grouped else ():
        if part.design.levels[0].votes is None:
            answers = part.design.n_sites
            paragraph(f"group {part.design.group!r}: too few answers ({answers}), the threshold is infinite")
        if part.missing:
            paragraph(f"group {part.design.group!r}: missing: {_names(part.missing)}")
    if calibration.not_asked:
        sites = count(len(calibration.not_asked), "site")
        paragraph(f"{sites} not asked: {_names(calibration.not_asked)}")


def _infinite_sentences(calibration: Calibration) -> Iterator[str]:
    """Describe infinite thresholds: levels that cannot be reached, and too many infinite values."""
    solved = tuple(part.design for part in calibration.parts)
    yield from calibration.plan.model_copy(update={"designs": solved}).problems
    for design, part in zip(solved, calibration.parts, strict=True):
        where = "" if design.group is None else f"Group {design.group!r}: "
        for level, threshold in zip(design.levels, part.thresholds, strict=True):
            if threshold == inf and level.advice is None and level.votes is not None:
                wanted = f"{float(level.confidence_level):g}"
                yield (
                    f"{where}The threshold at level {wanted} is infinite, because too many of the reported "
                    "values are infinite or above the last edge."
                )


def _show_refused(refused: Iterable[Refusal], where: str = "") -> None:
    for refusal in refused:
        paragraph(f"refused: {refusal.source}{where}: {refusal.reason}")


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")


# -- verify ------------------------------------------------------------------------------------------------


def verify(
    calibration: Path,
    *,
    reports: list[Path] | None = None,
    signer: list[str] | None = None,
    json: bool = False,
) -> None:
    """Verify the claims of a calibration by independent computation."""
    claimed = _files.read(Calibration, calibration)
    sent, unreadable = _files.read_reports(_files.report_files(reports)) if reports else (None, [])
    if unreadable:
        raise ValueError("; ".join(f"{refusal.source}: {refusal.reason}" for refusal in unreadable))
    with working("verifying"):
        findings = audit.verify(claimed, sent, signers=signer or ())
    # A claim that could not be recomputed is not verified.
    verified = bool(findings) and all(finding.holds for finding in findings)
    if json:
        print_json({"verified": verified, "findings": [finding.as_dict() for finding in findings]})
        raise typer.Exit(0 if verified else 1)
    table([{"claim": line.claim, "detail": line.detail, "holds": line.verdict} for line in findings])
    if sent is None and claimed.reports:
        paragraph("The threshold itself can be verified with the reports: --reports FILE, once for each.")
    uncounted = sum(finding.holds is None for finding in findings)
    if verified:
        print("verified")
    elif uncounted and not any(finding.holds is False for finding in findings):
        print(f"not verified: {count(uncounted, 'claim')} could not be recomputed")
    else:
        print("not verified")
    for sentence in everything_sentences(claimed):
        paragraph(sentence)
    raise typer.Exit(0 if verified else 1)
