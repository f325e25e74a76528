"""Votes by their characteristic function."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedconformal.laws._votes import (
    Votes,
    added_tails,
    make_frame,
    power,
    spectral_tails,
    spectrum,
)
from vote_laws import cases


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 3), st.integers(1, 9))
def test_tails_agree_with_fractions(seed, blocks, numbers, most):
    ks, p, votes, exact = cases(seed, blocks=blocks, numbers=numbers, most=most)
    assert spectral_tails(ks, p, votes)[0] == pytest.approx(exact, abs=3e-15)


def binomial_tails(ks, m, p):
    """P(Binomial(m, p) >= k) to 20 digits, from ratios of neighbouring terms, 15
    deviations each way.

    SciPy's incomplete beta function is not used: before SciPy 1.17 it is wrong by 7e-14
    at m = 10,000.
    """
    middle, reach = int(m * p), int(15 * np.sqrt(m * p * (1 - p))) + 1
    low, high = max(middle - reach, 0), min(middle + reach, m)
    with mp.workdps(30):
        odds = mp.mpf(p) / (1 - mp.mpf(p))
        terms = {middle: mp.mpf(1)}
        for k in range(middle, high):
            terms[k + 1] = terms[k] * (m - k) / (k + 1) * odds
        for k in range(middle, low, -1):
            terms[k - 1] = terms[k] * k / (m - k + 1) / odds
        total = mp.fsum(terms.values())
        return [
            float(mp.fsum(terms[j] for j in range(max(k, low), high + 1)) / total)
            for k in ks.tolist()
        ]


@pytest.mark.parametrize("m", [100, 10_000])
def test_two_blocks_of_equal_sites_are_one_binomial_count(m):
    votes, p = Votes(np.array([m // 2, m // 2]), np.ones((2, 1), dtype=int)), 0.35
    ks = np.rint(m * p + np.sqrt(m * p * (1 - p)) * np.linspace(-7, 9, 17)).astype(int)
    tails = spectral_tails(ks, np.full((1, 2, 1), p), votes)[0]
    assert tails == pytest.approx(
        binomial_tails(ks, m, p), abs=1e-16 * np.sqrt(m) + 2e-15
    )


def many_sites(rows, seed=0):
    """Sixty sites with different weights: wide enough for a window, few enough to be
    added.
    """
    rng = np.random.default_rng(seed)
    weights = np.repeat(rng.integers(1, 13, (60, 1)), 3, axis=1)
    p = np.linspace(0.05, 0.95, rows)[:, None, None] * rng.uniform(
        0.9, 1, (1, 60, 1)
    ) ** np.arange(1, 4)
    return p, Votes(np.ones(60, dtype=int), weights)


def test_many_different_sites_agree_with_adding():
    p, votes = many_sites(rows=40)
    ks = np.arange(0, votes.total + 2, 7)
    assert spectral_tails(ks, p, votes) == pytest.approx(
        added_tails(ks, p, votes), abs=5e-15
    )


def test_frequencies_that_are_left_out_do_not_matter():
    rng = np.random.default_rng(1)
    votes = Votes(np.full(200, 2), rng.integers(1, 10, (200, 1)))
    p = rng.uniform(0.4, 0.6, (3, 200, 1))
    law = spectrum(p, votes)
    assert law.frame.length < votes.total
    assert law.frame.frequencies.size < law.frame.length // 8
    mass = -np.diff(law.tails(np.arange(votes.total + 2)))
    assert mass.sum(axis=1) == pytest.approx([1] * 3, abs=1e-14)
    assert mass @ np.arange(votes.total + 1) == pytest.approx(votes.mean(p), rel=1e-12)


def test_too_many_votes_are_refused():
    votes = Votes(np.ones(100, dtype=int), 10**6 + np.arange(100)[:, None])
    with pytest.raises(ValueError, match=r"weights must be smaller: 100004950 votes"):
        make_frame(np.full((1, 100, 1), 0.5), votes)


@pytest.mark.parametrize("count", [3, 10**6])
def test_a_characteristic_function_that_vanishes_has_powers_of_zero(count):
    assert np.abs(power(np.array([[-1.0 + 0j, 0j]]), count)) == pytest.approx(
        [0.0, 1.0], abs=1e-20
    )
