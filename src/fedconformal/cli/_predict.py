"""``fedconformal predict``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedconformal._extras import need
from fedconformal._files import write_atomically
from fedconformal._tables import Dialect, Table, read_table
from fedconformal._text import count
from fedconformal.cli import _parse, _report
from fedconformal.cli._files import Output, read
from fedconformal.cli._show import print_json, say
from fedconformal.documents import Calibration, Plan
from fedconformal.protocol import loss_curve, prediction_sets, score_of
from fedconformal.scores import Absolute, Score

_TABLES = (".csv", ".parquet")


def predict(
    calibration: Path,
    predictions: Path,
    *,
    group: str | None = None,
    site: str | None = None,
    column: list[str] | None = None,
    score: str | None = None,
    dialect: Dialect,
    only: bool = False,
    out: Output,
) -> None:
    """Turn predictions into intervals or label sets."""
    out.check()
    if predictions.suffix.lower() == _report.ARRAYS:
        published = read(Calibration, calibration)
        _predict_masks(published, predictions, column, out, group=group, site=site)
        return
    if out.file is not None and out.file.suffix.lower() not in _TABLES:
        raise ValueError(f"{out.file}: the name must end with {' or '.join(_TABLES)}")
    published = read(Calibration, calibration)
    plan = published.plan
    _report.column_of_labels(plan, group, calibration, is_new=True)
    table = read_table(predictions, dialect=dialect)
    answers = plan.of_answers
    if answers:
        used = _report.chosen_columns(column or ["confidence"], table.columns)
        sets, names = _find_answered(published, table, used, group, site), ["answered"]
    else:
        used, rule, sets = sets_of(
            published, table, group=group, site=site, column=column, score=score
        )
        names = list(rule.set_columns(used))
    if plan.score is None and score is None and not answers:
        say(
            "The plan fixes no score: absolute residuals are assumed, prediction -/+"
            " threshold."
        )
    levels = plan.confidence_levels
    for i, level in enumerate(levels):
        if sets.dtype == bool and sets[:, :, i].all() and not answers:
            which = (
                "The set contains"
                if len(sets) == 1
                else f"All {len(sets)} sets contain"
            )
            say(f"{which} every label (level {level:g}), so they are uninformative.")
    places = list(enumerate(names))
    added = {
        name + suffix: sets[:, j, i]
        for i, suffix in enumerate(_suffixes(plan))
        for j, name in places
    }
    frame = need("polars", extra="cli").DataFrame
    if only:
        result = frame(added)
    else:
        if taken := sorted(added.keys() & set(table.columns)):
            raise ValueError(
                f"{table.name}: has a column {taken[0]!r} already; --only leaves it out"
            )
        shown = {
            name: table.numbers([name])[:, 0] for name in used
        }  # numbers, where the table has text
        result = table.frame.with_columns(frame({**shown, **added}))
    _deliver(result, out)


def _find_answered(
    published: Calibration,
    table: Table,
    columns: list[str],
    group: str | None,
    site: str | None,
) -> Any:
    """Return which cases are answered at each level: those with a confidence of at
    least the threshold.
    """
    if len(columns) != 1:
        raise ValueError(
            f"--column must name the confidence of each case, got {', '.join(columns)}"
        )
    confidence = table.numbers(columns)[:, np.newaxis]
    if group is not None:
        thresholds = published.threshold_of(table.labels(group), site=site)
        return confidence >= thresholds.reshape(table.height, 1, -1)
    part = (
        published
        if site is None
        else published[published.plan.grouping.group_of_site(site)]
    )
    return confidence >= np.array(part.thresholds)


def _predict_masks(
    published: Calibration,
    path: Path,
    column: list[str] | None,
    out: Output,
    **where: Any,
) -> None:
    """Write the mask of each image at each level."""
    plan, group, output = published.plan, where.pop("group"), out.output
    if (
        plan.score is None
        or not column
        or output is None
        or output.suffix.lower() != _report.ARRAYS
    ):
        raise ValueError(
            f"{path}: images need a plan that fixes the score, --column with the name"
            f" of their array, and -o with a name that ends with {_report.ARRAYS}"
        )
    arrays = _report.read_arrays(path, [column[0], *([group] if group else [])])
    labels = [str(label) for label in arrays[group].tolist()] if group else None
    rule = score_of(plan.score)
    _report.check_takes_images(rule, path)
    masks: Any = prediction_sets(
        published.sets,
        rule,
        rule.prediction_from(arrays[column[0]]),
        groups=labels,
        **where,
    )
    by_name: dict[str, Any] = {
        f"in_set{suffix}": masks[..., i] for i, suffix in enumerate(_suffixes(plan))
    }
    write_atomically(
        output, lambda file: np.savez_compressed(file, **by_name), force=out.force
    )
    say(f"wrote {output}")


def _suffixes(plan: Plan) -> list[str]:
    """Return the end of a name for each level, where there are several."""
    levels = plan.confidence_levels
    return [""] if len(levels) == 1 else [f"_{level!r}" for level in levels]


def sets_of(
    published: Calibration,
    table: Table,
    *,
    group: str | None = None,
    site: str | None = None,
    column: list[str] | None = None,
    score: str | None = None,
) -> tuple[list[str], Score, Any]:
    """Return the columns of the predictions in a table, their score, and their sets."""
    plan = published.plan
    labels = None if group is None else table.labels(group)
    used = (
        _report.chosen_columns(column, table.columns)
        if column
        else _columns(plan, table, leave_out=group)
    )
    used = _report.in_class_order(plan, used, table.name)
    rule = _score(plan, score, used)
    predicted = _report.prediction_of(rule, table, used, option="--column")
    with _report.by_line(table, used):
        return (
            used,
            rule,
            prediction_sets(published.sets, rule, predicted, groups=labels, site=site),
        )


def _columns(plan: Plan, table: Table, *, leave_out: str | None) -> list[str]:
    """Return the columns named after the plan's classes, or else all that hold
    numbers.
    """
    if plan.classes is not None and set(plan.classes) <= set(table.columns):
        return list(plan.classes)
    return [name for name in table.numeric() if name != leave_out]


def _score(plan: Plan, name: str | None, columns: Sequence[str]) -> Score:
    """Return the score that the plan fixes, or else the one given."""
    if plan.score is not None:
        if name not in (None, plan.score.name):
            raise ValueError(
                f"the plan fixes the score, {plan.score.name}: leave out --score, got"
                f" {name!r}"
            )
        return score_of(plan.score)
    score = _parse.score(name)
    if score is None and loss_curve(plan) is not None:
        raise ValueError(
            "the calibration is of losses without a score, and makes no sets: give"
            " --score"
        )
    if score is None and len(columns) != 1:
        raise ValueError(
            f"{len(columns)} columns of predictions and no score in the plan: give"
            " --score"
        )
    return score or Absolute()


def _deliver(result: Any, out: Output) -> None:
    if out.file is not None:
        is_parquet = out.file.suffix.lower() == ".parquet"
        write_atomically(
            out.file,
            result.write_parquet if is_parquet else result.write_csv,
            force=out.force,
        )
        say(f"wrote {out.file}: {count(result.height, 'row')}")
    if out.json:
        print_json(result.to_dicts())
    elif out.file is None:
        try:
            print(result.write_csv(), end="")
        except need(
            "polars", extra="cli"
        ).exceptions.ComputeError as error:  # a duration, a list
            raise ValueError(
                f"cannot be written as CSV: {error}; --only leaves other columns out"
            ) from None
