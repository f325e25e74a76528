"""``fedconformal verify`` and ``certificate``, which both verify a calibration."""

from pathlib import Path
from typing import Annotated

import typer

from fedconformal._text import count
from fedconformal.cli._options import FactOption, Force, Json
from fedconformal.cli._show import paragraph, print_json, table, working


def verify(
    calibration: Annotated[Path, typer.Argument(help="The calibration to verify.")],
    reports: Annotated[
        list[Path] | None, typer.Option(help="Report files or directories: verifies the thresholds too.")
    ] = None,
    signer: Annotated[
        list[str] | None,
        typer.Option(help="Public key that must have signed the calibration; of several, one of them."),
    ] = None,
    json: Json = False,
) -> None:
    """Verify the claims of a calibration by independent computation."""
    from fedconformal import audit
    from fedconformal.cli._files import kept_reports, read, read_reports
    from fedconformal.documents import Calibration
    from fedconformal.protocol import everything_sentences

    claimed = read(Calibration, calibration)
    given, unreadable = read_reports(kept_reports(reports)) if reports else (None, [])
    if unreadable:
        raise ValueError("; ".join(f"{refusal.source}: {refusal.reason}" for refusal in unreadable))
    with working("verifying"):
        findings = audit.verify(claimed, given, signers=signer or ())
    # A claim that could not be recomputed is not verified.
    verified = bool(findings) and all(finding.holds for finding in findings)
    if json:
        print_json({"verified": verified, "findings": [finding.as_dict() for finding in findings]})
        raise typer.Exit(0 if verified else 1)
    table(["claim", "detail", "holds"], [[each.claim, each.detail, each.verdict] for each in findings])
    if given is None and claimed.reports:
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


def certificate(
    calibration: Annotated[Path, typer.Argument(help="The calibration to certify.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML page to write.")] = Path(
        "certificate.html"
    ),
    check: Annotated[
        list[Path] | None,
        typer.Option(help="Checks of sites on later cases: files, or directories of them. Repeatable."),
    ] = None,
    fact: FactOption = None,
    force: Force = False,
) -> None:
    """Turn a calibration into a page for people: the promise, its assumptions and its cost."""
    from fedconformal import web
    from fedconformal.cli import _parse
    from fedconformal.cli._files import check_output, deliver_text, expand, read
    from fedconformal.documents import Calibration, Check

    check_output(output, force=force)
    found = read(Calibration, calibration)
    with working("verifying"):
        checks = [read(Check, path) for path in expand(check)] if check else []
        page = web.certificate(found, checks=checks, facts=_parse.facts(fact or []))
    deliver_text(page, output, force=force)
