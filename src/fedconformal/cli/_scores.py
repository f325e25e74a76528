"""A site's scores from a file: a column of them, or truth and predictions from which they are computed."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedconformal import scores
from fedconformal._tables import numbers, read_column, read_labels, read_table
from fedconformal._text import quoted
from fedconformal._typing import Floats
from fedconformal.documents import Plan, class_places, score_of


def in_class_order(plan: Plan, columns: Sequence[str], path: Path) -> list[str]:
    """Columns of a prediction, found by name where the plan names classes, in the order of the classes."""
    names = list(columns)
    unnamed = [f"column_{i + 1}" for i in range(len(plan.classes or ()))]
    if plan.classes is None or names == unnamed:  # a file without names has the plan's order
        return names
    try:
        return [names[place] for place in class_places(names, plan.classes)]
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


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
    columns = in_class_order(plan, prediction, path)
    truth = _truth(plan, path, target, private=private)
    return (_scored_privately if private else _scored)(
        score_of(plan.score), path, target, truth, columns, rng
    )


def _truth(plan: Plan, path: Path, target: str, *, private: bool) -> Floats:
    """The column with the truth as numbers; names of classes become their numbers."""
    if plan.classes is None:
        return (
            read_column(path, target, nan=True)
            if private
            else numbers(path, read_table(path), [target])[:, 0]
        )
    labels, _ = read_labels(path, target)
    known = {name: float(i) for i, name in enumerate(plan.classes)}
    strange = sorted({label for label in labels if label not in known})
    if strange and not private:
        rows = sum(label not in known for label in labels)
        raise ValueError(
            f"{path}: column {target!r} must hold classes of the plan, {quoted(plan.classes)}, got "
            f"{quoted(strange)} in {rows} of {len(labels)} rows: correct these, or leave them out"
        )
    return np.array([known.get(label, np.nan) for label in labels])


def _scored(
    score: scores.Score,
    path: Path,
    target: str,
    values: Floats,
    columns: list[str],
    rng: np.random.Generator | None,
) -> Floats:
    predicted = score.prediction_from(numbers(path, read_table(path), columns), columns)
    truth = score.truth_from(values, argument=f"{path}: column {target!r}")
    return score.score(truth, predicted, **score.draws(rng))


def _scored_privately(
    score: scores.Score,
    path: Path,
    target: str,
    values: Floats,
    columns: list[str],
    rng: np.random.Generator | None,
) -> Floats:
    """A case without a score gets NaN, and no error tells of it."""
    predicted = [read_column(path, name, nan=True) for name in columns]
    return score.scores_or_nan(values, np.stack(predicted, axis=1), columns, **score.draws(rng))
