"""Findings, the limit on the work of an audit, and the rules that every message has."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from fedconformal.documents import Design, Level, MessageData, SiteKind

MOST_OPERATIONS = 5 * 10**9
"""Arithmetic operations, estimated from sizes, beyond which no claim of a calibration
is recomputed.
"""

MEAN, CONDITIONAL = "mean", "conditional"
_CRITERIA = {"marginal": MEAN, "stable": MEAN, "conditional": CONDITIONAL}

Verdict = tuple[bool, str]
"""True if a claim holds, and the evidence."""


@dataclass(frozen=True)
class Finding:
    """One claim, and whether it holds.

    Attributes
    ----------
    claim : str
        The claim.
    detail : str
        Evidence for it or against it, or the reason why it was not verified.
    holds : bool or None
        True if the claim holds, False if it does not, None if it was not verified.

    Examples
    --------
    >>> from fedconformal.audit import Finding
    >>> Finding("mean coverage is at least the level", "0.90017", True).verdict
    'yes'
    """

    claim: str
    detail: str
    holds: bool | None

    @property
    def verdict(self) -> str:
        """The word that tables show."""
        return "not verified" if self.holds is None else "yes" if self.holds else "NO"


class NotVerifiableError(ValueError):
    """A claim that this auditor cannot recompute, and the reason."""


def decide(
    low: float, high: float, goal: Fraction, *, slack: float = 1e-9
) -> bool | None:
    """Compare a number between two bounds with a goal: True if it is at least that,
    None if unknown.
    """
    if low >= goal + slack:
        return True
    return False if high < goal - slack else None


class Work:
    """Counter of the operations of one audit, so that a hostile file cannot keep an
    auditor busy.

    Parameters
    ----------
    limit : float
        Number of operations that may be spent.
    """

    def __init__(self, limit: float = MOST_OPERATIONS) -> None:
        self._limit = self._remaining = limit
        self._results: dict[Hashable, Any] = {}

    @cached_property
    def spare(self) -> "Work":
        """Operations kept for bounds, which claims that are too large for anything else
        get.
        """
        return Work(self._limit / 5)

    def remember(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return what was made under this key during the audit, or make it."""
        if key not in self._results:
            self._results[key] = make()
        return self._results[key]

    def spend(self, operations: float) -> None:
        """Count operations before they are done.

        Parameters
        ----------
        operations : float
            Estimated number.

        Raises
        ------
        NotVerifiableError
            If that is more than remains.
        """
        if operations > self._remaining:
            raise NotVerifiableError("too large")
        self._remaining -= operations


@dataclass(frozen=True)
class Claim:
    """Claim of a document at one level.

    Parameters
    ----------
    design : Design
        Of known sizes: that of the plan, or of the sites that answered.
    place : int
        Place of the level.
    work : Work
        Counter of operations.
    """

    design: Design
    place: int
    work: Work

    @property
    def message(self) -> Any:
        """Data of the message, whose rules are chosen by its class."""
        return self.design.message

    @property
    def level(self) -> Fraction:
        """The confidence level."""
        return self.design.levels[self.place].confidence_level

    @property
    def name(self) -> str:
        """The level as the beginning of a sentence."""
        return f"level {float(self.level):.12g}"

    @property
    def votes(self) -> int:
        """Votes that the threshold needs."""
        return self.design.levels[self.place].votes or 0

    @property
    def delta(self) -> Fraction:
        """Probability with which the promise may fail."""
        return self.design.delta or Fraction(0)

    @property
    def n_sites(self) -> int:
        """Number of sites that are asked, or that answered."""
        return self.design.n_asked or 0

    @property
    def criterion(self) -> str:
        """Kind of the criterion: on average, or with a probability of 1 - delta."""
        if self.design.criterion == "stable" and self.design.promise != "population":
            return "unknown"  # the package gives no such promise
        return _CRITERIA.get(self.design.criterion, "unknown")

    def describe(self) -> str:
        """Return the claim as a sentence."""
        share = f"1 - {float(self.delta):g}"
        sentences = {
            ("population", MEAN): "mean coverage is at least the level",
            (
                "population",
                CONDITIONAL,
            ): f"coverage reaches the level with probability {share}",
            ("each-site", MEAN): "mean coverage is at least the level at every site",
            (
                "each-site",
                CONDITIONAL,
            ): f"all sites reach the level at once with probability {share}",
            ("mixture", MEAN): "mean coverage over the mixture is at least the level",
            ("new-site", MEAN): "mean coverage over new sites is at least the level",
            ("new-site", CONDITIONAL): f"{share} of new sites or more reach the level",
        }
        unknown = (
            f"promise {self.design.promise!r} holds with criterion"
            f" {self.design.criterion!r}"
        )
        return sentences.get((self.design.promise, self.criterion), unknown)


class MessageAudit:
    """Rules of one kind of message, as the auditor knows them."""

    checks: ClassVar[Mapping[tuple[str, str], Callable[[Claim], Verdict]]]
    """Checks of the coverage by promise and kind of criterion; any other is not
    verified.
    """

    def answered(
        self, planned: Design, sites: Sequence[SiteKind], places: Sequence[int | None]
    ) -> MessageData:
        """Return the message for sites that answered, whose kinds have these places in
        the plan.
        """
        return planned.message

    def problem(
        self, planned: Design, n: int, place: int | None, payload: Any
    ) -> str | None:
        """Return the reason why the payload of a site of n scores does not fit the
        plan, if it does not.

        The place is that of its kind in the plan; None while the plan is open.
        """
        raise NotImplementedError

    def threshold(self, claim: Claim, payloads: Mapping[str, Any]) -> float:
        """Return the threshold of one level from the payloads of all sites."""
        raise NotImplementedError

    def threshold_of_sum(self, claim: Claim, sums: Sequence[int]) -> float:
        """Return the threshold from the sum over all sites of a masked plan."""
        raise NotVerifiableError("sums of this message are unknown")

    def sum_problem(self, design: Design, sums: Sequence[int]) -> str | None:
        """Return the reason why this is not a sum over all sites, if it is not."""
        raise NotVerifiableError("sums of this message are unknown")

    def most_votes(self, claim: Claim) -> int:
        """Return the votes of all sites together; a level that cannot be reached needs
        one more.
        """
        raise NotImplementedError

    def finite_votes(self, claim: Claim) -> int | None:
        """Return the most votes with which a threshold is finite; None if any number
        may be.
        """
        return self.most_votes(claim)

    def needed_votes(self, claim: Claim, planned: Level) -> int | None:
        """Return the votes that the promise fixes, reached or not; None if it leaves a
        choice.
        """
        return None

    def check(self, claim: Claim) -> Verdict:
        """Recompute the coverage at a level that can be reached.

        Parameters
        ----------
        claim : Claim
            The level.

        Returns
        -------
        Verdict

        Raises
        ------
        NotVerifiableError
            If promise or criterion are unknown, or the sites too many.
        """
        design, check = (
            claim.design,
            self.checks.get((claim.design.promise, claim.criterion)),
        )
        if check is None:
            raise NotVerifiableError(
                f"unknown promise or criterion for {claim.message.kind!r}"
            )
        if (design.delta is None) != (claim.criterion == MEAN):
            return False, "delta does not fit the criterion"
        if design.max_faulty and design.promise != "population":
            return False, f"faulty sites break the promise {design.promise!r}"
        if design.promise in ("each-site", "new-site") and not all(
            kind.asked for kind in design.kinds
        ):
            return False, f"promise {design.promise!r} needs answers of all sites"
        if (design.promise == "mixture") != any(
            kind.share is not None for kind in design.kinds
        ):
            return False, "shares belong to a mixture"
        return check(claim)
