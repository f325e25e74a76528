"""Distribution of the coverage for votes: exact fractions, published values and the
package are oracles.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal.audit import _votes
from fedconformal.audit._base import MOST_OPERATIONS, NotVerifiableError, Work
from fedconformal.audit._votes import (
    MEAN_ERROR,
    Voters,
    bound_coverage,
    check_mean,
    check_missed,
)


@st.composite
def federations(draw, largest=8):
    """A few sites with up to three numbers, some of them infinite, and votes that are
    needed.
    """
    sites = []
    for _ in range(draw(st.integers(1, 3))):
        n = draw(st.integers(1, largest))
        ranks = tuple(
            sorted(draw(st.sets(st.integers(1, n + 1), min_size=1, max_size=3)))
        )
        votes = tuple(
            draw(st.lists(st.integers(1, 3), min_size=len(ranks), max_size=len(ranks)))
        )
        sites.append(Voters(draw(st.integers(1, 2)), n, ranks, votes))
    return sites, draw(st.integers(1, sum(site.number * site.total for site in sites)))


def miss_by_enumeration(sites, needed, level):
    """P(coverage <= level), over how many scores of each site lie below."""
    each = [site for site in sites for _ in range(site.number)]
    missed = Fraction(0)
    for below in itertools.product(*(range(site.n + 1) for site in each)):
        votes = sum(
            vote
            for count, site in zip(below, each, strict=True)
            for rank, vote in zip(site.ranks, site.votes, strict=True)
            if rank <= count
        )
        if votes >= needed:
            missed += math.prod(
                math.comb(site.n, count)
                * level**count
                * (1 - level) ** (site.n - count)
                for count, site in zip(below, each, strict=True)
            )
    return missed


class TestSmallFederations:
    @given(federations(largest=4), st.sampled_from([Fraction(1, 3), Fraction(4, 5)]))
    def test_probabilities_are_those_of_an_enumeration(self, federation, level):
        exact = miss_by_enumeration(*federation, level)
        (case,) = _votes._list_cases(*federation, 0)
        assert _votes._count_missed(case, level, Work()) == exact
        assert check_missed(*federation, 0, level, exact or Fraction(1, 10), Work())[0]
        if 0 < exact < 1:
            found = check_missed(
                *federation, 0, level, exact * Fraction(10**6 - 1, 10**6), Work()
            )
            assert found == (False, pytest.approx(float(exact), rel=1e-12))

    @given(federations(largest=4), st.sampled_from([Fraction(1, 3), Fraction(4, 5)]))
    def test_a_fourier_sum_is_the_enumeration(self, federation, level):
        case = _votes._simplify(*federation)
        if case.certain is None:
            summed = _votes._reach_by_transform(case, Work(), np.array([float(level)]))
            assert (
                abs(
                    Fraction(float(summed[0])) - miss_by_enumeration(*federation, level)
                )
                < 1e-14
            )

    @given(federations())
    def test_means_are_those_of_whole_numbers(self, federation):
        (case,) = _votes._list_cases(*federation, 0)
        if case.certain is None:
            exact = _votes._count_mean([case], Work())
            assert (
                abs(Fraction(_votes._integrate_mean([case], Work())) - exact)
                < MEAN_ERROR / 10
            )
            assert _votes._simple_mean(case) in (None, exact)
            assert check_mean(*federation, 0, exact, Work())[0]
            assert not check_mean(*federation, 0, exact + Fraction(1, 10**30), Work())[
                0
            ]

    @pytest.mark.parametrize(
        ("sites", "needed", "mean"),
        [
            ([Voters(5, 10, (10,), (1,))], 3, 0.9256259545517656315),
            ([Voters(10, 20, (19,), (1,))], 5, 0.9079146399715186270),
            ([Voters(2, 9, (8, 9), (1, 1))], 3, 0.8947),
            ([Voters(5000, 1, (1,), (1,))], 4500, 4500 / 5001),
            ([Voters(1, 10**9, (9 * 10**8,), (3,))], 2, 0.9),
            ([Voters(1, 5, (5,), (1,)), Voters(1, 20, (20,), (1,))], 2, 25 / 26),
            ([Voters(301, 301, (151,), (1,))], 151, 0.5),
        ],
    )
    def test_published_values_and_closed_forms(self, sites, needed, mean):
        assert check_mean(sites, needed, 0, Fraction(1, 2), Work()) == (
            True,
            pytest.approx(mean, abs=1e-4),
        )

    def test_ties_are_decided_exactly(self):
        for n in (9, 99, 999):
            alone = [Voters(1, n, (n,), (1,))]
            assert check_mean(alone, 1, 0, Fraction(n, n + 1), Work())[0]
        pooled, level = [Voters(1, 22, (22,), (1,))], Fraction(9, 10)
        assert check_missed(pooled, 1, 0, level, level**22, Work())[0]
        assert not check_missed(
            pooled, 1, 0, level, level**22 - Fraction(1, 10**40), Work()
        )[0]


class TestBounds:
    """Where a computation is too large, bounds decide; they never contradict it where
    it is not.
    """

    @given(
        federations(largest=40),
        st.integers(0, 2),
        st.sampled_from([Fraction(i, 20) for i in range(1, 20)]),
        st.sampled_from(
            [Fraction(0), Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)]
        ),
    )
    def test_they_agree_with_the_computation(self, federation, faulty, level, delta):
        holds, _ = bound_coverage(*federation, faulty, level, delta, Work())
        if delta:
            exact = check_missed(*federation, faulty, level, delta, Work())[0]
        else:
            exact = check_mean(*federation, faulty, level, Work())[0]
        assert holds in (None, exact)

    @pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 10)])
    def test_many_sites_are_decided(self, delta):
        sites = [
            Voters(1, 100 + i, (91 + 9 * i // 10,), (1 + 7 * i,)) for i in range(2000)
        ]
        total = sum(site.total for site in sites)
        for level, expected in ((Fraction(91, 100), False), (Fraction(17, 20), True)):
            assert (
                bound_coverage(sites, total // 2, 10, level, delta, Work())[0]
                is expected
            )


FEDERATIONS = {
    "uneven": ([50 + 7 * i for i in range(40)], 1, None, 22, 0),
    "weights and three numbers": ([60, 90, 120, 200, 3000], 3, [2, 2, 3, 4, 15], 42, 0),
    "one vote, faulty": (list(range(60, 75)), 1, None, 9, 2),
    "weights, faulty": ([60, 90, 120, 200, 300], 1, [2, 2, 3, 4, 5], 11, 1),
    "too many choices of faulty sites": (
        [60 + 11 * i for i in range(20)],
        1,
        [1 + i // 4 for i in range(20)],
        48,
        4,
    ),
    "two scales": ([19] * 5 + [10**9] * 5, 1, None, 5, 0),
}


@pytest.mark.parametrize("name", FEDERATIONS)
def test_the_package_agrees(name):
    sizes, numbers, weights, needed, faulty = FEDERATIONS[name]
    step = [max(1, math.isqrt(n // 10)) for n in sizes]
    ranks = [
        tuple(
            math.ceil(0.9 * (n + 1)) + i * s - numbers * s // 2 for i in range(numbers)
        )
        for n, s in zip(sizes, step, strict=True)
    ]
    votes = [(weight,) * numbers for weight in weights or [1] * len(sizes)]
    law = fc.CoverageLaw(
        n_points=sizes,
        local_rank=ranks,
        server_rank=needed,
        weights=votes,
        max_faulty=faulty,
    )
    sites = [Voters(1, *row) for row in zip(sizes, ranks, votes, strict=True)]
    assert check_mean(sites, needed, faulty, Fraction(1, 2), Work())[
        1
    ] == pytest.approx(law.mean(), abs=2e-14)
    level = Fraction(str(round(law.mean(), 3)))
    missed = check_missed(sites, needed, faulty, level, Fraction(1, 10), Work())[1]
    assert missed == pytest.approx(float(law.cdf(float(level))), rel=1e-10)


class TestLimits:
    def test_ten_million_equal_sites(self):
        sites = [Voters(10**7, 100, (91,), (1,))]
        assert check_mean(sites, 5 * 10**6, 0, Fraction(9, 10), Work())[
            1
        ] == pytest.approx(0.9, abs=0.01)

    @pytest.mark.parametrize(
        "sites",
        [
            [Voters(10**6, 100, (88, 92), (2, 3))],
            [Voters(1, 10**6 + i, (9 * 10**5,), (2**20 - i,)) for i in range(500)],
        ],
    )
    def test_what_is_too_large_is_not_tried(self, sites):
        needed = sum(site.number * site.total for site in sites) // 2
        with pytest.raises(NotVerifiableError, match="too large"):
            check_mean(sites, needed, 0, Fraction(9, 10), Work())

    def test_all_claims_share_one_limit(self):
        work = Work()
        work.spend(MOST_OPERATIONS - 10)
        with pytest.raises(NotVerifiableError, match="too large"):
            work.spend(11)
        work.spend(10)

    def test_more_faulty_sites_than_vote(self):
        for votes in ((1,), (2,)):
            assert check_mean(
                [Voters(1, 9, (9,), votes)], 1, 2, Fraction(1, 2), Work()
            ) == (False, 0.0)

    @pytest.mark.parametrize(
        ("needed", "faulty", "coverage"),
        [(11, 0, 1.0), (2, 2, 0.0), (1, 1, 0.0), (6, 0, 1.0)],
    )
    def test_certain_coverages(self, needed, faulty, coverage):
        sites = [Voters(5, 9, (9,), (1,)), Voters(5, 4, (5,), (1,))]
        assert check_mean(sites, needed, faulty, Fraction(1, 2), Work()) == (
            coverage == 1,
            coverage,
        )
        missed = check_missed(
            sites, needed, faulty, Fraction(1, 2), Fraction(1, 10), Work()
        )
        assert missed == (coverage == 1, 1 - coverage)
        assert np.all(
            _votes._cdf(
                [*_votes._list_cases(sites, needed, faulty)], Work(), np.ones(3) / 2
            )
            == 1 - coverage
        )


class TestManySitesAlike:
    @pytest.mark.parametrize(
        ("sites", "needed"),
        [
            ([Voters(600, 100, (88, 90, 92), (1, 1, 1))], 900),
            ([Voters(600, 100, (88, 92), (2, 3))], 1500),
            ([Voters(500, 100, (90,), (4,)), Voters(100, 40, (36, 38), (6, 2))], 1400),
        ],
    )
    def test_a_fourier_sum_is_the_convolution(self, sites, needed, monkeypatch):
        case, c = _votes._simplify(sites, needed), np.linspace(0.86, 0.94, 17)
        summed = _votes._reach_by_transform(case, Work(), c)
        monkeypatch.setattr(_votes, "_MANY_ALIKE", 10**9)
        assert not case.has_many_alike
        convolved = _votes._reach_votes(case, Work(), c)
        assert np.abs(summed - convolved).max() < _votes._FOURIER_ERROR / 10
        assert summed.min() < 0.01
        assert summed.max() > 0.99

    @pytest.mark.parametrize(
        "n_sites", [10_000, pytest.param(1_000_000, marks=pytest.mark.nightly)]
    )
    @pytest.mark.parametrize("criterion", ["stable", "conditional"])
    def test_claims_are_verified_and_refuted(self, n_sites, criterion):
        plan = fc.plan(n_sites=n_sites, n_points=500, numbers=3, criterion=criterion)
        level, sent = plan.designs[0].levels[0], plan.message.levels[0]
        sites, delta = (
            [Voters(n_sites, 500, sent.ranks[0], sent.all_votes()[0])],
            Fraction(1, 10),
        )

        def check(votes):
            if criterion == "stable":
                return check_mean(sites, votes, 0, Fraction(9, 10), Work())
            return check_missed(sites, votes, 0, Fraction(9, 10), delta, Work())

        holds, found = check(level.votes)
        assert holds
        expected = plan.law.mean() if criterion == "stable" else plan.law.cdf(0.9)
        assert found == pytest.approx(expected, abs=1e-12)
        assert not check(level.votes - n_sites // 200)[0]
