"""Drafts of private plans are valid, and private laws are proper everywhere."""

from fractions import Fraction

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.laws import CoverageLaw
from fedconformal.planning import Goal, draft_private
from fedconformal.privacy._terms import Terms

SETTINGS = [
    ([100], [10], 1, 100, "marginal", 0),
    ([500], [10], "0.3", 100, "stable", 0),
    ([1000], [100], 1, 100, "conditional", 0),
    ([10_000], [100], 1, 1000, "marginal", 0),
    ([200, 400], [3, 4], 2, 50, "marginal", 1),
    ([200, 400], [3, 4], 2, 50, "conditional", 2),
]


@pytest.mark.parametrize(("sizes", "counts", "epsilon", "bins", "criterion", "faulty"), SETTINGS)
def test_a_draft_keeps_the_promise(sizes, counts, epsilon, bins, criterion, faulty):
    goal = Goal(Fraction(9, 10), criterion, Fraction(1, 10), faulty)
    terms = Terms(Fraction(epsilon), bins, "permute-and-flip", "tight")
    quantile, rank = draft_private(np.array(sizes), np.array(counts), goal, terms)
    sites = terms.sites(np.array(sizes), quantile)
    law = CoverageLaw.of_sites(sites, counts, server_rank=rank, max_faulty=faulty)
    if criterion == "conditional":
        assert law.cdf(0.9) <= 0.1
    else:
        assert law.mean() >= 0.9


def test_where_no_quantile_will_do_there_is_no_draft():
    terms = Terms(Fraction(1, 10), 100, "permute-and-flip", "tight")
    assert draft_private(np.array([20]), np.array([3]), Goal(Fraction(9, 10)), terms) is None


def test_a_private_law_is_a_probability_everywhere():
    privacy = fc.Privacy(epsilon=1.0, bins=fc.Bins.uniform(0, 1, 100))
    cdf = fc.plan(100, 1000, privacy=privacy).law.cdf(np.linspace(0, 1, 2001))
    assert np.isfinite(cdf).all()
    assert (np.diff(cdf) >= -1e-12).all()


@pytest.mark.parametrize("q", [1e-9, 1e-3, 0.05, 0.5, 0.999, 1 - 1e-9])
def test_quantiles_of_uneven_and_private_laws_invert_the_cdf(q):
    privacy = fc.Privacy(epsilon=1.0, bins=fc.Bins.uniform(0, 1, 100))
    for law in (fc.plan(n_points=[12, 40, 377]).law, fc.plan(10, 500, privacy=privacy).law):
        assert law.cdf(law.ppf(q)) == pytest.approx(q, rel=1e-11)
