"""``fedconformal check``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedconformal.cli._options import Column, Force, GroupLabel, Json, Prediction, Target, Yes
from fedconformal.cli._show import number, print_json, table, working

if TYPE_CHECKING:
    from fedconformal.heterogeneity import LocalCheck


def check(
    calibration: Annotated[Path, typer.Argument(help="The published calibration.")],
    scores: Annotated[Path, typer.Argument(help="Scores of new cases: CSV, Parquet or .npy.")],
    site: Annotated[str | None, typer.Option(help="This site's name; needed for an answer.")] = None,
    group: GroupLabel = None,
    column: Column = None,
    target: Target = None,
    prediction: Prediction = None,
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
    yes: Yes = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write an answer for the coordinator.")
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Check a calibration on new cases of this site; nothing leaves unless an answer is asked for."""
    from fedconformal import heterogeneity
    from fedconformal.cli._files import check_output
    from fedconformal.cli._groups import calibration_of
    from fedconformal.cli._outgoing import send_out
    from fedconformal.cli._scores import read_scores
    from fedconformal.documents import Calibration
    from fedconformal.privacy import Ledger

    check_output(output, force=force)
    _check_private(private, ledger, dataset, output)
    _check_answer(site, confidence_level, output)
    published = calibration_of(Calibration.read(calibration), group, calibration)
    with working("reading and counting scores"):
        values = read_scores(
            published.plan,
            scores,
            column=column,
            target=target,
            prediction=prediction,
            private=private is not None,
        )
        found = heterogeneity.check(
            published,
            values if private is None else heterogeneity.fill_missing(values),
            site=site,
            confidence_level=confidence_level,
        )
    _show(found, as_json=json)
    if output is not None and site is not None:
        account = None if ledger is None else Ledger(ledger)
        made = heterogeneity.answer(
            published, values, site=site, epsilon=private, ledger=account, dataset=dataset
        )
        send_out(made.to_json(), ask=not yes, output=output, force=force, as_json=False)


def _check_private(
    epsilon: float | None, ledger: Path | None, dataset: str | None, output: Path | None
) -> None:
    """Refuse a private answer that lacks something, and what goes with no other."""
    if epsilon is not None and (output is None or ledger is None or dataset is None):
        raise ValueError("--private goes with --ledger, --dataset and -o, where the answer is written")
    if epsilon is None and (ledger is not None or dataset is not None):
        raise ValueError("--ledger and --dataset go with --private")


def _check_answer(site: str | None, confidence_level: float | None, output: Path | None) -> None:
    """Refuse an answer that nobody could read."""
    if output is not None and site is None:
        raise ValueError("an answer needs the site's name: --site")
    if output is not None and confidence_level is not None:
        raise ValueError("--confidence-level does not go with -o: an answer is for all levels")


def _show(found: "LocalCheck", *, as_json: bool) -> None:
    from fedconformal.cli._coverage import cells, fields

    if as_json:
        levels = [fields(level) for level in found.levels]
        print_json({"site": found.site, "n": found.n, "levels": levels, "sentence": found.sentence()})
        return
    table(
        ["level", "threshold", "covered", "coverage", "95 % interval", "p-value"],
        [
            [f"{level.confidence_level!r}", number(level.threshold), *cells(level), f"{level.p_value:.3g}"]
            for level in found.levels
        ],
    )
    print(found.sentence())
    print("This holds for new cases only: none of them may have been used to train or to calibrate.")
