"""``fedconformal compare``."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedconformal._text import count
from fedconformal.cli._options import AnsweredPlan, Json, OneLabel, OneLevel, Reports
from fedconformal.cli._show import number, paragraph, print_json, say, table, working

if TYPE_CHECKING:
    from fedconformal.documents import Plan, Refusal
    from fedconformal.heterogeneity import Comparison

_MOST_ROWS = 20


def compare(
    plan: AnsweredPlan,
    reports: Reports,
    label: OneLabel = None,
    reference: Annotated[
        str | None,
        typer.Option(help="Scores of a typical site (a file), or a named distribution as for whatif."),
    ] = None,
    column: Annotated[str | None, typer.Option(help="Column that holds the reference scores.")] = None,
    confidence_level: OneLevel = None,
    false_alarm: Annotated[
        float, typer.Option(help="Probability of naming any site if all are alike.")
    ] = 0.05,
    json: Json = False,
) -> None:
    """Look for sites that stand out, from their reports alone."""
    from fedconformal import heterogeneity
    from fedconformal.cli._files import read, read_reports, report_files
    from fedconformal.cli._groups import check_label
    from fedconformal.cli._reference import reference_from
    from fedconformal.documents import Plan

    asked = read(Plan, plan)
    check_label(asked, label, plan)
    sent, unreadable = read_reports(report_files(reports, plan))
    with working("comparing"):
        found = heterogeneity.compare_sites(
            asked,
            sent,
            group=label,
            reference=None if reference is None else reference_from(reference, column, options=("--column",)),
            confidence_level=confidence_level,
            false_alarm=false_alarm,
        )
    refused = (*unreadable, *found.refused)
    for refusal in refused:
        say(f"left out: {refusal.source}: {refusal.reason}")
    if json:
        print_json(_content(found, refused))
        return
    _show(found, several=_sends_several(asked if label is None else asked[label]))
    if found.odd:
        paragraph(heterogeneity.what_holds(asked, sent, group=label, confidence_level=confidence_level))


def _sends_several(plan: "Plan") -> bool:
    """Whether some site sends more than one number for a level."""
    of_open = [level.numbers for level in plan.levels]
    return max([*of_open, *(len(ranks) for block in plan.blocks or () for ranks in block.ranks)]) > 1


def _content(found: "Comparison", refused: "Sequence[Refusal]") -> dict[str, Any]:
    return {
        "assumption": found.assumption,
        "p_value": found.p_value,
        "sites": [vars(site) for site in found.sites],
        "power": found.power,
        "suspicion": found.suspicion,
        "left_out": list(found.left_out),
        "refused": [refusal.model_dump() for refusal in refused],
    }


def _show(found: "Comparison", *, several: bool) -> None:
    rows = [
        [site.site, site.n, number(site.value), found.position_text(site), _chance(site.p_value)]
        for site in found.ordered[:_MOST_ROWS]
    ]
    table(["site", "points", "report", found.position_heading, "adjusted p"], rows)
    if len(found.sites) > len(rows):
        paragraph(f"... and {count(len(found.sites) - len(rows), 'more site')} (--json shows all).")
    for name in found.left_out:
        paragraph(f"{name} sent Infinity and was left out.")
    if several:
        paragraph("A site that sent several numbers is compared by the middle one.")
    paragraph(found.sentence())
    paragraph(found.power_sentence())
    if found.suspicion is not None:
        paragraph(found.suspicion)


def _chance(p: float) -> str:
    return f"{p:.4f}" if p >= 0.0001 else "< 0.0001"
