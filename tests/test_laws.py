from fractions import Fraction
from itertools import product
from math import comb, lgamma

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal.laws import exact_cdf, exact_mean
from support import kolmogorov_distance, kolmogorov_limit, simulated_coverage


def paper_sum(m, n, l, k):
    """Theorem 3.2 as it stands, in exact fractions: sums over the counts of every site."""
    total = Fraction(0)
    for j in range(k, m + 1):
        ranges = [range(l, n + 1)] * j + [range(l)] * (m - j)
        for counts in product(*ranges):
            weight = comb(m, j)
            for i in counts:
                weight *= comb(n, i)
            total += Fraction(weight, comb(m * n, sum(counts)))
    return 1 - total / (m * n + 1)


class TestMean:
    @pytest.mark.parametrize(
        ("m", "n", "l", "k", "reference"),
        [(5, 10, 10, 3, 0.9256259545517656315), (10, 20, 19, 5, 0.9079146399715186270)],
    )
    def test_reference_values(self, m, n, l, k, reference):
        assert fc.CoverageLaw(m, n, l, k).mean() == pytest.approx(reference, abs=1e-14)

    @pytest.mark.parametrize(("m", "n"), [(1, 5), (2, 3), (3, 2), (3, 4), (4, 3)])
    def test_is_the_sum_of_theorem_3_2(self, m, n):
        for l, k in product(range(1, n + 1), range(1, m + 1)):
            exact = paper_sum(m, n, l, k)
            assert exact_mean([n] * m, [l] * m, k) == exact
            assert fc.CoverageLaw(m, n, l, k).mean() == pytest.approx(float(exact), abs=1e-14)

    @given(st.integers(1, 10**6), st.integers(1, 10**6), st.data())
    def test_closed_form_when_sites_send_their_maximum(self, m, n, data):
        k = data.draw(st.integers(1, m))
        log_mean = lgamma(k + 1 / n) - lgamma(k) + lgamma(m + 1) - lgamma(m + 1 + 1 / n)
        rounding = 1e-15 * (1 + lgamma(m + 2))
        assert fc.CoverageLaw(m, n, n, k).mean() == pytest.approx(np.exp(log_mean), abs=1e-12 + rounding)

    @given(st.integers(1, 10**6), st.data())
    def test_split_conformal_prediction_is_the_case_of_one_point_or_one_site(self, size, data):
        rank = data.draw(st.integers(1, size))
        assert fc.CoverageLaw(size, 1, 1, rank).mean() == pytest.approx(rank / (size + 1), abs=1e-12)
        assert fc.CoverageLaw(1, size, rank, 1).mean() == pytest.approx(rank / (size + 1), abs=1e-12)

    @given(st.integers(1, 10**6), st.integers(1, 10**6), st.data())
    def test_is_never_nan_and_rises_with_the_ranks(self, m, n, data):
        l, k = data.draw(st.integers(1, n)), data.draw(st.integers(1, m))
        law = fc.CoverageLaw(m, n, l, k)
        assert 0 < law.mean() < 1
        assert 0 <= law.std() < 0.5
        if l < n:
            assert fc.CoverageLaw(m, n, l + 1, k).mean() > law.mean() - 1e-13
        if k < m:
            assert fc.CoverageLaw(m, n, l, k + 1).mean() > law.mean() - 1e-13

    @given(st.lists(st.tuples(st.integers(1, 12), st.integers(1, 13)), min_size=1, max_size=6), st.data())
    def test_uneven_sites_agree_with_exact_integers(self, sites, data):
        sizes, ranks = [n for n, _ in sites], [min(l, n + 1) for n, l in sites]
        k = data.draw(st.integers(1, len(sites)))
        law = fc.CoverageLaw(n_points=sizes, local_rank=ranks, server_rank=k)
        assert law.mean() == pytest.approx(float(exact_mean(sizes, ranks, k)), abs=1e-12)
        c = Fraction(data.draw(st.integers(1, 99)), 100)
        assert law.cdf(float(c)) == pytest.approx(float(exact_cdf(sizes, ranks, k, c)), abs=1e-12)

    def test_a_narrow_site_beside_a_wide_one(self):
        law = fc.CoverageLaw(n_points=[5, 300], local_rank=[5, 270], server_rank=1)
        assert law.mean() == pytest.approx(float(exact_mean([5, 300], [5, 270], 1)), abs=1e-13)

    def test_groups_of_equal_sites_need_not_be_told_apart(self):
        one = fc.CoverageLaw(n_points=[30] * 40 + [70] * 60, local_rank=[27] * 40 + [64] * 60, server_rank=50)
        many = fc.CoverageLaw(
            n_points=[30, 70] * 40 + [70] * 20, local_rank=[27, 64] * 40 + [64] * 20, server_rank=50
        )
        assert one.mean() == many.mean()
        draws = one.rvs(20_000, random_state=3)
        assert kolmogorov_distance(draws, one.cdf) < kolmogorov_limit(20_000)

    def test_variance_of_split_conformal_is_that_of_a_beta_law(self):
        a, b = 90, 10
        law = fc.CoverageLaw(1, 99, 90, 1)
        assert law.std() == pytest.approx(np.sqrt(a * b / ((a + b) ** 2 * (a + b + 1))), rel=1e-12)


class TestTable:
    @pytest.mark.parametrize(("m", "n"), [(1, 1), (5, 10), (10, 20), (40, 1), (1, 40), (3, 100)])
    def test_agrees_with_exact_integers(self, m, n):
        table = fc.coverage_table(n_sites=m, n_points=n)
        assert table.shape == (n, m)
        for l, k in {(1, 1), (n, m), (1, m), (n, 1), ((n + 1) // 2, (m + 1) // 2)}:
            assert table[l - 1, k - 1] == pytest.approx(float(exact_mean([n] * m, [l] * m, k)), abs=1e-13)

    @pytest.mark.parametrize(("m", "n"), [(10, 20), (50, 40)])
    def test_polynomial_and_window_integration_agree_and_are_monotone(self, m, n):
        table = fc.coverage_table(m, n)
        means = [[fc.CoverageLaw(m, n, l, k).mean() for k in range(1, m + 1, 7)] for l in range(1, n + 1, 5)]
        assert np.allclose(table[::5, ::7], means, atol=1e-13, rtol=0)
        assert (np.diff(table, axis=0) > 0).all()
        assert (np.diff(table, axis=1) > 0).all()


class TestDistribution:
    @pytest.mark.parametrize(
        ("sizes", "ranks", "k"),
        [
            ([10] * 5, [10] * 5, 3),
            ([100] * 10, [95] * 10, 1),
            ([5, 8, 13, 40], [5, 8, 12, 36], 3),
            ([7], [3], 1),
        ],
    )
    def test_cdf_is_that_of_simulated_calibrations(self, sizes, ranks, k):
        runs = 40_000
        law = fc.CoverageLaw(n_points=sizes, local_rank=ranks, server_rank=k)
        draws = simulated_coverage(sizes, ranks, k, runs=runs, rng=np.random.default_rng(17))
        assert kolmogorov_distance(draws, law.cdf) < kolmogorov_limit(runs)
        assert kolmogorov_distance(law.rvs(runs, random_state=5), law.cdf) < kolmogorov_limit(runs)

    @given(st.integers(1, 1000), st.integers(1, 1000), st.data())
    def test_ppf_inverts_cdf_and_sf_is_the_rest(self, m, n, data):
        l, k = data.draw(st.integers(1, n)), data.draw(st.integers(1, m))
        law = fc.CoverageLaw(m, n, l, k)
        q = np.array([0.001, 0.1, 0.5, 0.9, 0.999])
        c = law.ppf(q)
        assert (np.diff(c) > 0).all()
        assert np.allclose(law.cdf(c), q, atol=1e-9)
        assert np.allclose(law.cdf(c) + law.sf(c), 1, atol=1e-13)

    def test_uneven_ppf_inverts_cdf(self):
        law = fc.CoverageLaw(n_points=[5, 9, 30], local_rank=[5, 9, 27], server_rank=2)
        q = np.linspace(0.01, 0.99, 9)
        assert np.allclose(law.cdf(law.ppf(q)), q, atol=1e-12)
        assert law.median() == law.ppf(0.5)
        assert law.interval(0.8) == (law.ppf(0.1), law.ppf(0.9))

    def test_habits_of_scipy_stats(self):
        law = fc.CoverageLaw(5, 10, 10, 3)
        assert np.isscalar(law.cdf(0.9))
        assert law.cdf([[0.1], [0.9]]).shape == (2, 1)
        assert np.array_equal(law.cdf([-1, 0, 1, 2]), [0, 0, 1, 1])
        assert np.array_equal(law.sf([-1, 1]), [1, 0])
        assert np.isnan(law.cdf(np.nan))
        assert np.array_equal(law.ppf([0, 1]), [0, 1])
        assert np.isnan(law.ppf(1.5))
        assert law.rvs((3, 2), random_state=0).shape == (3, 2)

    def test_survival_far_in_the_tail_keeps_its_digits(self):
        assert fc.CoverageLaw(1, 100, 1, 1).sf(0.9) == pytest.approx(1e-100, rel=1e-9)

    def test_ranks_beyond_the_sites_give_the_whole_space(self):
        for law in (fc.CoverageLaw(3, 2, 2, 4), fc.CoverageLaw(3, 2, 3, 1)):
            assert (law.mean(), law.std(), law.cdf(0.999), law.sf(0.999), law.cdf(1.0)) == (1, 0, 0, 1, 1)
            assert (law.rvs(4, random_state=0) == 1).all()
            assert law.ppf(0.3) == 1


class TestFaultySites:
    @pytest.mark.parametrize(
        ("sizes", "ranks", "k", "f"), [([20] * 7, [18] * 7, 5, 2), ([5, 9, 30, 50], [5, 9, 27, 45], 3, 1)]
    )
    def test_no_choice_of_lying_sites_gets_below_the_law(self, sizes, ranks, k, f):
        runs = 20_000
        law = fc.CoverageLaw(n_points=sizes, local_rank=ranks, server_rank=k, max_faulty=f)
        c = np.linspace(0.02, 0.98, 49)
        for first in range(len(sizes)):
            turned = [*range(first, len(sizes)), *range(first)]
            draws = simulated_coverage(
                [sizes[j] for j in turned],
                [ranks[j] for j in turned],
                k,
                runs=runs,
                rng=np.random.default_rng(first),
                adversary=f,
            )
            assert (np.mean(draws[:, None] <= c, axis=0) < law.cdf(c) + kolmogorov_limit(runs)).all()

    def test_equal_sites_attain_the_bound(self):
        runs = 40_000
        law = fc.CoverageLaw(7, 20, 18, 5, max_faulty=2)
        draws = simulated_coverage(
            [20] * 7, [18] * 7, 5, runs=runs, rng=np.random.default_rng(1), adversary=2
        )
        assert kolmogorov_distance(draws, law.cdf) < kolmogorov_limit(runs)
        assert law.mean() == pytest.approx(float(exact_mean([20] * 5, [18] * 5, 3)), abs=1e-14)
        assert kolmogorov_distance(law.rvs(runs, random_state=2), law.cdf) < kolmogorov_limit(runs)

    def test_a_rank_within_reach_of_the_liars_promises_nothing(self):
        law = fc.CoverageLaw(7, 20, 18, 2, max_faulty=2)
        assert (law.mean(), law.cdf(0.1), law.sf(0.1), law.ppf(0.5)) == (0, 1, 0, 0)


class TestShiftedSites:
    def test_law_is_that_of_simulated_shifted_sites(self):
        # Scores of site j are U ** (1 / power): F_j(x) = x ** power, while the test point is uniform.
        powers, sizes, ranks, k, runs = [1.0, 1.5, 0.7], [20, 12, 30], [18, 12, 27], 2, 40_000
        law = fc.CoverageLaw(
            n_points=sizes,
            local_rank=ranks,
            server_rank=k,
            distortion=[None, *(lambda c, p=p: c**p for p in powers[1:])],
        )
        rng = np.random.default_rng(11)
        reports = [
            np.sort(rng.random((runs, n)) ** (1 / p), axis=1)[:, l - 1]
            for n, l, p in zip(sizes, ranks, powers, strict=True)
        ]
        draws = np.sort(reports, axis=0)[k - 1]
        assert kolmogorov_distance(draws, law.cdf) < kolmogorov_limit(runs)
        assert kolmogorov_distance(law.rvs(runs, random_state=1), law.cdf) < kolmogorov_limit(runs)
        assert law.mean() == pytest.approx(draws.mean(), abs=0.01)

    def test_no_distortion_changes_nothing(self):
        plain = fc.CoverageLaw(6, 15, 14, 3)
        same = fc.CoverageLaw(6, 15, 14, 3, distortion=lambda c: c)
        assert same.mean() == pytest.approx(plain.mean(), abs=1e-12)
        assert same.std() == pytest.approx(plain.std(), rel=1e-9)

    def test_sites_that_lie_below_whatever_happens(self):
        for law in (
            fc.CoverageLaw(3, 5, 4, 2, distortion=np.ones_like),
            fc.CoverageLaw(3, 5, 0, 1),
            fc.CoverageLaw(n_points=[5, 5], local_rank=[0, 3], server_rank=1),
        ):
            assert law.mean() == pytest.approx(0, abs=1e-12)

    def test_a_distortion_must_be_a_probability(self):
        with pytest.raises(ValueError, match="must map"):
            fc.CoverageLaw(2, 5, 5, 1, distortion=lambda c: 2 * c).mean()


class TestArguments:
    @pytest.mark.parametrize(
        ("arguments", "error", "words"),
        [
            (
                {"n_sites": 0, "n_points": 5, "local_rank": 1, "server_rank": 1},
                ValueError,
                "n_sites must be >= 1",
            ),
            (
                {"n_sites": 2, "n_points": 0, "local_rank": 1, "server_rank": 1},
                ValueError,
                "n_points must be >= 1",
            ),
            ({"n_sites": 2, "n_points": 5, "local_rank": 1.5, "server_rank": 1}, TypeError, "local_rank"),
            ({"n_sites": 2, "n_points": 5, "local_rank": 1, "server_rank": 0}, ValueError, "server_rank"),
            ({"n_points": [5, 6], "local_rank": [1, 2, 3], "server_rank": 1}, ValueError, "agree"),
            ({"n_points": [5, "6"], "local_rank": 1, "server_rank": 1}, TypeError, "n_points"),
            ({"n_points": [[5]], "local_rank": 1, "server_rank": 1}, ValueError, "flat list"),
            (
                {"n_sites": 2, "n_points": 5, "local_rank": 1, "server_rank": 1, "max_faulty": 2},
                ValueError,
                "max_faulty",
            ),
        ],
    )
    def test_a_refusal_names_the_argument(self, arguments, error, words):
        with pytest.raises(error, match=words):
            fc.CoverageLaw(**arguments)

    def test_repr_says_what_it_is(self):
        assert (
            repr(fc.CoverageLaw(5, 10, 9, 3))
            == "CoverageLaw(n_sites=5, n_points=10, local_rank=9, server_rank=3)"
        )
        assert "max_faulty=1" in repr(
            fc.CoverageLaw(n_points=[3, 4], local_rank=[1, 2], server_rank=2, max_faulty=1)
        )
