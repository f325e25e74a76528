"""A site's whole job: scores in, one number out."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal.documents import Plan, Report
from fedconformal.privacy._ledger import Ledger
from fedconformal.privacy._release import bins_of, private_answer

if TYPE_CHECKING:
    from fedconformal.signing import SigningKey


def report(
    plan: Plan,
    scores: ArrayLike,
    *,
    site: str,
    key: "SigningKey | None" = None,
    in_place: bool = False,
    ledger: Ledger | None = None,
    dataset: str | None = None,
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
    ledger, dataset : for a private plan, the account that the answer is charged to and what the data are
        called in it. NaN and scores outside the bins are then clipped, never refused.
    """
    if plan.privacy is not None:
        if plan.privacy.one_hot:
            raise ValueError("this plan is to be answered only as one-hot vectors (report --one-hot)")
        values = flat_numbers(scores)
        bins = private_bins(plan, values, site=site, ledger=ledger, dataset=dataset)
        answer = private_report(plan, values.size, bins, site=site)
    else:
        values = rankable(scores)
        ranks = plan.ranks_for(values.size, site=site)
        sent = smallest(values, ranks, in_place=in_place)
        answer = Report(plan=plan.digest, site=site, n=values.size, ranks=ranks, values=sent)
    return answer if key is None else key.sign(answer)


def private_report(plan: Plan, n: int, bins: Iterable[int], *, site: str) -> Report:
    """The report of a site that has drawn these bins, one per level."""
    values = tuple(bins_of(plan).value(b) for b in bins)
    return Report(plan=plan.digest, site=site, n=n, ranks=plan.ranks_for(n, site=site), values=values)


def private_bins(
    plan: Plan, scores: ArrayLike, *, site: str, ledger: Ledger | None, dataset: str | None
) -> tuple[int, ...]:
    """The bins that a site releases under a private plan, one per level, charged to its ledger."""
    if plan.privacy is None:
        raise ValueError("this plan is not private: there are no bins to release")
    book, name = account(ledger, dataset)
    values = flat_numbers(scores)
    plan.ranks_for(values.size, site=site)  # refuses a wrong size or site before anything is spent
    return private_answer(plan, values, site=site, ledger=book, dataset=name)


def account(ledger: Ledger | None, dataset: str | None) -> tuple[Ledger, str]:
    """The ledger and the name of the data in it, without which nothing private is answered."""
    if ledger is None or dataset is None:
        raise ValueError(
            "this plan is private: ledger and dataset are needed, so that no budget is overspent"
        )
    return ledger, dataset


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


def flat_numbers(scores: ArrayLike) -> np.ndarray[Any, np.dtype[np.floating[Any]]]:
    """A flat array of at least one number, whatever the numbers are."""
    values = np.asarray(scores)
    if values.dtype.kind in "iub":
        values = values.astype(np.float64)
    if values.dtype.kind != "f":
        raise TypeError(f"scores must be numbers, got an array of {values.dtype}")
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"scores must be a flat array with at least one score, got shape {values.shape}")
    return values


def rankable(scores: ArrayLike) -> np.ndarray[Any, np.dtype[np.floating[Any]]]:
    """A flat array of at least one score, NaN and -inf refused."""
    values = flat_numbers(scores)
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
