"""How much the coverage varies from one calibration to the next, for people."""

import math

from fedconformal._text import floor_percent
from fedconformal.laws import Summary


def low_sentence(law: Summary, among: str = "") -> str:
    """Say which coverage all but one in 20 calibrations reach.

    Parameters
    ----------
    law : Summary
        The law of the coverage, or a bound of it.
    among : str
        Where the share covered is meant, as a promise says it: ``" at any one site"``.

    Returns
    -------
    str
        A sentence; its figure is rounded down.
    """
    if law.is_certain:
        return "The coverage is 100 %, because every prediction set holds everything."
    return (
        f"In at least 19 of 20 calibrations like this one, the share covered{among} is "
        f"{floor_percent(law.low)} or more."
    )


def spread_ratio(law: Summary, pooled: Summary) -> float | None:
    """Return how much a coverage spreads round its level, compared with that of pooling all cases.

    Parameters
    ----------
    law : Summary
        The law of the coverage, or a bound of it.
    pooled : Summary
        The law that all cases in one place would give.

    Returns
    -------
    float or None
        The root mean square distance of the coverage from its level, over that of the pooled coverage; None
        where either does not vary.
    """
    if law.is_certain or pooled.is_certain:
        return None
    ours, theirs = (math.hypot(each.std, each.mean - each.confidence_level) for each in (law, pooled))
    return ours / theirs


def equivalent_pool(law: Summary) -> int | None:
    """Return how many pooled cases would vary as much: a Beta law of this mean has variance p(1-p)/(N+2).

    Parameters
    ----------
    law : Summary
        The law of the coverage, or a bound of it.

    Returns
    -------
    int or None
        None where the coverage does not vary.
    """
    mean = law.mean
    return None if law.is_certain else max(1, round(mean * (1 - mean) / law.std**2) - 2)
