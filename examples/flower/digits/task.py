"""The data of a site and the model: softmax regression on scikit-learn's embedded
digits.
"""

import numpy as np
from sklearn.datasets import load_digits

N_PIXELS, N_CLASSES = 64, 10


def share(site, n_sites):
    """A share of scikit-learn's images, of 64 pixels from 0 to 1, with their labels."""
    X, y = load_digits(return_X_y=True)
    mine = np.random.default_rng(0).permutation(len(y))[site::n_sites]
    return X[mine] / 16, y[mine]


def read(path):
    """Images and labels in a site's own file: an .npz with ``X`` and ``y``."""
    with np.load(path) as content:
        return content["X"], content["y"]


def split(X, y):
    """Images and labels as (train, calibration, test) pairs: 40, 40 and 20 percent."""
    a, b = int(0.4 * len(y)), int(0.8 * len(y))
    return [(X[part], y[part]) for part in (slice(a), slice(a, b), slice(b, None))]


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
