"""Section 3.5: coverage when sites differ, simulated, exact, and bounded by Proposition
3.4.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import special
from scipy.interpolate import PchipInterpolator
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import fedconformal as fc
from fedconformal.laws import heterogeneous_coverage_bound
from reproduce.drawing import colour, legend_below, panels, target
from reproduce.methods import EACH, METHODS, QQ, planned
from reproduce.protocol import Settings

SCALES, ONE_ODD, LABELS = "a quarter of the sites", "one odd site", "labels"
N_SITES, N_POINTS = 20, 100
FACTORS = (1.0, 1.25, 1.5, 2.0, 3.0)
CONCENTRATIONS = (100.0, 10.0, 3.0, 1.0, 0.3, 0.1)

COMPARED = (*METHODS[:2], *METHODS[3:5], planned(EACH, "marginal", promise="each-site"))
LABELLED = {
    SCALES: (
        "A quarter of the sites: test points of all sites",
        "scores larger by a factor of",
    ),
    ONE_ODD: ("One odd site: test points of that site", "scores larger by a factor of"),
    LABELS: (
        "Digits, labels shifted: the worst site",
        "Dirichlet concentration (less alike to the right)",
    ),
}
"""Title and x-label of the panels."""

World = Callable[
    [np.random.Generator], tuple[list[np.ndarray], Callable[[float], float]]
]
"""From a generator to the scores of each site, and the exact coverage of a threshold.
"""


def compute(settings: Settings) -> pd.DataFrame:
    """Return all panels, every other point and few simulations if quick."""
    step, runs = (2, 20) if settings.quick else (1, 200)
    return study(settings.level, runs, FACTORS[::step], CONCENTRATIONS[::step])


def study(
    level: float, runs: int, factors=FACTORS, concentrations=CONCENTRATIONS
) -> pd.DataFrame:
    """Return a row for each panel, value and curve."""
    by_label = digit_scores()
    quarter, one = np.arange(N_SITES) < N_SITES // 4, np.arange(N_SITES) < 1
    rows = []
    for panel, odd, tested in (
        (SCALES, quarter, np.full(N_SITES, True)),
        (ONE_ODD, one, one),
    ):
        for factor in factors:
            scales = np.where(odd, factor, 1.0)
            rows += _simulated(
                panel, factor, scaled(scales, scales[tested]), level, runs
            )
            rows += _exact(panel, factor, scales, scales[tested], level)
    for concentration in concentrations:
        rows += _simulated(
            LABELS, concentration, relabelled(by_label, concentration), level, runs
        )
    return pd.DataFrame(rows)


def _simulated(
    panel: str, x: float, world: World, level: float, runs: int
) -> list[dict]:
    """Return the mean coverage of each method over the same simulated federations."""
    rng = np.random.default_rng(0)
    found = {method.name: [] for method in COMPARED}
    for _ in range(runs):
        sites, coverage = world(rng)
        for method in COMPARED:
            found[method.name].append(coverage(method.threshold(sites, level, rng)))
    common = {
        "panel": panel,
        "x": x,
        "confidence_level": level,
        "curve": "simulated",
        "runs": runs,
    }
    return [
        common | {"method": name, "coverage": np.mean(values)}
        for name, values in found.items()
    ]


# -- half-normal scores, larger at some sites --


def scaled(scales: np.ndarray, tested: np.ndarray) -> World:
    """Return sites whose half-normal scores have these scales; test points come from
    ``tested`` scales.
    """

    def draw(rng):
        scores = scales[:, None] * np.abs(rng.standard_normal((scales.size, N_POINTS)))
        return list(scores), lambda threshold: float(
            _cdf(np.asarray(threshold), tested)
        )

    return draw


def _cdf(x, scales: np.ndarray):
    """Return the distribution function of half-normal scores, averaged over scales."""
    values, counts = np.unique(scales, return_counts=True)
    shares = special.erf(np.maximum(x, 0)[..., None] / (np.sqrt(2) * values))
    return shares @ (counts / counts.sum())


def _quantile_function(scales: np.ndarray) -> PchipInterpolator:
    """Invert `_cdf` by interpolation on a fine grid."""
    grid = np.linspace(0, 9 * scales.max(), 20_001)
    c, first = np.unique(_cdf(grid, scales), return_index=True)
    c[-1] = 1.0
    return PchipInterpolator(c, grid[first])


def _exact(
    panel: str, x: float, scales: np.ndarray, tested: np.ndarray, level: float
) -> list[dict]:
    """Return the exact mean coverage and the bound of Proposition 3.4 for FedCP-QQ."""
    plan = fc.plan(N_SITES, N_POINTS, confidence_level=level, criterion="marginal")
    quantile = _quantile_function(tested)
    distortions = {
        scale: lambda c, scale=scale: special.erf(quantile(c) / (np.sqrt(2) * scale))
        for scale in np.unique(scales)
    }
    federation = {
        "n_points": [N_POINTS] * N_SITES,
        "local_rank": plan.local_ranks,
        "server_rank": plan.server_rank,
        "distortion": [distortions[scale] for scale in scales],
    }
    common = {"panel": panel, "x": x, "confidence_level": level, "method": QQ}
    return [
        common
        | {
            "curve": "exact law",
            "coverage": fc.CoverageLaw(**federation).mean(),
        },
        common
        | {
            "curve": "Proposition 3.4",
            "coverage": heterogeneous_coverage_bound(**federation),
        },
    ]


# -- digits, with other shares of labels at each site --


def digit_scores() -> list[np.ndarray]:
    """Return the sorted scores of a small model on the digits it was not trained on, by
    label.
    """
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    train, rest = order[:300], order[300:]
    model = LogisticRegression(max_iter=2000, C=0.01).fit(X[train] / 16, y[train])
    scores = 1 - model.predict_proba(X[rest] / 16)[np.arange(len(rest)), y[rest]]
    return [np.sort(scores[y[rest] == label]) for label in range(10)]


def relabelled(by_label: list[np.ndarray], concentration: float) -> World:
    """Return sites with shares of labels from a Dirichlet distribution; the worst
    site's coverage counts.
    """
    sizes = np.array([scores.size for scores in by_label])
    first, pooled = np.cumsum(sizes) - sizes, np.concatenate(by_label)

    def site(rng, share):
        labels = rng.choice(sizes.size, N_POINTS, p=share)
        return pooled[first[labels] + rng.integers(0, sizes[labels])]

    def draw(rng):
        shares = rng.dirichlet(np.full(sizes.size, concentration), size=N_SITES)

        def coverage(threshold):
            covered = [
                np.searchsorted(s, threshold, side="right") / s.size for s in by_label
            ]
            return float((shares @ np.array(covered)).min())

        return [site(rng, share) for share in shares], coverage

    return draw


# -- the figure --


def draw(rows: pd.DataFrame) -> Figure:
    """Draw a panel for each kind of difference."""
    figure, grid = panels(1, 3, (13.0, 4.2))
    for axes, panel in zip(grid.flat, LABELLED, strict=True):
        _draw_curves(axes, rows[rows["panel"] == panel], panel)
    runs = rows["runs"].max()
    title = (
        f"{N_SITES} sites of {N_POINTS} points; every point of a curve: {runs:.0f}"
        " federations"
    )
    figure.suptitle(title, fontsize="small")
    legend_below(figure, grid[0, 0], 4)
    return figure


def _draw_curves(axes, rows: pd.DataFrame, panel: str) -> None:
    simulated = rows[rows["curve"] == "simulated"]
    for (method, line), marker in zip(
        simulated.groupby("method", sort=False), "o^sDv", strict=True
    ):
        look = {
            "marker": marker,
            "markersize": 4,
            "linewidth": 0.8,
            "color": colour(method),
        }
        axes.plot(line["x"], line["coverage"], label=method, **look)
    for curve, dashes, width, alpha in (
        ("exact law", "-", 3.5, 0.35),
        ("Proposition 3.4", ":", 1.5, 1.0),
    ):
        line = rows[rows["curve"] == curve]
        look = {
            "linestyle": dashes,
            "linewidth": width,
            "alpha": alpha,
            "color": colour(QQ),
            "zorder": 1,
        }
        if len(line):
            axes.plot(
                line["x"],
                line["coverage"].clip(lower=0),
                label=f"{QQ}, {curve}",
                **look,
            )
    target(axes, rows["confidence_level"].iloc[0])
    title, xlabel = LABELLED[panel]
    axes.set(title=title, xlabel=xlabel, ylabel="coverage", xscale="log")
    ticks = simulated["x"].unique()
    axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
    axes.minorticks_off()
    if panel == LABELS:
        axes.invert_xaxis()
