"""Criteria: which choices of ranks are valid, and which valid choice is best."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from fedconformal import _text
from fedconformal._text import USUAL_CLAIM
from fedconformal._util import Floats, Registry, rank_of
from fedconformal.documents import Advice, Design, Level
from fedconformal.laws import MEAN_ERROR, CoverageLaw

if TYPE_CHECKING:
    from fedconformal.planning._search import ExactReferee

# costs, or excess, up to this multiple of the lowest are accepted to tolerate a missing
# site
_NEAR = 1.02
_TIE = 1e-9  # relative difference of squared errors that counts as none
_CDF_ERROR = 1e-9  # of P(C <= level), relative to delta

CRITERIA: Registry[Criterion] = Registry("criterion", "fedconformal.criteria")
"""All criteria by name."""


class Outcomes:
    """Distributions of the coverage for several choices of ranks at once.

    Parameters
    ----------
    moments : callable
        Returns mean and variance of the coverage for each choice.
    cdf : callable
        Returns P(coverage <= c) for each choice.
    """

    def __init__(
        self,
        moments: Callable[[], tuple[Floats, Floats]],
        cdf: Callable[[float], Floats],
    ) -> None:
        self._moments, self.cdf = moments, cdf

    @classmethod
    def of_law(cls, law: CoverageLaw) -> Outcomes:
        """Return the distribution of a single choice."""
        return cls(
            lambda: (np.array([law.mean()]), np.array([law.var()])),
            lambda c: np.array([law.cdf(c)]),
        )

    @cached_property
    def moments(self) -> tuple[Floats, Floats]:
        """Mean and variance of the coverage for each choice."""
        return self._moments()


@dataclass(frozen=True)
class Criterion(ABC):
    """A rule that says which ranks keep a promise, and which of these are best.

    A larger threshold must never make a valid choice invalid: for every rank vector the
    server ranks that are valid are those from some rank on. A subclass needs a
    ``name``, ``margin`` and the words; what else there is has defaults that are right
    for any criterion, if not always fast.

    Examples
    --------
    >>> from fedconformal.planning import CRITERIA
    >>> CRITERIA["stable"]().surety(None)
    'on average'
    """

    name: ClassVar[str]
    is_mean: ClassVar[bool] = False
    """True if a choice is valid if and only if its mean coverage is at least the level.
    """
    takes_delta: ClassVar[bool] = False
    """True if ``delta`` is part of the promise."""
    trades_up: ClassVar[bool] = False
    """True if a server rank above the smallest valid one can be better."""
    heeds_spread: ClassVar[bool] = True
    """True if less spread is better: else sites are not left out for the sake of the
    cost alone.
    """

    # -- which choices are valid, and which is best ------------------------------------

    @abstractmethod
    def margin(self, law: Outcomes, goal: Goal) -> Floats:
        """Return the margin by which each choice satisfies the criterion: positive if
        it does.
        """

    def margin_error(self, goal: Goal) -> float:
        """Return the largest rounding error of ``margin``."""
        return MEAN_ERROR

    def settles(self, law: ExactReferee, goal: Goal) -> bool:
        """Return whether a choice whose margin is too close to zero is valid, in exact
        arithmetic.
        """
        return False

    def cost(self, mean: float, variance: float, goal: Goal) -> float:
        """Return the cost, which is smallest for the best valid choice."""
        return mean

    def tie_tolerance(self, lowest: float) -> float:
        """Return the largest distance of a tie from the lowest cost, so that rounding
        never decides.
        """
        return MEAN_ERROR

    def missing_slack(self, lowest: float, goal: Goal) -> float:
        """Return the highest cost accepted for a plan that tolerates one missing
        site.
        """
        return lowest

    def follows_from(self, law: CoverageLaw, level: float, delta: float | None) -> bool:
        """Return whether a distribution planned under another criterion satisfies this
        one too.
        """
        return False

    def own_rank(self, n: int, goal: Goal) -> int:
        """Return the smallest rank with which n scores satisfy the criterion alone; n +
        1 if none does.
        """

        def is_valid(rank: int) -> bool:
            alone = Outcomes.of_law(CoverageLaw(1, n, rank, 1))
            return bool(self.margin(alone, goal)[0] > self.margin_error(goal))

        return 1 + bisect_left(range(1, n + 1), True, key=is_valid)

    # -- words -------------------------------------------------------------------------

    def options(self, delta: float | None) -> str:
        """Return the criterion and its parameters, for a line on a terminal."""
        return self.name

    @abstractmethod
    def surety(self, delta: float | None) -> str:
        """Return the probability of the promise, as the end of a headline: ``"on
        average"``.
        """

    def promise(
        self, level: float, whose: str, delta: float | None, claim: str = USUAL_CLAIM
    ) -> str:
        """Return the promise as a sentence for a reader new to conformal prediction."""
        sure, mean = self.surety(delta), "" if self.is_mean else " on average"
        claimed = claim.format(share=_text.percent(level), whose=whose, mean=mean)
        return f"{sure[:1].upper()}{sure[1:]}, {claimed}."


@CRITERIA.register
class Conditional(Criterion):
    """P(C >= level) at least 1 - delta, C the coverage given the data; then the
    smallest mean coverage.

    Examples
    --------
    >>> import fedconformal as fc
    >>> law = fc.plan(n_sites=10, n_points=100, criterion="conditional", delta=0.1).law
    >>> bool(law.sf(0.9) >= 0.9)
    True
    """

    name: ClassVar[str] = "conditional"
    takes_delta: ClassVar[bool] = True

    def margin(self, law: Outcomes, goal: Goal) -> Floats:
        """Return delta minus the probability that the coverage is not above the
        level.
        """
        return float(goal.delta) - law.cdf(float(goal.level))

    def margin_error(self, goal: Goal) -> float:
        """Return an error relative to delta."""
        return _CDF_ERROR * float(goal.delta)

    def settles(self, law: ExactReferee, goal: Goal) -> bool:
        """Compare the probability with delta in whole numbers."""
        missed = law.cdf(goal.level)
        return missed is not None and missed <= goal.delta

    def own_rank(self, n: int, goal: Goal) -> int:
        """Return the smallest l with P(Bin(n, level) >= l) <= delta: how often rank l
        misses the level.
        """

        def is_valid(rank: int) -> bool:
            return bool(
                special.betainc(rank, n - rank + 1, float(goal.level))
                <= float(goal.delta)
            )

        return 1 + bisect_left(range(1, n + 1), True, key=is_valid)

    def missing_slack(self, lowest: float, goal: Goal) -> float:
        """Accept two per cent more above the level."""
        return float(goal.level) + _NEAR * max(0.0, lowest - float(goal.level))

    def options(self, delta: float | None) -> str:
        """Return the criterion and its delta."""
        return f"{self.name}, delta {delta:g}"

    def surety(self, delta: float | None) -> str:
        """With some certainty."""
        return f"with {_text.percent(float(1 - Decimal(str(delta))))} certainty"


@CRITERIA.register
class Marginal(Criterion):
    """Mean coverage at least the level, and as close to it as any ranks get (paper,
    section 3.2).

    Examples
    --------
    >>> import fedconformal as fc
    >>> law = fc.plan(n_sites=10, n_points=100, criterion="marginal").law
    >>> round(law.mean(), 4), round(law.std(), 4)
    (0.9002, 0.0192)
    """

    name: ClassVar[str] = "marginal"
    is_mean: ClassVar[bool] = True
    heeds_spread: ClassVar[bool] = False

    def margin(self, law: Outcomes, goal: Goal) -> Floats:
        """Return the mean coverage minus the level."""
        return law.moments[0] - float(goal.level)

    def settles(self, law: ExactReferee, goal: Goal) -> bool:
        """Compare the mean with the level in whole numbers."""
        mean = law.mean()
        return mean is not None and mean >= goal.level

    def follows_from(self, law: CoverageLaw, level: float, delta: float | None) -> bool:
        """Return whether the mean is at least the level."""
        return law.mean() >= level - MEAN_ERROR

    def own_rank(self, n: int, goal: Goal) -> int:
        """Return the smallest l with l / (n + 1) at least the level."""
        return min(rank_of(goal.level, n), n + 1)

    def surety(self, delta: float | None) -> str:
        """On average."""
        return "on average"


@CRITERIA.register
class Stable(Marginal):
    """The promise of `Marginal`, kept with the smallest mean squared distance of C from
    the level.

    At 10 sites of 100 points and a level of 0.9 the paper's ranks have a coverage with
    standard deviation .0192; these have .0120, at the price of .002 more coverage.

    Examples
    --------
    >>> import fedconformal as fc
    >>> law = fc.plan(n_sites=10, n_points=100, criterion="stable").law
    >>> round(law.mean(), 4), round(law.std(), 4)
    (0.9023, 0.012)
    """

    name: ClassVar[str] = "stable"
    is_mean: ClassVar[bool] = True
    heeds_spread: ClassVar[bool] = True
    trades_up: ClassVar[bool] = True

    def cost(self, mean: float, variance: float, goal: Goal) -> float:
        """Return E[(C - level)^2]."""
        return variance + (mean - float(goal.level)) ** 2

    def tie_tolerance(self, lowest: float) -> float:
        """Return a relative difference, as a squared error has no natural unit."""
        return _TIE * lowest

    def missing_slack(self, lowest: float, goal: Goal) -> float:
        """Accept two per cent more."""
        return _NEAR * lowest


USUAL_DELTA = Fraction(1, 10)


@dataclass(frozen=True)
class Goal:
    """A level, and the criterion under which it is to be reached.

    Parameters
    ----------
    level : Fraction
        Coverage that was asked for.
    criterion : Criterion
        Rule for valid choices, and for the best of them.
    delta : Fraction
        Probability of failure that is allowed, for criteria that take it.
    max_faulty : int
        Number of reports that may be arbitrary.
    max_missing : int or None
        Number of sites that may be missing, in any combination, without making the
        threshold infinite. None: one, where that costs next to nothing.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedconformal.planning import Goal
    >>> Goal(Fraction(9, 10)).criterion.name
    'stable'
    """

    level: Fraction
    criterion: Criterion = field(default_factory=Stable)
    delta: Fraction = USUAL_DELTA
    max_faulty: int = 0
    max_missing: int | None = None

    @classmethod
    def from_design(cls, design: Design, place: int) -> Goal:
        """Return the goal of one level of a design."""
        return cls(
            design.levels[place].confidence_level,
            CRITERIA[design.criterion](),
            design.delta or USUAL_DELTA,
            design.max_faulty,
            design.max_missing,
        )

    @classmethod
    def all_of(cls, design: Design) -> tuple[Goal, ...]:
        """Return the goals of all levels of a design."""
        return tuple(
            cls.from_design(design, place) for place in range(len(design.levels))
        )

    def make_level(self, votes: int | None, advice: Advice | None = None) -> Level:
        """Return the level with the votes that it needs, or advice where none
        suffice.
        """
        return Level(confidence_level=self.level, votes=votes, advice=advice)
