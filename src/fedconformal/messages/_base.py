"""Interface of a message: everything about what sites send, in one class."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from fedconformal._util import Ints, Registry
from fedconformal.documents import (
    Design,
    Level,
    MessageData,
    Payload,
    Plan,
    ScoreRule,
    SiteKind,
)
from fedconformal.laws import MOST_WORK, CoverageLaw
from fedconformal.planning import CRITERIA, PROMISES, Goal, Guarantee, Promise
from fedconformal.privacy import Bins, Privacy
from fedconformal.scores import claim_of

MESSAGES: Registry[Message] = Registry("message", "fedconformal.messages")
"""All messages by name."""

Ballots = Sequence[tuple[float, int]]
"""Numbers that came in at one level, each with its votes."""


@dataclass(frozen=True)
class DesignRequest:
    """Request of a coordinator for one group of cases.

    Parameters
    ----------
    promise : Promise
        Whose new cases are covered.
    goals : tuple of Goal
        One for each level.
    sites : tuple of SiteKind or None
        Runs of sites in order; None while sizes are unknown.
    n_sites : int or None
        Number of sites, where it is known.
    numbers : int or None
        Largest number of scores that a site sends for each level; None for the
        promise's own default.
    uses_paper_ranks : bool
        True if the level itself fixes the ranks (paper, appendix A.1).
    curve : Bins or None
        Grid of exact curves.
    privacy : Privacy or None
        Privacy of every report.
    parts, starts : int or None
        With ``curve``, parts in which losses are summed up, or number of starts of
        tests of answers; None for counts of scores.
    masked : bool
        True if only the sum over all sites may be read.
    """

    promise: Promise
    goals: tuple[Goal, ...]
    sites: tuple[SiteKind, ...] | None
    n_sites: int | None
    numbers: int | None = None
    uses_paper_ranks: bool = False
    curve: Bins | None = None
    privacy: Privacy | None = None
    parts: int | None = None
    starts: int | None = None
    masked: bool = False


@dataclass(frozen=True)
class Choice:
    """Sites, message and levels of a design."""

    message: MessageData
    levels: tuple[Level, ...]
    sites: tuple[SiteKind, ...] | None


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer of one site for one group of cases."""

    site: str
    n: int
    payload: Any


class Message(ABC):
    """A kind of message: how it is chosen, answered, checked and combined, and what
    follows from it.

    A subclass needs a ``name``, which is the ``kind`` of its data in documents, and
    every abstract method.

    Examples
    --------
    >>> from fedconformal.messages import MESSAGES
    >>> sorted(MESSAGES)
    ['bin', 'cases', 'curve', 'ranks']
    """

    name: ClassVar[str]
    adds_up: ClassVar[bool] = False
    """True if the payloads of all sites can be added, and their sum suffices."""
    can_be_masked: ClassVar[bool] = False
    """True if a site's payload can be written as a `vector`, of which the server needs
    the sum alone.
    """
    promises: ClassVar[tuple[str, ...]] = ()
    """Promises of this package that it can keep; empty if all."""

    def can_promise(self, promise: str) -> bool:
        """Return whether the message can keep a promise; one of an extension decides
        for itself.
        """
        ours = {each for name in MESSAGES for each in MESSAGES[name].promises}
        return not self.promises or promise in self.promises or promise not in ours

    # -- at the coordinator ------------------------------------------------------------

    @abstractmethod
    def choose(self, request: DesignRequest) -> Choice:
        """Choose what sites send, and how the server decides."""

    @abstractmethod
    def check(self, design: Design) -> None:
        """Refuse a design that cannot keep its promise with this message, with the
        reason in one line.
        """

    def work(self, design: Design) -> int:
        """Return how much work it is to check a design, in numbers that are
        computed.
        """
        return 0

    def shared_work(self, design: Design) -> Mapping[Any, int]:
        """Return the work of tables that several designs may share, by what
        distinguishes these; each is computed once.
        """
        return {}

    def memory(self, design: Design) -> int:
        """Return how many numbers of 8 bytes checking a design holds at once."""
        return 0

    def breaks_promise(self, design: Design, place: int, most_work: int) -> bool:
        """Return whether a design that passes `check` breaks its promise, as far as
        limited work can tell.
        """
        return False

    # -- at the site -------------------------------------------------------------------

    def epsilon(self, design: Design) -> Fraction | None:
        """Return the privacy loss of an answer; None if it is exact."""
        return None

    @abstractmethod
    def count_numbers(self, design: Design, n: int, site: str) -> int:
        """Count the numbers that leave a site of n scores, for its policy; 0 where
        nothing is asked of it.
        """

    @abstractmethod
    def discloses(self, design: Design, n: int, site: str) -> str:
        """Describe what leaves a site of n scores, for its data owner: ``"2 of your 120
        scores"``.
        """

    def summarize(self, design: Design, place: int) -> str:
        """Describe what each site sends at one level, in a few words for a table:
        ``"rank 71"``.
        """
        return self.name

    @abstractmethod
    def prepare(
        self,
        design: Design,
        scores: Any,
        *,
        site: str,
        round_id: str | None,
        options: Mapping[str, Any],
    ) -> Callable[[], Payload]:
        """Prepare the payload of a site; what can be refused is refused here, before
        anything is charged.

        Parameters
        ----------
        design : Design
            The design.
        scores : array of float
            The site's scores; without NaN unless the message is private.
        site : str
            Its name.
        round_id : str or None
            The plan's round.
        options : mapping
            ``in_place``: scores may be shuffled; ``round_down_to``: smallest count of a
            cell that is sent.

        Returns
        -------
        callable
            Makes the payload, drawing noise where there is any.
        """

    def count_cells(self, design: Design, scores: Any) -> Ints:
        """Return the counts that noise is added to, where there is any."""
        raise ValueError(f"message {self.name!r} has no noise")

    def simulate(
        self, design: Design, scores: Any, rng: np.random.Generator
    ) -> Payload:
        """Make a payload with seeded noise, which protects nobody."""
        raise ValueError(f"message {self.name!r} has no noise to simulate")

    # -- at the server -----------------------------------------------------------------

    @abstractmethod
    def problem(self, design: Design, answer: Answer) -> str | None:
        """Return the reason why a payload does not fit the design, if it does not."""

    @abstractmethod
    def solve(
        self, design: Design, sites: tuple[SiteKind, ...], places: Sequence[int | None]
    ) -> Design:
        """Return the design for the sites that answered, with votes solved again.

        Parameters
        ----------
        design : Design
            The planned design.
        sites : tuple of SiteKind
            The sites that answered, with their names.
        places : sequence of int or None
            The place of each kind among the planned ones; None where the plan was open.

        Returns
        -------
        Design
        """

    @abstractmethod
    def combine(
        self, design: Design, answers: Mapping[str, Answer]
    ) -> tuple[float, ...]:
        """Return the threshold of each level."""

    def vector(self, design: Design, answer: Answer) -> Sequence[int]:
        """Return what a site adds to the sum over all sites, where payloads add up."""
        raise ValueError(f"message {self.name!r} does not add up")

    def sum_problem(self, design: Design, sums: Sequence[int]) -> str | None:
        """Return the reason why this cannot be the sum over all sites, if it cannot."""
        raise ValueError(f"message {self.name!r} does not add up")

    def combine_sum(self, design: Design, sums: Sequence[int]) -> tuple[float, ...]:
        """Return the threshold of each level from the sum over all sites."""
        raise ValueError(f"message {self.name!r} does not add up")

    # -- what follows ------------------------------------------------------------------

    @abstractmethod
    def law(self, design: Design, place: int) -> CoverageLaw | None:
        """Return the distribution of the coverage at one level, or a bound of it; None
        if there is none.
        """

    @abstractmethod
    def guarantee(self, design: Design, place: int) -> Guarantee:
        """Return the guarantee at one level."""

    def is_bound(self, design: Design) -> bool:
        """Return whether the distribution is a lower bound of the coverage, rather than
        its distribution.
        """
        return design.max_faulty > 0

    def quantity(self, design: Design) -> str:
        """Name what is guaranteed, as the head of a column."""
        return "coverage"

    def why_infinite(self, design: Design) -> str:
        """Return what made a threshold infinite, as the end of a sentence."""
        return "too many of the reported values are infinite or above the last edge"

    def claim(self, design: Design, score: ScoreRule | None) -> str | None:
        """Return what is promised to new cases, for a sentence, where that is not up to
        the score.
        """
        return None

    def expected(
        self, design: Design, place: int, masses: Any = None
    ) -> tuple[float, float] | None:
        """Return mean and standard deviation of the coverage to expect where noise adds
        to the guarantee.

        ``masses`` are the shares of scores in the cells of the message's grid, by
        default the same in all.
        """
        return None

    @abstractmethod
    def tolerates(self, design: Design, place: int, n_missing: int) -> bool:
        """Return whether a finite threshold is left, whichever sites are missing."""

    def local_ranks(
        self, design: Design, place: int
    ) -> tuple[tuple[int, ...], ...] | None:
        """Return the ranks that each kind of site sends; None where no ranks are
        sent.
        """
        return None

    def votes(self, design: Design, place: int) -> tuple[tuple[int, ...], ...] | None:
        """Return the votes of the numbers of each kind of site; one for each site by
        default.
        """
        return (
            None
            if design.is_open
            else tuple((1,) * kind.asked for kind in design.kinds)
        )


def largest_so_far(design: Design, thresholds: Sequence[float]) -> tuple[float, ...]:
    """Return thresholds of which a higher level never has a smaller one."""
    order = sorted(
        range(len(thresholds)), key=lambda i: design.levels[i].confidence_level
    )
    found, largest = [math.inf] * len(thresholds), -math.inf
    for i in order:
        largest = max(largest, thresholds[i])
        found[i] = largest
    return tuple(found)


def smallest_with_votes(ballots: Ballots, needed: int) -> float:
    """Return the smallest number at which the votes of all numbers up to it reach those
    needed; else +inf.
    """
    for value, votes in sorted(ballots):
        needed -= votes
        if needed <= 0:
            return value
    return math.inf


def two_digits(step: int) -> Fraction:
    """Return one of 0.011, 0.012, ..., 0.099, 0.10, 0.11, ..., 100: the numbers with
    two digits, in order.
    """
    decade, rest = divmod(step, 90)
    return Fraction(10 + rest, 10) * Fraction(10) ** (decade - 2)


# -- the message of a request, and of a design -----------------------------------------


def of(data: MessageData) -> Message:
    """Return the behaviour of a message.

    Parameters
    ----------
    data : MessageData
        As a design holds it.

    Returns
    -------
    Message

    Examples
    --------
    >>> import fedconformal as fc
    >>> fc.messages.of(fc.plan(n_sites=3, n_points=40).message).name
    'ranks'
    """
    return MESSAGES[data.kind]()


def choose_message(request: DesignRequest) -> Message:
    """Return the message that a request calls for, refusing what does not go together.

    Parameters
    ----------
    request : DesignRequest
        What is wanted.

    Returns
    -------
    Message

    Raises
    ------
    ValueError
        If the promise cannot be kept with the message that is asked for.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedconformal.messages import DesignRequest, choose_message
    >>> from fedconformal.planning import PROMISES, Goal
    >>> request = DesignRequest(
    ...     PROMISES["population"](), (Goal(Fraction(9, 10)),), None, None
    ... )
    >>> choose_message(request).name
    'ranks'
    """
    if request.privacy is not None and request.curve is not None:
        raise ValueError("curve must be left out with privacy, whose bins are its grid")
    for given in ("parts", "starts"):
        if getattr(request, given) is not None and request.curve is None:
            raise ValueError(
                f"{given} goes with curve, whose edges are the settings, and without"
                " privacy"
            )
    if request.parts is not None and request.starts is not None:
        raise ValueError(
            "parts and starts do not go together: sums of losses, or counts of answers"
        )
    if request.privacy is not None:
        name = request.privacy.message
    elif request.curve is not None:
        name = "curve"
    else:
        name = request.promise.message(request.goals[0])
    message, promise = MESSAGES[name](), request.promise.name
    if not message.can_promise(promise):
        without = ("mixture",) if request.privacy is not None else ()
        able = " or ".join(
            repr(each) for each in message.promises if each not in without
        )
        what = (
            "privacy"
            if request.privacy is not None
            else "curve"
            if request.curve is not None
            else name
        )
        raise ValueError(f"promise must be {able} with {what}, got {promise!r}")
    if request.masked or (
        request.privacy is not None and request.privacy.bearers is not None
    ):
        _check_masked(request, message)
    return message


def _check_masked(request: DesignRequest, message: Message) -> None:
    """Refuse masks where payloads do not add up, or where sites may be missing or
    faulty.
    """
    if request.masked and not message.can_be_masked:
        raise ValueError("masked goes with curve or privacy: only counts add up")
    if request.masked and (request.goals[0].max_faulty or request.goals[0].max_missing):
        raise ValueError(
            "masked goes without max_faulty and max_missing: the sum needs every site"
        )
    if not request.masked:
        raise ValueError(
            "bearers goes with masked=True: the other sites send counts without noise"
        )


# -- whether a plan makes sense: its structure, and whether its message can keep its pro


_CHECKED = "_is_checked"
_MOST_WORK_OF_A_LEVEL, _MOST_WORK_OF_A_PLAN = (
    400_000,
    1_600_000,
)  # in votes times kinds of sites
MOST_OWN_WORK = 2**28
"""Numbers that are computed to check the votes of all designs of a plan: about four
seconds.
"""
_MOST_MEMORY = 45 * 2**20  # numbers of 8 bytes: 360 MB


def check_plan(plan: Plan, *, is_planned: bool = False) -> None:
    """Refuse a plan that nobody should answer or calibrate, whoever wrote it.

    Parameters
    ----------
    plan : Plan
        The plan.
    is_planned : bool
        True for a plan that was made just now: its votes are those that planning has
        found to suffice.

    Raises
    ------
    ValueError
        With the reason in one line.

    Examples
    --------
    >>> import fedconformal as fc
    >>> fc.messages.check_plan(fc.plan(n_sites=3, n_points=40))
    """
    if plan.__dict__.get(_CHECKED):  # plans are immutable
        return
    plan.check()
    for design in _in_order_of_tables(plan):
        promise, criterion = PROMISES[design.promise], CRITERIA[design.criterion]
        if (design.delta is not None) != criterion.takes_delta:
            raise ValueError(f"delta does not fit the criterion {design.criterion!r}")
        if plan.is_grouped and not promise.allows_groups:
            raise ValueError(
                f"promise {design.promise!r} does not go with groups: it is a plan of"
                " its own"
            )
        if not promise.takes_mixture and any(
            kind.share is not None for kind in design.kinds
        ):
            raise ValueError("a share of new cases goes with a promise to a mixture")
        message = of(design.message)
        if not message.can_promise(design.promise):
            raise ValueError(
                f"promise {design.promise!r} does not go with the message"
                f" {message.name!r}"
            )
        message.check(design)
    levels = [
        (design, place)
        for design in plan.designs
        if not (design.is_open or is_planned)
        for place in range(len(design.levels))
    ]
    most_work = min(_MOST_WORK_OF_A_LEVEL, _MOST_WORK_OF_A_PLAN // max(1, len(levels)))
    if any(
        of(design.message).breaks_promise(design, place, most_work)
        for design, place in levels
    ):
        raise ValueError("the ranks and votes of this plan do not keep its own promise")
    plan.__dict__[_CHECKED] = True


def _in_order_of_tables(plan: Plan) -> list[Design]:
    """Return the designs of a plan so that those with the same tables are neighbours;
    refuse a plan that takes too much work or memory to check.
    """
    tables: dict[Any, int] = {}
    designs: dict[tuple[Any, ...], list[Design]] = {}
    own_work = 0
    for design in plan.designs:
        message = of(design.message)
        shared = message.shared_work(design)
        tables.update(shared)
        designs.setdefault(tuple(shared), []).append(design)
        own_work += message.work(design)
        if sum(tables.values()) > MOST_WORK:
            raise ValueError(
                "the noise of this plan takes too long to check: use fewer cells or"
                " groups"
            )
        if own_work > MOST_OWN_WORK:
            raise ValueError(
                "the votes of this plan take too long to check: use fewer cases,"
                " levels, groups or sizes of sites"
            )
        _check_memory(design)
    return [design for alike in designs.values() for design in alike]


def _check_memory(design: Design) -> None:
    """Refuse a design whose distribution takes too much memory."""
    if of(design.message).memory(design) > _MOST_MEMORY:
        raise ValueError(
            "this plan takes too much memory to check: use fewer cases, or a larger"
            " epsilon"
        )


# -- attributes of plans and calibrations ----------------------------------------------


def claim(design: Design, score: ScoreRule | None) -> str:
    """Return what a design promises to new cases, for the sentence of the promise.

    Parameters
    ----------
    design : Design
        The design.
    score : ScoreRule or None
        Score of its plan.

    Returns
    -------
    str
        A template with ``{share}``, ``{whose}`` and perhaps ``{mean}``; see `Score`.
    """
    return of(design.message).claim(design, score) or claim_of(
        None if score is None else score.name
    )


def law(design: Design, place: int) -> Any:
    """Return the distribution of the coverage at one level; None if open, or where
    there is none.
    """
    if design.is_open or design.levels[place].votes is None:
        return None
    _check_memory(design)
    return of(design.message).law(design, place)


def guarantee(design: Design, place: int) -> Any:
    """Return the guarantee at one level; None if open, or too few sites answered."""
    if design.is_open or design.levels[place].votes is None:
        return None
    _check_memory(design)
    return of(design.message).guarantee(design, place)


def local_ranks(design: Design, place: int) -> Any:
    """Return the ranks of each kind of site at one level; None where none are sent."""
    return None if design.is_open else of(design.message).local_ranks(design, place)


def votes(design: Design, place: int) -> Any:
    """Return the votes of each kind of site at one level; None while the design is
    open.
    """
    return of(design.message).votes(design, place)
