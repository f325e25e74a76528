"""``fedconformal verify``."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedconformal._text import count
from fedconformal.cli._options import Effort, Json
from fedconformal.cli._show import paragraph, print_json, table, working

if TYPE_CHECKING:
    from fedconformal.audit import Finding
    from fedconformal.documents import Report


def verify(
    calibration: Annotated[Path, typer.Argument(help="The calibration to verify.")],
    reports: Annotated[
        list[Path] | None, typer.Option(help="Report files or directories: verifies the thresholds too.")
    ] = None,
    signer: Annotated[
        list[str] | None,
        typer.Option(help="Public key that must have signed the calibration; of several, one of them."),
    ] = None,
    effort: Effort = 1.0,
    json: Json = False,
) -> None:
    """Recompute the claim of a calibration by an independent path."""
    from fedconformal import audit
    from fedconformal.cli._files import read
    from fedconformal.documents import Calibration, everything_sentences

    claimed, given = read(Calibration, calibration), _given(reports)
    with working("recounting"):
        findings = audit.verify(claimed, given, signers=signer or (), effort=effort)
    verified = _is_verified(findings)
    if json:
        print_json({"verified": verified, "findings": [finding.as_dict() for finding in findings]})
    else:
        _show(findings, can_do_more=given is None and bool(claimed.reports))
        for sentence in everything_sentences(claimed):
            paragraph(sentence)
    raise typer.Exit(0 if verified else 1)


def _given(files: list[Path] | None) -> "list[Report] | None":
    """The reports that an auditor has, if any; one that cannot be read is an error."""
    from fedconformal.cli._files import kept_reports, read_reports

    if not files:
        return None
    given, unreadable = read_reports(kept_reports(files))
    if unreadable:
        raise ValueError("; ".join(f"{refusal.source}: {refusal.reason}" for refusal in unreadable))
    return given


def _is_verified(findings: Sequence["Finding"]) -> bool:
    """Whether every claim holds: what could not be counted again is not vouched for."""
    return bool(findings) and all(finding.holds for finding in findings)


def _show(findings: Sequence["Finding"], *, can_do_more: bool) -> None:
    rows = [[finding.claim, finding.found, finding.verdict] for finding in findings]
    table(["claim", "found", "holds"], rows)
    if can_do_more:
        paragraph("The threshold itself can be verified with the reports: --reports FILE, once for each.")
    left = sum(finding.holds is None for finding in findings)
    if _is_verified(findings):
        print("verified")
    elif left and not any(finding.holds is False for finding in findings):
        print(f"not verified: this auditor could not count {count(left, 'claim')}")
    else:
        print("not verified")
