"""Class probabilities, checked and scored some rows at a time."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._typing import Floats
from fedconformal._validation import all_rows, float_array

LabelScores = Callable[[Floats, Floats | None], Floats]
"""Scores of all labels of some rows, from their probabilities and uniform draws."""

MAX_EXCESS = 1e-6
"""By how much a single probability may exceed 1."""
MAX_SUM_ERROR = 1e-3
"""By how much the sum of a row may differ from 1."""
# Numbers handled at a time: their temporaries stay in the processor's cache.
BLOCK = 2**17


def as_probabilities(prediction: ArrayLike) -> Floats:
    """Floats of shape (n, n_classes); whether they are probabilities is left to `scored_blocks`."""
    matrix = float_array("prediction", prediction, ndim=2)
    if matrix.shape[1] == 0:
        raise ValueError(f"prediction must have shape (n, n_classes), got {matrix.shape}: no class")
    return matrix


def scored_blocks(
    label_scores: LabelScores, probabilities: Floats, draws: Floats | None
) -> Iterator[tuple[slice, Floats]]:
    """Blocks of rows with the scores of all their labels, the probabilities checked."""
    n, n_classes = probabilities.shape
    step = max(1, BLOCK // n_classes)
    for start in range(0, n, step):
        rows = slice(start, start + step)
        block = probabilities[rows]
        if not _are_probabilities(block):
            _refuse(probabilities)
        yield rows, label_scores(block, None if draws is None else draws[rows])


def _are_probabilities(block: Floats) -> bool:
    # Each comparison is false for nan. The product gives the row sums four times as fast as sum(axis=1).
    if not block.min() >= 0:
        return False
    sums = block @ np.ones(block.shape[1])
    low, high = sums.min(), sums.max()
    if not (low >= 1 - MAX_SUM_ERROR and high <= 1 + MAX_SUM_ERROR):
        return False
    # No probability exceeds its row's sum, so most often there is no need to look for the largest.
    return bool(high <= 1 + MAX_EXCESS or block.max() <= 1 + MAX_EXCESS)


def _refuse(probabilities: Floats) -> None:
    name = "prediction"
    all_rows(name, probabilities, np.isfinite(probabilities), "must be finite")
    inside = (probabilities >= 0) & (probabilities <= 1 + MAX_EXCESS)
    all_rows(name, probabilities, inside, "must hold probabilities, from 0 to 1")
    sums = probabilities @ np.ones(probabilities.shape[1])
    rule = f"must hold probabilities that sum to 1 within {MAX_SUM_ERROR} in each row"
    # The same comparisons as above, lest a row be good alone and bad beside a bad one.
    all_rows(name, sums, (sums >= 1 - MAX_SUM_ERROR) & (sums <= 1 + MAX_SUM_ERROR), rule)
