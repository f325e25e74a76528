"""Ways to look at a document: per site, per level, as a law."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from fedconformal.laws import CoverageLaw, OrderStatistics, SiteLaw
from fedconformal.laws._each_site import EachSiteLaw

if TYPE_CHECKING:
    from fedconformal.documents._plan import Plan


def one_or_all(values: Sequence[Any]) -> Any:
    """The only value, or a tuple of all: how a document answers for one level or several."""
    return values[0] if len(values) == 1 else tuple(values)


def coverage_laws(
    groups: Iterable[tuple[int, int, Sequence[int]]], server_ranks: Sequence[int], plan: "Plan"
) -> tuple[CoverageLaw, ...]:
    """The law of the coverage for each level, from groups of (count, n, ranks for each level)."""
    merged: Counter[tuple[int, tuple[int, ...]]] = Counter()
    for count, n, each in groups:
        merged[(n, tuple(each))] += count
    counts, sizes = np.array(list(merged.values())), np.array([n for n, _ in merged])
    ranks = np.array([each for _, each in merged])
    laws: list[CoverageLaw] = []
    for i, server_rank in enumerate(server_ranks):
        sites: SiteLaw = OrderStatistics(sizes, ranks[:, i])
        quantile = plan.levels[i].exact_quantile
        if plan.target == "each-site":
            infinite = server_rank > counts.sum()
            laws.append(EachSiteLaw((n, n + 1 if infinite else each[i]) for n, each in merged))
            continue
        if plan.terms is not None and quantile is not None:
            sites = plan.terms.sites(sizes, quantile)
        laws.append(CoverageLaw.of_sites(sites, counts, server_rank=server_rank, max_faulty=plan.max_faulty))
    return tuple(laws)


class PerSite(Sequence[int]):
    """One number per site, kept as runs of equal numbers."""

    def __init__(self, counts: Sequence[int], values: Sequence[int]) -> None:
        self._ends = list(accumulate(counts))
        self._values = list(values)

    def __len__(self) -> int:
        """How many sites."""
        return self._ends[-1]

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        """The number of one site, or a list of them."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"there are {len(self)} sites, got index {index}")
        return self._values[bisect_right(self._ends, position)]

    def __iter__(self) -> Iterator[int]:
        """Run through all sites."""
        start = 0
        for end, value in zip(self._ends, self._values, strict=True):
            yield from (value for _ in range(end - start))
            start = end

    def __eq__(self, other: object) -> bool:
        """Equal to any sequence with the same numbers."""
        if not isinstance(other, Sequence) or len(self) != len(other):
            return NotImplemented if not isinstance(other, Sequence) else False
        return all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """As a numpy array."""
        return np.repeat(self._values, np.diff([0, *self._ends])).astype(dtype or np.int64)

    def __repr__(self) -> str:
        """Runs, as in ``PerSite(10 x 89)``."""
        runs = [f"{end - start} x {value}" for start, end, value in self._runs()]
        return f"PerSite({', '.join(runs[:6])}{', ...' if len(runs) > 6 else ''})"

    def _runs(self) -> Iterator[tuple[int, int, int]]:
        return zip([0, *self._ends[:-1]], self._ends, self._values, strict=True)
