"""What every promise knows."""

from abc import ABC, abstractmethod
from dataclasses import replace
from fractions import Fraction
from typing import ClassVar

from fedconformal._registry import Registry
from fedconformal.laws import CoverageLaw
from fedconformal.planning._design import Advice, Block, Design, Guarantee, Sending, Sites
from fedconformal.planning._exact import Exact
from fedconformal.planning._goal import Goal
from fedconformal.planning.criteria import Criterion

PROMISES: "Registry[Promise]" = Registry("promise", "fedconformal.promises")
"""All promises by name."""


class Promise(ABC):
    """Whose new points a threshold is for: ranks and votes, the law, the assumptions, the words.

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
    """How many numbers a site sends where nobody says."""
    takes_mixture: ClassVar[bool] = False
    """Whether it is for new points that come from the sites with known shares."""
    takes_eta: ClassVar[bool] = False
    """Whether, with a delta, sites keep a chance to lie above a quantile of their own."""
    has_law: ClassVar[bool] = True
    """Whether the coverage has a law, or a bound of it; else there is a guarantee and no more."""
    is_bound: ClassVar[bool] = False
    """Whether its law bounds the coverage, rather than being its law."""
    allows_groups: ClassVar[bool] = True
    """Whether it can be given for each group of points."""
    smallest_decides: ClassVar[bool] = False
    """Whether one site with too few points makes the threshold infinite, so that leaving it out helps."""
    bears_differing_sites: ClassVar[bool] = False
    """Whether it holds however the sites differ from each other."""
    assumption: ClassVar[str]
    """Code of what it rests on, as a calibration holds it."""

    def __eq__(self, other: object) -> bool:
        """Two promises of one class are the same."""
        return type(self) is type(other)

    def __hash__(self) -> int:
        """By class."""
        return hash(type(self))

    # -- what goes together ----------------------------------------------------------------------------

    def check(
        self, goal: Goal, *, private: bool, is_open: bool, searched: bool = True, numbers: int = 1
    ) -> None:
        """Refuse what does not go together with this promise.

        Parameters
        ----------
        goal : Goal
            Level, criterion, delta and max_faulty.
        private : bool
            Whether reports are private.
        is_open : bool
            Whether the sizes of the sites are unknown.
        searched : bool
            Whether the local ranks are left to planning.
        numbers : int
            How many numbers a site sends at the most.

        Raises
        ------
        ValueError
            If this promise cannot be given like that.
        """
        return

    def check_design(self, design: Design) -> None:
        """Refuse a design that cannot keep this promise, whatever its law; for designs read from files."""
        return

    # -- ranks and votes -------------------------------------------------------------------------------

    def sending(self, goal: Goal, numbers: int) -> Sending:
        """What sites send where reports are exact: scores of so many ranks, unless it is something else."""
        return Exact(numbers)

    def open_design(self, goal: Goal, sending: Sending, share: Fraction | None, m: int | None) -> Design:
        """The design for sites of unknown size, m of them where that is known: a rule that all follow."""
        return Design(goal, self, sending, share=goal.level if share is None else share)

    @abstractmethod
    def choose(self, sites: Sites, goal: Goal, sending: Sending, share: Fraction | None) -> Design:
        """The best ranks and votes for these sites."""

    @abstractmethod
    def votes(self, design: Design) -> tuple[int, Advice | None]:
        """The votes needed for the blocks of a design, and what would help where none will do."""

    def answered(self, design: Design, blocks: tuple[Block, ...]) -> tuple[int, Advice | None]:
        """The votes needed when only these sites have answered; by default solved anew for them."""
        return self.votes(replace(design, blocks=blocks, server_rank=None))

    def survives(self, design: Design, n_silent: int) -> bool:
        """Whether a finite threshold is left, whichever sites stay silent."""
        return design.sending.survives(design, n_silent)

    def law(self, design: Design) -> CoverageLaw:
        """The law of the coverage, or a bound of it; refused by a promise that has none."""
        raise ValueError(f"promise {self.name!r} has no law of the coverage, only a guarantee")

    def guarantee(self, design: Design) -> Guarantee:
        """What is guaranteed; by default what the law says of its mean and of reaching the level."""
        law, level = design.law(), float(design.goal.level)
        return Guarantee(law.mean(), level, float(law.sf(level)))

    # -- words -----------------------------------------------------------------------------------------

    serves: ClassVar[str] = ""
    """Whose new cases are covered, for a table of promises; empty: as ``whose`` says."""
    law_note: ClassVar[str] = ""
    """What the law does not contain: a sentence."""
    condition: ClassVar[str] = ""
    """For whom, or if what, the promise holds: the end of a headline, as in "if sites are alike"."""
    bearing: ClassVar[str] = "max_missing=1 (--max-missing 1) plans for that"
    """What can be done about a silent site, as the end of a sentence."""

    whose: ClassVar[str] = "new cases"
    """Whose truth is covered, in a sentence."""
    among: ClassVar[str] = ""
    """Where the share covered is meant, as in "the share covered at any one site"."""
    bound_of: ClassVar[str] = ""
    """What its law bounds, where it is a bound, for the heading of a table: "worst site"."""
    pools: ClassVar[bool] = True
    """Whether pooling all cases in one place would keep the same promise, and so can be compared with."""

    def options(self) -> str:
        """A few words for a line on a terminal; empty for the usual promise."""
        return f"promise {self.name}"

    def surety(self, criterion: Criterion, delta: float | None) -> str:
        """How sure the promise is, as the end of a headline."""
        return criterion.surety(delta)

    def sentence(self, criterion: Criterion, level: float, delta: float | None, group: str = "") -> str:
        """The promise as a sentence; ``group`` follows whose cases are meant."""
        return criterion.promise(level, self.whose + group, delta)

    def runs_over(self, criterion: Criterion) -> str:
        """What the average, or the certainty, runs over: a sentence."""
        return criterion.runs_over()

    @abstractmethod
    def assumed(self) -> str:
        """What the promise rests on, in plain words."""

    def assumed_in_groups(self) -> str:
        """The same for a threshold for each group of points."""
        return f"In each group by itself: {self.assumed()}"

    @abstractmethod
    def shortfall(self, where: str) -> str:
        """Why new cases may be covered too rarely: two causes, and the condition of the second.

        Parameters
        ----------
        where : str
            The place, as in ``"here"``.
        """
