"""Which bins to take: a few kinds of them, compared by what a plan would cost with each."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._typing import Floats
from fedconformal.privacy._private_plan import Grid, PrivatePlan, of_private
from fedconformal.privacy._shapes import Spread, spread_of

B = TypeVar("B", bound=Grid)
Made_co = TypeVar("Made_co", bound=Grid, covariant=True)

_LONG = ("half-normal", "gamma")  # long tails, on which bins matter most
_COARSE = 10  # of the bins, one in so many lies on either side of those that matter
_DECADES = 1000  # logarithmic bins begin at one over this of the last edge


class Maker(Protocol[Made_co]):
    """The class of bins, as far as it matters here."""

    def __call__(self, edges: tuple[float, ...], bounded: bool = False) -> Made_co:
        """Bins with these edges."""
        ...

    def uniform(self, low: float, high: float, count: int) -> Made_co:
        """Bins of equal width."""
        ...

    def log(self, low: float, high: float, count: int) -> Made_co:
        """Bins whose edges grow by a constant factor."""
        ...


@dataclass(frozen=True)
class SuggestedBins(Generic[B]):
    """Bins, and what a plan would cost with them.

    Parameters
    ----------
    kind : str
        How they were made.
    bins : Bins
        The bins.
    expected : dict of str to float
        For each distribution of scores, the mean coverage to expect, averaged over the levels.
    error : float
        The largest standard error of these.

    Examples
    --------
    >>> import fedconformal as fc
    >>> privacy = fc.Privacy(epsilon=1.0, bins=fc.Bins.uniform(0, 5, 20))
    >>> first = fc.Bins.suggest(fc.plan(n_sites=5, n_points=200, privacy=privacy), "half-normal")[0]
    >>> list(first.expected), 0.9 < first.worst < 1
    (['half-normal'], True)
    """

    kind: str
    bins: B
    expected: dict[str, float]
    error: float

    @property
    def worst(self) -> float:
        """The largest coverage to expect under any of the distributions: the less, the better."""
        return max(self.expected.values())


def suggest_bins(
    make: Maker[B], plan: PrivatePlan, scores: str | Sequence[str] | ArrayLike | None, low: float | None
) -> list[SuggestedBins[B]]:
    """Bins of several kinds, the cheapest under the worst distribution first; see `Bins.suggest`.

    All have as many bins and the same last edge as the plan's own, which are compared too, so that the plan
    is as valid with any of them: its promise depends on how many bins there are, and on nothing else of them.
    """
    own = of_private(plan.bins)
    spreads = [spread_of(each, own.edges[-1]) for each in _listed(_LONG if scores is None else scores)]
    kinds = _kinds(make, plan, own, spreads, low)
    found = [_compared(plan, kind, make(edges, own.bounded), spreads) for kind, edges in kinds]
    return sorted(found, key=lambda each: each.worst)


def _listed(scores: str | Sequence[str] | ArrayLike) -> list[str | ArrayLike]:
    if isinstance(scores, str):
        return [scores]
    if isinstance(scores, (list, tuple)) and scores and all(isinstance(each, str) for each in scores):
        return list(scores)
    return [scores]


def _compared(plan: PrivatePlan, kind: str, bins: B, spreads: list[Spread]) -> SuggestedBins[B]:
    expected, error = {}, 0.0
    for spread in spreads:
        laws = [design.expected_law(spread.masses(bins.edges, bins.n_bins)) for design in plan.designs]
        expected[spread.name] = sum(law.mean() for law in laws) / len(laws)
        error = max([error, *(law.error for law in laws)])
    return SuggestedBins(kind, bins, expected, error)


def _kinds(
    make: Maker[B], plan: PrivatePlan, own: Grid, spreads: list[Spread], low: float | None
) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Names of kinds, and their edges."""
    count, high = len(own.edges), own.edges[-1]
    yield "as planned", own.edges
    start = 2 * own.edges[0] - own.edges[1] if low is None else low
    yield "uniform", make.uniform(start, high, count).edges
    if high > 0:
        yield "log", make.log(high / _DECADES, high, count).edges
    for spread in spreads:
        of = f" of {spread.name} scores"
        yield f"equal shares{of}", _at(spread, np.arange(1, count + 1) / count, own)
        yield f"fine above the median{of}", _at(spread, _focused(0.5, 1.0, count), own)
        yield f"fine around the threshold{of}", _at(spread, _focused(*_around(plan), count), own)


def _at(spread: Spread, shares: Floats, own: Grid) -> tuple[float, ...]:
    """Edges at these shares, as many as are different, and the last edge of the plan's own bins."""
    edges = np.unique(spread.quantile(shares[:-1]))
    return (*edges[edges < own.edges[-1]].tolist(), own.edges[-1])


def _focused(low: float, high: float, count: int) -> Floats:
    """Shares at which edges lie: most of them between two shares, a few below and above."""
    few = max(1, count // _COARSE)
    above = few if high < 1 else 1
    parts = (
        np.linspace(0.0, low, few + 1)[1:],
        np.linspace(low, high, count - few - above + 1)[1:],
        np.linspace(high, 1.0, above + 1)[1:],
    )
    return np.concatenate(parts)


def _around(plan: PrivatePlan) -> tuple[float, float]:
    """The shares between which releases fall at nearly all sites and levels."""
    n = min(block.n for design in plan.designs for block in design.blocks)
    levels = [float(design.goal.level) for design in plan.designs]
    release = of_private(plan.releases)[0]
    noise = math.log(release.n_bins) / (float(release.epsilon) * n)
    spread = max(math.sqrt(level * (1 - level) / n) for level in levels)
    reach = 4 * (noise + spread)
    return max(min(levels) - reach, 0.0), min(max(levels) + reach, 1.0)
