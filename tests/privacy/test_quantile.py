import math
import sys
from collections import Counter
from fractions import Fraction
from itertools import permutations, product

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedconformal._extras import MissingExtraError
from fedconformal.privacy import Balanced, Slopes
from fedconformal.privacy.analyses import Paper, Tight
from fedconformal.privacy.mechanisms import Exponential, PermuteAndFlip, _opendp
from privacy.histograms import all_counts, counts_alarm, neighbours, pmf, prepare, rank_errors, scale, tail

HALF, NINE = Balanced(Fraction(1, 2)), Balanced(Fraction(9, 10))
QUANTILES = [Fraction(1, 2), Fraction(3, 5), Fraction(9, 10), Fraction(19, 20), Fraction(97, 100)]
BALANCED = [Balanced(quantile) for quantile in QUANTILES]
SLOPES = [
    Slopes(quantile, slope)
    for quantile in (Fraction(1, 9), Fraction(1, 2), Fraction(9, 10), Fraction(19, 20))
    for slope in (Fraction(1, 2), Fraction(2, 3), Fraction(3, 4), Fraction(1, 5), Fraction(7, 10))
]
STEEP = Slopes(Fraction(9, 10), Fraction(7, 10))
AIMS = BALANCED + SLOPES
TERMS = [*product(AIMS, [Tight()]), *product(BALANCED, [Paper()])]
MECHANISMS = (PermuteAndFlip(), Exponential())
ANALYSES = (Tight(), Paper())
each_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)


def draw(counts, aim, **terms):
    return prepare(counts, aim, **terms)()


def largest_loss(table, aim, **terms):
    log_p = np.log(pmf(table, aim, **terms))
    first, second = np.array(list(neighbours(table))).T
    return float(np.max(log_p[first] - log_p[second]))


def exact_weights(counts, aim, noise):
    s = [int(x) for x in rank_errors(counts, aim)]
    return [mpmath.exp(-mpmath.mpf(x - min(s)) / mpmath.mpf(noise)) for x in s]


def permute_and_flip_by_definition(w):
    """Every order of the bins; the first that says yes, with probability w, is released."""
    result = [mpmath.mpf(0)] * len(w)
    for order in permutations(range(len(w))):
        reached = mpmath.mpf(1) / math.factorial(len(w))
        for i in order:
            result[i] += reached * w[i]
            reached *= 1 - w[i]
    return result


def permute_and_flip_by_polynomial(w, i):
    """w_i times the integral of the product over the others, from its coefficients in high precision."""
    coefficients = [mpmath.mpf(1)]
    for j, x in enumerate(w):
        if j != i:
            shifted = [mpmath.mpf(0), *coefficients]
            coefficients = [c - x * s for c, s in zip([*coefficients, mpmath.mpf(0)], shifted, strict=True)]
    return w[i] * sum(c / (k + 1) for k, c in enumerate(coefficients))


class TestRankErrors:
    @given(st.lists(st.integers(0, 30), min_size=2, max_size=9).filter(any), st.sampled_from(QUANTILES))
    def test_the_papers_are_their_definition(self, counts, quantile):
        a, d = quantile.as_integer_ratio()
        expected = [max(sum(counts[:b]) * (d - a), sum(counts[b + 1 :]) * a) for b in range(len(counts))]
        result = rank_errors(counts, Balanced(quantile))
        assert result.dtype == np.int64
        assert result.tolist() == expected

    @given(
        st.lists(st.integers(0, 30), min_size=2, max_size=9).filter(any),
        st.fractions(Fraction(1, 50), Fraction(49, 50), max_denominator=50),
        st.integers(1, 9),
        st.integers(1, 9),
    )
    def test_free_slopes_are_their_definition(self, counts, quantile, u, v):
        t, common = math.ceil(quantile * sum(counts)), math.gcd(u, v)
        expected = [
            max(u * (sum(counts[:b]) - t + 1), v * (t - sum(counts[: b + 1])), 0) // common
            for b in range(len(counts))
        ]
        aim = Slopes(quantile, Fraction(v, u + v))
        result = rank_errors(counts, aim)
        assert result.dtype == np.int64
        assert result.tolist() == expected
        assert aim.rank(sum(counts)) == t
        (zero,) = np.flatnonzero(result == 0)
        assert sum(counts[:zero]) < t <= sum(counts[: zero + 1])

    def test_rows_may_differ_in_size(self):
        table = np.array([[3, 0, 4], [30, 20, 1], [0, 0, 1]])
        for aim in AIMS:
            assert rank_errors(table, aim).tolist() == [rank_errors(row, aim).tolist() for row in table]

    def test_large_numbers_are_exact_or_refused(self):
        close_to_one = [Balanced(1 - Fraction(1, 10**digits)) for digits in (9, 10)]
        assert rank_errors([10**9, 10**9], close_to_one[0]).tolist() == [10**9 * (10**9 - 1), 10**9]
        with pytest.raises(ValueError, match=r"n \* d must be at most 9223372036854775807 .*n=2000000000"):
            rank_errors([10**9, 10**9], close_to_one[1])
        steep = Slopes(Fraction(1, 2), 1 - Fraction(1, 10**10))
        with pytest.raises(ValueError, match=r"n \* d must be at most .*n=2000000000, d=10000000000"):
            rank_errors([10**9, 10**9], steep)
        with pytest.raises(ValueError, match="counts must add up in 64 bits"):
            rank_errors(np.array([2**63, 2**63], np.uint64), HALF)

    @pytest.mark.parametrize(
        ("counts", "error", "words"),
        [
            ([3], ValueError, r"at least two bins, got shape \(1,\)"),
            (np.zeros((0, 3), int), ValueError, "at least two bins"),
            ([3, -1], ValueError, "counts must be >= 0, got -1"),
            ([0, 0], ValueError, "at least one score, got 0"),
            ([[1, 0], [0, 0]], ValueError, "at least one score, got 0"),
            ([1.0, 2.0], TypeError, "counts must be whole numbers >= 0, got an array of float64"),
        ],
    )
    def test_what_is_not_a_histogram_is_refused(self, counts, error, words):
        with pytest.raises(error, match=words):
            rank_errors(counts, NINE)


class TestScale:
    def test_formulas(self):
        assert scale(NINE, epsilon=1.0, analysis=Tight()) == 10.0
        assert scale(NINE, epsilon=1.0, analysis=Paper()) == 18.0
        assert [scale(HALF, epsilon=0.5, analysis=analysis) for analysis in ANALYSES] == [4.0, 4.0]
        assert scale(NINE, epsilon=0.1, analysis=Tight()) == 100.0
        assert scale(Slopes(Fraction(1, 3), Fraction(3, 4)), epsilon=0.5, analysis=Tight()) == 8.0

    @given(st.integers(2, 2**53), st.floats(1e-6, 100), st.sampled_from(ANALYSES), st.data())
    def test_is_rounded_up_by_at_most_one_unit(self, d, epsilon, analysis, data):
        quantile = Fraction(data.draw(st.integers(-(-d // 2), d - 1)), d)
        width = quantile.denominator if analysis == Tight() else 2 * quantile.numerator
        noise = scale(Balanced(quantile), epsilon=epsilon, analysis=analysis)
        allowed = min(Fraction(epsilon), Fraction(str(epsilon)))
        assert width / Fraction(noise) <= allowed
        assert width / Fraction(math.nextafter(noise, 0)) > allowed

    @pytest.mark.parametrize(
        ("epsilon", "error"),
        [(0, ValueError), (math.nan, ValueError), (100.5, ValueError), ("1", TypeError), (True, TypeError)],
    )
    def test_epsilon_is_above_zero_and_at_most_a_hundred(self, epsilon, error):
        terms = {"epsilon": epsilon, "analysis": Tight(), "mechanism": Exponential()}
        for use in (
            lambda: scale(NINE, epsilon=epsilon, analysis=Tight()),
            lambda: pmf([1, 2], NINE, **terms),
            lambda: draw([1, 2], NINE, **terms),
            lambda: tail(5, NINE, 3, **terms),
        ):
            with pytest.raises(error, match=r"epsilon must be a number in \(0, 100\]"):
                use()

    def test_epsilon_too_small_for_a_float64_scale_is_refused(self):
        with pytest.raises(ValueError, match=r"epsilon must be at least 5\.56e-308 here, got 1e-308"):
            scale(NINE, epsilon=1e-308, analysis=Tight())

    @pytest.mark.parametrize("quantile", [Fraction(2, 5), Fraction(1, 3)])
    def test_the_papers_quantile_is_at_least_a_half(self, quantile):
        with pytest.raises(ValueError, match=rf"quantile must be in \[1/2, 1\) .*, got {quantile}"):
            Balanced(quantile)
        assert Slopes(quantile, quantile).quantile == quantile

    @pytest.mark.parametrize("share", [Fraction(0), Fraction(1), Fraction(11, 10), Fraction(-1, 3)])
    def test_shares_lie_between_zero_and_one(self, share):
        for name, use in (
            ("quantile", lambda: Balanced(share)),
            ("quantile", lambda: Slopes(share, Fraction(1, 2))),
            ("slope", lambda: Slopes(Fraction(1, 2), share)),
        ):
            with pytest.raises(ValueError, match=rf"{name} must be in \(0, 1\), got {share}"):
                use()

    def test_shares_are_exact_fractions(self):
        for wrong in (0.9, "9/10", 1, None):
            with pytest.raises(TypeError, match=r"quantile must be a Fraction in \(0, 1\), got"):
                Balanced(wrong)
            with pytest.raises(TypeError, match=r"slope must be a Fraction in \(0, 1\), got"):
                Slopes(Fraction(1, 2), wrong)
        for d in (2**53, 2**53 + 1):
            large = Fraction(d - 1, d)
            if d == 2**53:
                assert scale(Balanced(large), epsilon=1.0, analysis=Tight()) == 2.0**53
            else:
                with pytest.raises(ValueError, match=r"denominator of quantile must be at most 2\^53, got"):
                    Balanced(large)


class TestPmf:
    @pytest.mark.parametrize("aim", [*BALANCED, *SLOPES[:8]], ids=str)
    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
    def test_exponential_mechanism_in_high_precision(self, aim, epsilon):
        counts = np.random.default_rng(5).integers(0, 6, 30)
        p = pmf(counts, aim, epsilon=epsilon, analysis=Tight(), mechanism=Exponential())
        with mpmath.workdps(60):
            w = exact_weights(counts, aim, scale(aim, epsilon=epsilon, analysis=Tight()))
            exact = [float(x / sum(w)) for x in w]
        assert p == pytest.approx(exact, rel=5e-14)

    @pytest.mark.slow
    @pytest.mark.parametrize("B", [2, 4, pytest.param(6, marks=pytest.mark.nightly)])
    @pytest.mark.parametrize("epsilon", [0.01, 20.0])
    def test_permute_and_flip_is_its_definition(self, B, epsilon):
        rng = np.random.default_rng(B)
        for aim in AIMS:
            counts = rng.integers(0, 5, B) + np.eye(B, dtype=int)[0]
            p = pmf(counts, aim, epsilon=epsilon, analysis=Tight(), mechanism=PermuteAndFlip())
            with mpmath.workdps(60):
                w = exact_weights(counts, aim, scale(aim, epsilon=epsilon, analysis=Tight()))
                exact = [float(x) for x in permute_and_flip_by_definition(w)]
            assert p == pytest.approx(exact, rel=1e-13, abs=1e-300)

    @pytest.mark.slow
    @pytest.mark.parametrize("epsilon", [1e-4, 0.5, 100.0])
    def test_permute_and_flip_with_many_bins(self, epsilon):
        counts = np.random.default_rng(1).integers(0, 3, 150)
        p = pmf(counts, NINE, epsilon=epsilon, analysis=Tight(), mechanism=PermuteAndFlip())
        with mpmath.workdps(150):
            w = exact_weights(counts, NINE, scale(NINE, epsilon=epsilon, analysis=Tight()))
            exact = [float(permute_and_flip_by_polynomial(w, i)) for i in (0, 75, 130, 137, 149)]
        assert p[[0, 75, 130, 137, 149]] == pytest.approx(exact, rel=1e-13, abs=1e-300)

    @pytest.mark.parametrize("B", [2, 1000])
    def test_ties_share_alike(self, B):
        """One score, and so little budget that all bins are all but equal."""
        counts = np.zeros(B, int)
        counts[-1] = 1
        for mechanism in MECHANISMS:
            p = pmf(counts, HALF, epsilon=1e-15, analysis=Tight(), mechanism=mechanism)
            assert p == pytest.approx([1 / B] * B, rel=1e-12)

    @given(
        st.lists(st.integers(0, 1000), min_size=2, max_size=50).filter(any),
        st.sampled_from(TERMS),
        st.floats(1e-3, 100),
        st.sampled_from(MECHANISMS),
    )
    def test_adds_up_to_one_and_prefers_small_errors(self, counts, aim_and_analysis, epsilon, mechanism):
        aim, analysis = aim_and_analysis
        p = pmf(counts, aim, epsilon=epsilon, analysis=analysis, mechanism=mechanism)
        assert p.sum() == pytest.approx(1.0, abs=1e-13)
        order = np.argsort(rank_errors(counts, aim), kind="stable")
        assert np.all(np.diff(p[order]) <= 1e-15)

    def test_huge_errors_do_not_overflow(self):
        for mechanism in MECHANISMS:
            aim = Balanced(1 - Fraction(1, 2**20))
            p = pmf([2**40, 2**40], aim, epsilon=100, analysis=Tight(), mechanism=mechanism)
            assert p == pytest.approx([0.0, 1.0], abs=1e-15)

    def test_rows_are_sites(self):
        table = all_counts(4, 3)
        for mechanism in MECHANISMS:
            terms = {"epsilon": 2.0, "analysis": Paper(), "mechanism": mechanism}
            rows = [pmf(counts, NINE, **terms) for counts in table]
            assert pmf(table, NINE, **terms) == pytest.approx(np.array(rows), rel=1e-14)

    def test_permute_and_flip_has_a_smaller_expected_error(self):
        table = all_counts(7, 4)
        flip, power = (
            pmf(table, NINE, epsilon=2.0, analysis=Tight(), mechanism=mechanism) for mechanism in MECHANISMS
        )
        s = rank_errors(table, NINE)
        assert np.all((flip * s).sum(axis=1) <= (power * s).sum(axis=1) + 1e-12)


class TestPrivacy:
    @pytest.mark.slow
    @each_mechanism
    @pytest.mark.parametrize("B", [2, 3, 4, pytest.param(5, marks=pytest.mark.nightly)])
    def test_no_neighbours_are_told_apart_by_more_than_epsilon(self, mechanism, B):
        for n in range(1, 9):
            table = all_counts(n, B)
            for aim, epsilon in product(AIMS, (0.1, 1.0, 5.0)):
                loss = largest_loss(table, aim, epsilon=epsilon, analysis=Tight(), mechanism=mechanism)
                assert loss <= epsilon + 1e-12
            for aim, epsilon in product(BALANCED, (0.1, 1.0, 5.0)):
                a, d = aim.quantile.as_integer_ratio()
                loss = largest_loss(table, aim, epsilon=epsilon, analysis=Paper(), mechanism=mechanism)
                assert loss <= epsilon * d / (2 * max(a, d - a)) + 1e-12

    @each_mechanism
    @pytest.mark.parametrize("slope", [Fraction(1, 2), Fraction(2, 3), Fraction(7, 10), Fraction(9, 10)])
    def test_free_slopes_use_up_epsilon(self, mechanism, slope):
        """Two neighbours that use up the bound, so that no smaller scale would do.

        A score goes from the first bin to the last: the error of the first rises by v, and those of two
        thousand empty bins above the sixth score, which is aimed at, fall by u.
        """
        pair = np.zeros((2, 2003), int)
        pair[:, [0, 1, -1]] = [[5, 2, 3], [4, 2, 4]]
        p = pmf(pair, Slopes(Fraction(11, 20), slope), epsilon=1.0, analysis=Tight(), mechanism=mechanism)
        assert 0.98 < np.log(p[0, 0] / p[1, 0]) <= 1

    @each_mechanism
    def test_the_tight_scale_cannot_be_smaller_and_the_papers_can(self, mechanism):
        """Two neighbours that use up the bound: d/scale, which is epsilon or epsilon / 1.8."""
        pair = np.array([[300, 100, 0], [299, 100, 1]])
        for analysis, spent in ((Tight(), 1.0), (Paper(), 1 / 1.8)):
            p = pmf(pair, NINE, epsilon=1.0, analysis=analysis, mechanism=mechanism)
            loss = abs(math.log(p[0, 0] / p[1, 0]))
            assert 0.999 * spent < loss <= spent


class TestRelease:
    @pytest.mark.slow
    @each_mechanism
    def test_draws_follow_the_pmf(self, mechanism):
        """4,500 draws of each mechanism; a right program fails with probability 1e-7.

        What is prepared once and drawn from many times is what one release is prepared and drawn from. So
        many draws show a wrong probability of 10 in 100.
        """
        cases = [
            ([1, 6, 2, 3], NINE, 2.0, Tight(), 1500),
            ([1, 6, 0, 3], STEEP, 2.0, Tight(), 1500),
            ([4, 0, 1, 2, 9], HALF, 0.7, Paper(), 1500),
        ]
        for counts, aim, epsilon, analysis, draws in cases:
            terms = {"epsilon": epsilon, "analysis": analysis, "mechanism": mechanism}
            draw = prepare(counts, aim, **terms)
            seen = Counter(draw() for _ in range(draws))
            observed = np.array([seen[b] for b in range(len(counts))])
            assert observed.sum() == draws
            assert not counts_alarm(observed, pmf(counts, aim, **terms))

    @pytest.mark.slow
    @each_mechanism
    def test_large_errors_are_drawn_as_exactly(self, mechanism):
        counts, aim = [3 * 10**9, 1285717286], Balanced(Fraction(700_000_001, 10**9))
        terms = {"epsilon": 1e-7, "analysis": Tight(), "mechanism": mechanism}
        p = pmf(counts, aim, **terms)
        assert 0.05 < p[0] < 0.95
        seen = Counter(draw(counts, aim, **terms) for _ in range(3000))
        assert not counts_alarm(np.array([seen[0], seen[1]]), p)

    def test_extreme_budgets(self):
        for mechanism in MECHANISMS:
            terms = {"analysis": Tight(), "mechanism": mechanism}
            assert draw([10, 90, 0], NINE, epsilon=100, **terms) == 1
            assert draw([10, 90, 0], NINE, epsilon=1e-300, **terms) in (0, 1, 2)

    @given(st.integers(2, 10**6), st.floats(1e-3, 100), st.sampled_from(ANALYSES), st.data())
    def test_opendp_always_confirms_our_scale(self, d, epsilon, analysis, data):
        quantile = Fraction(data.draw(st.integers(-(-d // 2), d - 1)), d)
        noise = scale(Balanced(quantile), epsilon=epsilon, analysis=analysis)
        for mechanism in MECHANISMS:
            assert callable(mechanism.measurement(noise, quantile.denominator, epsilon))

    @each_mechanism
    def test_an_analysis_with_too_little_noise_is_refused(self, mechanism):
        class Careless(Tight):
            def width(self, aim):
                return aim.change - 1

        for aim in (NINE, STEEP):
            with pytest.raises(RuntimeError, match=r"above epsilon=1.0: nothing was released"):
                draw([1, 2], aim, epsilon=1.0, analysis=Careless(), mechanism=mechanism)

    @each_mechanism
    def test_without_opendp_the_extra_is_named(self, mechanism, monkeypatch):
        for cached in (_opendp.exponential_noise, _opendp.gumbel_noise):
            cached.cache_clear()
        for name in [name for name in sys.modules if name.partition(".")[0] == "opendp"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "opendp", None)
        with pytest.raises(MissingExtraError, match=r"fedconformal\[private\]"):
            draw([1, 2], NINE, epsilon=1.0, analysis=Tight(), mechanism=mechanism)


class TestTail:
    def exact(self, table, aim, **terms):
        """P(R < r) for r = 0..n+1, for every row."""
        p, ranks, n = pmf(table, aim, **terms), np.cumsum(table, axis=1), int(table[0].sum())
        return np.stack([(p * (ranks < r)).sum(axis=1) for r in range(n + 2)], axis=1)

    @pytest.mark.slow
    @each_mechanism
    def test_holds_for_every_data_set(self, mechanism):
        for n, B in product(range(1, 7), (2, 3, 4)):
            table = all_counts(n, B)
            for (aim, analysis), epsilon in product(TERMS, (0.3, 1.0, 4.0, 30.0)):
                terms = {"epsilon": epsilon, "analysis": analysis, "mechanism": mechanism}
                assert np.all(self.exact(table, aim, **terms) <= tail(n, aim, B, **terms) + 1e-14)

    @each_mechanism
    @given(n=st.integers(1, 300), B=st.integers(2, 40), epsilon=st.floats(0.01, 20), data=st.data())
    def test_holds_for_larger_data_sets(self, mechanism, n, B, epsilon, data):
        aim, analysis = data.draw(st.sampled_from(TERMS))
        rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
        masses = rng.dirichlet(np.full(B, rng.choice([0.05, 0.3, 1.0, 10.0])), size=5)
        table = np.array([rng.multinomial(n, mass) for mass in masses])
        terms = {"epsilon": epsilon, "analysis": analysis, "mechanism": mechanism}
        assert np.all(self.exact(table, aim, **terms) <= tail(n, aim, B, **terms) + 1e-13)

    def test_is_the_formula_of_the_proof(self):
        n, B, epsilon = 40, 7, 1.5
        a, d = NINE.quantile.as_integer_ratio()
        power, flip = (
            tail(n, NINE, B, epsilon=epsilon, analysis=Tight(), mechanism=mechanism)
            for mechanism in (Exponential(), PermuteAndFlip())
        )
        for r in range(1, n + 1):
            good = min(max((s - 1) * (d - a), (n - s) * a) for s in range(r, n + 1))
            with mpmath.workdps(60):
                x = mpmath.exp(-mpmath.mpf(a * (n - r + 1) - good) * epsilon / d)
                odds = (B - 1) * x
                lost = 1 - (1 - (1 - x) ** B) / (B * x) if x <= 1 else 1 - 1 / (B * x)
                bounds = float(odds / (1 + odds)), float(lost)
            assert (power[r], flip[r]) == pytest.approx(bounds, rel=1e-6)
            assert (power[r] >= bounds[0], flip[r] >= bounds[1]) == (True, True)

    @each_mechanism
    def test_free_slopes_attain_it_up_to_the_target(self, mechanism):
        """r - 1 scores in the first bin and the others in the last, for every r up to the target."""
        n, B = 40, 7
        for aim, epsilon in product(SLOPES, (0.3, 1.0, 4.0)):
            terms = {"epsilon": epsilon, "analysis": Tight(), "mechanism": mechanism}
            bound = tail(n, aim, B, **terms)
            for r in range(1, aim.rank(n) + 1):
                counts = np.eye(B, dtype=int)[0] * (r - 1) + np.eye(B, dtype=int)[-1] * (n - r + 1)
                assert pmf(counts, aim, **terms)[:-1].sum() == pytest.approx(bound[r], rel=1e-6)

    @each_mechanism
    @pytest.mark.parametrize("n", [1, 10**6])
    @pytest.mark.parametrize("epsilon", [1e-9, 100.0])
    def test_rises_from_zero_to_one(self, mechanism, n, epsilon):
        for aim in (BALANCED[-1], STEEP):
            bound = tail(n, aim, 1000, epsilon=epsilon, analysis=Tight(), mechanism=mechanism)
            assert bound.shape == (n + 2,)
            assert (bound[0], bound[-1]) == (0.0, 1.0)
            assert np.all(np.diff(bound) >= 0)
            assert np.all(bound[1:] > 0)

    def test_bad_input(self):
        terms = {"epsilon": 1.0, "analysis": Tight(), "mechanism": Exponential()}
        with pytest.raises(ValueError, match="n_bins must be >= 2, got 1"):
            tail(5, NINE, 1, **terms)
        with pytest.raises(ValueError, match="n must be >= 1, got 0"):
            tail(0, NINE, 3, **terms)
        with pytest.raises(ValueError, match=r"n \* d must be at most"):
            tail(2**40, Balanced(Fraction(1, 2) + Fraction(1, 2**30)), 3, **terms)
