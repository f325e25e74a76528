"""``fedconformal calibrate`` and ``verify``."""

from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path
from typing import Any

import typer

from fedconformal import audit, messages, protocol
from fedconformal._text import count
from fedconformal.cli import _files
from fedconformal.cli._plan import coverage_columns, votes_needed
from fedconformal.cli._show import number, paragraph, print_json, table, working
from fedconformal.documents import Calibration, CalibrationPart, Plan
from fedconformal.protocol import (
    AssumptionKind,
    assumption_sentences,
    describe_unreached,
    everything_sentences,
    uncovered_sentences,
)

_MOST_NAMES = 20


def calibrate(
    plan: Path,
    reports: list[Path],
    *,
    skip_refused: bool = False,
    sign: Path | None = None,
    out: _files.Output,
) -> None:
    """Turn reports into a threshold with its guarantee."""
    out.check()
    with working("calibrating"):
        answered = _files.read(Plan, plan)
        # What cannot be read is refused like any other.
        sent, unreadable = _files.read_reports(reports, plan)
        on_refused: Any = "skip" if skip_refused else "raise"
        calibration = protocol.calibrate(
            answered, sent, on_refused=on_refused, unreadable=unreadable
        )
        del sent  # 100,000 reports take 250 MB
    calibration = _files.signed(calibration, sign)
    out.save(calibration, lambda: _show(calibration))


def _show(calibration: Calibration) -> None:
    """Show thresholds, what is guaranteed, who is missing, and what it rests on."""
    table(
        {
            "group": part.design.group,
            "level": f"{level:g}",
            "threshold": number(part.thresholds[i]),
            "votes\nneeded": votes_needed(part.design, i),
            **coverage_columns(part.design, i),
            "sites\nanswered": (
                _answered(part) if part.design.group is not None else None
            ),
        }
        for part in calibration.parts
        for i, level in enumerate(part.design.confidence_levels)
        if part.design.levels[0].votes is not None
    )
    for sentence in (
        *_site_sentences(calibration),
        *uncovered_sentences(calibration),
        *_infinite_sentences(calibration),
        *everything_sentences(calibration),
    ):
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


def _answered(part: CalibrationPart) -> str:
    return f"{part.design.n_sites} of {(part.design.n_sites or 0) + part.n_missing}"


def _site_sentences(calibration: Calibration) -> Iterator[str]:
    """Give the number of sites that answered, and name those that did not, were not
    asked or were refused.
    """
    answered = f"{count(calibration.n_answers, 'site')} answered"
    if calibration.plan.is_grouped:
        yield answered
    else:
        missing = f": {_names(calibration.missing)}" if calibration.missing else ""
        yield f"{answered}, {calibration.n_missing} missing{missing}"
    for part in calibration.parts if calibration.plan.is_grouped else ():
        where = f"group {part.design.group!r}"
        if part.design.levels[0].votes is None:
            yield (
                f"{where}: too few answers ({part.design.n_sites}), the threshold is"
                " infinite"
            )
        if part.missing:
            yield f"{where}: missing: {_names(part.missing)}"
    if calibration.not_asked:
        yield (
            f"{count(len(calibration.not_asked), 'site')} not asked:"
            f" {_names(calibration.not_asked)}"
        )
    for refusal in calibration.refused:
        yield f"refused: {refusal.source}: {refusal.reason}"
    for part in calibration.parts:
        for refusal in part.refused:
            yield (
                f"refused: {refusal.source}, group {part.design.group!r}:"
                f" {refusal.reason}"
            )


def _infinite_sentences(calibration: Calibration) -> Iterator[str]:
    """Describe infinite thresholds: levels that cannot be reached, and too many
    infinite values.
    """
    yield from describe_unreached(calibration)
    for part in calibration.parts:
        design = part.design
        where = "" if design.group is None else f"Group {design.group!r}: "
        for level, threshold in zip(design.levels, part.thresholds, strict=True):
            if threshold == inf and level.advice is None and level.votes is not None:
                wanted = f"{float(level.confidence_level):g}"
                why = messages.of(design.message).why_infinite(design)
                yield (
                    f"{where}The threshold at level {wanted} is infinite, because"
                    f" {why}."
                )


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST_NAMES]) + (
        ", ..." if len(names) > _MOST_NAMES else ""
    )


# -- verify ----------------------------------------------------------------------------


def verify(
    calibration: Path,
    *,
    reports: list[Path] | None = None,
    signer: list[str] | None = None,
    json: bool = False,
) -> None:
    """Verify the claims of a calibration by independent computation."""
    claimed = _files.read(Calibration, calibration)
    sent, unreadable = _files.read_reports(reports) if reports else (None, [])
    _files.refuse_unreadable(unreadable)
    with working("verifying"):
        findings = audit.verify(claimed, sent, signers=signer or ())
    # A claim that could not be recomputed is not verified.
    verified = bool(findings) and all(finding.holds for finding in findings)
    if json:
        print_json(
            {"verified": verified, "findings": [vars(finding) for finding in findings]}
        )
        raise typer.Exit(0 if verified else 1)
    table(
        [
            {"claim": line.claim, "detail": line.detail, "holds": line.verdict}
            for line in findings
        ]
    )
    if sent is None and claimed.reports:
        paragraph(
            "The threshold itself can be verified with the reports: --reports FILE,"
            " once for each."
        )
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
