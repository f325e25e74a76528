"""A promise for one population: all sites and the new points are alike."""

from fractions import Fraction
from typing import ClassVar

from fedconformal.documents import SiteKind
from fedconformal.laws import CoverageLaw
from fedconformal.planning._ballot import Ballot, Solution
from fedconformal.planning._choosing import choose_ranks, solve_votes, tolerates
from fedconformal.planning.criteria import Goal
from fedconformal.planning.promises._base import PROMISES, Promise


@PROMISES.register
class Population(Promise):
    """New points of the population that all sites' scores were drawn from.

    Examples
    --------
    >>> import fedconformal as fc
    >>> fc.plan(n_sites=10, n_points=100, promise="population").law.mean() >= 0.9
    True
    """

    name: ClassVar[str] = "population"
    default_criterion: ClassVar[str] = "stable"
    assumption: ClassVar[str] = "alike"
    condition: ClassVar[str] = "if the model errs equally at every site"
    serves: ClassVar[str] = "new cases, if the model errs equally at every site"
    law_note: ClassVar[str] = (
        "The distribution of the coverage shows how it varies from one calibration to the next if the model "
        "errs equally at every site. If sites differ, coverage at a single site can fall outside this range."
    )

    def choose(
        self, sites: tuple[SiteKind, ...], goal: Goal, numbers: int, share: Fraction | None
    ) -> Solution:
        """Search ranks and votes together."""
        return choose_ranks(sites, goal, numbers, share)

    def solve(self, planned: Solution, answered: Ballot, goal: Goal) -> Solution:
        """Return the best valid number of votes for the sites that answered."""
        return Solution(answered, *solve_votes(answered, goal, planned.rule), planned.rule)

    def tolerates(self, solution: Solution, goal: Goal, n_missing: int) -> bool:
        """Return whether the remaining sites have a valid number of votes."""
        return tolerates(solution.ballot, goal, n_missing)

    def law(self, solution: Solution, goal: Goal) -> CoverageLaw:
        """Return the distribution of the coverage, which follows from the votes below it."""
        return solution.ballot.law(solution.needed, goal.max_faulty)

    def options(self) -> str:
        """Nothing: it is the usual one."""
        return ""

    def assumed(self) -> str:
        """Scores are independent and identically distributed."""
        return (
            "Given the model, the calibration scores of all sites and the score of a new case are "
            "independent and identically distributed, and the model was not trained on the calibration data."
        )

    def assumed_in_groups(self) -> str:
        """Assume the same in each group."""
        return (
            "In each group individually, given the model and all labels, the calibration scores of all sites "
            "and the score of a new case are independent and identically distributed; groups may differ in "
            "any way, and sites in how many cases of each they have. The model was not trained on the "
            "calibration data."
        )

    def shortfall(self, where: str) -> str:
        """Name a site that differs, or a calibration that came out low."""
        return (
            f"cases {where} differ from those of other sites, or this calibration came out low for "
            "everybody: if all sites are alike,"
        )
