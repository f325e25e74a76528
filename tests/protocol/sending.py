"""Federations that answer, for tests of the server's job."""

import numpy as np

import fedconformal as fc
from fedconformal.documents import RanksPayload, ReportPart, Sent
from fedconformal.messages import RanksMessage

SIZES = {"A": 40, "B": 60, "C": 25, "D": 90, "E": 60}

GROUPS = {
    "old": {"A": 40, "B": 200, "C": 33},
    "young": {"A": 90, "B": 60, "C": 0},
    "child": {"A": 25, "B": 25, "C": 25},
}
SITES = ("A", "B", "C")
SPREAD = {"old": 1.0, "young": 5.0, "child": 0.1}


def federation(plan, sizes, seed=0):
    """A report of each site, with exponential scores."""
    rng = np.random.default_rng(seed)
    return [
        fc.report(plan, rng.exponential(size=n), site=site) for site, n in sizes.items()
    ]


def sent(plan, site, n, value, ranks=None):
    """A report that somebody has put together by hand, for a plan of one level."""
    chosen = (
        RanksMessage().ranks_for(plan.designs[0], n, site)[0]
        if ranks is None
        else ranks
    )
    payload = RanksPayload(levels=(Sent(ranks=chosen, values=(value,) * len(chosen)),))
    return fc.Report(
        plan=plan.digest, site=site, parts=(ReportPart(n=n, payload=payload),)
    )


def altered(report, group=None, /, *, value=None, ranks=None, **changes):
    """A report with another value, or other fields, in one of its parts; nothing is
    signed again.
    """
    part = report.by_group[group]
    if ranks is not None or value is not None:
        first, *others = part.payload.levels
        ranks = first.ranks if ranks is None else ranks
        values = first.values if value is None else (value,) * len(ranks)
        changes["payload"] = RanksPayload(
            levels=(Sent(ranks=ranks, values=values), *others)
        )
    parts = [
        part.model_copy(update=changes) if each is part else each
        for each in report.parts
    ]
    return report.model_copy(update={"parts": tuple(parts)})


def drawn(sizes, rng, *, site):
    """Scores and labels of a site, shuffled; groups differ in spread."""
    labels = np.repeat(
        list(sizes), [by_site.get(site, 0) for by_site in sizes.values()]
    )
    rng.shuffle(labels)
    return rng.exponential([SPREAD.get(label, 1.0) for label in labels]), labels


def answered(plan, data, **options):
    """A report of each site from its scores and labels."""
    return [
        fc.report(plan, scores, site=site, groups=labels, **options)
        for site, (scores, labels) in data.items()
    ]


def check_claims(calibration, reports=None):
    """A calibration is read as it was written, and everything that it claims holds."""
    assert fc.Calibration.from_json(calibration.to_json()) == calibration
    assert [
        finding
        for finding in fc.audit.verify(calibration, reports)
        if finding.holds is not True
    ] == []
