"""Who is asked: names, sizes and number of sites, from what a coordinator says of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Self

import numpy as np

from fedconformal import _validation
from fedconformal._typing import Ints
from fedconformal.documents import LARGEST_N, MOST_SITES, PlanBlock, check_site_name, weights_of
from fedconformal.planning import Design, Sites

_MOST_RUNS = 10_000  # beyond that, sites without names are kept by size, not in order

Sizes = int | Iterable[int] | Mapping[str, int] | None
"""Scores per site, as `plan` takes them."""


@dataclass(frozen=True, eq=False)
class Asked:
    """The sites of a plan, each field None where it is unknown."""

    names: tuple[str, ...] | None
    sizes: Ints | None
    n_sites: int | None

    @classmethod
    def of(cls, n_sites: Any, n_points: Any, sites: Iterable[str] | None) -> Self:
        """Read the arguments of `plan`."""
        names = None if sites is None else _names(sites)
        if isinstance(n_points, Mapping):
            if not n_points:
                raise ValueError("n_points must hold the scores of at least one site, got {}")
            if names is not None and set(names) != set(n_points):
                raise ValueError("sites and the names in n_points must be the same")
            names = names or _names(n_points)
            n_points = [n_points[name] for name in names]
        m = None if n_sites is None else _validation.integer("n_sites", n_sites, low=1, high=MOST_SITES)
        if m is not None and names is not None and m != len(names):
            raise ValueError(f"n_sites must be the number of site names, {len(names)}, got {m}")
        m = m if names is None else len(names)
        if n_points is None:
            return cls(names, None, m)
        if not isinstance(n_points, Iterable) or isinstance(n_points, (str, bytes)):
            size = _validation.integer("n_points", n_points, low=1, high=LARGEST_N)
            if m is None:
                raise TypeError("n_sites is needed when n_points is one number")
            return cls(names, np.array([size]), m)
        sizes = _validation.integers("n_points", n_points, low=1, high=LARGEST_N)
        if m is not None and m != sizes.size:
            raise ValueError(f"n_sites must be the length of n_points, {sizes.size}, got {m}")
        return cls(names, sizes, sizes.size)

    @property
    def is_open(self) -> bool:
        """Whether sizes come with the reports."""
        return self.sizes is None

    @property
    def by_size(self) -> Sites:
        """How many sites there are of each size."""
        assert self.sizes is not None
        assert self.n_sites is not None
        if self.sizes.size == 1:
            return Sites(self.sizes, np.array([self.n_sites]))
        return Sites(*np.unique(self.sizes, return_counts=True))

    def blocks(self, designs: Iterable[Design]) -> tuple[PlanBlock, ...]:
        """Runs of equal sites in their order, with the ranks of each level."""
        planned = [{block.n: block for block in design.blocks} for design in designs]
        blocks, start = [], 0
        for n, count in self._runs():
            blocks.append(
                PlanBlock(
                    count=count,
                    n=n,
                    ranks=tuple(by_size[n].ranks for by_size in planned),
                    weights=weights_of([by_size[n].weights for by_size in planned]),
                    names=None if self.names is None else self.names[start : start + count],
                )
            )
            start += count
        return tuple(blocks)

    def _runs(self) -> list[tuple[int, int]]:
        """Sizes and lengths of runs of equal sites; by size where there would be too many."""
        assert self.sizes is not None
        assert self.n_sites is not None
        if self.sizes.size == 1:
            return [(int(self.sizes[0]), self.n_sites)]
        runs = [(n, len(list(run))) for n, run in groupby(self.sizes.tolist())]
        if len(runs) <= _MOST_RUNS or self.names is not None:
            return runs
        return list(zip(self.by_size.n_points.tolist(), self.by_size.counts.tolist(), strict=True))


def _names(sites: Iterable[str]) -> tuple[str, ...]:
    names = tuple(sites)
    if isinstance(sites, str) or not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"sites must be a list of names, got {sites!r}")
    if len(set(names)) < len(names):
        raise ValueError("sites must be different, got one twice")
    for name in names:
        check_site_name(name)
    return names
