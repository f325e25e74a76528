"""Common part of the audits of all messages."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from fedconformal.audit._finding import NotVerifiableError, Work
from fedconformal.documents import Design, Level, MessageData, Payload, SiteKind

MEAN, CONDITIONAL = "mean", "conditional"
_CRITERIA = {"marginal": MEAN, "stable": MEAN, "conditional": CONDITIONAL}


@dataclass(frozen=True)
class Claim:
    """What is claimed at one level.

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
    def level(self) -> Fraction:
        """The confidence level."""
        return self.design.levels[self.place].confidence_level

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
        return sum(kind.count for kind in self.design.kinds if kind.asked)

    @property
    def criterion(self) -> str:
        """Kind of the criterion: on average, or with a probability of 1 - delta."""
        if self.design.criterion not in _CRITERIA:
            raise NotVerifiableError(f"unknown criterion {self.design.criterion!r}")
        return _CRITERIA[self.design.criterion]


@dataclass(frozen=True)
class Verdict:
    """Result of recomputing a claim.

    Parameters
    ----------
    holds : bool
        True if it holds.
    detail : str
        What was computed.
    """

    holds: bool
    detail: str


Check = Callable[[Claim], Verdict]


class MessageAudit(ABC):
    """Rules of one kind of message, as the auditor knows them."""

    promises: Mapping[tuple[str, str], Check]
    """Checks of the coverage, by promise and kind of criterion; any other is not verified."""

    @abstractmethod
    def answered(
        self, planned: Design, sites: tuple[SiteKind, ...], places: Sequence[int | None]
    ) -> MessageData:
        """Return the message of the design for the sites that answered.

        Parameters
        ----------
        planned : Design
            The plan's.
        sites : tuple of SiteKind
            The sites that answered.
        places : sequence of int or None
            Places of their kinds in the plan; None where it is open.

        Returns
        -------
        MessageData
        """

    @abstractmethod
    def problem(self, planned: Design, n: int, site: str, payload: Payload) -> str | None:
        """Return the reason why a payload does not fit the plan, if it does not.

        Parameters
        ----------
        planned : Design
            The plan's.
        n : int
            Number of scores of the site.
        site : str
            Its name.
        payload : Payload
            What it sent.

        Returns
        -------
        str or None
        """

    @abstractmethod
    def threshold(self, claim: Claim, payloads: Mapping[str, Payload]) -> float:
        """Return the threshold of one level, from what the sites sent.

        Parameters
        ----------
        claim : Claim
            The level, of the sites that answered.
        payloads : mapping from str to Payload
            What each of them sent.

        Returns
        -------
        float
        """

    @abstractmethod
    def most_votes(self, claim: Claim) -> int:
        """Return the votes of all sites together; a level that cannot be reached needs one more.

        Parameters
        ----------
        claim : Claim
            The level.

        Returns
        -------
        int
        """

    def finite_votes(self, claim: Claim) -> int | None:
        """Return the most votes with which a threshold is finite; None if any number may be.

        Parameters
        ----------
        claim : Claim
            The level.

        Returns
        -------
        int or None
        """
        return self.most_votes(claim)

    def needed_votes(self, claim: Claim, planned: Level) -> int | None:
        """Return the votes that the promise fixes, reached or not; None if it leaves a choice.

        Parameters
        ----------
        claim : Claim
            The level, of the sites that answered.
        planned : Level
            The plan's.

        Returns
        -------
        int or None
        """
        return None

    def describe(self, claim: Claim) -> str:
        """Return the claim as a sentence."""
        share = f"1 - {float(claim.delta):g}"
        sentences = {
            ("population", MEAN): "mean coverage is at least the level",
            ("population", CONDITIONAL): f"coverage reaches the level with probability {share}",
            ("each-site", MEAN): "mean coverage is at least the level at every site",
            ("each-site", CONDITIONAL): f"all sites reach the level at once with probability {share}",
            ("mixture", MEAN): "mean coverage over the mixture is at least the level",
            ("new-site", MEAN): "mean coverage over new sites is at least the level",
            ("new-site", CONDITIONAL): f"{share} of new sites or more reach the level",
        }
        unknown = f"promise {claim.design.promise!r} holds with criterion {claim.design.criterion!r}"
        kind = _CRITERIA.get(claim.design.criterion, "")
        return sentences.get((claim.design.promise, kind), unknown)

    def check(self, claim: Claim) -> Verdict:
        """Recompute the coverage claim of a level that can be reached.

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
        design = claim.design
        check = self.promises.get((design.promise, claim.criterion))
        if check is None:
            raise NotVerifiableError(f"unknown promise {design.promise!r} with {design.message.kind!r}")
        if (design.delta is None) != (claim.criterion == MEAN):
            return Verdict(False, "delta does not fit the criterion")
        if design.max_faulty and design.promise != "population":
            return Verdict(False, f"faulty sites break the promise {design.promise!r}")
        if design.promise in ("each-site", "new-site") and not all(kind.asked for kind in design.kinds):
            return Verdict(False, f"promise {design.promise!r} needs answers of all sites")
        if (design.promise == "mixture") != any(kind.share is not None for kind in design.kinds):
            return Verdict(False, "shares belong to a mixture")
        return check(claim)


def place_of(planned: Design, n: int, site: str) -> int | None:
    """Return the place of a site's kind in a plan that asks it; None while the plan is open.

    Raises
    ------
    ValueError
        If the plan does not ask this site.
    """
    place = planned.find_kind(n, site=site)
    if place is not None and not planned.kinds[place].asked:
        raise ValueError("the plan does not ask this site")
    return place
