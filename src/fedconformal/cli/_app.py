"""The commands."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fedconformal import __version__
from fedconformal.cli import _groups, _parse
from fedconformal.cli._options import Force, Json, Output, check_output, save
from fedconformal.cli._show import say, show_calibration, show_plan, working

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
    site: Annotated[str, typer.Option(help="This site's name.")],
    column: Annotated[str | None, typer.Option(help="Column that holds the scores.")] = None,
    target: Annotated[
        str | None, typer.Option(help="Instead of scores: column with the truth; the plan fixes the score.")
    ] = None,
    prediction: Annotated[
        list[str] | None, typer.Option(help="With --target: columns of the prediction.")
    ] = None,
    sign_with: Annotated[Path | None, typer.Option(help="Private key of this site.")] = None,
    ledger: Annotated[Path | None, typer.Option(help="For a private plan: this site's ledger.")] = None,
    dataset: Annotated[
        str | None, typer.Option(help="For a private plan: what the data are called in the ledger.")
    ] = None,
    one_hot: Annotated[
        bool, typer.Option(help="For a private plan: write the one-hot vectors instead.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
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
    reports: Annotated[list[Path], typer.Argument(help="Report files, or directories of them.")],
    skip_refused: Annotated[bool, typer.Option(help="Count refused reports as missing.")] = False,
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
    column: Annotated[
        list[str] | None, typer.Option(help="Columns of the prediction; may be repeated.")
    ] = None,
    score: Annotated[str | None, typer.Option(help="The score, where the plan does not fix it.")] = None,
    only: Annotated[bool, typer.Option(help="Leave out the other columns.")] = False,
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
    confidence_level: Annotated[float | None, typer.Option(help="One of the plan's levels.")] = None,
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


@app.command()
def compare(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan that was answered.")],
    reports: Annotated[list[Path], typer.Argument(help="Report files, or directories of them.")],
    reference: Annotated[
        str | None,
        typer.Option(help="Scores of a typical site (a file), or a named distribution as for whatif."),
    ] = None,
    column: Annotated[str | None, typer.Option(help="Column that holds the reference scores.")] = None,
    confidence_level: Annotated[float | None, typer.Option(help="One of the plan's levels.")] = None,
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


@app.command()
def check(
    calibration: Annotated[Path, typer.Argument(help="The published calibration.")],
    scores: Annotated[Path, typer.Argument(help="Scores of new cases: CSV, Parquet or .npy.")],
    site: Annotated[str | None, typer.Option(help="This site's name; needed for an answer.")] = None,
    column: Annotated[str | None, typer.Option(help="Column that holds the scores.")] = None,
    target: Annotated[
        str | None, typer.Option(help="Instead of scores: column with the truth; the plan fixes the score.")
    ] = None,
    prediction: Annotated[
        list[str] | None, typer.Option(help="With --target: columns of the prediction.")
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
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
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


@app.command()
def checks(
    calibration: Annotated[Path, typer.Argument(help="The calibration that the sites checked.")],
    answers: Annotated[list[Path], typer.Argument(help="Answer files, or directories of them.")],
    json: Json = False,
) -> None:
    """Compare the sites' checks: coverage with intervals, and who falls short."""
    from fedconformal.cli import _check

    _check.checks(calibration, answers, as_json=json)


app.add_typer(_groups.app, name="groups")

keys = typer.Typer(no_args_is_help=True, help="Ed25519 keys of a site.")
app.add_typer(keys, name="keys")


@keys.command("new")
def keys_new(
    name: Annotated[str, typer.Argument(help="The site's name: the key goes to NAME.key.")] = "site",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where to write it instead.")] = None,
    force: Force = False,
) -> None:
    """Make a key: the private part goes to a file, the public part is printed."""
    from fedconformal._outputs import write_text
    from fedconformal.signing import SigningKey

    path = output or Path(f"{name}.key")
    check_output(path, force=force)
    made = SigningKey.new()
    write_text(path, made.to_pem().decode(), force=force, mode=0o600)
    say(f"wrote {path}: keep it at the site; the plan lists the public key")
    print(made.public_key)


@keys.command("show")
def keys_show(key: Annotated[Path, typer.Argument(help="A private key file.")]) -> None:
    """Print the public part of a key."""
    from fedconformal.signing import SigningKey

    print(SigningKey.from_pem(key.read_bytes()).public_key)


ledger_app = typer.Typer(no_args_is_help=True, help="A site's account of privacy spent.")
app.add_typer(ledger_app, name="ledger")


@ledger_app.command("new")
def ledger_new(path: Annotated[Path, typer.Argument(help="The ledger file to make.")]) -> None:
    """Start a ledger."""
    from fedconformal.privacy import Ledger

    Ledger.create(path)
    say(f"made {path}")


@ledger_app.command("budget")
def ledger_budget(
    path: Annotated[Path, typer.Argument(help="The ledger.")],
    dataset: Annotated[str, typer.Argument(help="What the data are called.")],
    epsilon: Annotated[float, typer.Argument(help="Privacy loss allowed in all.")],
    reason: Annotated[str | None, typer.Option(help="Why a budget that was set before is raised.")] = None,
) -> None:
    """Set the budget of a data set, or raise it with a reason."""
    from fedconformal.privacy import Ledger

    book = Ledger(path)
    if reason is None:
        book.set_budget(dataset, epsilon)
    else:
        book.raise_budget(dataset, epsilon, reason=reason)
    say(f"{dataset}: {epsilon:g} in all")


@ledger_app.command("show")
def ledger_show(path: Annotated[Path, typer.Argument(help="The ledger.")], json: Json = False) -> None:
    """Show budgets and what was spent on which plan."""
    from fedconformal.cli import _site

    _site.show_ledger(path, as_json=json)


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
