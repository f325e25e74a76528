"""``fedconformal compare``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedconformal._text import count
from fedconformal.cli import _options as opt
from fedconformal.cli._show import number, paragraph, print_json, say, table, working

if TYPE_CHECKING:
    from fedconformal.documents import Plan

_MOST_ROWS = 20


def compare(
    plan: opt.AnsweredPlan,
    reports: opt.Reports,
    label: opt.OneLabel = None,
    reference: Annotated[Path | None, typer.Option(help="File with scores of a typical site.")] = None,
    column: Annotated[str | None, typer.Option(help="Column that holds the reference scores.")] = None,
    separator: opt.Separator = None,
    decimal: opt.Decimal = None,
    encoding: opt.Encoding = None,
    confidence_level: opt.OneLevel = None,
    false_alarm: Annotated[
        float, typer.Option(help="Probability of naming any site if all are alike.")
    ] = 0.05,
    json: opt.Json = False,
) -> None:
    """Look for sites that stand out, from their reports alone."""
    from fedconformal import monitoring
    from fedconformal._tables import Dialect, read_column
    from fedconformal.cli._files import read, read_reports, report_files
    from fedconformal.cli._scores import check_label
    from fedconformal.documents import Plan

    if reference is None and column is not None:
        raise ValueError("--column goes with --reference")
    dialect = Dialect(separator, decimal, encoding)
    asked = read(Plan, plan)
    check_label(asked, label, plan)
    sent, unreadable = read_reports(report_files(reports, plan))
    with working("comparing"):
        found = monitoring.compare(
            asked,
            sent,
            group=label,
            reference=None if reference is None else read_column(reference, column, dialect=dialect),
            confidence_level=confidence_level,
            false_alarm=false_alarm,
        )
    refused = (*unreadable, *found.refused)
    for refusal in refused:
        say(f"left out: {refusal.source}: {refusal.reason}")
    if json:
        print_json(
            {
                "assumption": found.yardstick.assumption,
                "p_value": found.p_value,
                "sites": [vars(site) for site in found.sites],
                "power": found.power,
                "suspicion": found.suspicion,
                "left_out": list(found.left_out),
                "refused": [refusal.model_dump() for refusal in refused],
            }
        )
        return
    stick, shown = found.yardstick, found.ordered[:_MOST_ROWS]
    table(
        ["site", "points", "report", stick.position_heading, "adjusted p"],
        [
            [
                site.site,
                site.n,
                number(site.value),
                stick.position_text(site.position),
                f"{site.p_value:.4f}" if site.p_value >= 0.0001 else "< 0.0001",
            ]
            for site in shown
        ],
    )
    if len(found.sites) > len(shown):
        paragraph(f"... and {count(len(found.sites) - len(shown), 'more site')} (--json shows all).")
    for name in found.left_out:
        paragraph(f"{name} sent Infinity and was left out.")
    parts = [report.by_group[label] for report in sent if label in report.by_group]
    if any(part.payload.n_numbers > len(asked.confidence_levels) for part in parts):
        paragraph("A site that sent several numbers is compared by the middle one.")
    paragraph(found.sentence())
    paragraph(found.power_sentence())
    if found.suspicion is not None:
        paragraph(found.suspicion)
    if found.odd:
        paragraph(advise_on_sites(asked))


def advise_on_sites(plan: "Plan") -> str:
    """Describe which promises hold for sites that differ."""
    from fedconformal.planning import PROMISES

    own = PROMISES[plan.designs[0].promise]()
    if own.bears_differing_sites:
        return f"The promise of this plan, {own.name}, holds even if sites differ, for {own.serves}."
    others = [PROMISES[name]() for name in PROMISES]
    names = ", ".join(f"{each.name} (for {each.serves})" for each in others if each.bears_differing_sites)
    return (
        f"The promise of this plan, {own.name}, holds only {own.condition or 'as it says'}. These hold even "
        f"if sites differ: {names}; and thresholds of each site's own (--by-site). To use one, make a new "
        "plan and collect new reports."
    )
