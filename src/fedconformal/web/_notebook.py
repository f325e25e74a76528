"""What notebooks show of plans and calibrations."""

from collections.abc import Iterator

from fedconformal._text import count, percent
from fedconformal.documents import Calibration, Document, Plan
from fedconformal.web._cases import in_cases
from fedconformal.web._html import Markup, listing, table, tag
from fedconformal.web.certificates import opening

_STYLE = """
.fedconformal-view { max-width: 46rem; line-height: 1.4; }
.fedconformal-view h1 { font-size: 1.15rem; margin: 0.4rem 0; }
.fedconformal-view h2 { font-size: 1rem; margin: 0.4rem 0; }
.fedconformal-view h3 { font-size: 0.95rem; margin: 0.2rem 0; }
.fedconformal-view p { margin: 0.3rem 0; }
.fedconformal-view code { font-size: 0.75rem; overflow-wrap: anywhere; }
.fedconformal-view .card { border: 1px solid; border-radius: 0.3rem; margin: 0.4rem 0; padding: 0.3rem; }
.fedconformal-view .value { font-weight: bold; margin-left: 0.5rem; overflow-wrap: anywhere; }
.fedconformal-view .value + .unit { margin-left: 0.4rem; }
.fedconformal-view .kicker { font-size: 0.8rem; opacity: 0.8; }
.fedconformal-view .scroll { overflow-x: auto; }
.fedconformal-view td, .fedconformal-view th { padding: 0 0.9rem 0.2rem 0; text-align: left; }
.fedconformal-view .visually-hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; }
"""
_MOST_GROUPS = 50


def notebook_view(document: Document) -> str | None:
    """Return what a notebook shows of a document.

    Parameters
    ----------
    document : Document
        A plan, or a calibration: then the first section of its certificate.

    Returns
    -------
    str or None
        HTML without scripts; None for other documents, of which a line is enough.

    Examples
    --------
    >>> import fedconformal as fc
    >>> "at least 90\N{NO-BREAK SPACE}% of new cases" in notebook_view(fc.plan(n_sites=10, n_points=79))
    True
    """
    if isinstance(document, Calibration):
        if document.published is not document:  # one group is no document of its own
            return None
        return _page(opening(document))
    return _page(*_plan(document)) if isinstance(document, Plan) else None


def _page(*content: Markup) -> Markup:
    return tag("div", tag("style", Markup(_STYLE)), *content, class_="fedconformal-view")


def _plan(plan: Plan) -> Iterator[Markup]:
    """Whom the plan asks for what, what that gives, and what stands in the way."""
    yield tag("p", "Plan", class_="kicker")
    plans = list(plan.by_label.values())[:_MOST_GROUPS] if plan.is_grouped else [plan]
    where = " in each group" if plan.is_grouped else ""
    for sentence in dict.fromkeys(each for alone in plans for each in _promises(alone, where)):
        yield tag("h1", sentence)
    headers = ["group"] * plan.is_grouped + ["level", "sites", "votes needed", "mean coverage"]
    yield table(headers, _rows(plan), numbers=headers[-1:], caption="what is planned for each level")
    if len(plan.labels) > _MOST_GROUPS:
        yield tag("p", f"The first {_MOST_GROUPS} of {count(len(plan.labels), 'group')}.")
    if plan.notes:
        yield listing("ul", map(in_cases, plan.notes))
    yield tag("p", "Digest ", tag("code", plan.digest))


def _promises(plan: Plan, where: str) -> Iterator[str]:
    promise, criterion = plan.promise_object(), plan.criterion_object()
    for level in plan.levels:
        if level.advice is None:
            said = promise.sentence(criterion, level.confidence_level, plan.delta, where)
            is_conditional = promise.pools and promise.condition
            yield f"{said.removesuffix('.')}, {promise.condition}." if is_conditional else said
        else:
            yield f"At {percent(level.confidence_level)} no finite threshold keeps the promise."


def _rows(plan: Plan) -> Iterator[list[str]]:
    for label, alone in list(plan.by_label.items())[:_MOST_GROUPS] if plan.is_grouped else [("", plan)]:
        sites = "any" if alone.n_sites is None else f"{alone.n_sites:,}"
        for i, level in enumerate(alone.levels):
            votes = "open" if level.server_rank is None else f"{level.server_rank:,}"
            mean = "" if alone.laws is None else f"{alone.laws[i].mean():.4f}"
            yield [label] * plan.is_grouped + [percent(level.confidence_level), sites, votes, mean]
