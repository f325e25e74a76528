"""The data of a site and the model: scikit-learn's logistic regression on its embedded
digits.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier

DIGITS = np.arange(10)


def load(site, n_sites):
    """A site's own images and labels, as (train, calibration, test) pairs: 40, 40 and
    20 percent.

    A real site would read its own files here.
    """
    X, y = load_digits(return_X_y=True)
    mine = np.random.default_rng(0).permutation(len(y))[
        int(site.removeprefix("site-")) - 1 :: n_sites
    ]
    a, b = int(0.4 * len(mine)), int(0.8 * len(mine))
    return [(X[part] / 16, y[part]) for part in (mine[:a], mine[a:b], mine[b:])]


def classifier(params):
    """The classifier with the parameters that travel; without any yet, one that knows
    nothing.
    """
    model = SGDClassifier(
        loss="log_loss", learning_rate="constant", eta0=0.05, random_state=0
    )
    model.partial_fit(
        np.zeros((10, 64)), DIGITS, classes=DIGITS
    )  # so that it knows its classes
    model.coef_ = np.array(params.get("coef", np.zeros((10, 64))), dtype=float)
    model.intercept_ = np.array(params.get("intercept", np.zeros(10)), dtype=float)
    return model


def train(params, X, y, epochs=5):
    """A round of training at one site."""
    model = classifier(params)
    for _ in range(epochs):
        model.partial_fit(X, y)
    return {"coef": model.coef_, "intercept": model.intercept_}


def probabilities(params, X):
    """The probability of each digit."""
    return classifier(params).predict_proba(X)
