"""P(votes >= k), whichever way it is computed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from fedconformal.laws import count_tails
from fedconformal.laws._tails import vote_tails, worth_adding
from fedconformal.laws._votes import Votes
from vote_laws import cases


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 3), st.integers(1, 9), st.booleans())
def test_tails_agree_with_fractions(seed, blocks, numbers, most, digits):
    ks, p, votes, exact = cases(seed, blocks=blocks, numbers=numbers, most=most)
    assert vote_tails(ks, p, votes, digits=digits)[0] == pytest.approx(exact, abs=3e-15)


def test_votes_needed_outside_the_range_are_certain():
    votes = Votes(np.array([2, 1]), np.array([[2], [3]]))
    tails = vote_tails(np.array([-5, 0, 8, 10**9]), np.full((2, 2, 1), 0.5), votes)
    assert tails.tolist() == [[1.0, 1.0, 0.0, 0.0]] * 2
    assert vote_tails(np.array([1]), np.empty((0, 2, 1)), votes).shape == (0, 1)


def test_equal_sites_with_equal_votes_are_a_binomial_count():
    votes = Votes(np.array([10**6, 0]), np.array([[7], [3]]))
    ks = np.array([1, 7 * 400_000, 7 * 400_000 + 1])
    expected = special.betainc([1, 400_000, 400_001], 10**6 + 1 - np.array([1, 400_000, 400_001]), 0.4)
    assert vote_tails(ks, np.full((1, 2, 1), 0.4), votes)[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("m", [10, 30, 100, 400])
def test_small_tails_have_digits_if_asked_for(m):
    ks = np.arange(1, m + 1)
    tails = count_tails(ks, np.full((1, 2), 0.01), np.array([m // 2, m // 2]))[0]
    assert tails == pytest.approx(special.betainc(ks, m - ks + 1, 0.01), rel=1e-11)


def test_both_ways_are_used():
    few = Votes(np.ones(5, dtype=int), np.arange(1, 6)[:, None])
    many = Votes(np.ones(500, dtype=int), np.ones((500, 1), dtype=int))
    assert worth_adding(few, 100, digits=False)
    assert not worth_adding(many, 1, digits=True)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.integers(1, 3))
def test_counts_of_sites_are_monotone_probabilities(p, count):
    m = count * len(p)
    tails = count_tails(np.arange(0, m + 2), np.array([p]), np.full(len(p), count))[0]
    assert tails[0] == 1
    assert tails[-1] == 0
    assert (np.diff(tails) <= 1e-15).all()
    assert -np.diff(tails) @ np.arange(m + 1) == pytest.approx(count * sum(p), abs=1e-12 * m)
