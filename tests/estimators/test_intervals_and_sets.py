"""Intervals and label sets: those of MAPIE for one site, coverage as the law allows,
labels and draws.
"""

import math

import numpy as np
import pytest
from estimator_examples import LEVELS, Foreign, some_sites
from mapie.classification import SplitConformalClassifier
from mapie.metrics.classification import classification_coverage_score
from mapie.metrics.regression import regression_coverage_score
from mapie.regression import ConformalizedQuantileRegressor, SplitConformalRegressor
from sklearn.datasets import load_digits
from sklearn.linear_model import LinearRegression, LogisticRegression, QuantileRegressor

import fedconformal as fc
from fedconformal import FederatedConformalClassifier as Classifier
from fedconformal import FederatedConformalRegressor as Regressor
from fedconformal import scores
from support import hoeffding_limit


def test_one_site_gives_the_lac_sets_of_mapie(classes):
    train, (X, y), (X_test, y_test) = classes
    model = LogisticRegression().fit(*train)
    ours = Classifier(model, confidence_level=LEVELS, criterion="marginal")
    ours.conformalize(X, y, sites=np.zeros(len(X)))
    theirs = SplitConformalClassifier(model, confidence_level=LEVELS).conformalize(X, y)
    labels, sets = ours.predict_set(X_test)
    expected_labels, expected = theirs.predict_set(X_test)
    assert sets.dtype == bool
    np.testing.assert_array_equal(sets, expected)
    np.testing.assert_array_equal(labels, expected_labels)
    np.testing.assert_array_equal(
        classification_coverage_score(y_test, sets),
        fc.metrics.classification_coverage_score(y_test, sets),
    )


class TestSummedScoresBesideMapie:
    """Means over twelve splits of the digits; MAPIE predicts with randomized last
    labels, as it calibrates, and its RAPS chooses parameters, which ours is given.
    """

    LEVEL, SPLITS = 0.9, 12

    @pytest.fixture(scope="class")
    @staticmethod
    def splits():
        X, y = load_digits(return_X_y=True)
        splits = []
        for seed in range(TestSummedScoresBesideMapie.SPLITS):
            order = np.random.default_rng(seed).permutation(len(y))
            parts = np.split(order, [600, 1200])
            (train, past, new) = ((X[rows] / 16, y[rows]) for rows in parts)
            model = LogisticRegression(max_iter=2000).fit(*train)
            splits.append((model, past, new))
        return splits

    def ours(self, model, past, new, score, seed):
        classifier = Classifier(
            model,
            confidence_level=self.LEVEL,
            conformity_score=score,
            criterion="marginal",
            rng=seed,
        )
        X, y = past
        classifier.conformalize(X, y, sites=np.zeros(len(X)))
        return size_and_coverage(classifier.predict_set(new[0])[1], new[1])

    def theirs(self, model, past, new, score, seed):
        classifier = SplitConformalClassifier(
            model,
            confidence_level=self.LEVEL,
            conformity_score=score,
            random_state=seed,
        ).conformalize(*past)
        options = {"include_last_label": "randomized"}
        sets = classifier.predict_set(new[0], conformity_score_params=options)[1]
        return size_and_coverage(sets, new[1]), classifier

    @pytest.mark.parametrize("name", ["aps", "raps"])
    def test_sets_are_as_large_as_those_of_mapie(self, splits, name):
        """Each mean of the coverage has a standard error of .005 (12 seeded splits of
        600 past and 597 new cases, exchangeable in each): .03 is missed by chance with
        a probability below 1e-8.
        """
        ours, theirs = [], []
        for seed, split in enumerate(splits):
            own, mapie = self.theirs(*split, name, seed)
            theirs.append(own)
            score = name
            if name == "raps":
                chosen = mapie._mapie_classifier.conformity_score_function_
                penalty, k_reg = chosen.lambda_star, int(chosen.k_star[0])
                score = scores.RAPS(penalty, k_reg, randomized=True)
            ours.append(self.ours(*split, score, seed))
        size, coverage = np.mean(ours, axis=0)
        their_size, their_coverage = np.mean(theirs, axis=0)
        assert size == pytest.approx(their_size, abs=0.1)
        assert coverage == pytest.approx(self.LEVEL, abs=0.03)
        assert their_coverage == pytest.approx(self.LEVEL, abs=0.03)

    @pytest.mark.parametrize("name", ["aps", "raps"])
    def test_a_name_is_randomized_and_an_instance_is_as_it_says(self, splits, name):
        plain = scores.from_name(name)
        random = np.mean(
            [self.ours(*split, name, i) for i, split in enumerate(splits[:4])], axis=0
        )
        fixed = np.mean(
            [self.ours(*split, plain, i) for i, split in enumerate(splits[:4])], axis=0
        )
        assert fixed[0] > 2 * random[0]
        assert random[0] < 1.5


def size_and_coverage(sets, truth):
    """Return mean size and coverage of sets of one level."""
    chosen = sets[:, :, 0]
    covered = chosen[np.arange(len(truth)), truth]
    return chosen.sum(axis=1).mean(), covered.mean()


def test_a_name_takes_the_score_of_the_plan(classes):
    train, (X, y), (X_test, _) = classes
    model = LogisticRegression().fit(*train)
    for fixed in (scores.APS(), scores.APS(randomized=True)):
        ours = Classifier(model, conformity_score=fixed, rng=0)
        ours.conformalize(X, y, sites=some_sites(len(X)))
        other = Classifier(model, conformity_score="aps", rng=0)
        other.from_calibration(ours.calibration_)
        assert other.conformity_score_ == fixed
        np.testing.assert_array_equal(
            other.predict_set(X_test)[1], ours.predict_set(X_test)[1]
        )
    tuned = Classifier(model, conformity_score=scores.RAPS(0.3, 1, randomized=True))
    tuned.conformalize(X, y, sites=some_sites(len(X)))
    for name in ("raps", "lac"):
        with pytest.raises(ValueError, match="must be the score of the calibration"):
            Classifier(model, conformity_score=name).from_calibration(
                tuned.calibration_
            )


def test_draws_of_calibration_and_prediction_are_apart(classes):
    """A row that was calibrated on is predicted with another number; an int gives the
    same numbers again, None others.
    """
    train, (X, y), _ = classes
    model = LogisticRegression().fit(*train)
    sites = some_sites(len(X))

    def calibrate(rng):
        return Classifier(model, conformity_score="aps", rng=rng).conformalize(
            X, y, sites=sites
        )

    first, again, other = calibrate(0), calibrate(0), calibrate(1)
    assert first.calibration_.threshold == again.calibration_.threshold
    assert first.calibration_.threshold != other.calibration_.threshold
    sets = first.predict_set(X)[1]
    np.testing.assert_array_equal(sets, again.predict_set(X)[1])
    draws = (first._draws(first.conformity_score_, 9, stream)["u"] for stream in (0, 1))
    assert not np.isin(*draws).any()
    chance = calibrate(None)
    assert (chance.predict_set(X)[1] != chance.predict_set(X)[1]).any()


@pytest.mark.parametrize(
    "score", ["lac", "aps", "raps", scores.RAPS(0.1, 1, randomized=True)]
)
def test_coverage_of_label_sets_is_what_the_law_allows(score):
    # As above, 2e-7 for each score; scores may be tied, so the bound is on one side
    # unless randomized.
    rng = np.random.default_rng(4)
    y = rng.integers(0, 4, 24000)
    X = rng.normal(size=(len(y), 4)) + np.eye(4)[y]
    model = LogisticRegression().fit(X[:1000], y[:1000])
    classifier = Classifier(model, conformity_score=score, rng=5)
    classifier.conformalize(X[1000:4000], y[1000:4000], sites=rng.integers(0, 12, 3000))
    labels, sets = classifier.predict_set(X[4000:])
    [covered] = fc.metrics.classification_coverage_score(y[4000:], sets)
    law, slack = classifier.calibration_.law, hoeffding_limit(20000)
    assert covered >= law.ppf(1e-7) - slack
    np.testing.assert_array_equal(labels, model.predict(X[4000:]))
    if getattr(classifier.conformity_score_, "randomized", False):
        assert covered <= law.ppf(1 - 1e-7) + slack


def test_a_label_never_seen_in_training_scores_infinity(classes):
    (X_train, y_train), (X, y), (X_test, _) = classes
    known = LogisticRegression().fit(X_train[y_train < 2], y_train[y_train < 2])
    some = np.where(
        np.arange(len(y)) % 20 == 0, 2, np.minimum(y, 1)
    )  # one label in twenty is unknown
    sites = some_sites(len(X))
    classifier = Classifier(known, conformity_score=scores.APS(randomized=True), rng=0)
    with pytest.warns(UserWarning, match=r"20 of 400 .* the first is 2\. .* \+inf"):
        classifier.conformalize(X, some, sites=sites)
    assert sum(classifier.calibration_.n_points) == 400
    finite = classifier.calibration_.threshold
    assert finite < math.inf
    with pytest.warns(UserWarning, match=r"not among the classifier's classes"):
        classifier.conformalize(
            X, np.where(np.arange(len(y)) % 4 == 0, 7, some), sites=sites
        )
    assert classifier.calibration_.threshold == math.inf
    assert classifier.predict_set(X_test)[1].all()


def test_draws_follow_the_rng(classes):
    train, (X, y), (X_test, _) = classes
    model = LogisticRegression().fit(*train)
    sites = some_sites(len(X))

    def sets(rng, calls=1):
        score = scores.APS(randomized=True)
        classifier = Classifier(model, conformity_score=score, rng=rng)
        classifier.conformalize(X, y, sites=sites)
        return [classifier.predict_set(X_test)[1] for _ in range(calls)]

    first, second = sets(0, calls=2)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, sets(0)[0])
    assert np.any(first != sets(1)[0])
    for source in (None, np.random.default_rng(0)):
        first, second = sets(source, calls=2)
        assert np.any(first != second)


def test_the_draws_of_calibration_are_not_those_of_the_sets():
    class Witness(scores.APS):
        def score(self, y, prediction, *, u=None):
            seen["score"] = u
            return super().score(y, prediction, u=u)

        def set(self, prediction, threshold, *, u=None):
            seen["set"] = u
            return super().set(prediction, threshold, u=u)

    seen, X = {}, np.zeros((20, 1))
    classifier = Classifier(Foreign(), conformity_score=Witness(randomized=True), rng=0)
    classifier.conformalize(X, ["yes", "no"] * 10, sites=["A"] * 20).predict_set(X)
    assert seen["score"].shape == seen["set"].shape == (20,)
    assert not np.any(seen["score"] == seen["set"])


def test_one_site_gives_the_intervals_of_mapie(numbers):
    train, (X, y), (X_test, y_test) = numbers
    model = LinearRegression().fit(*train)
    ours = Regressor(model, confidence_level=LEVELS, criterion="marginal")
    theirs = SplitConformalRegressor(model, confidence_level=LEVELS)
    points, intervals = ours.conformalize(X, y, sites=["A"] * len(X)).predict_interval(
        X_test
    )
    expected_points, expected = theirs.conformalize(X, y).predict_interval(X_test)
    assert intervals.shape == expected.shape == (len(X_test), 2, 3)
    np.testing.assert_allclose(intervals, expected, rtol=1e-12)
    np.testing.assert_array_equal(points, expected_points)
    np.testing.assert_array_equal(ours.predict(X_test), points)
    np.testing.assert_array_equal(
        regression_coverage_score(y_test, intervals),
        fc.metrics.regression_coverage_score(y_test, intervals),
    )


def test_one_site_gives_the_symmetric_quantile_intervals_of_mapie(numbers):
    train, (X, y), (X_test, _) = numbers
    models = [
        QuantileRegressor(quantile=q, alpha=0).fit(*train) for q in (0.05, 0.95, 0.5)
    ]
    theirs = ConformalizedQuantileRegressor(models, prefit=True).conformalize(X, y)
    expected_points, expected = theirs.predict_interval(
        X_test, symmetric_correction=True
    )
    ours = Regressor(models, conformity_score="cqr", criterion="marginal")
    ours.conformalize(X, y, sites=["A"] * len(X))
    points, intervals = ours.predict_interval(X_test)
    np.testing.assert_allclose(intervals, expected, rtol=1e-9)
    np.testing.assert_allclose(points, expected_points)
