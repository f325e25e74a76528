"""A calibration as one page that convinces without a terminal: plain words, then numbers, then formulas."""

from importlib import resources

from fedconformal._version import __version__
from fedconformal.audit import verify
from fedconformal.documents import Calibration
from fedconformal.pages import _evidence as evidence
from fedconformal.pages import _plain as plain
from fedconformal.pages._html import Markup, tag
from fedconformal.pages._subject import Subject, short

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


class NotVerifiedError(ValueError):
    """A calibration whose claim does not hold when it is counted again: it gets no certificate."""


def certificate(calibration: Calibration) -> str:
    """One HTML page, without scripts or anything from elsewhere, that says what a calibration promises.

    The claim is recounted first, with the auditor's own code; a calibration whose claim does not hold gets no
    certificate. The page carries the calibration itself, so that whoever holds it can check it.
    """
    checks = verify(calibration)
    if failed := [check for check in checks if not check.passed]:
        raise NotVerifiedError(
            f"this calibration gets no certificate, its claim does not hold: {failed[0].name}: "
            f"{failed[0].found}"
        )
    it = Subject(calibration, checks)
    sections = (
        plain.header(it),
        plain.promise(it),
        plain.cost(it),
        plain.assumptions(it),
        evidence.law(it),
        evidence.sites(it),
        evidence.check(it),
        evidence.formulas(it),
    )
    page = tag("html", _head(calibration), tag("body", tag("main", *sections)), lang="en")
    return f"<!doctype html>\n{page}\n"


def _head(calibration: Calibration) -> Markup:
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="generator", content=f"fedconformal {__version__}"),
        tag("title", f"Calibration certificate {short(calibration.digest)}"),
        tag("style", Markup(_style())),
    )


def _style() -> str:
    assets = resources.files("fedconformal.pages") / "assets"
    return "\n".join((assets / name).read_text("utf-8") for name in ("common.css", "certificate.css"))
