"""Conformity scores: ``score(y, prediction)`` and its inverse ``set(prediction, threshold)``.

A set is always {y : score(y, prediction) <= threshold}, one per row of the prediction. With a single
threshold, intervals have shape (n, 2) and label sets (n, n_classes); with an array of thresholds there is a
last axis for them, which are MAPIE's shapes.

Each score is one class that says everything of itself. A score of one's own subclasses `IntervalScore` or
`LabelScore`; a package makes it known by an entry point of the group ``fedconformal.scores``.
"""

from fedconformal.scores._base import Score
from fedconformal.scores._interval import EmptySetWarning, IntervalScore
from fedconformal.scores._label import LabelScore
from fedconformal.scores._labels import APS, LAC, RAPS
from fedconformal.scores._named import SCORES, explain_no_score, from_name, is_registered, list_scores
from fedconformal.scores._numbers import CQR, Absolute, Normalized, QuantileRegression

__all__ = [
    "APS",
    "CQR",
    "LAC",
    "RAPS",
    "Absolute",
    "IntervalScore",
    "LabelScore",
    "Normalized",
    "QuantileRegression",
    "Score",
]

for _score in (Absolute, Normalized, QuantileRegression, LAC, APS, RAPS):
    SCORES.register(_score)
