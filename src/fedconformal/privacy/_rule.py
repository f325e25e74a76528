"""What a coordinator asks for: a privacy loss, bins, a mechanism."""

from dataclasses import dataclass
from typing import Any, Literal

from fedconformal import _checks
from fedconformal.privacy._bins import Bins

SMALLEST_EPSILON = 1e-6
LARGEST_EPSILON = 100.0
"""Above this a release hides nothing, and the number is more likely a slip."""


@dataclass(frozen=True, kw_only=True)
class Privacy:
    """Local differential privacy for every site's report: neighbours replace one record.

    Parameters
    ----------
    epsilon : privacy loss of a site's whole answer, in (0.000001, 100]; several levels share it evenly.
    bins : where releases may fall; fixed before any calibration score is looked at.
    mechanism : ``"permute-and-flip"`` (default) or ``"exponential"``, the paper's Algorithm 2.
    analysis : ``"tight"`` (default): range-calibrated noise, and a law of the private threshold with no union
        bound. ``"paper"``: Algorithm 3 to the letter, for equal sites and the marginal criterion.
    one_hot : only the sum of all sites' one-hot vectors may be calibrated (secure aggregation).
    """

    epsilon: float
    bins: Bins
    mechanism: Literal["permute-and-flip", "exponential"] | None = None
    analysis: Literal["tight", "paper"] = "tight"
    one_hot: bool = False

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        _checks.fraction("epsilon", self.epsilon, low=SMALLEST_EPSILON, high=LARGEST_EPSILON, closed=True)
        if not isinstance(self.bins, Bins):
            raise TypeError(f"bins must be Bins, for example Bins.uniform(0, 5, 100), got {self.bins!r}")
        _checks.choice("analysis", self.analysis, ("tight", "paper"))
        if self.mechanism is not None:
            _checks.choice("mechanism", self.mechanism, ("permute-and-flip", "exponential"))
        if self.analysis == "paper" and self.mechanism == "permute-and-flip":
            raise ValueError('mechanism must be "exponential" with the paper\'s analysis')

    def fields(self) -> dict[str, Any]:
        """As a plan holds it."""
        default = "exponential" if self.analysis == "paper" else "permute-and-flip"
        return {
            "epsilon": float(self.epsilon),
            "mechanism": self.mechanism or default,
            "analysis": self.analysis,
            "edges": self.bins.edges,
            "bounded": self.bins.bounded,
            "one_hot": self.one_hot,
        }
