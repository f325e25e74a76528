"""``fedconformal check``."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedconformal.cli._command import hush
from fedconformal.cli._options import (
    Column,
    Decimal,
    Encoding,
    Force,
    GroupColumn,
    Json,
    OneLabel,
    Policy,
    Prediction,
    Separator,
    Target,
    Yes,
)
from fedconformal.cli._show import number, paragraph, print_json, say, table, working

if TYPE_CHECKING:
    import numpy as np

    from fedconformal._tables import Dialect
    from fedconformal._typing import Floats
    from fedconformal.documents import Calibration
    from fedconformal.heterogeneity import LocalCheck


_NEW = "This holds for new cases only: none of them may have been used to train or to calibrate."


def check(
    calibration: Annotated[Path, typer.Argument(help="The published calibration.")],
    scores: Annotated[Path, typer.Argument(help="Scores of new cases: CSV, Excel, Parquet or .npy.")],
    site: Annotated[str | None, typer.Option(help="This site's name; needed for an answer.")] = None,
    group: GroupColumn = None,
    label: OneLabel = None,
    column: Column = None,
    target: Target = None,
    prediction: Prediction = None,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Tell cases apart by their values in this column, the truth too; may be repeated, for every "
            "combination of values.",
        ),
    ] = None,
    confidence_level: Annotated[
        float | None, typer.Option(help="One of the calibration's levels; all by default.")
    ] = None,
    private: Annotated[
        float | None, typer.Option(metavar="EPSILON", help="Make the answer differentially private.")
    ] = None,
    ledger: Annotated[Path | None, typer.Option(help="For a private answer: this site's ledger.")] = None,
    dataset: Annotated[
        str | None, typer.Option(help="For a private answer: what the new cases are called in the ledger.")
    ] = None,
    policy: Policy = None,
    yes: Yes = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write an answer for the coordinator.")
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Check a calibration on new cases of this site; nothing leaves unless an answer is asked for."""
    from fedconformal import heterogeneity
    from fedconformal._inputs import STANDARD
    from fedconformal._tables import Dialect
    from fedconformal.cli._files import check_output, open_ledger, read, read_policy
    from fedconformal.cli._groups import check_site, column_of_labels
    from fedconformal.cli._outgoing import confirm, send_out
    from fedconformal.documents import Calibration

    check_output(output, force=force)
    _check_private(private, ledger, dataset, output)
    _check_answer(site, confidence_level, output)
    published = read(Calibration, calibration)
    group = column_of_labels(published.plan, group, target, calibration)
    check_site(published.plan, site, calibration)
    account = None if ledger is None else open_ledger(ledger)
    with working("reading and counting scores"):
        cases = _read(
            published,
            calibration,
            scores,
            site=site,
            group=group,
            label=label,
            by=by or [],
            column=column,
            target=target,
            prediction=prediction,
            private=private is not None,
            rng=None if account is None else account.generator(published.digest, site or ""),
            dialect=Dialect(separator, decimal, encoding),
        )
    if private is None:  # else nothing but the release may be seen, not even on this terminal
        with _shown_beside(output == STANDARD):
            _look(cases, site=site, confidence_level=confidence_level, as_json=json and output != STANDARD)
    if output is None or site is None:
        return
    prepared = heterogeneity.prepare_answer(
        cases.calibration,
        cases.values,
        site=site,
        epsilon=private,
        by=cases.by or ({group: cases.groups} if group is not None and cases.groups is not None else None),
        groups=cases.groups,
        policy=None if policy is None else read_policy(policy),
        ledger=account,
        dataset=dataset,
    )
    say(prepared.sentence)
    if account is not None:  # what is charged or recorded is asked for before that happens
        confirm("Answer it?", ask=not yes)
    as_json = json and private is not None
    send_out(
        prepared.make().to_json(),
        ask=not yes and account is None,
        output=output,
        force=force,
        as_json=as_json,
    )


@contextmanager
def _shown_beside(answer_on_stdout: bool) -> Iterator[None]:
    """Within it, print for people where no answer goes; nobody who stops reading loses the answer."""
    try:
        with redirect_stdout(sys.stderr) if answer_on_stdout else nullcontext():
            yield
            sys.stdout.flush()
    except BrokenPipeError:
        hush()


@dataclass(frozen=True, eq=False)
class _Cases:
    """New cases of a site, and the calibration that they are held against.

    The label of each case is there if the calibration has thresholds by label, and one group is not meant.
    """

    calibration: "Calibration"
    path: Path
    values: "Floats"
    groups: list[str] | None
    by: dict[str, list[str]]


def _read(
    published: "Calibration",
    path: Path,
    scores: Path,
    *,
    site: str | None,
    group: str | None,
    label: str | None,
    by: list[str],
    column: str | None,
    target: str | None,
    prediction: list[str] | None,
    private: bool,
    rng: "np.random.Generator | None",
    dialect: "Dialect",
) -> _Cases:
    """The cases; of one group, if it is named."""
    from fedconformal.cli._groups import calibration_of, check_label
    from fedconformal.cli._scores import read_cases

    labels, values, columns = read_cases(
        published.plan,
        scores,
        group=group,
        by=by,
        column=column,
        target=target,
        prediction=prediction,
        private=private,
        rng=rng,
        dialect=dialect,
    )
    if label is None:
        return _Cases(published, path, values, labels, columns)
    check_label(published.plan, label, path)
    if labels is None:
        return _Cases(calibration_of(published, label, path), path, values, None, columns)
    mine = _places(published, labels, site).get(label, [])
    if not mine:
        raise ValueError(f"{scores}: no case is in group {label!r}")
    there = {name: [values_of[i] for i in mine] for name, values_of in columns.items()}
    return _Cases(calibration_of(published, label, path), path, values[mine], None, there)


def _places(published: "Calibration", labels: list[str], site: str | None) -> dict[str, list[int]]:
    """Which cases are in each group."""
    names = sorted(set(labels))
    group_of = dict(zip(names, published.plan.grouping.groups_of(names, site), strict=True))
    places: dict[str, list[int]] = {}
    for i, name in enumerate(labels):
        found = group_of[name]
        if found is not None:
            places.setdefault(found, []).append(i)
    return places


def _look(cases: _Cases, *, site: str | None, confidence_level: float | None, as_json: bool) -> None:
    """What the site sees for itself."""
    from fedconformal import heterogeneity
    from fedconformal.cli._checks import show_assessment

    if cases.by:
        found = heterogeneity.check_by(
            cases.calibration,
            cases.values,
            by=cases.by,
            groups=cases.groups,
            site=site,
            confidence_level=confidence_level,
        )
        show_assessment(found, cases.calibration, as_json=as_json)
        if not as_json:
            paragraph(_NEW)
        return
    alone = _alone(cases, site)
    each = {
        of: heterogeneity.check(calibration, values, site=site, confidence_level=confidence_level)
        for of, (calibration, values) in alone.items()
    }
    _show(each, as_json=as_json)


def _alone(cases: _Cases, site: str | None) -> "dict[str | None, tuple[Calibration, Floats]]":
    """The calibration and the cases of each group; of all, under None, without groups."""
    from fedconformal.cli._groups import calibration_of

    published, grouping = cases.calibration, cases.calibration.plan.grouping
    if not published.plan.is_grouped:
        return {published.label: (published, cases.values)}
    if cases.groups is None:
        own = grouping.group_of_site(site)
        return {own: (calibration_of(published, own, cases.path), cases.values)}
    places = _places(published, cases.groups, site)
    if not places:
        raise ValueError("no case is in any group of the calibration")
    return {
        label: (calibration_of(published, label, cases.path), cases.values[places[label]])
        for label in sorted(places)
    }


def _check_private(
    epsilon: float | None, ledger: Path | None, dataset: str | None, output: Path | None
) -> None:
    """Refuse a private answer that lacks something."""
    if epsilon is not None and (output is None or ledger is None or dataset is None):
        raise ValueError("--private goes with --ledger, --dataset and -o, where the answer is written")
    if output is None and (ledger is not None or dataset is not None):
        raise ValueError("--ledger and --dataset go with an answer: -o says where it is written")


def _check_answer(site: str | None, confidence_level: float | None, output: Path | None) -> None:
    """Refuse an answer that nobody could read."""
    if output is not None and site is None:
        raise ValueError("an answer needs the site's name: --site")
    if output is not None and confidence_level is not None:
        raise ValueError("--confidence-level does not go with -o: an answer is for all levels")


def _show(found: "dict[str | None, LocalCheck]", *, as_json: bool) -> None:
    from fedconformal.cli._coverage import cells

    grouped = None not in found
    if as_json:
        print_json(
            {"groups": {str(label): _fields(each) for label, each in found.items()}}
            if grouped
            else _fields(found[None])
        )
        return
    table(
        [*["group"] * grouped, "level", "threshold", "covered", "coverage", "95 % interval", "p-value"],
        [
            [
                *[str(label)] * grouped,
                f"{level.confidence_level!r}",
                "" if level.threshold is None else number(level.threshold),
                *cells(level),
                f"{level.p_value:.3g}",
            ]
            for label, each in found.items()
            for level in each.levels
        ],
    )
    for label, each in found.items():
        paragraph(f"Group {label!r}: {each.sentence()}" if grouped else each.sentence())
    paragraph(_NEW)


def _fields(found: "LocalCheck") -> dict[str, Any]:
    from fedconformal.cli._coverage import fields

    levels = [fields(level) for level in found.levels]
    return {"site": found.site, "n": found.n, "levels": levels, "sentence": found.sentence()}
