"""Votes added site by site."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedconformal.laws._adding import added_tails
from fedconformal.laws._votes import Votes
from vote_laws import cases


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 3), st.integers(1, 9))
def test_tails_agree_with_fractions_digit_by_digit(seed, blocks, numbers, most):
    ks, p, votes, exact = cases(seed, blocks=blocks, numbers=numbers, most=most)
    assert added_tails(ks, p, votes, votes.sums)[0] == pytest.approx(exact, rel=1e-13)


def test_tails_down_to_the_smallest_numbers():
    votes = Votes(np.array([30]), np.array([[1]]))
    tails = added_tails(np.arange(31), np.array([[[1e-10]]]), votes, votes.sums)[0]
    assert tails[30] == pytest.approx(1e-300, rel=1e-13)
    assert tails[29] == pytest.approx(30e-290, rel=1e-9)


def test_huge_weights_of_a_few_sites_are_no_matter():
    votes = Votes(np.array([1, 1, 1]), np.array([[10**15], [10**15 + 1], [3]]))
    p = np.array([[[0.5], [0.25], [0.125]]])
    tails = added_tails(np.array([1, 4, 10**15 + 1, 10**15 + 2, 2 * 10**15 + 4]), p, votes, votes.sums)[0]
    assert tails.tolist() == [
        1 - 0.5 * 0.75 * 0.875,
        1 - 0.5 * 0.75,
        0.25 + 0.75 * 0.5 * 0.125,
        0.25 * (1 - 0.5 * 0.875) + 0.75 * 0.5 * 0.125,
        0.5 * 0.25 * 0.125,
    ]
