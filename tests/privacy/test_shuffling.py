import math
from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise, permutations, product
from math import comb, exp

import numpy as np
import pytest

from fedconformal.privacy import PrivateQuantile, amplified_epsilon
from fedconformal.privacy._shuffling import divergence

NINE = Fraction(9, 10)


def count_laws(m, local):
    """The two joint laws of the numbers of Q and Q', by summing over C, A and D."""
    p, w = exp(-local), {1: exp(local) / (exp(local) + 1), 0: 1 / (exp(local) + 1)}
    laws = Counter(), Counter()
    for c in range(m):
        for a, d in product(range(c + 1), (0, 1)):
            mass = (
                comb(m - 1, c)
                * p**c
                * (1 - p) ** (m - 1 - c)
                * comb(c, a)
                / 2**c
                * w[d]
            )
            laws[0][a + d, c - a + 1 - d] += mass
            laws[1][a + 1 - d, c - a + d] += mass
    return laws


def hockey_stick(first, second, epsilon):
    return sum(
        max(mass - exp(epsilon) * second[key], 0.0) for key, mass in first.items()
    )


def shuffled(rows):
    """The law of the histogram of independent releases."""
    law = Counter({(0,) * len(rows[0]): 1.0})
    for row in rows:
        longer = Counter()
        for (key, mass), (b, p) in product(law.items(), enumerate(row)):
            longer[(*key[:b], key[b] + 1, *key[b + 1 :])] += mass * p
        law = longer
    return law


class TestDivergence:
    @pytest.mark.parametrize("m", [1, 3, 20])
    @pytest.mark.parametrize("local", [0.1, 4.0, 30.0])
    def test_is_the_sum_over_the_joint_law_in_both_directions(self, m, local):
        first, second = count_laws(m, local)
        for share in (0.0, 0.1, 0.5, 0.9, 0.999):
            epsilon = share * local
            exact = hockey_stick(first, second, epsilon)
            assert hockey_stick(second, first, epsilon) == pytest.approx(
                exact, rel=1e-9, abs=1e-15
            )
            bound = divergence(m, local, epsilon, negligible=1e-15)
            assert bound == pytest.approx(exact, rel=1e-6, abs=1e-14)
            assert bound >= exact * (1 - 1e-12)

    def test_what_is_left_out_is_counted_on_the_safe_side(self):
        exact = divergence(500, 1.0, 0.2, negligible=1e-18)
        assert exact <= divergence(500, 1.0, 0.2, negligible=1e-3) <= exact + 2e-3


class TestAmplifiedEpsilon:
    def test_the_value_of_the_proved_bound(self):
        """The clones of 2021 give 0.182; those of 2022, withdrawn for general
        mechanisms, gave 0.149.
        """
        assert amplified_epsilon(1000, 1, 1.0, 1e-6) == pytest.approx(0.18241, abs=1e-5)

    @pytest.mark.parametrize(
        ("m", "epsilon", "delta"),
        [(10, 2.0, 1e-2), (200, 1.0, 1e-4), (5000, 0.5, 1e-8)],
    )
    def test_is_the_smallest_with_that_divergence(self, m, epsilon, delta):
        amplified = amplified_epsilon(m, 1, epsilon, delta)
        assert divergence(m, epsilon, amplified, negligible=1e-16) <= delta
        assert divergence(m, epsilon, amplified * 0.9999, negligible=1e-16) > delta

    @pytest.mark.parametrize("epsilon", [1.0, 100.0])
    def test_falls_with_more_sites_and_never_exceeds_epsilon(self, epsilon):
        values = [amplified_epsilon(m, 1, epsilon, 1e-6) for m in (1, 2, 10, 100, 1000)]
        assert values[0] <= epsilon
        assert all(later <= earlier * (1 + 1e-8) for earlier, later in pairwise(values))

    def test_one_site_hides_among_nobody(self):
        expected = math.log(math.e - 1e-6 * (math.e + 1))
        assert amplified_epsilon(1, 1, 1.0, 1e-6) == pytest.approx(expected, abs=1e-8)
        assert amplified_epsilon(1000, 1, 100.0, 1e-6) == pytest.approx(
            100 - 1e-6, abs=2e-7
        )

    def test_a_generous_delta_needs_no_epsilon(self):
        assert amplified_epsilon(1000, 1, 1.0, 0.5) == 0.0

    @pytest.mark.slow
    @pytest.mark.parametrize("quantile", [Fraction(1, 2), NINE])
    def test_holds_for_shuffled_releases_whatever_the_other_sites_hold(self, quantile):
        epsilon, B = 1.5, 3
        rows = PrivateQuantile(quantile, Fraction(3, 2)).pmf(np.eye(B, dtype=int))
        for m, delta in product((2, 3, 5), (0.01, 0.1)):
            amplified = amplified_epsilon(m, 1, epsilon, delta)
            for others in combinations_with_replacement(range(B), m - 1):
                laws = [shuffled([rows[x], *rows[list(others)]]) for x in range(B)]
                for first, second in permutations(laws, 2):
                    assert hockey_stick(first, second, amplified) <= delta

    def test_a_private_quantile_is_outside_the_class_of_the_sharper_bound(self):
        """The erratum of 2022 asks for R_x >= (R_0 + R_1) / (e^epsilon + 1) in every
        bin.
        """
        rows = PrivateQuantile(NINE, Fraction(18, 10)).pmf(
            np.eye(100, dtype=int)
        )  # a loss of 1
        assert rows[51, 50] < 0.9 * (rows[48, 50] + rows[49, 50]) / (math.e + 1)


class TestMoreRecords:
    def visible_loss(self, quantile, *, n=50, m=1000, delta=1e-6):
        """A loss that shuffling cannot hide: all other sites are in the last bin, site
        1 reports the first.

        The event is that somebody reports the first bin; site 1 moves one record from
        there to the last.
        """
        mechanism = PrivateQuantile(quantile, Fraction(1))

        def happens(counts):
            site, other = mechanism.pmf([counts, [0, 0, n]])[:, 0]
            return 1 - (1 - site) * (1 - other) ** (m - 1)

        pairs = [([k, n - k, 0], [k - 1, n - k, 1]) for k in range(1, n)]
        gains = [(happens(before) - delta, happens(after)) for before, after in pairs]
        return max(math.log(gain / rest) for gain, rest in gains if gain > 0)

    def test_amplification_fails_with_fifty_records(self):
        claimed = amplified_epsilon(1000, 1, 1.0, 1e-6)
        assert self.visible_loss(NINE) >= 0.54 > claimed
        assert self.visible_loss(Fraction(1, 2)) >= 0.998 > claimed

    def test_so_it_is_refused_and_says_why(self):
        with pytest.raises(
            ValueError,
            match=r"n_points must be 1 .* got 50: .* per record, .* stays visible",
        ):
            amplified_epsilon(1000, 50, 1.0, 1e-6)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((0, 1, 1.0, 1e-6), ValueError, "n_sites must be >= 1, got 0"),
        ((10, 0, 1.0, 1e-6), ValueError, "n_points must be >= 1, got 0"),
        (
            (10, 1, 0.0, 1e-6),
            ValueError,
            r"epsilon must be a number in \(0, 100\], got 0.0",
        ),
        ((10, 1, 1.0, 0.0), ValueError, r"delta must be a number in \(0, 1\), got 0.0"),
        (
            (10, 1, 1.0, math.nan),
            ValueError,
            r"delta must be a number in \(0, 1\), got nan",
        ),
    ],
)
def test_bad_input(arguments, error, words):
    with pytest.raises(error, match=words):
        amplified_epsilon(*arguments)
