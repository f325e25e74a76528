"""``fedconformal certificate``."""

from pathlib import Path
from typing import Annotated

import typer

from fedconformal.cli._options import Effort, Force
from fedconformal.cli._show import say, working


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
    from fedconformal._outputs import write_text
    from fedconformal.cli._files import check_output
    from fedconformal.documents import Calibration

    check_output(output, force=force)
    found = Calibration.read(calibration)
    with working("recounting"):
        page = web.certificate(found, effort=effort)
    write_text(output, page, force=force)
    say(f"wrote {output}")
