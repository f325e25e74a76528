"""The residual in sigmas, and that its sets are {y : score <= threshold}."""

import numpy as np
import pytest
from hypothesis import assume, example, given
from score_examples import holds, moderate, positive, step, steps

from fedconformal.scores import Normalized


def test_normalized_is_the_distance_in_sigmas():
    assert Normalized().score([3.0, 3.0], [[2.0, 0.5], [5.0, 4.0]]).tolist() == [2.0, 0.5]


# Here an allowance for one rounding instead of three leaves y out.
@example(mean=0.018862261478379928, sigma=0.203109881257811, y=0.0006578066438071281, n_floats=0)
@given(mean=moderate, sigma=positive, y=moderate, n_floats=steps)
def test_normalized_sets_are_the_numbers_that_score_at_most_the_threshold_up_to_rounding(
    mean, sigma, y, n_floats
):
    prediction = [[mean, sigma]]
    own = Normalized().score([y], prediction)[0]
    assume(own > 1e-290)  # no underflow
    assert holds(Normalized().set(prediction, own)[0], y)

    t = step(own, n_floats)
    [low, high] = interval = Normalized().set(prediction, t)[0]
    for near in (step(low, n_floats), step(high, n_floats)):
        assert holds(interval, near) or Normalized().score([near], prediction)[0] > t
    rounding = 4 * np.spacing(max(abs(mean), sigma * t)) / sigma + 8 * np.spacing(t)
    assert Normalized().score(interval, prediction * 2).max() <= t + rounding


def test_normalized_sets_refuse_sigma_zero():
    with pytest.raises(ValueError, match=r"sigma > 0 in column 1; not so in 1 of 1 rows"):
        Normalized().set([[0.0, 0.0]], 1.0)
