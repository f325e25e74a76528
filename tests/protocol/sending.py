"""Federations that answer, for tests of the server's job."""

import numpy as np

import fedconformal as fc
from fedconformal.documents import ReportPart, Sent

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
    return [fc.report(plan, rng.exponential(size=n), site=site) for site, n in sizes.items()]


def sent(plan, site, n, value, ranks=None):
    """A report that somebody has put together by hand, for a plan of one level."""
    chosen = plan.ranks_for(n, site=site) if ranks is None else (ranks,)
    part = ReportPart(n=n, levels=(Sent(ranks=chosen[0], values=(value,) * len(chosen[0])),))
    return fc.Report(plan=plan.digest, site=site, parts=(part,))


def altered(report, label=None, /, *, value=None, **changes):
    """A report with another value, or other fields, in one of its parts; nothing is signed again."""
    part = report.by_label[label]
    if "ranks" in changes or value is not None:
        old = part.levels[0]
        ranks = changes.pop("ranks", old.ranks)
        values = old.values if value is None else (value,) * len(ranks)
        changes["levels"] = (Sent(ranks=ranks, values=values), *part.levels[1:])
    parts = [part.model_copy(update=changes) if each is part else each for each in report.parts]
    return report.model_copy(update={"parts": tuple(parts)})


def drawn(sizes, rng, *, site):
    """Scores and labels of a site, shuffled; groups differ in spread."""
    labels = np.repeat(list(sizes), [by_site.get(site, 0) for by_site in sizes.values()])
    rng.shuffle(labels)
    return rng.exponential([SPREAD.get(label, 1.0) for label in labels]), labels


def answered(plan, data, **options):
    """A report of each site from its scores and labels."""
    return [
        fc.report(plan, scores, site=site, groups=labels, **options)
        for site, (scores, labels) in data.items()
    ]
