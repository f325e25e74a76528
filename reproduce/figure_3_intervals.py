"""Figure 3 and appendix A.1: intervals on the Poisson process, for equal and for
different sizes.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from reproduce import data, methods
from reproduce.drawing import GREY, colour, panels
from reproduce.methods import AVERAGE_BY_SIZE, METHODS, UNBALANCED, Method
from reproduce.models import SYNTHETIC
from reproduce.protocol import Settings, quality

EQUAL = (20,) * 50
UNEQUAL = tuple(
    (
        10
        + np.random.default_rng(1).multinomial(
            500, np.random.default_rng(0).dirichlet([2.0] * 50)
        )
    ).tolist()
)
"""Fifty sites of 11 to 46 points, a thousand in all."""

INTERVALS = METHODS[:6]
UNBALANCED_INTERVALS = (UNBALANCED, *METHODS[1:6], AVERAGE_BY_SIZE)

LINES = {
    methods.QQ: ("-", 4.0),
    methods.STABLE: ("-", 2.0),
    methods.THREE: ((0, (1, 3)), 2.0),
    methods.CENTRALISED: ("--", 1.0),
    methods.AVERAGE: ("-", 1.2),
    methods.AVERAGE_NEXT: ("--", 1.2),
    methods.WEIGHTED: (":", 1.6),
}
"""Dashes and width: where methods agree their lines coincide, and the wider one is
below.
"""

LOW, HIGH = -2.5, 7.0


def compute(settings: Settings) -> pd.DataFrame:
    """Return the intervals of figure 3."""
    return intervals(settings, INTERVALS, EQUAL)


def compute_unbalanced(settings: Settings) -> pd.DataFrame:
    """Return the intervals of appendix A.1."""
    return intervals(settings, UNBALANCED_INTERVALS, UNEQUAL)


def intervals(
    settings: Settings, compared: Sequence[Method], sizes: Sequence[int]
) -> pd.DataFrame:
    """Train a quantile forest and calibrate it by each method; return 1,000 intervals
    of each.
    """
    forest = replace(settings.model("forest"), **SYNTHETIC)
    drawn = data.poisson(1000, sum(sizes), 5000)
    X, y = drawn.X[drawn.n_train :], drawn.y[drawn.n_train :]
    predicted = forest.fit_predict(
        drawn.X[: drawn.n_train], drawn.y[: drawn.n_train], X, seed=0
    )
    calibration, test = np.split(np.arange(len(y)), [sum(sizes)])
    scores = np.split(
        forest.score.score(y[calibration], predicted[calibration]),
        np.cumsum(sizes)[:-1],
    )
    shown = test[np.argsort(X[test[:1000], 0])]
    frames = []
    for method in compared:
        threshold = method.threshold(scores, settings.level, np.random.default_rng(0))
        coverage, length = quality(y[test], forest.score, predicted[test], threshold)
        lower, upper = np.asarray(
            forest.score.set(predicted[shown], threshold), dtype=float
        ).T
        rows = pd.DataFrame(
            {"x": X[shown, 0], "y": y[shown], "lower": lower, "upper": upper}
        )
        frames.append(
            rows.assign(
                method=method.name,
                n_sites=len(sizes),
                smallest_site=min(sizes),
                largest_site=max(sizes),
                confidence_level=settings.level,
                n_trees=forest.n_trees,
                plan=method.plan_text(sizes, settings.level),
                threshold=threshold,
                coverage=coverage,
                length=length,
            )
        )
    return pd.concat(frames, ignore_index=True)


def draw(rows: pd.DataFrame) -> Figure:
    """Draw test points and both ends of each method's intervals; coverage and length
    are in the legend.
    """
    figure, ((axes,),) = panels(1, 1, (7.0, 5.0))
    first = rows.iloc[0]
    points = rows[rows["method"] == first["method"]]
    axes.plot(
        points["x"],
        points["y"],
        ".",
        color=GREY,
        alpha=0.35,
        markersize=4,
        label="test points",
    )
    for method, line in rows.groupby("method", sort=False):
        dashes, width = LINES[method]
        label = (
            f"{method}: coverage {line['coverage'].iloc[0]:.3f}, length"
            f" {line['length'].iloc[0]:.2f}"
        )
        if line["lower"].max() < LOW:
            label += ", lower end below"
        for end, text in (("lower", label), ("upper", None)):
            axes.plot(
                line["x"],
                line[end],
                linestyle=dashes,
                linewidth=width,
                color=colour(method),
                label=text,
            )
    sizes = f"{first['smallest_site']}"
    if first["smallest_site"] != first["largest_site"]:
        sizes += f" to {first['largest_site']}"
    federation = (
        f"m = {first['n_sites']}, n = {sizes}, $\\alpha$ ="
        f" {1 - first['confidence_level']:.2g}"
    )
    title = f"{federation}; CQR with a quantile forest of {first['n_trees']} trees"
    axes.set(xlabel="x", ylabel="y", xlim=(1, 5), ylim=(LOW, HIGH), title=title)
    figure.legend(loc="outside lower center", ncols=2, fontsize="x-small")
    return figure
