"""The authors' published ridge results, recomputed from their own splits, theirs and ours side by side.

Their public repository holds tables of results, without the code of the methods. What follows was found by
matching them: which rows were used, how they were split, that their FedCP-Avg takes the next larger score.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedconformal._extras import need
from fedconformal.experiments._data import DataSet
from fedconformal.experiments._methods import AVERAGE, AVERAGE_NEXT, CENTRALISED, METHODS, QQ
from fedconformal.experiments._store import Rows, mean, select

N_SITES, N_SEEDS, LEVEL = 10, 20, 0.9


@dataclass(frozen=True)
class Published:
    """What the authors published for ridge regression on a data set, ten sites, means over 20 runs.

    Parameters
    ----------
    n_rows : int or None
        How many rows they used, the first ones; all if None.
    n_points : int
        Scores at each site.
    values : dict
        Coverage in percent and length of each method.
    """

    n_rows: int | None
    n_points: int
    values: dict[str, tuple[float, float]]


PUBLISHED = {
    "bio": Published(4000, 79, {QQ: (89.256, 2.101), CENTRALISED: (89.525, 2.118), AVERAGE: (90.931, 2.205)}),
    "bike": Published(
        1030, 40, {QQ: (90.971, 2.473), CENTRALISED: (90.534, 2.446), AVERAGE: (94.515, 3.012)}
    ),
    "community": Published(
        None, 79, {QQ: (90.551, 1.888), CENTRALISED: (90.576, 1.892), AVERAGE: (92.093, 2.048)}
    ),
    "concrete": Published(
        None, 40, {QQ: (90.655, 1.007), CENTRALISED: (89.976, 0.987), AVERAGE: (93.835, 1.121)}
    ),
}
"""The authors' table, by data set."""

_COMPARED = (QQ, CENTRALISED, AVERAGE, AVERAGE_NEXT)
_BIKE_ORDER = [*range(8, 14), *range(8), *range(14, 18)]
"""Their order of bike's features: plain ones, then season and weather one-hot, then the clock."""


def authors(dataset: DataSet, *, n_seeds: int = N_SEEDS) -> Rows:
    """Their protocol on one data set: their rows, their splits, single precision, ridge regression.

    Parameters
    ----------
    dataset : DataSet
        One of those in `PUBLISHED`.
    n_seeds : int
        How many of their 20 runs.

    Returns
    -------
    list of dict
        A row for each run and method, with the authors' mean beside it.
    """
    published = PUBLISHED[dataset.name]
    X, y = _their_rows(dataset, published.n_rows)
    rows: Rows = []
    for seed in range(1, n_seeds + 1):
        for name, coverage, length in _run(X, y, published.n_points, seed):
            theirs = published.values.get(AVERAGE if name == AVERAGE_NEXT else name)
            if name == AVERAGE:
                theirs = None  # their FedCP-Avg is the other one
            rows.append(
                {
                    "dataset": dataset.name,
                    "method": name,
                    "n_sites": N_SITES,
                    "n_points": published.n_points,
                    "confidence_level": LEVEL,
                    "seed": seed,
                    "coverage": 100 * coverage,
                    "length": length,
                    "published_coverage": theirs[0] if theirs else None,
                    "published_length": theirs[1] if theirs else None,
                }
            )
    return rows


Single = NDArray[np.float32]


def _their_rows(dataset: DataSet, n_rows: int | None) -> tuple[Single, Single]:
    X = dataset.X[:n_rows]
    if X.shape[1] == len(_BIKE_ORDER):
        X = X[:, _BIKE_ORDER] - np.array([0] * 17 + [2011])
    return X.astype(np.float32), dataset.y[:n_rows].astype(np.float32)


def _run(X: Single, y: Single, n: int, seed: int) -> Iterator[tuple[str, float, float]]:
    """Coverage and length of each method on one of their splits."""
    selection = need("sklearn.model_selection", extra="experiments")
    linear = need("sklearn.linear_model", extra="experiments")
    rest, test = selection.train_test_split(np.arange(len(y)), test_size=0.2, random_state=seed)
    # Their splits were made by numpy's old generator.
    order = np.random.RandomState(seed).permutation(len(rest))
    half = len(rest) // 2
    train, calibration = rest[order[:half]], rest[order[half : 2 * half]]
    spread = X[train].std(axis=0)
    X = (X - X[train].mean(axis=0)) / np.where(spread > 0, spread, 1)
    y = y / np.abs(y[train]).mean()
    model = linear.RidgeCV().fit(X[train], y[train])
    scores = np.abs(y[calibration] - model.predict(X[calibration])).astype(float)
    errors = np.abs(y[test] - model.predict(X[test]))
    # Their centralised calibration has all calibration rows, also those that no site has.
    sites, everything = list(scores[: N_SITES * n].reshape(N_SITES, n)), [scores]
    for method in METHODS:
        if method.name in _COMPARED:
            held = everything if method.name == CENTRALISED else sites
            threshold = method.threshold(held, LEVEL, np.random.default_rng(seed))
            yield method.name, float(np.mean(errors <= threshold)), 2 * threshold


def side_by_side(rows: Rows) -> list[list[str]]:
    """Theirs and ours, a line for each data set and method.

    Parameters
    ----------
    rows : list of dict
        What `authors` found.

    Returns
    -------
    list of list of str
        Cells: data set, method, sites, their coverage and ours, their length and ours.
    """
    lines = []
    for name, method in dict.fromkeys((row["dataset"], row["method"]) for row in rows):
        found = select(rows, dataset=name, method=method)
        first = found[0]
        theirs = ["not published", ""]
        if first["published_coverage"] is not None:
            theirs = [f"{first['published_coverage']:.3f}", f"{first['published_length']:.3f}"]
        ours = [f"{mean(found, 'coverage'):.3f}", f"{mean(found, 'length'):.3f}"]
        lines.append(
            [
                name,
                method,
                f"{first['n_sites']} x {first['n_points']}",
                theirs[0],
                ours[0],
                theirs[1],
                ours[1],
            ]
        )
    return lines


HEADS = ("data set", "method", "m x n", "coverage %: theirs", "ours", "length: theirs", "ours")
"""Of the columns of `side_by_side`."""
