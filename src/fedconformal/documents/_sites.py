"""Values by site, kept as runs of equal values."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar, overload

import numpy as np

T = TypeVar("T")


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
        """Return the number of sites."""
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        """Return the value of one site, or a list of them."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"there are {len(self)} sites, got index {index}")
        return self._values[bisect_right(self._ends, position)]

    def __iter__(self) -> Iterator[T]:
        """Iterate over all sites."""
        for start, end, value in self._runs():
            yield from (value for _ in range(end - start))

    def __eq__(self, other: object) -> bool:
        """Return whether another sequence has the same values."""
        if not isinstance(other, Sequence) or len(self) != len(other):
            return NotImplemented if not isinstance(other, Sequence) else False
        return all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return the values as a numpy array."""
        return np.repeat(np.asarray(self._values), np.diff([0, *self._ends]), axis=0).astype(
            dtype or np.int64
        )

    def __repr__(self) -> str:
        """Show the runs, as in ``PerSite(10 x 89)``."""
        runs = [f"{end - start} x {value}" for start, end, value in self._runs()]
        return f"PerSite({', '.join(runs[:6])}{', ...' if len(runs) > 6 else ''})"

    def _runs(self) -> Iterator[tuple[int, int, T]]:
        return zip([0, *self._ends[:-1]], self._ends, self._values, strict=True)
