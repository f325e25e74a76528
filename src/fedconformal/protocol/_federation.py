"""Who is asked: names, sizes and number of sites, from what a coordinator says of them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby
from numbers import Real
from typing import Any, Self

import numpy as np

from fedconformal import _validation
from fedconformal._text import quoted
from fedconformal._typing import Ints
from fedconformal.documents import (
    LARGEST_N,
    MOST_SITES,
    PlanBlock,
    check_site_name,
    fraction_text,
    weights_of,
)
from fedconformal.planning import Block, Design, Sites

_MOST_RUNS = 10_000  # beyond that, sites without names are kept by size, not in order
_LARGEST_SHARE = 10**9

_Kind = tuple[int, Fraction | None]

Sizes = int | Iterable[int] | Mapping[str, int] | None
"""Scores per site, as `plan` takes them."""


@dataclass(frozen=True, eq=False)
class Asked:
    """The sites of a plan, each field None where it is unknown."""

    names: tuple[str, ...] | None
    sizes: Ints | None
    n_sites: int | None
    shares: tuple[Fraction, ...] | None = None

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

    def mixed(self, mixture: Mapping[str, float] | None) -> "Asked":
        """With the share of new points that come from each site, where somebody says so."""
        return self if mixture is None else replace(self, shares=_shares(mixture, self.names))

    @property
    def is_open(self) -> bool:
        """Whether sizes come with the reports."""
        return self.sizes is None

    @property
    def by_size(self) -> Sites:
        """How many sites there are of each size."""
        assert self.sizes is not None
        assert self.n_sites is not None
        if self.shares is not None:
            kinds = Counter(self._kinds())
            sizes = np.array([n for n, _ in kinds])
            return Sites(sizes, np.array([*kinds.values()]), tuple(share for _, share in kinds))
        if self.sizes.size == 1:
            return Sites(self.sizes, np.array([self.n_sites]))
        return Sites(*np.unique(self.sizes, return_counts=True))

    def _kinds(self) -> list[tuple[int, Fraction]]:
        """Size and share of each site, where shares are given."""
        assert self.sizes is not None
        shares = self.shares or ()
        return list(zip(np.broadcast_to(self.sizes, len(shares)).tolist(), shares, strict=True))

    def blocks(self, designs: Iterable[Design]) -> tuple[PlanBlock, ...]:
        """Runs of equal sites in their order, with the ranks of each level."""
        planned = [{self._key(block): block for block in design.blocks} for design in designs]
        blocks, start = [], 0
        for key, count in self._runs():
            each = [by_kind[key] for by_kind in planned]
            share = each[0].share
            blocks.append(
                PlanBlock(
                    count=count,
                    n=key[0],
                    ranks=tuple(block.ranks for block in each),
                    weights=weights_of([block.weights for block in each]),
                    names=None if self.names is None else self.names[start : start + count],
                    share=None if share is None else fraction_text(share),
                )
            )
            start += count
        return tuple(blocks)

    def _key(self, block: Block) -> _Kind:
        """How a site is told from others: by its size, and by its share where shares were given."""
        return block.n, block.share if self.shares is not None else None

    def _runs(self) -> list[tuple[_Kind, int]]:
        """Kinds and lengths of runs of equal sites; by size where there would be too many."""
        assert self.sizes is not None
        assert self.n_sites is not None
        if self.shares is not None:
            return [(kind, len(list(run))) for kind, run in groupby(self._kinds())]
        if self.sizes.size == 1:
            return [((int(self.sizes[0]), None), self.n_sites)]
        runs: list[tuple[_Kind, int]] = [
            ((n, None), len(list(run))) for n, run in groupby(self.sizes.tolist())
        ]
        if len(runs) <= _MOST_RUNS or self.names is not None:
            return runs
        pairs = zip(self.by_size.n_points.tolist(), self.by_size.counts.tolist(), strict=True)
        return [((n, None), count) for n, count in pairs]


def _shares(mixture: Any, names: tuple[str, ...] | None) -> tuple[Fraction, ...]:
    """The share of each site, in their order; together 1."""
    if not isinstance(mixture, Mapping):
        raise TypeError(f"mixture must map site names to shares, got {mixture!r}")
    if names is None:
        raise ValueError("mixture needs the names of the sites: give n_points by name, or sites")
    if unknown := [name for name in mixture if name not in names]:
        raise ValueError(
            f"mixture must name sites of the plan, got {quoted([str(name) for name in unknown])}"
        )
    if left_out := [name for name in names if name not in mixture]:
        raise ValueError(
            "mixture must have a share for every site, 0 for one that no new points come from; there is none "
            f"for {quoted(left_out)}"
        )
    shares = [_share(name, mixture[name]) for name in names]
    if not any(shares):
        raise ValueError("mixture must hold at least one share above 0, got none")
    whole = sum(shares)
    return tuple(share / whole for share in shares)


def _share(name: str, share: Any) -> Fraction:
    if isinstance(share, bool) or not isinstance(share, Real):
        raise TypeError(f"mixture[{name!r}] must be a number of at least 0, got {share!r}")
    if not (share == 0 or 1 / _LARGEST_SHARE <= float(share) <= _LARGEST_SHARE):
        raise ValueError(f"mixture[{name!r}] must be 0, or between 1e-9 and 1e9, got {share}")
    exact = share if isinstance(share, Fraction) else Fraction(str(share))
    return Fraction(round(exact * _LARGEST_SHARE), _LARGEST_SHARE)


def _names(sites: Iterable[str]) -> tuple[str, ...]:
    names = tuple(sites)
    if isinstance(sites, str) or not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"sites must be a list of names, got {sites!r}")
    if len(set(names)) < len(names):
        raise ValueError("sites must be different, got one twice")
    for name in names:
        check_site_name(name)
    return names
