"""Ways to look at a document: per site, per level."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Annotated, Any, Generic, TypeVar, overload

import numpy as np
from pydantic import AfterValidator, FailFast, Field

from fedconformal.documents._ceilings import MOST_LEVELS
from fedconformal.planning import MOST_NUMBERS

T = TypeVar("T")


class _FirstWrong(FailFast):
    __hash__ = object.__hash__  # so that it may stand in a union


Many = Annotated[tuple[T, ...], _FirstWrong()]
"""A list of which the first wrong entry is enough: nobody needs a hundred thousand reasons."""


def _increasing(ranks: tuple[int, ...]) -> tuple[int, ...]:
    if len(ranks) > 1 and any(left >= right for left, right in pairwise(ranks)):
        raise ValueError("ranks must be different, in increasing order")
    return ranks


Ranks = Annotated[Many[int], Field(max_length=MOST_NUMBERS), AfterValidator(_increasing)]
"""The ranks of one site at one level, in increasing order."""

_Votes = Annotated[Many[Annotated[int, Field(ge=1, le=2**20)]], Field(max_length=MOST_NUMBERS)]
Weights = Annotated[Many[_Votes], Field(max_length=MOST_LEVELS)] | None
"""Votes for each level: one entry for all numbers of a site, or one for each; None for one vote each."""


def canonical_weights(ranks: Sequence[Ranks], weights: Weights) -> Weights:
    """The one way to write these votes; refuses votes that do not fit the numbers."""
    if weights is None:
        return None
    if len(weights) != len(ranks) or any(
        len(votes) not in ({1, len(each)} if each else {0})
        for votes, each in zip(weights, ranks, strict=True)
    ):
        raise ValueError(
            "weights must hold one entry for each level, of one vote or as many as there are ranks"
        )
    return weights_of(votes_of(ranks, weights))


def votes_of(ranks: Sequence[Ranks], weights: Weights) -> tuple[tuple[int, ...], ...]:
    """The votes of each number, for each level."""
    if weights is None:
        return tuple((1,) * len(each) for each in ranks)
    return tuple(
        votes if len(votes) == len(each) else votes * len(each)
        for votes, each in zip(weights, ranks, strict=True)
    )


def weights_of(votes: Sequence[tuple[int, ...]]) -> Weights:
    """Votes as documents hold them: none where every number has one, one entry where all are the same.

    Parameters
    ----------
    votes : sequence of tuple of int
        The votes of each number, for each level.

    Returns
    -------
    tuple of tuple of int, or None
        For `PlanBlock` and `Answer`.

    Examples
    --------
    >>> from fedconformal.documents import weights_of
    >>> weights_of([(1, 1)]), weights_of([(2, 2)]), weights_of([(2, 3)])
    (None, ((2,),), ((2, 3),))
    """
    if all(vote == 1 for each in votes for vote in each):
        return None
    return tuple(each[:1] if len(set(each)) == 1 else tuple(each) for each in votes)


def one_or_all(values: Sequence[Any]) -> Any:
    """The only value, or a tuple of all: how a document answers for one level or several.

    Parameters
    ----------
    values : sequence
        One or more.

    Returns
    -------
    object
        The value, or the tuple.

    Examples
    --------
    >>> from fedconformal.documents import one_or_all
    >>> one_or_all([0.9]), one_or_all([0.8, 0.9])
    (0.9, (0.8, 0.9))
    """
    return values[0] if len(values) == 1 else tuple(values)


class PerSite(Sequence[T], Generic[T]):
    """One value per site, kept as runs of equal values.

    Parameters
    ----------
    counts : sequence of int
        Lengths of the runs.
    values : sequence
        The value of each run.

    Examples
    --------
    >>> from fedconformal.documents import PerSite
    >>> ranks = PerSite([2, 1], [92, 37])
    >>> len(ranks), ranks[1], list(ranks)
    (3, 92, [92, 92, 37])
    """

    def __init__(self, counts: Sequence[int], values: Sequence[T]) -> None:
        self._ends = list(accumulate(counts))
        self._values = list(values)

    def __len__(self) -> int:
        """How many sites."""
        return self._ends[-1]

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        """The value of one site, or a list of them."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"there are {len(self)} sites, got index {index}")
        return self._values[bisect_right(self._ends, position)]

    def __iter__(self) -> Iterator[T]:
        """Run through all sites."""
        for start, end, value in self._runs():
            yield from (value for _ in range(end - start))

    def __eq__(self, other: object) -> bool:
        """Equal to any sequence with the same values."""
        if not isinstance(other, Sequence) or len(self) != len(other):
            return NotImplemented if not isinstance(other, Sequence) else False
        return all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """As a numpy array."""
        return np.repeat(np.asarray(self._values), np.diff([0, *self._ends]), axis=0).astype(
            dtype or np.int64
        )

    def __repr__(self) -> str:
        """Runs, as in ``PerSite(10 x 89)``."""
        runs = [f"{end - start} x {value}" for start, end, value in self._runs()]
        return f"PerSite({', '.join(runs[:6])}{', ...' if len(runs) > 6 else ''})"

    def _runs(self) -> Iterator[tuple[int, int, T]]:
        return zip([0, *self._ends[:-1]], self._ends, self._values, strict=True)
