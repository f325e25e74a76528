"""``python -m fedconformal.experiments.numbers DIRECTORY`` draws what several numbers per site buy."""

import argparse
import math
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from scipy import optimize, special

from fedconformal.experiments._figures._style import panels, style
from fedconformal.laws import CoverageLaw
from fedconformal.plots.style import BLACK, BLUE, GREEN, ORANGE, PURPLE, VERMILION
from fedconformal.protocol import plan

NUMBERS = (1, 2, 3, 5, 9)
FEDERATIONS: dict[str, tuple[int, ...]] = {
    "10 × 100": (100,) * 10,
    "50 × 20": (20,) * 50,
    "120, 40, 377, 88": (120, 40, 377, 88),
    "4 × 30 and 300": (30,) * 4 + (300,),
    "10 × 50 and 1000": (50,) * 10 + (1000,),
}
_COLOURS = (BLUE, GREEN, ORANGE, VERMILION, PURPLE)
_DPI = 110


def spread(n_points: Sequence[int], numbers: int, *, level: float = 0.9) -> float:
    """The spread of the coverage round the level, over that of pooled scores.

    Parameters
    ----------
    n_points : sequence of int
        Scores at each site.
    numbers : int
        How many a site sends at the most.
    level : float
        The confidence level.

    Returns
    -------
    float
        The root of E[(C - level)^2] over the standard deviation for all scores in one place.
    """
    law: CoverageLaw = plan(n_points=n_points, confidence_level=level, numbers=numbers).law
    pooled: CoverageLaw = plan(1, sum(n_points), confidence_level=level, criterion="marginal").law
    return math.sqrt(law.var() + (law.mean() - level) ** 2) / pooled.std()


def asymptotic_spread(numbers: int) -> float:
    """What the spread tends to for many large sites, with evenly spaced ranks of one vote each.

    A site's count of scores below a quantile near the level's is normal; in units of its standard deviation
    number i is below if a N(t, 1) variable reaches its offset. The votes of a site have the variance and the
    slope in t that follow, and the spread is their ratio, as small as a spacing makes it.

    Parameters
    ----------
    numbers : int
        How many a site sends.

    Returns
    -------
    float
        1.2533, the root of pi / 2, for one number; tends to 1.

    Examples
    --------
    >>> [round(asymptotic_spread(r), 3) for r in (1, 2, 3, 5)]
    [1.253, 1.111, 1.065, 1.032]
    """
    place = np.arange(numbers) - (numbers - 1) / 2

    def found(spacing: float) -> float:
        above = special.ndtr(-spacing * place)
        variance = (np.minimum.outer(above, above) - np.outer(above, above)).sum()
        slope = np.exp(-((spacing * place) ** 2) / 2).sum() / math.sqrt(2 * math.pi)
        return float(math.sqrt(variance) / slope)

    return float(optimize.minimize_scalar(found, bounds=(0.05, 3.0), method="bounded").fun)


def figure(
    federations: Mapping[str, Sequence[int]] = FEDERATIONS, numbers: Sequence[int] = NUMBERS
) -> Figure:
    """Spread against how many numbers a site sends, for federations with equal and with uneven sites.

    Parameters
    ----------
    federations : mapping from str to sequence of int
        The sites' sizes, by the name of a federation.
    numbers : sequence of int
        How many a site sends at the most.

    Returns
    -------
    Figure
        One line for each federation, and what many large sites tend to.
    """
    with style():
        drawn, axes = panels(1, 1, (6.4, 3.8))
        axis = axes[0, 0]
        for (name, sizes), colour in zip(federations.items(), cycle(_COLOURS)):
            marker = "o" if len(set(sizes)) == 1 else "s"
            axis.plot(numbers, [spread(sizes, r) for r in numbers], marker=marker, color=colour, label=name)
        limits = [asymptotic_spread(r) for r in numbers]
        axis.plot(numbers, limits, color=BLACK, linestyle=":", label="many large sites")
        axis.axhline(1.0, color=BLACK, linestyle="--", linewidth=1)
        axis.set_xticks(numbers)
        axis.set_xlabel("numbers that a site sends")
        axis.set_ylabel("spread of the coverage\nover that of pooled scores")
        axis.legend(title="sites", fontsize="small")
    return drawn


def main(directory: Path) -> None:
    """Save the figure.

    Parameters
    ----------
    directory : Path
        Where ``numbers.png`` goes.
    """
    directory.mkdir(parents=True, exist_ok=True)
    figure().savefig(directory / "numbers.png", dpi=_DPI, metadata={"Software": None})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Draw what several numbers per site buy.")
    parser.add_argument("directory", type=Path, help="where numbers.png goes")
    main(parser.parse_args().directory)
