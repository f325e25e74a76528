"""Drafts of private designs are valid, and private laws are proper everywhere."""

from fractions import Fraction

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.planning import CRITERIA, PROMISES, Goal, Private, Sites, draft_private

SETTINGS = [
    ([100], [10], 1, 100, "marginal", 0),
    ([500], [10], 0.3, 100, "stable", 0),
    ([1000], [100], 1, 100, "conditional", 0),
    ([10_000], [100], 1, 1000, "marginal", 0),
    ([200, 400], [3, 4], 2, 50, "marginal", 1),
    ([200, 400], [3, 4], 2, 50, "conditional", 2),
]


def draft(sizes, counts, epsilon, bins, criterion="marginal", faulty=0):
    goal = Goal(Fraction(9, 10), CRITERIA[criterion](), Fraction(1, 10), faulty)
    release = fc.Privacy(epsilon=epsilon, bins=fc.Bins.uniform(0, 1, bins)).release()
    sites = Sites(np.array(sizes), np.array(counts))
    return draft_private(sites, goal, Private(release), PROMISES["population"]())


@pytest.mark.parametrize(("sizes", "counts", "epsilon", "bins", "criterion", "faulty"), SETTINGS)
def test_a_draft_keeps_the_promise(sizes, counts, epsilon, bins, criterion, faulty):
    design = draft(sizes, counts, epsilon, bins, criterion, faulty)
    assert design.is_finite
    assert [(block.n, block.count) for block in design.blocks] == list(zip(sizes, counts, strict=True))
    site_law = design.sending.site_law(design.blocks)
    law = fc.CoverageLaw.of_sites(site_law, counts, server_rank=design.server_rank, max_faulty=faulty)
    if criterion == "conditional":
        assert law.cdf(0.9) <= 0.1
    else:
        assert law.mean() >= 0.9
    assert design.law().mean() == law.mean()


def test_where_no_quantile_will_do_the_threshold_is_infinite():
    design = draft([20], [3], 0.1, 100)
    assert not design.is_finite
    assert design.server_rank == 4
    assert design.advice == fc.planning.Advice()  # a draft gives no advice
    assert design.law().mean() == 1.0


@pytest.fixture(scope="module")
def private_laws():
    privacy = fc.Privacy(epsilon=1.0, bins=fc.Bins.uniform(0, 1, 100))
    return {
        size: fc.plan(*size, privacy=privacy, criterion="marginal").law for size in [(100, 1000), (10, 500)]
    }


@pytest.mark.slow
def test_a_private_law_is_a_probability_everywhere(private_laws):
    cdf = private_laws[100, 1000].cdf(np.linspace(0, 1, 2001))
    assert np.isfinite(cdf).all()
    assert (np.diff(cdf) >= -1e-12).all()


@pytest.mark.parametrize("q", [1e-9, 1e-3, 0.05, 0.5, 0.999, 1 - 1e-9])
def test_quantiles_of_uneven_and_private_laws_invert_the_cdf(private_laws, q):
    for law in (fc.plan(n_points=[12, 40, 377]).law, private_laws[10, 500]):
        assert law.cdf(law.ppf(q)) == pytest.approx(q, rel=1e-11)
