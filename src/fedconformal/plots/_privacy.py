"""Coverage of private plans against epsilon."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from matplotlib.axes import Axes

from fedconformal.documents import Plan
from fedconformal.laws import CoverageLaw
from fedconformal.messages import CurveMessage
from fedconformal.plots import style
from fedconformal.privacy import Bins, Privacy
from fedconformal.protocol import InfeasibleWarning, plan

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
    expected : sequence of float
        Mean coverage of noisy curves if scores lie evenly over the bins, NaN where no threshold is finite.
    paper : sequence of float
        Mean coverage of the ranks that the paper's analysis aims at, NaN where it has none.
    confidence_level : float
        Coverage that was asked for.
    without : float, optional
        Mean coverage without privacy.

    Attributes
    ----------
    ax_ : Axes
        The axes that were drawn on last.

    Examples
    --------
    >>> import fedconformal as fc
    >>> bins = fc.Bins.uniform(0, 1, 20)
    >>> display = fc.plots.PrivacyDisplay.from_federation(5, 100, epsilons=[4.0, 8.0], bins=bins)
    >>> len(display.expected)
    2
    """

    epsilon: Sequence[float]
    expected: Sequence[float]
    paper: Sequence[float]
    confidence_level: float
    without: float | None = None
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
        """Make plans for each epsilon and plot them.

        Parameters
        ----------
        n_sites, n_points : int
            Number of sites, and of scores at each.
        bins : Bins
            Grid on which scores are counted.
        confidence_level : float
            Coverage to reach.
        epsilons : iterable of float
            Privacy losses of a report.
        ax : Axes, optional
            Where to draw.
        **options : dict
            For `fedconformal.plan`. The paper's analysis is left out where it does not go with them.

        Returns
        -------
        PrivacyDisplay
            Drawn.
        """
        losses = sorted(float(epsilon) for epsilon in epsilons)

        def make(privacy: Privacy | None) -> Plan:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", InfeasibleWarning)
                return plan(n_sites, n_points, confidence_level=confidence_level, privacy=privacy, **options)

        def aimed(epsilon: float) -> float:
            try:
                made = make(Privacy(epsilon, bins, analysis="paper"))
            except ValueError:
                return np.nan
            ranks = made.local_ranks
            if not made.feasible or ranks is None or made.server_rank is None:
                return np.nan
            return CoverageLaw(n_sites, n_points, ranks[0], made.server_rank).mean()

        plans = [make(Privacy(epsilon, bins)) for epsilon in losses]
        expected = [
            CurveMessage().expected(made.designs[0], 0)[0] if made.feasible else np.nan for made in plans
        ]
        exact = make(None)
        without = exact.law.mean() if exact.feasible and exact.law is not None else None
        paper = [aimed(epsilon) for epsilon in losses]
        return cls(losses, expected, paper, confidence_level, without).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None, **line: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; new axes if left out.
        **line : dict
            Options of the curve, as ``Axes.plot`` takes them.

        Returns
        -------
        PrivacyDisplay
            Itself.
        """
        ax = style.axes(ax)
        epsilon, expected, paper = (
            np.array(each, dtype=float) for each in (self.epsilon, self.expected, self.paper)
        )
        look = {**style.OURS, "marker": "o", "label": "private, to be expected"}
        ax.plot(epsilon, expected, **{**look, **line})
        if not np.isnan(paper).all():
            ax.plot(epsilon, paper, **style.PAPER, label="the paper's analysis")
        if self.without is not None:
            ax.axhline(self.without, label="without privacy", **style.POOLED)
        style.level_line(ax, self.confidence_level, vertical=False)
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
