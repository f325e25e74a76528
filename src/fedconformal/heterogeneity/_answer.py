"""What a site may send back after a check: how many new cases are covered, exact or with noise."""

import json
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike
from pydantic import ValidationError

from fedconformal.documents import Calibration, Check
from fedconformal.documents._base import first_problem
from fedconformal.heterogeneity._check import count_covered
from fedconformal.privacy import _count
from fedconformal.privacy._ledger import Ledger, fingerprint
from fedconformal.site import flat_numbers, rankable


def answer(
    calibration: Calibration,
    scores: ArrayLike,
    *,
    site: str,
    epsilon: float | None = None,
    ledger: Ledger | None = None,
    dataset: str | None = None,
) -> Check:
    """Everything that leaves the site after a check: its name, how many new cases, how many are covered.

    With ``epsilon`` the numbers of covered cases are differentially private when one case is replaced; how
    many cases there are is public. The ledger is charged before anything is drawn, and gives the same answer
    again for the same calibration and data set.

    Parameters
    ----------
    calibration, scores : as for `check`: the scores must be new. Private answers never refuse a score: NaN
        is not covered by any finite threshold.
    site : the site's name.
    epsilon : privacy loss of the whole answer, in [1e-6, 100]; None for exact counts.
    ledger, dataset : for a private answer, the account that it is charged to and what the new cases are
        called in it.
    """
    if epsilon is None:
        if ledger is not None or dataset is not None:
            raise ValueError("ledger and dataset go with a private answer: give epsilon")
        values = rankable(scores)
        return _filled(calibration, site, values.size, None, count_covered(calibration, values))
    if ledger is None or dataset is None:
        raise ValueError(
            "a private answer needs ledger and dataset, so that no budget is overspent: give both"
        )
    return _private(
        calibration, filled_in(scores), site=site, epsilon=epsilon, ledger=ledger, dataset=dataset
    )


def filled_in(scores: ArrayLike) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Scores of which none can be refused: NaN becomes +inf, and -inf the smallest float."""
    values: np.ndarray[tuple[int], np.dtype[np.float64]] = np.nan_to_num(
        flat_numbers(scores).astype(np.float64), nan=np.inf, posinf=np.inf
    )
    return values


def epsilon_per_level(calibration: Calibration, epsilon: float) -> Fraction:
    """The share of one level: an infinite threshold covers everything and needs no noise."""
    finite = sum(threshold < math.inf for threshold in calibration.thresholds)
    if not finite:
        raise ValueError("every threshold is infinite: a private answer would spend epsilon for nothing")
    return Fraction(str(epsilon)) / finite


def _private(
    calibration: Calibration,
    values: np.ndarray[tuple[int], np.dtype[np.float64]],
    *,
    site: str,
    epsilon: float,
    ledger: Ledger,
    dataset: str,
) -> Check:
    n = values.size
    blank = _filled(
        calibration, site, n, epsilon, (0,) * len(calibration.levels)
    )  # refused before any charge
    if any(
        entry.kind == "charge" and entry.plan == calibration.plan.digest for entry in ledger.entries(dataset)
    ):
        raise ValueError(f"dataset {dataset!r} was used for this calibration: a check needs new cases")
    share = epsilon_per_level(calibration, epsilon)
    draws: list[Callable[[], int]] = [
        (lambda: n) if threshold == math.inf else _count.prepare(covered, n, share)
        for covered, threshold in zip(count_covered(calibration, values), calibration.thresholds, strict=True)
    ]
    text = ledger.answer(
        dataset,
        plan_digest=calibration.digest,
        site=site,
        epsilon=epsilon,
        data_fingerprint=fingerprint(values),
        sample=lambda: json.dumps([draw() for draw in draws]),
    )
    return blank.model_copy(update={"covered": tuple(json.loads(text))})


def _filled(
    calibration: Calibration, site: str, n: int, epsilon: float | None, covered: tuple[int, ...]
) -> Check:
    try:
        return Check(calibration=calibration.digest, site=site, n=n, epsilon=epsilon, covered=covered)
    except ValidationError as error:
        raise ValueError(first_problem(error)) from None
