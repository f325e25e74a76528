"""``fedconformal plan``."""

from typing import Annotated

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
            "come with the reports. Repeatable.",
        ),
    ] = None,
    group_by: Annotated[
        str | None,
        typer.Option(
            help="class: the groups are the true classes. site: a threshold for each site, or for each group "
            "at each site. site,class: both."
        ),
    ] = None,
    confidence_level: Annotated[
        list[float] | None,
        typer.Option(help="Target coverage. Repeatable.", show_default=str(_DEFAULT_LEVEL)),
    ] = None,
    criterion: Annotated[
        str | None,
        typer.Option(
            help="stable, marginal (the paper's) or conditional; conditional:0.05 for 95 % certainty instead "
            "of 90 %.",
            show_default="stable for the population, else marginal",
        ),
    ] = None,
    promise: Annotated[
        str | None,
        typer.Option(
            help="population (sites are alike); if they may differ: mixture (of the sites by size, or as in "
            "mixture:north=0.5,south=0.5), each-site, or new-site (one that took no part).",
            show_default="population",
        ),
    ] = None,
    numbers: Annotated[
        int | None,
        typer.Option(
            help="Largest number of scores that a site sends for each level and group, 1 to 20.",
            show_default="1, or 5 for a mixture",
        ),
    ] = None,
    max_faulty: Annotated[int, typer.Option(help="Number of sites that may send arbitrary values.")] = 0,
    max_missing: Annotated[
        int | None,
        typer.Option(
            help="Number of sites that may be missing, in any combination, without making the threshold "
            "infinite."
        ),
    ] = None,
    score: Annotated[
        str | None,
        typer.Option(
            help="Score that all sites use: absolute, normalized, cqr, lac, aps, raps, or your own; with "
            "parameters as in raps:penalty=0.01,k_reg=3."
        ),
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
            help="With --epsilon: uniform:LOW:HIGH:COUNT, log:LOW:HIGH:COUNT, edges:FILE, edges:0.1,0.2,0.5, "
            "or from:FILE for 100 bins with equal shares of public scores (never a site's own). "
            "Append :bounded if no valid score can be above the last edge.",
            show_default="200 bins for a bounded score",
        ),
    ] = None,
    paper: Annotated[
        bool,
        typer.Option(
            "--paper",
            help="As in the paper: the ranks of its appendix A.1 or, with --epsilon, its Algorithms 2 and 3.",
        ),
    ] = False,
    key: Annotated[
        list[str] | None, typer.Option(help="SITE=ed25519:...; then only signed reports count. Repeatable.")
    ] = None,
    term: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A term that all sites see. classes=NAME,...: the order of the columns of probabilities. "
            "model=FILE: sites compare its digest. expires=2030-01-31T12:00:00Z: refused after that time. "
            f"round=ID: another round. For the certificate: {opt.FACTS}. Repeatable.",
        ),
    ] = None,
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

    from fedconformal.cli import _parse
    from fedconformal.cli._files import check_output, save, signed
    from fedconformal.cli._show_plan import show_plan
    from fedconformal.protocol import plan as make_plan

    check_output(output, force=force)
    levels = confidence_level or [_DEFAULT_LEVEL]
    goal, delta = _parse.criterion(criterion)
    promised, mixture = _parse.promise(promise)
    exact, privacy = _parse.grid(curve, epsilon, bins, paper=paper)
    options = dict(
        n_sites=_parse.sites(sites),
        **_parse.sizes(points, group or [], group_by),
        confidence_level=levels[0] if len(levels) == 1 else levels,
        criterion=goal,
        delta=delta,
        promise=promised,
        mixture=mixture,
        numbers=numbers,
        max_faulty=max_faulty,
        max_missing=max_missing,
        local_ranks="paper" if paper and privacy is None else None,
        score=_parse.score(score),
        curve=exact,
        privacy=privacy,
        keys=_parse.keys(key or []),
        terms=_parse.terms("--term", term or []),
    )
    # What was not given is left to the library; all warnings are among the notes of the plan.
    with working("planning"), warnings.catch_warnings(action="ignore", category=UserWarning):
        made = make_plan(**{name: value for name, value in options.items() if value is not None})
    made = signed(made, sign)
    save(made, output, lambda: show_plan(made), force=force, as_json=json)
    if exit_code and not made.feasible:
        raise typer.Exit(_INFEASIBLE)
