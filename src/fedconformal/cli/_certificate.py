"""``fedconformal certificate``."""

from pathlib import Path
from typing import Annotated

import typer

from fedconformal.cli._options import Effort, Force
from fedconformal.cli._show import working


def certificate(
    calibration: Annotated[Path, typer.Argument(help="The calibration to certify.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML page to write.")] = Path(
        "certificate.html"
    ),
    effort: Effort = 1.0,
    force: Force = False,
) -> None:
    """Turn a calibration into a page for people: what is promised, on what it rests, what it cost."""
    from fedconformal import web
    from fedconformal.cli._files import check_output, deliver_text, read
    from fedconformal.documents import Calibration

    check_output(output, force=force)
    found = read(Calibration, calibration)
    with working("recounting"):
        page = web.certificate(found, effort=effort)
    deliver_text(page, output, force=force)
