"""The commands."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fedconformal import __version__
from fedconformal.cli import _books, _groups, _parse
from fedconformal.cli._differ_commands import check, checks, compare, whatif
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
    Score,
    SignWith,
    Site,
    SkipRefused,
    Target,
    Yes,
    check_output,
    save,
)
from fedconformal.cli._show import show_calibration, show_plan, working

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Prediction sets with a coverage guarantee, calibrated on data that never leaves its site.",
)


def _version(asked: bool) -> None:
    if asked:
        print(__version__)
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command()
def plan(
    sites: Annotated[str | None, typer.Option(help="Number of sites, or their names: A,B,C.")] = None,
    points: Annotated[
        str | None,
        typer.Option(help="Scores per site: 79, or 120,40,377, or A=120,B=40, or a CSV with columns site,n."),
    ] = None,
    confidence_level: Annotated[
        list[float] | None, typer.Option(help="Coverage wanted; may be repeated.")
    ] = None,
    criterion: Annotated[str, typer.Option(help="marginal, stable or conditional.")] = "marginal",
    delta: Annotated[float, typer.Option(help="For the conditional criterion, in (0, 0.5].")] = 0.1,
    max_faulty: Annotated[int, typer.Option(help="How many sites may send anything at all.")] = 0,
    target: Annotated[
        str, typer.Option(help="population (sites are alike), or each-site (they may differ in any way).")
    ] = "population",
    local_ranks: Annotated[str, typer.Option(help="common, paper, or a share between 0 and 1.")] = "common",
    score: Annotated[
        str | None, typer.Option(help="Score that all sites use: absolute, normalized, cqr, lac, aps, raps.")
    ] = None,
    penalty: Annotated[float | None, typer.Option(help="For raps.")] = None,
    k_reg: Annotated[int | None, typer.Option(help="For raps.")] = None,
    key: Annotated[
        list[str] | None, typer.Option(help="SITE=ed25519:...; then only signed reports count.")
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="Makes the plan private; needs --bins.")] = None,
    bins: Annotated[
        str | None,
        typer.Option(
            help="uniform:LOW:HIGH:COUNT, log:LOW:HIGH:COUNT, or reference:FILE:COUNT (public scores)."
        ),
    ] = None,
    bounded: Annotated[bool, typer.Option(help="No score can be above the last bin.")] = False,
    mechanism: Annotated[str | None, typer.Option(help="permute-and-flip or exponential.")] = None,
    analysis: Annotated[str, typer.Option(help="tight or paper.")] = "tight",
    one_hot: Annotated[bool, typer.Option(help="Accept only the sum of one-hot vectors.")] = False,
    output: Output = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Choose the ranks of a federation."""
    from fedconformal.planning import plan as make

    check_output(output, force=force)
    n_sites, names = _parse.sites(sites)
    levels = confidence_level or [0.9]
    options: dict[str, Any] = {
        "criterion": criterion,
        "target": target,
        "local_ranks": _parse.local_ranks(local_ranks),
    }
    with working("planning"):
        result = make(
            n_sites,
            _parse.points(points),
            confidence_level=levels[0] if len(levels) == 1 else levels,
            delta=delta,
            max_faulty=max_faulty,
            sites=names,
            score=_parse.score(score, penalty=penalty, k_reg=k_reg),
            keys=_parse.keys(key),
            privacy=_parse.privacy(
                epsilon, bins, bounded=bounded, mechanism=mechanism, analysis=analysis, one_hot=one_hot
            ),
            on_infeasible="ignore",
            **options,
        )
    if not json:
        show_plan(result)
    save(result, output, force=force, as_json=json)


@app.command()
def report(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan to answer.")],
    scores: Annotated[Path, typer.Argument(help="Scores: CSV, Parquet or .npy.")],
    site: Site,
    column: Column = None,
    target: Target = None,
    prediction: Prediction = None,
    sign_with: SignWith = None,
    ledger: LedgerFile = None,
    dataset: DataSet = None,
    one_hot: Annotated[
        bool, typer.Option(help="For a private plan: write the one-hot vectors instead.")
    ] = False,
    yes: Yes = False,
    output: Output = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Answer a plan with this site's scores: shows exactly what is about to leave."""
    from fedconformal.cli import _site

    check_output(output, force=force)
    _site.report(
        plan_file,
        scores,
        site=site,
        column=column,
        target=target,
        prediction=prediction,
        sign_with=sign_with,
        ledger=ledger,
        dataset=dataset,
        one_hot=one_hot,
        ask=not yes,
        output=output,
        force=force,
        as_json=json,
    )


@app.command()
def calibrate(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan that was answered.")],
    reports: Reports,
    skip_refused: SkipRefused = False,
    histogram: Annotated[bool, typer.Option(help="The files hold summed or single one-hot vectors.")] = False,
    output: Output = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Turn reports into a threshold with its guarantee."""
    from fedconformal.cli import _server

    check_output(output, force=force)
    with working("calibrating"):
        result = _server.calibrate(plan_file, reports, skip_refused=skip_refused, histogram=histogram)
    if not json:
        show_calibration(result)
    save(result, output, force=force, as_json=json)


@app.command()
def predict(
    calibration: Annotated[Path, typer.Argument(help="The calibration.")],
    predictions: Annotated[Path, typer.Argument(help="Predictions: CSV, Parquet or .npy.")],
    column: Columns = None,
    score: Score = None,
    only: Only = False,
    output: Output = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Turn predictions into intervals or label sets."""
    from fedconformal.cli import _predict

    check_output(output, force=force)
    _predict.predict(
        calibration,
        predictions,
        columns=column,
        score=score,
        only=only,
        output=output,
        force=force,
        as_json=json,
    )


@app.command()
def verify(
    calibration: Annotated[Path, typer.Argument(help="The calibration to check.")],
    reports: Annotated[
        list[Path] | None, typer.Option(help="Report files or directories: checks the threshold too.")
    ] = None,
    json: Json = False,
) -> None:
    """Recompute the claim of a calibration by an independent path."""
    from fedconformal.cli import _server

    raise typer.Exit(0 if _server.verify(calibration, reports or [], as_json=json) else 1)


@app.command()
def certificate(
    calibration: Annotated[Path, typer.Argument(help="The calibration to certify.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML page to write.")] = Path(
        "certificate.html"
    ),
    force: Force = False,
) -> None:
    """Turn a calibration into a page for people: what is promised, on what it rests, what it cost."""
    from fedconformal.cli._certificate import write_certificate

    check_output(output, force=force)
    write_certificate(calibration, output, force=force)


for command in (whatif, compare, check, checks):
    app.command()(command)
app.add_typer(_groups.app, name="groups")
app.add_typer(_books.keys, name="keys")
app.add_typer(_books.ledger, name="ledger")


@app.command()
def planner(
    host: Annotated[
        str, typer.Option(help="Address to listen at; the default is this machine alone.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes any that is free.")] = 8484,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Another name that requests may call this server by.")
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Open a web page on which a plan is found by moving sliders."""
    from fedconformal.cli._planner import run

    run(host=host, port=port, allow_hosts=allow_host or [], browse=browser)


@app.command()
def demo(
    directory: Annotated[Path | None, typer.Option(help="Keep the files here.")] = None,
) -> None:
    """Run the whole story on embedded data: twelve sites, one of them silent."""
    from fedconformal.cli._demo import demo as run

    run(directory)


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Studies to run, or all; none lists them.")
    ] = None,
    quick: Annotated[bool, typer.Option(help="Small models and few splits: minutes.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for fits, tables, figures and the page.")] = Path(
        "reproduction"
    ),
    data: Annotated[
        Path | None, typer.Option(help="Folder of the data sets, before FEDCONFORMAL_DATA.")
    ] = None,
    download: Annotated[bool, typer.Option(help="Fetch data sets from where they are published.")] = False,
    csv: Annotated[Path | None, typer.Option(help="A table of yours instead; needs --target.")] = None,
    target: Annotated[str | None, typer.Option(help="With --csv: the column to predict.")] = None,
    models: Annotated[str, typer.Option(help="Of ridge, forest and network.")] = "ridge,forest",
    network_on: Annotated[
        str | None, typer.Option(help="Data sets to train the network on, which is slow; all if left out.")
    ] = None,
    splits: Annotated[int | None, typer.Option(help="Random splits: 20, or 3 if quick.")] = None,
    jobs: Annotated[int, typer.Option(help="Processes; -1: one for each core.")] = -1,
) -> None:
    """Run the paper's experiments: every figure, with its numbers, and one page that holds all."""
    from fedconformal.cli import _reproduce

    _reproduce.reproduce(
        names or [],
        quick=quick,
        out=out,
        folder=data,
        download=download,
        csv=csv,
        target=target,
        models=models,
        network_on=network_on,
        splits=splits,
        jobs=jobs,
    )
