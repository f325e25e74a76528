import math
from fractions import Fraction

import pytest

from fedconformal.privacy import Bins, Privacy

BINS = Bins.uniform(0, 1, 100)


@pytest.mark.parametrize("epsilon", [0, 1e-7, math.nan, 1e6])
def test_epsilon_has_a_range(epsilon):
    with pytest.raises(ValueError, match=r"epsilon must be a number in .*100\]"):
        Privacy(epsilon, BINS)


@pytest.mark.parametrize("epsilon", ["1", True])
def test_an_epsilon_that_is_no_number(epsilon):
    with pytest.raises(TypeError, match="epsilon must be a number in"):
        Privacy(epsilon, BINS)


def test_the_rest():
    with pytest.raises(TypeError, match="bins must be Bins"):
        Privacy(1, [0, 1])
    with pytest.raises(TypeError, match="epsilon comes first, then the bins"):
        Privacy(BINS, 1)
    with pytest.raises(
        ValueError, match=r"analysis must be one of 'curve', 'paper', got 'tight'"
    ):
        Privacy(1, BINS, analysis="tight")
    with pytest.raises(
        ValueError, match=r"gamma is a parameter of analysis 'paper', got 0\.5"
    ):
        Privacy(1, BINS, gamma=0.5)
    with pytest.raises(ValueError, match=r"gamma must be a number in \(0, 1\), got 1"):
        Privacy(1, BINS, analysis="paper", gamma=1)


def test_epsilon_is_the_decimal_that_was_written():
    assert Privacy(0.1, BINS).exact_epsilon == Fraction(1, 10)
    assert Privacy(1e-6).exact_epsilon == Fraction(1, 10**6)


def test_an_analysis_has_its_message_and_its_criterion():
    curve, paper = Privacy(1, BINS), Privacy(1, BINS, analysis="paper", gamma=0.5)
    assert (curve.message, curve.default_criterion) == ("curve", None)
    assert (paper.message, paper.default_criterion) == ("bin", "marginal")
