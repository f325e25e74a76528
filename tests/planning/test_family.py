"""One common share for all sites, searched, the paper's, or given."""

from fractions import Fraction

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.planning._family import common_shares, fixed, with_share


class TestRanks:
    def test_the_papers_choice(self):
        plan = fc.plan(n_points=[120, 40, 377], confidence_level=0.9, local_ranks="paper")
        assert list(plan.local_ranks) == [109, 37, 341]
        assert plan.levels[0].share == "9/10"

    def test_a_number_is_the_share(self):
        assert list(fc.plan(n_points=[9, 19], confidence_level=0.6, local_ranks=0.7).local_ranks) == [7, 14]

    def test_a_share_and_ranks_that_are_given_are_single_vectors(self):
        sizes, counts = np.array([9, 19]), np.array([2, 1])
        assert with_share(sizes, counts, Fraction(7, 10)).ranks.tolist() == [[7, 14]]
        assert fixed(sizes, counts, np.array([3, 20])).finite_sites.tolist() == [2]

    def test_levels_with_many_digits(self):
        sizes = np.arange(5000, 5100)
        assert fc.plan(n_points=sizes, confidence_level=0.9123456789012345).law.mean() >= 0.9123456789012345


class TestCommonShares:
    @pytest.mark.parametrize("sizes", [[12], [5, 9, 14], list(range(50, 350)), [10**6, 10**9]])
    def test_follow_the_rule_rise_and_end_with_all_maxima(self, sizes):
        """The largest vector of all comes last: if it is not valid, none is."""
        family = common_shares(np.array(sizes), np.ones(len(sizes), dtype=int), Fraction(9, 10))
        assert (family.ranks[-1] == sizes).all()
        assert (np.diff(family.ranks[:-1], axis=0) >= 0).all()
        assert len({tuple(row) for row in family.ranks.tolist()}) == len(family)
        for share, ranks in zip(family.shares, family.ranks.tolist(), strict=True):
            assert share is None or ranks == [
                -(-share.numerator * (n + 1) // share.denominator) for n in sizes
            ]
