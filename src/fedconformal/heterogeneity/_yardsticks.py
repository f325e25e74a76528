"""What the sites' reports are compared with, and what must then be assumed. A class each.

Without any assumption nobody can tell odd sites from a heavy tail: the reports of sites with equal sizes are
independent draws of one law, and that law may be any continuous one. A test whose false-alarm rate is a for
every distribution of scores finds one odd site with probability at most e * a, however odd it is
(docs/heterogeneity.md has the proof). So something must be fixed: reference scores, a reference distribution,
or the shape of the tail.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from fedconformal._typing import Floats, Ints
from fedconformal._validation import plain_array
from fedconformal.heterogeneity._counting import holm
from fedconformal.heterogeneity._distributions import Distribution
from fedconformal.heterogeneity._distributions import reference as as_distribution

_DRAWS = 20_000_000  # simulated reports, in all
_FEWEST = 4
_NODES, _MOST_KINDS = 1000, 50  # quantiles of a report, and kinds of sites, that a power is averaged over
_SUSPICIOUS = 3.0
_NORMAL_QUARTILE = 0.6744897501960817  # a robust standard deviation is a median distance over this


class Yardstick(ABC):
    """What reports are compared with."""

    assumption: ClassVar[str]
    """What is assumed, in two words."""
    assumed: ClassVar[str]
    """What is assumed, as the end of a sentence."""
    position_heading: ClassVar[str]
    """What a position is, as the heading of a column."""

    def least_false_alarm(self, n_sites: int) -> float:
        """The smallest false-alarm rate at which anybody can be named."""
        return 0.0

    @abstractmethod
    def compare(self, values: Floats, n: Ints, l: Ints) -> tuple[Floats, Floats]:
        """Where each report lies, and its p-value, adjusted for looking at all sites.

        Parameters
        ----------
        values : array of float
            What each site sent.
        n, l : arrays of int
            The site's size, and the rank of what it sent.

        Returns
        -------
        tuple of two arrays
            Positions and adjusted p-values.
        """

    @abstractmethod
    def power(self, n: Ints, l: Ints, false_alarm: float, factor: float = 2.0) -> float:
        """How probably a site whose scores are so many times as large is named, if the others are alike.

        Parameters
        ----------
        n, l : arrays of int
            As for `compare`; any of the sites may be the odd one, with equal probability.
        false_alarm : float
            Of the comparison.
        factor : float
            By how much the scores of the odd site are larger.

        Returns
        -------
        float
            With a reference a lower bound of it: what Holm's method names at its first step.
        """

    def suspicion(self, values: Floats, n: Ints, l: Ints) -> str | None:
        """What speaks against the yardstick itself, in a sentence; None if nothing does."""
        return None

    def position_text(self, position: float) -> str:
        """A position for a table."""
        return f"{position:.6g}"


class ReferenceScores(Yardstick):
    """Scores of a typical site: the rank of each report among them has a law that is known exactly.

    At most k of N reference scores lie below the l-th smallest of n others if and only if among the k + l
    smallest of all N + n at least l are of the n (negative hypergeometric). With ties both tails count them
    against a finding.
    """

    assumption: ClassVar[str] = "reference scores"
    assumed: ClassVar[str] = "the reference scores are distributed as a typical site's"
    position_heading: ClassVar[str] = "share of the reference below"

    def __init__(self, scores: ArrayLike) -> None:
        values = plain_array(scores, dtype=float)
        if values.ndim != 1 or values.size == 0 or np.isnan(values).any():
            raise ValueError("reference scores must be a flat array of numbers, at least one")
        self._ordered = np.sort(values)

    def compare(self, values: Floats, n: Ints, l: Ints) -> tuple[Floats, Floats]:
        """The share of reference scores that are not above each report."""
        _refuse_none(values)
        positions, chances = self._single(values, n, l)
        return positions, _adjusted(chances)

    def _single(self, values: Floats, n: Ints, l: Ints) -> tuple[Floats, Floats]:
        below, at_most = (np.searchsorted(self._ordered, values, side=side) for side in ("left", "right"))
        total = self._ordered.size + n
        low = stats.hypergeom.sf(l - 1, total, n, at_most + l)
        high = np.where(below > 0, stats.hypergeom.cdf(l - 1, total, n, np.maximum(below - 1, 0) + l), 1.0)
        return at_most / self._ordered.size, _two_sided(low, high)

    def power(self, n: Ints, l: Ints, false_alarm: float, factor: float = 2.0) -> float:
        """If the odd site's scores are those of the reference, times the factor."""

        def chance(size: int, rank: int, u: Floats) -> Floats:
            values = factor * np.quantile(self._ordered, u, method="inverted_cdf")
            return self._single(values, np.full(u.shape, size), np.full(u.shape, rank))[1]

        return _mean_power(chance, n, l, false_alarm)

    def suspicion(self, values: Floats, n: Ints, l: Ints) -> str | None:
        """Sites that together lie far above the reference: so it is if the model was trained on that.

        Scores of cases that a model was trained on are too small. A heuristic: the mean distance of the
        sites' positions from what they should be, in standard errors, is above 3, about once in 700 times by
        chance.
        """
        expected = l / (n + 1)
        positions = np.searchsorted(self._ordered, values, side="left") / self._ordered.size
        middle = float(expected.mean())
        variance = (expected * (1 - expected) / (n + 2)).sum() / n.size**2
        error = np.sqrt(variance + middle * (1 - middle) / self._ordered.size)
        away = float((positions - expected).mean() / error)
        if away <= _SUSPICIOUS:
            return None
        return (
            f"Together the sites lie {away:.1f} standard errors above the reference. So it is if the model "
            "was trained on the reference cases, whose scores are then too small: use cases that it has not "
            "seen."
        )


class ReferenceDistribution(Yardstick):
    """A typical site's distribution: each report is then a Beta(l, n - l + 1) variable."""

    assumption: ClassVar[str] = "reference distribution"
    assumed: ClassVar[str] = "the reference distribution is a typical site's"
    position_heading: ClassVar[str] = "share of the reference below"

    def __init__(self, distribution: Distribution) -> None:
        self._distribution = distribution

    def compare(self, values: Floats, n: Ints, l: Ints) -> tuple[Floats, Floats]:
        """The value of the distribution function at each report."""
        _refuse_none(values)
        u = np.asarray(self._distribution.cdf(values), dtype=float)
        return u, _adjusted(_beta_chance(u, n, l))

    def power(self, n: Ints, l: Ints, false_alarm: float, factor: float = 2.0) -> float:
        """If the odd site's scores follow the distribution, times the factor."""

        def chance(size: int, rank: int, u: Floats) -> Floats:
            moved = self._distribution.cdf(factor * self._distribution.ppf(u))
            return _beta_chance(np.asarray(moved, dtype=float), np.array(size), np.array(rank))

        return _mean_power(chance, n, l, false_alarm)


class EachOther(Yardstick):
    """Nothing but the other sites: distances from their median, beside simulated federations.

    With an exponential tail F^{-1}(u) = a - b log(1 - u) a report is a + b E, and E, the l-th smallest of n
    exponential variables, has a known law. The distances, in robust standard deviations, do not depend on a
    and b, so the simulation is exact, and a p-value (1 + how many simulated are as large) / (1 + how many
    there are) is valid.
    """

    assumption: ClassVar[str] = "exponential tail"
    assumed: ClassVar[str] = "around the threshold the scores have an exponential tail"
    position_heading: ClassVar[str] = "robust sd from the middle"

    def __init__(self, rng: int | np.random.Generator | None = 0) -> None:
        self._seed = rng if isinstance(rng, int) else int(np.random.default_rng(rng).integers(2**63))

    def least_false_alarm(self, n_sites: int) -> float:
        """Twice the smallest p-value that the simulation can give."""
        return 2 / (1 + _n_draws(n_sites))

    def compare(self, values: Floats, n: Ints, l: Ints) -> tuple[Floats, Floats]:
        """The distance of each report from the median of all."""
        if values.size < _FEWEST:
            raise ValueError(
                f"without a reference at least {_FEWEST} sites with a finite report are needed, "
                f"got {values.size}"
            )
        if not np.isfinite(values).all() or np.unique(values).size < values.size:
            raise ValueError(
                "reports that are equal, or infinite, have no exponential tail: give reference scores"
            )
        largest = _simulated(tuple(n.tolist()), tuple(l.tolist()), self._seed)
        distances = _distances(values, _spread(n, l))
        larger = largest.size - np.searchsorted(largest, np.abs(distances), side="left")
        return distances, (1 + larger) / (1 + largest.size)

    def power(self, n: Ints, l: Ints, false_alarm: float, factor: float = 2.0) -> float:
        """Simulated for exponential scores, in the mean over 2,000 federations or fewer if they are large."""
        m = n.size
        if m < _FEWEST:
            return 0.0
        largest = _simulated(tuple(n.tolist()), tuple(l.tolist()), self._seed)
        rng = np.random.default_rng([self._seed, 1])
        draws = int(np.clip(2_000_000 // m, 99, 2_000))
        values = -np.log1p(-rng.beta(l, n - l + 1, size=(draws, m)))
        odd = rng.integers(m, size=draws)
        values[np.arange(draws), odd] *= factor
        distances = np.abs(_distances(values, _spread(n, l))[np.arange(draws), odd])
        larger = largest.size - np.searchsorted(largest, distances, side="left")
        return float(np.mean((1 + larger) / (1 + largest.size) <= false_alarm))

    def position_text(self, position: float) -> str:
        """With its sign."""
        return f"{position:+.1f}"


def yardstick(
    reference: "str | ArrayLike | Distribution | None", *, rng: int | np.random.Generator | None = 0
) -> Yardstick:
    """The yardstick for what somebody gave as a reference."""
    if reference is None:
        return EachOther(rng)
    if isinstance(reference, str) or hasattr(reference, "cdf"):
        return ReferenceDistribution(as_distribution(reference))
    return ReferenceScores(reference)


def _spread(n: Ints, l: Ints) -> Floats:
    """Standard deviation of the l-th smallest of n exponential variables."""
    variance: Floats = special.polygamma(1, n - l + 1) - special.polygamma(1, n + 1)
    return np.sqrt(variance)


def _n_draws(m: int) -> int:
    """How many federations of m sites are simulated."""
    return int(np.clip(_DRAWS // max(m, 1), 999, 9999))


@lru_cache(maxsize=16)
def _simulated(sizes: tuple[int, ...], ranks: tuple[int, ...], seed: int) -> Floats:
    """Largest distances in federations of sites that are alike, in order."""
    n, l = np.array(sizes), np.array(ranks)
    draws = _n_draws(n.size)
    rng = np.random.default_rng(seed)
    largest = np.empty(draws)
    step = max(1, 2_000_000 // n.size)
    for start in range(0, draws, step):
        size = min(step, draws - start)
        exponential = -np.log1p(-rng.beta(l, n - l + 1, size=(size, n.size)))
        largest[start : start + size] = np.abs(_distances(exponential, _spread(n, l))).max(axis=1)
    return np.sort(largest)


def _distances(values: Floats, spread: Floats) -> Floats:
    """(value - median) / (its spread x the median of such ratios): the same for a + b * values."""
    away = (values - np.median(values, axis=-1, keepdims=True)) / spread
    unit = np.median(np.abs(away), axis=-1, keepdims=True)
    return away / unit * _NORMAL_QUARTILE


def _two_sided(low: Floats, high: Floats) -> Floats:
    """p-values of reports that may be too small or too large."""
    return np.asarray(np.minimum(1.0, 2 * np.minimum(low, high)))


def _beta_chance(u: Floats, n: Ints, l: Ints) -> Floats:
    """p-values of Beta(l, n - l + 1) variables."""
    return _two_sided(special.betainc(l, n - l + 1, u), special.betaincc(l, n - l + 1, u))


def _adjusted(p_values: Floats) -> Floats:
    return np.array(holm(p_values.tolist()))


def _mean_power(chance: Callable[[int, int, Floats], Floats], n: Ints, l: Ints, false_alarm: float) -> float:
    """How often the p-value of an odd site is so small that Holm names it at once, over all sites."""
    kinds, counts = np.unique(np.stack([n, l]), axis=1, return_counts=True)
    nodes = (np.arange(_NODES) + 0.5) / _NODES
    found = [
        np.mean(chance(size, rank, special.betaincinv(rank, size - rank + 1, nodes)) <= false_alarm / n.size)
        for size, rank in kinds.T.tolist()[:_MOST_KINDS]
    ]
    return float(np.average(found, weights=counts[:_MOST_KINDS]))


def _refuse_none(values: Floats) -> None:
    if values.size == 0:
        raise ValueError("no site sent a finite report: there is nothing to compare")
