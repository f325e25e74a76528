"""The commands of a coordinator whose sites differ: whatif, compare, check, checks."""

from pathlib import Path
from typing import Annotated

import typer

from fedconformal.cli._options import (
    Column,
    Force,
    Json,
    OneLevel,
    Prediction,
    Reports,
    Target,
    Yes,
    check_output,
)


def whatif(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan, or a calibration.")],
    shift: Annotated[
        list[str],
        typer.Option(
            help="SITE=scale:1.5, SITE=location:0.3, SITE=power:2, SITE=contaminated:0.1:5 or "
            "SITE=scores:FILE; may be repeated. Sites without names are numbered from 1."
        ),
    ],
    test: Annotated[
        list[str] | None,
        typer.Option(help="Where test points come from: a site, or mixture; by default the shifted ones."),
    ] = None,
    reference: Annotated[
        str,
        typer.Option(
            help="Scores of the other sites: half-normal, exponential, normal, uniform, log-normal, cauchy, "
            "or a file of example scores."
        ),
    ] = "half-normal",
    weight: Annotated[
        list[str] | None, typer.Option(help="SITE=0.3: its share of the mixture; by default by size.")
    ] = None,
    confidence_level: OneLevel = None,
    json: Json = False,
) -> None:
    """Ask what becomes of the coverage if some sites differ."""
    from fedconformal.cli import _differ

    _differ.what_if(
        plan_file,
        shift,
        tests=test or [],
        reference=reference,
        weights=weight or [],
        level=confidence_level,
        as_json=json,
    )


def compare(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan that was answered.")],
    reports: Reports,
    reference: Annotated[
        str | None,
        typer.Option(help="Scores of a typical site (a file), or a named distribution as for whatif."),
    ] = None,
    column: Annotated[str | None, typer.Option(help="Column that holds the reference scores.")] = None,
    confidence_level: OneLevel = None,
    false_alarm: Annotated[
        float, typer.Option(help="Probability of naming any site if all are alike.")
    ] = 0.05,
    json: Json = False,
) -> None:
    """Look for sites that stand out, from their reports alone."""
    from fedconformal.cli import _differ

    _differ.compare(
        plan_file,
        reports,
        reference=reference,
        column=column,
        level=confidence_level,
        false_alarm=false_alarm,
        as_json=json,
    )


def check(
    calibration: Annotated[Path, typer.Argument(help="The published calibration.")],
    scores: Annotated[Path, typer.Argument(help="Scores of new cases: CSV, Parquet or .npy.")],
    site: Annotated[str | None, typer.Option(help="This site's name; needed for an answer.")] = None,
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
    from fedconformal.cli import _check

    check_output(output, force=force)
    _check.check(
        calibration,
        scores,
        site=site,
        column=column,
        target=target,
        prediction=prediction,
        confidence_level=confidence_level,
        epsilon=private,
        ledger=ledger,
        dataset=dataset,
        ask=not yes,
        output=output,
        force=force,
        as_json=json,
    )


def checks(
    calibration: Annotated[Path, typer.Argument(help="The calibration that the sites checked.")],
    answers: Annotated[list[Path], typer.Argument(help="Answer files, or directories of them.")],
    json: Json = False,
) -> None:
    """Compare the sites' checks: coverage with intervals, and who falls short."""
    from fedconformal.cli import _check

    _check.checks(calibration, answers, as_json=json)
