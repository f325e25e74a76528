"""Who is asked: names, sizes and number of sites, from what a coordinator says of them."""

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
from fedconformal.documents import LARGEST_N, MOST_SITES, SiteKind, check_site_name
from fedconformal.planning.promises import with_shares

_MOST_RUNS = 10_000  # beyond that, sites without names are kept by size, not in order
_LARGEST_SHARE = 10**9

Sizes = int | Iterable[int] | Mapping[str, int] | None
"""Scores per site, as `plan` takes them."""


@dataclass(frozen=True, eq=False)
class SiteSpec:
    """The sites of a design, each field None where it is unknown."""

    names: tuple[str, ...] | None
    sizes: Ints | None
    n_sites: int | None
    shares: tuple[Fraction, ...] | None = None

    @classmethod
    def read(cls, n_sites: Any, n_points: Any) -> Self:
        """Read the arguments of `plan`: a number of sites or their names, and their sizes."""
        names = None
        if n_sites is not None and isinstance(n_sites, Iterable):
            names, n_sites = _names(n_sites), None
        if isinstance(n_points, Mapping):
            if not n_points:
                raise ValueError("n_points must hold the scores of at least one site, got {}")
            if names is not None and set(names) != set(n_points):
                raise ValueError("n_sites and n_points must name the same sites")
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

    def mixed(self, mixture: Mapping[str, float] | None) -> "SiteSpec":
        """Return the same sites with the share of new cases that come from each, where it is given."""
        return self if mixture is None else replace(self, shares=_shares(mixture, self.names))

    @property
    def n_points(self) -> int:
        """Number of all scores; 0 where sizes are unknown."""
        if self.sizes is None:
            return 0
        return int(self.sizes.sum()) if self.sizes.size > 1 else int(self.sizes[0]) * (self.n_sites or 1)

    @property
    def is_open(self) -> bool:
        """True if sizes come with the reports."""
        return self.sizes is None

    def kinds(self, *, has_shares: bool) -> tuple[SiteKind, ...] | None:
        """Return runs of equal sites in their order, by size where there would be too many; None if open."""
        if self.sizes is None or self.n_sites is None:
            return None
        kinds, start = [], 0
        for (n, share), count in self._runs():
            names = () if self.names is None else self.names[start : start + count]
            kinds.append(SiteKind(count=count, n=n, names=names, share=share))
            start += count
        return with_shares(kinds) if has_shares else tuple(kinds)

    def _runs(self) -> list[tuple[tuple[int, Fraction | None], int]]:
        """Sizes and shares with the lengths of their runs."""
        assert self.sizes is not None
        assert self.n_sites is not None
        if self.shares is not None:
            pairs = zip(np.broadcast_to(self.sizes, len(self.shares)).tolist(), self.shares, strict=True)
            return [(pair, len(list(run))) for pair, run in groupby(pairs)]
        if self.sizes.size == 1:
            return [((int(self.sizes[0]), None), self.n_sites)]
        runs: list[tuple[tuple[int, Fraction | None], int]] = [
            ((n, None), len(list(run))) for n, run in groupby(self.sizes.tolist())
        ]
        if len(runs) <= _MOST_RUNS or self.names is not None:
            return runs
        sizes, counts = np.unique(self.sizes, return_counts=True)
        return [((n, None), count) for n, count in zip(sizes.tolist(), counts.tolist(), strict=True)]


def _shares(mixture: Any, names: tuple[str, ...] | None) -> tuple[Fraction, ...]:
    """Return the share of each site, in their order; together 1."""
    if not isinstance(mixture, Mapping):
        raise TypeError(f"mixture must map site names to shares, got {mixture!r}")
    if names is None:
        raise ValueError("mixture needs the names of the sites: give n_points by name")
    if unknown := [name for name in mixture if name not in names]:
        raise ValueError(
            f"mixture must name sites of the plan, got {quoted([str(name) for name in unknown])}"
        )
    if left_out := [name for name in names if name not in mixture]:
        raise ValueError(
            "mixture must have a share for every site, 0 for one that no new cases come from; there is none "
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
    if (
        isinstance(sites, (str, bytes))
        or not names
        or not all(isinstance(name, str) and name for name in names)
    ):
        raise ValueError(f"n_sites must be a number or a list of names, got {sites!r}")
    if len(set(names)) < len(names):
        raise ValueError("names of sites must be different, got one twice")
    for name in names:
        check_site_name(name)
    return names
