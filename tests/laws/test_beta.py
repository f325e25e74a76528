"""Quantiles and tails at any size, against python-flint's balls and exact integers."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import special

import fedconformal as fc
from fedconformal.laws._beta import beta_quantile, binomial_cdf
from fedconformal.laws._curves import bound_tail, first_answered, solve_sum

MASSES = [1e-18, 1e-6, 0.05, 0.5, 0.9, 0.999]


def share_below(a, b, x):
    """``I_x(a, b)`` to at least 60 bits, by balls."""
    bits = 150
    while True:
        ctx.prec = bits
        share = arb(x).beta_lower(arb(a), arb(b), 1)
        if share.rel_accuracy_bits() >= 60:
            return share
        bits *= 2


def at_most(k, n, chance):
    """P(Bin(n, chance) <= k) to at least 60 bits."""
    ctx.prec = 300
    return share_below(n - k, k + 1, 1 - arb(chance))


def missed(a, b, x, mass):
    """How far a quantile misses its mass, relative to the smaller of both sides."""
    return abs(float((share_below(a, b, x) - arb(mass)) / arb(min(mass, 1 - mass))))


class TestQuantile:
    @pytest.mark.parametrize("mass", MASSES)
    @pytest.mark.parametrize(
        ("a", "b"),
        [(999_999_002, 1000), (10**7, 1000), (1000, 18_742_827), (1000, 10**9)],
    )
    def test_of_exactly_a_thousand_beside_a_large_number(self, a, b, mass):
        assert missed(a, b, float(beta_quantile(a, b, mass)), mass) < 1e-7

    @given(st.integers(1, 2000), st.integers(1, 2000), st.sampled_from(MASSES))
    def test_of_small_ones(self, a, b, mass):
        found = float(beta_quantile(a, b, mass))
        # A float next to 1 has few digits of 1 - x.
        rounding = 1e-15 * max(a, b) / min(1 - found, found)
        assert missed(a, b, found, mass) < 1e-12 + rounding

    @given(st.integers(1, 5000), st.integers(1, 5000), st.sampled_from(MASSES))
    def test_from_above_is_the_other_end(self, a, b, mass):
        above = float(beta_quantile(a, b, mass, upper=True))
        assert above == pytest.approx(1 - float(beta_quantile(b, a, mass)), abs=1e-13)
        if above < 0.5:
            assert missed(b, a, 1 - arb(above), mass) < 1e-11

    def test_ends_and_nothing(self):
        found = beta_quantile(3, 4, [0.0, 1.0, np.nan])
        assert found.tolist()[:2] == [0.0, 1.0]
        assert np.isnan(found[2])
        assert beta_quantile(3, 4, [0.0, 1.0], upper=True).tolist() == [1.0, 0.0]

    def test_where_scipy_is_wrong(self):
        """As long as this fails nowhere, the polish has something to do."""
        wrong = special.betainc(
            999_999_002, 1000, special.betaincinv(999_999_002, 1000, 0.5)
        )
        assert abs(wrong - 0.5) > 0.4
        right = beta_quantile(999_999_002, 1000, 0.5)
        assert special.betainc(999_999_002, 1000, right) == pytest.approx(0.5, abs=1e-7)


class TestBinomial:
    @given(st.integers(0, 40), st.integers(0, 40), st.integers(1, 99))
    @example(7, 7, 50)
    @example(0, 0, 50)
    def test_is_that_of_whole_numbers(self, k, n, per_cent):
        chance = Fraction(per_cent, 100)
        exact = sum(
            comb(n, i) * chance**i * (1 - chance) ** (n - i)
            for i in range(min(k, n) + 1)
        )
        found = float(binomial_cdf(k, n, float(chance)))
        assert found == pytest.approx(float(exact), rel=1e-12)

    @pytest.mark.parametrize("n", [10**7, 2**31 - 1, 2**31 + 5, 4 * 10**9])
    def test_keeps_its_digits_at_any_size(self, n):
        sd = (n * 0.1 * 0.9) ** 0.5
        for distance in (-7.0, -2.0, 0.0, 2.0):
            k = round(n / 10 + distance * sd)
            found = float(binomial_cdf(k, n, 0.1))
            assert found == pytest.approx(float(at_most(k, n, 0.1)), rel=1e-12)


class TestLargeFederations:
    @pytest.mark.parametrize("rank", [999_999_001, 999_999_002, 999_999_003])
    def test_the_mean_of_a_site_of_a_billion(self, rank):
        n = 10**9 + 1
        law = fc.CoverageLaw(1, n, rank, 1)
        assert law.mean() == pytest.approx(rank / (n + 1), abs=1e-12)
        variance = rank * (n + 1 - rank) / (n + 1) ** 2 / (n + 2)
        assert law.std() == pytest.approx(variance**0.5, rel=1e-6)
        assert law.cdf(law.ppf(0.3)) == pytest.approx(0.3, abs=1e-6)

    def test_a_server_rank_of_a_thousand(self):
        """The coverage of many sites of one score each is Beta(k, m - k + 1) too."""
        law = fc.CoverageLaw(10**8, 1, 1, 10**8 - 999)
        assert law.mean() == pytest.approx((10**8 - 999) / (10**8 + 1), abs=1e-12)

    @pytest.mark.parametrize("n", [3 * 10**7, 2**31 + 10**6])
    def test_the_tail_of_losses(self, n):
        """Bentkus' bound is e times a tail of the binomial, where that is smaller."""
        total = n // 10 - round(2.5 * (n * 0.09) ** 0.5)
        bentkus = float(arb(1).exp() * at_most(total, n, 0.1))
        assert bound_tail(n, total, 0.1) == pytest.approx(min(bentkus, 1), rel=1e-10)

    def test_answers_of_more_than_two_to_the_31(self):
        """Three billion answers of which 9.99 per cent are wrong: far below 10 %."""
        n = 3 * 10**9
        few, many = n // 1000 * 999 // 10000 * 1000, n // 10
        risk, delta = Fraction(1, 10), Fraction(1, 20)
        assert float(at_most(few, n, 0.1)) < 0.05 < float(at_most(many, n, 0.1))
        assert first_answered([n], [few], risk, delta, 1) == 0
        assert first_answered([n], [many], risk, delta, 1) is None

    def test_votes_of_a_sum_of_ten_million(self):
        n, level, delta = 10**7, Fraction(9, 10), Fraction(1, 10)
        votes = solve_sum(n, 1, level, delta)
        risks = [bound_tail(n, n - found, 0.1) for found in (votes - 1, votes)]
        exact = [
            float(arb(1).exp() * at_most(n - found, n, 0.1))
            for found in (votes - 1, votes)
        ]
        assert risks[1] <= 0.1 < risks[0]
        assert risks == pytest.approx(exact, rel=1e-9) or max(risks) < max(exact)
