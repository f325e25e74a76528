"""What coverage beyond the level costs in width, by an example: nobody sends the scores that decide it."""

import math

from scipy import special

from fedconformal._text import ceiling_percent, percent

_MOST_TIMES = 100


def width_ratio(covered: float, level: float) -> float:
    """Return how much wider intervals are that cover more, if errors follow a bell curve.

    Parameters
    ----------
    covered : float
        What they cover.
    level : float
        What was asked for.

    Returns
    -------
    float
        At least 1; infinite where everything is covered, or next to nothing was asked for.
    """
    if covered <= level:
        return 1.0
    wide, asked = (float(special.ndtri((1 + share) / 2)) for share in (covered, level))
    return max(1.0, wide / asked) if asked > 0 else math.inf


def times_as_wide(covered: float, level: float) -> str:
    """Return the ratio in words, rounded up.

    Parameters
    ----------
    covered : float
        What intervals cover.
    level : float
        What was asked for.

    Returns
    -------
    str
        As in "1.13 times as wide".
    """
    ratio = width_ratio(covered, level)
    if ratio > _MOST_TIMES:
        return "many times as wide"
    return f"{math.ceil(100 * ratio - 1e-9) / 100:.2f} times as wide"


def width_sentence(covered: float, level: float) -> str:
    """Say what covering more than was asked for costs in width.

    Parameters
    ----------
    covered : float
        What is to be expected.
    level : float
        What was asked for.

    Returns
    -------
    str
        A sentence.
    """
    return (
        f"If errors follow a bell curve, intervals that cover {ceiling_percent(covered)} are "
        f"{times_as_wide(covered, level)} as those that cover {percent(level)}; with more large errors than "
        "that, the difference is larger."
    )
