"""``fedconformal bins``."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedconformal.cli._options import Column, Decimal, Encoding, Force, Json, Output, Separator
from fedconformal.cli._show import paragraph, print_json, table, working

if TYPE_CHECKING:
    from fedconformal._tables import Dialect
    from fedconformal.documents import Plan
    from fedconformal.privacy import Bins, SuggestedBins


def bins(
    points: Annotated[str, typer.Option(help="Scores per site: 79, or 120,40,377.")],
    epsilon: Annotated[float, typer.Option(help="Privacy loss of a site's whole answer.")],
    bins: Annotated[
        str,
        typer.Option(help="Bins to begin with, for their number and range: uniform:LOW:HIGH:COUNT, ..."),
    ],
    sites: Annotated[str | None, typer.Option(help="Number of sites.")] = None,
    confidence_level: Annotated[float, typer.Option(help="Coverage wanted.")] = 0.9,
    criterion: Annotated[str | None, typer.Option(help="stable, marginal or conditional.")] = None,
    bounded: Annotated[bool, typer.Option(help="No valid score can be above the last edge.")] = False,
    shape: Annotated[
        list[str] | None,
        typer.Option(
            help="How scores may be spread: uniform, half-normal or gamma; may be repeated, and "
            "the bins that are best under the worst of them are suggested."
        ),
    ] = None,
    scores: Annotated[
        Path | None,
        typer.Option(help="Public scores instead of shapes. Never a site's own calibration scores."),
    ] = None,
    column: Column = None,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    output: Output = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Compare kinds of bins for private reports, and say which to take."""
    from fedconformal._tables import Dialect
    from fedconformal.cli._files import check_output, deliver_text
    from fedconformal.privacy import Bins

    check_output(output, force=force)
    dialect = Dialect(separator, decimal, encoding)
    if shape and scores is not None:
        raise ValueError("--shape and --scores do not go together: name shapes, or give public scores")
    with working("comparing bins"):
        made = _plan(sites, points, epsilon, bins, bounded, confidence_level, criterion)
        found = Bins.suggest(made, shape if scores is None else _read(scores, column, dialect))
    if output is None:
        _show(found, as_json=json)
        return
    note = f"; use it as --bins edges:{output}"
    show = partial(_show, found, as_json=json)
    deliver_text(_edges(found[0].bins), output, force=force, note=note, show=show)


def _plan(
    sites: str | None,
    points: str,
    epsilon: float,
    bins: str,
    bounded: bool,
    level: float,
    criterion: str | None,
) -> "Plan":
    """The plan that the bins are for; one without a finite threshold says so, as all bins are alike then."""
    from fedconformal.cli import _parse, _sizes
    from fedconformal.protocol import plan

    n_sites, names = _sizes.sites(sites)
    made = plan(
        n_sites=n_sites,
        sites=names,
        **_sizes.sizes(points, []),
        confidence_level=level,
        criterion=criterion,
        privacy=_parse.privacy(epsilon, bins, bounded=bounded, one_hot=False),
        on_infeasible="ignore",
    )
    if not made.feasible:
        raise ValueError(made.problems[0])
    return made


def _read(path: Path, column: str | None, dialect: "Dialect") -> Any:
    from fedconformal._tables import read_column

    return read_column(path, column, dialect=dialect)


def _show(found: "list[SuggestedBins[Bins]]", *, as_json: bool) -> None:
    names = list(found[0].expected)
    if as_json:
        print_json(
            [
                {"kind": each.kind, "expected": each.expected, "error": each.error, "edges": each.bins.edges}
                for each in found
            ]
        )
        return
    table(
        ["bins", "count", *(f"expected, {name}" for name in names)],
        [[each.kind, each.bins.n_bins, *(f"{each.expected[name]:.4f}" for name in names)] for each in found],
    )
    error = max(each.error for each in found)
    paragraph(f"take: {found[0].kind}, coverage {found[0].worst:.4f} (standard error at most {error:.4f})")


def _edges(best: "Bins") -> str:
    """The edges as a table, which ``--bins edges:FILE`` reads."""
    return "\n".join(["edge", *map(repr, best.edges)]) + "\n"
