"""Coverage given the data at least the level with probability 1 - delta."""

from decimal import Decimal
from typing import ClassVar

from scipy import special

from fedconformal import _text
from fedconformal._typing import Floats
from fedconformal.planning.criteria._base import CRITERIA, Criterion, ExactLaw, Outcomes, Wanted

_NEAR = 1.02  # excess up to this multiple of the lowest is given up for bearing a silent site
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

    def near(self, lowest: float, goal: Wanted) -> float:
        """Two per cent more above the level."""
        return float(goal.level) + _NEAR * max(0.0, lowest - float(goal.level))

    def options(self, delta: float | None) -> str:
        """The criterion and its delta."""
        return f"{self.name}, delta {delta:g}"

    def surety(self, delta: float | None) -> str:
        """With some certainty."""
        return f"with {_text.percent(float(1 - Decimal(str(delta))))} certainty"

    def runs_over(self) -> str:
        """Calibrations."""
        return "The certainty is over the luck of which calibration cases the sites happened to have."
