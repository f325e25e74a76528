"""A calibration from elsewhere: used if it promises what is asked for, refused if it
promises less.
"""

import numpy as np
import pytest
from estimator_examples import LEVELS, RESIDUALS, Foreign, federation, some_sites
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression

import fedconformal as fc
from fedconformal import FederatedConformalRegressor as Regressor

EACH_SITE_FOR_SURE = {
    "promise": "each-site",
    "criterion": "conditional",
    "confidence_level": 0.5,
}


def test_a_calibration_file_gives_the_intervals_of_conformalize(numbers, tmp_path):
    train, (X, y), (X_test, _) = numbers
    model = LinearRegression().fit(*train)
    here = Regressor(model, confidence_level=LEVELS).conformalize(
        X, y, sites=some_sites(len(X))
    )
    path = tmp_path / "calibration.json"
    path.write_text(here.calibration_.to_json())
    there = Regressor(model, confidence_level=LEVELS).from_calibration(
        fc.Calibration.read(path)
    )
    assert there.plan_ == here.plan_
    np.testing.assert_array_equal(
        there.predict_interval(X_test)[1], here.predict_interval(X_test)[1]
    )
    some = Regressor(model, confidence_level=0.9).from_calibration(
        fc.Calibration.read(path)
    )
    np.testing.assert_array_equal(
        some.predict_interval(X_test)[1], here.predict_interval(X_test)[1][:, :, 2:]
    )


@pytest.mark.parametrize(
    ("wishes", "parameters", "message"),
    [
        (
            {"score": "cqr"},
            {},
            r"conformity_score must be .* QuantileRegression\(\), got Absolute\(\)",
        ),
        (
            {},
            {"confidence_level": 0.8},
            r"among those of the calibration, \[0\.9\], got \[0\.8\]",
        ),
        (
            {},
            {"max_faulty": 1},
            r"promises less .* max_faulty=0 instead of .* max_faulty=1",
        ),
        (
            {},
            {"criterion": "conditional"},
            "criterion='stable', .* criterion='conditional', delta=0.1",
        ),
        (
            {},
            {"promise": "each-site"},
            "promise='population', .* instead of promise='each-site', ",
        ),
        (
            {"criterion": "conditional", "delta": 0.2},
            {"criterion": "conditional"},
            "delta=0.2, .* delta=0.1",
        ),
        ({"criterion": "conditional", "delta": 0.5}, {}, "promises less"),
    ],
)
def test_a_calibration_that_promises_less_is_refused(wishes, parameters, message):
    model = DummyRegressor().fit([[0], [0]], [0, 1])
    # One site of 8: half of the time the coverage exceeds 0.9, but its mean is 8 / 9.
    data = RESIDUALS[:1, :8] if wishes.get("delta") == 0.5 else RESIDUALS
    calibration = federation(data, **wishes)
    regressor = Regressor(model, **parameters)
    with pytest.raises(ValueError, match=message):
        regressor.from_calibration(calibration)
    assert not hasattr(regressor, "calibration_")


@pytest.mark.parametrize(
    ("wishes", "parameters"),
    [
        ({"criterion": "stable"}, {"criterion": "marginal"}),
        ({"criterion": "marginal"}, {"criterion": "stable"}),
        ({"promise": "each-site"}, {}),
        (EACH_SITE_FOR_SURE, EACH_SITE_FOR_SURE),
        ({"criterion": "conditional"}, {}),
        ({"criterion": "conditional", "delta": 0.05}, {"criterion": "conditional"}),
        ({"max_faulty": 1, "score": "absolute"}, {}),
    ],
)
def test_a_calibration_that_promises_as_much_is_welcome(wishes, parameters):
    """The promise of stable and marginal is the mean, so either will do for the other
    if the mean does.
    """
    model = DummyRegressor().fit([[0], [0]], [0, 1])
    calibration = federation(RESIDUALS, **wishes)
    regressor = Regressor(model, **parameters).from_calibration(calibration)
    assert regressor.calibration_ is calibration
    assert regressor.thresholds_.tolist() == [calibration.threshold]


def test_a_path_is_not_a_calibration():
    with pytest.raises(TypeError, match=r"Calibration\.read\(path\) gives, got str"):
        Regressor(Foreign()).from_calibration("calibration.json")


# -- sites that differ -----------------------------------------------------------------

X, Y = np.zeros((1200, 1)), np.random.default_rng(0).standard_normal(1200)
SITES = np.repeat([f"site {i}" for i in range(12)], 100)
MODEL = DummyRegressor(strategy="constant", constant=0.0).fit(X, Y)
SHARES = {f"site {i}": i + 1.0 for i in range(12)}


def test_a_mixture_and_a_new_site():
    mixed = Regressor(MODEL, promise="mixture", mixture=SHARES).conformalize(
        X, Y, sites=SITES
    )
    assert (mixed.plan_.promise, len(mixed.plan_.local_ranks[0])) == ("mixture", 5)
    assert float(mixed.plan_.mixture["site 11"]) == pytest.approx(12 / 78)
    new = Regressor(MODEL, promise="new-site", numbers=3).conformalize(
        X, Y, sites=SITES
    )
    assert (new.plan_.message.numbers, new.calibration_.law) == (3, None)
    assert np.isfinite(new.thresholds_).all()


def test_a_calibration_from_elsewhere_must_be_for_the_same_mixture():
    found = (
        Regressor(MODEL, promise="mixture", mixture=SHARES)
        .conformalize(X, Y, sites=SITES)
        .calibration_
    )
    assert (
        Regressor(MODEL, promise="mixture", mixture=SHARES)
        .from_calibration(found)
        .calibration_
        == found
    )
    twice = {site: 2 * share for site, share in SHARES.items()}
    assert (
        Regressor(MODEL, promise="mixture", mixture=twice)
        .from_calibration(found)
        .calibration_
        == found
    )
    other = {**SHARES, "site 0": 5.0}
    with pytest.raises(ValueError, match="mixture must be that of the calibration"):
        Regressor(MODEL, promise="mixture", mixture=other).from_calibration(found)
    with pytest.raises(
        ValueError, match="the calibration promises less than is asked for"
    ):
        Regressor(MODEL, criterion="marginal").from_calibration(found)
    with pytest.raises(
        ValueError, match="the calibration promises less than is asked for"
    ):
        Regressor(MODEL, promise="new-site").from_calibration(found)
