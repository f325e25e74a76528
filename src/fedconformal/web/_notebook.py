"""Views of plans and calibrations in notebooks."""

from collections.abc import Iterator

from fedconformal._extras import MissingExtraError
from fedconformal._text import percent
from fedconformal.documents import Calibration, Document, Plan
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
    >>> "at least 90\N{NO-BREAK SPACE}% of new cases" in notebook_view(fc.plan(n_sites=10, n_points=79))
    True
    """
    style = read_asset("notebook.css")
    try:
        if isinstance(document, Plan):
            return _plan_view(document, style)
        if isinstance(document, Calibration) and document.published is document:  # not one group alone
            return render("notebook.html", plan=None, style=style, **opening(document))
    except MissingExtraError:
        pass
    return None


def _plan_view(plan: Plan, style: str) -> str:
    """Return the promises, votes and mean coverages of a plan, and what stands in the way."""
    plans = dict(list(plan.by_label.items())[:_MOST_GROUPS]) if plan.is_grouped else {"": plan}
    where = " in each group" if plan.is_grouped else ""
    return render(
        "notebook.html",
        plan=plan,
        style=style,
        promises=list(dict.fromkeys(each for alone in plans.values() for each in _promises(alone, where))),
        headers=["group"] * plan.is_grouped + ["level", "sites", "votes needed", "mean coverage"],
        rows=[[label] * plan.is_grouped + row for label, alone in plans.items() for row in _rows(alone)],
        most_groups=_MOST_GROUPS,
        notes=list(map(in_cases, plan.notes)),
    )


def _promises(plan: Plan, where: str) -> Iterator[str]:
    promise, criterion = plan.promise_object(), plan.criterion_object()
    for level in plan.levels:
        if level.advice is None:
            sentence = promise.sentence(criterion, level.confidence_level, plan.delta, where)
            is_conditional = promise.pools and promise.condition
            yield f"{sentence.removesuffix('.')}, {promise.condition}." if is_conditional else sentence
        else:
            yield f"At {percent(level.confidence_level)} no finite threshold keeps the promise."


def _rows(plan: Plan) -> Iterator[list[str]]:
    sites = "any" if plan.n_sites is None else f"{plan.n_sites:,}"
    for i, level in enumerate(plan.levels):
        votes = "open" if level.server_rank is None else f"{level.server_rank:,}"
        mean = "" if plan.laws is None else f"{plan.laws[i].mean():.4f}"
        yield [percent(level.confidence_level), sites, votes, mean]
