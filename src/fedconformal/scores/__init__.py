"""Conformity scores: ``score(y, prediction)`` and its inverse ``set(prediction,
threshold)``.

A set is always {y : score(y, prediction) <= threshold}, one per row of the prediction.
With a single threshold, intervals have shape (n, 2) and label sets (n, n_classes); with
an array of thresholds there is a last axis for them, which are MAPIE's shapes.

Each score is one class that says everything of itself. A score of one's own subclasses
`IntervalScore` or `LabelScore`; a package makes it known by an entry point of the group
``fedconformal.scores``.
"""

from dataclasses import MISSING, fields
from types import UnionType
from typing import Any

from fedconformal._text import USUAL_CLAIM
from fedconformal._util import Registry
from fedconformal.scores._base import Score
from fedconformal.scores._interval import (
    CQR,
    Absolute,
    EmptySetWarning,
    IntervalScore,
    Normalized,
    QuantileRegression,
)
from fedconformal.scores._label import APS, LAC, RAPS, LabelScore
from fedconformal.scores._loss import LossScore, MissedLabels, MissedPixels, from_losses
from fedconformal.scores._nested import Nested

__all__ = [
    "APS",
    "LAC",
    "RAPS",
    "Absolute",
    "MissedLabels",
    "MissedPixels",
    "Nested",
    "Normalized",
    "QuantileRegression",
    "from_losses",
]

SCORES: Registry[Score] = Registry("score", "fedconformal.scores")
"""All scores by name, ours first; a package adds its own by an entry point of this
group.
"""

for _score in (
    Absolute,
    Normalized,
    QuantileRegression,
    LAC,
    APS,
    RAPS,
    MissedLabels,
    MissedPixels,
):
    SCORES.register(_score)


def from_name(name: str, **parameters: Any) -> Score:
    """Return the score of that name, the way a plan document holds it.

    For every score s that is registered, ``from_name(s.name, **s.parameters()) == s``.

    Parameters
    ----------
    name : str
        Name of the score: ``"absolute"``, ``"normalized"``, ``"cqr"``, ``"lac"``,
        ``"aps"``, ``"raps"``, ``"missed-labels"``, ``"missed-pixels"``, or one that a
        package brings.
    **parameters
        The fields of the score; those left out have their defaults.

    Returns
    -------
    Score

    Raises
    ------
    ValueError
        If the name, a parameter's name or its value is not allowed.

    Examples
    --------
    >>> from_name("raps", penalty=0.01, k_reg=5)
    RAPS(penalty=0.01, k_reg=5, randomized=False)
    """
    kind = SCORES[name]
    if not _is_subclass(kind, Score):
        raise ValueError(
            f"score {name!r} must be a subclass of IntervalScore or LabelScore, got"
            f" {kind!r}"
        )
    allowed = {field.name: field for field in fields(kind) if field.init}
    listed = ", ".join(allowed) or "no parameters"
    for unknown in sorted(parameters.keys() - allowed.keys()):
        raise ValueError(
            f"score {name!r} has no parameter {unknown!r}; it takes {listed}"
        )
    for field in allowed.values():
        if (
            field.default is MISSING
            and field.default_factory is MISSING
            and field.name not in parameters
        ):
            raise ValueError(
                f"score {name!r} needs parameter {field.name!r}; it takes {listed}"
            )
    return kind(**parameters)


def claim_of(name: str | None) -> str:
    """Return what a score promises to new cases, for the sentence of a promise.

    Parameters
    ----------
    name : str or None
        Name of the score; one that is not installed promises what most do.

    Returns
    -------
    str
        A template with ``{share}``, ``{whose}`` and perhaps ``{mean}``; see `Score`.

    Examples
    --------
    >>> claim_of("lac").format(share="90 %", whose="new cases", mean="")
    'the truth lies inside the prediction set for at least 90 % of new cases'
    """
    return SCORES[name].claim if name is not None and name in SCORES else USUAL_CLAIM


def list_scores(kind: type[Any] | UnionType) -> tuple[str, ...]:
    """Return the names of all registered scores of one kind.

    Parameters
    ----------
    kind : type or union of types
        Such as `IntervalScore` or `LabelScore`.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> from fedconformal.scores import LabelScore
    >>> list_scores(LabelScore)
    ('lac', 'aps', 'raps')
    """
    return tuple(name for name in SCORES if _is_subclass(SCORES[name], kind))


def is_registered(score: Score) -> bool:
    """Return whether `from_name` gives a score of this very class, so that a plan can
    name it.

    Parameters
    ----------
    score : Score
        Any score.

    Returns
    -------
    bool

    Examples
    --------
    >>> from fedconformal.scores import LAC
    >>> is_registered(LAC())
    True
    """
    return score.name in SCORES and SCORES[score.name] is type(score)


def explain_no_score(value: Any) -> str:
    """Return why a value is not a score, as the end of a message.

    Parameters
    ----------
    value : object
        Not a score.

    Returns
    -------
    str
        Empty for text and numbers, which nobody takes for a score of their own.

    Examples
    --------
    >>> class Mine:
    ...     def score(self, y, prediction): ...
    >>> explain_no_score(Mine())
    ': it lacks name, set, and must be a subclass of scores.IntervalScore or
    scores.LabelScore'
    """
    if value is None or isinstance(value, (str, int, float)):
        return ""
    if isinstance(value, type):
        return f": this is a class, and a score is made of it by {value.__name__}()"
    missing = ", ".join(
        name for name in ("name", "score", "set") if not hasattr(value, name)
    )
    lacks = f"lacks {missing}, and " if missing else ""
    return (
        f": it {lacks}must be a subclass of scores.IntervalScore or scores.LabelScore"
    )


def _is_subclass(value: Any, kind: type[Any] | UnionType) -> bool:
    # An entry point of somebody else's package may lead to anything.
    return isinstance(value, type) and issubclass(value, kind)
