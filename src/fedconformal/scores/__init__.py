"""Conformity scores: ``score(y, prediction)`` and its inverse ``set(prediction, threshold)``.

A set is always {y : score(y, prediction) <= threshold}, one per row of the prediction. With a single
threshold, intervals have shape (n, 2) and label sets (n, n_classes); with an array of thresholds
there is a last axis for them, which are MAPIE's shapes.
"""

from __future__ import annotations

from typing import Any

from fedconformal.scores._base import EmptySetWarning, Score
from fedconformal.scores._classification import APS, LAC, RAPS
from fedconformal.scores._regression import CQR, Absolute, Normalized, QuantileRegression

__all__ = [
    "APS",
    "CQR",
    "LAC",
    "RAPS",
    "Absolute",
    "EmptySetWarning",
    "Normalized",
    "QuantileRegression",
    "Score",
    "from_name",
]

_KNOWN: dict[str, type[Score]] = {
    score.name: score for score in (Absolute, Normalized, QuantileRegression, LAC, APS, RAPS)
}


def from_name(name: str, **parameters: Any) -> Score:
    """Return the score of that name, the way a plan document holds it.

    For every score s, ``from_name(s.name, **s.parameters()) == s``.

    Parameters
    ----------
    name : {"absolute", "normalized", "cqr", "lac", "aps", "raps"}
        Which score.
    **parameters
        The fields of the score; those left out have their defaults.

    Raises
    ------
    ValueError
        If the name, a parameter's name or its value is not allowed.

    Examples
    --------
    >>> from_name("raps", penalty=0.01, k_reg=5)
    RAPS(penalty=0.01, k_reg=5, randomized=False)
    """
    if not isinstance(name, str) or name not in _KNOWN:
        raise ValueError(f"name must be one of {', '.join(_KNOWN)}; got {name!r}")
    allowed = _KNOWN[name]().parameters()
    unknown = sorted(set(parameters) - set(allowed))
    if unknown:
        listed = ", ".join(allowed) or "no parameters"
        raise ValueError(f"score {name!r} has no parameter {unknown[0]!r}; it takes {listed}")
    return _KNOWN[name](**parameters)
