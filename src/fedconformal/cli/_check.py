"""``fedconformal check``."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedconformal.cli import _options as opt
from fedconformal.cli._show import number, paragraph, print_json, say, silence_output, table, working

if TYPE_CHECKING:
    from fedconformal.documents import Calibration
    from fedconformal.monitoring import LocalCheck


_NEW = "This holds for new cases only: none of them may have been used to train or to calibrate."


def check(
    calibration: opt.CalibrationFile,
    scores: Annotated[Path, typer.Argument(help="Scores of new cases: CSV, Excel, Parquet or .npy.")],
    site: Annotated[str | None, typer.Option(help="This site's name; needed for an answer.")] = None,
    group: opt.GroupColumn = None,
    label: opt.OneLabel = None,
    column: opt.Column = None,
    target: opt.Target = None,
    prediction: opt.Prediction = None,
    separator: opt.Separator = None,
    decimal: opt.Decimal = None,
    encoding: opt.Encoding = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Show cases separately by their values in this column, even the truth; may be repeated, for "
            "every combination of values.",
        ),
    ] = None,
    confidence_level: opt.OneLevel = None,
    private: Annotated[
        float | None, typer.Option(metavar="EPSILON", help="Make the answer differentially private.")
    ] = None,
    ledger: opt.LedgerFile = None,
    dataset: opt.DataSet = None,
    policy: opt.Policy = None,
    yes: opt.Yes = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write an answer for the coordinator.")
    ] = None,
    force: opt.Force = False,
    json: opt.Json = False,
) -> None:
    """Check a calibration on new cases of this site; nothing leaves unless an answer is asked for."""
    import numpy as np

    from fedconformal import monitoring
    from fedconformal._files import STANDARD
    from fedconformal._tables import Dialect
    from fedconformal.cli import _files
    from fedconformal.cli._compare import show_assessment
    from fedconformal.cli._scores import check_site, column_of_labels, read_cases, select_group
    from fedconformal.documents import Calibration

    _files.check_output(output, force=force)
    _check_options(site, confidence_level, private, ledger, dataset, output)
    published = _files.read(Calibration, calibration)
    group = column_of_labels(published.plan, group, target, calibration)
    check_site(published.plan, site, calibration)
    account = None if ledger is None else _files.open_ledger(ledger)
    with working("reading and counting scores"):
        labels, values, columns = read_cases(
            published.plan,
            scores,
            group=group,
            by=by or [],
            column=column,
            target=target,
            prediction=prediction,
            private=private is not None,
            rng=None if account is None else account.generator(published.digest, site or ""),
            dialect=Dialect(separator, decimal, encoding),
        )
        checked = published if label is None else select_group(published, label, calibration)
        if label is not None:
            own = _rows_by_group(published, labels, site, label)[label]
            values, labels = values[own], None
            columns = {name: np.asarray(cells)[own].tolist() for name, cells in columns.items()}
    if private is None:  # else nothing but the release may be seen, not even on this terminal
        options: dict[str, Any] = {"site": site, "confidence_level": confidence_level}
        rows = {} if columns else _rows_by_group(published, labels, site, label)
        groups = {name: select_group(published, name, calibration) for name in rows}
        with _shown_beside(output == STANDARD):
            as_json = json and output != STANDARD
            if columns:
                result = monitoring.check_by(checked, values, by=columns, groups=labels, **options)
                show_assessment(result, published.plan, as_json=as_json)
            else:
                checks = {
                    name: monitoring.check(groups[name], values[rows[name]], **options) for name in rows
                }
                _show(checks, as_json=as_json)
            if not as_json:
                paragraph(_NEW)
    if output is None or site is None:
        return
    prepared = monitoring.prepare_answer(
        checked,
        values,
        site=site,
        epsilon=private,
        by=columns or ({group: labels} if group is not None and labels is not None else None),
        groups=labels,
        policy=_files.read_policy(policy),
        ledger=account,
        dataset=dataset,
    )
    say(prepared.sentence)
    if account is not None and not yes:  # before anything is charged or recorded
        _files.confirm(output)
    answer, as_json = prepared.make().to_json(), json and private is not None
    _files.send_out(answer, ask=not yes and account is None, output=output, force=force, as_json=as_json)


def _check_options(
    site: str | None,
    confidence_level: float | None,
    private: float | None,
    ledger: Path | None,
    dataset: str | None,
    output: Path | None,
) -> None:
    """Refuse options that do not go together."""
    if private is not None and (output is None or ledger is None or dataset is None):
        raise ValueError("--private goes with --ledger, --dataset and -o, where the answer is written")
    if output is None and (ledger is not None or dataset is not None):
        raise ValueError("--ledger and --dataset go with an answer: -o names its file")
    if output is not None and site is None:
        raise ValueError("an answer needs the site's name: --site")
    if output is not None and confidence_level is not None:
        raise ValueError("--confidence-level does not go with -o: an answer is for all levels")


@contextmanager
def _shown_beside(answer_on_stdout: bool) -> Iterator[None]:
    """Print for people beside an answer on standard output; nobody who stops reading loses the answer."""
    try:
        with redirect_stdout(sys.stderr) if answer_on_stdout else nullcontext():
            yield
            sys.stdout.flush()
    except BrokenPipeError:
        silence_output()


def _rows_by_group(
    calibration: "Calibration", labels: Sequence[str] | None, site: str | None, label: str | None
) -> dict[str | None, Any]:
    """Return the rows of each group, or of the one that is named; of all cases under None without groups."""
    grouping = calibration.plan.grouping
    if labels is None:  # all cases are of one group
        is_known = label is not None or not calibration.plan.is_grouped
        return {label if is_known else grouping.group_of_site(site): slice(None)}
    names = sorted(set(labels))
    group_of = dict(zip(names, grouping.groups_of(names, site), strict=True))
    rows: dict[str | None, list[int]] = {}
    for i, name in enumerate(labels):
        rows.setdefault(group_of[name], []).append(i)
    rows.pop(None, None)
    if label is not None:
        rows = {group: own for group, own in rows.items() if group == label}
    if not rows:
        where = "any group of the calibration" if label is None else f"group {label!r}"
        raise ValueError(f"no case is in {where}")
    return {group: rows[group] for group in sorted(rows, key=str)}


def _show(checks: "dict[str | None, LocalCheck]", *, as_json: bool) -> None:
    from fedconformal.cli._compare import coverage_columns, coverage_fields

    grouped = None not in checks
    if as_json:
        fields = {
            str(label): {
                "site": result.site,
                "n": result.n,
                "levels": [coverage_fields(level) for level in result.levels],
                "sentence": result.sentence(),
            }
            for label, result in checks.items()
        }
        print_json({"groups": fields} if grouped else fields["None"])
        return
    table(
        [
            {
                "group": label,
                "level": f"{level.confidence_level!r}",
                "threshold": "" if level.threshold is None else number(level.threshold),
                **coverage_columns(level),
                "p-value": f"{level.p_value:.3g}",
            }
            for label, result in checks.items()
            for level in result.levels
        ]
    )
    for label, result in checks.items():
        paragraph(f"Group {label!r}: {result.sentence()}" if grouped else result.sentence())
