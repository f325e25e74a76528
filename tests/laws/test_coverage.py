"""The law of the coverage: exact values, closed forms, properties, simulated
calibrations.
"""

from fractions import Fraction
from math import lgamma

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal.laws import EachSiteLaw, Summary, density, exact_cdf, exact_mean
from support import kolmogorov_distance, kolmogorov_limit, simulated_coverage
from vote_laws import federations


class TestMean:
    @pytest.mark.parametrize(
        ("m", "n", "l", "k", "reference"),
        [(5, 10, 10, 3, 0.9256259545517656315), (10, 20, 19, 5, 0.9079146399715186270)],
    )
    def test_reference_values(self, m, n, l, k, reference):
        assert fc.CoverageLaw(m, n, l, k).mean() == pytest.approx(reference, abs=1e-14)

    @given(st.integers(1, 10**6), st.integers(1, 10**6), st.data())
    def test_closed_form_when_sites_send_their_maximum(self, m, n, data):
        k = data.draw(st.integers(1, m))
        log_mean = lgamma(k + 1 / n) - lgamma(k) + lgamma(m + 1) - lgamma(m + 1 + 1 / n)
        rounding = 1e-15 * (1 + lgamma(m + 2))
        assert fc.CoverageLaw(m, n, n, k).mean() == pytest.approx(
            np.exp(log_mean), abs=1e-12 + rounding
        )

    @given(st.integers(1, 10**6), st.data())
    def test_split_conformal_prediction_is_the_case_of_one_point_or_one_site(
        self, size, data
    ):
        rank = data.draw(st.integers(1, size))
        assert fc.CoverageLaw(size, 1, 1, rank).mean() == pytest.approx(
            rank / (size + 1), abs=1e-12
        )
        assert fc.CoverageLaw(1, size, rank, 1).mean() == pytest.approx(
            rank / (size + 1), abs=1e-12
        )

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

    @pytest.mark.slow
    def test_blocks_of_equal_sites_need_not_be_told_apart(self):
        one = fc.CoverageLaw(
            n_points=[30] * 40 + [70] * 60,
            local_rank=[27] * 40 + [64] * 60,
            server_rank=50,
        )
        many = fc.CoverageLaw(
            n_points=[30, 70] * 40 + [70] * 20,
            local_rank=[27, 64] * 40 + [64] * 20,
            server_rank=50,
        )
        assert one.mean() == many.mean()


class TestWeightedVotes:
    @given(federations(), st.data())
    def test_mean_and_cdf_agree_with_exact_integers(self, federation, data):
        sizes, ranks, weights, k = federation
        law = fc.CoverageLaw(
            n_points=sizes, local_rank=ranks, server_rank=k, weights=weights
        )
        assert law.mean() == pytest.approx(
            float(exact_mean(sizes, ranks, k, weights=weights)), abs=1e-12
        )
        c = Fraction(data.draw(st.integers(1, 255)), 256)
        exact = float(exact_cdf(sizes, ranks, k, c, weights=weights))
        assert law.cdf(float(c)) == pytest.approx(exact, rel=1e-12)
        assert law.sf(float(c)) == pytest.approx(1 - exact, abs=1e-14)

    @settings(max_examples=20)
    @given(federations(sites=4, points=20))
    def test_is_a_law(self, federation):
        sizes, ranks, weights, k = federation
        law = fc.CoverageLaw(
            n_points=sizes, local_rank=ranks, server_rank=k, weights=weights
        )
        cdf = law.cdf(np.linspace(-0.1, 1.1, 121))
        assert np.isfinite(cdf).all()
        assert (np.diff(cdf) >= -1e-15).all()
        assert (cdf[0], cdf[-1]) == (0, 1)
        assert 0 <= law.std() <= 0.5
        low, high = law.interval(0.9)
        assert low <= law.median() <= high
        q = np.array([0.001, 0.3, 0.99])
        if law.std() > 0:
            assert law.cdf(law.ppf(q)) == pytest.approx(q, rel=1e-9)

    @given(
        st.lists(
            st.tuples(st.integers(1, 40), st.floats(0.01, 1)), min_size=1, max_size=8
        ),
        st.data(),
    )
    def test_one_number_and_one_weight_for_all_is_the_quantile_of_quantiles(
        self, sites, data
    ):
        sizes = [n for n, _ in sites]
        ranks = [max(1, round(share * n)) for n, share in sites]
        k, weight = data.draw(st.integers(1, len(sites))), data.draw(st.integers(2, 9))
        plain = fc.CoverageLaw(n_points=sizes, local_rank=ranks, server_rank=k)
        for other in (
            {"local_rank": ranks, "weights": weight, "server_rank": weight * k},
            {
                "local_rank": ranks,
                "weights": [weight] * len(sizes),
                "server_rank": weight * (k - 1) + 1,
            },
            {
                "local_rank": [(l,) for l in ranks],
                "weights": [(1,)] * len(sizes),
                "server_rank": k,
            },
        ):
            law = fc.CoverageLaw(n_points=sizes, **other)
            assert (law.mean(), law.std()) == (plain.mean(), plain.std())


class TestDistribution:
    @pytest.mark.parametrize(
        ("sizes", "ranks", "k"),
        [
            ([10] * 5, [10] * 5, 3),
            ([5, 8, 13, 40], [5, 8, 12, 36], 3),
        ],
    )
    def test_cdf_is_that_of_simulated_calibrations(self, sizes, ranks, k):
        runs = 40_000
        law = fc.CoverageLaw(n_points=sizes, local_rank=ranks, server_rank=k)
        draws = simulated_coverage(
            sizes, ranks, k, runs=runs, rng=np.random.default_rng(17)
        )
        assert kolmogorov_distance(draws, law.cdf) < kolmogorov_limit(runs)

    def test_quantiles_of_steep_laws_take_few_steps(self, monkeypatch):
        sizes = [10**5, 1000, 10**8, 10**8]
        law = fc.CoverageLaw(
            n_points=sizes,
            local_rank=[90_000, 900, 9 * 10**7, 9 * 10**7],
            server_rank=2,
        )
        steps = []
        evaluate = law._cdf
        monkeypatch.setattr(
            law, "_cdf", lambda c, **how: steps.append(1) or evaluate(c, **how)
        )
        assert law.cdf(law.ppf(0.5)) == pytest.approx(0.5, rel=1e-10)
        assert len(steps) < 100

    @given(st.integers(1, 1000), st.integers(1, 1000), st.data())
    def test_ppf_inverts_cdf_and_sf_is_the_rest(self, m, n, data):
        l, k = data.draw(st.integers(1, n)), data.draw(st.integers(1, m))
        law = fc.CoverageLaw(m, n, l, k)
        q = np.array([0.001, 0.1, 0.5, 0.9, 0.999])
        c = law.ppf(q)
        assert (np.diff(c) > 0).all()
        assert np.allclose(law.cdf(c), q, atol=1e-9)
        assert np.allclose(law.cdf(c) + law.sf(c), 1, atol=1e-13)

    @pytest.mark.parametrize("q", [1e-200, 1e-9, 0.5, 1 - 1e-9])
    def test_quantiles_of_uneven_sites_far_in_the_tail(self, q):
        law = fc.CoverageLaw(
            n_points=[12, 40, 377], local_rank=[(11,), (36, 38), (340,)], server_rank=3
        )
        assert law.cdf(law.ppf(q)) == pytest.approx(q, rel=1e-10)

    def test_habits_of_scipy_stats(self):
        law = fc.CoverageLaw(5, 10, 10, 3)
        assert np.isscalar(law.cdf(0.9))
        assert law.cdf([[0.1], [0.9]]).shape == (2, 1)
        assert np.array_equal(law.cdf([-1, 0, 1, 2]), [0, 0, 1, 1])
        assert np.array_equal(law.sf([-1, 1]), [1, 0])
        assert np.isnan(law.cdf(np.nan))
        assert np.array_equal(law.ppf([0, 1]), [0, 1])
        assert np.isnan(law.ppf(1.5))

    def test_ranks_beyond_the_sites_give_the_whole_space(self):
        for law in (fc.CoverageLaw(3, 2, 2, 4), fc.CoverageLaw(3, 2, 3, 1)):
            assert (
                law.mean(),
                law.std(),
                law.cdf(0.999),
                law.sf(0.999),
                law.cdf(1.0),
            ) == (1, 0, 0, 1, 1)
            assert law.ppf(0.3) == 1


class TestShiftedSites:
    def test_law_is_that_of_simulated_shifted_sites(self):
        # Scores of site j are U ** (1 / power): F_j(x) = x ** power, while the test
        # point is uniform.
        powers, sizes, ranks, k, runs = (
            [1.0, 1.5, 0.7],
            [20, 12, 30],
            [18, 12, 27],
            2,
            40_000,
        )
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
        assert law.mean() == pytest.approx(draws.mean(), abs=0.01)

    def test_sites_that_lie_below_whatever_happens(self):
        for law in (
            fc.CoverageLaw(3, 5, 4, 2, distortion=np.ones_like),
            fc.CoverageLaw(3, 5, 0, 1),
            fc.CoverageLaw(n_points=[5, 5], local_rank=[0, 3], server_rank=1),
        ):
            assert law.mean() == pytest.approx(0, abs=1e-12)


def test_repr_says_what_it_is():
    assert (
        repr(fc.CoverageLaw(5, 10, 9, 3))
        == "CoverageLaw(n_sites=5, n_points=10, local_rank=9, server_rank=3)"
    )
    assert "max_faulty=1" in repr(
        fc.CoverageLaw(n_points=[3, 4], local_rank=[1, 2], server_rank=2, max_faulty=1)
    )
    assert (
        repr(
            fc.CoverageLaw(
                n_points=[100] * 10,
                local_rank=[(88, 92)] * 10,
                server_rank=36,
                weights=3,
            )
        )
        == "CoverageLaw(n_sites=10, n_points=100, local_rank=(88, 92), weights=(3, 3),"
        " server_rank=36)"
    )


@pytest.fixture
def law():
    return EachSiteLaw([(20, 19), (50, 46), (20, 19)])


def test_every_method_gives_the_worst_of_the_sites(law):
    alone = [fc.CoverageLaw(1, 20, 19, 1), fc.CoverageLaw(1, 50, 46, 1)]
    c = np.array([0.8, 0.9, 0.95])
    assert (
        law.mean()
        == min(one.mean() for one in alone)
        == pytest.approx(min(19 / 21, 46 / 51))
    )
    assert law.std() == max(one.std() for one in alone)
    assert (law.cdf(c) == np.max([one.cdf(c) for one in alone], axis=0)).all()
    assert (law.sf(c) == np.min([one.sf(c) for one in alone], axis=0)).all()
    assert (law.ppf(c) == np.min([one.ppf(c) for one in alone], axis=0)).all()


@pytest.mark.parametrize(
    "law",
    [
        fc.CoverageLaw(5, 20, 19, 3),
        fc.CoverageLaw(
            n_points=[20, 30],
            local_rank=[(18, 19), (26, 28)],
            server_rank=5,
            weights=[2, 3],
        ),
    ],
    ids=repr,
)
def test_the_numbers_are_the_laws(law):
    summary = Summary(law, 0.9)
    assert (summary.mean, summary.std) == (law.mean(), law.std())
    assert summary.low == law.ppf(0.05)
    assert summary.reached == law.sf(0.9)
    assert summary.window == (law.ppf(0.001), law.ppf(0.999))
    assert not summary.is_certain


def test_a_density_adds_up():
    edges = np.linspace(0, 1, 101)
    assert density(fc.CoverageLaw(3, 10, 9, 2), edges).sum() / 100 == pytest.approx(1)
