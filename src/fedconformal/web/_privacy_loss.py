"""What a privacy loss means for one case."""

import math
from decimal import ROUND_CEILING, Decimal

from fedconformal._text import ceiling_percent

_NEXT_TO_NOTHING = 7.0  # e to this power is more than a thousand


def factor_sentence(epsilon: float) -> str:
    """Say by which factor one case can change the probability of a report, rounded up.

    Parameters
    ----------
    epsilon : float
        The privacy loss.

    Returns
    -------
    str
        A sentence.
    """
    if epsilon > _NEXT_TO_NOTHING:
        return (
            f"A privacy loss ε of {epsilon:g} promises next to nothing: exchanging one case could make a "
            "report more than a thousand times as likely."
        )
    factor = Decimal(math.exp(epsilon)).quantize(Decimal("0.01"), rounding=ROUND_CEILING)
    return (
        f"Exchanging one case of a site for another makes any report at most {factor:,} times as likely or "
        f"unlikely (e to the power ε = {epsilon:g}): somebody who holds two versions of a case for equally "
        f"likely can be {ceiling_percent(_sure(epsilon))} sure which it was after reading the report, and no "
        "surer."
    )


def _sure(epsilon: float) -> float:
    """The most that an even chance between two cases can become, by Bayes' rule."""
    return 1 / (1 + math.exp(-epsilon))
