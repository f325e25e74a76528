"""What privacy costs in coverage."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from matplotlib.axes import Axes

from fedconformal.plots import style
from fedconformal.privacy import Bins, Cost, Privacy, expected_cost
from fedconformal.protocol import plan

_EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


@dataclass
class PrivacyDisplay:
    """Coverage to expect of private plans, against their privacy loss epsilon.

    All these plans promise the level; what privacy costs is coverage above it, hence larger sets. An epsilon
    for which there is no finite threshold is marked at the top.

    Parameters
    ----------
    epsilon : sequence of float
        Privacy losses.
    cost : sequence of Cost or None
        What each costs, None where there is no finite threshold.

    Attributes
    ----------
    ax_ : Axes
        The axes that were drawn on last.

    Examples
    --------
    >>> import fedconformal as fc
    >>> bins = fc.Bins.uniform(0, 1, 10)
    >>> display = fc.plots.PrivacyDisplay.from_federation(5, 100, epsilons=[4.0, 8.0], bins=bins)
    >>> len(display.cost)
    2
    """

    epsilon: Sequence[float]
    cost: Sequence[Cost | None]
    ax_: Axes | None = field(default=None, init=False)

    @classmethod
    def from_federation(
        cls,
        n_sites: int,
        n_points: int,
        *,
        bins: Bins,
        confidence_level: float = 0.9,
        epsilons: Iterable[float] = _EPSILONS,
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Make a plan for each epsilon and plot it.

        Parameters
        ----------
        n_sites, n_points : int
            How many sites there are, and how many scores each has.
        bins : Bins
            Where private releases may fall.
        confidence_level : float
            Coverage wanted.
        epsilons : iterable of float
            Privacy losses of a report.
        ax : Axes, optional
            Where to draw.
        **options : dict
            For `fedconformal.plan`.

        Returns
        -------
        PrivacyDisplay
            Drawn.
        """
        losses = sorted(float(epsilon) for epsilon in epsilons)
        plans = [
            plan(
                n_sites,
                n_points,
                confidence_level=confidence_level,
                privacy=Privacy(epsilon=epsilon, bins=bins),
                on_infeasible="ignore",
                **options,
            )
            for epsilon in losses
        ]
        costs = [expected_cost(made)[0] if made.feasible else None for made in plans]
        return cls(losses, costs).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None, **line: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; new axes if left out.
        **line : dict
            How the curve looks, as ``Axes.plot`` takes it.

        Returns
        -------
        PrivacyDisplay
            Itself.
        """
        ax = style.axes(ax)
        epsilon = np.array(self.epsilon, dtype=float)
        expected = np.array([np.nan if cost is None else cost.expected for cost in self.cost])
        look = {**style.OURS, "marker": "o", "label": "private, to be expected"}
        ax.plot(epsilon, expected, **{**look, **line})
        for cost in [cost for cost in self.cost if cost is not None][:1]:
            ax.axhline(cost.without, label="without privacy", **style.POOLED)
            style.level_line(ax, cost.confidence_level, vertical=False)
        none = np.isnan(expected)
        if none.any():
            cross: dict[str, Any] = {"marker": "X", "markersize": 8, "linestyle": "none"}
            label = "no finite threshold"
            ax.plot(epsilon[none], np.ones(none.sum()), **cross, color=style.VERMILION, label=label)
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter("{x:g}")
        style.tidy(ax, x="privacy loss ε of each report", y="coverage to be expected")
        style.in_percent(ax.yaxis)
        style.legend_above(ax)
        self.ax_ = ax
        return self
