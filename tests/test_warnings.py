"""A warning points at the user's own line, through whichever door the user came in."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import fedconformal as fc

TWO = np.array([0.1, 0.2])


def _plan() -> None:
    fc.plan(n_sites=1, n_points=2)


def _conformalize() -> None:
    fc.conformalize({"A": TWO})


def _estimator() -> None:
    X = TWO[:, None]
    fc.FederatedConformalRegressor(LinearRegression().fit(X, TWO)).conformalize(
        X, TWO, sites=["A", "A"]
    )


def _empty_interval() -> None:
    fc.scores.QuantileRegression().set(np.array([[0.0, 1.0]]), -2.0)


def _empty_intervals() -> None:
    fc.scores.QuantileRegression().sets(np.array([[0.0, 1.0]]), np.array([-2.0]))


@pytest.mark.parametrize(
    "door", [_plan, _conformalize, _estimator, _empty_interval, _empty_intervals]
)
def test_a_warning_points_at_the_line_of_its_user(door) -> None:
    with pytest.warns(UserWarning, match="infinite|empty") as caught:
        door()
    assert {each.filename for each in caught} == {__file__}
