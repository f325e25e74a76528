"""Curves through the estimators, exact and private: one release serves all levels,
groups and classes.
"""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression

import fedconformal as fc
from fedconformal import FederatedConformalClassifier as Classifier
from fedconformal import FederatedConformalRegressor as Regressor

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4600, 1))
Y = X[:, 0] + RNG.normal(size=4600)
NAMES = np.where(RNG.random(4600) < 1 / (1 + np.exp(-X[:, 0])), "sick", "well")
MODEL = LinearRegression().fit(X[:100], Y[:100])
CLASSES = LogisticRegression().fit(X[:100], NAMES[:100])
CAL, NEW = slice(100, 3100), slice(3100, None)
SITES = np.arange(3000) % 5
GROUPS = np.where(np.arange(4600) % 3 == 0, "child", "adult")
BINS = fc.Bins.uniform(0, 4, 200)
KINDS = {"exact": {"curve": BINS}, "private": {"privacy": fc.Privacy(4.0, BINS)}}


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def options(request):
    return request.param


@pytest.fixture(scope="module")
def private():
    return Regressor(MODEL, **KINDS["private"]).conformalize(
        X[CAL], Y[CAL], sites=SITES
    )


def test_several_levels_share_one_curve(options):
    """A grid of 0.02 adds at most that to the pooled quantile; the noise, of 5 sites, a
    few cells.
    """
    found = Regressor(MODEL, confidence_level=[0.9, 0.5, 0.8], **options)
    found.conformalize(X[CAL], Y[CAL], sites=SITES)
    assert found.plan_.message.kind == "curve"
    _, intervals = found.predict_interval(X[NEW])
    assert intervals.shape == (1500, 2, 3)
    residuals = np.abs(Y[CAL] - MODEL.predict(X[CAL]))
    pooled = [fc.baselines.centralized(residuals, level) for level in (0.9, 0.5, 0.8)]
    assert np.all(np.isin(found.thresholds_, BINS.edges))
    if "curve" in options:
        assert np.all(found.thresholds_ >= pooled)
    np.testing.assert_allclose(found.thresholds_, pooled, atol=0.3)
    assert clone(found).get_params()["confidence_level"] == [0.9, 0.5, 0.8]


def test_groups(options):
    found = Regressor(MODEL, confidence_level=[0.8, 0.9], **options)
    found.conformalize(X[CAL], Y[CAL], sites=SITES, groups=GROUPS[CAL])
    points, intervals = found.predict_interval(X[NEW], groups=GROUPS[NEW])
    for group in ("adult", "child"):
        assert tuple(found.thresholds_[group]) == found.calibration_[group].thresholds
        here = GROUPS[NEW] == group
        widths = intervals[here, 1] - points[here, np.newaxis]
        np.testing.assert_allclose(
            widths, np.tile(found.thresholds_[group], (here.sum(), 1))
        )


@pytest.mark.parametrize("kind", KINDS)
def test_classes_on_a_grid_of_the_bounded_score(kind):
    options = (
        {"curve": fc.Bins.uniform(0, 1, 100)}
        if kind == "exact"
        else {"privacy": fc.Privacy(4.0)}
    )
    found = Classifier(CLASSES, group_by="class", **options)
    found.conformalize(X[CAL], NAMES[CAL], sites=SITES)
    assert found.plan_.classes == ("sick", "well")
    sets = found.predict_set(X[NEW])[1]
    own = np.array([found.calibration_[label].threshold for label in ("sick", "well")])
    np.testing.assert_array_equal(
        sets[:, :, 0], 1 - CLASSES.predict_proba(X[NEW]) <= own
    )
    assert (
        fc.metrics.classification_coverage_score(
            (NAMES[NEW] == "well").astype(int), sets
        )[0]
        > 0.85
    )


@pytest.mark.parametrize("promise", ["each-site", "mixture"])
def test_sites_that_differ(promise):
    found = Regressor(MODEL, promise=promise, curve=BINS).conformalize(
        X[CAL], Y[CAL], sites=SITES
    )
    assert np.isfinite(found.thresholds_).all()
    assert found.calibration_.guarantee.mean >= 0.9


def test_parameters_are_those_of_scikit_learn():
    estimator = Regressor(MODEL, **KINDS["private"])
    assert estimator.get_params(deep=False)["privacy"] is KINDS["private"]["privacy"]
    assert clone(estimator).set_params(privacy=None, curve=BINS).curve is BINS
    with pytest.raises(ValueError, match="curve must be left out with privacy"):
        Regressor(prefit=False, curve=BINS, **KINDS["private"]).fit(X, Y)
    with pytest.raises(
        ValueError, match="privacy needs bins, as score 'absolute' is unbounded"
    ):
        Regressor(prefit=False, privacy=fc.Privacy(1.0)).fit(X, Y)
    with warnings.catch_warnings(action="error"):
        Regressor(prefit=False, **KINDS["private"]).fit(X, Y)


def test_accounts_are_simulated_or_given(private, tmp_path):
    assert float(private.plan_.message.epsilon) == 4
    ledgers = {}
    for site in map(str, range(5)):
        ledgers[site] = fc.Ledger.create(tmp_path / f"{site}.db")
        ledgers[site].set_budget("calibration", 5.0)
    Regressor(MODEL, **KINDS["private"]).conformalize(
        X[CAL], Y[CAL], sites=SITES, ledgers=ledgers
    )
    assert {float(ledger.spent("calibration")) for ledger in ledgers.values()} == {4.0}


def test_a_calibration_from_elsewhere_must_be_as_private(private):
    found = private.calibration_
    for options in (KINDS["private"], {}, {"criterion": "marginal"}, KINDS["exact"]):
        assert Regressor(MODEL, **options).from_calibration(found).calibration_ is found
    stricter = Regressor(MODEL, privacy=fc.Privacy(1.0, BINS))
    with pytest.raises(
        ValueError, match=r"an epsilon of 1, and the calibration has an epsilon of 4"
    ):
        stricter.from_calibration(found)
    exact = Regressor(MODEL).conformalize(X[CAL], Y[CAL], sites=SITES).calibration_
    with pytest.raises(ValueError, match="the calibration has exact reports"):
        Regressor(MODEL, **KINDS["private"]).from_calibration(exact)
