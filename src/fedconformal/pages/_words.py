"""Numbers and promises in plain words, never stronger than they are: lower bounds are rounded down."""

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

from fedconformal.laws import Summary

_SPACE = "\N{NO-BREAK SPACE}"


def percent(value: float) -> str:
    """A number that somebody chose, as they wrote it: 0.9 is "90 %"."""
    text = f"{Decimal(str(value)) * 100:f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}{_SPACE}%"


def floor_percent(value: float, *, digits: int = 1) -> str:
    """A lower bound, rounded down: 0.87269 is "87.2 %"."""
    return _percent(value, digits, ROUND_FLOOR)


def ceiling_percent(value: float, *, digits: int = 1) -> str:
    """An upper bound, rounded up."""
    return _percent(value, digits, ROUND_CEILING)


def nearest_percent(value: float, *, digits: int = 1) -> str:
    """A figure that bounds nothing."""
    return _percent(value, digits, ROUND_HALF_EVEN)


def _percent(value: float, digits: int, rounding: str) -> str:
    # Fifteen digits are what a probability is good for: 0.29 * 100 must not become 28.9.
    exact = Decimal(f"{value:.15g}") * 100
    return f"{exact.quantize(Decimal(1).scaleb(-digits), rounding=rounding)}{_SPACE}%"


def threshold_text(value: float) -> str:
    """A threshold with all its digits, so that nobody uses a rounded one."""
    return "infinite" if value == math.inf else repr(value)


def count(number: int, singular: str, plural: str | None = None) -> str:
    """1 site, 2 sites, 10,000 sites."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def listed(names: Sequence[str]) -> str:
    """A, B and C."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""


EVERYBODY = "new cases"
EACH_SITE = "the new cases of every site that answered"


def promise(confidence_level: float, criterion: str, delta: float | None, whose: str = EVERYBODY) -> str:
    """What is promised to somebody who has never heard of conformal prediction."""
    level = percent(confidence_level)
    if criterion == "conditional":
        return (
            f"With {certainty(delta)} certainty, the truth lies inside the prediction set for at least "
            f"{level} of {whose}."
        )
    return f"On average, the truth lies inside the prediction set for at least {level} of {whose}."


def certainty(delta: float | None) -> str:
    """One minus the probability of bad luck that was allowed."""
    return percent(float(1 - Decimal(str(delta))))


def average_of_what(criterion: str) -> str:
    """What the average, or the certainty, runs over."""
    return (
        "The certainty is over the luck of which calibration cases the sites happened to have."
        if criterion == "conditional"
        else "The average is over new cases and over the luck of which calibration cases the sites happened "
        "to have; a single calibration may give somewhat more or less."
    )


def luck(summary: Summary, whose: str = EVERYBODY) -> str:
    """How unlucky a calibration may be."""
    if summary.is_certain:
        return "The coverage is 100 %, because every prediction set holds everything."
    return (
        f"In at least 19 of 20 calibrations like this one, the share covered"
        f"{' at any one site' if whose == EACH_SITE else ''} is "
        f"{floor_percent(summary.unlucky)} or more."
    )


def set_rule(score: str | None) -> str:
    """How a prediction becomes a set, by the name of the score."""
    rules = {
        "absolute": "Around a prediction, the set is the interval from prediction − q to prediction + q.",
        "normalized": "The set is the interval from prediction − q·scale to prediction + q·scale, where "
        "scale is the model’s own estimate of its error.",
        "cqr": "The set is the interval between the model’s two quantiles, widened by q on either side.",
        "lac": "The set holds every label whose predicted probability is at least 1 − q.",
        "aps": "The set holds the labels, from the most probable down, whose summed probability is at "
        "most q.",
        "raps": "The set holds the labels, from the most probable down, whose summed probability, with a "
        "penalty for long sets, is at most q.",
    }
    return rules.get(score or "", "Which score the sites used is not part of the plan; ask the coordinator.")


def privacy_factor(epsilon: float) -> str:
    """What epsilon means for one record, its factor rounded up."""
    if epsilon > 7:
        return (
            f"A privacy loss ε of {epsilon:g} promises next to nothing: exchanging one record could make a "
            "report more than a thousand times as likely."
        )
    factor = Decimal(math.exp(epsilon)).quantize(Decimal("0.01"), rounding=ROUND_CEILING)
    return (
        f"Exchanging one record of a site for another makes any report at most {factor:,} times as likely or "
        f"unlikely (e to the power ε = {epsilon:g})."
    )


def equivalent_pool(summary: Summary) -> int | None:
    """How many pooled points would spread as much: a Beta law with this mean has variance p(1-p)/(N+2)."""
    mean = summary.mean
    return None if summary.is_certain else max(1, round(mean * (1 - mean) / summary.std**2) - 2)
