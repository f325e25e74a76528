"""``fedconformal promises``."""

from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedconformal.cli._options import Json
from fedconformal.cli._show import number, paragraph, print_json, table, working

if TYPE_CHECKING:
    from fedconformal.heterogeneity import PromiseRow, Shift


def promises(
    plan: Annotated[
        Path | None, typer.Argument(help="A plan, whose sites and level are taken; or say --points.")
    ] = None,
    sites: Annotated[str | None, typer.Option(help="How many sites, or their names: A,B,C.")] = None,
    points: Annotated[
        str | None, typer.Option(help="Sizes, as for plan: 100, 120,40 or north=120,south=40, or a table.")
    ] = None,
    confidence_level: Annotated[float | None, typer.Option(help="Between 0 and 1; 0.9 by default.")] = None,
    delta: Annotated[float, typer.Option(help="For promises that hold with probability 1 - delta.")] = 0.1,
    mixture: Annotated[
        str | None, typer.Option(metavar="SITE=SHARE,...", help="Shares of the sites in new cases.")
    ] = None,
    shift: Annotated[
        list[str] | None,
        typer.Option(
            help="How a site differs, SITE=scale:1.5 and so on as for whatif; by default a third of the "
            "sites has doubled scores."
        ),
    ] = None,
    reference: Annotated[
        str, typer.Option(help="Scores of the other sites: a name as for whatif, or a file of scores.")
    ] = "half-normal",
    json: Json = False,
) -> None:
    """Lay all promises side by side for a federation: words, assumptions, votes, width if sites differ."""
    from fedconformal import heterogeneity
    from fedconformal.cli import _parse
    from fedconformal.cli._reference import reference_from
    from fedconformal.cli._whatif import shifts_of

    federation = _federation(plan, sites, points, confidence_level)
    shifts = None if not shift else shifts_of(shift)
    with working("planning"):
        rows = heterogeneity.side_by_side(
            **federation,
            delta=delta,
            shifts=shifts,
            reference=reference_from(reference),
            mixture=_parse.mixture(mixture),
        )
    if json:
        print_json([_fields(row) for row in rows])
    else:
        _show(rows, shifts, reference)


def _federation(
    path: Path | None, sites: str | None, points: str | None, level: float | None
) -> dict[str, Any]:
    """The sizes of the sites and the level, from a plan or as they were typed."""
    from fedconformal.cli import _sizes
    from fedconformal.cli._files import read
    from fedconformal.documents import Plan

    if path is not None:
        if sites is not None or points is not None:
            raise ValueError("--sites and --points do not go with a plan, which has them")
        given = read(Plan, path)
        if given.is_grouped or given.is_open:
            raise ValueError(f"{path}: a plan without groups, with known sizes, is needed: or say --points")
        named = given.site_names
        sizes = list(given.n_points)
        return {
            "n_points": sizes if named is None else dict(zip(named, sizes, strict=True)),
            "confidence_level": level or given.confidence_levels[0],
        }
    if points is None:
        raise ValueError("give a plan, or the sizes of the sites with --points")
    n_sites, names = _sizes.sites(sites)
    found = _sizes.sizes(points, [])
    if "n_points" not in found:
        raise ValueError("--points must not have groups here: every promise is for one threshold")
    if names is not None:
        raise ValueError("--sites must be a number here: sizes by name are said as --points A=120,B=40")
    return {"n_points": found["n_points"], "n_sites": n_sites, "confidence_level": level or 0.9}


def _show(rows: "Sequence[PromiseRow]", shifts: "dict[str, Shift] | None", reference: str) -> None:
    base = next((row.width for row in rows if row.width not in (None, inf)), None)
    table(
        ["promise", "criterion", "votes", "promised", "width", "if shifted", "worst site", "all sites"],
        [_cells(row, base) for row in rows if row.plan is not None],
    )
    who = "as --shift says" if shifts else "a third of the sites, at least one, has doubled scores"
    paragraph(
        f"Width: the expected threshold for {reference} scores, as a multiple of the first that is finite. "
        f"If shifted: {who}. Worst site, all sites: the mean coverage, then, at the site where it is lowest, "
        "and over the cases of all sites by size."
    )
    for name in dict.fromkeys(row.promise.name for row in rows):
        _tell([row for row in rows if row.promise.name == name])
    print()
    paragraph(
        "Thresholds of each site's own (plan --by-site), of each true class (--by-class) or of kinds of "
        "cases (--group) go with some of these promises, in the same single round."
    )


def _cells(row: "PromiseRow", base: float | None) -> list[str]:
    from fedconformal.cli._ranks import votes_needed
    from fedconformal.cli._show_plan import promised_cell

    assert row.plan is not None
    design = row.plan.designs[0]
    finite = design.is_finite
    return [
        row.promise.name,
        row.criterion.name,
        votes_needed(design),
        promised_cell(design) if finite else "",
        *(_times(width, base) if finite else "infinite" for width in (row.width, row.shifted_width)),
        *(_share(share) if finite else "" for share in (row.worst_site, row.all_sites)),
    ]


def _tell(rows: "Sequence[PromiseRow]") -> None:
    """A promise in words, what it rests on, and why it cannot be given or is infinite here."""
    promise = rows[0].promise
    print()
    paragraph(f"{promise.name}: for {promise.serves or promise.whose}.")
    for row in rows:
        reason = f" {row.reason}" if row.reason else ""
        paragraph(f"{row.criterion.name}: {row.sentence()}{reason}", mark="  ")
    paragraph(f"It rests on this: {promise.assumed()}", mark="  ")
    if promise.law_note:
        paragraph(promise.law_note, mark="  ")


def _times(width: float | None, base: float | None) -> str:
    if width is None or width == inf:
        return "infinite"
    return f"{width / base:.2f}" if base and base < inf else number(width)


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _fields(row: "PromiseRow") -> dict[str, Any]:
    return {
        "promise": row.promise.name,
        "criterion": row.criterion.name,
        "possible": row.plan is not None,
        "reason": row.reason,
        "sentence": row.sentence(),
        "assumption": row.promise.assumed(),
        "holds_if_sites_differ": row.promise.bears_differing_sites,
        "votes": None if row.plan is None else row.plan.server_rank,
        **_numbers(row),
    }


def _numbers(row: "PromiseRow") -> dict[str, Any]:
    given = {
        "width": row.width,
        "shifted_width": row.shifted_width,
        "worst_site": row.worst_site,
        "all_sites": row.all_sites,
    }
    return {name: "Infinity" if value == inf else value for name, value in given.items()}
