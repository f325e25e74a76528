"""Coverage given the data at least the level with probability 1 - delta."""

import math
from decimal import Decimal
from typing import ClassVar

import numpy as np
from scipy import special

from fedconformal import _text
from fedconformal._typing import Bools, Floats
from fedconformal.planning.criteria._base import CRITERIA, Criterion, ExactLaw, Glance, Outcomes, Wanted

_NEAR = 1.02  # excess up to this multiple of the lowest is given up for bearing a silent site
_RIVAL = 1.015  # of many sites, a promised spread this much larger does not win
_CDF_ERROR = 1e-9  # of P(C <= level), relative to delta


@CRITERIA.register
class Conditional(Criterion):
    """P(C >= level) at least 1 - delta, C the coverage given the data; then the smallest mean coverage.

    Examples
    --------
    >>> import fedconformal as fc
    >>> law = fc.plan(n_sites=10, n_points=100, criterion="conditional", delta=0.1).law
    >>> bool(law.sf(0.9) >= 0.9)
    True
    """

    name: ClassVar[str] = "conditional"
    takes_delta: ClassVar[bool] = True

    def margin(self, law: Outcomes, goal: Wanted) -> Floats:
        """Delta minus the probability that the coverage is not above the level."""
        return float(goal.delta) - law.cdf(float(goal.level))

    def margin_error(self, goal: Wanted) -> float:
        """Relative to delta."""
        return _CDF_ERROR * float(goal.delta)

    def settles(self, law: ExactLaw, goal: Wanted) -> bool:
        """Compare the probability with delta in whole numbers."""
        missed = law.cdf(goal.level)
        return missed is not None and missed <= goal.delta

    def own_rank(self, n: int, goal: Wanted) -> int:
        """Smallest l with P(Bin(n, level) >= l) <= delta: so often rank l covers less than the level."""
        low, high = 0, n + 1  # missed(low) > delta >= missed(high)
        while high - low > 1:
            middle = (low + high) // 2
            missed = special.betainc(middle, n - middle + 1, float(goal.level))
            low, high = (low, middle) if missed <= float(goal.delta) else (middle, high)
        return high

    def rivals(self, costs: Floats, lowest: float, goal: Wanted) -> Bools:
        """Those within a few per cent above the level."""
        return np.asarray(costs - float(goal.level) <= _RIVAL * (lowest - float(goal.level)))

    def near(self, lowest: float, goal: Wanted) -> float:
        """Two per cent more above the level."""
        return float(goal.level) + _NEAR * max(0.0, lowest - float(goal.level))

    def rarity(self, goal: Wanted) -> float:
        """Delta."""
        return float(goal.delta)

    def first_guess(self, glance: Glance, goal: Wanted) -> Floats:
        """The rank of the mean and a little too many standard deviations; the search walks back."""
        z = math.sqrt(2 * math.log(1 / float(goal.delta)))
        return np.asarray(glance.rank + 0.8 * z * glance.count_std)

    def enough(self, glance: Glance, goal: Wanted) -> Floats:
        """The votes that are reached at the level with probability delta, if they were normal."""
        return np.asarray(glance.rank - 0.5 + self._deviations(goal) * glance.count_std)

    def glance_cost(self, glance: Glance, excess: Floats, error: Floats, goal: Wanted) -> Floats:
        """The level and as many standard deviations as it takes."""
        return float(goal.level) + self._deviations(goal) * np.asarray(glance.std)

    def second_glance(self, glance: Glance, goal: Wanted) -> float | None:
        """Where the mean coverage will be about."""
        return min(float(goal.level) + self._deviations(goal) * float(np.min(glance.std)), 1 - 1e-9)

    def second_cost(self, votes: Floats, second: Glance, at: float, goal: Wanted) -> Floats:
        """The mean coverage."""
        return np.asarray(at + (votes - second.rank) * second.step)

    def _deviations(self, goal: Wanted) -> float:
        return -float(special.ndtri(float(goal.delta)))

    def options(self, delta: float | None) -> str:
        """The criterion and its delta."""
        return f"{self.name}, delta {delta:g}"

    def surety(self, delta: float | None) -> str:
        """With some certainty."""
        return f"with {_text.percent(float(1 - Decimal(str(delta))))} certainty"

    def runs_over(self) -> str:
        """Calibrations."""
        return "The certainty is over the luck of which calibration cases the sites happened to have."

    def formula(self, delta: float | None, where: str = "") -> str:
        """A probability that C reaches the level."""
        return f"P(C ≥ level{where}) ≥ 1 − {delta:g}"
