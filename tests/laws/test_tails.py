"""P(votes >= k), whichever way it is computed; binomial counts; who casts how many
votes.
"""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from fedconformal.laws._curves import binomial_masses
from fedconformal.laws._votes import (
    Votes,
    added_tails,
    heaviest,
    honest_counts,
    tilted_tails,
    vote_tails,
)
from vote_laws import cases


@given(
    st.integers(0, 10**6),
    st.integers(1, 5),
    st.integers(1, 3),
    st.integers(1, 9),
    st.booleans(),
)
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
    expected = special.betainc(
        [1, 400_000, 400_001], 10**6 + 1 - np.array([1, 400_000, 400_001]), 0.4
    )
    assert vote_tails(ks, np.full((1, 2, 1), 0.4), votes)[0] == pytest.approx(
        expected, rel=1e-12
    )


@pytest.mark.parametrize("m", [10, 30, 100, 400])
def test_small_tails_have_digits_if_asked_for(m):
    ks = np.arange(1, m + 1)
    tails = vote_tails(
        ks, np.full((1, 2, 1), 0.01), votes([m // 2, m // 2], [[1], [1]])
    )[0]
    assert tails == pytest.approx(special.betainc(ks, m - ks + 1, 0.01), rel=1e-11)


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 3), st.integers(1, 9))
def test_tails_agree_with_fractions_digit_by_digit(seed, blocks, numbers, most):
    ks, p, votes, exact = cases(seed, blocks=blocks, numbers=numbers, most=most)
    assert added_tails(ks, p, votes)[0] == pytest.approx(exact, rel=1e-13)


def test_tails_down_to_the_smallest_numbers():
    votes = Votes(np.array([30]), np.array([[1]]))
    tails = added_tails(np.arange(31), np.array([[[1e-10]]]), votes)[0]
    assert tails[30] == pytest.approx(1e-300, rel=1e-13)
    assert tails[29] == pytest.approx(30e-290, rel=1e-9)


@pytest.mark.parametrize("scale", [0.5, 0.1, 1e-3])
@pytest.mark.parametrize(
    ("m", "numbers", "most"), [(60, 1, 1), (60, 2, 10), (40, 3, 5)]
)
def test_tails_keep_their_digits(m, numbers, most, scale):
    rng = np.random.default_rng(m + numbers)
    votes = Votes(
        np.ones(m, dtype=int),
        np.repeat(rng.integers(1, most + 1, (m, 1)), numbers, axis=1),
    )
    p = (rng.random((1, m, 1)) * scale) ** (1 + 0.7 * np.arange(numbers))
    ks = np.arange(1, votes.total + 1, max(1, votes.total // 40))
    exact = added_tails(ks, p, votes)[0]
    small = (exact < 1e-3) & (exact > 1e-290)
    assert small.sum() > 10
    assert exact[small].min() < 1e-40
    tails = tilted_tails(ks[small], np.repeat(p, small.sum(), axis=0), votes)
    assert tails == pytest.approx(exact[small], rel=2e-12)


def test_what_cannot_happen_has_probability_zero():
    votes = Votes(np.array([2, 1]), np.array([[3, 1], [2, 2]]))
    p = np.array([[[0.001, 0.0], [0.5, 0.001]]] * 3)
    assert tilted_tails(np.array([11, 12, 10]), p, votes)[:2].tolist() == [0.0, 0.0]
    assert tilted_tails(np.array([10]), p[:1], votes)[0] == pytest.approx(
        0.001**3, rel=1e-12
    )


def test_no_rows():
    assert (
        tilted_tails(
            np.empty(0, dtype=int),
            np.empty((0, 1, 1)),
            Votes(np.array([1]), np.array([[1]])),
        ).size
        == 0
    )


@given(st.integers(1, 60), st.integers(1, 19))
def test_masses_agree_with_fractions(m, twentieths):
    p = Fraction(twentieths, 20)
    first, masses = binomial_masses(np.array([float(p), 0.5]), m)
    exact = [float(comb(m, j) * p**j * (1 - p) ** (m - j)) for j in range(m + 1)]
    kept = exact[first : first + masses.shape[1]]
    assert masses[0] == pytest.approx(kept, abs=1e-14)
    assert sum(exact) - sum(kept) < 1e-18


def test_masses_of_many_trials_keep_to_those_that_matter():
    first, masses = binomial_masses(np.array([0.3]), 10**6)
    assert masses.shape[1] < 10**4
    assert masses.sum() == pytest.approx(1, abs=1e-12)
    assert first + masses[0] @ np.arange(masses.shape[1]) == pytest.approx(
        300_000, rel=1e-10
    )


def test_those_least_likely_to_lie_below_are_left_out():
    p = np.array([[0.1, 0.9, 0.5], [0.9, 0.1, 0.5]])
    assert honest_counts(p, np.array([2, 3, 4]), 3).tolist() == [[0, 3, 3], [2, 0, 4]]
    assert honest_counts(p, np.array([2, 3, 4]), 0).tolist() == [[2, 3, 4]] * 2


def votes(counts, weights):
    return Votes(np.array(counts), np.array(weights))


def test_equal_votes_are_one_kind_and_empty_blocks_none():
    kinds = votes([1, 2, 1, 0], [[3], [3], [3], [5]]).kinds
    assert [
        (count, cast.tolist(), blocks.tolist()) for count, cast, blocks in kinds
    ] == [
        (1, [3], [0, 2]),
        (2, [3], [1]),
    ]


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), min_size=1, max_size=5),
    st.data(),
)
def test_the_largest_sites(blocks, data):
    some = votes([count for count, _ in blocks], [[weight] for _, weight in blocks])
    every = sorted(
        (weight for count, weight in blocks for _ in range(count)), reverse=True
    )
    n = data.draw(st.integers(0, len(every)))
    assert heaviest(some.by_site, some.counts, n) == sum(every[:n])
