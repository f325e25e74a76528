"""Regularized adaptive prediction sets."""

import numpy as np
import pytest
from score_examples import inf

from fedconformal.scores import APS, RAPS


def test_raps_without_penalty_is_aps():
    prediction = np.random.default_rng(0).dirichlet(np.ones(8), 100)
    y = np.arange(100) % 8
    np.testing.assert_array_equal(RAPS(penalty=0.0, k_reg=0).score(y, prediction), APS().score(y, prediction))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"penalty": -0.1}, "penalty must be a finite number >= 0, got -0.1"),
        ({"penalty": inf}, "penalty must be a finite number >= 0, got inf"),
        ({"penalty": np.nan}, "penalty must be a finite number >= 0, got nan"),
        ({"penalty": "0.1"}, "penalty must be a finite number >= 0, got '0.1'"),
        ({"penalty": True}, "penalty must be a finite number >= 0, got True"),
        ({"k_reg": -1}, "k_reg must be an integer >= 0, got -1"),
        ({"k_reg": 2.0}, "k_reg must be an integer >= 0, got 2.0"),
        ({"k_reg": True}, "k_reg must be an integer >= 0, got True"),
        ({"randomized": 1}, "randomized must be True or False, got 1"),
    ],
)
def test_raps_refuses_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        RAPS(**parameters)


def test_parameters_are_plain_numbers():
    parameters = RAPS(penalty=np.float32(0.5), k_reg=np.int64(2)).parameters()
    assert parameters == {"penalty": 0.5, "k_reg": 2, "randomized": False}
    assert [type(value) for value in parameters.values()] == [float, int, bool]
    assert type(RAPS(penalty=1).penalty) is float
