"""``fedconformal report``, and cases from a file: scores, or truth and predictions, and
groups.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from fedconformal import protocol
from fedconformal._tables import Dialect, Table, read_column, read_table
from fedconformal._text import count, quoted
from fedconformal._util import BadRowsError, Floats
from fedconformal.cli import _files
from fedconformal.cli._show import working
from fedconformal.documents import Calibration, CalibrationView, Curve, Plan, ScoreRule
from fedconformal.protocol import class_places, measure_cases, score_of
from fedconformal.scores import SCORES, LossScore, Score, from_name


@dataclass(frozen=True)
class CaseColumns:
    """Options for the columns of a file of cases."""

    group: str | None = None
    column: str | None = None
    target: str | None = None
    prediction: list[str] | None = None


def report(
    plan: Path,
    scores: Path,
    *,
    site: str,
    columns: CaseColumns,
    dialect: Dialect,
    own: _files.SiteFiles,
    model: Path | None = None,
    identifier: str | None = None,
    yes: bool = False,
    out: _files.Output,
) -> None:
    """Answer a plan with this site's scores."""
    out.check()
    question = _files.read(Plan, plan)
    columns = replace(
        columns,
        group=column_of_labels(question, columns.group, plan, target=columns.target),
    )
    private = protocol.is_private(question)
    if private and (own.ledger is None or own.dataset is None):
        raise ValueError(
            f"{plan}: is private, so that the answer is charged to a budget: give"
            " --ledger and --dataset (fedconformal ledger new and ledger budget make"
            " them)"
        )
    who = own.open(site)
    protocol.admit(question, policy=who.policy, has_ledger=who.has_ledger)
    curve = protocol.loss_curve(question)
    with working("reading scores"):
        labels, values, others = read_cases(
            question,
            scores,
            columns,
            dialect=dialect,
            private=private,
            draw=who.draw_source(),
            by=() if identifier is None else (identifier,),
            curve=curve,
        )
        given: dict[str, Any] = (
            {"scores": values} if curve is None else {"losses": values}
        )
        if curve is not None and curve.starts is not None:
            given = {"scores": values[:, 0], "losses": values[:, 1]}
        prepared = protocol.prepare(
            question,
            **given,
            site=site,
            groups=labels,
            score=None if columns.target is None else question.score,
            key=who.key,
            policy=who.policy,
            model=_files.model_of(model),
            in_place=True,
            ledger=who.ledger,
            dataset=who.dataset,
            identifiers=None if identifier is None else others[identifier],
        )
    out.send(
        prepared.sentence,
        prepared.report,
        ask=not yes,
        is_recorded=who.ledger is not None,
    )


def score_columns() -> list[tuple[str, str]]:
    """Return all scores by name, with the columns of a prediction that each needs."""
    columns = []
    for name in SCORES:
        with suppress(ValueError, TypeError):  # a score with required parameters
            columns.append((name, from_name(name).column_help()))
    return columns


# -- columns ---------------------------------------------------------------------------


def chosen_columns(typed: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Return columns as they were typed: one after the other, or several with commas
    between them.
    """
    names: list[str] = []
    there = set(columns)
    for text in typed:
        names += [text] if text in there else [name.strip() for name in text.split(",")]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(
            f"the column {twice!r} is named twice; each belongs to one part of the"
            " prediction"
        )
    return names


def in_class_order(plan: Plan, columns: Sequence[str], path: Path | str) -> list[str]:
    """Return the columns of a prediction in the order of the plan's classes, where it
    names them.
    """
    names = list(columns)
    unnamed = [f"column_{i + 1}" for i in range(len(plan.classes or ()))]
    if (
        plan.classes is None or names == unnamed
    ):  # a file without names has the plan's order
        return names
    try:
        return [names[place] for place in class_places(names, plan.classes)]
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def read_cases(
    plan: Plan,
    path: Path,
    columns: CaseColumns,
    *,
    dialect: Dialect | None = None,
    private: bool,
    draw: Callable[..., Any] = lambda *cases: None,
    by: Sequence[str] = (),
    curve: Curve | None = None,
) -> tuple[list[str] | None, Floats, dict[str, list[str]]]:
    """Return the group of each case where there are groups, the scores, and the columns
    ``by`` by name.

    For a ``curve`` of losses these come in the place of scores, for one of answers the
    confidence and whether each is wrong. For a private answer no score is refused,
    whatever it is. ``draw`` is the source of random numbers.
    """
    rule = _check_options(plan, path, columns)
    group, column, target = columns.group, columns.column, columns.target
    if curve is not None and curve.starts is not None and (target or column):
        raise ValueError(
            "--target and --column must be left out: this plan needs the columns of"
            " answers"
        )
    score = None if rule is None else score_of(rule)
    edges = None if curve is None else curve.edges
    measure = partial(measure_cases, edges=edges, plan=plan, draw=draw)
    if path.suffix.lower() == ARRAYS and score is not None:
        labels, truth, predicted, others = _read_images(path, score, columns, by)
        if private:
            return (
                labels,
                score.scores_or_nan(truth, predicted, **score.draws(draw(score))),
                others,
            )
        return labels, measure(score, truth, predicted), others
    if score is None and group is None and not by and curve is None:
        values = read_column(
            path, column, nan=private, dialect=dialect, advice=_advice(plan)
        )
        return None, values, {}
    table = read_table(path, dialect=dialect, private=private)
    labels = None if group is None else table.labels(group)
    others = {name: table.labels(name) for name in by}
    if score is None and curve is not None:
        return (
            labels,
            table.numbers(_loss_columns(curve, table, (group, *by), column)),
            others,
        )
    if score is None:
        names = [name for name in table.columns if name not in (group, *by)]
        used = (
            names[0]
            if column is None and len(names) == 1
            else table.only(column, _advice(plan))
        )
        values = table.numbers([used], nan=private)[:, 0]
        if not private:
            table.refuse_rows(values == -np.inf, used, "-Infinity")
        return labels, values, others
    used_columns = in_class_order(
        plan, chosen_columns(columns.prediction or [], table.columns), path
    )
    truth = _read_truth(plan, score, table, target or "", used_columns, private=private)
    if private:
        # A case without a score gets NaN, and no error reveals it.
        predicted = table.numbers(used_columns, nan=True)
        drawn = score.draws(draw(score))
        return (
            labels,
            score.scores_or_nan(truth, predicted, used_columns, **drawn),
            others,
        )
    predicted = prediction_of(score, table, used_columns)
    with by_line(table, used_columns):
        truth = score.truth_from(truth, argument=f"column {target!r}")
        return labels, measure(score, truth, predicted), others


def _loss_columns(
    curve: Curve, table: Table, labels: Sequence[str | None], column: str | None
) -> list[str]:
    """Return the columns of the losses at each edge, or of answers, which must have
    these names.
    """
    others = [name for name in table.columns if name not in labels]
    if curve.starts is not None and others != [
        "column_1",
        "column_2",
    ]:  # a file without names
        if not {"confidence", "wrong"} <= {*others}:
            raise ValueError(
                f"{table.name}: needs the columns confidence, and wrong: 1 for a wrong"
                f" answer, else 0; there are {', '.join(table.columns)}"
            )
        return ["confidence", "wrong"]
    return others if column is None else chosen_columns([column], table.columns)


def _check_order(targets: Sequence[str], columns: Sequence[str]) -> None:
    """Refuse columns of truth that are not those of the prediction, label by label, as
    far as names tell.
    """
    if len(targets) != len(columns):
        raise ValueError(
            "--target must name a column of 0 and 1 for each of the"
            f" {count(len(columns), 'column')} of --prediction, separated by commas,"
            f" got {count(len(targets), 'column')}"
        )
    true, predicted = (
        [name.rpartition("_")[2] for name in names] for names in (targets, columns)
    )
    if true != predicted and sorted(true) == sorted(predicted):
        raise ValueError(
            f"--target and --prediction must have the same order, got {quoted(targets)}"
            f" and {quoted(columns)}"
        )


def _check_options(plan: Plan, path: Path, columns: CaseColumns) -> ScoreRule | None:
    """Refuse options that do not go together; return the score of cases, None for a
    file of scores.
    """
    if columns.target is None:
        if columns.prediction:
            raise ValueError(
                "--prediction goes with --target, the column with the truth"
            )
        return None
    if columns.column is not None:
        raise ValueError(
            "--column is for scores and --target for cases: give one of them"
        )
    if plan.score is None:
        raise ValueError(
            "--target needs a plan that fixes the score (plan --score); this one"
            " does not"
        )
    if not columns.prediction:
        raise ValueError(
            f"--target needs --prediction: {_needs(plan.score)}; the first line of"
            f" {path} names them"
        )
    return plan.score


def _needs(rule: ScoreRule) -> str:
    return f"score {rule.name!r} needs {score_of(rule).column_help()}"


def _advice(plan: Plan) -> str:
    """Return what to do about a file with several columns of which none is named."""
    if plan.score is None:
        return ": choose one with --column"
    return (
        ": name the column of the truth with --target, and of the prediction with"
        f" --prediction ({_needs(plan.score)}); for a column of scores give --column"
    )


# -- images ----------------------------------------------------------------------------

ARRAYS = ".npz"


def read_arrays(path: Path, names: Sequence[str]) -> dict[str, Any]:
    """Return arrays of a file of numpy by name; objects are never unpickled."""
    try:
        with np.load(path, allow_pickle=False) as held:
            if unknown := [name for name in names if name not in held]:
                raise ValueError(
                    f"has no array {unknown[0]!r}; it has {quoted(held.files)}"
                )
            arrays = {name: held[name] for name in names}
    except (OSError, ValueError, BadZipFile) as error:
        raise ValueError(f"{path}: {error}") from None
    if (
        len({array.shape[:1] for array in arrays.values()}) != 1
        or not next(iter(arrays.values())).shape
    ):
        raise ValueError(f"{path}: {quoted(names)} must have one entry for each case")
    return arrays


def check_takes_images(score: Score, path: Path) -> None:
    """Refuse a score that takes tables."""
    if not score.takes_images:
        raise ValueError(
            f"{path}: score {score.name!r} takes tables; .npz is for images"
        )


def _read_images(
    path: Path, score: Score, columns: CaseColumns, by: Sequence[str]
) -> tuple[Any, ...]:
    """Return the group of each image where there are groups, truths, predictions, and
    columns by name.
    """
    check_takes_images(score, path)
    truth, predicted = str(columns.target), (columns.prediction or [""])[0]
    names = [*([] if columns.group is None else [columns.group]), *by]
    arrays = read_arrays(path, [truth, predicted, *names])
    texts = {name: [str(label) for label in arrays[name].tolist()] for name in names}
    return (
        texts.get(columns.group or ""),
        arrays[truth],
        arrays[predicted],
        {name: texts[name] for name in by},
    )


# -- truth -----------------------------------------------------------------------------


def _read_truth(
    plan: Plan,
    score: Score,
    table: Table,
    target: str,
    columns: Sequence[str],
    *,
    private: bool,
) -> Floats:
    """Return the truth as numbers, with a column for each label where a case has
    several.

    Names of classes become their numbers. Of a private answer each case is read
    individually, and is NaN where it is neither; else it is refused.
    """
    targets = [target]
    if isinstance(score, LossScore):
        targets = in_class_order(
            plan, chosen_columns([target], table.columns), table.name
        )
    if both := sorted({*targets} & {*columns}):
        raise ValueError(
            f"--target and --prediction both name {both[0]!r}: the truth is no"
            " prediction"
        )
    if isinstance(score, LossScore):
        _check_order(targets, columns)
        return table.numbers(targets, nan=private)
    table.check([target, *columns])
    if score.columns is not None:
        return table.numbers([target], nan=private)[:, 0]
    names = columns if plan.classes is None else plan.classes
    known = {name: float(i) for i, name in enumerate(names)}
    # Columns that are called by numbers, as 1, 2 and 3, have the names of the classes.
    has_numbers = plan.classes is None and not all(name.isdecimal() for name in columns)
    labels = table.labels_or_none(target) if private else table.labels(target)
    is_either = private or (
        target in table.numeric() and set(labels).isdisjoint(columns)
    )
    by_number = has_numbers and is_either
    others = (
        table.numbers([target], nan=True)[:, 0]
        if by_number
        else np.full(len(labels), np.nan)
    )
    truth = np.array(
        [
            known.get(label or "", other)
            for label, other in zip(labels, others, strict=True)
        ]
    )
    if not private:
        of = (
            "classes of the plan"
            if plan.classes is not None
            else "names of the columns of probabilities"
        )
        numbers = f"class numbers from 0 to {len(columns) - 1} or " * has_numbers
        unknown = sorted({str(labels[row]) for row in np.flatnonzero(np.isnan(truth))})
        table.refuse_rows(
            np.isnan(truth),
            target,
            f"must hold {numbers}{of}, {quoted(names)}, got {quoted(unknown)}",
            ": correct these, or leave them out",
        )
    return truth


# -- scores ----------------------------------------------------------------------------


def prediction_of(
    score: Score, table: Table, columns: Sequence[str], *, option: str = "--prediction"
) -> Any:
    """Return a prediction as the score takes it; a wrong number of columns is an error
    that lists all.
    """
    values = table.numbers(columns)
    try:
        return score.prediction_from(values, columns)
    except ValueError as error:
        there = ", ".join(table.columns)
        raise ValueError(
            f"{table.name}: {error}: choose them with {option}; there are {there}"
        ) from None


@contextmanager
def by_line(table: Table, columns: Sequence[str]) -> Iterator[None]:
    """Name refused rows by their lines in the file."""
    try:
        yield
    except BadRowsError as error:
        problem = error.problem
        if problem.startswith("prediction "):
            what = "column" if len(columns) == 1 else "columns"
            problem = f"{what} {quoted(columns)} {problem.removeprefix('prediction ')}"
        first = int(np.argmax(error.bad))
        rows = f"{np.count_nonzero(error.bad)} of {count(len(error.bad), 'row')}"
        raise ValueError(
            f"{table.name}: {problem}; {rows} are not, first in {table.place(first)}:"
            f" {error.value}"
        ) from None


# -- groups ----------------------------------------------------------------------------


def column_of_labels(
    plan: Plan,
    group: str | None,
    path: Path,
    *,
    target: str | None = None,
    is_new: bool = False,
) -> str | None:
    """Return the column with the group of each case; the truth of cases that are scored
    may be the group.

    Refuses cases without their groups where these are needed, and groups where they are
    not.
    """
    by_class, by_label = plan.grouping.by_class, plan.grouping.by_label
    if by_class and is_new and group is not None:
        raise ValueError(
            f"{path}: is by class, which nobody knows of new cases: leave out --group"
            f" {group}"
        )
    if by_class and target is not None and group not in (None, target):
        raise ValueError(
            f"{path}: is by class: --group must be left out, or the truth, got"
            f" {group!r}"
        )
    if by_class and not is_new and target is None and group is None:
        raise ValueError(
            f"{path}: is by class: name the column of the true class with --group"
        )
    if by_class:
        return group or target
    if by_label and group is None:
        labels = quoted(plan.grouping.labels)
        raise ValueError(
            f"{path}: has groups ({labels}): name the column of the groups with --group"
        )
    if by_label and group == target:
        raise ValueError(
            f"--group {group} is the truth, which nobody knows of new cases:"
            " predictions could not use these groups. plan --group-by class makes"
            " thresholds by true class that can be used"
        )
    if not by_label and group is not None:
        raise ValueError(f"{path}: has no groups: --group {group} does not go with it")
    return group


def check_label(plan: Plan, label: str | None, path: Path) -> None:
    """Refuse a document with groups unless one of them is named, and a name where there
    are none.
    """
    if not plan.is_grouped:
        if label is not None:
            raise ValueError(
                f"{path}: has no groups: --label {label} does not go with it"
            )
        return
    if label is None:
        raise ValueError(
            f"{path}: has groups ({quoted(plan.groups)}): choose one with --label"
        )
    if label not in plan.groups:
        raise ValueError(
            f"--label must be a group of {path} ({quoted(plan.groups)}), got {label!r}"
        )


def select_group(
    calibration: Calibration, label: str | None, path: Path
) -> Calibration | CalibrationView:
    """Return one group of a calibration, or the calibration itself if it has no
    groups.
    """
    check_label(calibration.plan, label, path)
    if label is None:
        return calibration
    if not calibration[label].is_calibrated:
        raise ValueError(
            f"{path}: too few sites answered for group {label!r}: its threshold is"
            " infinite"
        )
    return calibration[label]
