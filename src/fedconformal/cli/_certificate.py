"""``fedconformal certificate``."""

from pathlib import Path
from typing import Annotated

import typer

from fedconformal.cli._options import Effort, FactOption, Force
from fedconformal.cli._show import working


def certificate(
    calibration: Annotated[Path, typer.Argument(help="The calibration to certify.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML page to write.")] = Path(
        "certificate.html"
    ),
    check: Annotated[
        list[Path] | None,
        typer.Option(help="What a site found on later cases: files of checks, or directories. Repeatable."),
    ] = None,
    fact: FactOption = None,
    effort: Effort = 1.0,
    force: Force = False,
) -> None:
    """Turn a calibration into a page for people: what is promised, on what it rests, what it cost."""
    from fedconformal import web
    from fedconformal.cli import _parse
    from fedconformal.cli._files import check_output, deliver_text, expand, read
    from fedconformal.documents import Calibration, Check

    check_output(output, force=force)
    found = read(Calibration, calibration)
    with working("recounting"):
        checks = [read(Check, path) for path in expand(check)] if check else []
        page = web.certificate(found, checks=checks, facts=_parse.facts(fact or []), effort=effort)
    deliver_text(page, output, force=force)
