"""Probabilities added up from the most probable label down, for the scores that do so."""

from typing import Any

import numpy as np

from fedconformal._typing import Floats


def cumulated(probabilities: Floats, u: Floats | None, costs: Floats | None = None) -> Floats:
    """The probability of each label and all before it, less u times its own, plus what its rank costs."""
    # A stable sort, so that equal probabilities rank by class index at every site.
    order = np.argsort(-probabilities, axis=1, kind="stable")
    ranked = np.take_along_axis(probabilities, order, axis=1)
    totals = np.cumsum(ranked, axis=1)
    if u is not None:
        totals -= u[:, np.newaxis] * ranked
    if costs is not None:
        totals += costs
    scores = np.empty_like(totals)
    np.put_along_axis(scores, order, totals, axis=1)
    return scores


def caution(name: str, n_classes: int, *, randomized: bool) -> str:
    """With two classes the less probable one always scores the most there is, unless it is randomized."""
    if n_classes != 2 or randomized:
        return ""
    return (
        f"Score {name} with two classes: the less probable label always has the largest score, so a "
        "threshold admits both labels for every case or never more than one. Use lac, or randomized=true "
        "(--score-option randomized=true)."
    )


def check_randomized(randomized: Any) -> None:
    """Refuse a flag that is no boolean."""
    if not isinstance(randomized, bool):
        raise ValueError(f"randomized must be True or False, got {randomized!r}")
