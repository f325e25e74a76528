"""Mean coverage at least the level, and the coverage given the data as close to the level as can be."""

from typing import ClassVar

import numpy as np

from fedconformal._typing import Floats
from fedconformal.planning.criteria._base import CRITERIA, Glance, Wanted
from fedconformal.planning.criteria._marginal import Marginal

_TIE = 1e-9  # relative difference of squared errors that counts as none


@CRITERIA.register
class Stable(Marginal):
    """The promise of `Marginal`, kept with the smallest mean squared distance of C from the level.

    At 10 sites of 100 points and a level of 0.9 the paper's ranks have a coverage with standard deviation
    .0192; these have .0120, at the price of .002 more coverage.
    """

    name: ClassVar[str] = "stable"
    trades_up: ClassVar[bool] = True

    def cost(self, mean: float, variance: float, goal: Wanted) -> float:
        """E[(C - level)^2]."""
        return variance + (mean - float(goal.level)) ** 2

    def tie(self, lowest: float) -> float:
        """A relative difference, as a squared error has no natural unit."""
        return _TIE * lowest

    def glance_cost(self, glance: Glance, excess: Floats, error: Floats, goal: Wanted) -> Floats:
        """Squared spread and squared excess."""
        return np.asarray(glance.std**2 * np.maximum(0.0, 1 - 2 * error) + excess**2)

    def formula(self, delta: float | None, where: str = "") -> str:
        """The mean of C, and its spread."""
        return f"{super().formula(delta, where)}, with E[(C − level)²] as small as can be"
