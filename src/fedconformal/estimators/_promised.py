"""Checks that a calibration from elsewhere promises what an estimator asks for."""

import math
from collections.abc import Mapping

from fedconformal import messages
from fedconformal.documents import Calibration, CalibrationPart, Design, Plan
from fedconformal.laws import MEAN_ERROR
from fedconformal.planning import CRITERIA, PROMISES
from fedconformal.privacy import Privacy

_SHARE_ERROR = 1e-6


def level_places(asked: Design, calibration: Calibration) -> list[int]:
    """Return the places of the levels asked for in a calibration, or refuse one that promises less."""
    given, wanted = calibration.plan.confidence_levels, asked.confidence_levels
    if not set(wanted) <= set(given):
        raise ValueError(
            f"confidence_level must be among those of the calibration, {list(given)}, got {list(wanted)}"
        )
    places = [given.index(level) for level in wanted]
    for part in calibration.parts:
        if not all(_is_promised(asked, part, place) for place in places):
            raise ValueError(
                f"the calibration promises less than is asked for: {_terms(part.design)} instead of "
                f"{_terms(asked)}"
            )
    return places


def check_mixture(shares: Mapping[str, float] | None, plan: Plan) -> None:
    """Refuse a calibration for another mixture of sites than these shares, if there are any."""
    if shares is None:
        return
    planned = None if plan.is_grouped else plan.mixture
    given = planned if isinstance(planned, dict) else {}
    whole = sum(shares.values())
    if given.keys() != shares.keys() or any(
        abs(shares[site] / whole - float(share)) > _SHARE_ERROR for site, share in given.items()
    ):
        raise ValueError(f"mixture must be that of the calibration, got {dict(shares)!r}")


def check_privacy(wanted: Privacy | None, plan: Plan) -> None:
    """Refuse reports that were less private than is asked for."""
    if wanted is None:
        return
    for design in plan.designs:
        epsilon = messages.of(design.message).epsilon(design)
        if epsilon is None or epsilon > wanted.exact_epsilon:
            given = "exact reports" if epsilon is None else f"an epsilon of {float(epsilon):g}"
            raise ValueError(
                f"privacy asks for an epsilon of {wanted.epsilon:g}, and the calibration has {given}"
            )


def _is_promised(asked: Design, part: CalibrationPart, place: int) -> bool:
    """Return whether one group of a calibration promises as much at one of its levels."""
    given = part.design
    # If all cases are of one population, a promise to any of the sites is a promise to it.
    is_same = given.promise == asked.promise
    if given.max_faulty < asked.max_faulty or not (is_same or PROMISES[asked.promise].pools):
        return False
    if is_same and given.criterion == asked.criterion:
        return (given.delta or 0) <= (asked.delta or 0)
    if part.thresholds[place] == math.inf:
        return True
    law, guarantee = messages.law(given, place), messages.guarantee(given, place)
    if law is None:
        return False
    criterion, level = CRITERIA[asked.criterion](), given.confidence_levels[place]
    if criterion.is_mean:  # where noise bounds the distribution, its mean is bounded more closely
        return bool(guarantee.mean >= level - MEAN_ERROR)
    return criterion.follows_from(law, level, None if asked.delta is None else float(asked.delta))


def _terms(design: Design) -> str:
    delta = "" if design.delta is None else f", delta={float(design.delta):g}"
    return (
        f"promise={design.promise!r}, criterion={design.criterion!r}{delta}, max_faulty={design.max_faulty}"
    )
