"""Which ranks and weights are tried: common shares, weights by size, several numbers per site."""

from fractions import Fraction

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.planning import _family as families
from fedconformal.planning._family import alone, common_shares, fixed, joined, spaced, weighted, with_share

NINE = Fraction(9, 10)


def ones(sizes):
    return np.ones(len(sizes), dtype=int)


class TestRanks:
    def test_the_papers_choice(self):
        plan = fc.plan(n_points=[120, 40, 377], confidence_level=0.9, local_ranks="paper")
        assert list(plan.local_ranks) == [109, 37, 341]
        assert list(plan.weights) == [1, 1, 1]
        assert plan.levels[0].share == "9/10"

    def test_a_share_and_ranks_that_are_given_are_single_vectors(self):
        sizes, counts = np.array([9, 19]), np.array([2, 1])
        assert with_share(sizes, counts, Fraction(7, 10)).ranks.tolist() == [[[7], [14]]]
        given = fixed(sizes, counts, np.array([[3, 5], [20, 20]]), np.array([[4, 1], [6, 0]]))
        assert (len(given), given.numbers, given.is_plain) == (1, 2, False)
        assert given.finite_votes.tolist() == [2 * (4 + 1)]  # the site of 19 points sends +inf

    def test_levels_with_many_digits(self):
        sizes = np.arange(5000, 5100)
        assert fc.plan(n_points=sizes, confidence_level=0.9123456789012345).law.mean() >= 0.9123456789012345


class TestCommonShares:
    @pytest.mark.parametrize("sizes", [[12], [5, 9, 14], list(range(50, 350)), [10**6, 10**9]])
    def test_follow_the_rule_rise_and_end_with_all_maxima(self, sizes):
        """The largest vector of all comes last: if it is not valid, none is."""
        family = common_shares(np.array(sizes), ones(sizes), NINE)
        ranks = family.ranks[:, :, 0]
        assert family.numbers == 1
        assert (family.weights == 1).all()
        assert (ranks[-1] == sizes).all()
        assert (np.diff(ranks[:-1], axis=0) >= 0).all()
        assert len({tuple(row) for row in ranks.tolist()}) == len(family)
        for share, row in zip(family.shares, ranks.tolist(), strict=True):
            assert share is None or row == [-(-share.numerator * (n + 1) // share.denominator) for n in sizes]

    def test_of_equal_sites_are_the_papers_setting(self):
        assert common_shares(np.array([40]), np.array([9]), NINE).is_plain
        assert families.maxima(np.array([40]), np.array([9])).is_plain
        assert not common_shares(np.array([40, 41]), np.array([9, 1]), NINE).is_plain


class TestWeighted:
    @pytest.mark.parametrize("sizes", [[40, 60, 90], [1, 2, 3], [20, 200], [5, 10**6], list(range(20, 320))])
    def test_larger_sites_have_more_votes_in_lowest_terms(self, sizes):
        family = weighted(np.array(sizes), ones(sizes), NINE)
        votes = family.weights[:, :, 0]
        assert (votes >= 1).all()
        assert (np.diff(votes, axis=1) >= 0).all()
        assert (np.gcd.reduce(votes, axis=1) == 1).all()
        assert ((family.ranks >= 1) & (family.ranks <= np.array(sizes)[:, None])).all()
        assert set(family.shares) == {None}

    def test_are_in_proportion_to_the_root_of_the_size(self):
        family = weighted(np.array([100, 400, 900]), ones("abc"), NINE)
        assert (1, 2, 3) in {tuple(row) for row in family.weights[:, :, 0].tolist()}


class TestSpaced:
    @pytest.mark.parametrize("numbers", [2, 3, 5, 20])
    @pytest.mark.parametrize("sizes", [[40, 60, 90], [1, 2, 3], [20, 200], [7, 10**6], [100]])
    def test_ranks_rise_within_each_site_and_missing_ones_have_no_vote(self, sizes, numbers):
        family = spaced(np.array(sizes), ones(sizes), NINE, numbers)
        assert family.numbers == numbers
        sent = family.weights > 0
        assert np.array_equal(sent, family.ranks <= np.array(sizes)[:, None])
        assert ((np.diff(family.ranks, axis=2) > 0) | ~sent[:, :, 1:]).all()
        assert (family.ranks >= 1).all()
        for b, n in enumerate(sizes):
            count = sent[:, b].sum(axis=1)
            assert ((count >= 1) & (count <= min(n, numbers))).all()

    def test_votes_count_the_scores_between_neighbours(self):
        """One vote stands for as many scores at every site: the votes are in proportion to the steps."""
        family = spaced(np.array([100, 400, 900]), ones("abc"), NINE, 3)
        for ranks, votes in zip(family.ranks, family.weights, strict=True):
            steps = np.diff(ranks, axis=1)
            assert (steps == steps[:, :1]).all()
            assert np.array_equal(steps[:, 0] * votes[0, 0], steps[0, 0] * votes[:, 0])


def test_alone_only_one_block_has_votes():
    family = alone(np.array([20, 300]), np.array([4, 1]), 1, np.array([270, 271]))
    assert family.ranks[:, :, 0].tolist() == [[21, 270], [21, 271]]
    assert family.weights[:, :, 0].tolist() == [[0, 1], [0, 1]]
    assert family.finite_votes.tolist() == [1, 1]


def test_joined_families_have_no_repetitions_and_keep_the_first_of_equals():
    sizes, counts = np.array([40, 60]), np.array([2, 1])
    shares, votes = common_shares(sizes, counts, NINE), weighted(sizes, counts, NINE)
    first = {}
    for family in (shares, votes, shares):
        for row in _rows(family):
            first.setdefault(row[:2], row[2])
    both = joined([shares, votes, shares])
    assert _rows(both) == [(*key, share) for key, share in first.items()]


def _rows(family):
    columns = zip(
        family.ranks[:, :, 0].tolist(), family.weights[:, :, 0].tolist(), family.shares, strict=True
    )
    return [(tuple(ranks), tuple(votes), share) for ranks, votes, share in columns]


@pytest.mark.parametrize("f", [0, 1, 2, 3, 5])
def test_the_heaviest_sites_are_those_with_most_votes(f):
    sizes, counts = np.array([10, 20, 30]), np.array([3, 1, 2])
    family = fixed(sizes, counts, np.array([[9], [18], [27]]), np.array([[5], [2], [7]]))
    assert family.heaviest(f).tolist() == [sum(sorted([5, 5, 5, 2, 7, 7], reverse=True)[:f])]
