"""The paper's Algorithm 2: errors, probabilities, privacy, and draws by OpenDP."""

import ast
import math
import sys
from collections import Counter
from fractions import Fraction
from itertools import product
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedconformal import privacy
from fedconformal._extras import MissingExtraError
from fedconformal.privacy import PrivateQuantile
from fedconformal.privacy._mechanisms import _noisy_max
from privacy.histograms import all_counts, counts_alarm, neighbours

HALF, NINE = Fraction(1, 2), Fraction(9, 10)
QUANTILES = [HALF, Fraction(3, 5), NINE, Fraction(19, 20), Fraction(97, 100)]
histograms = st.lists(st.integers(0, 30), min_size=2, max_size=9).filter(any)


def drawn(quantile, epsilon=1):
    return PrivateQuantile(quantile, Fraction(str(epsilon)))


class TestErrors:
    @given(histograms, st.sampled_from(QUANTILES))
    def test_are_their_definition(self, counts, quantile):
        a, d = quantile.as_integer_ratio()
        expected = [
            max(sum(counts[:b]) * (d - a), sum(counts[b + 1 :]) * a)
            for b in range(len(counts))
        ]
        errors = drawn(quantile).errors(counts)
        assert errors.dtype == np.int64
        assert errors.tolist() == expected

    def test_rows_may_differ_in_size(self):
        table = np.array([[3, 0, 4], [30, 20, 1], [0, 0, 1]])
        for quantile in QUANTILES:
            rows = [drawn(quantile).errors(row).tolist() for row in table]
            assert drawn(quantile).errors(table).tolist() == rows

    def test_large_numbers_are_exact_or_refused(self):
        near, nearer = (1 - Fraction(1, 10**digits) for digits in (9, 10))
        assert drawn(near).errors([10**9, 10**9]).tolist() == [
            10**9 * (10**9 - 1),
            10**9,
        ]
        with pytest.raises(
            ValueError, match=r"n \* d must be at most 9223372036854775807"
        ):
            drawn(nearer).errors([10**9, 10**9])

    @pytest.mark.parametrize(
        "quantile", [Fraction(2, 5), Fraction(1), Fraction(11, 10), Fraction(-1, 3)]
    )
    def test_the_quantile_is_at_least_a_half_and_below_one(self, quantile):
        with pytest.raises(
            ValueError, match=rf"quantile must be in \[1/2, 1\), got {quantile}"
        ):
            drawn(quantile)


class TestScale:
    def test_is_the_papers(self):
        assert (drawn(NINE).scale, drawn(HALF, 0.5).scale, drawn(NINE, 0.1).scale) == (
            18.0,
            4.0,
            180.0,
        )

    @given(st.integers(2, 2**52), st.floats(1e-6, 100), st.data())
    def test_is_rounded_up_by_at_most_one_unit(self, d, epsilon, data):
        quantile = Fraction(data.draw(st.integers(-(-d // 2), d - 1)), d)
        allowed = min(Fraction(epsilon), Fraction(str(epsilon)))
        scale = drawn(quantile, allowed).scale
        width = 2 * quantile.numerator
        assert width / Fraction(scale) <= allowed
        assert width / Fraction(math.nextafter(scale, 0)) >= allowed * (
            1 - Fraction(1, 10**15)
        )

    @pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(201, 2)])
    def test_epsilon_is_above_zero_and_at_most_a_hundred(self, epsilon):
        for use in (
            lambda d: d.scale,
            lambda d: d.pmf([1, 2]),
            lambda d: d.prepare([1, 2]),
        ):
            with pytest.raises(
                ValueError, match=r"epsilon must be a number in \(0, 100\]"
            ):
                use(PrivateQuantile(NINE, epsilon))


class TestPmf:
    @pytest.mark.parametrize("quantile", QUANTILES, ids=str)
    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
    def test_is_that_of_the_exponential_mechanism_in_high_precision(
        self, quantile, epsilon
    ):
        counts = np.random.default_rng(5).integers(0, 6, 30)
        mechanism = drawn(quantile, epsilon)
        with mpmath.workdps(60):
            w = [
                mpmath.exp(-mpmath.mpf(int(s)) / mechanism.scale)
                for s in mechanism.errors(counts)
            ]
            exact = [float(x / sum(w)) for x in w]
        assert mechanism.pmf(counts) == pytest.approx(exact, rel=5e-14)

    @pytest.mark.parametrize("B", [2, 1000])
    def test_ties_share_alike(self, B):
        """One score, and so little budget that all bins are all but equal."""
        p = PrivateQuantile(HALF, Fraction(1, 10**15)).pmf([0] * (B - 1) + [1])
        assert p == pytest.approx([1 / B] * B, rel=1e-12)

    @given(histograms, st.sampled_from(QUANTILES), st.floats(1e-3, 100))
    def test_adds_up_to_one_and_prefers_small_errors(self, counts, quantile, epsilon):
        mechanism = drawn(quantile, epsilon)
        p = mechanism.pmf(counts)
        assert p.sum() == pytest.approx(1.0, abs=1e-13)
        order = np.argsort(mechanism.errors(counts), kind="stable")
        assert np.all(np.diff(p[order]) <= 1e-15)

    def test_huge_errors_do_not_overflow(self):
        p = drawn(1 - Fraction(1, 2**20), 100).pmf([2**40, 2**40])
        assert p == pytest.approx([0.0, 1.0], abs=1e-15)

    def test_rows_are_sites(self):
        table, mechanism = all_counts(4, 3), drawn(NINE, 2)
        rows = [mechanism.pmf(counts) for counts in table]
        assert mechanism.pmf(table) == pytest.approx(np.array(rows), rel=1e-14)


class TestPrivacy:
    @pytest.mark.slow
    @pytest.mark.parametrize("B", [2, 3, 4, pytest.param(5, marks=pytest.mark.nightly)])
    def test_no_neighbours_are_told_apart_by_more_than_the_proof_says(self, B):
        """Width d over the scale, which is below epsilon for the paper's scale."""
        for n in range(1, 9):
            table = all_counts(n, B)
            first, second = np.array(list(neighbours(table))).T
            for quantile, epsilon in product(QUANTILES, (0.1, 1.0, 5.0)):
                a, d = quantile.as_integer_ratio()
                log_p = np.log(drawn(quantile, epsilon).pmf(table))
                loss = float(np.max(log_p[first] - log_p[second]))
                assert loss <= epsilon * d / (2 * max(a, d - a)) + 1e-12

    def test_the_papers_scale_could_be_smaller(self):
        """Two neighbours that use up d / scale, which is epsilon / 1.8 at nine
        tenths.
        """
        p = drawn(NINE).pmf([[300, 100, 0], [299, 100, 1]])
        assert 0.999 / 1.8 < abs(math.log(p[0, 0] / p[1, 0])) <= 1 / 1.8


class TestDraws:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("counts", "quantile", "epsilon"),
        [
            ([1, 6, 2, 3], NINE, 2.0),
            ([4, 0, 1, 2, 9], HALF, 0.7),
            ([3 * 10**9, 1285717286], Fraction(700_000_001, 10**9), 1e-7),
        ],
    )
    def test_follow_the_pmf(self, counts, quantile, epsilon):
        """1,500 draws; a right program fails with probability 1e-7."""
        pytest.importorskip("opendp")
        mechanism = drawn(quantile, f"{epsilon:.7f}")
        draw = mechanism.prepare(counts)
        seen = Counter(draw() for _ in range(1500))
        observed = np.array([seen[b] for b in range(len(counts))])
        assert observed.sum() == 1500
        assert not counts_alarm(observed, mechanism.pmf(counts))

    def test_simulated_ones_do_too(self):
        """10^5 draws for each of three sites; a right program fails with probability
        1e-7 for each.
        """
        table = np.array([[1, 6, 2, 3, 0, 4], [0, 0, 0, 0, 0, 9], [5, 5, 5, 5, 5, 5]])
        mechanism, rng = drawn(NINE, 1.3), np.random.default_rng(0)
        cells = mechanism.simulate(np.broadcast_to(table, (100_000, 3, 6)), rng)
        for site, p in enumerate(mechanism.pmf(table)):
            assert not counts_alarm(np.bincount(cells[:, site], minlength=6), p)

    def test_extreme_budgets(self):
        pytest.importorskip("opendp")
        assert drawn(NINE, 100).prepare([10, 90, 0])() == 1
        assert PrivateQuantile(NINE, Fraction(1, 10**300)).prepare([10, 90, 0])() in (
            0,
            1,
            2,
        )

    @given(st.integers(2, 10**6), st.floats(1e-3, 100), st.data())
    def test_opendp_always_confirms_our_scale(self, d, epsilon, data):
        pytest.importorskip("opendp")
        quantile = Fraction(data.draw(st.integers(-(-d // 2), d - 1)), d)
        assert callable(drawn(quantile, epsilon).prepare([1, 2]))

    def test_too_little_noise_is_refused(self):
        pytest.importorskip("opendp")
        with pytest.raises(
            RuntimeError, match=r"above epsilon=1.0: nothing was released"
        ):
            _noisy_max(9.0, 10, 1.0)

    def test_without_opendp_the_extra_is_named(self, monkeypatch):
        _noisy_max.cache_clear()
        monkeypatch.setitem(sys.modules, "opendp.prelude", None)
        with pytest.raises(MissingExtraError, match=r"\.\[private\]"):
            drawn(NINE, 0.123).prepare([1, 2])


def test_nothing_in_the_release_path_can_be_seeded():
    """Generators occur where something is simulated, under a name that says so, and
    nowhere else.
    """
    file = Path(privacy.__file__).parent / "_mechanisms.py"
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef):
            node.body = [
                part
                for part in node.body
                if "simulate" not in getattr(part, "name", "")
            ]
    nodes = list(ast.walk(tree))
    used = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    used |= {node.id for node in nodes if isinstance(node, ast.Name)}
    assert not used & {
        "random",
        "seed",
        "default_rng",
        "RandomState",
        "Generator",
        "rvs",
    }
