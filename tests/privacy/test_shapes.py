import numpy as np
import pytest
from scipy import stats

from fedconformal.privacy import SHAPES
from fedconformal.privacy._shapes import spread_of

EDGES = np.linspace(0.1, 10, 100)
PEERS = {"uniform": stats.uniform(0, 10), "half-normal": stats.halfnorm(), "gamma": stats.gamma(2)}


def test_every_shape_has_a_peer():
    assert set(SHAPES) == set(PEERS)


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_are_known_distributions_at_a_tenth_of_the_last_edge(name):
    for high in (10.0, 0.3):
        shares = PEERS[name].cdf(EDGES)
        shares[-1] = 1.0
        spread = spread_of(name, high)
        assert spread.masses(EDGES * high / 10, EDGES.size) == pytest.approx(
            np.diff(shares, prepend=0.0), abs=1e-14
        )


def test_scores_below_zero_have_no_mass():
    assert spread_of("gamma", 10.0).masses([-2.0, -1.0, 10.0], 3).tolist() == [0.0, 0.0, 1.0]


def test_a_sample_is_its_own_distribution():
    spread = spread_of([1.0, 2.0, 2.0, 9.0], 5.0)
    assert spread.masses([1.0, 1.5, 3.0, 5.0], 4).tolist() == [0.25, 0.0, 0.5, 0.25]
    assert spread.masses([1.0, 1.5, 3.0, 5.0], 5).tolist() == [0.25, 0.0, 0.5, 0.0, 0.25]


@pytest.mark.parametrize(
    ("scores", "high", "words"),
    [
        ("cauchy", 1.0, r"scores must be one of 'uniform', .* got 'cauchy'"),
        ("gamma", -1.0, "scores must be a sample where the last edge is not above 0, got 'gamma'"),
        ([1.0], 1.0, r"scores must be a name or a flat list .* got shape \(1,\)"),
        ([1.0, np.nan], 1.0, r"at least two finite numbers, got shape \(2,\) with 1 finite"),
        ([[1.0, 2.0]], 1.0, r"got shape \(1, 2\)"),
    ],
)
def test_what_is_neither_is_refused(scores, high, words):
    with pytest.raises(ValueError, match=words):
        spread_of(scores, high)
