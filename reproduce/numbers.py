"""Not in the paper: the spread of the coverage when sites send several numbers."""

import math
from collections.abc import Sequence
from itertools import cycle

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import optimize, special

import fedconformal as fc
from reproduce.drawing import BLACK, BLUE, GREEN, ORANGE, PURPLE, VERMILION, panels
from reproduce.protocol import Settings

NUMBERS = (1, 2, 3, 5, 9)
FEDERATIONS = {
    "10 × 100": (100,) * 10,
    "50 × 20": (20,) * 50,
    "120, 40, 377, 88": (120, 40, 377, 88),
    "4 × 30 and 300": (30,) * 4 + (300,),
    "10 × 50 and 1000": (50,) * 10 + (1000,),
}
LIMIT = "many large sites"


def spread(n_points: Sequence[int], numbers: int, level: float = 0.9) -> float:
    """Return the root of E[(C - level)^2] over the standard deviation of the coverage
    of pooled scores.
    """
    law = fc.plan(n_points=n_points, confidence_level=level, numbers=numbers).law
    pooled = fc.baselines.coverage_law(sum(n_points), level)
    return math.hypot(law.std(), law.mean() - level) / pooled.std()


def asymptotic_spread(numbers: int) -> float:
    """Return the limit of the spread for many large sites with evenly spaced ranks of
    one vote each.

    A site's count of scores below a quantile near the level's is normal. In units of
    its standard deviation, number i lies below if a N(t, 1) variable reaches its
    offset; the spread is the standard deviation of a site's votes over their slope in
    t, at the best spacing. One number gives the root of pi / 2.
    """
    place = np.arange(numbers) - (numbers - 1) / 2

    def of_spacing(spacing: float) -> float:
        above = special.ndtr(-spacing * place)
        variance = (np.minimum.outer(above, above) - np.outer(above, above)).sum()
        slope = np.exp(-((spacing * place) ** 2) / 2).sum() / math.sqrt(2 * math.pi)
        return math.sqrt(variance) / slope

    return float(
        optimize.minimize_scalar(of_spacing, bounds=(0.05, 3.0), method="bounded").fun
    )


def compute(settings: Settings, federations=None, numbers=NUMBERS) -> pd.DataFrame:
    """Return the spread by federation and numbers per site, and its limit."""
    federations = federations or FEDERATIONS
    rows = [
        (name, len(set(sizes)) == 1, r, spread(sizes, r, settings.level))
        for name, sizes in federations.items()
        for r in numbers
    ]
    rows += [(LIMIT, True, r, asymptotic_spread(r)) for r in numbers]
    return pd.DataFrame(rows, columns=["sites", "equal", "numbers", "spread"])


def draw(rows: pd.DataFrame) -> Figure:
    """Draw a line for each federation; squares are federations of different sizes."""
    figure, ((axes,),) = panels(1, 1, (6.4, 3.8))
    colours = cycle((BLUE, GREEN, ORANGE, VERMILION, PURPLE))
    for name, line in rows.groupby("sites", sort=False):
        if name == LIMIT:
            look = {"color": BLACK, "linestyle": ":"}
        else:
            look = {
                "color": next(colours),
                "marker": "o" if line["equal"].all() else "s",
            }
        axes.plot(line["numbers"], line["spread"], label=name, **look)
    axes.axhline(1.0, color=BLACK, linestyle="--", linewidth=1)
    axes.set(
        xlabel="numbers that a site sends",
        ylabel="spread of the coverage\nover that of pooled scores",
    )
    axes.set_xticks(rows["numbers"].unique())
    axes.legend(title="sites", fontsize="small")
    return figure
