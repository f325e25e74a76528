"""The data of a site and the model: a small network on scikit-learn's embedded
digits.
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn


def load(context):
    """The site's images and digits, as (train, calibration, test) pairs: 40, 40 and 20
    percent.

    They are in the site's own file, an .npz with ``X`` and ``y`` which its
    configuration names; in a simulation they are a share of scikit-learn's.
    """
    given = context.node_config
    if "data" in given:
        with np.load(given["data"]) as content:
            X, y = content["X"], content["y"]
    else:
        X, y = load_digits(return_X_y=True)
        mine = np.random.default_rng(0).permutation(len(y))[
            given["partition-id"] :: given["num-partitions"]
        ]
        X, y = X[mine] / 16, y[mine]
    X, y = torch.tensor(X, dtype=torch.float32), torch.tensor(y)
    a, b = int(0.4 * len(y)), int(0.8 * len(y))
    return [(X[part], y[part]) for part in (slice(a), slice(a, b), slice(b, None))]


def network():
    """Always the same at first, so that every run gives the same figures."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def train(model, X, y, epochs):
    """A few passes over the site's training images."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(epochs):
        for start in range(0, len(y), 32):
            part = slice(start, start + 32)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(X[part]), y[part]).backward()
            optimizer.step()


@torch.no_grad()
def probabilities(model, X):
    """The probability of each digit."""
    return model(X).softmax(dim=1).numpy()
