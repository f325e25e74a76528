"""Whether a calibration from elsewhere promises what an estimator asks for."""

import math
from collections.abc import Mapping
from fractions import Fraction

from fedconformal.documents import Calibration, Plan
from fedconformal.privacy import Privacy

_SHARE_ERROR = 1e-6


def level_places(asked: Plan, calibration: Calibration) -> list[int]:
    """Where the levels that are asked for stand in a calibration; a ValueError if it promises less."""
    given, wanted = calibration.plan.confidence_levels, asked.confidence_levels
    if not set(wanted) <= set(given):
        raise ValueError(
            f"confidence_level must be among those of the calibration, {list(given)}, got {list(wanted)}"
        )
    places = [given.index(level) for level in wanted]
    for found in calibration.by_label.values() if calibration.plan.is_grouped else (calibration,):
        if not all(_is_promised(asked, found, place) for place in places):
            raise ValueError(
                f"the calibration promises less than is asked for: {_terms(found.plan)} instead of "
                f"{_terms(asked)}"
            )
    return places


def check_mixture(shares: Mapping[str, float] | None, given: Plan) -> None:
    """A ValueError if a calibration is for another mixture of sites than these shares, if there are any."""
    if shares is None:
        return
    planned = given.mixture
    found = planned if isinstance(planned, dict) else {}
    whole = sum(shares.values())
    if found.keys() != shares.keys() or any(
        abs(shares[site] / whole - float(share)) > _SHARE_ERROR for site, share in found.items()
    ):
        raise ValueError(f"mixture must be that of the calibration, got {dict(shares)!r}")


def check_privacy(wanted: Privacy | None, given: Plan) -> None:
    """A ValueError if reports were less private than is asked for."""
    if wanted is None:
        return
    cost = given.epsilon
    if cost is None or cost > Fraction(str(float(wanted.epsilon))):
        found = "exact reports" if cost is None else f"an epsilon of {float(cost):g}"
        raise ValueError(
            f"privacy asks for an epsilon of {wanted.epsilon:g}, and the calibration has {found}"
        )


def _is_promised(asked: Plan, found: Calibration, place: int) -> bool:
    """Whether a calibration without groups promises as much at one of its levels."""
    given = found.plan
    if given.max_faulty < asked.max_faulty or not _covers_the_same_points(asked, given):
        return False
    if (
        given.promise_object() == asked.promise_object()
        and given.criterion_object() == asked.criterion_object()
    ):
        return (given.delta or 0) <= (asked.delta or 0)
    if found.levels[place].threshold == math.inf:
        return True
    if not found.has_law:
        return False
    level = given.confidence_levels[place]
    return asked.criterion_object().follows_from(found.laws[place], level, asked.delta)


def _covers_the_same_points(asked: Plan, given: Plan) -> bool:
    # If all points are of one population, a promise to any of the sites is a promise to it.
    return asked.promise_object().pools or asked.promise_object() == given.promise_object()


def _terms(plan: Plan) -> str:
    delta = "" if plan.delta is None else f", delta={plan.delta:g}"
    return f"promise={plan.promise!r}, criterion={plan.criterion!r}{delta}, max_faulty={plan.max_faulty}"
