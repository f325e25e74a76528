"""The recount shares nothing with the laws, so each is the other's oracle; fractions are everybody's."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal.audit import MEAN_ERROR, Recount
from fedconformal.audit._effort import Effort
from fedconformal.audit._integral import integral
from fedconformal.audit._one_vote import binomial_tails
from fedconformal.laws import exact_cdf, exact_mean


def law(recount):
    return fc.CoverageLaw(
        n_points=list(recount.sizes),
        local_rank=list(recount.ranks),
        server_rank=recount.server_rank,
        max_faulty=recount.max_faulty,
    )


@st.composite
def federations(draw, faulty=False):
    sizes = draw(st.lists(st.integers(1, 12), min_size=2, max_size=6))
    ranks = [draw(st.integers(1, n + 1)) for n in sizes]
    f = draw(st.integers(0, (len(sizes) - 1) // 2)) if faulty else 0
    return Recount(sizes, ranks, draw(st.integers(1, len(sizes))), f)


class TestWholeNumbers:
    @given(federations())
    def test_the_mean_is_that_of_the_referee(self, recount):
        assert recount.countable
        mean, _ = recount.exact_moments()
        assert mean == exact_mean(recount.sizes, recount.ranks, recount.server_rank)

    @given(federations(), st.fractions(Fraction(1, 20), Fraction(19, 20), max_denominator=50))
    def test_so_is_the_cdf(self, recount, level):
        assert recount.countable_at(level)
        assert recount.exact_cdf(level) == exact_cdf(recount.sizes, recount.ranks, recount.server_rank, level)

    def test_closed_forms_at_any_size(self):
        assert Recount([10**9], [9 * 10**8], 1).exact_moments()[0] == Fraction(9 * 10**8, 10**9 + 1)
        assert Recount([1] * 5000, [1] * 5000, 4500).exact_moments()[0] == Fraction(4500, 5001)
        assert Recount([301] * 301, [151] * 301, 151).half
        assert not Recount([301] * 301, [151] * 301, 152).half

    @pytest.mark.parametrize(
        ("recount", "coverage"),
        [
            (Recount([5, 5], [1, 1], 3), 1),  # one rank more than there are reports
            (Recount([5, 5], [6, 6], 1), 1),  # nobody sends a finite number
            (Recount([5] * 5, [5] * 5, 2, 2), 0),  # the faulty sites alone decide
        ],
    )
    def test_what_is_certain(self, recount, coverage):
        assert recount.exact_moments() == (coverage, 0)
        assert recount.moments() == (coverage, 0)
        assert recount.exact_cdf(Fraction(1, 2)) == 1 - coverage
        assert recount.cdf(np.array([0.5])) == 1 - coverage

    def test_what_is_too_large_is_not_tried(self):
        assert not Recount([1000] * 100, [900] * 100, 50).countable
        assert not Recount([10**7] * 100, [9 * 10**6] * 100, 50).countable_at(Fraction(9, 10))

    def test_unequal_sites_with_faulty_ones_cannot_be_counted(self):
        recount = Recount([5, 9, 14], [4, 8, 12], 2, 1)
        assert recount.honest is None
        assert not recount.countable
        assert not recount.half
        with pytest.raises(ValueError, match="not the same at every coverage"):
            recount.exact_moments()


class TestFloatingPoint:
    @given(federations())
    def test_means_are_as_precise_as_they_say(self, recount):
        mean, variance = recount.moments()
        exact, spread = recount.exact_moments()
        assert abs(Fraction(mean) - exact) < MEAN_ERROR
        assert variance == pytest.approx(float(spread), rel=1e-9, abs=1e-13)

    @settings(max_examples=20)
    @given(federations(faulty=True))
    def test_faulty_sites_do_their_worst_at_every_coverage(self, recount):
        mean, variance = recount.moments()
        assert mean == pytest.approx(law(recount).mean(), abs=1e-12)
        assert math.sqrt(variance) == pytest.approx(law(recount).std(), abs=1e-7)
        c = np.linspace(0.05, 0.95, 7)
        np.testing.assert_allclose(recount.cdf(c), law(recount).cdf(c), atol=1e-13)
        level = Fraction(7, 10)
        assert float(recount.exact_cdf(level)) == pytest.approx(float(law(recount).cdf(0.7)), abs=1e-13)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("sizes", "share", "k", "f"),
        [
            ([1000] * 1000, 0.9, 500, 0),
            ([10**8] * 20, 0.9, 11, 0),
            ([500] * 300 + [5] * 2000, 0.9, 200, 0),  # most of them send infinity
            (list(range(60, 75)), 0.9, 9, 2),
        ],
    )
    def test_large_federations_agree_with_the_law(self, sizes, share, k, f):
        """However slow the machine: how long a recount may take is tested elsewhere."""
        ranks = [math.ceil(share * (n + 1)) for n in sizes]
        recount = Recount(sizes, ranks, k, f, effort=Effort(20))
        mean, variance = recount.moments()
        assert mean == pytest.approx(law(recount).mean(), abs=MEAN_ERROR)
        assert math.sqrt(variance) == pytest.approx(law(recount).std(), rel=1e-6)

    @pytest.mark.parametrize(("n", "k", "p"), [(1, 1, 0.3), (7, 3, 0.5), (79, 75, 0.9), (5000, 4600, 0.9)])
    def test_binomial_tails(self, n, k, p):
        with mpmath.workdps(40):
            exact = float(mpmath.betainc(k, n - k + 1, 0, mpmath.mpf(p), regularized=True))
        above, below = binomial_tails(n, k, np.array([p]), np.array([1 - p]))
        assert above[0] == pytest.approx(exact, rel=1e-11)
        assert above + below == pytest.approx(1.0, abs=1e-15)

    def test_binomial_tails_at_the_ends(self):
        above, below = binomial_tails(10, 3, np.array([0.0, 1.0]), np.array([1.0, 0.0]))
        assert above.tolist() == [0.0, 1.0]
        assert below.tolist() == [1.0, 0.0]

    def test_integrals_find_kinks(self):
        found = integral(lambda u: np.stack([np.abs(u - 1 / 3), np.sqrt(u)]), tolerance=1e-13)
        np.testing.assert_allclose(found, [5 / 18, 2 / 3], rtol=1e-12)
