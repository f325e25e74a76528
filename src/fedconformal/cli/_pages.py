"""``fedconformal certificate`` and ``planner``: pages in a browser."""

from pathlib import Path
from typing import Annotated

import typer

from fedconformal.cli import _options as opt
from fedconformal.cli._show import say, working

_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")


def certificate(
    calibration: opt.CalibrationFile,
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML page to write.")] = Path(
        "certificate.html"
    ),
    check: Annotated[
        list[Path] | None,
        typer.Option(help="Checks of sites on later cases: files, or directories of them. Repeatable."),
    ] = None,
    fact: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=TEXT", help=f"A fact that the plan lacks: {opt.FACTS}. Repeatable."),
    ] = None,
    force: opt.Force = False,
) -> None:
    """Turn a calibration into a page for people: the promise, its assumptions and its cost."""
    from datetime import UTC, datetime

    from fedconformal import pages
    from fedconformal.cli import _parse
    from fedconformal.cli._files import check_output, deliver_text, expand, read
    from fedconformal.documents import Calibration, Check, Facts

    check_output(output, force=force)
    facts = _parse.terms("--fact", fact or [], tuple(Facts.model_fields))
    certified = read(Calibration, calibration)
    stated = (certified.plan.terms.facts or Facts()).with_more(facts).given
    if "date" not in stated:
        facts["date"] = datetime.now(UTC).date().isoformat()
    with working("verifying"):
        checks = [read(Check, path) for path in expand(check)] if check else []
        page = pages.certificate(certified, checks=checks, facts=facts)
    if absent := [name for name in Facts.model_fields if name not in {*stated, "unit", "date"}]:
        say(f"Not stated: {', '.join(absent)} (add with --fact NAME=TEXT).")
    deliver_text(page, output, force=force)


def planner(
    host: Annotated[
        str, typer.Option(help="Address to listen at; the default is this machine alone.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes any that is free.")] = 8484,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Another name that requests may call this server by.")
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Open a web page for planning with sliders."""
    from fedconformal import pages

    if host.lower() not in _THIS_MACHINE:
        say("Whoever can reach this machine can use the planner.")
    pages.serve(host=host, port=port, allow_hosts=allow_host or [], browse=browser, announce=_announce)


def _announce(address: str) -> None:
    print(f"planner: {address}", flush=True)
    say("Ctrl-C stops it.")
