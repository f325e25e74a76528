"""Privacy that a coordinator asks for."""

from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction

from fedconformal._util import choice, fraction
from fedconformal.documents import LARGEST_EPSILON, SMALLEST_EPSILON
from fedconformal.privacy._bins import Bins

_ANALYSES = {"curve": "curve", "paper": "bin"}


@dataclass(frozen=True)
class Privacy:
    """Local differential privacy of every site's report: neighbours replace one record.

    Parameters
    ----------
    epsilon : float
        Privacy loss of a site's answer for one group of cases, from 0.000001 to 100; it serves all levels.
    bins : Bins, optional
        Public grid on which scores are counted, fixed before any calibration score is looked at. It may be
        left out where the score is bounded.
    analysis : {"curve", "paper"}
        ``"curve"``: sites send noisy counts of their scores in the bins. ``"paper"``: Algorithms 2 and 3 of
        the paper, for equal sites and the marginal criterion; levels share epsilon evenly.
    gamma : float, optional
        For the paper's analysis, the share of the error probability that is spent on the noise; searched if
        left out.

    Raises
    ------
    TypeError
        If ``bins`` is not a Bins, or ``epsilon`` not a number.
    ValueError
        If a number or a name is not one of those allowed.

    Examples
    --------
    >>> from fedconformal.privacy import Bins, Privacy
    >>> Privacy(epsilon=1.0, bins=Bins.uniform(0, 5, 100)).exact_epsilon
    Fraction(1, 1)
    """

    epsilon: float
    bins: Bins | None = None
    _: KW_ONLY
    analysis: str = "curve"
    gamma: float | None = field(default=None)

    def __post_init__(self) -> None:
        """Refuse invalid values."""
        if isinstance(self.epsilon, Bins):
            raise TypeError("epsilon comes first, then the bins, as in Privacy(1.0, Bins.uniform(0, 5, 100))")
        low = SMALLEST_EPSILON
        fraction("epsilon", self.epsilon, low=low / 2, high=LARGEST_EPSILON, closed=True)
        if self.epsilon < low:
            raise ValueError(
                f"epsilon must be a number in [{low:g}, {LARGEST_EPSILON:g}], got {self.epsilon}"
            )
        if self.bins is not None and not isinstance(self.bins, Bins):
            raise TypeError(f"bins must be Bins, for example Bins.uniform(0, 5, 100), got {self.bins!r}")
        choice("analysis", self.analysis, _ANALYSES)
        if self.gamma is not None:
            fraction("gamma", self.gamma)
            if self.message == _ANALYSES["curve"]:
                raise ValueError(f"gamma is a parameter of analysis 'paper', got {self.gamma}")

    @property
    def message(self) -> str:
        """Name of the message that sites send."""
        return _ANALYSES[self.analysis]

    @property
    def default_criterion(self) -> str | None:
        """Criterion that is meant where none is chosen; None for the promise's own."""
        return None if self.message == _ANALYSES["curve"] else "marginal"

    @property
    def exact_epsilon(self) -> Fraction:
        """The privacy loss as the decimal that was written."""
        return fraction("epsilon", self.epsilon, high=LARGEST_EPSILON, closed=True)
