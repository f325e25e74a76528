"""``fedconformal checks``."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedconformal.cli._options import Json, OneLabel
from fedconformal.cli._show import paragraph, print_json, table, working

if TYPE_CHECKING:
    from fedconformal.documents import Calibration, Check, Report
    from fedconformal.heterogeneity import Assessment, SiteCheck


def checks(
    calibration: Annotated[Path, typer.Argument(help="The calibration that the sites checked.")],
    answers: Annotated[list[Path], typer.Argument(help="Answer files, or directories of them.")],
    label: OneLabel = None,
    reports: Annotated[
        list[Path] | None,
        typer.Option(help="Report files or directories: what other promises would cost is said for these."),
    ] = None,
    json: Json = False,
) -> None:
    """Compare the sites' checks, and their groups of cases: coverage with intervals, and who falls short."""
    from fedconformal import heterogeneity
    from fedconformal.cli._files import kept_reports, read, read_reports
    from fedconformal.cli._groups import calibration_of
    from fedconformal.documents import Calibration

    published = read(Calibration, calibration)
    given, problems = _read(answers)
    by_label = published.plan.grouping.has_labels
    if label is not None or (by_label and not any(each.groups for each in given)):
        published = calibration_of(published, label, calibration)
    if problems:
        raise ValueError(f"nothing was assessed, {len(problems)} refused: {'; '.join(problems)}")
    with working("comparing"):
        result = heterogeneity.assess(published, given)
    sent = [] if not reports else read_reports(kept_reports(reports))[0]
    show_assessment(result, published, as_json=json, reports=sent)


def show_assessment(
    result: "Assessment", calibration: "Calibration", *, as_json: bool, reports: "Sequence[Report]" = ()
) -> None:
    """Coverage site by site and group by group, who falls short, and which promise holds all the same."""
    if as_json:
        print_json({"sites": [_fields(row) for row in result.rows], "sentence": result.sentence()})
        return
    if result.by_group:
        _show_groups(result)
    else:
        table(
            [*_COLUMNS, "95 % interval", "p-value", "adjusted", "short"], [_cells(row) for row in result.rows]
        )
    paragraph(result.sentence())
    if result.short:
        _say_what_holds(result, calibration, reports)


def _say_what_holds(result: "Assessment", calibration: "Calibration", reports: "Sequence[Report]") -> None:
    from fedconformal.heterogeneity import what_holds

    plan, label = calibration.published.plan, calibration.label
    whole = [row for row in result.short if row.group is None]
    if whole and not calibration.plan.is_grouped:
        level = whole[0].found.confidence_level
        paragraph(what_holds(plan, reports, group=label, confidence_level=level))
    if len(whole) < len(result.short):
        paragraph(what_holds(plan, group=label, in_groups=True))


_COLUMNS = ("site", "epsilon", "level", "covered", "coverage")


def _show_groups(result: "Assessment") -> None:
    """The table with groups, in which what is the same in all rows is left out."""
    rows = {
        "site": [row.site for row in result.rows],
        "cases": ["all" if row.group is None else row.group for row in result.rows],
        "epsilon": ["exact" if row.epsilon is None else f"{row.epsilon:g}" for row in result.rows],
        "level": [f"{row.found.confidence_level!r}" for row in result.rows],
        "covered": [f"{row.found.covered} of {row.found.n}" for row in result.rows],
        "coverage": [f"{row.found.coverage:.3f}" for row in result.rows],
        "95 % at once": ["{:.3f} to {:.3f}".format(*row.found.interval) for row in result.rows],
        "adjusted p": [f"{row.adjusted_p_value:.3g}" for row in result.rows],
        "short": ["YES" if row.falls_short else "" for row in result.rows],
    }
    shown = [name for name, cells in rows.items() if name not in ("epsilon", "level") or len(set(cells)) > 1]
    table(shown, [list(cells) for cells in zip(*(rows[name] for name in shown), strict=True)])


def _read(files: list[Path]) -> "tuple[list[Check], list[str]]":
    """The answers, and what is wrong with every file that is none."""
    from fedconformal.cli._files import expand, read
    from fedconformal.documents import Check, DocumentError

    answers, problems = [], []
    for path in expand(files):
        try:
            answers.append(read(Check, path))
        except DocumentError as error:
            problems.append(str(error))
    return answers, problems


def _cells(row: "SiteCheck") -> list[str]:
    from fedconformal.cli._coverage import cells

    return [
        row.site,
        "exact" if row.epsilon is None else f"{row.epsilon:g}",
        f"{row.found.confidence_level!r}",
        *cells(row.found),
        f"{row.found.p_value:.3g}",
        f"{row.adjusted_p_value:.3g}",
        "YES" if row.falls_short else "",
    ]


def _fields(row: "SiteCheck") -> dict[str, Any]:
    from fedconformal.cli._coverage import fields

    return {
        "site": row.site,
        **({} if row.group is None else {"group": row.group}),
        "epsilon": row.epsilon,
        **fields(row.found),
        "adjusted_p_value": row.adjusted_p_value,
        "falls_short": row.falls_short,
    }
