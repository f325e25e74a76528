"""A calibration as one page that convinces without a terminal: plain words, then numbers, then formulas."""

from collections.abc import Mapping, Sequence

from fedconformal._version import __version__
from fedconformal.audit import verify
from fedconformal.documents import Calibration, Check, Facts
from fedconformal.heterogeneity import assess
from fedconformal.web._assets import read_asset
from fedconformal.web._html import Markup, tag
from fedconformal.web.certificates._assumptions import assumptions
from fedconformal.web.certificates._budget import Budget
from fedconformal.web.certificates._checks import checks as later_checks
from fedconformal.web.certificates._claim import Certified
from fedconformal.web.certificates._cost import cost
from fedconformal.web.certificates._facts import facts as fact_box
from fedconformal.web.certificates._facts import signatures
from fedconformal.web.certificates._findings import findings
from fedconformal.web.certificates._formulas import formulas
from fedconformal.web.certificates._law import law
from fedconformal.web.certificates._promise import header, promise
from fedconformal.web.certificates._sites import short, sites
from fedconformal.web.certificates._words import Glossary

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_SECTIONS = (
    header,
    fact_box,
    promise,
    cost,
    assumptions,
    law,
    later_checks,
    sites,
    findings,
    formulas,
)


class NotVerifiedError(ValueError):
    """A calibration whose claim does not hold when it is counted again: it gets no certificate."""


def certificate(
    calibration: Calibration,
    *,
    checks: Sequence[Check] = (),
    facts: Mapping[str, str] | None = None,
    effort: float = 1.0,
) -> str:
    """Return a page that says what a calibration promises.

    The claim is recounted first, with the auditor's own code. The page carries the calibration itself, so
    that whoever holds it can check it.

    Parameters
    ----------
    calibration : Calibration
        With groups of points or without.
    checks : sequence of Check
        What sites found on later cases, to be shown.
    facts : mapping from str to str, optional
        Facts beside those that the plan tells: ``model``, ``purpose``, ``date`` and so on, as in `plan`.
    effort : float
        What would take longer than about a second is not recounted, and its law is not shown; this is by how
        much longer it may take.

    Returns
    -------
    str
        HTML without scripts or anything from elsewhere.

    Raises
    ------
    NotVerifiedError
        If a claim does not hold. A claim that the auditor could not count is no reason; the page says so.
    ValueError
        If checks are of another calibration, or facts contradict the plan's.

    Examples
    --------
    >>> import fedconformal as fc
    >>> chosen = fc.plan(n_sites=3, n_points=19)
    >>> reports = [fc.report(chosen, range(19), site=name) for name in "ABC"]
    >>> fc.web.certificate(fc.calibrate(chosen, reports)).splitlines()[0]
    '<!doctype html>'
    """
    found = verify(calibration, effort=effort)
    if wrong := [finding for finding in found if finding.holds is False]:
        first = wrong[0]
        raise NotVerifiedError(
            f"this calibration gets no certificate, its claim does not hold: {first.claim}: {first.found}"
        )
    told = (calibration.plan.facts or Facts()).with_more(facts or {})
    assessed = assess(calibration, list(checks)) if checks else None
    certified = Certified(calibration, found, Budget(effort), told, assessed)
    glossary = Glossary()
    sections = [glossary.explain(make(certified)) for make in _SECTIONS]
    main = tag("main", *sections, glossary.section(), signatures(certified))
    return f"<!doctype html>\n{tag('html', _head(calibration), tag('body', main), lang='en')}\n"


def _head(calibration: Calibration) -> Markup:
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="generator", content=f"fedconformal {__version__}"),
        tag("title", f"Calibration certificate {short(calibration.digest)}"),
        tag(
            "style",
            Markup("\n".join([*map(read_asset, ("common.css", "certificate.css")), _footer(calibration)])),
        ),
    )


def _footer(calibration: Calibration) -> str:
    """The digest and the page's number at the foot of every printed page; a digest has nothing to escape."""
    return (
        f'@page {{ @bottom-left {{ content: "{calibration.digest}"; font: 7pt monospace; }} '
        '@bottom-right { content: counter(page) " / " counter(pages); font: 8pt sans-serif; } }'
    )
