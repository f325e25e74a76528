"""From predictions to intervals and label sets."""

from pathlib import Path
from typing import Any

import numpy as np

from fedconformal import scores as score_functions
from fedconformal._extras import need
from fedconformal._outputs import write_atomically
from fedconformal._tables import numbers, read_table
from fedconformal.cli._show import print_json, say
from fedconformal.documents import Calibration, Plan


def predict(
    calibration_file: Path,
    predictions_file: Path,
    *,
    columns: list[str] | None,
    score: str | None,
    only: bool,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Read the calibration, and add its prediction sets to the table of predictions."""
    calibration = Calibration.read(calibration_file)
    add_sets(
        calibration.plan,
        np.array([calibration.thresholds]),
        predictions_file,
        columns=columns,
        among=None,
        score=score,
        only=only,
        output=output,
        force=force,
        as_json=as_json,
    )


def add_sets(
    plan: Plan,
    thresholds: Any,
    predictions_file: Path,
    *,
    columns: list[str] | None,
    among: list[str] | None,
    score: str | None,
    only: bool,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Add the prediction sets to the table: thresholds for each row or one row for all, by level.

    ``among`` are the columns to look for predictions in where ``columns`` does not name them.
    """
    if output is not None and output.suffix.lower() not in (".csv", ".parquet"):
        raise ValueError(f"{output}: the name must end with .csv or .parquet")
    frame = read_table(predictions_file)
    used = columns or _numeric_columns(frame if among is None else frame.select(among))
    rule = _score(plan, score, used)
    predicted = numbers(predictions_file, frame, used)
    if rule.name == "absolute" and predicted.shape[1] != 1:
        raise ValueError(
            f"{predictions_file}: say which column is the prediction with --column ({', '.join(used)})"
        )
    levels = [level.confidence_level for level in plan.levels]
    sets = _sets(rule, predicted, np.reshape(thresholds, (-1, len(levels))))
    added = _columns(rule.kind, sets, used, levels)
    if not only and (taken := sorted(set(added) & set(frame.columns))):
        raise ValueError(f"{predictions_file}: has a column {taken[0]!r} already; --only leaves it out")
    shown = {name: predicted[:, j] for j, name in enumerate(used)}  # numbers, where the table has text
    polars = need("polars", extra="cli")
    result = (
        polars.DataFrame(added)
        if only
        else frame.with_columns(**{k: polars.Series(v) for k, v in {**shown, **added}.items()})
    )
    _deliver(result, output, force=force, as_json=as_json)


def _numeric_columns(frame: Any) -> list[str]:
    """Columns that hold nothing but numbers, as text or not."""
    polars = need("polars", extra="cli")
    numbers = [column for column in frame if column.dtype != polars.Boolean]
    return [
        column.name
        for column in numbers
        if column.dtype.is_numeric()
        or (column.dtype == polars.String and column.cast(polars.Float64, strict=False).null_count() == 0)
    ]


def _score(plan: Plan, name: str | None, columns: list[str]) -> Any:
    fixed = plan.score
    if fixed is not None:
        if name is not None and name != fixed.name:
            raise ValueError(f"--score must be {fixed.name}, which the plan fixes, got {name}")
        return score_functions.from_name(fixed.name, **fixed.parameters())
    if name is None:
        if len(columns) != 1:
            raise ValueError(f"{len(columns)} columns of predictions and no score in the plan: say --score")
        say("the plan fixes no score: taking absolute residuals, prediction -/+ threshold")
    return score_functions.from_name(name or "absolute")


def _sets(rule: Any, predicted: Any, thresholds: Any) -> Any:
    """Prediction sets, rows with the same thresholds at once."""
    options = {"u": np.random.default_rng()} if getattr(rule, "randomized", False) else {}
    inputs = predicted[:, 0] if rule.name == "absolute" else predicted
    different, which = np.unique(thresholds, axis=0, return_inverse=True)
    which = np.broadcast_to(which.reshape(-1), len(inputs))
    parts = [rule.set(inputs[which == i], row, **options) for i, row in enumerate(different)]
    sets = np.empty((len(inputs), *parts[0].shape[1:]), dtype=parts[0].dtype)
    for i, part in enumerate(parts):
        sets[which == i] = part
    return sets


def _columns(kind: str, sets: Any, names: list[str], levels: list[float]) -> dict[str, Any]:
    """Columns lower and upper, or one per class; with several levels, named after each."""
    added = {}
    for i, level in enumerate(levels):
        suffix = "" if len(levels) == 1 else f"_{level!r}"
        ends = ("lower", "upper") if kind == "interval" else tuple(f"in_set_{name}" for name in names)
        for j, end in enumerate(ends):
            added[end + suffix] = sets[:, j, i]
    return added


def _deliver(result: Any, output: Path | None, *, force: bool, as_json: bool) -> None:
    if output is not None:
        if output.suffix.lower() == ".parquet":
            write_atomically(output, result.write_parquet, force=force)
        else:
            write_atomically(output, result.write_csv, force=force)
        say(f"wrote {output}: {result.height} rows")
    if as_json:
        print_json([{key: _plain(value) for key, value in row.items()} for row in result.to_dicts()])
    elif output is None:
        print(result.write_csv(), end="")


def _plain(value: Any) -> Any:
    """JSON has no infinity."""
    if isinstance(value, float) and not np.isfinite(value):
        return "Infinity" if value > 0 else "-Infinity" if value < 0 else None
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)
