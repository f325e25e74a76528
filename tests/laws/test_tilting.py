"""Tails far below rounding error, against positive sums that keep every digit."""

import numpy as np
import pytest
from scipy import special

from fedconformal.laws._adding import added_tails
from fedconformal.laws._tilting import tilted_tails
from fedconformal.laws._votes import Votes


@pytest.mark.parametrize("scale", [0.5, 0.1, 1e-3])
@pytest.mark.parametrize(("m", "numbers", "most"), [(60, 1, 1), (60, 2, 10), (40, 3, 5)])
def test_tails_keep_their_digits(m, numbers, most, scale):
    rng = np.random.default_rng(m + numbers)
    votes = Votes(np.ones(m, dtype=int), np.repeat(rng.integers(1, most + 1, (m, 1)), numbers, axis=1))
    p = (rng.random((1, m, 1)) * scale) ** (1 + 0.7 * np.arange(numbers))
    ks = np.arange(1, votes.total + 1, max(1, votes.total // 40))
    exact = added_tails(ks, p, votes, votes.sums)[0]
    small = (exact < 1e-3) & (exact > 1e-290)
    assert small.sum() > 10
    assert exact[small].min() < 1e-40
    tails = tilted_tails(ks[small], np.repeat(p, small.sum(), axis=0), votes)
    assert tails == pytest.approx(exact[small], rel=2e-12)


def test_many_sites():
    m, p = 10**4, 0.35
    ks = np.array([3700, 4000, 5000])
    tails = tilted_tails(ks, np.full((3, 2, 1), p), Votes(np.array([m // 2] * 2), np.ones((2, 1), dtype=int)))
    assert tails == pytest.approx(special.betainc(ks, m - ks + 1, p), rel=1e-10)


def test_what_cannot_happen_has_probability_zero():
    votes = Votes(np.array([2, 1]), np.array([[3, 1], [2, 2]]))
    p = np.array([[[0.001, 0.0], [0.5, 0.001]]] * 3)
    assert tilted_tails(np.array([11, 12, 10]), p, votes)[:2].tolist() == [0.0, 0.0]
    assert tilted_tails(np.array([10]), p[:1], votes)[0] == pytest.approx(0.001**3, rel=1e-12)


def test_no_rows():
    assert (
        tilted_tails(np.empty(0, dtype=int), np.empty((0, 1, 1)), Votes(np.array([1]), np.array([[1]]))).size
        == 0
    )
