"""What a site may send back after a check: how many new cases are covered, exact or with noise."""

import json
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike
from pydantic import ValidationError

from fedconformal._typing import Floats
from fedconformal.documents import Calibration, Check, first_problem
from fedconformal.heterogeneity._coverage import count_covered
from fedconformal.heterogeneity._documents import refuse_groups
from fedconformal.privacy import Ledger, fingerprint, prepare_count
from fedconformal.protocol import flat_numbers, flat_scores


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
    calibration : Calibration
        As for `check`.
    scores : array-like
        As for `check`: they must be new. Private answers never refuse a score: NaN is not covered by any
        finite threshold.
    site : str
        The site's name.
    epsilon : float, optional
        Privacy loss of the whole answer, in [1e-6, 100]; exact counts if left out.
    ledger, dataset : Ledger and str, optional
        For a private answer, the account that it is charged to and what the new cases are called in it.

    Returns
    -------
    Check
        Everything that leaves the site.

    Raises
    ------
    ValueError
        If the answer cannot be given; nothing has been charged then.
    """
    refuse_groups(calibration)
    if epsilon is None:
        if ledger is not None or dataset is not None:
            raise ValueError("ledger and dataset go with a private answer: give epsilon")
        values = flat_scores(scores)
        return _filled(calibration, site, values.size, None, count_covered(calibration, values))
    if ledger is None or dataset is None:
        raise ValueError(
            "a private answer needs ledger and dataset, so that no budget is overspent: give both"
        )
    return _private(calibration, fill_missing(scores), site, epsilon, ledger, dataset)


def fill_missing(scores: ArrayLike) -> Floats:
    """Scores of which none can be refused, for private answers: an error would tell of the data.

    Parameters
    ----------
    scores : array-like
        Any numbers.

    Returns
    -------
    array of float
        NaN has become +inf, and -inf the smallest float.
    """
    return np.nan_to_num(flat_numbers(scores).astype(np.float64), nan=np.inf, posinf=np.inf)


def epsilon_per_level(calibration: Calibration, epsilon: float) -> Fraction:
    """The share of one level: an infinite threshold covers everything and needs no noise."""
    finite = sum(threshold < math.inf for threshold in calibration.thresholds)
    if not finite:
        raise ValueError("every threshold is infinite: a private answer would spend epsilon for nothing")
    return Fraction(str(epsilon)) / finite


def _private(
    calibration: Calibration, values: Floats, site: str, epsilon: float, ledger: Ledger, dataset: str
) -> Check:
    # Made before any charge, so that what no document can hold costs nothing.
    blank = _filled(calibration, site, values.size, epsilon, (0,) * len(calibration.levels))
    _refuse_used(calibration, ledger, dataset)
    draws = _draws(calibration, values, epsilon_per_level(calibration, epsilon))
    text = ledger.answer(
        dataset,
        plan_digest=calibration.digest,
        site=site,
        epsilon=epsilon,
        data_fingerprint=fingerprint(values),
        sample=lambda: json.dumps([draw() for draw in draws]),
    )
    return blank.model_copy(update={"covered": tuple(json.loads(text))})


def _refuse_used(calibration: Calibration, ledger: Ledger, dataset: str) -> None:
    """Refuse data that the ledger has charged for the calibration itself."""
    if ledger.has_answered(dataset, calibration.plan.answered_digest):
        raise ValueError(f"dataset {dataset!r} was used for this calibration: a check needs new cases")


def _draws(calibration: Calibration, values: Floats, share: Fraction) -> list[Callable[[], int]]:
    """For each level what draws its noisy count; without noise where everything is covered."""
    counts = zip(count_covered(calibration, values), calibration.thresholds, strict=True)
    return [
        (lambda: values.size) if threshold == math.inf else prepare_count(covered, values.size, share)
        for covered, threshold in counts
    ]


def _filled(
    calibration: Calibration, site: str, n: int, epsilon: float | None, covered: tuple[int, ...]
) -> Check:
    try:
        return Check(calibration=calibration.digest, site=site, n=n, epsilon=epsilon, covered=covered)
    except ValidationError as error:
        raise ValueError(first_problem(error)) from None
