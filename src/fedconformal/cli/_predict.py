"""``fedconformal predict``."""

from collections.abc import Sequence
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedconformal._text import count
from fedconformal.cli import _options as opt
from fedconformal.cli._show import print_json, say

if TYPE_CHECKING:
    from fedconformal._tables import Table
    from fedconformal.documents import Plan
    from fedconformal.scores import Score

_TABLES = (".csv", ".parquet")


def predict(
    calibration: opt.CalibrationFile,
    predictions: Annotated[Path, typer.Argument(help="Predictions: CSV, Excel, Parquet or .npy.")],
    group: opt.GroupColumn = None,
    site: Annotated[
        str | None, typer.Option(help="The cases' site, where each site has thresholds of its own.")
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option("--column", "--prediction", help="Columns of the prediction; may be repeated."),
    ] = None,
    score: Annotated[
        str | None,
        typer.Option(help="The score, where the plan does not fix it; with parameters as in raps:k_reg=3."),
    ] = None,
    separator: opt.Separator = None,
    decimal: opt.Decimal = None,
    encoding: opt.Encoding = None,
    only: Annotated[bool, typer.Option(help="Leave out the other columns.")] = False,
    output: opt.Output = None,
    force: opt.Force = False,
    json: opt.Json = False,
) -> None:
    """Turn predictions into intervals or label sets."""
    from fedconformal._extras import need
    from fedconformal._files import STANDARD
    from fedconformal._tables import Dialect, read_table
    from fedconformal.cli import _scores
    from fedconformal.cli._files import check_output, read
    from fedconformal.documents import Calibration
    from fedconformal.protocol import prediction_sets

    check_output(output, force=force)
    if output not in (None, STANDARD) and output.suffix.lower() not in _TABLES:
        raise ValueError(f"{output}: the name must end with {' or '.join(_TABLES)}")
    published = read(Calibration, calibration)
    plan = published.plan
    _scores.check_column(plan, group, calibration)
    _scores.check_site(plan, site, calibration)
    table = read_table(predictions, dialect=Dialect(separator, decimal, encoding))
    labels = None if group is None else table.labels(group)
    used = _scores.chosen_columns(column, table.columns) if column else _columns(plan, table, leave_out=group)
    used = _scores.in_class_order(plan, used, table.name)
    rule = _score(plan, score, used)
    predicted = _scores.prediction_of(rule, table, used, option="--column")
    with _scores.by_line(table, used):
        sets = prediction_sets(published, rule, predicted, groups=labels, site=site)
    if plan.score is None and score is None:
        say("The plan fixes no score: absolute residuals are assumed, prediction -/+ threshold.")
    levels = plan.confidence_levels
    for i, level in enumerate(levels):
        if sets.dtype == bool and sets[:, :, i].all():
            which = "The set contains" if len(sets) == 1 else f"All {len(sets)} sets contain"
            say(f"{which} every label (level {level:g}), so they are uninformative.")
    suffixes = [""] if len(levels) == 1 else [f"_{level!r}" for level in levels]
    names = list(enumerate(rule.set_columns(used)))
    added = {name + suffix: sets[:, j, i] for i, suffix in enumerate(suffixes) for j, name in names}
    frame = need("polars", extra="cli").DataFrame
    if only:
        result = frame(added)
    else:
        if taken := sorted(added.keys() & set(table.columns)):
            raise ValueError(f"{table.name}: has a column {taken[0]!r} already; --only leaves it out")
        shown = {name: table.numbers([name])[:, 0] for name in used}  # numbers, where the table has text
        result = table.frame.with_columns(frame({**shown, **added}))
    _deliver(result, None if output == STANDARD else output, force=force, as_json=json)


def _columns(plan: "Plan", table: "Table", *, leave_out: str | None) -> list[str]:
    """Return the columns named after the plan's classes, or else all that hold numbers."""
    if plan.classes is not None and set(plan.classes) <= set(table.columns):
        return list(plan.classes)
    return [name for name in table.numeric() if name != leave_out]


def _score(plan: "Plan", name: str | None, columns: Sequence[str]) -> "Score":
    """Return the score that the plan fixes, or else the one given."""
    from fedconformal.cli import _parse
    from fedconformal.protocol import score_of
    from fedconformal.scores import Absolute

    if plan.score is not None:
        if name not in (None, plan.score.name):
            raise ValueError(f"the plan fixes the score, {plan.score.name}: leave out --score, got {name!r}")
        return score_of(plan.score)
    score = _parse.score(name)
    if score is None and len(columns) != 1:
        raise ValueError(f"{len(columns)} columns of predictions and no score in the plan: give --score")
    return score or Absolute()


def _deliver(result: Any, output: Path | None, *, force: bool, as_json: bool) -> None:
    from fedconformal._files import write_atomically

    if output is not None:
        is_parquet = output.suffix.lower() == ".parquet"
        write_atomically(output, result.write_parquet if is_parquet else result.write_csv, force=force)
        say(f"wrote {output}: {count(result.height, 'row')}")
    if as_json:
        print_json([{key: _json_value(value) for key, value in row.items()} for row in result.to_dicts()])
    elif output is None:
        print(result.write_csv(), end="")


def _json_value(value: Any) -> Any:
    """Return a value that JSON can hold, which has no infinity and no NaN."""
    if isinstance(value, float) and not isfinite(value):
        return {inf: "Infinity", -inf: "-Infinity"}.get(value)
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)
