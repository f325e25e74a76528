"""The results that the authors published: all 30 means, and the ridge ones recomputed
on their own splits.

Their public repository holds tables of results, without the code of the methods. The
rows, the splits, the rank of their FedCP-Avg (one above the text's) and the pairs of
their FedCP-QQ were found by matching these. ``published.csv`` has their means over 20
runs, and for centralised calibration the length in the first and the last run and
Spearman's correlation of the length with the number of the run.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import train_test_split

from reproduce import data
from reproduce.drawing import GREY, colour, legend_below, panels, target
from reproduce.methods import AVERAGE_NEXT, CENTRALISED, METHODS, QQ, Sites
from reproduce.protocol import FEW, MANY, Settings

N_SEEDS = 20

SIZES = {
    "bio": (4000, 79),
    "bike": (1030, 40),
    "community": (None, 79),
    "star": (None, 79),
    "concrete": (None, 40),
}
"""Rows used (all if None), and the larger of m and n; the smaller is 10."""

PAIRS = {(79, 10): (9, 61), (40, 10): (9, 30)}
"""Local and server rank by sites and points, where the authors' FedCP-QQ has not (l*,
k*).
"""

THEIR_QQ = "FedCP-QQ, the authors' pair"

BIKE_ORDER = [*range(8, 14), *range(8), *range(14, 18)]
"""Their order of the features of bike."""

STAR_CODES = {
    word: code
    for words in (
        "female male",
        "cauc afam asian hispanic amindian other",
        "regular small regular+aide",
        "free non-free",
        "inner-city suburban rural urban",
        "bachelor master specialist master+",
        "bachelor master specialist phd",
        "level1 level2 level3 apprentice probation pending notladder",
    )
    for code, word in enumerate(words.split())
}
"""Their numbers for the words of star; of its features they leave out lunchk, and take
the row's label.
"""


def published() -> pd.DataFrame:
    """Return the authors' means, coverage in percent, by scenario, data set, model and
    method.
    """
    return pd.read_csv(Path(__file__).with_name("published.csv"))


def compute(settings: Settings) -> pd.DataFrame:
    """Run their protocol on the five data sets; three of their 20 runs if quick."""
    n_seeds = 3 if settings.quick else N_SEEDS
    sets = [
        _their_features(data.load(name, download=settings.download)) for name in SIZES
    ]
    return pd.concat(
        [protocol(dataset, settings.level, n_seeds) for dataset in sets],
        ignore_index=True,
    )


def protocol(
    dataset: data.DataSet, level: float, n_seeds: int = N_SEEDS
) -> pd.DataFrame:
    """Run their protocol on one data set; return a row for each run and method, beside
    their mean over 20.

    Their means are left out if fewer runs are made, which would be compared with means
    over others.
    """
    n_rows, size = SIZES[dataset.name]
    X, y = dataset.X[:n_rows], dataset.y[:n_rows].astype(np.float32)
    rows = []
    for seed in range(1, n_seeds + 1):
        scores, errors = _scores(X.astype(np.float32), y, seed)
        for scenario, m, n in ((MANY, size, 10), (FEW, 10, size)):
            for method, threshold in _thresholds(scores, m, n, level):
                coverage = 100 * float(np.mean(errors <= threshold))
                rows.append(
                    (
                        scenario,
                        dataset.name,
                        method,
                        m,
                        n,
                        n_seeds,
                        level,
                        coverage,
                        2 * threshold,
                    )
                )
    columns = ["scenario", "dataset", "method", "n_sites", "n_points", "runs",
               "confidence_level", "coverage", "length"]  # fmt: skip
    theirs = published()
    theirs = theirs[(theirs["model"] == "ridge") & (n_seeds == N_SEEDS)]
    theirs = theirs.rename(
        columns={"coverage": "published_coverage", "length": "published_length"}
    )
    # Their FedCP-QQ is compared both with (l*, k*) and, where it is another, with their
    # own pair.
    theirs = pd.concat([theirs, theirs[theirs["method"] == QQ].assign(method=THEIR_QQ)])
    key = ["scenario", "dataset", "method"]
    wanted = [*key, "published_coverage", "published_length"]
    return pd.DataFrame(rows, columns=columns).merge(theirs[wanted], how="left", on=key)


def _their_features(dataset: data.DataSet) -> data.DataSet:
    """Return a data set with the authors' features, which differ from ours for two of
    the five.
    """
    if dataset.name == "bike":
        return replace(
            dataset, X=dataset.X[:, BIKE_ORDER] - np.array([0] * 17 + [2011])
        )
    if dataset.name == "star":
        table = pd.read_csv(data.find("star")[0]).dropna()
        return replace(
            dataset,
            X=table.drop(columns=[*data.STAR_MARKS, "lunchk"])
            .replace(STAR_CODES)
            .to_numpy(float),
        )
    return dataset


def _scores(X, y, seed: int):
    """Return the scores of calibration and test rows on one of their splits."""
    rest, test = train_test_split(np.arange(len(y)), test_size=0.2, random_state=seed)
    order = np.random.RandomState(seed).permutation(len(rest))
    half = len(rest) // 2
    train, calibration = rest[order[:half]], rest[order[half : 2 * half]]
    spread = X[train].std(axis=0)
    X = (X - X[train].mean(axis=0)) / np.where(spread > 0, spread, 1)
    y = y / np.abs(y[train]).mean()
    model = RidgeCV().fit(X[train], y[train])
    scores = np.abs(y[calibration] - model.predict(X[calibration])).astype(float)
    return scores, np.abs(y[test] - model.predict(X[test]))


def _thresholds(scores: np.ndarray, m: int, n: int, level: float):
    """Yield the threshold of each method of the paper, and that of the authors'
    pair.
    """
    sites: Sites = list(scores[: m * n].reshape(m, n))
    for method in METHODS:
        if method.name in (QQ, CENTRALISED, AVERAGE_NEXT):
            # Their centralised calibration has all calibration rows, also those of no
            # site.
            held = [scores] if method.name == CENTRALISED else sites
            yield method.name, method.threshold(held, level, np.random.default_rng(0))
    if (m, n) in PAIRS:
        local, server = PAIRS[m, n]
        yield THEIR_QQ, float(np.sort(np.sort(sites, axis=1)[:, local - 1])[server - 1])


def side_by_side(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the authors' means beside ours."""
    keys = [
        "scenario",
        "dataset",
        "method",
        "n_sites",
        "n_points",
        "runs",
        "confidence_level",
    ]
    means = rows.groupby(keys, sort=False)[
        ["published_coverage", "coverage", "published_length", "length"]
    ].mean()
    return means.round(3).reset_index()


def draw(rows: pd.DataFrame) -> Figure:
    """Draw ridge coverages, theirs as rings and ours as dots, and the trend of their
    lengths over runs.
    """
    figure, (axes_of_ridge,) = panels(1, 3, (12.6, 4.2), width_ratios=(1.3, 1.3, 1))
    means = side_by_side(rows)
    names, methods = list(means["dataset"].unique()), list(means["method"].unique())
    for axes, scenario in zip(axes_of_ridge, (MANY, FEW), strict=False):
        for row in means[means["scenario"] == scenario].itertuples():
            place = (
                names.index(row.dataset)
                + (methods.index(row.method) - (len(methods) - 1) / 2) * 0.18
            )
            label = row.method if row.dataset == names[0] else None
            axes.plot(
                place,
                row.coverage,
                "o",
                markersize=5,
                color=colour(row.method),
                label=label,
            )
            axes.plot(
                place,
                row.published_coverage,
                "o",
                markersize=11,
                color="black",
                markerfacecolor="none",
            )
        axes.set_xticks(range(len(names)), names)
        target(axes, 100 * rows["confidence_level"].iloc[0])
        axes.set(
            ylim=(88.2, 96.2),
            title=f"ridge, {scenario}, means over {means['runs'].iloc[0]} runs",
        )
    axes_of_ridge[0].set_ylabel("coverage, %; rings: published")
    trends = published().dropna(subset="trend")
    last = axes_of_ridge[-1]
    for place, (_, found) in enumerate(trends.groupby("model", sort=False)):
        for mark, scenario, side in (("s", MANY, -0.12), ("^", FEW, 0.12)):
            values = found.loc[found["scenario"] == scenario, "trend"]
            last.plot(
                [place + side] * len(values),
                values,
                mark,
                color=GREY,
                markersize=5,
                alpha=0.7,
            )
    last.axhspan(-0.447, 0.447, color="0.92", zorder=0)
    last.set_xticks(range(trends["model"].nunique()), trends["model"].unique())
    last.set(ylim=(-1, 1), ylabel="Spearman: published length and number of the run")
    last.set_title(
        "squares m >> n, triangles m << n;\ngrey: 95 % of random orders",
        fontsize="small",
    )
    legend_below(figure, axes_of_ridge[0], 5)
    return figure
