"""The data of a site and the model: softmax regression on scikit-learn's embedded digits."""

import numpy as np
from sklearn.datasets import load_digits

N_PIXELS, N_CLASSES = 64, 10


def load(site, n_sites):
    """A site's own images and labels, as (train, calibration, test) pairs: 40, 40 and 20 percent."""
    X, y = load_digits(return_X_y=True)
    mine = np.random.default_rng(0).permutation(len(y))[site::n_sites]
    a, b = int(0.4 * len(mine)), int(0.8 * len(mine))
    return [(X[part] / 16, y[part]) for part in (mine[:a], mine[a:b], mine[b:])]


def initial_model():
    """Weights and biases, all zero."""
    return [np.zeros((N_PIXELS, N_CLASSES)), np.zeros(N_CLASSES)]


def probabilities(model, X):
    """The probability of each digit."""
    weights, biases = model
    logits = X @ weights + biases
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def train(model, X, y, steps=100, rate=0.5):
    """A round of training at one site: plain gradient descent."""
    weights, biases = (part.copy() for part in model)
    wanted = np.eye(N_CLASSES)[y]
    for _ in range(steps):
        error = (probabilities([weights, biases], X) - wanted) / len(y)
        weights -= rate * (X.T @ error)
        biases -= rate * error.sum(axis=0)
    return [weights, biases]
