"""What a private plan means: the law of a site's release, its one-hot vectors, and what privacy costs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._typing import Floats, Ints
from fedconformal.privacy._release import PrivateRelease
from fedconformal.privacy._shapes import spread_of

T = TypeVar("T")


class Grid(Protocol):
    """Bins, as far as they matter here."""

    @property
    def edges(self) -> tuple[float, ...]:
        """Right edges."""
        ...

    @property
    def bounded(self) -> bool:
        """Whether no valid score can be above the last edge."""
        ...

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        ...

    def place(self, scores: ArrayLike) -> Ints:
        """How many scores fall into each bin."""
        ...


class PrivatePlan(Protocol):
    """A plan, as far as it matters here: ``bins`` and ``releases`` are None unless it is private."""

    @property
    def bins(self) -> Grid | None:
        """Where releases may fall."""
        ...

    @property
    def releases(self) -> tuple[PrivateRelease, ...] | None:
        """What each site does, for each level."""
        ...

    @property
    def designs(self) -> Sequence[Any]:
        """The design of each level."""
        ...


@dataclass(frozen=True)
class Cost:
    """What privacy costs at one level.

    Parameters
    ----------
    confidence_level : float
        The coverage that was asked for.
    without : float
        Mean coverage without privacy.
    expected : float
        Mean coverage to expect with it.
    error : float
        Standard error of ``expected``; 0 where nothing was simulated.

    Examples
    --------
    >>> import fedconformal as fc
    >>> privacy = fc.Privacy(8.0, fc.Bins.uniform(0, 1, 10))
    >>> plan = fc.plan(n_sites=5, n_points=100, privacy=privacy)
    >>> fc.privacy.expected_cost(plan)[0].confidence_level
    0.9
    """

    confidence_level: float
    without: float
    expected: float
    error: float = 0.0


def pmf(scores: ArrayLike, plan: PrivatePlan) -> Floats:
    """Exact probabilities of a site's private release.

    Parameters
    ----------
    scores : array of float
        The site's calibration scores; whatever they are, they fall into some bin.
    plan : Plan
        A private plan.

    Returns
    -------
    array of float
        One probability per bin; a row per level if there are several.

    Raises
    ------
    ValueError
        If the plan is not private.

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> privacy = fc.Privacy(8.0, fc.Bins.uniform(0, 1, 10))
    >>> plan = fc.plan(n_sites=5, n_points=100, privacy=privacy)
    >>> chances = fc.privacy.pmf(np.linspace(0, 1, 100), plan)
    >>> chances.shape, round(float(chances.sum()), 6)
    ((10,), 1.0)
    """
    counts = of_private(plan.bins).place(scores)
    rows = [release.pmf(counts) for release in of_private(plan.releases)]
    return rows[0] if len(rows) == 1 else np.stack(rows)


def one_hot(bins: Sequence[int], plan: PrivatePlan) -> Ints:
    """A release as vectors that secure aggregation can sum.

    Parameters
    ----------
    bins : sequence of int
        The bins that were released, one per level; 0 is the first.
    plan : Plan
        The private plan that they answer.

    Returns
    -------
    array of int
        One row per level, with a single 1 in the place of the bin.

    Raises
    ------
    ValueError
        If the plan is not private.

    Examples
    --------
    >>> import fedconformal as fc
    >>> privacy = fc.Privacy(8.0, fc.Bins.uniform(0, 1, 10))
    >>> plan = fc.plan(n_sites=5, n_points=100, privacy=privacy)
    >>> fc.privacy.one_hot([3], plan)
    array([[0, 0, 0, 1, 0, 0, 0, 0, 0, 0]])
    """
    vectors = np.zeros((len(bins), of_private(plan.bins).n_bins), dtype=np.int64)
    vectors[np.arange(len(bins)), list(bins)] = 1
    return vectors


def expected_cost(plan: PrivatePlan, scores: str | ArrayLike | None = None) -> tuple[Cost, ...]:
    """Expected coverage with and without privacy, if all sites answer.

    What to expect follows from the mechanism's own law over the counts of a site's scores: exactly where
    there are few, else from draws with a fixed seed.

    Parameters
    ----------
    plan : Plan
        A private plan.
    scores : str or array of float, optional
        How scores are spread: a shape ("uniform", "half-normal" or "gamma", whose scale is a tenth of the
        last edge), or **public** scores. If left out, evenly over the bins.

    Returns
    -------
    tuple of Cost
        One for each level.

    Raises
    ------
    ValueError
        If the plan is not private, or ``scores`` is neither a shape nor a sample.

    Examples
    --------
    >>> import fedconformal as fc
    >>> privacy = fc.Privacy(8.0, fc.Bins.uniform(0, 1, 10))
    >>> plan = fc.plan(n_sites=5, n_points=100, privacy=privacy)
    >>> (cost,) = fc.privacy.expected_cost(plan)
    >>> 0.9 <= cost.expected <= 1
    True
    """
    bins = of_private(plan.bins)
    masses = None if scores is None else spread_of(scores, bins.edges[-1]).masses(bins.edges, bins.n_bins)
    costs = []
    for design in plan.designs:
        expected, without = design.expected_law(masses), design.without_privacy().law().mean()
        costs.append(Cost(float(design.goal.level), without, expected.mean(), expected.error))
    return tuple(costs)


def of_private(part: T | None) -> T:
    """A part that private plans alone have."""
    if part is None:
        raise ValueError("this plan is not private: make it with privacy=Privacy(...)")
    return part
