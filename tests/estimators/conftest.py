"""Data for tests of the estimators."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes


@pytest.fixture(scope="module")
def numbers():
    """Train, calibration and test rows of a regression problem."""
    X, y = load_diabetes(return_X_y=True)
    return (X[:150], y[:150]), (X[150:400], y[150:400]), (X[400:], y[400:])


@pytest.fixture(scope="module")
def classes():
    """Train, calibration and test rows of a problem with three classes that overlap."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 900)
    X = rng.normal(size=(900, 4)) + 0.9 * np.eye(3, 4)[y]
    return (X[:200], y[:200]), (X[200:600], y[200:600]), (X[600:], y[600:])
