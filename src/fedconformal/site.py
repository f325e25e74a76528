"""A site's whole job: scores in, one number out."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal.documents import Plan, Report

if TYPE_CHECKING:
    from fedconformal.signing import SigningKey


def report(
    plan: Plan, scores: ArrayLike, *, site: str, key: "SigningKey | None" = None, in_place: bool = False
) -> Report:
    """Answer a plan: find the rank for this site's number of scores and send the score of that rank.

    The returned Report is everything that leaves the site: its name, how many scores it has, the rank, and
    for each confidence level one score (Infinity where the rank is above the number of scores).

    Parameters
    ----------
    plan : the plan to answer.
    scores : the site's calibration scores, any order. Integers are taken as they are, +inf is allowed, NaN
        is refused.
    site : the site's name.
    key : signs the report, where the plan asks for it.
    in_place : select inside ``scores`` itself, leaving it shuffled; saves a copy of a very large array.
    """
    values = _scores(scores)
    ranks = plan.ranks_for(values.size, site=site)
    answer = Report(
        plan=plan.digest,
        site=site,
        n=values.size,
        ranks=ranks,
        values=smallest(values, ranks, in_place=in_place),
    )
    return answer if key is None else key.sign(answer)


def smallest(
    values: np.ndarray[Any, np.dtype[np.floating[Any]]], ranks: tuple[int, ...], *, in_place: bool = False
) -> tuple[float, ...]:
    """The scores of these ranks, in one linear-time selection; +inf for a rank above their number."""
    places = sorted({rank - 1 for rank in ranks if rank <= values.size})
    if places:
        # Floats are ordered after selection only at these places, which is all that is needed.
        if in_place:
            values.partition(places)
        else:
            values = np.partition(values, places)
    return tuple(float(values[rank - 1]) if rank <= values.size else math.inf for rank in ranks)


def _scores(scores: ArrayLike) -> np.ndarray[Any, np.dtype[np.floating[Any]]]:
    values = np.asarray(scores)
    if values.dtype.kind in "iub":
        values = values.astype(np.float64)
    if values.dtype.kind != "f":
        raise TypeError(f"scores must be numbers, got an array of {values.dtype}")
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"scores must be a flat array with at least one score, got shape {values.shape}")
    # A sum is NaN or -inf if anything in it is; looking closer is only needed then.
    with np.errstate(all="ignore"):
        total = values.sum()
    if not total > -math.inf:
        for wrong, name in ((np.isnan(values), "NaN"), (values == -math.inf, "-inf")):
            if wrong.any():
                first = int(np.argmax(wrong))
                raise ValueError(
                    f"scores must not be {name}, got {int(wrong.sum())}, the first in row {first}"
                )
    return values
