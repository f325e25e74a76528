"""Private reports through the estimators."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import fedconformal as fc
from fedconformal import FederatedConformalRegressor as Regressor

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1600, 1))
Y = X[:, 0] + RNG.normal(size=1600)
MODEL = LinearRegression().fit(X[:100], Y[:100])
SITES = np.arange(1500) % 5
PRIVACY = fc.Privacy(4.0, fc.Bins.uniform(0, 4, 30))


@pytest.fixture(scope="module")
def private():
    return Regressor(MODEL, privacy=PRIVACY).conformalize(X[100:], Y[100:], sites=SITES)


def test_accounts_are_simulated(private):
    assert private.plan_.epsilon == 4
    assert private.thresholds_[0] in private.plan_.bins.edges
    assert private.predict_interval(X[:5])[1].shape == (5, 2, 1)


def test_a_calibration_from_elsewhere_must_be_as_private(private):
    found = private.calibration_
    assert Regressor(MODEL, privacy=PRIVACY).from_calibration(found).calibration_ is found
    assert Regressor(MODEL).from_calibration(found).calibration_ is found
    stricter = Regressor(MODEL, privacy=fc.Privacy(1.0, PRIVACY.bins))
    with pytest.raises(ValueError, match=r"an epsilon of 1, and the calibration has an epsilon of 4"):
        stricter.from_calibration(found)
    exact = Regressor(MODEL).conformalize(X[100:], Y[100:], sites=SITES).calibration_
    with pytest.raises(ValueError, match="the calibration has exact reports"):
        Regressor(MODEL, privacy=PRIVACY).from_calibration(exact)
