"""The commands for groups: one threshold for each group of points."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fedconformal.cli import _parse
from fedconformal.cli._options import (
    Column,
    Columns,
    DataSet,
    Force,
    Json,
    LedgerFile,
    Only,
    Output,
    Prediction,
    Reports,
    ReportsToo,
    Score,
    SignWith,
    Site,
    SkipRefused,
    Target,
    Yes,
    check_output,
    save,
)
from fedconformal.cli._show import show_group_calibration, show_group_plan, working

app = typer.Typer(no_args_is_help=True, help="One threshold for each group of points, in one round.")

GroupColumn = Annotated[str, typer.Option("--group", help="Column that holds the labels.")]


@app.command()
def plan(
    points: Annotated[
        list[str] | None,
        typer.Option(
            help="A CSV with columns group,site,n; or LABEL:SIZES for each group, as in young:A=120,B=40."
        ),
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(help="A group whose sizes come with the reports; may be repeated.")
    ] = None,
    sites: Annotated[str | None, typer.Option(help="Number of sites, or their names: A,B,C.")] = None,
    confidence_level: Annotated[
        list[float] | None, typer.Option(help="Coverage wanted in every group; may be repeated.")
    ] = None,
    criterion: Annotated[str, typer.Option(help="marginal, stable or conditional.")] = "marginal",
    delta: Annotated[float, typer.Option(help="For the conditional criterion, in (0, 0.5].")] = 0.1,
    max_faulty: Annotated[int, typer.Option(help="How many sites may send anything at all.")] = 0,
    score: Annotated[str | None, typer.Option(help="Score that all sites use.")] = None,
    penalty: Annotated[float | None, typer.Option(help="For raps.")] = None,
    k_reg: Annotated[int | None, typer.Option(help="For raps.")] = None,
    key: Annotated[
        list[str] | None, typer.Option(help="SITE=ed25519:...; then only signed messages count.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Privacy loss of a site's whole answer; needs --bins.")
    ] = None,
    bins: Annotated[str | None, typer.Option(help="As for plan: uniform:LOW:HIGH:COUNT and so on.")] = None,
    bounded: Annotated[bool, typer.Option(help="No score can be above the last bin.")] = False,
    share: Annotated[
        list[str] | None, typer.Option(help="LABEL=WEIGHT for each group: how epsilon is split; else evenly.")
    ] = None,
    output: Output = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Choose the ranks of every group."""
    from fedconformal.groups import plan as make

    check_output(output, force=force)
    n_sites, names = _parse.sites(sites)
    levels = confidence_level or [0.9]
    options: dict[str, Any] = {"criterion": criterion, "delta": delta, "max_faulty": max_faulty}
    with working("planning"):
        result = make(
            _parse.groups(points or [], label or []),
            n_sites=n_sites,
            sites=names,
            confidence_level=levels[0] if len(levels) == 1 else levels,
            score=_parse.score(score, penalty=penalty, k_reg=k_reg),
            keys=_parse.keys(key),
            privacy=_parse.privacy(epsilon, bins, bounded=bounded),
            shares=_parse.shares(share),
            on_infeasible="ignore",
            **options,
        )
    if not json:
        show_group_plan(result)
    save(result, output, force=force, as_json=json)


@app.command()
def report(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="The group plan to answer.")],
    scores: Annotated[Path, typer.Argument(help="Scores and labels: CSV or Parquet.")],
    site: Site,
    group: GroupColumn,
    column: Column = None,
    target: Target = None,
    prediction: Prediction = None,
    sign_with: SignWith = None,
    ledger: LedgerFile = None,
    dataset: DataSet = None,
    yes: Yes = False,
    output: Output = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Answer a group plan with this site's scores: shows exactly what is about to leave."""
    from fedconformal import groups
    from fedconformal._tables import read_labels
    from fedconformal.cli import _site

    check_output(output, force=force)
    asked = groups.GroupPlan.read(plan_file)
    key, book = _site.opened(sign_with, ledger if asked.private else None)
    with working("reading and ranking scores"):
        labels, others = read_labels(scores, group)
        if column is None and target is None and len(others) == 1:
            column = others[0]
        one = asked.plans[0].plan  # the score is the same in all groups
        values = _site.read_scores(one, scores, column, target, prediction, private=asked.private)
        made = groups.report(asked, values, labels, site=site, key=key, ledger=book, dataset=dataset)
    _site.release(made.to_json(), ask=not yes, output=output, force=force, as_json=json)


@app.command()
def calibrate(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="The group plan that was answered.")],
    reports: Reports,
    skip_refused: SkipRefused = False,
    output: Output = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Turn the sites' messages into a threshold for every group."""
    from fedconformal import groups
    from fedconformal.cli import _server

    check_output(output, force=force)
    with working("calibrating"):
        asked = groups.GroupPlan.read(plan_file)
        sent, unreadable = _server.read_reports(_server.report_files(reports, plan_file), groups.GroupReport)
        result = groups.calibrate(
            asked, sent, on_refused="skip" if skip_refused else "raise", unreadable=unreadable
        )
    if not json:
        show_group_calibration(result)
    save(result, output, force=force, as_json=json)


@app.command()
def predict(
    calibration: Annotated[Path, typer.Argument(help="The group calibration.")],
    predictions: Annotated[Path, typer.Argument(help="Predictions and labels: CSV or Parquet.")],
    group: GroupColumn,
    column: Columns = None,
    score: Score = None,
    only: Only = False,
    output: Output = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Turn predictions into intervals or label sets, each with its group's threshold."""
    from fedconformal import groups
    from fedconformal._tables import read_labels
    from fedconformal.cli import _predict

    check_output(output, force=force)
    found = groups.GroupCalibration.read(calibration)
    labels, others = read_labels(predictions, group)
    _predict.add_sets(
        found.plan.plans[0].plan,
        found.threshold_of(labels),
        predictions,
        columns=column,
        among=others,
        score=score,
        only=only,
        output=output,
        force=force,
        as_json=json,
    )


@app.command()
def verify(
    calibration: Annotated[Path, typer.Argument(help="The group calibration to check.")],
    reports: ReportsToo = None,
    json: Json = False,
) -> None:
    """Recompute the claim of every group by an independent path."""
    from fedconformal import groups
    from fedconformal.cli import _server

    found = groups.GroupCalibration.read(calibration)
    given = _server.given_reports(reports, groups.GroupReport)
    with working("recounting"):
        checks = groups.verify(found, given)
    raise typer.Exit(0 if _server.show_checks(checks, can_do_more=given is None, as_json=json) else 1)
