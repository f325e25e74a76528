"""What every criterion knows."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Protocol

import numpy as np
from scipy import special

from fedconformal import _text
from fedconformal._registry import Registry
from fedconformal._typing import Floats
from fedconformal.laws import MEAN_ERROR, CoverageLaw

CRITERIA: "Registry[Criterion]" = Registry("criterion", "fedconformal.criteria")
"""All criteria by name."""


class Wanted(Protocol):
    """The numbers of a goal that a criterion looks at."""

    @property
    def level(self) -> Fraction:
        """The coverage that was asked for."""
        ...

    @property
    def delta(self) -> Fraction:
        """How often the promise may fail, for criteria that take it."""
        ...


class Outcomes(Protocol):
    """The laws of the coverage for several choices of ranks at once."""

    @property
    def moments(self) -> tuple[Floats, Floats]:
        """Mean and variance of the coverage for each choice."""
        ...

    def cdf(self, c: float) -> Floats:
        """P(coverage <= c) for each choice."""
        ...


class ExactLaw(Protocol):
    """The law of one choice of ranks in whole numbers, where that is affordable."""

    def mean(self) -> Fraction | None:
        """Mean coverage; None where counting costs too much."""
        ...

    def cdf(self, c: Fraction) -> Fraction | None:
        """P(coverage <= c); None where counting costs too much."""
        ...


@dataclass(frozen=True)
class _Alone:
    """The law of one site's l-th smallest of n scores."""

    n: int
    l: int

    @property
    def moments(self) -> tuple[Floats, Floats]:
        mean = self.l / (self.n + 1)
        return np.array([mean]), np.array([mean * (1 - mean) / (self.n + 2)])

    def cdf(self, c: float) -> Floats:
        return np.array([special.betainc(self.l, self.n - self.l + 1, c)])


class Criterion(ABC):
    """A rule that says which ranks keep a promise, and which of these are best.

    A larger threshold must never make a valid choice invalid: for every rank vector the server ranks that are
    valid are those from some rank on. A subclass needs a ``name``, ``margin`` and the words; what else there
    is has defaults that are right for any criterion, if not always fast.

    Examples
    --------
    >>> from fedconformal.planning import CRITERIA
    >>> CRITERIA["stable"]().surety(None)
    'on average'
    """

    name: ClassVar[str]
    is_mean: ClassVar[bool] = False
    """Whether a choice is valid if its mean coverage is at least the level, and only then."""
    takes_delta: ClassVar[bool] = False
    """Whether ``delta`` is part of the promise."""
    trades_up: ClassVar[bool] = False
    """Whether a server rank above the smallest valid one can be better."""
    heeds_spread: ClassVar[bool] = True
    """Whether less spread is better: else sites are not left out for the sake of the cost alone."""

    def __eq__(self, other: object) -> bool:
        """Two criteria of one class are the same."""
        return type(self) is type(other)

    def __hash__(self) -> int:
        """By class."""
        return hash(type(self))

    # -- which choices are valid, and which is best ----------------------------------------------------

    @abstractmethod
    def margin(self, law: Outcomes, goal: Wanted) -> Floats:
        """By how much each choice keeps the promise: positive if it does."""

    def margin_error(self, goal: Wanted) -> float:
        """How far ``margin`` may be off by rounding."""
        return MEAN_ERROR

    def settles(self, law: ExactLaw, goal: Wanted) -> bool:
        """Whether a choice whose margin is too close to zero is valid, in exact arithmetic."""
        return False

    def cost(self, mean: float, variance: float, goal: Wanted) -> float:
        """What is to be as small as can be among valid choices."""
        return mean

    def tie(self, lowest: float) -> float:
        """Costs this close to the lowest are ties, so that rounding never decides between two plans."""
        return MEAN_ERROR

    def near(self, lowest: float, goal: Wanted) -> float:
        """The largest cost that is given up gladly for a plan that bears a silent site; the lowest: none."""
        return lowest

    def follows_from(self, law: CoverageLaw, level: float, delta: float | None) -> bool:
        """Whether a law that was found under another criterion keeps this one's promise too."""
        return False

    def own_rank(self, n: int, goal: Wanted) -> int:
        """The smallest rank with which a site of n scores keeps the promise by itself; n + 1 if none does."""
        low, high = 0, n + 1
        while high - low > 1:
            middle = (low + high) // 2
            valid = self.margin(_Alone(n, middle), goal)[0] > self.margin_error(goal)
            low, high = (low, middle) if valid else (middle, high)
        return high

    # -- words -----------------------------------------------------------------------------------------

    def options(self, delta: float | None) -> str:
        """The criterion and its parameters, for a line on a terminal."""
        return self.name

    @abstractmethod
    def surety(self, delta: float | None) -> str:
        """How sure the promise is, as the end of a headline: ``"on average"``."""

    def promise(self, level: float, whose: str, delta: float | None) -> str:
        """The promise as a sentence for somebody who has never heard of conformal prediction."""
        sure = self.surety(delta)
        return (
            f"{sure[:1].upper()}{sure[1:]}, the truth lies inside the prediction set for at least "
            f"{_text.percent(level)} of {whose}."
        )

    @abstractmethod
    def runs_over(self) -> str:
        """What the average, or the certainty, runs over: a sentence."""
