"""``fedconformal check``."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedconformal.cli import _options as opt
from fedconformal.cli._command import hush
from fedconformal.cli._show import number, paragraph, print_json, say, table, working

if TYPE_CHECKING:
    from fedconformal._typing import Floats
    from fedconformal.documents import Calibration, CalibrationView
    from fedconformal.monitoring import LocalCheck


_NEW = "This holds for new cases only: none of them may have been used to train or to calibrate."


def check(
    calibration: Annotated[Path, typer.Argument(help="The published calibration.")],
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
    confidence_level: Annotated[
        float | None, typer.Option(help="One of the calibration's levels; all by default.")
    ] = None,
    private: Annotated[
        float | None, typer.Option(metavar="EPSILON", help="Make the answer differentially private.")
    ] = None,
    ledger: Annotated[Path | None, typer.Option(help="For a private answer: this site's ledger.")] = None,
    dataset: Annotated[
        str | None, typer.Option(help="For a private answer: name of the new cases in the ledger.")
    ] = None,
    policy: opt.Policy = None,
    yes: opt.Yes = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write an answer for the coordinator.")
    ] = None,
    force: opt.Force = False,
    json: opt.Json = False,
) -> None:
    """Check a calibration on new cases of this site; nothing leaves unless an answer is asked for."""
    from fedconformal import monitoring
    from fedconformal._files import STANDARD
    from fedconformal._tables import Dialect
    from fedconformal.cli._files import check_output, confirm, open_ledger, read, read_policy, send_out
    from fedconformal.cli._scores import check_site, column_of_labels, read_cases
    from fedconformal.documents import Calibration

    check_output(output, force=force)
    if private is not None and (output is None or ledger is None or dataset is None):
        raise ValueError("--private goes with --ledger, --dataset and -o, where the answer is written")
    if output is None and (ledger is not None or dataset is not None):
        raise ValueError("--ledger and --dataset go with an answer: -o names its file")
    if output is not None and site is None:
        raise ValueError("an answer needs the site's name: --site")
    if output is not None and confidence_level is not None:
        raise ValueError("--confidence-level does not go with -o: an answer is for all levels")
    published = read(Calibration, calibration)
    group = column_of_labels(published.plan, group, target, calibration)
    check_site(published.plan, site, calibration)
    account = None if ledger is None else open_ledger(ledger)
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
        cases = _Cases(published, calibration, values, labels, columns)
        if label is not None:
            cases = _one_group(cases, label, scores, site)
    if private is None:  # else nothing but the release may be seen, not even on this terminal
        with _shown_beside(output == STANDARD):
            _look(cases, site=site, confidence_level=confidence_level, as_json=json and output != STANDARD)
    if output is None or site is None:
        return
    prepared = monitoring.prepare_answer(
        cases.checked,
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
    if account is not None:  # before anything is charged or recorded
        confirm("Answer it?", ask=not yes)
    answer, as_json = prepared.make().to_json(), json and private is not None
    send_out(answer, ask=not yes and account is None, output=output, force=force, as_json=as_json)


@contextmanager
def _shown_beside(answer_on_stdout: bool) -> Iterator[None]:
    """Print for people beside an answer on standard output; nobody who stops reading loses the answer."""
    try:
        with redirect_stdout(sys.stderr) if answer_on_stdout else nullcontext():
            yield
            sys.stdout.flush()
    except BrokenPipeError:
        hush()


@dataclass(frozen=True, eq=False)
class _Cases:
    """New cases of a site, and the calibration that they check.

    The label of each case is there if the calibration has thresholds by label, and not one group is checked.
    """

    calibration: "Calibration"
    path: Path
    values: "Floats"
    groups: list[str] | None
    by: dict[str, list[str]]
    label: str | None = None

    @property
    def checked(self) -> "Calibration | CalibrationView":
        """The calibration, or one group of it."""
        return self.calibration if self.label is None else self.calibration[self.label]

    def places(self, site: str | None) -> dict[str, list[int]]:
        """Return which cases are in each group."""
        labels = self.groups or []
        names = sorted(set(labels))
        group_of = dict(zip(names, self.calibration.plan.grouping.groups_of(names, site), strict=True))
        places: dict[str, list[int]] = {}
        for i, name in enumerate(labels):
            group = group_of[name]
            if group is not None:
                places.setdefault(group, []).append(i)
        return places


def _one_group(cases: _Cases, label: str, scores: Path, site: str | None) -> _Cases:
    """Return the cases of one group."""
    from fedconformal.cli._scores import select_group

    select_group(cases.calibration, label, cases.path)
    if cases.groups is None:
        return replace(cases, label=label)
    mine = cases.places(site).get(label, [])
    if not mine:
        raise ValueError(f"{scores}: no case is in group {label!r}")
    columns = {name: [column[i] for i in mine] for name, column in cases.by.items()}
    return replace(cases, values=cases.values[mine], groups=None, by=columns, label=label)


def _look(cases: _Cases, *, site: str | None, confidence_level: float | None, as_json: bool) -> None:
    """Show the result at the site, where nothing leaves."""
    from fedconformal import monitoring
    from fedconformal.cli._checks import show_assessment

    options: dict[str, Any] = {"site": site, "confidence_level": confidence_level}
    if cases.by:
        found = monitoring.check_by(cases.checked, cases.values, by=cases.by, groups=cases.groups, **options)
        show_assessment(found, cases.calibration.plan, as_json=as_json)
    else:
        each = {
            group: monitoring.check(calibration, values, **options)
            for group, (calibration, values) in _by_group(cases, site).items()
        }
        _show(each, as_json=as_json)
    if not as_json:
        paragraph(_NEW)


def _by_group(
    cases: _Cases, site: str | None
) -> "dict[str | None, tuple[Calibration | CalibrationView, Floats]]":
    """Return the calibration and the cases of each group; of all, under None, without groups."""
    from fedconformal.cli._scores import select_group

    if cases.label is not None or not cases.calibration.plan.is_grouped:
        return {cases.label: (cases.checked, cases.values)}
    if cases.groups is None:
        own = cases.calibration.plan.grouping.group_of_site(site)
        return {own: (select_group(cases.calibration, own, cases.path), cases.values)}
    places = cases.places(site)
    if not places:
        raise ValueError("no case is in any group of the calibration")
    return {
        label: (select_group(cases.calibration, label, cases.path), cases.values[places[label]])
        for label in sorted(places)
    }


def _show(found: "dict[str | None, LocalCheck]", *, as_json: bool) -> None:
    from fedconformal.cli._checks import coverage_cells, coverage_fields

    grouped = None not in found
    if as_json:
        fields = {
            str(label): {
                "site": each.site,
                "n": each.n,
                "levels": [coverage_fields(level) for level in each.levels],
                "sentence": each.sentence(),
            }
            for label, each in found.items()
        }
        print_json({"groups": fields} if grouped else fields["None"])
        return
    table(
        [*["group"] * grouped, "level", "threshold", "covered", "coverage", "95 % interval", "p-value"],
        [
            [
                *[str(label)] * grouped,
                f"{level.confidence_level!r}",
                "" if level.threshold is None else number(level.threshold),
                *coverage_cells(level),
                f"{level.p_value:.3g}",
            ]
            for label, each in found.items()
            for level in each.levels
        ],
    )
    for label, each in found.items():
        paragraph(f"Group {label!r}: {each.sentence()}" if grouped else each.sentence())
