"""Plans and sites for tests of planning: without warnings, and checked against their
promise.
"""

import warnings
from fractions import Fraction
from itertools import combinations

import numpy as np

import fedconformal as fc
from fedconformal.documents import SiteKind
from fedconformal.messages import of
from fedconformal.planning import Ballot


def quiet(*args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fc.InfeasibleWarning)
        return fc.plan(*args, **kwargs)


def is_valid(plan, law=None):
    """The promise of a plan, checked with the law and a margin for rounding only."""
    law = law or plan.law
    if plan.criterion == "conditional":
        return law.cdf(plan.confidence_level) <= float(plan.designs[0].delta) + 1e-12
    return law.mean() >= plan.confidence_level - 1e-12


def kinds(sizes, counts=None, shares=None):
    """Sites of these sizes: one of each, unless their numbers are given."""
    rows = zip(
        sizes, counts or [1] * len(sizes), shares or [None] * len(sizes), strict=True
    )
    return tuple(
        SiteKind(
            count=int(count), n=int(n), share=None if share is None else Fraction(share)
        )
        for n, count, share in rows
    )


def alike(sizes):
    """Sites of these sizes, those of one size put together."""
    return kinds(*(part.tolist() for part in np.unique(sizes, return_counts=True)))


def pick(ballot, counts):
    """The same ballot with other numbers of sites; those of which there are none are
    left out.
    """
    rows = zip(ballot.sites, ballot.ranks, ballot.votes, counts, strict=True)
    there = [
        (kind.model_copy(update={"count": c}), ranks, votes)
        for kind, ranks, votes, c in rows
        if c
    ]
    return Ballot(*(tuple(column) for column in zip(*there, strict=True)))


def tolerates(plan, n_missing=1):
    """Whether a plan says that a finite threshold is left."""
    return of(plan.message).tolerates(plan.designs[0], 0, n_missing)


def left_finite(promise, solution, goal, n_missing):
    """Whether the votes solved again are finite for every choice of missing sites, one
    by one.
    """
    ballot = solution.ballot.merge()
    sites = [b for b, kind in enumerate(ballot.sites) for _ in range(kind.count)]
    if n_missing >= len(sites):
        return False
    counts = {
        tuple(there.count(b) for b in range(len(ballot.sites)))
        for there in combinations(sites, len(sites) - n_missing)
    }
    return all(
        promise.solve(solution, pick(ballot, each), goal).is_finite for each in counts
    )
