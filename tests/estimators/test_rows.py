"""Which site a row is from."""

import math

import numpy as np
import pytest
from estimator_examples import some_sites
from sklearn.linear_model import LinearRegression

from fedconformal import FederatedConformalRegressor as Regressor


@pytest.mark.parametrize(
    "labels",
    [
        lambda sites: sites.tolist(),
        lambda sites: np.array([int(site[-1]) for site in sites]),
        lambda sites: np.array([int(site[-1]) if site < "site 3" else site[-1] for site in sites], object),
    ],
    ids=["list", "integers", "mixed"],
)
def test_labels_of_any_kind_name_the_same_sites(numbers, labels):
    train, (X, y), _ = numbers
    sites = some_sites(len(X))
    regressor = Regressor(LinearRegression().fit(*train))
    expected = regressor.conformalize(X, y, sites=sites)
    threshold, m = expected.calibration_.threshold, expected.plan_.n_sites
    regressor.conformalize(X, y, sites=labels(sites))
    assert (regressor.calibration_.threshold, regressor.plan_.n_sites) == (threshold, m)


@pytest.mark.parametrize(
    ("sites", "message"),
    [
        (None, "sites must give the site of each row"),
        (["A"], r"one label for each of the 250 rows, got shape \(1,\)"),
        ([*["A"] * 249, ""], "sites must hold labels of 1 to 200 printable characters, .* got ''"),
        (np.array([*["A"] * 249, None], dtype=object), "none missing, got None"),
        ([*[1.0] * 249, math.nan], "none missing, got nan"),
    ],
)
def test_every_row_needs_a_site(numbers, sites, message):
    train, (X, y), _ = numbers
    with pytest.raises(ValueError, match=message):
        Regressor(LinearRegression().fit(*train)).conformalize(X, y, sites=sites)
