"""Cases that a plan or a calibration leaves out: groups without a finite threshold, to
which nothing is promised, and cases that nobody counts.
"""

import math
from collections.abc import Iterator

from fedconformal._text import count, listed, percent, plain_spaces, quoted
from fedconformal.documents import Calibration, Plan
from fedconformal.planning import PROMISES
from fedconformal.protocol._federation import (
    absent_sentences,
    shorten,
    sites_left_out,
)
from fedconformal.protocol._report import loss_curve


def uncovered_sentences(calibration: Calibration) -> tuple[str, ...]:
    """Name the cases to which a calibration promises nothing, and those that it does
    not count.

    Parameters
    ----------
    calibration : Calibration
        With groups or without.

    Returns
    -------
    tuple of str
        Sentences; none where the promise covers all cases that the plan knows.

    Examples
    --------
    >>> import fedconformal as fc
    >>> sizes = {"sick": {"A": 40, "B": 50}, "well": {"A": 60, "B": 1}}
    >>> plan = fc.plan(groups=sizes, group_by=("site", "class"), score="lac")
    >>> reports = []
    >>> for site in "AB":
    ...     labels = ["sick"] * sizes["sick"][site] + ["well"] * sizes["well"][site]
    ...     scores = [i / 100 for i in range(len(labels))]
    ...     reports.append(fc.report(plan, scores, groups=labels, site=site))
    >>> calibration = fc.calibrate(plan, reports)
    >>> for sentence in fc.protocol.uncovered_sentences(calibration):
    ...     print(sentence)
    Site 'B' has too few cases of 'well', or none, for a threshold of its own: there,
    every set contains 'well'.
    Cases without a group of the plan are not among the cases that are counted.
    """
    plan = calibration.plan
    sentences = [
        *absent_sentences(plan),
        *shorten(_infinite(calibration), "thresholds"),
        *shorten(_not_answered(calibration), "groups"),
    ]
    if plan.grouping.absent or sites_left_out(plan):
        sentences.append(
            "Cases without a group of the plan are not among the cases that are"
            " counted."
        )
    return tuple(sentences)


def _infinite(calibration: Calibration) -> Iterator[str]:
    """Yield a sentence for each group without a finite threshold at some level."""
    plan = calibration.plan
    for part in calibration.parts if plan.is_grouped else ():
        levels = [
            plain_spaces(percent(level))
            for level, threshold in zip(
                plan.confidence_levels, part.thresholds, strict=True
            )
            if threshold == math.inf
        ]
        if levels:
            group = part.design.group or ""
            yield (
                f"Group {group!r}: no finite threshold at {listed(levels)}, so"
                f" {_everything(plan, group)}."
            )


def _everything(plan: Plan, group: str) -> str:
    """Describe what an infinite threshold does to the cases of a group."""
    site, label = plan.grouping.parts_of(group)
    there = "" if site is None else f" at {site!r}"
    curve = loss_curve(plan)
    if curve is not None:
        return f"these cases{there} have no setting, or no answer"
    if plan.grouping.by_class:
        return f"every set{there} contains {label!r}"
    return f"every set of these cases{there} contains everything"


def _not_answered(calibration: Calibration) -> Iterator[str]:
    """Yield a sentence for each group with sites that did not answer, where the promise
    is for sites that did.
    """
    plan = calibration.plan
    for part in calibration.parts:
        promise = PROMISES[part.design.promise]
        is_finite = min(part.thresholds) < math.inf
        names = plan.site_names or part.missing
        others = sorted(set(names) - set(part.design.site_names or ()))
        if promise.is_for_answered_sites and is_finite and others:
            of_group = ""
            if plan.is_grouped:
                of_group = f" of group {part.design.group!r}"
            yield (
                f"Nothing is promised to cases{of_group} at {quoted(others)}:"
                f" {count(len(others), 'site')} did not answer for them."
            )
