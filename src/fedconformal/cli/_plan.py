"""``fedconformal plan``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fedconformal.cli import _options as opt
from fedconformal.cli._show import working

_DEFAULT_LEVEL = 0.9
_INFEASIBLE = 3


def plan(
    sites: Annotated[str | None, typer.Option(help="Number of sites, or their names: A,B,C.")] = None,
    points: Annotated[
        str | None,
        typer.Option(
            help="Scores per site: 79, or 120,40,377, or A=120,B=40, or a table with columns site,n; with "
            "columns group,site,n for groups."
        ),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LABEL[:SIZES]",
            help="A group of cases with a threshold of its own, as in young:A=120,B=40; without sizes they "
            "come with the reports; may be repeated.",
        ),
    ] = None,
    by_class: Annotated[
        bool, typer.Option(help="The groups are the true classes: each class is covered individually.")
    ] = False,
    by_site: Annotated[
        bool,
        typer.Option(help="A threshold for each site, or for each group or class at each site."),
    ] = False,
    classes: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,...",
            help="Names of the classes, in the order of the columns of probabilities; the truth is a name.",
        ),
    ] = None,
    confidence_level: Annotated[
        list[float] | None,
        typer.Option(help="Target coverage; may be repeated.", show_default=str(_DEFAULT_LEVEL)),
    ] = None,
    criterion: Annotated[
        str | None,
        typer.Option(
            help="stable, marginal (the paper's) or conditional.",
            show_default="stable for the population, else marginal",
        ),
    ] = None,
    delta: Annotated[float, typer.Option(help="For the conditional criterion, in (0, 0.5].")] = 0.1,
    max_faulty: Annotated[int, typer.Option(help="Number of sites that may send arbitrary values.")] = 0,
    numbers: Annotated[
        int | None,
        typer.Option(
            help="Largest number of scores that a site sends for each level and group, 1 to 20.",
            show_default="1, or 5 for a mixture",
        ),
    ] = None,
    max_missing: Annotated[
        int | None,
        typer.Option(
            help="Number of sites that may be missing, in any combination, without making the threshold "
            "infinite."
        ),
    ] = None,
    promise: Annotated[
        str | None,
        typer.Option(
            help="population (sites are alike); if they may differ: mixture (of the sites, with known "
            "shares), each-site, or new-site (one that took no part).",
            show_default="population",
        ),
    ] = None,
    mixture: Annotated[
        str | None,
        typer.Option(
            metavar="SITE=SHARE,...",
            help="Shares of the sites among new cases, for --promise mixture: north=0.5,south=0.5; by size "
            "if left out.",
        ),
    ] = None,
    local_ranks: Annotated[
        str | None,
        typer.Option(help="common or paper.", show_default="common"),
    ] = None,
    score: Annotated[
        str | None,
        typer.Option(
            help="Score that all sites use: absolute, normalized, cqr, lac, aps, raps, or your own."
        ),
    ] = None,
    score_option: opt.ScoreOption = None,
    penalty: Annotated[float | None, typer.Option(help="Short for --score-option penalty=...")] = None,
    k_reg: Annotated[int | None, typer.Option(help="Short for --score-option k_reg=...")] = None,
    key: Annotated[
        list[str] | None, typer.Option(help="SITE=ed25519:...; then only signed reports count.")
    ] = None,
    curve: Annotated[
        str | None,
        typer.Option(
            metavar="BINS",
            help="Sites send exact counts of their scores in these bins instead of ranks; given like --bins.",
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Make every answer differentially private with this privacy loss: noisy counts."),
    ] = None,
    bins: Annotated[
        str | None,
        typer.Option(
            help="With --epsilon: uniform:LOW:HIGH:COUNT, log:LOW:HIGH:COUNT, edges:FILE or "
            "edges:0.1,0.2,0.5.",
            show_default="200 bins for a bounded score",
        ),
    ] = None,
    bins_from: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Instead of --bins: 100 bins with equal shares of the public scores in this file. Never use "
            "a site's own calibration scores.",
        ),
    ] = None,
    column: Annotated[str | None, typer.Option(help="With --bins-from: column of the scores.")] = None,
    separator: opt.Separator = None,
    decimal: opt.Decimal = None,
    encoding: opt.Encoding = None,
    bounded: Annotated[
        bool, typer.Option(help="With --bins or --curve: no valid score can be above the last edge.")
    ] = False,
    analysis: Annotated[
        str | None,
        typer.Option(
            help="With --epsilon: curve (noisy counts) or paper (its Algorithms 2 and 3).",
            show_default="curve",
        ),
    ] = None,
    gamma: Annotated[
        float | None,
        typer.Option(
            help="With --analysis paper: share of the error probability that is spent on the noise.",
            show_default="searched",
        ),
    ] = None,
    round_id: Annotated[
        str | None,
        typer.Option(
            "--round",
            metavar="ID",
            help="Distinguishes this round from others with the same options; random with --key.",
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(help="File of the model: the plan holds its digest, for sites to compare."),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Time (UTC) after which sites and the server refuse the plan: 2030-01-31T12:00:00Z.",
        ),
    ] = None,
    fact: opt.FactOption = None,
    sign: opt.Sign = None,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with code 3 if a threshold is infinite.")
    ] = False,
    output: opt.Output = None,
    force: opt.Force = False,
    json: opt.Json = False,
) -> None:
    """Make a plan: what each site sends, and what is promised in return."""
    import warnings

    from fedconformal._tables import Dialect
    from fedconformal.cli import _parse
    from fedconformal.cli._files import check_output, model_of, save, signed
    from fedconformal.cli._show_plan import show_plan
    from fedconformal.protocol import InfeasibleWarning
    from fedconformal.protocol import plan as make_plan

    check_output(output, force=force)
    dialect = Dialect(separator, decimal, encoding)
    levels = confidence_level or [_DEFAULT_LEVEL]
    terms: dict[str, Any] = dict(
        **_parse.facts(fact or []),
        round=round_id,
        model=model_of(model),
        expires=expires,
        classes=None if classes is None else [name.strip() for name in classes.split(",")],
    )
    exact, private = _parse.grid(
        curve,
        epsilon,
        bins,
        bins_from,
        column=column,
        dialect=dialect,
        bounded=bounded,
        analysis=analysis,
        gamma=gamma,
    )
    options: dict[str, Any] = dict(
        n_sites=_parse.sites(sites),
        **_parse.sizes(points, group or [], dialect, by_class=by_class, by_site=by_site),
        confidence_level=levels[0] if len(levels) == 1 else levels,
        criterion=criterion,
        delta=delta,
        max_faulty=max_faulty,
        numbers=numbers,
        max_missing=max_missing,
        promise=promise,
        mixture=_parse.mixture(mixture),
        local_ranks=local_ranks,
        score=_parse.score(score, score_option or [], penalty=penalty, k_reg=k_reg),
        keys=_parse.keys(key or []),
        curve=exact,
        privacy=private,
        terms=terms,
    )
    # What was not given is left to the library; an infinite threshold is shown with the plan.
    with working("planning"), warnings.catch_warnings(action="ignore", category=InfeasibleWarning):
        made = make_plan(**{name: value for name, value in options.items() if value is not None})
    made = signed(made, sign)
    save(made, output, lambda: show_plan(made), force=force, as_json=json)
    if exit_code and not made.feasible:
        raise typer.Exit(_INFEASIBLE)
