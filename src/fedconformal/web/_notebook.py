"""Views of plans and calibrations in notebooks."""

from collections.abc import Iterator

from fedconformal import messages
from fedconformal._extras import MissingExtraError
from fedconformal._text import percent
from fedconformal.documents import Calibration, Design, Document, Plan
from fedconformal.planning import CRITERIA, PROMISES
from fedconformal.web._certificate import opening
from fedconformal.web._render import read_asset, render
from fedconformal.web._words import in_cases

_MOST_GROUPS = 50


def notebook_view(document: Document) -> str | None:
    """Return what a notebook shows of a plan or a calibration.

    Parameters
    ----------
    document : Document
        A plan, or a calibration: then the first section of its certificate.

    Returns
    -------
    str or None
        HTML without scripts; None for other documents and where Jinja2 is not installed: then a line of text
        is shown.

    Examples
    --------
    >>> import fedconformal as fc
    >>> view = fc.web.notebook_view(fc.plan(n_sites=10, n_points=79))
    >>> "at least 90\N{NO-BREAK SPACE}% of new cases" in view
    True
    """
    style = read_asset("notebook.css")
    try:
        if isinstance(document, Plan):
            return _plan_view(document, style)
        if isinstance(document, Calibration):
            return render("notebook.html", plan=None, style=style, **opening(document))
    except MissingExtraError:
        pass
    return None


def _plan_view(plan: Plan, style: str) -> str:
    """Return the promises, votes and mean coverages of a plan, and what stands in the way."""
    designs = plan.designs[:_MOST_GROUPS]
    where = " in each group" if plan.is_grouped else ""
    return render(
        "notebook.html",
        plan=plan,
        style=style,
        promises=list(dict.fromkeys(each for design in designs for each in _promises(design, where))),
        headers=["group"] * plan.is_grouped + ["level", "sites", "votes needed", "mean coverage"],
        rows=[[design.group] * plan.is_grouped + row for design in designs for row in _rows(design)],
        most_groups=_MOST_GROUPS,
        notes=list(map(in_cases, plan.notes)),
    )


def _promises(design: Design, where: str) -> Iterator[str]:
    promise, criterion = PROMISES[design.promise](), CRITERIA[design.criterion]()
    delta = None if design.delta is None else float(design.delta)
    for level in design.levels:
        asked = float(level.confidence_level)
        if level.advice is None:
            sentence = promise.sentence(criterion, asked, delta, where)
            is_conditional = promise.pools and promise.condition
            yield f"{sentence.removesuffix('.')}, {promise.condition}." if is_conditional else sentence
        else:
            yield f"At {percent(asked)} no finite threshold satisfies the promise."


def _rows(design: Design) -> Iterator[list[str]]:
    sites = "any" if design.n_sites is None else f"{design.n_sites:,}"
    for place, level in enumerate(design.levels):
        votes = "open" if level.votes is None else f"{level.votes:,}"
        yield [percent(float(level.confidence_level)), sites, votes, _mean(design, place)]


def _mean(design: Design, place: int) -> str:
    """Return the mean coverage, or the bound of it that is guaranteed; empty while it is unknown."""
    law = messages.law(design, place)
    if law is not None:
        return f"{'≥ ' if messages.of(design.message).is_bound(design) else ''}{law.mean():.4f}"
    guarantee = messages.guarantee(design, place)
    return "" if guarantee is None or guarantee.mean is None else f"≥ {guarantee.mean:.4f}"
