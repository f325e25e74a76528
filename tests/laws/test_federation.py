"""The law of a whole federation, for many votes needed at once, and its integrals."""

from fractions import Fraction
from itertools import pairwise
from math import comb

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

import fedconformal as fc
from fedconformal.laws import OrderStatistics, Shifted, exact_cdf, exact_mean
from fedconformal.laws._federation import Federation
from fedconformal.laws._sites import integrate
from vote_laws import federations


@settings(max_examples=20)
@given(federations(sites=4, points=8, most=4), st.data())
def test_many_votes_needed_at_once(federation, data):
    sizes, ranks, weights, _ = federation
    law = fc.CoverageLaw(
        n_points=sizes, local_rank=ranks, server_rank=1, weights=weights
    ).federation
    ks = np.arange(1, law.n_votes + 2)
    c = Fraction(data.draw(st.integers(1, 63)), 64)
    mean, variance = law.moments(ks)
    exact = [float(exact_mean(sizes, ranks, k, weights=weights)) for k in ks.tolist()]
    assert mean == pytest.approx(exact, abs=1e-12)
    assert (variance >= 0).all()
    assert (np.diff(mean) >= -1e-13).all()
    cdf = law.cdf(np.array([float(c)]), ks)[0]
    exact = [float(exact_cdf(sizes, ranks, k, c, weights=weights)) for k in ks.tolist()]
    assert cdf == pytest.approx(exact, abs=1e-14)


def test_equal_sites_beside_those_without_a_vote():
    sites = OrderStatistics(np.array([5, 40]), np.array([4, 37]))
    law = Federation(sites, np.array([3, 7]), weights=np.array([0, 3]))
    assert law.equal == (7, 40, 37)
    assert law.moments(np.array([12, 22]))[0] == pytest.approx(
        [fc.CoverageLaw(7, 40, 37, 4).mean(), 1]
    )
    # One who sends +inf may lie, and is told apart from one who has no number.
    infinite = OrderStatistics(np.array([5, 40]), np.array([6, 37]))
    assert Federation(infinite, np.array([3, 7]), 1, np.array([0, 1])).equal is None
    assert Federation(infinite, np.array([3, 7]), 1, np.array([1, 1])).equal == (
        7,
        40,
        37,
    )


def test_votes_out_of_reach():
    law = Federation(
        OrderStatistics(np.array([5, 9]), np.array([6, 8])), np.array([2, 3]), 1
    )
    assert law.is_proper(np.arange(0, 7)).tolist() == [
        False,
        False,
        True,
        True,
        True,
        False,
        False,
    ]
    mean, variance = law.moments(np.array([0, 1, 5, 6]))
    assert mean.tolist() == [0, 0, 1, 1]
    assert variance.tolist() == [0, 0, 0, 0]


def binomial_tail(k, p):
    """P(Binomial(5, p) >= k) in mpmath."""
    return mp.fsum(comb(5, j) * p**j * (1 - p) ** (5 - j) for j in range(max(k, 0), 6))


def mean_beside_large_sites(n, rank):
    """Five sites of 19 points, rank 9, beside five of n points: the fifth smallest
    report, in mpmath.

    The large sites' Beta density is integrated over 12 standard deviations each way.
    """
    scale = mp.loggamma(n + 1) - mp.loggamma(rank) - mp.loggamma(n - rank + 1)

    def density(x):
        return mp.exp((rank - 1) * mp.log(x) + (n - rank) * mp.log1p(-x) + scale)

    def small(c):
        return mp.fsum(comb(19, i) * c**i * (1 - c) ** (19 - i) for i in range(9, 20))

    def integral(f, low, high):
        return mp.quad(f, [low, high], method="gauss-legendre", maxdegree=4)

    middle = mp.mpf(rank - 1) / (n - 1)
    edges = [
        middle + z * mp.sqrt(middle * (1 - middle) / n) for z in (-12, -6, 0, 6, 12)
    ]
    missed, before = (
        integral(lambda c: binomial_tail(5, small(c)), 0, edges[0]) + 1 - edges[-1],
        mp.mpf(0),
    )
    for low, high in pairwise(edges):

        def cdf(c, low=low, before=before):
            p, large = small(c), before + integral(density, low, c)
            exactly = [comb(5, j) * large**j * (1 - large) ** (5 - j) for j in range(6)]
            return mp.fsum(exactly[j] * binomial_tail(5 - j, p) for j in range(6))

        missed += integral(cdf, low, high)
        before += integral(density, low, high)
    return 1 - missed


STEP, AT_STEP, MEAN_THERE = 4690527491, 2521381242, 0.524767917733788769


@pytest.mark.nightly
def test_the_mean_beside_large_sites():
    with mp.workdps(22):
        assert float(mean_beside_large_sites(STEP, AT_STEP)) == pytest.approx(
            MEAN_THERE, abs=1e-15
        )


@pytest.mark.parametrize("shifted", [False, True])
def test_a_narrow_step_between_two_nodes(shifted):
    n, rank = STEP, AT_STEP
    sites = OrderStatistics(np.array([19, n]), np.array([9, rank]))
    law = Federation(
        Shifted(sites, [np.asarray] * 2) if shifted else sites, np.array([5, 5])
    )
    assert law.moments(np.array([5]))[0][0] == pytest.approx(MEAN_THERE, abs=1e-13)


def test_small_probabilities_of_large_federations_keep_their_digits():
    """A hundred equal sites, in closed form and as two blocks beside one that sends
    +inf.
    """
    sites = OrderStatistics(np.array([50]), np.array([45]))
    c, ks = np.array([0.6, 0.7, 0.8]), np.array([50, 80])
    closed = Federation(sites, np.array([100])).cdf(c, ks)
    assert closed.min() < 1e-40
    uneven = OrderStatistics(np.array([50, 50, 60]), np.array([45, 45, 61]))
    votes = Federation(uneven, np.array([50, 50, 1]), weights=np.array([2, 2, 1]))
    assert votes.equal is None
    assert votes.cdf(c, 2 * ks) == pytest.approx(closed, rel=1e-11)


@given(st.floats(0.001, 0.999), st.integers(1, 12))
def test_a_step_cannot_hide(place, digits):
    """P(C <= c) rises from 0 to 1 at ``place`` within 10^-digits: the area is 1 -
    place.
    """
    width = 10.0**-digits

    def step(c):
        return special.ndtr((c - place) / width)[:, None]

    upper, lower = (1 - place) / width, place / width

    def integral(z):
        return z * special.ndtr(z) + np.exp(-z * z / 2) / np.sqrt(2 * np.pi)

    exact = width * (integral(upper) - integral(-lower))
    assert integrate(step, np.array([0.0, 1.0]), tolerance=1e-13)[0] == pytest.approx(
        exact, abs=2e-12
    )
