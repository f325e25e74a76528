"""The page of the case studies: what held at the hospitals and the schools, and what did not."""

from collections.abc import Iterator, Sequence

import numpy as np

from fedconformal._text import listed
from fedconformal.experiments import _hospitals as hospitals
from fedconformal.experiments import _schools as schools
from fedconformal.experiments._results import table
from fedconformal.experiments._store import Rows

_ENOUGH = 0.2
"""A class at a hospital is singled out if it has so large a share of the patients of the largest."""

_INTRODUCTION = """# Sites that really differ: four hospitals, 65 schools

Written by `fedconformal reproduce {studies}`: tables, figures and every verdict. "Short", and bold,
means below what was asked for by more than three standard errors over the random splits.{quick}"""

_QUICK = """

**This is a quick look: few splits, wide errors. It is not for a comparison.**"""

_HOSPITALS = """## Four hospitals

Heart patients in Cleveland, Hungary, Switzerland and at the VA (UCI, heart disease: {n:,} patients), of whom
{prevalence} are sick. One logistic regression is trained on a third of the patients of all four, a third
calibrates, a third is counted; then each hospital is left out in turn: the other three train and calibrate,
and all of its patients are counted. Sets are LAC sets of *healthy* and *sick*; thirds are drawn within each
class.

![Percent of patients covered, by promise](figures/hospitals.png)"""

_SCHOOLS = """## 65 schools

4,059 pupils of 65 London schools (`mlmRev/Exam`): the mark at sixteen, from the mark at eleven and the sex,
by least squares. In every draw 50 schools take part, a fifth of their pupils trains and the others calibrate;
the 15 other schools are new, and all of their pupils are counted. The mean over new schools counts each
school alike.

![Coverage at new schools, and the width of intervals](figures/schools.png)"""

_WHAT_TO_DO = """## What a coordinator types

| you want | plan with |
| --- | --- |
| the mean over the cases of your sites, whatever their differences | `--promise mixture` |
| every site of yours | `--promise each-site` |
| each class, whatever the mix | `--by-class`, better with `--numbers 5` |
| each class at each site | `--by-class --by-site` |
| a site that was not there, on average | `--promise new-site`, from nine sites on at 90 % |
| nine in ten of the sites that were not there | `--promise new-site --criterion conditional --delta 0.1` |

[coordinator.md](coordinator.md) has the whole way, [heterogeneity.md](heterogeneity.md) how to notice that
sites differ, [groups.md](groups.md) classes and sites as groups, [theory.md](theory.md) the proofs."""


def cases_page(ward: Rows, classes: Rows, *, quick: bool) -> str:
    """The page, in Markdown.

    Parameters
    ----------
    ward : list of dict
        What the study of the hospitals found; may be empty.
    classes : list of dict
        What the study of the schools found; may be empty.
    quick : bool
        Whether it was a quick look, and the page must say so.

    Returns
    -------
    str
        Markdown.
    """
    names = [name for name, rows in (("hospitals", ward), ("schools", classes)) if rows]
    words = " ".join(names) + (" --quick" if quick else "")
    parts = [_INTRODUCTION.format(studies=words, quick=_QUICK if quick else "")]
    if ward:
        parts += _of_hospitals(ward)
    if classes:
        parts += _of_schools(classes)
    return "\n\n".join([*parts, _WHAT_TO_DO]) + "\n"


# -- hospitals -----------------------------------------------------------------------------------------------


def _of_hospitals(rows: Rows) -> Iterator[str]:
    found = hospitals.cells(rows)
    left_out = [row for row in rows if row["part"] == hospitals.LEFT_OUT and row["split"] == rows[0]["split"]]
    left_out = [row for row in left_out if row["rule"] == rows[0]["rule"]]
    counts = {(row["hospital"], row["truth"]): row["n"] for row in left_out}
    shares = [
        f"{_whole(counts[name, 'sick'] / (counts[name, 'sick'] + counts[name, 'healthy']))}"
        for name in hospitals.HOSPITALS
    ]
    yield _HOSPITALS.format(n=sum(counts.values()), prevalence=listed(shares))
    yield _hospital_table(found, list(dict.fromkeys(row["rule"] for row in rows)))
    yield "\n".join(f"* {line}" for line in _hospital_words(found))


Found = dict[tuple[str, str, str, str], hospitals.Cell]


def _hospital_table(found: Found, rules: Sequence[str]) -> str:
    lines = []
    for rule in rules:
        here, every = hospitals.HERE, hospitals.ALL
        at_sites = [found[rule, here, name, every] for name in hospitals.HOSPITALS]
        by_class = [found[rule, here, every, truth] for truth in hospitals.CLASSES]
        both = [found[rule, here, name, truth] for name in hospitals.HOSPITALS for truth in hospitals.CLASSES]
        new = [
            found[rule, hospitals.LEFT_OUT, name, every]
            for name in hospitals.HOSPITALS
            if (rule, hospitals.LEFT_OUT, name, every) in found
        ]
        whole = found[rule, here, every, every]
        lines.append(
            [
                rule,
                f"{_whole(whole.level)}",
                _share(whole),
                *(_worst(group) for group in (at_sites, by_class, both, new)),
                f"{whole.size:.2f}",
            ]
        )
    return table(
        ["rule", "asked for", "all", "worst hospital", "worst class", "worst class at a hospital",
         "worst hospital left out", "labels in a set"],
        lines,
    )  # fmt: skip


def _share(cell: hospitals.Cell) -> str:
    words = f"{100 * cell.coverage:.1f} ± {100 * cell.error:.1f}"
    return f"**{words}**" if cell.short else words


def _worst(group: Sequence[hospitals.Cell]) -> str:
    if not group:
        return "no answer"
    cell = min(group, key=lambda c: c.coverage)
    return f"{_share(cell)} ({_who(cell)})"


def _hospital_words(found: Found) -> Iterator[str]:
    """What held and what did not, decided by the numbers."""
    here, every = hospitals.HERE, hospitals.ALL
    whole, worst = found[hospitals.POPULATION, here, every, every], _hardest(found, hospitals.POPULATION)
    yield (
        f"**The default plan {'does not serve' if worst.short else 'served'} them.** It covers "
        f"{_tenth(whole.coverage)} of all patients, and {_whole(worst.coverage)} of the {worst.truth} "
        f"patients of {worst.hospital}. Its promise is for sites that are alike, and these are not; "
        "pooling all scores in one place is no better."
    )
    hardest = _hardest(found, hospitals.EACH)
    yield (
        "`mixture` promises the patients of all four, taken together: "
        f"{_verdict([found[hospitals.MIXTURE, here, every, every]])}. `each site` promises each hospital: "
        f"{_verdict([found[hospitals.EACH, here, name, every] for name in hospitals.HOSPITALS])}. A promise "
        f"for hospitals is none for classes: {_whole(hardest.coverage)} of the {hardest.truth} "
        f"patients of {hardest.hospital} are covered even then."
    )
    yield from _class_words(found)
    new = [found[hospitals.POPULATION, hospitals.LEFT_OUT, n, every].coverage for n in hospitals.HOSPITALS]
    lower = [found[hospitals.NEW_LOWER, hospitals.LEFT_OUT, n, every].coverage for n in hospitals.HOSPITALS]
    yield (
        f"**A hospital left out** is covered to {_whole(min(new))} to {_whole(max(new))} by the default "
        "plan. Four hospitals are too few to promise 90 % for a new one: `new site` then puts both labels in "
        "every set, and says that nine would be enough. 75 % it can promise, on average over new hospitals: "
        f"{_whole(float(np.mean(lower)))} over these four, too few to compute an error from."
    )


def _class_words(found: Found) -> Iterator[str]:
    here, every = hospitals.HERE, hospitals.ALL
    reasons = {
        hospitals.BY_CLASS: "with one number each, the smallest hospitals have no vote",
        hospitals.FIVE: "with five numbers each, small hospitals have a vote",
        hospitals.EACH_CLASS: "that each hospital is covered, class by class, costs the most labels",
    }
    for rule, reason in reasons.items():
        cells = [found[rule, here, every, truth] for truth in hospitals.CLASSES]
        shown = " and ".join(f"{c.truth} {100 * c.coverage:.1f} ± {100 * c.error:.1f} %" for c in cells)
        yield f"`{rule}` covers {shown}: {_verdict(cells)}; {reason}."
    cells = [found[hospitals.OWN, here, n, t] for n in hospitals.HOSPITALS for t in hospitals.CLASSES]
    own, default = (found[rule, here, every, every].size for rule in (hospitals.OWN, hospitals.POPULATION))
    yield (
        f"`{hospitals.OWN}` gives every hospital thresholds of its own: {_verdict(cells)}, at {own:.2f} "
        f"labels in a set against {default:.2f}. Where a hospital has too few patients of a class for any "
        "threshold, as Switzerland has of healthy ones, that class is in every set there."
    )


def _hardest(found: Found, rule: str) -> hospitals.Cell:
    """The class at a hospital that a rule covers least, of those with enough patients to count on."""
    cells = [found[rule, hospitals.HERE, n, t] for n in hospitals.HOSPITALS for t in hospitals.CLASSES]
    most = max(cell.n for cell in cells)
    return min((cell for cell in cells if cell.n >= _ENOUGH * most), key=lambda cell: cell.coverage)


def _who(cell: hospitals.Cell) -> str:
    parts = [part for part in (cell.truth, cell.hospital) if part != hospitals.ALL]
    return ", ".join(parts) or "all patients"


def _whole(share: float) -> str:
    return f"{100 * share:.0f} %"


def _tenth(share: float) -> str:
    return f"{100 * share:.1f} %"


def _verdict(cells: Sequence[hospitals.Cell]) -> str:
    short = [cell for cell in cells if cell.short]
    if not short:
        return "**held**, nothing short of what was asked for"
    return f"**did not hold** ({listed([_who(cell) for cell in short])} short)"


# -- schools -------------------------------------------------------------------------------------------------


def _of_schools(rows: Rows) -> Iterator[str]:
    found = {finding.method: finding for finding in schools.findings(rows)}
    yield _SCHOOLS
    yield table(
        ["method", "promise for new schools", "mean over new schools", "schools below the level, counted",
         "without the noise of counting", "spread between schools", "width", "reached"],
        [_school_line(finding) for finding in found.values()],
    )  # fmt: skip
    yield "\n".join(f"* {line}" for line in _school_words(found))


def _school_line(finding: schools.Finding) -> list[str]:
    asked = f"mean {_whole(finding.level)}"
    if finding.share is not None:
        asked = f"{_whole(finding.share)} of schools at {_whole(finding.level)}"
    return [
        finding.method,
        asked if finding.method in schools.PROMISED else f"none ({asked} was asked for)",
        f"{finding.coverage:.3f} ± {finding.error:.3f}",
        f"{_whole(finding.below)}",
        f"{_whole(finding.truly_below)}",
        f"{finding.spread:.3f}",
        "infinite" if np.isinf(finding.width) else f"{finding.width:.2f}",
        _yes(finding),
    ]


def _yes(finding: schools.Finding) -> str:
    return "yes" if finding.holds else "**no**"


def _school_words(found: dict[str, schools.Finding]) -> Iterator[str]:
    default = found[schools.POPULATION]
    yield (
        f"**The default plan** covers {_tenth(default.coverage)} on average over new schools, and single "
        f"schools vary by {default.spread:.3f}: its law does not contain the spread between schools."
    )
    reasons = {
        schools.MEAN: "One pupil of each school, drawn at random: hardly wider, but the threshold varies "
        "much from round to round.",
        schools.MEAN_OF_FIVE: "Five pupils of each school: a steadier threshold, a little cautious.",
    }
    for name, reason in reasons.items():
        mean = found[name]
        yield (
            f"`{name}`: {mean.coverage:.3f} ± {mean.error:.3f} where a mean of {_whole(mean.level)} is "
            f"promised, {_held(mean)}; {mean.width / default.width:.2f} times the default's width. {reason}"
        )
    yield _strict_words(found[schools.NINE_IN_TEN], default)
    infinite = [f"`{f.method}`" for f in found.values() if np.isinf(f.width)]
    if infinite:
        yield (
            f"{listed(infinite)}: infinite where a school with a handful of pupils takes part, since every "
            "school must have a threshold of its own."
        )


def _strict_words(strict: schools.Finding, default: schools.Finding) -> str:
    share = strict.share or 0.0
    return (
        f"`{strict.method}` was planned for {_whole(share)} of new schools at {_whole(strict.level)}. "
        f"Counted on some sixty pupils each, {_tenth(strict.below)} of new schools were below; without the "
        f"noise of counting it is {_tenth(strict.truly_below)}, where {_whole(1 - share)} are allowed: "
        f"{_held(strict)}. It is {strict.width / default.width:.2f} times as wide as the default, under "
        f"which {_whole(default.truly_below)} of new schools are below {_whole(default.level)}."
    )


def _held(finding: schools.Finding) -> str:
    return "**held**" if finding.holds else "**did not hold**"
