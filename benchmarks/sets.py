"""Prediction sets by the million, against bare arithmetic and against MAPIE.

Intervals beside two lines of numpy, and sets of labels (LAC) beside MAPIE's
`predict_set` with probabilities that are ready. Goal: at most twice the time of the
arithmetic, a fifth of MAPIE's, and the very same sets.
"""

from collections.abc import Iterator
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
from mapie.classification import SplitConformalClassifier
from sklearn.base import BaseEstimator, ClassifierMixin

import fedconformal as fc
from benchmarks._rows import Figure, Row, timed
from benchmarks._timing import compare

INTERVAL_GOAL = 2.0
LABEL_GOAL = 1 / 5


def run(
    *,
    rows: int = 10**6,
    classes: int = 10,
    calibration: int = 10**4,
    repetitions: tuple[int, int] = (15, 5),
) -> Iterator[Row]:
    """New rows and calibration rows; how often intervals and label sets are timed."""
    yield _intervals(rows, repetitions[0])
    yield from _labels(rows, classes, calibration, repetitions[1])


def _intervals(rows: int, repetitions: int) -> Row:
    predictions = np.random.default_rng(9).normal(size=rows)
    threshold = 1.25
    ours = partial(fc.scores.Absolute().set, predictions, threshold)

    def yardstick() -> object:
        return np.stack([predictions - threshold, predictions + threshold], axis=-1)

    ours()
    result = compare([ours] * repetitions, yardstick)
    words = "numpy: stack([p - t, p + t])"
    return timed(
        "scores.Absolute().set",
        f"{rows:,} intervals",
        result,
        words,
        goal=INTERVAL_GOAL,
    )


class Precomputed(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose features are its probabilities, so that predicting
    costs nothing.
    """

    def __init__(self, classes: int) -> None:
        self.classes = classes
        self.classes_ = np.arange(classes)

    def fit(self, X: Any, y: Any) -> "Precomputed":
        return self

    def predict_proba(self, X: Any) -> Any:
        return X

    def predict(self, X: Any) -> Any:
        return np.zeros(len(X), dtype=int)


def _labels(
    rows: int, classes: int, calibration: int, repetitions: int
) -> Iterator[Row]:
    rng = np.random.default_rng(10)
    known, new = (
        rng.dirichlet(np.full(classes, 0.3), size=n) for n in (calibration, rows)
    )
    truth = (rng.random((calibration, 1)) > known.cumsum(axis=1)[:, :-1]).sum(axis=1)
    score = fc.scores.LAC()
    plan = fc.plan(n_sites=1, n_points=calibration, criterion="marginal")
    threshold = fc.calibrate(
        plan, [fc.report(plan, score.score(truth, known), site="A")]
    ).threshold
    mapie = SplitConformalClassifier(
        Precomputed(classes), confidence_level=0.9
    ).conformalize(known, truth)
    result = compare(
        [partial(score.set, new, threshold)] * repetitions,
        partial(mapie.predict_set, new),
    )
    setting = f"{rows:,} rows, {classes} classes"
    words = f"MAPIE {version('mapie')}, prefit, probabilities ready"
    yield timed("scores.LAC().set", setting, result, words, goal=LABEL_GOAL)
    differing = int(
        (score.set(new, threshold) != mapie.predict_set(new)[1][:, :, 0]).sum()
    )
    scores = 1 - new
    slack = int(((scores > threshold) & (scores - threshold <= 1e-8)).sum())
    yield Row(
        "entries of LAC sets that differ",
        f"{setting}, both calibrated on the same rows",
        ours=Figure(differing, "count", f"of {rows * classes:,}"),
        yardstick=Figure(slack, "count", "within MAPIE's slack of 1e-8"),
        goal="0",
        met=differing == 0,
    )
