"""Probabilities added up from the most probable label down, for the scores that do so."""

from collections.abc import Callable
from typing import Any

import numpy as np

from fedconformal._text import percent
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


_PROBABILITIES = (0.6, 0.25, 0.1, 0.05)
_FIRST = ("no label", "the first of them", "the first two", "the first three", "all of them")


def example(label_scores: Callable[[Floats, None], Floats], threshold: float) -> str:
    """Which of four labels a set holds, where nothing is drawn at random."""
    scores = label_scores(np.array([_PROBABILITIES]), None)
    held = _FIRST[int(np.sum(scores <= threshold))]
    listed = f"{', '.join(percent(p) for p in _PROBABILITIES[:-1])} and {percent(_PROBABILITIES[-1])}"
    return f"For example, of four labels with predicted probabilities of {listed} the set holds {held}."


def check_randomized(randomized: Any) -> None:
    """Refuse a flag that is no boolean."""
    if not isinstance(randomized, bool):
        raise ValueError(f"randomized must be True or False, got {randomized!r}")
