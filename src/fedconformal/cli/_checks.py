"""``fedconformal checks``."""

from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedconformal.cli._options import Json, OneLabel
from fedconformal.cli._show import paragraph, print_json, table, working

if TYPE_CHECKING:
    from fedconformal.documents import Plan
    from fedconformal.monitoring import Assessment, CoverageCheck


def checks(
    calibration: Annotated[Path, typer.Argument(help="The calibration that the sites checked.")],
    answers: Annotated[list[Path], typer.Argument(help="Answer files, or directories of them.")],
    label: OneLabel = None,
    json: Json = False,
) -> None:
    """Compare the checks of all sites and their groups of cases: coverage, intervals and shortfalls."""
    from fedconformal import monitoring
    from fedconformal.cli._files import expand, read
    from fedconformal.cli._scores import select_group
    from fedconformal.documents import Calibration, Check, DocumentError

    published = read(Calibration, calibration)
    given, problems = [], []
    for path in expand(answers):
        try:
            given.append(read(Check, path))
        except DocumentError as error:
            problems.append(str(error))
    by_label = published.plan.grouping.has_labels
    one_group = label is not None or (by_label and not any(each.groups for each in given))
    checked = select_group(published, label, calibration) if one_group else published
    if problems:
        raise ValueError(f"nothing was assessed, {len(problems)} refused: {'; '.join(problems)}")
    with working("comparing"):
        result = monitoring.assess(checked, given)
    show_assessment(result, published.plan, as_json=json)


def show_assessment(result: "Assessment", plan: "Plan", *, as_json: bool) -> None:
    """Show coverage by site and group, shortfalls, and which promises hold in spite of them."""
    from fedconformal.cli._compare import advise_on_sites

    if as_json:
        rows = [
            {
                "site": row.site,
                **({} if row.group is None else {"group": row.group}),
                "epsilon": row.epsilon,
                **coverage_fields(row.found),
                "adjusted_p_value": row.adjusted_p_value,
                "falls_short": row.falls_short,
            }
            for row in result.rows
        ]
        print_json({"sites": rows, "sentence": result.sentence()})
        return
    _show_table(result)
    paragraph(result.sentence())
    short = result.short
    if any(row.group is None for row in short) and not plan.is_grouped:
        paragraph(advise_on_sites(plan))
    if any(row.group is not None for row in short):
        paragraph(
            f"A promise about sites, like this plan's ({plan.designs[0].promise}), is an average over their "
            "cases. For a promise to each kind of case plan thresholds of its own: --by-class if the kinds "
            "are the true classes, --group if they are known beforehand; with --by-site at every site "
            "individually."
        )


def _show_table(result: "Assessment") -> None:
    """Show a row for each site and group; columns with one value alone are left out if there are groups."""
    grouped = result.by_group
    cells: dict[str, list[str]] = {
        "site": [row.site for row in result.rows],
        "group": ["all" if row.group is None else row.group for row in result.rows],
        "epsilon": ["exact" if row.epsilon is None else f"{row.epsilon:g}" for row in result.rows],
        "level": [f"{row.found.confidence_level!r}" for row in result.rows],
    }
    digits = 3 if grouped else 4
    counted = zip(*(coverage_cells(row.found, digits) for row in result.rows), strict=True)
    names = ("covered", "coverage", "95 % at once" if grouped else "95 % interval")
    cells |= {name: list(column) for name, column in zip(names, counted, strict=True)}
    cells["p-value"] = [f"{row.found.p_value:.3g}" for row in result.rows]
    cells["adjusted p" if grouped else "adjusted"] = [f"{row.adjusted_p_value:.3g}" for row in result.rows]
    cells["short"] = ["YES" if row.falls_short else "" for row in result.rows]
    left_out = {"p-value", *(name for name in ("epsilon", "level") if len(set(cells[name])) == 1)}
    for name in left_out if grouped else ("group",):
        del cells[name]
    table(list(cells), list(zip(*cells.values(), strict=True)))


def coverage_cells(check: "CoverageCheck", digits: int = 4) -> list[str]:
    """Format how many cases are covered, the share, and the interval around it."""
    low, high = check.interval
    covered = f"{check.covered} of {check.n}"
    return [covered, f"{check.coverage:.{digits}f}", f"{low:.{digits}f} to {high:.{digits}f}"]


def coverage_fields(check: "CoverageCheck") -> dict[str, Any]:
    """Return everything by name, as JSON can hold it."""
    return {
        "confidence_level": check.confidence_level,
        "threshold": "Infinity" if check.threshold == inf else check.threshold,
        "n": check.n,
        "covered": check.covered,
        "coverage": check.coverage,
        "interval": list(check.interval),
        "confidence": check.confidence,
        "p_value": check.p_value,
    }
