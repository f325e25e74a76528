"""Base class of all promises."""

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import ClassVar

from fedconformal._util import Registry
from fedconformal.documents import RankRule, SiteKind
from fedconformal.laws import CoverageLaw
from fedconformal.planning._ballot import Ballot, Guarantee, Solution
from fedconformal.planning._rule import usual_spacing
from fedconformal.planning.criteria import Criterion, Goal

PROMISES: "Registry[Promise]" = Registry("promise", "fedconformal.promises")
"""All promises by name."""


class Promise(ABC):
    """A population of new points, and the ranks, votes, distribution and assumptions that cover it.

    Examples
    --------
    >>> from fedconformal.planning import PROMISES
    >>> PROMISES["population"]().whose
    'new cases'
    """

    name: ClassVar[str]
    default_criterion: ClassVar[str]
    """The criterion that is meant where none is chosen."""
    default_numbers: ClassVar[int] = 1
    """Numbers that a site sends by default."""
    takes_mixture: ClassVar[bool] = False
    """True if it is for new points that come from the sites with known shares."""
    is_bound: ClassVar[bool] = False
    """True if its ``law`` is a bound of the distribution of the coverage."""
    allows_groups: ClassVar[bool] = True
    """True if it can be given for each group of points."""
    smallest_decides: ClassVar[bool] = False
    """True if one site with too few points makes the threshold infinite, so that leaving it out helps."""
    bears_differing_sites: ClassVar[bool] = False
    """True if it holds however the sites differ from each other."""
    assumption: ClassVar[str]
    """Code of what it rests on, as a calibration holds it."""

    def __eq__(self, other: object) -> bool:
        """Two promises of one class are the same."""
        return type(self) is type(other)

    def __hash__(self) -> int:
        """By class."""
        return hash(type(self))

    def message(self, goal: Goal) -> str:
        """Return the name of the message that sites send unless another is asked for."""
        return "ranks"

    # -- what goes together ----------------------------------------------------------------------------

    def check_goal(self, goal: Goal, *, is_open: bool, is_searched: bool = True, numbers: int = 1) -> None:
        """Refuse what does not go together with this promise.

        Parameters
        ----------
        goal : Goal
            Level, criterion, delta and max_faulty.
        is_open : bool
            True if the sizes of the sites are unknown.
        is_searched : bool
            True if the local ranks are left to planning.
        numbers : int
            Largest number of scores that a site sends.

        Raises
        ------
        ValueError
            If this promise cannot be given like that.
        """
        return

    def check_solution(self, solution: Solution, goal: Goal) -> None:
        """Refuse ranks and votes that cannot keep this promise, whatever their distribution."""
        return

    # -- ranks and votes -------------------------------------------------------------------------------

    def open_rule(self, goal: Goal, numbers: int, share: Fraction | None, n_sites: int | None) -> RankRule:
        """Return the rule by which sites of unknown size find their ranks."""
        return RankRule(
            share=goal.level if share is None else share, numbers=numbers, spacing=usual_spacing(numbers)
        )

    @abstractmethod
    def choose(
        self, sites: tuple[SiteKind, ...], goal: Goal, numbers: int, share: Fraction | None
    ) -> Solution:
        """Return the best ranks and votes for these sites."""

    @abstractmethod
    def solve(self, planned: Solution, answered: Ballot, goal: Goal) -> Solution:
        """Return the solution for the sites that answered with the planned ranks."""

    @abstractmethod
    def tolerates(self, solution: Solution, goal: Goal, n_missing: int) -> bool:
        """Return whether a finite threshold is left, whichever sites are missing."""

    def law(self, solution: Solution, goal: Goal) -> CoverageLaw | None:
        """Return the distribution of the coverage, or a bound of it; None for a promise that has none."""
        return None

    def guarantee(self, solution: Solution, goal: Goal) -> Guarantee:
        """Return the guarantee; by default the mean of the distribution and the chance to reach the level."""
        law, level = self.law(solution, goal), float(goal.level)
        assert law is not None
        return Guarantee(law.mean(), level, float(law.sf(level)))

    # -- words -----------------------------------------------------------------------------------------

    serves: ClassVar[str] = ""
    """New cases that are covered, for a list of promises; empty: as ``whose`` says."""
    law_note: ClassVar[str] = ""
    """Sentence about what the law does not contain."""
    condition: ClassVar[str] = ""
    """Condition on the sites, which ends the sentence of the promise; empty if sites may differ."""
    missing_remedy: ClassVar[str] = "to tolerate one, plan with max_missing=1 (--max-missing 1)"
    """Remedy for a missing site, as the end of a sentence."""

    whose: ClassVar[str] = "new cases"
    """Cases whose truth is covered, in a sentence."""
    among: ClassVar[str] = ""
    """Place that the share covered refers to, as in "the share covered at any one site"."""
    bound_of: ClassVar[str] = ""
    """Quantity that its law bounds, where it is a bound, for the heading of a table: "worst site"."""
    pools: ClassVar[bool] = True
    """True if pooling all cases would satisfy the same promise, and so can be compared with."""

    def options(self) -> str:
        """Return a few words for a line on a terminal; empty for the usual promise."""
        return f"promise {self.name}"

    def sentence(self, criterion: Criterion, level: float, delta: float | None, group: str = "") -> str:
        """Return the promise as a sentence, with its condition; ``group`` follows whose cases are meant."""
        condition = f", {self.condition}" if self.condition else ""
        return criterion.promise(level, f"{self.whose}{group}{condition}", delta)

    @abstractmethod
    def assumed(self) -> str:
        """Return the assumptions of the promise, described."""

    def assumed_in_groups(self) -> str:
        """Return the assumptions of a threshold for each group of points."""
        return f"In each group individually: {self.assumed()}"

    @abstractmethod
    def shortfall(self, where: str) -> str:
        """Explain why new cases may be covered too rarely: two causes, and the condition of the second.

        Parameters
        ----------
        where : str
            The place, as in ``"here"``.
        """
