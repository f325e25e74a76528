import ast
import math
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement, permutations, product
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedconformal._extras import MissingExtraError
from fedconformal.privacy import _mechanism
from fedconformal.privacy._mechanism import CALIBRATIONS, MECHANISMS, badness, pmf, release, scale, tail
from fedconformal.privacy._simulation import simulate_releases
from support import FALSE_ALARM

QUANTILES = [(1, 2), (3, 5), (9, 10), (19, 20), (97, 100)]


def all_counts(n, B):
    """Every way to put n scores into B bins."""
    places = combinations_with_replacement(range(B), n)
    return np.array([np.bincount(place, minlength=B) for place in places])


def neighbours(table):
    """Every pair of rows that differ by one replaced record."""
    row = {tuple(counts): i for i, counts in enumerate(table.tolist())}
    B = table.shape[1]
    for counts, i in row.items():
        for x, y in product(range(B), repeat=2):
            if x != y and counts[x]:
                moved = list(counts)
                moved[x], moved[y] = moved[x] - 1, moved[y] + 1
                yield i, row[tuple(moved)]


def largest_loss(table, a, d, **terms):
    log_p = np.log(pmf(table, a, d, **terms))
    first, second = np.array(list(neighbours(table))).T
    return float(np.max(log_p[first] - log_p[second]))


def exact_weights(counts, a, d, noise):
    s = [int(x) for x in badness(counts, a, d)]
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


def chi_square_alarm(observed, probability):
    """Whether counts disagree with probabilities by more than chance allows; rare bins are pooled."""
    expected = probability * observed.sum()
    order = np.argsort(expected)
    pooled = order[np.cumsum(expected[order]) < 20]
    kept = np.setdiff1d(order, pooled)
    o, e = observed[kept].astype(float), expected[kept]
    if pooled.size:
        o, e = np.append(o, observed[pooled].sum()), np.append(e, expected[pooled].sum())
        if e[-1] < 20:
            o, e = np.append(o[1:-1], o[0] + o[-1]), np.append(e[1:-1], e[0] + e[-1])
    return stats.chi2.sf(np.sum((o - e) ** 2 / e), o.size - 1) < FALSE_ALARM


class TestBadness:
    @given(st.lists(st.integers(0, 30), min_size=2, max_size=9).filter(any), st.sampled_from(QUANTILES))
    def test_is_the_definition(self, counts, quantile):
        a, d = quantile
        expected = [max(sum(counts[:b]) * (d - a), sum(counts[b + 1 :]) * a) for b in range(len(counts))]
        result = badness(counts, a, d)
        assert result.dtype == np.int64
        assert result.tolist() == expected

    def test_rows_are_sites(self):
        table = all_counts(3, 4).reshape(4, 5, 4)
        assert np.array_equal(badness(table, 9, 10)[2, 3], badness(table[2, 3], 9, 10))

    def test_large_numbers_are_exact_or_refused(self):
        assert badness([10**9, 10**9], 10**9 - 1, 10**9).tolist() == [10**9 * (10**9 - 1), 10**9]
        with pytest.raises(ValueError, match=r"n \* d must be at most 9223372036854775807, got n=2000000000"):
            badness([10**9, 10**9], 10**10 - 1, 10**10)
        with pytest.raises(ValueError, match="counts must add up in 64 bits"):
            badness(np.array([2**63, 2**63], np.uint64), 1, 2)

    @pytest.mark.parametrize(
        ("counts", "error", "words"),
        [
            ([3], ValueError, r"at least two bins, got shape \(1,\)"),
            (3, ValueError, r"at least two bins, got shape \(\)"),
            (np.zeros((0, 3), int), ValueError, "at least two bins"),
            ([3, -1], ValueError, "counts must be >= 0, got -1"),
            ([0, 0], ValueError, "at least one score, got 0"),
            ([[1, 0], [0, 0]], ValueError, "at least one score, got 0"),
            ([1.0, 2.0], TypeError, "counts must be whole numbers >= 0, got an array of float64"),
        ],
    )
    def test_what_is_not_a_histogram_is_refused(self, counts, error, words):
        with pytest.raises(error, match=words):
            badness(counts, 9, 10)


class TestScale:
    def test_formulas(self):
        assert scale(9, 10, 1.0, "range") == 10.0
        assert scale(9, 10, 1.0, "paper") == 18.0
        assert scale(1, 2, 0.5, "range") == scale(1, 2, 0.5, "paper") == 4.0
        assert scale(9, 10, 0.1, "range") == 100.0

    @given(st.integers(2, 2**53), st.floats(1e-6, 100), st.sampled_from(CALIBRATIONS), st.data())
    def test_is_rounded_up_by_at_most_one_unit(self, d, epsilon, calibration, data):
        a = data.draw(st.integers(-(-d // 2), d - 1))
        width = d if calibration == "range" else 2 * a
        noise = scale(a, d, epsilon, calibration)
        allowed = min(Fraction(epsilon), Fraction(str(epsilon)))
        assert width / Fraction(noise) <= allowed
        assert width / Fraction(math.nextafter(noise, 0)) > allowed

    @pytest.mark.parametrize(
        ("epsilon", "error"),
        [
            (0, ValueError),
            (-1.0, ValueError),
            (math.inf, ValueError),
            (math.nan, ValueError),
            (100.5, ValueError),
            (1e9, ValueError),
            ("1", TypeError),
            (True, TypeError),
            (None, TypeError),
        ],
    )
    def test_epsilon_is_above_zero_and_at_most_a_hundred(self, epsilon, error):
        terms = {"epsilon": epsilon, "calibration": "range", "mechanism": "exponential"}
        for use in (
            lambda: scale(9, 10, epsilon, "range"),
            lambda: pmf([1, 2], 9, 10, **terms),
            lambda: release([1, 2], 9, 10, **terms),
            lambda: tail(5, 9, 10, 3, **terms),
        ):
            with pytest.raises(error, match=r"epsilon must be a number in \(0, 100\]"):
                use()

    def test_epsilon_too_small_for_a_float64_scale_is_refused(self):
        with pytest.raises(ValueError, match=r"epsilon must be at least 5\.56e-308 here, got 1e-308"):
            scale(9, 10, 1e-308, "range")

    @pytest.mark.parametrize(("a", "d"), [(4, 10), (10, 10), (11, 10), (1, 3)])
    def test_the_quantile_is_at_least_a_half_and_below_one(self, a, d):
        with pytest.raises(ValueError, match=rf"the quantile a/d must be in \[1/2, 1\), got {a}/{d}"):
            scale(a, d, 1.0, "range")

    def test_words_and_whole_numbers(self):
        with pytest.raises(ValueError, match="calibration must be one of 'range', 'paper', got 'tight'"):
            scale(9, 10, 1.0, "tight")
        with pytest.raises(TypeError, match="a must be a whole number"):
            scale(0.9, 10, 1.0, "range")
        with pytest.raises(ValueError, match="d must be between 2 and 9007199254740992, got 1"):
            scale(1, 1, 1.0, "range")
        for use in (pmf, release):
            with pytest.raises(
                ValueError, match="mechanism must be one of 'permute-and-flip', 'exponential'"
            ):
                use([1, 2], 9, 10, epsilon=1.0, calibration="range", mechanism="laplace")


class TestPmf:
    @pytest.mark.parametrize("quantile", QUANTILES)
    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
    def test_exponential_mechanism_in_high_precision(self, quantile, epsilon):
        counts = np.random.default_rng(5).integers(0, 6, 30)
        p = pmf(counts, *quantile, epsilon=epsilon, calibration="range", mechanism="exponential")
        with mpmath.workdps(60):
            w = exact_weights(counts, *quantile, scale(*quantile, epsilon, "range"))
            exact = [float(x / sum(w)) for x in w]
        assert p == pytest.approx(exact, rel=5e-14)

    @pytest.mark.parametrize("B", [2, 3, 4, 5, 6])
    @pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
    def test_permute_and_flip_is_its_definition(self, B, epsilon):
        rng = np.random.default_rng(B)
        for quantile in QUANTILES:
            counts = rng.integers(0, 5, B) + np.eye(B, dtype=int)[0]
            p = pmf(counts, *quantile, epsilon=epsilon, calibration="range", mechanism="permute-and-flip")
            with mpmath.workdps(60):
                w = exact_weights(counts, *quantile, scale(*quantile, epsilon, "range"))
                exact = [float(x) for x in permute_and_flip_by_definition(w)]
            assert p == pytest.approx(exact, rel=1e-13, abs=1e-300)

    @pytest.mark.parametrize("epsilon", [1e-4, 0.02, 0.5, 5.0, 100.0])
    def test_permute_and_flip_with_many_bins(self, epsilon):
        counts = np.random.default_rng(1).integers(0, 3, 150)
        p = pmf(counts, 9, 10, epsilon=epsilon, calibration="range", mechanism="permute-and-flip")
        with mpmath.workdps(150):
            w = exact_weights(counts, 9, 10, scale(9, 10, epsilon, "range"))
            exact = [float(permute_and_flip_by_polynomial(w, i)) for i in (0, 75, 130, 137, 149)]
        assert p[[0, 75, 130, 137, 149]] == pytest.approx(exact, rel=1e-13, abs=1e-300)

    @pytest.mark.parametrize("B", [2, 10, 100, 1000, 10_000])
    def test_ties_share_alike(self, B):
        """One score, and so little budget that all bins are all but equal."""
        counts = np.zeros(B, int)
        counts[-1] = 1
        for mechanism in MECHANISMS:
            p = pmf(counts, 1, 2, epsilon=1e-15, calibration="range", mechanism=mechanism)
            assert p == pytest.approx([1 / B] * B, rel=1e-12)

    @given(
        st.lists(st.integers(0, 1000), min_size=2, max_size=50).filter(any),
        st.sampled_from(QUANTILES),
        st.floats(1e-3, 100),
        st.sampled_from(CALIBRATIONS),
        st.sampled_from(MECHANISMS),
    )
    def test_adds_up_to_one_and_prefers_less_badness(self, counts, quantile, epsilon, calibration, mechanism):
        p = pmf(counts, *quantile, epsilon=epsilon, calibration=calibration, mechanism=mechanism)
        assert p.sum() == pytest.approx(1.0, abs=1e-13)
        order = np.argsort(badness(counts, *quantile), kind="stable")
        assert np.all(np.diff(p[order]) <= 1e-15)

    def test_huge_badness_is_no_overflow(self):
        for mechanism in MECHANISMS:
            p = pmf([2**40, 2**40], 2**20 - 1, 2**20, epsilon=100, calibration="range", mechanism=mechanism)
            assert p == pytest.approx([0.0, 1.0], abs=1e-15)

    def test_rows_are_sites(self):
        table = all_counts(4, 3)
        for mechanism in MECHANISMS:
            terms = {"epsilon": 2.0, "calibration": "paper", "mechanism": mechanism}
            rows = [pmf(counts, 9, 10, **terms) for counts in table]
            assert pmf(table, 9, 10, **terms) == pytest.approx(np.array(rows), rel=1e-14)

    def test_permute_and_flip_has_less_expected_badness(self):
        table = all_counts(7, 4)
        flip, power = (
            pmf(table, 9, 10, epsilon=2.0, calibration="range", mechanism=mechanism)
            for mechanism in MECHANISMS
        )
        s = badness(table, 9, 10)
        assert np.all((flip * s).sum(axis=1) <= (power * s).sum(axis=1) + 1e-12)


class TestPrivacy:
    @pytest.mark.parametrize("mechanism", MECHANISMS)
    @pytest.mark.parametrize("B", [2, 3, 4, 5])
    def test_no_neighbours_are_told_apart_by_more_than_epsilon(self, mechanism, B):
        for n in range(1, 9):
            table = all_counts(n, B)
            for (a, d), epsilon in product(QUANTILES, (0.1, 1.0, 5.0)):
                loss = largest_loss(table, a, d, epsilon=epsilon, calibration="range", mechanism=mechanism)
                assert loss <= epsilon + 1e-12
                loss = largest_loss(table, a, d, epsilon=epsilon, calibration="paper", mechanism=mechanism)
                assert loss <= epsilon * d / (2 * max(a, d - a)) + 1e-12

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_range_calibration_cannot_be_sharpened_and_the_papers_can(self, mechanism):
        """Two neighbours that use up the bound: d/scale, which is epsilon or epsilon / 1.8."""
        pair = np.array([[300, 100, 0], [299, 100, 1]])
        for calibration, spent in (("range", 1.0), ("paper", 1 / 1.8)):
            p = pmf(pair, 9, 10, epsilon=1.0, calibration=calibration, mechanism=mechanism)
            loss = abs(math.log(p[0, 0] / p[1, 0]))
            assert 0.999 * spent < loss <= spent


class TestRelease:
    @pytest.mark.slow
    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_draws_follow_the_pmf(self, mechanism):
        """5 x 10^4 draws of each mechanism; a right program fails with probability 1e-7."""
        cases = [([1, 6, 2, 3], 9, 10, 2.0, "range", 25_000), ([4, 0, 1, 2, 9], 1, 2, 0.7, "paper", 25_000)]
        for counts, a, d, epsilon, calibration, draws in cases:
            terms = {"epsilon": epsilon, "calibration": calibration, "mechanism": mechanism}
            seen = Counter(release(counts, a, d, **terms) for _ in range(draws))
            observed = np.array([seen[b] for b in range(len(counts))])
            assert observed.sum() == draws
            assert not chi_square_alarm(observed, pmf(counts, a, d, **terms))

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_large_badness_is_drawn_as_exactly(self, mechanism):
        counts, a, d = [3 * 10**9, 1295714286], 7 * 10**8, 10**9
        terms = {"epsilon": 1e-7, "calibration": "range", "mechanism": mechanism}
        p = pmf(counts, a, d, **terms)
        assert 0.05 < p[0] < 0.95
        seen = Counter(release(counts, a, d, **terms) for _ in range(3000))
        assert not chi_square_alarm(np.array([seen[0], seen[1]]), p)

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_ten_thousand_bins(self, mechanism):
        counts = np.random.default_rng(0).integers(0, 100, 10_000)
        best = int(np.argmin(badness(counts, 9, 10)))
        drawn = [
            release(counts, 9, 10, epsilon=1.0, calibration="range", mechanism=mechanism) for _ in range(5)
        ]
        assert all(type(b) is int and abs(b - best) < 10 for b in drawn)

    def test_extreme_budgets(self):
        for mechanism in MECHANISMS:
            terms = {"calibration": "range", "mechanism": mechanism}
            assert release([10, 90, 0], 9, 10, epsilon=100, **terms) == 1
            assert release([10, 90, 0], 9, 10, epsilon=1e-300, **terms) in (0, 1, 2)

    def test_opendp_must_confirm_the_loss(self):
        for mechanism in MECHANISMS:
            with pytest.raises(RuntimeError, match=r"above epsilon=1.0: nothing was released"):
                _mechanism._measurement(mechanism, math.nextafter(10.0, 0), 10, 1.0)

    @given(st.integers(2, 10**6), st.floats(1e-3, 100), st.sampled_from(CALIBRATIONS), st.data())
    def test_opendp_always_confirms_our_scale(self, d, epsilon, calibration, data):
        a = data.draw(st.integers(-(-d // 2), d - 1))
        _mechanism._measurement("exponential", scale(a, d, epsilon, calibration), d, epsilon)

    def test_one_site_at_a_time(self):
        with pytest.raises(ValueError, match=r"a flat array, got shape \(2, 2\)"):
            release([[1, 2], [3, 4]], 9, 10, epsilon=1.0, calibration="range", mechanism="exponential")

    def test_without_opendp_the_extra_is_named(self, monkeypatch):
        _mechanism._measurement.cache_clear()
        for name in [name for name in sys.modules if name.partition(".")[0] == "opendp"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "opendp", None)
        with pytest.raises(MissingExtraError, match=r"fedconformal\[private\]"):
            release([1, 2], 9, 10, epsilon=1.0, calibration="range", mechanism="exponential")

    def test_nothing_in_the_release_path_can_be_seeded(self):
        tree = ast.parse(Path(_mechanism.__file__).read_text(encoding="utf-8"))
        names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        names |= {
            alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
        }
        assert not names & {"random", "seed", "default_rng"}


class TestTail:
    def exact(self, table, a, d, **terms):
        """P(R < r) for r = 0..n+1, for every row."""
        p, ranks, n = pmf(table, a, d, **terms), np.cumsum(table, axis=1), int(table[0].sum())
        return np.stack([(p * (ranks < r)).sum(axis=1) for r in range(n + 2)], axis=1)

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_holds_for_every_data_set(self, mechanism):
        for n, B in product(range(1, 7), (2, 3, 4)):
            table = all_counts(n, B)
            for (a, d), epsilon, calibration in product(QUANTILES, (0.3, 1.0, 4.0, 30.0), CALIBRATIONS):
                terms = {"epsilon": epsilon, "calibration": calibration, "mechanism": mechanism}
                assert np.all(self.exact(table, a, d, **terms) <= tail(n, a, d, B, **terms) + 1e-14)

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    @given(n=st.integers(1, 300), B=st.integers(2, 40), epsilon=st.floats(0.01, 20), data=st.data())
    def test_holds_for_larger_data_sets(self, mechanism, n, B, epsilon, data):
        a, d = data.draw(st.sampled_from(QUANTILES))
        calibration = data.draw(st.sampled_from(CALIBRATIONS))
        rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
        masses = rng.dirichlet(np.full(B, rng.choice([0.05, 0.3, 1.0, 10.0])), size=5)
        table = np.array([rng.multinomial(n, mass) for mass in masses])
        terms = {"epsilon": epsilon, "calibration": calibration, "mechanism": mechanism}
        assert np.all(self.exact(table, a, d, **terms) <= tail(n, a, d, B, **terms) + 1e-13)

    def test_is_the_formula_of_the_proof(self):
        n, a, d, B, epsilon = 40, 9, 10, 7, 1.5
        power, flip = (
            tail(n, a, d, B, epsilon=epsilon, calibration="range", mechanism=mechanism)
            for mechanism in ("exponential", "permute-and-flip")
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

    def test_permute_and_flip_is_about_twice_as_safe(self):
        power, flip = (
            tail(200, 9, 10, 100, epsilon=1.0, calibration="range", mechanism=mechanism)
            for mechanism in ("exponential", "permute-and-flip")
        )
        assert flip[1:150] / power[1:150] == pytest.approx([0.5] * 149, rel=1e-6)
        assert np.all(flip[:180] <= power[:180])

    def test_permute_and_flip_does_not_obey_the_exponential_mechanisms_bound_at_high_ranks(self):
        """Two bins, ranks above the quantile: its good bin has to be asked first, and to say yes."""
        counts, a, d, terms = [39, 1], 1, 2, {"epsilon": 1.0, "calibration": "range"}
        p = pmf(counts, a, d, mechanism="permute-and-flip", **terms)
        assert p[0] > tail(40, a, d, 2, mechanism="exponential", **terms)[40]
        assert p[0] == pytest.approx(tail(40, a, d, 2, mechanism="permute-and-flip", **terms)[40], rel=1e-11)

    def test_bound_of_the_theory_below_the_quantile(self):
        n, a, d, B, epsilon = 300, 9, 10, 50, 0.7
        bound = tail(n, a, d, B, epsilon=epsilon, calibration="range", mechanism="exponential")
        r = np.arange(1, 271)
        x = (B - 1) * np.exp(-epsilon * 0.9 * (270 - r + 1))
        assert np.all(bound[r] <= x / (1 + x) * (1 + 1e-9))

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    @pytest.mark.parametrize("n", [1, 2, 50, 10**6])
    @pytest.mark.parametrize("epsilon", [1e-9, 1.0, 100.0])
    def test_rises_from_zero_to_one(self, mechanism, n, epsilon):
        bound = tail(n, 97, 100, 1000, epsilon=epsilon, calibration="range", mechanism=mechanism)
        assert bound.shape == (n + 2,)
        assert (bound[0], bound[-1]) == (0.0, 1.0)
        assert np.all(np.diff(bound) >= 0)
        assert np.all(bound[1:] > 0)

    def test_bad_input(self):
        terms = {"epsilon": 1.0, "calibration": "range", "mechanism": "exponential"}
        with pytest.raises(ValueError, match="B must be >= 2, got 1"):
            tail(5, 9, 10, 1, **terms)
        with pytest.raises(ValueError, match="n must be >= 1, got 0"):
            tail(0, 9, 10, 3, **terms)
        with pytest.raises(ValueError, match=r"n \* d must be at most"):
            tail(2**40, 2**29, 2**30, 3, **terms)
        with pytest.raises(ValueError, match="mechanism must be one of"):
            tail(5, 9, 10, 3, **{**terms, "mechanism": "laplace"})


class TestSimulation:
    @pytest.mark.parametrize("mechanism", MECHANISMS)
    @pytest.mark.parametrize("calibration", CALIBRATIONS)
    def test_draws_follow_the_pmf(self, mechanism, calibration):
        """10^5 draws for each of three sites; a right program fails with probability 1e-7 for each."""
        table = np.array([[1, 6, 2, 3, 0, 4], [0, 0, 0, 0, 0, 9], [5, 5, 5, 5, 5, 5]])
        terms = {"epsilon": 1.3, "calibration": calibration, "mechanism": mechanism}
        rng = np.random.default_rng(0)
        drawn = simulate_releases(np.broadcast_to(table, (100_000, 3, 6)), 9, 10, **terms, rng=rng)
        assert drawn.shape == (100_000, 3)
        for site, p in enumerate(pmf(table, 9, 10, **terms)):
            assert not chi_square_alarm(np.bincount(drawn[:, site], minlength=6), p)

    def test_the_same_seed_gives_the_same_draws(self):
        table, terms = (
            np.full((50, 4), 3),
            {"epsilon": 1.0, "calibration": "range", "mechanism": "exponential"},
        )
        first, second = (
            simulate_releases(table, 9, 10, **terms, rng=np.random.default_rng(7)) for _ in range(2)
        )
        assert first.tolist() == second.tolist()

    def test_bad_input(self):
        terms = {"epsilon": 1.0, "calibration": "range"}
        with pytest.raises(TypeError, match=r"rng must be a numpy.random.Generator, got 7"):
            simulate_releases([1, 2], 9, 10, **terms, mechanism="exponential", rng=7)
        with pytest.raises(ValueError, match="mechanism must be one of"):
            simulate_releases([1, 2], 9, 10, **terms, mechanism="x", rng=np.random.default_rng(0))

    def test_a_site_does_not_import_it(self):
        look = "import sys, fedconformal.site; print('fedconformal.privacy._simulation' in sys.modules)"
        answer = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
        assert answer.stdout.strip() == "False"
