"""Ranks and votes that are tried: common shares, weights by size, several numbers per
site.
"""

from fractions import Fraction

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.planning import Goal
from fedconformal.planning._ballot import (
    candidates,
    common_share,
    maxima,
    single_candidate,
)
from planning.plans import kinds

NINE = Goal(Fraction(9, 10))


def test_the_papers_ranks_have_one_vote_each():
    plan = fc.plan(n_points=[120, 40, 377], confidence_level=0.9, local_ranks="paper")
    assert list(plan.local_ranks) == [109, 37, 341]
    assert list(plan.weights) == [1, 1, 1]
    assert plan.message.levels[0].rule.share == Fraction(9, 10)
    assert common_share(kinds([9, 19]), Fraction(7, 10)).ranks.tolist() == [[[7], [14]]]


@pytest.mark.slow
def test_levels_with_many_digits():
    sizes = np.arange(5000, 5100)
    assert (
        fc.plan(n_points=sizes, confidence_level=0.9123456789012345).law.mean()
        >= 0.9123456789012345
    )


@pytest.mark.parametrize("n", [1, 12, 3000])
def test_equal_sites_that_send_one_number_try_every_rank_near_the_level_and_the_largest(
    n,
):
    sites = kinds([n], [9])
    tried = candidates(sites, NINE, 1)
    ranks = tried.ranks.ravel()
    assert tried.is_plain
    assert ranks[-1] == n
    assert (np.diff(ranks[:-1]) == 1).all()
    assert maxima(sites).is_plain
    assert not candidates(kinds([40, 41]), NINE, 1).is_plain


@pytest.mark.parametrize("sizes", [[3, 5], [5, 9, 14]])
def test_every_common_share_of_small_sites_is_tried(sizes):
    tried = {
        tuple(row) for row in candidates(kinds(sizes), NINE, 1).ranks[:, :, 0].tolist()
    }
    for n in sizes:
        for i in range(1, n + 1):
            assert tuple(-(-i * (m + 1) // (n + 1)) for m in sizes) in tried


@pytest.mark.parametrize("numbers", [1, 2, 3, 5, 20])
@pytest.mark.parametrize(
    "sizes", [[40, 60, 90], [1, 2, 3], [7, 10**6], [10**6, 10**9], list(range(20, 80))]
)
def test_ranks_rise_within_each_site_and_missing_ones_have_no_vote(sizes, numbers):
    tried = candidates(kinds(sizes), NINE, numbers)
    sent = tried.weights > 0
    assert tried.numbers == numbers
    assert np.array_equal(sent, tried.ranks <= np.array(sizes)[:, None])
    assert ((np.diff(tried.ranks, axis=2) > 0) | ~sent[:, :, 1:]).all()
    assert (tried.ranks >= 1).all()
    assert sent.any(axis=(1, 2)).all()
    rows = np.concatenate([tried.ranks, tried.weights], axis=2).reshape(len(tried), -1)
    assert len(np.unique(rows, axis=0)) == len(tried)


def test_votes_are_in_proportion_to_the_root_of_the_size_and_count_scores():
    sites = kinds([100, 400, 900])
    assert [1, 2, 3] in candidates(sites, NINE, 1).weights[:, :, 0].tolist()
    several = candidates(sites, NINE, 3)
    for ranks, votes in zip(several.ranks, several.weights, strict=True):
        steps = np.diff(ranks, axis=1)
        assert (steps == steps[:, :1]).all()
        assert np.array_equal(steps[:, 0] * votes[0, 0], steps[0, 0] * votes[:, 0])


@pytest.mark.parametrize("f", [0, 1, 2])
def test_votes_lie_between_what_faulty_sites_can_cast_and_withhold(f):
    """Six sites with 5, 5, 5, 2, 7 and 7 votes; the site of 20 points sends +inf."""
    sizes, counts = np.array([10, 20, 30]), np.array([3, 1, 2])
    tried = single_candidate(
        sizes, counts, np.array([[9], [21], [27]]), np.array([[5], [2], [7]])
    )
    lies = sum([7, 7][:f])
    assert [end.tolist() for end in tried.limits(f)] == [[lies + 1], [29 - lies]]
