"""A calibration as a page for people."""

from pathlib import Path

from fedconformal._outputs import write_text
from fedconformal.cli._show import say, working
from fedconformal.documents import Calibration
from fedconformal.pages import certificate


def write_certificate(path: Path, output: Path, *, force: bool) -> None:
    """Recount the claim, then write the page."""
    calibration = Calibration.read(path)
    with working("recounting"):
        page = certificate(calibration)
    write_text(output, page, force=force)
    say(f"wrote {output}")
