"""All choices of faulty sites, at once and one by one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedconformal.laws._choices import Choices
from fedconformal.laws._tails import vote_tails
from fedconformal.laws._votes import Votes
from vote_laws import GRID, random_votes


def one_by_one(choices, ks, p):
    """The worst tail, from the law of each choice by itself."""
    tails = []
    for faulty in choices._faulty:
        honest = choices.finite.keeping(choices.finite.counts - faulty)
        tails.append(vote_tails(ks - int(faulty @ choices.votes.by_site), p, honest))
    return np.max(tails, axis=0)


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3))
def test_all_at_once_is_one_by_one(seed, blocks, numbers, faulty):
    votes, p = random_votes(np.random.default_rng(seed), blocks=blocks, numbers=numbers, most=7)
    if faulty >= votes.n_sites:
        return
    choices = Choices(votes, votes, faulty)
    ks, p = np.arange(choices.first, choices.last + 1), p[None] / GRID
    assert choices.tails(ks, p, digits=False) == pytest.approx(one_by_one(choices, ks, p), abs=5e-15)
    assert choices.tails(ks, p, digits=True) == pytest.approx(one_by_one(choices, ks, p), rel=1e-12)


def test_many_rows_and_large_blocks():
    votes = Votes(np.array([40, 30, 1]), np.array([[2, 1], [3, 3], [20, 20]]))
    choices = Choices(votes, votes, 2)
    low = np.linspace(0.05, 0.9, 70)[:, None] * np.array([1.0, 0.9, 0.7])
    p = np.stack([low, low**2], axis=2)
    ks = np.array([choices.first, 100, 150, 200, choices.last])
    assert choices.tails(ks, p, digits=False) == pytest.approx(one_by_one(choices, ks, p), abs=2e-14)


def test_kinks_are_where_tails_cross():
    """A heavy site that is likely to vote, and a light one that is not."""
    votes = Votes(np.array([1, 1, 2]), np.array([[3], [2], [2]]))

    def below(c):
        return np.stack([c**0.5, c**3, c], axis=1)[..., None]

    choices, ks = Choices(votes, votes, 1), np.array([5])
    (kink,) = choices.kinks(ks, below, 0.01, 0.99)
    before, after = below(np.array([kink - 1e-9])), below(np.array([kink + 1e-9]))
    assert choices._each(ks, before).argmax() != choices._each(ks, after).argmax()
    assert Choices(votes, votes, 3).kinks(np.array([8]), below, 0.01, 0.99).size == 0
