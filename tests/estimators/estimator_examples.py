"""Models, scores and labels of sites for tests of the estimators."""

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

import fedconformal as fc

LEVELS = [0.95, 0.5, 0.9]


def some_sites(n, m=5):
    return np.random.default_rng(n).choice([f"site {j}" for j in range(m)], n)


class Pair(RegressorMixin, BaseEstimator):
    """A fitted model that predicts two numbers: the first feature, and 1 or that plus
    1.
    """

    def __init__(self, second="sigma", width=2):
        self.second = second
        self.width = width

    def fit(self, X, y=None):
        self.n_features_in_ = np.shape(X)[1]
        return self

    def predict(self, X):
        first = np.asarray(X)[:, 0]
        second = np.ones_like(first) if self.second == "sigma" else first + 1
        return np.column_stack([first, second] + [first] * (self.width - 2))


class Foreign:
    """A model of a library that knows nothing of scikit-learn."""

    classes_ = ("no", "yes")

    def predict(self, X):
        return np.zeros(len(X))

    def predict_proba(self, X):
        return np.tile([0.25, 0.75], (len(X), 1))


def federation(scores_of_site, **wishes):
    plan = fc.plan(
        n_sites=len(scores_of_site), n_points=len(scores_of_site[0]), **wishes
    )
    return fc.calibrate(
        plan,
        [
            fc.report(plan, values, site=f"s{j}")
            for j, values in enumerate(scores_of_site)
        ],
    )


RESIDUALS = np.random.default_rng(6).exponential(size=(8, 40))
