"""``fedconformal certificate``, ``planner`` and ``page``: pages in a browser."""

from datetime import UTC, datetime
from pathlib import Path

import typer

from fedconformal import pages
from fedconformal._tables import read_table
from fedconformal.cli import _parse
from fedconformal.cli._files import (
    Output,
    expand,
    read,
    read_reports,
    refuse_unreadable,
)
from fedconformal.cli._predict import sets_of
from fedconformal.cli._show import say, working
from fedconformal.documents import Calibration, Check, Facts
from fedconformal.pages._answer import answer_page, page_digest
from fedconformal.pages._certificate import UnverifiedError

_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")


def certificate(
    calibration: Path,
    *,
    output: Path = Path("certificate.html"),
    reports: list[Path] | None = None,
    check: list[Path] | None = None,
    fact: list[str] | None = None,
    sets: Path | None = None,
    group: str | None = None,
    allow_unverified: bool = False,
    force: bool = False,
) -> None:
    """Turn a calibration into a page for people."""
    out = Output(output, force)
    out.check()
    facts = _parse.terms("--fact", fact or [], tuple(Facts.model_fields))
    certified = read(Calibration, calibration)
    stated = (certified.plan.terms.facts or Facts()).with_more(facts).given
    if "date" not in stated:
        facts["date"] = datetime.now(UTC).date().isoformat()
    sent, unreadable = read_reports(reports) if reports else (None, [])
    refuse_unreadable(unreadable)
    checks = [read(Check, path) for path in expand(check)] if check else []
    shown = (
        None if sets is None else sets_of(certified, read_table(sets), group=group)[2]
    )
    try:
        with working("verifying"):
            page = pages.certificate(
                certified,
                reports=sent,
                checks=checks,
                facts=facts,
                sets=shown,
                allow_unverified=allow_unverified,
            )
    except UnverifiedError as error:
        say(f"fedconformal: {error}")
        raise typer.Exit(1) from error
    absent = [
        name for name in Facts.model_fields if name not in {*stated, "unit", "date"}
    ]
    missing = [f"{', '.join(absent)} (--fact NAME=TEXT)"] if absent else []
    if sets is None:
        missing.append("sizes of the sets (--sets FILE)")
    if missing:
        say(f"Not stated: {', '.join(missing)}.")
    out.write(page)


def planner(
    folder: Path = Path(),
    *,
    host: str = "127.0.0.1",
    port: int = 8484,
    allow_host: list[str] | None = None,
    browser: bool = True,
) -> None:
    """Open a web page to plan, collect the answers, calibrate and check."""
    if host.lower() not in _THIS_MACHINE:
        say(
            "Whoever can reach this machine can use the planner, and read and write its"
            " documents here."
        )
    pages.serve(
        host=host,
        port=port,
        allow_hosts=allow_host or [],
        folder=folder,
        browse=browser,
        announce=_announce,
    )


def _announce(address: str) -> None:
    print(f"planner: {address}", flush=True)
    say("Ctrl-C stops it.")


def page(
    *, output: Path = Path("answer.html"), digest: bool = False, force: bool = False
) -> None:
    """Write the page in which a site answers a plan without Python."""
    content = answer_page()
    if digest:
        print(page_digest(content))
        return
    Output(output, force).write(content)
