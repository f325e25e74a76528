"""Privacy that a coordinator asks for, and the public grid to which a site rounds its
scores.

Edges are part of the plan, so nothing here takes the site's own calibration scores to
choose them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._util import Floats, Ints, choice, fraction, integer, plain_array
from fedconformal.documents import LARGEST_EPSILON, MOST_BEARERS, SMALLEST_EPSILON

_SHOWN = 6  # edges at the most


@dataclass(frozen=True)
class Bins:
    """A grid with right edges e_1 < ... < e_B, public and fixed before any site looks
    at its scores.

    A score is rounded up to the right edge of its bin; one that is below e_1 goes to
    the first bin, one that is above e_B (or NaN) to the last, which therefore means
    +inf. If the score cannot exceed e_B by construction, as one minus a probability
    cannot exceed 1, ``bounded`` makes e_B a threshold, too: scores up to it have a bin
    of their own, and one more bin, which means +inf, holds what was clipped.

    Parameters
    ----------
    edges : iterable of float
        Right edges, at least two, finite and strictly increasing.
    bounded : bool
        Whether no valid score can be above the last edge, so that there is one bin more
        than edges.

    Raises
    ------
    TypeError
        If the edges are not numbers, or ``bounded`` not a bool.
    ValueError
        If the edges are not a grid.

    Examples
    --------
    >>> bins = Bins([0.25, 0.5, 1.0])
    >>> bins.place([0.1, 0.25, 0.3, 7.0]).tolist()
    [2, 1, 1]
    """

    edges: tuple[float, ...]
    bounded: bool = False

    def __repr__(self) -> str:
        """Show the first edges and the last, and how many there are."""
        edges = ", ".join(map(repr, self.edges))
        if len(self.edges) > _SHOWN:
            first = ", ".join(map(repr, self.edges[:2]))
            edges = f"{first}, ..., {self.edges[-1]!r}"
        return f"<Bins: {self.n_bins} with edges {edges}{', bounded' * self.bounded}>"

    def __post_init__(self) -> None:
        """Keep the edges as exact float64, refusing what cannot be a grid."""
        if not isinstance(self.bounded, (bool, np.bool_)):
            raise TypeError(f"bounded must be True or False, got {self.bounded!r}")
        object.__setattr__(self, "bounded", bool(self.bounded))
        object.__setattr__(self, "edges", _edges(self.edges))

    @property
    def n_bins(self) -> int:
        """Number of bins, the last of which means +inf."""
        return len(self.edges) + self.bounded

    @classmethod
    def uniform(
        cls, low: float, high: float, count: int, *, bounded: bool = False
    ) -> Bins:
        """Bins of equal width: right edges ``low + i (high - low) / count``, i =
        1..count.

        Parameters
        ----------
        low, high : float
            Where the first bin begins and the last one ends.
        count : int
            How many right edges, at least 2.
        bounded : bool
            Whether no valid score can be above ``high``.

        Returns
        -------
        Bins
            The bins.

        Examples
        --------
        >>> Bins.uniform(0, 1, 4).edges
        (0.25, 0.5, 0.75, 1.0)
        """
        low, high, count = _range(low, high, count)
        edges = low + np.arange(1, count + 1) * (high - low) / count
        # A bounded score may equal its bound, so rounding must not move the last edge.
        edges[-1] = high
        return cls(tuple(edges.tolist()), bounded)

    @classmethod
    def log(cls, low: float, high: float, count: int) -> Bins:
        """Bins whose right edges grow by a constant factor.

        Parameters
        ----------
        low, high : float
            The first and the last right edge, 0 < low < high.
        count : int
            How many bins, at least 2.

        Returns
        -------
        Bins
            The bins.
        """
        low, high, count = _range(low, high, count)
        if low <= 0:
            raise ValueError(f"low must be above 0 for logarithmic bins, got {low}")
        return cls(tuple(np.geomspace(low, high, count).tolist()))

    @classmethod
    def from_reference(
        cls, public_scores: ArrayLike, count: int = 100, *, bound: float | None = None
    ) -> Bins:
        """Make bins that hold equal shares of a **public** sample: right edges are its
        i/count quantiles.

        The sample is published with the plan in all but name, so it must be scores that
        nobody needs to protect, such as the model's residuals on a public set. Never a
        site's own calibration scores: the privacy guarantee assumes edges that do not
        depend on them.

        Parameters
        ----------
        public_scores : array of float
            At least two scores, all finite.
        count : int
            How many bins, at least 2; ties in the sample give fewer.
        bound : float, optional
            What no score can exceed by construction, as one minus a probability cannot
            exceed 1: it becomes the last edge, and the bins are ``bounded``.

        Returns
        -------
        Bins
            The bins.

        Raises
        ------
        ValueError
            If the sample is too small, not finite, has a single quantile, or exceeds
            the bound.

        Examples
        --------
        >>> bins = Bins.from_reference(range(1000))
        >>> len(bins.edges), bins.edges[0], bins.edges[-1]
        (100, 9.99, 999.0)
        """
        count = integer("count", count, low=2)
        sample = _flat("public_scores", public_scores)
        if sample.size < 2 or not np.isfinite(sample).all():
            raise ValueError(
                "public_scores must hold at least two scores, all finite, got"
                f" {sample.size} of which {int(np.isfinite(sample).sum())} are finite"
            )
        if bound is not None and sample.max() > _number("bound", bound):
            raise ValueError(
                f"public_scores must not exceed bound={bound}, got {sample.max()}"
            )
        edges = np.unique(np.quantile(sample, np.arange(1, count + 1) / count))
        if bound is not None:
            edges = np.append(edges[:-1], bound)
        if edges.size < 2:
            raise ValueError(
                "public_scores must have at least two distinct quantiles, all are"
                f" {edges[0]}"
            )
        return cls(tuple(edges.tolist()), bounded=bound is not None)

    def place(self, scores: ArrayLike) -> Ints:
        """Count the scores in each bin, read as float64.

        Whatever the values are, nothing is dropped and nothing is raised: whether an
        error was raised would itself be a release. Only the type and the shape of the
        array are checked.

        Parameters
        ----------
        scores : array of float
            A flat array of numbers.

        Returns
        -------
        array of int
            One count per bin.

        Raises
        ------
        TypeError
            If the array does not hold numbers.
        ValueError
            If it is not flat.
        """
        values = np.sort(_flat("scores", scores))  # NaN is above the last edge
        up_to = np.searchsorted(
            values, np.array(self.edges[: self.n_bins - 1]), side="right"
        )
        return np.diff(up_to, prepend=0, append=values.size)


def _edges(value: Any) -> tuple[float, ...]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise TypeError(f"edges must be a list of numbers, got {value!r}")
    edges = tuple(_number(f"edges[{i}]", edge) for i, edge in enumerate(value))
    if len(edges) < 2:
        raise ValueError(f"edges must be at least 2, got {len(edges)}")
    for i, (left, right) in enumerate(pairwise(edges)):
        if left >= right:
            raise ValueError(
                f"edges must be strictly increasing, got {left} then {right} at"
                f" edges[{i + 1}]"
            )
    return edges


def _number(name: str, value: Any) -> float:
    if type(value) is float and math.isfinite(value):
        return value + 0.0  # as below; a plan has a thousand of them
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a finite number, got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{name} must be a finite number, got {value}")
    # Minus zero would be equal but written differently in a document.
    return number + 0.0


def _range(low: Any, high: Any, count: Any) -> tuple[float, float, int]:
    low, high = _number("low", low), _number("high", high)
    if low >= high:
        raise ValueError(f"low must be below high, got low={low} and high={high}")
    count = integer("count", count, low=2)
    if not math.isfinite((high - low) * count):
        raise ValueError(
            f"(high - low) * count must be a finite float64, got low={low} and"
            f" high={high}"
        )
    return low, high, count


def _flat(name: str, value: ArrayLike) -> Floats:
    array = plain_array(value)
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"{name} must be an array of numbers, got an array of {array.dtype}"
        )
    if array.ndim != 1:
        raise ValueError(f"{name} must be a flat array, got shape {array.shape}")
    with np.errstate(over="ignore"):
        return array.astype(np.float64, copy=False)


_ANALYSES = {"curve": "curve", "paper": "bin"}


@dataclass(frozen=True)
class Privacy:
    """Local differential privacy of every site's report: neighbours replace one record.

    Parameters
    ----------
    epsilon : float
        Privacy loss of a site's answer for one group of cases, from 0.000001 to 100; it
        serves all levels.
    bins : Bins, optional
        Public grid on which scores are counted, fixed before any calibration score is
        looked at. It may be left out where the score is bounded.
    analysis : {"curve", "paper"}
        ``"curve"``: sites send noisy counts of their scores in the bins. ``"paper"``:
        Algorithms 2 and 3 of the paper, for equal sites and the marginal criterion;
        levels share epsilon evenly.
    gamma : float, optional
        For the paper's analysis, the share of the error probability that is spent on
        the noise; searched if left out.
    bearers : int, optional
        In a masked plan, number of sites that add the noise, two or more, each the
        whole of it: epsilon then holds against the server and all but one of these
        sites together. All sites add noise if left out.

    Raises
    ------
    TypeError
        If ``bins`` is not a Bins, or ``epsilon`` not a number.
    ValueError
        If a number or a name is not one of those allowed.

    Examples
    --------
    >>> from fedconformal.privacy import Bins, Privacy
    >>> Privacy(epsilon=1.0, bins=Bins.uniform(0, 5, 100)).exact_epsilon
    Fraction(1, 1)
    """

    epsilon: float
    bins: Bins | None = None
    _: KW_ONLY
    analysis: str = "curve"
    gamma: float | None = field(default=None)
    bearers: int | None = None

    def __post_init__(self) -> None:
        """Refuse invalid values."""
        if isinstance(self.epsilon, Bins):
            raise TypeError(
                "epsilon comes first, then the bins, as in Privacy(1.0, Bins.uniform(0,"
                " 5, 100))"
            )
        low = SMALLEST_EPSILON
        fraction(
            "epsilon", self.epsilon, low=low / 2, high=LARGEST_EPSILON, closed=True
        )
        if self.epsilon < low:
            raise ValueError(
                f"epsilon must be a number in [{low:g}, {LARGEST_EPSILON:g}], got"
                f" {self.epsilon}"
            )
        if self.bins is not None and not isinstance(self.bins, Bins):
            raise TypeError(
                "bins must be Bins, for example Bins.uniform(0, 5, 100), got"
                f" {self.bins!r}"
            )
        choice("analysis", self.analysis, _ANALYSES)
        if self.bearers is not None:
            integer("bearers", self.bearers, low=2, high=MOST_BEARERS)
            if self.message != _ANALYSES["curve"]:
                raise ValueError(
                    f"bearers is a parameter of analysis 'curve', got {self.bearers}"
                )
        if self.gamma is not None:
            fraction("gamma", self.gamma)
            if self.message == _ANALYSES["curve"]:
                raise ValueError(
                    f"gamma is a parameter of analysis 'paper', got {self.gamma}"
                )

    @property
    def message(self) -> str:
        """Name of the message that sites send."""
        return _ANALYSES[self.analysis]

    @property
    def default_criterion(self) -> str | None:
        """Criterion that is meant where none is chosen; None for the promise's own."""
        return None if self.message == _ANALYSES["curve"] else "marginal"

    @property
    def exact_epsilon(self) -> Fraction:
        """The privacy loss as the decimal that was written."""
        return fraction("epsilon", self.epsilon, high=LARGEST_EPSILON, closed=True)
