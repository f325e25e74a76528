"""A site's scores from a file: a column of them, or truth and predictions from which they are computed."""

from pathlib import Path

import numpy as np

from fedconformal import scores
from fedconformal._tables import numbers, read_column, read_table
from fedconformal._typing import Floats
from fedconformal.documents import Plan, ScoreRule


def score_of(rule: ScoreRule) -> scores.Score:
    """The score that a plan fixes."""
    return scores.from_name(rule.name, **rule.parameters)


def read_scores(
    plan: Plan,
    path: Path,
    *,
    column: str | None,
    target: str | None,
    prediction: list[str] | None,
    private: bool,
    rng: np.random.Generator | None = None,
) -> Floats:
    """The scores of a site's cases; for a private answer none is refused, whatever it is."""
    if target is None:
        if prediction:
            raise ValueError("--prediction goes with --target, the column with the truth")
        return read_column(path, column, nan=private)
    if column is not None:
        raise ValueError("--column is for scores and --target for cases: give one of them")
    if plan.score is None or not prediction:
        raise ValueError("--target needs --prediction, and a plan that fixes the score (plan --score)")
    score = score_of(plan.score)
    return (_scored_privately if private else _scored)(score, path, target, prediction, rng)


def _scored(
    score: scores.Score,
    path: Path,
    target: str,
    prediction: list[str],
    rng: np.random.Generator | None,
) -> Floats:
    frame = read_table(path)
    predicted = score.prediction_from(numbers(path, frame, prediction), prediction)
    values = numbers(path, frame, [target])[:, 0]
    truth = score.truth_from(values, argument=f"{path}: column {target!r}")
    return score.score(truth, predicted, **score.draws(rng))


def _scored_privately(
    score: scores.Score,
    path: Path,
    target: str,
    prediction: list[str],
    rng: np.random.Generator | None,
) -> Floats:
    """A case without a score gets NaN, and no error tells of it."""
    truth, *predicted = (read_column(path, name, nan=True) for name in (target, *prediction))
    return score.scores_or_nan(truth, np.stack(predicted, axis=1), prediction, **score.draws(rng))
