"""The ridge results that the authors published, recomputed on their own splits.

Their public repository holds tables of results, without the code of the methods. The rows, the splits and the
rank of their FedCP-Avg, one above the text's, were found by matching these tables.
"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import train_test_split

from reproduce import data
from reproduce.drawing import colour, legend_below, panels, target
from reproduce.methods import AVERAGE, AVERAGE_NEXT, CENTRALISED, METHODS, QQ
from reproduce.protocol import Settings

N_SITES, N_SEEDS = 10, 20

SIZES = {"bio": (4000, 79), "bike": (1030, 40), "community": (None, 79), "concrete": (None, 40)}
"""Rows used (all if None) and points per site."""

PUBLISHED = {
    ("bio", QQ): (89.256, 2.101),
    ("bio", CENTRALISED): (89.525, 2.118),
    ("bio", AVERAGE_NEXT): (90.931, 2.205),
    ("bike", QQ): (90.971, 2.473),
    ("bike", CENTRALISED): (90.534, 2.446),
    ("bike", AVERAGE_NEXT): (94.515, 3.012),
    ("community", QQ): (90.551, 1.888),
    ("community", CENTRALISED): (90.576, 1.892),
    ("community", AVERAGE_NEXT): (92.093, 2.048),
    ("concrete", QQ): (90.655, 1.007),
    ("concrete", CENTRALISED): (89.976, 0.987),
    ("concrete", AVERAGE_NEXT): (93.835, 1.121),
}
"""Coverage in percent and length, means over 20 runs with ten sites."""

BIKE_ORDER = [*range(8, 14), *range(8), *range(14, 18)]
"""Their order of the features of bike."""


def compute(settings: Settings) -> pd.DataFrame:
    """Run their protocol on the four data sets; three of their 20 runs if quick."""
    n_seeds = 3 if settings.quick else N_SEEDS
    sets = [data.load(name, download=settings.download) for name in SIZES]
    return pd.concat([protocol(dataset, settings.level, n_seeds) for dataset in sets], ignore_index=True)


def protocol(dataset: data.DataSet, level: float, n_seeds: int = N_SEEDS) -> pd.DataFrame:
    """Run their protocol on one data set; return a row for each run and method, with their mean."""
    n_rows, n = SIZES[dataset.name]
    X, y = dataset.X[:n_rows], dataset.y[:n_rows].astype(np.float32)
    if dataset.name == "bike":
        X = X[:, BIKE_ORDER] - np.array([0] * 17 + [2011])
    rows = []
    for seed in range(1, n_seeds + 1):
        for method, coverage, length in _run(X.astype(np.float32), y, n, level, seed):
            theirs = PUBLISHED.get((dataset.name, method), (np.nan, np.nan))
            rows.append((dataset.name, method, N_SITES, n, level, seed, 100 * coverage, length, *theirs))
    return pd.DataFrame(
        rows,
        columns=["dataset", "method", "n_sites", "n_points", "confidence_level", "seed", "coverage",
                 "length", "published_coverage", "published_length"],
    )  # fmt: skip


def _run(X, y, n: int, level: float, seed: int):
    """Yield coverage and length of each method on one of their splits."""
    rest, test = train_test_split(np.arange(len(y)), test_size=0.2, random_state=seed)
    order = np.random.RandomState(seed).permutation(len(rest))
    half = len(rest) // 2
    train, calibration = rest[order[:half]], rest[order[half : 2 * half]]
    spread = X[train].std(axis=0)
    X = (X - X[train].mean(axis=0)) / np.where(spread > 0, spread, 1)
    y = y / np.abs(y[train]).mean()
    model = RidgeCV().fit(X[train], y[train])
    scores = np.abs(y[calibration] - model.predict(X[calibration])).astype(float)
    errors = np.abs(y[test] - model.predict(X[test]))
    sites = list(scores[: N_SITES * n].reshape(N_SITES, n))
    for method in METHODS:
        if method.name in (QQ, CENTRALISED, AVERAGE, AVERAGE_NEXT):
            # Their centralised calibration has all calibration rows, also those of no site.
            held = [scores] if method.name == CENTRALISED else sites
            threshold = method.threshold(held, level, np.random.default_rng(seed))
            yield method.name, float(np.mean(errors <= threshold)), 2 * threshold


def side_by_side(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the authors' means beside ours."""
    keys = ["dataset", "method", "n_sites", "n_points"]
    means = rows.groupby(keys, sort=False)[
        ["published_coverage", "coverage", "published_length", "length"]
    ].mean()
    return means.round(3).reset_index()


def draw(rows: pd.DataFrame) -> Figure:
    """Draw coverage and length by data set and method: theirs as rings, ours as dots."""
    figure, ((left, right),) = panels(1, 2, (9.6, 3.8))
    means = side_by_side(rows)
    names, methods = list(means["dataset"].unique()), list(means["method"].unique())
    for axes, column in ((left, "coverage"), (right, "length")):
        for row in means.itertuples():
            j = methods.index(row.method)
            place = names.index(row.dataset) + (j - (len(methods) - 1) / 2) * 0.18
            label = row.method if row.dataset == names[0] else None
            look = {"color": colour(row.method), "label": label}
            axes.plot(place, getattr(row, column), "o", markersize=5, **look)
            theirs = getattr(row, f"published_{column}")
            axes.plot(place, theirs, "o", markersize=11, color="black", markerfacecolor="none")
        labels = [f"{name}\n{N_SITES} x {SIZES[name][1]}" for name in names]
        axes.set_xticks(range(len(names)), labels)
    target(left, 100 * rows["confidence_level"].iloc[0])
    left.set(
        ylabel="coverage, %", title=f"ridge, means over {rows['seed'].nunique()} of the authors' 20 runs"
    )
    right.set(ylabel="length", title="dots: ours; rings: published by the authors")
    legend_below(figure, left, 5)
    return figure
