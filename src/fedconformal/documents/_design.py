"""The Design: who is asked for one group of cases, what they send, and how the server
decides.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, chain, repeat
from typing import Annotated, Any, Generic, Self, TypeVar, overload

import numpy as np
from pydantic import Field

from fedconformal._text import count as counted
from fedconformal._text import quoted
from fedconformal.documents import _fields as limits
from fedconformal.documents._base import Part
from fedconformal.documents._fields import (
    Label,
    Many,
    Name,
    Ratio,
    Share,
    SiteCount,
    SiteName,
    Size,
)
from fedconformal.documents._messages import AnyMessage

# -- values by site, kept as runs of equal values --------------------------------------


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
        self._counts, self._values = list(counts), list(values)
        self._ends = list(accumulate(counts))

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
        return chain.from_iterable(map(repeat, self._values, self._counts))

    def __eq__(self, other: object) -> bool:
        """Return whether another sequence has the same values."""
        return (
            list(self) == list(other) if isinstance(other, Sequence) else NotImplemented
        )

    __hash__ = None  # type: ignore[assignment]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return the values as a numpy array."""
        return np.repeat(np.asarray(self._values), self._counts, axis=0).astype(
            dtype or np.int64
        )

    def __repr__(self) -> str:
        """Show the runs, as in ``PerSite(10 x 89)``."""
        runs = [
            f"{number} x {value}"
            for number, value in zip(self._counts, self._values, strict=True)
        ]
        return f"PerSite({', '.join(runs[:6])}{', ...' if len(runs) > 6 else ''})"


class SiteKind(Part):
    """Sites that are alike.

    Examples
    --------
    >>> from fedconformal.documents import SiteKind
    >>> SiteKind(count=10, n=79).count
    10
    """

    count: int = Field(ge=1, le=limits.MOST_SITES)
    n: Size = Field(description="calibration scores at each site")
    names: Many[SiteName] = Field(
        default=(), max_length=limits.MOST_NAMED, description="of all, or of none"
    )
    share: Ratio | None = Field(
        default=None, description="of new cases that come from each of these sites"
    )
    asked: bool = Field(
        default=True, description="false for sites that could never change a threshold"
    )


class Advice(Part):
    """Smallest numbers that would suffice for a level that cannot be reached, each
    individually.
    """

    n_points: Annotated[int, Field(ge=1, le=limits.LARGEST_ADVICE)] | None = Field(
        default=None,
        description="smallest size that would suffice if every site had it",
    )
    n_sites: Annotated[int, Field(ge=1, le=limits.LARGEST_ADVICE)] | None = Field(
        default=None,
        description="smallest number of sites of the smallest size that would suffice",
    )
    epsilon: Ratio | None = Field(
        default=None, description="smallest privacy loss that would suffice"
    )


class Level(Part):
    """Decision rule of the server at one confidence level."""

    confidence_level: Share
    votes: Annotated[int, Field(ge=1, le=limits.LARGEST_UNIT + 1)] | None = Field(
        default=None,
        description="votes that the threshold needs; more than there are for +inf",
    )
    advice: Advice | None = Field(
        default=None, description="present if the level cannot be reached"
    )


class Design(Part):
    """Sites that are asked for one group of cases, their message, and the server's
    decision rule.

    One message serves all levels. ``sites`` are runs of sites that are alike, in their
    order; an open design has none: sizes come with the reports.
    """

    group: Label | None = Field(
        default=None, description="the group; left out where there are none"
    )
    promise: Name = Field(description="whose new cases are covered")
    criterion: Name
    delta: Share | None = Field(default=None, description="for criteria that take it")
    max_faulty: SiteCount = Field(
        default=0, description="number of reports that may be arbitrary"
    )
    max_missing: SiteCount | None = Field(
        default=None, description="sites that may be missing"
    )
    sites: Many[SiteKind] | None = Field(
        default=None, description="left out while sizes are unknown"
    )
    names: Many[SiteName] | None = Field(
        default=None,
        max_length=limits.MOST_NAMED,
        description="the only sites that an open design expects",
    )
    expected: int | None = Field(
        default=None, ge=1, le=limits.MOST_SITES, description="sites while open"
    )
    message: AnyMessage
    levels: Many[Level] = Field(min_length=1, max_length=limits.MOST_LEVELS)

    @property
    def is_open(self) -> bool:
        """True if sizes come with the reports."""
        return self.sites is None

    @property
    def kinds(self) -> tuple[SiteKind, ...]:
        """The kinds of sites; none while the design is open."""
        return self.sites or ()

    @property
    def n_sites(self) -> int | None:
        """Number of sites; None if anybody may answer."""
        if self.sites is None:
            return self.expected if self.names is None else len(self.names)
        return sum(kind.count for kind in self.sites)

    @cached_property
    def site_names(self) -> tuple[str, ...] | None:
        """Names of the sites in order, where the design names them."""
        if self.sites is None:
            return self.names
        if self.sites and not self.sites[0].names:
            return None
        return tuple(name for kind in self.sites for name in kind.names)

    @cached_property
    def asked_names(self) -> tuple[str, ...] | None:
        """Names of the sites that are asked, where the design names sites."""
        if self.sites is None or self.site_names is None:
            return self.site_names
        return tuple(name for kind in self.sites if kind.asked for name in kind.names)

    @property
    def n_asked(self) -> int | None:
        """Number of sites that are asked; None if anybody may answer."""
        if self.sites is None:
            return self.n_sites
        return sum(kind.count for kind in self.sites if kind.asked)

    @property
    def is_feasible(self) -> bool:
        """True if every level can be reached."""
        return all(level.advice is None for level in self.levels)

    @property
    def fewest_answers(self) -> int:
        """Number of sites that must answer for any threshold: faulty ones must not be
        half.
        """
        return 2 * self.max_faulty + 1

    @property
    def confidence_levels(self) -> tuple[float, ...]:
        """The confidence levels as floats."""
        return tuple(float(level.confidence_level) for level in self.levels)

    def answered_by(self, sites: tuple[SiteKind, ...], **changes: Any) -> Self:
        """Return the same design for the sites that answered, with other changes."""
        return self.model_copy(
            update={"sites": sites, "names": None, "expected": None, **changes}
        )

    @cached_property
    def _by_name(self) -> dict[str, int]:
        if self.sites is None:
            return dict.fromkeys(self.names or (), 0)
        return {name: i for i, kind in enumerate(self.sites) for name in kind.names}

    @cached_property
    def _by_size(self) -> dict[int, int]:
        return {kind.n: i for i, kind in reversed(list(enumerate(self.kinds)))}

    def find_kind(self, n: int, *, site: str | None = None) -> int | None:
        """Return the place of a site's kind, by its name or else by its size; None
        while the design is open.

        Parameters
        ----------
        n : int
            Number of scores of the site.
        site : str, optional
            Its name.

        Returns
        -------
        int or None
            The place in ``sites``.

        Raises
        ------
        ValueError
            If no such site is expected.
        """
        names = self.site_names
        if names is not None and site not in self._by_name:
            raise ValueError(
                f"site must be one of the plan's, {quoted(names)}, got {site!r}"
            )
        if self.sites is None:
            return None
        if names is not None and site is not None:
            place = self._by_name[site]
            if self.sites[place].n != n:
                expected = counted(self.sites[place].n, "score")
                raise ValueError(
                    f"the plan expects {expected} from site {site!r}, got {n:,}"
                )
            return place
        if n in self._by_size:
            return self._by_size[n]
        sizes = sorted(self._by_size)
        listed = ", ".join(map(str, sizes[:8])) + (", ..." if len(sizes) > 8 else "")
        raise ValueError(f"the plan expects sites with {listed} scores, got {n}")

    def check(self) -> None:
        """Refuse a design of a plan whose parts do not fit together."""
        levels, names = (
            [level.confidence_level for level in self.levels],
            self.site_names,
        )
        if len(set(levels)) < len(levels):
            raise ValueError("a confidence level occurs twice")
        if self.delta is not None and 2 * self.delta > 1:
            raise ValueError("delta must be at most 0.5")
        if names is not None and len(set(names)) < len(names):
            raise ValueError("a site occurs twice")
        if (self.n_sites or 0) > limits.MOST_SITES:
            raise ValueError(f"a plan has at most {limits.MOST_SITES:,} sites")
        if self.max_faulty and (
            self.n_sites is None or 2 * self.max_faulty >= self.n_sites
        ):
            raise ValueError(
                "max_faulty must be below half the number of sites, which must be known"
            )
        if self.is_open:
            if any(
                level.votes is not None or level.advice is not None
                for level in self.levels
            ):
                raise ValueError(
                    "an open plan has neither votes nor advice: both depend on who"
                    " answers"
                )
            if self.names is not None and self.expected is not None:
                raise ValueError(
                    "an open plan has names or an expected number of sites, not both"
                )
        else:
            self._check_sites()
        self.message.check(self)

    def check_shares(self) -> None:
        """Refuse shares whose sum would take too many digits."""
        common = 1
        for kind in self.kinds:
            common = (
                common
                if kind.share is None
                else math.lcm(common, kind.share.denominator)
            )
            if common >= 10**limits.MOST_DIGITS:
                raise ValueError(
                    "the common denominator of all shares has more than"
                    f" {limits.MOST_DIGITS} digits"
                )

    def _check_sites(self) -> None:
        """Refuse known sites that are not listed in one way, or cannot be
        distinguished.
        """
        if not self.kinds or self.names is not None or self.expected is not None:
            raise ValueError("a plan of known sizes lists its sites, with their names")
        if len({bool(kind.names) for kind in self.kinds}) > 1:
            raise ValueError("either all sites have names or none")
        if any(kind.names and len(kind.names) != kind.count for kind in self.kinds):
            raise ValueError("count and the number of names differ")
        shares = {(kind.n, kind.share) for kind in self.kinds}
        for _, share in shares:
            if share is not None:
                self.check_shares()
                break
        if self.site_names is None and len({kind.n for kind in self.kinds}) < len(
            shares
        ):
            raise ValueError(
                "sites without names must have the same share if they have the same"
                " size"
            )
        if any(level.votes is None for level in self.levels):
            raise ValueError(
                "every level needs a number of votes where sizes are known"
            )


def merge_kinds(sites: Iterable[SiteKind]) -> tuple[SiteKind, ...]:
    """Put sites of one size and share together, in the order in which they first occur,
    without names.

    Parameters
    ----------
    sites : iterable of SiteKind
        Perhaps several that are alike.

    Returns
    -------
    tuple of SiteKind

    Examples
    --------
    >>> from fedconformal.documents import SiteKind, merge_kinds
    >>> [
    ...     kind.count
    ...     for kind in merge_kinds([SiteKind(count=1, n=79), SiteKind(count=2, n=79)])
    ... ]
    [3]
    """
    counts: dict[tuple[int, Fraction | None], int] = {}
    listed = list(sites)
    for kind in listed:
        counts[kind.n, kind.share] = counts.get((kind.n, kind.share), 0) + kind.count
    if len(counts) == len(listed):
        return tuple(kind.model_copy(update={"names": ()}) for kind in listed)
    return tuple(
        SiteKind(count=count, n=n, share=share) for (n, share), count in counts.items()
    )


def total_sites(sites: Sequence[SiteKind]) -> int:
    """Return the number of all sites."""
    return sum(kind.count for kind in sites)
