"""Estimators for sites that differ."""

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor

from fedconformal import FederatedConformalRegressor as Regressor

X, Y = np.zeros((1200, 1)), np.random.default_rng(0).standard_normal(1200)
SITES = np.repeat([f"site {i}" for i in range(12)], 100)
MODEL = DummyRegressor(strategy="constant", constant=0.0).fit(X, Y)
SHARES = {f"site {i}": i + 1.0 for i in range(12)}


def test_a_mixture_and_a_new_site():
    mixed = Regressor(MODEL, promise="mixture", mixture=SHARES).conformalize(X, Y, sites=SITES)
    assert (mixed.plan_.promise, len(mixed.plan_.local_ranks[0])) == ("mixture", 5)
    assert float(mixed.plan_.mixture["site 11"]) == pytest.approx(12 / 78)
    new = Regressor(MODEL, promise="new-site", numbers=3).conformalize(X, Y, sites=SITES)
    assert (new.plan_.message.numbers, new.calibration_.law) == (3, None)
    assert np.isfinite(new.thresholds_).all()


def test_a_calibration_from_elsewhere_must_be_for_the_same_mixture():
    found = Regressor(MODEL, promise="mixture", mixture=SHARES).conformalize(X, Y, sites=SITES).calibration_
    assert Regressor(MODEL, promise="mixture", mixture=SHARES).from_calibration(found).calibration_ == found
    twice = {site: 2 * share for site, share in SHARES.items()}
    assert Regressor(MODEL, promise="mixture", mixture=twice).from_calibration(found).calibration_ == found
    other = {**SHARES, "site 0": 5.0}
    with pytest.raises(ValueError, match="mixture must be that of the calibration"):
        Regressor(MODEL, promise="mixture", mixture=other).from_calibration(found)
    with pytest.raises(ValueError, match="the calibration promises less than is asked for"):
        Regressor(MODEL, criterion="marginal").from_calibration(found)
    with pytest.raises(ValueError, match="the calibration promises less than is asked for"):
        Regressor(MODEL, promise="new-site").from_calibration(found)
