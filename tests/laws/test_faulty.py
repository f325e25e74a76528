"""Votes when some of the sites may send anything."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal.laws import exact_mean
from fedconformal.laws._federation import (
    Choices,
    Everyone,
    OneVoteEach,
    choose_tally,
    leave_out,
    n_choices,
)
from fedconformal.laws._votes import Votes, vote_tails
from support import kolmogorov_distance, kolmogorov_limit, simulated_coverage
from vote_laws import GRID, federations, random_votes, totals, worst_cdf


def test_equal_sites_attain_the_bound():
    runs = 40_000
    law = fc.CoverageLaw(7, 20, 18, 5, max_faulty=2)
    draws = simulated_coverage(
        [20] * 7, [18] * 7, 5, runs=runs, rng=np.random.default_rng(1), adversary=2
    )
    assert kolmogorov_distance(draws, law.cdf) < kolmogorov_limit(runs)
    assert law.mean() == pytest.approx(
        float(exact_mean([20] * 5, [18] * 5, 3)), abs=1e-14
    )


def test_a_rank_within_reach_of_the_liars_promises_nothing():
    law = fc.CoverageLaw(7, 20, 18, 2, max_faulty=2)
    assert (law.mean(), law.cdf(0.1), law.sf(0.1), law.ppf(0.5)) == (0, 1, 0, 0)
    heavy = fc.CoverageLaw(
        n_points=[5, 9], local_rank=[5, 9], server_rank=7, weights=[2, 7], max_faulty=1
    )
    assert (heavy.mean(), heavy.cdf(0.1)) == (0, 1)


@settings(max_examples=25)
@given(federations(sites=5, points=8), st.data())
def test_the_law_is_the_worst_of_all_sets_at_every_coverage(federation, data):
    sizes, ranks, weights, k = federation
    f = data.draw(st.integers(0, len(sizes) - 1))
    law = fc.CoverageLaw(
        n_points=sizes, local_rank=ranks, server_rank=k, weights=weights, max_faulty=f
    )
    for c in (Fraction(1, 8), Fraction(1, 2), Fraction(7, 8), Fraction(63, 64)):
        exact = float(worst_cdf(sizes, ranks, weights, k, c, f))
        assert law.cdf(float(c)) == pytest.approx(exact, abs=1e-13)
    assert 0 <= law.mean() <= 1


@pytest.mark.slow
def test_the_mean_is_the_integral_of_the_worst_cdf():
    """Another site is the worst above 0.6 than below, and again above 0.86: the cdf has
    kinks there.
    """
    sizes, ranks, weights = (
        [12, 29, 2, 20],
        [(4, 7), (3, 25), (1, 2), (10, 16)],
        [3, 2, 2, 1],
    )
    k, f = 11, 1
    law = fc.CoverageLaw(
        n_points=sizes, local_rank=ranks, server_rank=k, weights=weights, max_faulty=f
    )
    votes = totals(ranks, weights)
    grid = (np.arange(50_000) + 0.5) / 50_000
    tails = []
    for (j,) in combinations(range(4), f):
        honest = [i for i in range(4) if i != j]
        n, l, w = ([column[i] for i in honest] for column in (sizes, ranks, weights))
        alone = fc.CoverageLaw(
            n_points=n, local_rank=l, server_rank=k - votes[j], weights=w
        )
        tails.append(alone.cdf(grid))
    worst = np.argmax(tails, axis=0)
    assert np.count_nonzero(np.diff(worst[5_000:45_000])) >= 2
    assert law.mean() == pytest.approx(1 - np.max(tails, axis=0).mean(), abs=1e-9)


def test_beyond_a_thousand_choices_all_sites_are_kept_and_the_largest_are_given_away():
    sizes = np.arange(20, 66)
    weights = np.arange(1, 47)
    votes = Votes(np.ones(46, dtype=int), weights[:, None])
    assert n_choices(votes.counts, 2) > 1000
    assert isinstance(choose_tally(votes, votes, 2), Everyone)
    assert isinstance(choose_tally(votes, votes, 1), Choices)
    ranks, k = np.ceil(0.9 * (sizes + 1)).astype(int), 600
    law = fc.CoverageLaw(
        n_points=sizes, local_rank=ranks, server_rank=k, weights=weights, max_faulty=2
    )
    honest = fc.CoverageLaw(
        n_points=sizes, local_rank=ranks, server_rank=k - 46 - 45, weights=weights
    )
    assert law.mean() == pytest.approx(honest.mean(), abs=1e-15)
    for faulty in ((44, 45), (0, 1), (0, 45)):
        keep = [j for j in range(46) if j not in faulty]
        rest = fc.CoverageLaw(
            n_points=sizes[keep],
            local_rank=ranks[keep],
            server_rank=k - int(weights[list(faulty)].sum()),
            weights=weights[keep],
        )
        c = np.linspace(0.8, 0.98, 30)
        assert (law.cdf(c) >= rest.cdf(c) - 1e-14).all()


def one_by_one(choices, ks, p):
    """The worst tail, from the law of each choice by itself."""
    tails = []
    for left in leave_out(choices.votes.counts, choices.max_faulty):
        faulty = choices.votes.counts - left
        honest = Votes(left, choices.finite.weights)
        tails.append(vote_tails(ks - int(faulty @ choices.votes.by_site), p, honest))
    return np.max(tails, axis=0)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3))
def test_all_at_once_is_one_by_one(seed, blocks, numbers, faulty):
    votes, p = random_votes(
        np.random.default_rng(seed), blocks=blocks, numbers=numbers, most=7
    )
    if faulty >= votes.n_sites:
        return
    choices = Choices(votes, votes, faulty)
    ks, p = np.arange(choices.first, choices.last + 1), p[None] / GRID
    assert choices.tails(ks, p, digits=False) == pytest.approx(
        one_by_one(choices, ks, p), abs=5e-15
    )
    assert choices.tails(ks, p, digits=True) == pytest.approx(
        one_by_one(choices, ks, p), rel=1e-12
    )


def test_kinks_are_where_tails_cross():
    """A heavy site that is likely to vote, and a light one that is not."""
    votes = Votes(np.array([1, 1, 2]), np.array([[3], [2], [2]]))

    def below(c):
        return np.stack([c**0.5, c**3, c], axis=1)[..., None]

    choices, ks = Choices(votes, votes, 1), np.array([5])
    (kink,) = choices.kinks(ks, below, 0.01, 0.99)
    before, after = below(np.array([kink - 1e-9])), below(np.array([kink + 1e-9]))
    assert (
        choices._all_tails(ks, before).argmax()
        != choices._all_tails(ks, after).argmax()
    )
    assert Choices(votes, votes, 3).kinks(np.array([8]), below, 0.01, 0.99).size == 0


def test_one_vote_each_is_a_special_case_of_all_choices():
    """The order of probabilities decides who is worst, as trying everybody does."""
    votes = Votes(np.array([2, 1, 3]), np.ones((3, 1), dtype=int))
    one, every = OneVoteEach(votes, votes, 2), Choices(votes, votes, 2)
    assert (one.first, one.last) == (every.first, every.last) == (3, 6)
    p, ks = np.random.default_rng(0).random((50, 3, 1)), np.arange(3, 7)
    for digits in (True, False):
        assert one.tails(ks, p, digits=digits) == pytest.approx(
            every.tails(ks, p, digits=digits), abs=1e-14
        )
