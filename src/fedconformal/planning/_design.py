"""The one object between planning and everything else: a design, from which every promise follows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np

from fedconformal._typing import Floats, Ints
from fedconformal.laws import CoverageLaw, SiteLaw
from fedconformal.planning._goal import Goal
from fedconformal.privacy import PrivateRelease


@dataclass(frozen=True)
class Block:
    """Sites that are alike.

    Parameters
    ----------
    count : int
        How many sites.
    n : int
        Calibration scores at each.
    ranks : tuple of int
        Ranks that each sends, in increasing order; n + 1 stands for +inf. Empty for sites that are not asked.
        For private reports, the rank that is aimed at.
    weights : tuple of int, optional
        Votes of each number; one each if left out.
    share : Fraction, optional
        Share of new points that come from each of these sites, where the promise is for a known mixture.

    Examples
    --------
    >>> from fedconformal.planning import Block
    >>> Block(count=10, n=79, ranks=(71,)).votes
    1
    """

    count: int
    n: int
    ranks: tuple[int, ...]
    weights: tuple[int, ...] = ()
    share: Fraction | None = None

    def __post_init__(self) -> None:
        """One vote for each number, unless said otherwise."""
        if len(self.weights) != len(self.ranks):
            object.__setattr__(self, "weights", (1,) * len(self.ranks))

    @property
    def votes(self) -> int:
        """The votes of one site."""
        return sum(self.weights)

    @property
    def finite_votes(self) -> int:
        """The votes of a site's finite numbers."""
        return sum(vote for rank, vote in zip(self.ranks, self.weights, strict=True) if rank <= self.n)


@dataclass(frozen=True)
class Advice:
    """What would make a level reachable that no ranks reach, each by itself.

    Attributes
    ----------
    n_points : int or None
        Smallest size that would do if every site had it.
    n_sites : int or None
        Smallest number of sites of the present (smallest) size that would do.
    epsilon : float or None
        Smallest privacy loss that would do.

    Examples
    --------
    >>> import fedconformal as fc
    >>> design = fc.plan(n_sites=2, n_points=3, on_infeasible="ignore").designs[0]
    >>> design.advice
    Advice(n_points=5, n_sites=3, epsilon=None)
    """

    n_points: int | None = None
    n_sites: int | None = None
    epsilon: float | None = None


@dataclass(frozen=True)
class Guarantee:
    """What is guaranteed of the coverage, whatever the scores are.

    Attributes
    ----------
    mean : float or None
        The mean coverage is at least this; None where nothing is said of the mean.
    coverage, probability : float or None
        The coverage is at least ``coverage`` with at least this probability, or at so many of new sites;
        None where only the mean is guaranteed.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_points={"A": 100, "B": 50}, promise="mixture")
    >>> plan.guarantee.mean >= 0.9
    True
    """

    mean: float | None = None
    coverage: float | None = None
    probability: float | None = None


@dataclass(frozen=True, eq=False)
class Sites:
    """How many sites there are of each size, before ranks are chosen.

    Parameters
    ----------
    n_points : array of int
        Different sizes.
    counts : array of int
        How many sites have each.
    shares : tuple of Fraction, optional
        Share of new points that come from one site of each, where that is known; sizes may then repeat.

    Examples
    --------
    >>> import numpy as np
    >>> from fedconformal.planning import Sites
    >>> Sites(np.array([40, 120]), np.array([3, 1])).n_sites
    4
    """

    n_points: Ints
    counts: Ints
    shares: tuple[Fraction, ...] | None = None

    @property
    def n_sites(self) -> int:
        """How many sites there are."""
        return int(self.counts.sum())


class Expected(Protocol):
    """What to expect of the coverage, as far as it matters here."""

    def mean(self) -> float:
        """Mean coverage."""
        ...

    def std(self) -> float:
        """Standard deviation of the coverage."""
        ...

    @property
    def error(self) -> float:
        """Standard error of the mean, where it is simulated."""
        ...


@dataclass(frozen=True, eq=False)
class AsPromised:
    """What to expect is the law itself.

    Parameters
    ----------
    law : CoverageLaw
        The law.
    error : float
        Nothing is simulated.
    """

    law: CoverageLaw
    error: float = 0.0

    def mean(self) -> float:
        """Mean coverage."""
        return self.law.mean()

    def std(self) -> float:
        """Standard deviation of the coverage."""
        return self.law.std()


class Sending(ABC):
    """What sites send: scores of some ranks, or private draws.

    Examples
    --------
    >>> import fedconformal as fc
    >>> (design,) = fc.plan(n_sites=10, n_points=79).designs
    >>> type(design.sending).__name__, design.sending.is_bound, design.sending.survives(design, n_silent=2)
    ('Exact', False, True)
    """

    is_bound: ClassVar[bool] = False
    """Whether the site law bounds what is sent, rather than being its law."""
    release: PrivateRelease | None = None
    """The private release, where there is one."""

    @abstractmethod
    def site_law(self, blocks: tuple[Block, ...]) -> SiteLaw:
        """The law of what the sites of each block send."""

    def expected_law(self, design: Design, masses: Floats | None) -> Expected:
        """What to expect of a design where its law is only a bound; of scores with these masses in bins."""
        return AsPromised(design.law())

    @abstractmethod
    def choose(self, sites: Sites, goal: Goal, share: Fraction | None, promise: Promise) -> Design:
        """The best ranks and votes for sites that are all alike; ``share`` fixes the ranks."""

    @abstractmethod
    def votes(self, design: Design) -> tuple[int, Advice | None]:
        """The votes that are needed when the ranks are given; and what would help where none will do."""

    def choose_for_each(self, sites: Sites, goal: Goal, own: Goal, promise: Promise) -> Design | None:
        """The best aims where no rank says by itself what a site's own report keeps; None for exact ones."""
        return None

    def keeps_each(self, design: Design, own: Goal) -> bool:
        """Whether the own report of every site, finite as it is, keeps a goal by itself."""
        return all(block.ranks[0] <= block.n for block in design.blocks)

    def own_laws(self, blocks: tuple[Block, ...]) -> list[CoverageLaw]:
        """The law of the coverage of a site's own report, for each block."""
        return [CoverageLaw(1, block.n, block.ranks[0], 1) for block in blocks]

    @abstractmethod
    def survives(self, design: Design, n_silent: int) -> bool:
        """Whether a finite threshold is left, whichever sites stay silent."""

    def without_privacy(self) -> Sending:
        """The same without noise."""
        return self


class Promise(Protocol):
    """What a design asks of its promise; `promises.Promise` has the whole of it."""

    is_bound: ClassVar[bool]
    has_law: ClassVar[bool]
    among: ClassVar[str]
    bound_of: ClassVar[str]

    def choose(self, sites: Sites, goal: Goal, sending: Sending, share: Fraction | None) -> Design:
        """The best ranks and votes."""
        ...

    def votes(self, design: Design) -> tuple[int, Advice | None]:
        """The votes that are needed for these blocks."""
        ...

    def answered(self, design: Design, blocks: tuple[Block, ...]) -> tuple[int, Advice | None]:
        """The votes that are needed when only these have answered."""
        ...

    def survives(self, design: Design, n_silent: int) -> bool:
        """Whether a finite threshold is left, whichever sites stay silent."""
        ...

    def guarantee(self, design: Design) -> Guarantee:
        """What is guaranteed."""
        ...

    def law(self, design: Design) -> CoverageLaw:
        """The law of the coverage, or a bound of it."""
        ...


@dataclass(frozen=True, eq=False)
class Design:
    """Who sends what, how the server decides, and what is promised.

    Parameters
    ----------
    goal : Goal
        Level, criterion, delta and max_faulty.
    promise : Promise
        Whose new points the promise is for.
    sending : Sending
        What sites send.
    blocks : tuple of Block
        The sites; none while their sizes are unknown.
    server_rank : int or None
        Votes that a reported value needs to become the threshold; more than there are for +inf, None while
        sizes are unknown.
    share : Fraction or None
        The rule that the ranks follow, ``ceil(share * (n + 1))``, where they follow one.
    advice : Advice or None
        What would help where no ranks reach the level; None where some do.
    eta : Fraction or None
        For a promise to new sites one by one: the chance, at least, that a site's number lies above the
        level-quantile of its own scores.

    Examples
    --------
    >>> import fedconformal as fc
    >>> (design,) = fc.plan(n_sites=10, n_points=79).designs
    >>> design.server_rank, round(design.law().mean(), 4)
    (7, 0.9029)
    """

    goal: Goal
    promise: Promise
    sending: Sending
    blocks: tuple[Block, ...] = ()
    server_rank: int | None = None
    share: Fraction | None = None
    advice: Advice | None = None
    eta: Fraction | None = None

    @property
    def is_open(self) -> bool:
        """Whether sizes come with the reports."""
        return self.server_rank is None

    @property
    def n_sites(self) -> int:
        """How many sites there are."""
        return sum(block.count for block in self.blocks)

    @property
    def n_points(self) -> int:
        """Calibration scores of all sites."""
        return sum(block.count * block.n for block in self.blocks)

    @property
    def total_votes(self) -> int:
        """The votes of all sites."""
        return sum(block.count * block.votes for block in self.blocks)

    def survives(self, n_silent: int = 1) -> bool:
        """Whether a finite threshold is left, whichever sites stay silent.

        Parameters
        ----------
        n_silent : int
            How many stay silent.

        Returns
        -------
        bool
            False also where there is no finite threshold even if all answer.
        """
        return self.advice is None and self.promise.survives(self, n_silent)

    @property
    def is_finite(self) -> bool:
        """Whether some ranks reach the level."""
        return self.advice is None

    @property
    def is_bound(self) -> bool:
        """Whether ``law`` bounds the coverage from below, rather than being its law."""
        return self.sending.is_bound or self.promise.is_bound or self.goal.max_faulty > 0

    @property
    def has_law(self) -> bool:
        """Whether the coverage has a law, or a bound of it, for all scores; else see `guarantee`."""
        return self.promise.has_law

    def guarantee(self) -> Guarantee:
        """What is guaranteed of the coverage.

        Returns
        -------
        Guarantee
            From the law where there is one.

        Raises
        ------
        ValueError
            While the sites' sizes are unknown.
        """
        if self.is_open:
            raise ValueError("this design is open: what it guarantees depends on the sites that answer")
        return self.promise.guarantee(self)

    def law(self) -> CoverageLaw:
        """The law of the coverage given the calibration data, or a bound of it.

        Returns
        -------
        CoverageLaw
            Exact, or a lower bound where ``is_bound``.

        Raises
        ------
        ValueError
            While the sites' sizes are unknown, or where there is none.
        """
        return self._law

    @cached_property
    def _law(self) -> CoverageLaw:
        if self.is_open:
            raise ValueError("this design is open: its law depends on the sites' sizes")
        return self.promise.law(self)

    def expected_law(self, masses: Floats | None = None) -> Expected:
        """What to expect: for private reports, the mechanism's own law over the counts; else the law itself.

        Parameters
        ----------
        masses : array of float, optional
            The share of scores in each bin of private reports; the same in all if left out.

        Returns
        -------
        Expected
            A law with mean and standard deviation.
        """
        return self._usually_expected if masses is None else self.sending.expected_law(self, masses)

    @cached_property
    def _usually_expected(self) -> Expected:
        return self.sending.expected_law(self, None)

    def for_answers(self, answered: Iterable[Block]) -> Design:
        """The design for the sites that answered: ranks are as planned, the votes are solved anew.

        Parameters
        ----------
        answered : iterable of Block
            The sites that answered, with the ranks they sent.

        Returns
        -------
        Design
            This very design if all planned sites answered.
        """
        blocks = merged(answered)
        if not self.is_open and set(blocks) == set(merged(self.asked)):
            return self
        votes, advice = self.promise.answered(self, blocks)
        return replace(self, blocks=blocks, server_rank=votes, advice=advice)

    def without_privacy(self) -> Design:
        """The best design for the same sites and goal if they sent exact scores."""
        sending = self.sending.without_privacy()
        sizes = Sites(np.array([block.n for block in self.blocks]), self.counts)
        return self if sending is self.sending else self.promise.choose(sizes, self.goal, sending, None)

    @property
    def asked(self) -> tuple[Block, ...]:
        """The sites that are asked for anything."""
        return tuple(block for block in self.blocks if block.ranks)

    @property
    def counts(self) -> Ints:
        """How many sites each block has."""
        return np.array([block.count for block in self.blocks])

    @property
    def weights(self) -> Ints:
        """Votes of each number of each block's sites; 0 for one that is not sent."""
        return padded((block.weights for block in self.blocks), np.zeros(len(self.blocks), dtype=np.int64))


def padded(rows: Iterable[tuple[int, ...]], fill: Ints) -> Ints:
    """Rows of different lengths as an array, the rest filled with a number for each row."""
    listed = list(rows)
    table = np.repeat(np.asarray(fill)[:, None], max([1, *map(len, listed)]), axis=1)
    for i, row in enumerate(listed):
        table[i, : len(row)] = row
    return table


def merged(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Blocks of sites that are alike, put together in the order in which they first occur.

    Parameters
    ----------
    blocks : iterable of Block
        Perhaps several of sites that are alike.

    Returns
    -------
    tuple of Block
        One for each size and ranks.

    Examples
    --------
    >>> from fedconformal.planning import Block
    >>> from fedconformal.planning import merged
    >>> merged([Block(1, 79, (71,)), Block(2, 79, (71,))])
    (Block(count=3, n=79, ranks=(71,), weights=(1,), share=None),)
    """
    counts: Counter[tuple[int, tuple[int, ...], tuple[int, ...], Fraction | None]] = Counter()
    last: dict[tuple[int, tuple[int, ...], tuple[int, ...], Fraction | None], Block] = {}
    for block in blocks:
        alike = block.n, block.ranks, block.weights, block.share
        counts[alike] += block.count
        last[alike] = block
    return tuple(
        last[alike] if last[alike].count == count else Block(count, *alike) for alike, count in counts.items()
    )
