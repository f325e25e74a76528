"""The paper's criterion: the smallest mean coverage that is at least the level."""

from typing import ClassVar

from fedconformal._typing import Floats
from fedconformal._validation import rank_of
from fedconformal.laws import MEAN_ERROR, CoverageLaw
from fedconformal.planning.criteria._base import CRITERIA, Criterion, ExactLaw, Outcomes, Wanted


@CRITERIA.register
class Marginal(Criterion):
    """Mean coverage at least the level, and as close to it as any ranks get (paper, section 3.2).

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

    def margin(self, law: Outcomes, goal: Wanted) -> Floats:
        """Mean coverage minus the level."""
        return law.moments[0] - float(goal.level)

    def settles(self, law: ExactLaw, goal: Wanted) -> bool:
        """Compare the mean with the level in whole numbers."""
        mean = law.mean()
        return mean is not None and mean >= goal.level

    def follows_from(self, law: CoverageLaw, level: float, delta: float | None) -> bool:
        """Whether the mean of the law is at least the level."""
        return law.mean() >= level - MEAN_ERROR

    def own_rank(self, n: int, goal: Wanted) -> int:
        """Rank l has the mean coverage l / (n + 1)."""
        return min(rank_of(goal.level, n), n + 1)

    def surety(self, delta: float | None) -> str:
        """On average."""
        return "on average"

    def runs_over(self) -> str:
        """New cases and calibrations."""
        return (
            "The average is over new cases and over the luck of which calibration cases the sites happened "
            "to have; a single calibration may give somewhat more or less."
        )
