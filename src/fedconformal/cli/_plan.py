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
        bool, typer.Option(help="The groups are the true classes: each class is covered by itself.")
    ] = False,
    by_site: Annotated[
        bool,
        typer.Option(help="Thresholds of each site's own, or of each group or class at each site."),
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
        typer.Option(help="Coverage wanted; may be repeated.", show_default=str(_DEFAULT_LEVEL)),
    ] = None,
    criterion: Annotated[
        str | None,
        typer.Option(
            help="stable, marginal (the paper's) or conditional.", show_default="what suits the promise"
        ),
    ] = None,
    delta: Annotated[float, typer.Option(help="For the conditional criterion, in (0, 0.5].")] = 0.1,
    max_faulty: Annotated[int, typer.Option(help="How many sites may send anything at all.")] = 0,
    numbers: Annotated[
        int | None,
        typer.Option(
            help="How many numbers a site sends for each level and group at the most, 1 to 20.",
            show_default="1, or 5 for a mixture",
        ),
    ] = None,
    max_missing: Annotated[
        int | None,
        typer.Option(help="How many sites may stay silent, whichever they are, and the threshold be finite."),
    ] = None,
    promise: Annotated[
        str | None,
        typer.Option(
            help="population (sites are alike); where they may differ: mixture (of the sites, with known "
            "shares), each-site, or new-site (one that was not there).",
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
    epsilon: Annotated[
        float | None, typer.Option(help="Privacy loss of a site's whole answer; needs --bins or --bins-from.")
    ] = None,
    bins: Annotated[
        str | None,
        typer.Option(
            help="Grid of a private report: uniform:LOW:HIGH:COUNT, log:LOW:HIGH:COUNT, edges:FILE or "
            "edges:0.1,0.2,0.5."
        ),
    ] = None,
    bins_from: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Instead of --bins: 100 bins with equal shares of the public scores in this file. Never "
            "use a site's own calibration scores.",
        ),
    ] = None,
    column: Annotated[str | None, typer.Option(help="With --bins-from: column of the scores.")] = None,
    separator: opt.Separator = None,
    decimal: opt.Decimal = None,
    encoding: opt.Encoding = None,
    bounded: Annotated[bool, typer.Option(help="No valid score can be above the last edge.")] = False,
    mechanism: Annotated[
        str | None, typer.Option(help="permute-and-flip or exponential.", show_default="permute-and-flip")
    ] = None,
    analysis: Annotated[str | None, typer.Option(help="tight or paper.", show_default="tight")] = None,
    one_hot: Annotated[bool, typer.Option(help="Accept only the sum of one-hot vectors.")] = False,
    min_group: Annotated[
        int | None,
        typer.Option(help="A site with fewer cases of a group counts as absent from it.", show_default="5"),
    ] = None,
    round_id: Annotated[
        str | None,
        typer.Option("--round", metavar="ID", help="Tells this round from others; random with --key."),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="File of the model: the plan holds its digest, sites can compare.")
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(metavar="MOMENT", help="When it is not answered any more: 2030-01-31T12:00:00Z."),
    ] = None,
    fact: opt.FactOption = None,
    sign: opt.Sign = None,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with code 3 if no threshold can be finite.")
    ] = False,
    output: opt.Output = None,
    force: opt.Force = False,
    json: opt.Json = False,
) -> None:
    """Make a plan: which numbers each site is to send, and what is promised then."""
    from fedconformal._tables import Dialect
    from fedconformal.cli import _parse
    from fedconformal.cli._files import check_output, model_of, save, signed
    from fedconformal.cli._show_plan import show_plan
    from fedconformal.protocol import plan as make_plan

    check_output(output, force=force)
    dialect = Dialect(separator, decimal, encoding)
    n_sites, names = _parse.sites(sites)
    levels = confidence_level or [_DEFAULT_LEVEL]
    options: dict[str, Any] = dict(
        n_sites=n_sites,
        sites=names,
        **_parse.sizes(points, group or [], dialect, by_class=by_class, by_site=by_site),
        classes=None if classes is None else [name.strip() for name in classes.split(",")],
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
        privacy=_parse.privacy(
            epsilon,
            bins,
            bins_from,
            column=column,
            dialect=dialect,
            bounded=bounded,
            one_hot=one_hot,
            mechanism=mechanism,
            analysis=analysis,
        ),
        min_group=min_group,
        round=round_id,
        model=model_of(model),
        expires=expires,
        facts=_parse.facts(fact or []),
        on_infeasible="ignore",
    )
    with working("planning"):  # what was not given is left to the library
        made = make_plan(**{name: value for name, value in options.items() if value is not None})
    made = signed(made, sign)
    save(made, output, lambda: show_plan(made), force=force, as_json=json)
    if exit_code and not made.feasible:
        raise typer.Exit(_INFEASIBLE)
