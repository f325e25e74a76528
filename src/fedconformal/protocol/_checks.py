"""Whether a plan makes sense: its structure, and whether its message can keep its promise."""

from fedconformal.documents import Plan
from fedconformal.messages import PROMISED, of
from fedconformal.planning import CRITERIA, PROMISES


def check_plan(plan: Plan) -> None:
    """Refuse a plan that nobody should answer or calibrate, whoever wrote it.

    Parameters
    ----------
    plan : Plan
        The plan.

    Raises
    ------
    ValueError
        With the reason in one line.

    Examples
    --------
    >>> import fedconformal as fc
    >>> fc.protocol.check_plan(fc.plan(n_sites=3, n_points=40))
    """
    plan.check()
    for design in plan.designs:
        promise, criterion = PROMISES[design.promise], CRITERIA[design.criterion]
        if (design.delta is not None) != criterion.takes_delta:
            raise ValueError(f"delta does not fit the criterion {design.criterion!r}")
        if plan.is_grouped and not promise.allows_groups:
            raise ValueError(f"promise {design.promise!r} does not go with groups: it is a plan of its own")
        if not promise.takes_mixture and any(kind.share is not None for kind in design.kinds):
            raise ValueError("a share of new cases goes with a promise to a mixture")
        kind = design.message.kind
        if design.promise not in PROMISED.get(kind, (design.promise,)) and any(
            design.promise in row for row in PROMISED.values()
        ):
            raise ValueError(f"promise {design.promise!r} does not go with the message {kind!r}")
        of(design.message).check(design)
