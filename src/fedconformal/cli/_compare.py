"""``fedconformal compare``: sites by their reports, or by their checks of a calibration."""

from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedconformal._text import count
from fedconformal.cli import _options as opt
from fedconformal.cli._show import number, paragraph, print_json, say, table, working

if TYPE_CHECKING:
    from fedconformal._util import Floats
    from fedconformal.documents import Calibration, Plan
    from fedconformal.monitoring import Assessment, CoverageCheck

_MOST_ROWS = 20


def compare(
    document: Annotated[
        Path, typer.Argument(help="The plan that was answered, or the calibration that was checked.")
    ],
    answers: Annotated[list[Path], typer.Argument(help="Reports, or checks: files, or directories of them.")],
    label: opt.OneLabel = None,
    reference: Annotated[
        Path | None, typer.Option(help="With reports: file with scores of a typical site.")
    ] = None,
    column: opt.Column = None,
    separator: opt.Separator = None,
    decimal: opt.Decimal = None,
    encoding: opt.Encoding = None,
    confidence_level: opt.OneLevel = None,
    false_alarm: Annotated[
        float | None,
        typer.Option(
            help="With reports: probability of naming any site if all are alike.", show_default="0.05"
        ),
    ] = None,
    json: opt.Json = False,
) -> None:
    """Compare sites: who stands out by the reports, or who falls short by checks on new cases."""
    from fedconformal._tables import Dialect, read_column
    from fedconformal.cli._files import read_plan_or_calibration
    from fedconformal.documents import Calibration

    if reference is None and column is not None:
        raise ValueError("--column goes with --reference")
    dialect = Dialect(separator, decimal, encoding)
    read = read_plan_or_calibration(document)
    if isinstance(read, Calibration):
        if reference is not None or confidence_level is not None or false_alarm is not None:
            raise ValueError(
                "--reference, --confidence-level and --false-alarm go with a plan and its reports, and "
                f"{document} is a calibration"
            )
        _compare_checks(read, document, answers, label, as_json=json)
        return
    options: dict[str, Any] = {"confidence_level": confidence_level, "false_alarm": false_alarm}
    scores = None if reference is None else read_column(reference, column, dialect=dialect)
    _compare_reports(read, document, answers, label, scores, options, as_json=json)


# -- reports -----------------------------------------------------------------------------------------------


def _compare_reports(
    plan: "Plan",
    path: Path,
    files: list[Path],
    label: str | None,
    reference: "Floats | None",
    options: dict[str, Any],
    *,
    as_json: bool,
) -> None:
    """Show which sites stand out."""
    from fedconformal import monitoring
    from fedconformal.cli._files import read_reports, report_files
    from fedconformal.cli._scores import check_label

    check_label(plan, label, path)
    reports, unreadable = read_reports(report_files(files, path))
    with working("comparing"):
        chosen = {name: value for name, value in options.items() if value is not None}
        result = monitoring.compare(plan, reports, group=label, reference=reference, **chosen)
    refused = (*unreadable, *result.refused)
    for refusal in refused:
        say(f"left out: {refusal.source}: {refusal.reason}")
    if as_json:
        print_json(
            {
                "assumption": result.yardstick.assumption,
                "p_value": result.p_value,
                "sites": [vars(site) for site in result.sites],
                "power": result.power,
                "suspicion": result.suspicion,
                "left_out": list(result.left_out),
                "refused": [refusal.model_dump() for refusal in refused],
            }
        )
        return
    yardstick, shown = result.yardstick, result.ordered[:_MOST_ROWS]
    table(
        [
            {
                "site": site.site,
                "points": site.n,
                "report": number(site.value),
                yardstick.position_heading: yardstick.position_text(site.position),
                "adjusted p": f"{site.p_value:.4f}" if site.p_value >= 0.0001 else "< 0.0001",
            }
            for site in shown
        ]
    )
    if len(result.sites) > len(shown):
        paragraph(f"... and {count(len(result.sites) - len(shown), 'more site')} (--json shows all).")
    for name in result.left_out:
        paragraph(f"{name} sent Infinity and was left out.")
    parts = [report.by_group[label] for report in reports if label in report.by_group]
    if any(part.payload.n_numbers > len(plan.confidence_levels) for part in parts):
        paragraph("A site that sent several numbers is compared by the middle one.")
    paragraph(result.sentence())
    paragraph(result.power_sentence())
    if result.suspicion is not None:
        paragraph(result.suspicion)
    if result.odd:
        paragraph(_advise_on_sites(plan))


def _advise_on_sites(plan: "Plan") -> str:
    """Describe which promises hold for sites that differ."""
    from fedconformal.planning import PROMISES

    own = PROMISES[plan.designs[0].promise]()
    if own.bears_differing_sites:
        return f"The promise of this plan, {own.name}, holds even if sites differ, for {own.serves}."
    others = [PROMISES[name]() for name in PROMISES]
    names = ", ".join(f"{other.name} (for {other.serves})" for other in others if other.bears_differing_sites)
    return (
        f"The promise of this plan, {own.name}, holds only {own.condition or 'as it says'}. These hold even "
        f"if sites differ: {names}; and thresholds of each site's own (--group-by site). To use one, make a "
        "new plan and collect new reports."
    )


# -- checks ------------------------------------------------------------------------------------------------


def _compare_checks(
    calibration: "Calibration", path: Path, files: list[Path], label: str | None, *, as_json: bool
) -> None:
    """Show which sites and groups of cases fall short."""
    from fedconformal import monitoring
    from fedconformal.cli._files import expand, read
    from fedconformal.cli._scores import select_group
    from fedconformal.documents import Check, DocumentError

    checks, problems = [], []
    for file in expand(files):
        try:
            checks.append(read(Check, file))
        except DocumentError as error:
            problems.append(str(error))
    by_label = calibration.plan.grouping.has_labels
    one_group = label is not None or (by_label and not any(check.groups for check in checks))
    checked = select_group(calibration, label, path) if one_group else calibration
    if problems:
        raise ValueError(f"nothing was assessed, {len(problems)} refused: {'; '.join(problems)}")
    with working("comparing"):
        result = monitoring.assess(checked, checks)
    show_assessment(result, calibration.plan, as_json=as_json)


def show_assessment(result: "Assessment", plan: "Plan", *, as_json: bool) -> None:
    """Show coverage by site and group, shortfalls, and which promises hold in spite of them."""
    if as_json:
        rows = [
            {
                "site": row.site,
                **({} if row.group is None else {"group": row.group}),
                "epsilon": row.epsilon,
                **coverage_fields(row.check),
                "adjusted_p_value": row.adjusted_p_value,
                "falls_short": row.falls_short,
            }
            for row in result.rows
        ]
        print_json({"sites": rows, "sentence": result.sentence()})
        return
    _show_table(result)
    paragraph(result.sentence())
    if any(row.group is None for row in result.short) and not plan.is_grouped:
        paragraph(_advise_on_sites(plan))
    if any(row.group is not None for row in result.short):
        paragraph(
            f"A promise about sites, like this plan's ({plan.designs[0].promise}), is an average over their "
            "cases. For a promise to each kind of case plan thresholds of its own: --group-by class if the "
            "kinds are the true classes, --group if they are known beforehand; --group-by site,class or site "
            "for every site individually."
        )


def _show_table(result: "Assessment") -> None:
    """Show a row for each site and group; the level and epsilon only where there are several."""
    grouped = result.by_group
    levels = {row.check.confidence_level for row in result.rows}
    epsilons = {row.epsilon for row in result.rows}
    table(
        [
            {
                "site": row.site,
                "group": (row.group or "all") if grouped else None,
                "epsilon": (row.epsilon or "exact") if len(epsilons) > 1 else None,
                "level": repr(row.check.confidence_level) if len(levels) > 1 else None,
                **coverage_columns(row.check, at_once=grouped),
                "p-value": None if grouped else f"{row.check.p_value:.3g}",
                "adjusted p": f"{row.adjusted_p_value:.3g}",
                "short": "YES" if row.falls_short else "",
            }
            for row in result.rows
        ]
    )


def coverage_columns(check: "CoverageCheck", *, at_once: bool = False) -> dict[str, str]:
    """Format how many cases are covered, the share, and the interval around it; shorter for many rows."""
    digits, (low, high) = 3 if at_once else 4, check.interval
    return {
        "covered": f"{check.covered} of {check.n}",
        "coverage": f"{check.coverage:.{digits}f}",
        "95 % at once" if at_once else "95 % interval": f"{low:.{digits}f} to {high:.{digits}f}",
    }


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
