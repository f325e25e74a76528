"""Scores, predictions and helpers that the tests of several scores share."""

import warnings
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from fedconformal.scores import (
    APS,
    LAC,
    RAPS,
    Absolute,
    EmptySetWarning,
    Normalized,
    QuantileRegression,
)

INTERVAL_SCORES = [Absolute(), Normalized(), QuantileRegression()]
PREDICTIONS = {
    "absolute": [2.0, 7.0],
    "normalized": [[2.0, 0.5], [7.0, 2.0]],
    "cqr": [[1.0, 3.0], [6.0, 8.0]],
}
DETERMINISTIC = [
    LAC(),
    APS(),
    RAPS(penalty=0.25, k_reg=2),
    RAPS(penalty=1.0, k_reg=0),
    RAPS(penalty=0.0),
]
RANDOMIZED = [APS(randomized=True), RAPS(penalty=0.25, k_reg=1, randomized=True)]

inf = np.inf
reals = st.floats(allow_nan=False, allow_infinity=False)
moderate = st.floats(-1e6, 1e6, allow_subnormal=False)
positive = st.floats(1e-6, 1e6)
steps = st.integers(-8, 8)


def step(number, n_floats):
    """Go a number of floats up (or down)."""
    for _ in range(abs(n_floats)):
        number = np.nextafter(number, np.copysign(inf, n_floats))
    return number


def holds(interval, y):
    return interval[0] <= y <= interval[1]


def quietly(score, prediction, threshold):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmptySetWarning)
        return score.set(prediction, threshold)


@st.composite
def dyadic_rows(draw):
    """Probabilities in sixteenths, with many ties and zeros: their sums are exact in
    floats.
    """
    n_classes = draw(st.integers(2, 7))
    cuts = draw(
        st.lists(st.integers(0, 16), min_size=n_classes - 1, max_size=n_classes - 1)
    )
    return np.diff([0, *sorted(cuts), 16]) / 16


@st.composite
def float_rows(draw):
    """A few rows of any probabilities, with ties now and then."""
    shape = draw(st.integers(1, 5)), draw(st.integers(2, 6))
    size = shape[0] * shape[1]
    weights = np.reshape(
        draw(st.lists(st.floats(0.01, 1), min_size=size, max_size=size)), shape
    )
    return weights / weights.sum(axis=1, keepdims=True)


def scores_of_all_labels(score, prediction, **u):
    """Ask for the score of every label of every row, one label at a time."""
    n, n_classes = prediction.shape
    return np.stack(
        [score.score(np.full(n, c), prediction, **u) for c in range(n_classes)], axis=1
    )


def by_definition(score, row, label, u=0):
    """The score in exact rational arithmetic, by walking down the ranks."""
    p = [Fraction(value) for value in row.tolist()]
    if isinstance(score, LAC):
        return 1 - p[label]
    total = Fraction(0)
    for rank, c in enumerate(sorted(range(len(p)), key=lambda c: (-p[c], c)), start=1):
        total += p[c]
        if c == label:
            penalty, k_reg = (
                (score.penalty, score.k_reg) if isinstance(score, RAPS) else (0, 0)
            )
            return total - Fraction(u) * p[c] + Fraction(penalty) * max(0, rank - k_reg)
    raise AssertionError(label)


def labels_drawn_from(prediction, rng):
    return (prediction.cumsum(axis=1) < rng.random((len(prediction), 1))).sum(axis=1)
