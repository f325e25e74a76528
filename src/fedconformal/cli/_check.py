"""``fedconformal check``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
from fedconformal.cli._show import number, print_json, say, table, working

if TYPE_CHECKING:
    import numpy as np

    from fedconformal._tables import Dialect
    from fedconformal._typing import Floats
    from fedconformal.documents import Calibration
    from fedconformal.heterogeneity import LocalCheck


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
    from fedconformal import heterogeneity, protocol
    from fedconformal._tables import Dialect
    from fedconformal.cli._files import check_output, read
    from fedconformal.cli._groups import check_site, column_of_labels
    from fedconformal.cli._outgoing import confirm, send_out
    from fedconformal.documents import Calibration
    from fedconformal.privacy import Ledger

    check_output(output, force=force)
    _check_private(private, ledger, dataset, output)
    _check_answer(site, confidence_level, output)
    published = read(Calibration, calibration)
    group = column_of_labels(published.plan, group, target, calibration)
    check_site(published.plan, site, calibration)
    if output is not None and published.plan.grouping.has_labels and label is None:
        raise ValueError("an answer is for one group: say which with --label")
    account = None if ledger is None else Ledger(ledger)
    with working("reading and counting scores"):
        cases = _cases(
            published,
            calibration,
            scores,
            site=site,
            group=group,
            label=label,
            column=column,
            target=target,
            prediction=prediction,
            private=private is not None,
            rng=None if account is None else account.generator(published.digest, site or ""),
            dialect=Dialect(separator, decimal, encoding),
        )
    if private is None:  # else nothing but the release may be seen, not even on this terminal
        found = {
            of: heterogeneity.check(alone, values, site=site, confidence_level=confidence_level)
            for of, (alone, values) in cases.items()
        }
        _show(found, as_json=json)
    if output is None or site is None:
        return
    ((alone, values),) = cases.values()
    prepared = heterogeneity.prepare_answer(
        alone,
        values,
        site=site,
        epsilon=private,
        policy=None if policy is None else protocol.SitePolicy.read(policy),
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


def _cases(
    published: "Calibration",
    path: Path,
    scores: Path,
    *,
    site: str | None,
    group: str | None,
    label: str | None,
    column: str | None,
    target: str | None,
    prediction: list[str] | None,
    private: bool,
    rng: "np.random.Generator | None",
    dialect: "Dialect",
) -> "dict[str | None, tuple[Calibration, Floats]]":
    """The calibration and the cases of each group that is asked for; of all, under None, without groups."""
    from fedconformal.cli._groups import calibration_of, check_label
    from fedconformal.cli._scores import read_cases

    labels, values = read_cases(
        published.plan,
        scores,
        group=group,
        column=column,
        target=target,
        prediction=prediction,
        private=private,
        rng=rng,
        dialect=dialect,
    )
    grouping = published.plan.grouping
    if labels is None:
        own = grouping.group_of_site(site) if grouping.by_site else label
        return {own if grouping.by_site else None: (calibration_of(published, own, path), values)}
    if label is not None:
        check_label(published.plan, label, path)
    names = sorted(set(labels))
    group_of = dict(zip(names, grouping.groups_of(names, site), strict=True))
    mine: dict[str, list[int]] = {}
    for i, name in enumerate(labels):
        found = group_of[name]
        if found is not None and label in (None, found):
            mine.setdefault(found, []).append(i)
    if not mine:
        raise ValueError(f"{scores}: no case is in {'any group' if label is None else f'group {label!r}'}")
    return {each: (calibration_of(published, each, path), values[mine[each]]) for each in sorted(mine)}


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
                number(level.threshold),
                *cells(level),
                f"{level.p_value:.3g}",
            ]
            for label, each in found.items()
            for level in each.levels
        ],
    )
    for label, each in found.items():
        print(f"Group {label!r}: {each.sentence()}" if grouped else each.sentence())
    print("This holds for new cases only: none of them may have been used to train or to calibrate.")


def _fields(found: "LocalCheck") -> dict[str, Any]:
    from fedconformal.cli._coverage import fields

    levels = [fields(level) for level in found.levels]
    return {"site": found.site, "n": found.n, "levels": levels, "sentence": found.sentence()}
