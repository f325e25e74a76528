"""``fedconformal predict``."""

from collections.abc import Sequence
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedconformal.cli._options import Force, GroupColumn, Json, Output, ScoreOption
from fedconformal.cli._show import print_json, say

if TYPE_CHECKING:
    from fedconformal._typing import Floats
    from fedconformal.documents import Plan
    from fedconformal.scores import Score

_TABLES = (".csv", ".parquet")


def predict(
    calibration: Annotated[Path, typer.Argument(help="The calibration.")],
    predictions: Annotated[Path, typer.Argument(help="Predictions: CSV, Parquet or .npy.")],
    group: GroupColumn = None,
    site: Annotated[
        str | None, typer.Option(help="The cases' site, where each site has thresholds of its own.")
    ] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="Columns of the prediction; may be repeated.")
    ] = None,
    score: Annotated[str | None, typer.Option(help="The score, where the plan does not fix it.")] = None,
    score_option: ScoreOption = None,
    only: Annotated[bool, typer.Option(help="Leave out the other columns.")] = False,
    output: Output = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Turn predictions into intervals or label sets."""
    from fedconformal._tables import numbers, read_labels, read_table
    from fedconformal.cli._files import check_output
    from fedconformal.cli._groups import check_column, check_site
    from fedconformal.cli._scores import in_class_order
    from fedconformal.documents import Calibration, prediction_sets

    check_output(output, force=force)
    if output is not None and output.suffix.lower() not in _TABLES:
        raise ValueError(f"{output}: the name must end with {' or '.join(_TABLES)}")
    found = Calibration.read(calibration)
    check_column(found.plan, group, calibration)
    check_site(found.plan, site, calibration)
    frame = read_table(predictions)
    labels = None if group is None else read_labels(predictions, group)[0]
    used = column or _columns(found.plan, frame, leave_out=group)
    used = in_class_order(found.plan, used, predictions)
    rule = _score(found.plan, score, score_option or [], used)
    table = numbers(predictions, frame, used)
    predicted = _prediction(rule, table, used, predictions)
    sets = prediction_sets(found, rule, predicted, groups=labels, site=site)
    _say_everything(sets, found.plan.confidence_levels)
    added = _set_columns(rule.set_columns(used), sets, found.plan.confidence_levels)
    if only:
        result = _frame(added)
    else:
        if taken := sorted(added.keys() & set(frame.columns)):
            raise ValueError(f"{predictions}: has a column {taken[0]!r} already; --only leaves it out")
        shown = {name: table[:, j] for j, name in enumerate(used)}  # numbers, where the table has text
        result = frame.with_columns(_frame({**shown, **added}))
    _deliver(result, output, force=force, as_json=json)


def _columns(plan: "Plan", frame: Any, *, leave_out: str | None) -> list[str]:
    """Those named after the plan's classes, if they are there; else all that hold numbers."""
    if plan.classes is not None and set(plan.classes) <= set(frame.columns):
        return list(plan.classes)
    return _numeric_columns(frame, leave_out=leave_out)


def _numeric_columns(frame: Any, *, leave_out: str | None) -> list[str]:
    """Columns that hold nothing but numbers, as text or not."""
    from fedconformal._extras import need

    polars = need("polars", extra="cli")
    candidates = [column for column in frame if column.dtype != polars.Boolean and column.name != leave_out]
    return [
        column.name
        for column in candidates
        if column.dtype.is_numeric()
        or (column.dtype == polars.String and column.cast(polars.Float64, strict=False).null_count() == 0)
    ]


def _score(plan: "Plan", name: str | None, options: Sequence[str], columns: Sequence[str]) -> "Score":
    """The score that the plan fixes, or else the one that was asked for."""
    from fedconformal.cli import _parse
    from fedconformal.documents import score_of
    from fedconformal.scores import Absolute

    if plan.score is not None:
        if name not in (None, plan.score.name) or options:
            raise ValueError(
                f"the plan fixes the score, {plan.score.name}: leave out --score and its options"
            )
        return score_of(plan.score)
    wanted = _parse.score(name, options)
    if wanted is not None:
        return wanted
    if len(columns) != 1:
        raise ValueError(f"{len(columns)} columns of predictions and no score in the plan: say --score")
    say("the plan fixes no score: taking absolute residuals, prediction -/+ threshold")
    return Absolute()


def _prediction(rule: "Score", table: "Floats", names: Sequence[str], path: Path) -> Any:
    try:
        return rule.prediction_from(table, names)
    except ValueError as error:
        raise ValueError(f"{path}: {error}: say which with --column") from None


def _say_everything(sets: Any, levels: Sequence[float]) -> None:
    """Say where sets of labels hold all of them, for every case: they tell nothing."""
    if sets.dtype != bool:
        return
    for i, level in enumerate(levels):
        if sets[:, :, i].all():
            say(f"every one of the {len(sets)} sets holds every label (level {level:g}): they tell nothing")


def _set_columns(names: Sequence[str], sets: Any, levels: Sequence[float]) -> dict[str, Any]:
    """The columns of the sets; with several levels, named after each."""
    suffixes = [""] if len(levels) == 1 else [f"_{level!r}" for level in levels]
    return {name + suffix: sets[:, j, i] for i, suffix in enumerate(suffixes) for j, name in enumerate(names)}


def _frame(columns: dict[str, Any]) -> Any:
    from fedconformal._extras import need

    return need("polars", extra="cli").DataFrame(columns)


def _deliver(result: Any, output: Path | None, *, force: bool, as_json: bool) -> None:
    from fedconformal._outputs import write_atomically

    if output is not None:
        is_parquet = output.suffix.lower() == ".parquet"
        write_atomically(output, result.write_parquet if is_parquet else result.write_csv, force=force)
        say(f"wrote {output}: {result.height} rows")
    if as_json:
        print_json([{key: _json_value(value) for key, value in row.items()} for row in result.to_dicts()])
    elif output is None:
        print(result.write_csv(), end="")


def _json_value(value: Any) -> Any:
    """What JSON can hold: it has no infinity, and no NaN."""
    if isinstance(value, float) and not isfinite(value):
        return {inf: "Infinity", -inf: "-Infinity"}.get(value)
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)
