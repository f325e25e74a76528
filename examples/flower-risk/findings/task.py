"""The patients of a site, made with a fixed seed, and the model: a logistic regression
for each finding.
"""

import numpy as np

N_MEASUREMENTS, N_FINDINGS = 12, 6
WEIGHTS = np.random.default_rng(0).normal(size=(N_MEASUREMENTS, N_FINDINGS))
# Sites differ in how many patients they have, how often findings are there, and how
# clearly they show.
SITES = ((600, -1.5, 2.0), (900, -1.0, 1.5), (1200, -0.5, 1.0), (1500, 0.0, 0.5))


def patients(site, part):
    """Measurements and findings of a site's patients in one part: train, calibration or
    test.
    """
    n, frequency, clarity = SITES[site % len(SITES)]
    rng = np.random.default_rng([site, ("train", "calibration", "test").index(part)])
    X = rng.normal(size=(n, N_MEASUREMENTS))
    return X, rng.random((n, N_FINDINGS)) < _sigmoid(
        clarity * (X @ WEIGHTS) + frequency
    )


def initial_model():
    """Weights and biases, all zero."""
    return [np.zeros((N_MEASUREMENTS, N_FINDINGS)), np.zeros(N_FINDINGS)]


def probabilities(model, X):
    """The probability of each finding; those of a patient need not sum to 1."""
    weights, biases = model
    return _sigmoid(X @ weights + biases)


def train(model, X, y, steps=100, rate=0.5):
    """A round of training at one site: plain gradient descent."""
    weights, biases = (part.copy() for part in model)
    for _ in range(steps):
        error = (probabilities([weights, biases], X) - y) / len(y)
        weights -= rate * (X.T @ error)
        biases -= rate * error.sum(axis=0)
    return [weights, biases]


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))
