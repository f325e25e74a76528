"""What sites found afterwards: their checks of the published thresholds."""

from fedconformal._text import percent
from fedconformal.heterogeneity import Assessment, SiteCheck
from fedconformal.web._html import Markup, join, section, table, tag
from fedconformal.web.certificates._claim import Certified

_HEADERS = ("site and cases", "level", "covered", "coverage", "interval", "falls short")
_NUMBERS = ("level", "covered", "coverage", "interval")


def checks(it: Certified) -> Markup:
    """Return the sites' own findings on later cases; nothing where none were attached."""
    found = it.assessment
    if found is None:
        return join(())
    return section(
        "What sites found on later cases",
        tag("p", found.sentence(), **({"class_": "warning"} if found.short else {})),
        table(_HEADERS, [_row(row) for row in found.rows], numbers=_NUMBERS, caption="Checks by sites"),
        tag("p", _note(found), class_="note"),
    )


def _row(row: SiteCheck) -> tuple[str, ...]:
    found = row.found
    covered = f"{found.covered:,} of {found.n:,}" + ("" if row.epsilon is None else " (private)")
    low, high = found.interval
    return (
        row.name,
        percent(found.confidence_level),
        covered,
        percent(round(found.coverage, 3)),
        f"{low:.1%} to {high:.1%}".replace("%", " %"),
        "yes" if row.falls_short else "no",
    )


def _note(found: Assessment) -> str:
    sure = percent(found.confidence)
    many = f"all of them hold at once with {sure}" if found.by_group else f"each holds with {sure}"
    return (
        f"Intervals are exact: {many}. Sites count their own cases, and nobody has checked that they counted "
        "as agreed."
    )
