"""What a coordinator asks for: a privacy loss, bins, a mechanism, an analysis."""

from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any

from fedconformal._validation import fraction, integer
from fedconformal.privacy._bins import Bins
from fedconformal.privacy._loss import LARGEST_EPSILON, SMALLEST_EPSILON
from fedconformal.privacy._release import PrivateRelease
from fedconformal.privacy.analyses import ANALYSES, Analysis
from fedconformal.privacy.mechanisms import MECHANISMS, Mechanism


@dataclass(frozen=True)
class Privacy:
    """Local differential privacy for every site's report: neighbours replace one record.

    Parameters
    ----------
    epsilon : float
        Privacy loss of a site's whole answer, in (0.000001, 100]; several levels share it evenly.
    bins : Bins
        Where releases may fall; fixed before any calibration score is looked at.
    mechanism : str or None
        ``"permute-and-flip"``, ``"exponential"`` (the paper's Algorithm 2) or one that was registered. None
        (default) is permute-and-flip, or what the analysis asks for.
    analysis : str
        ``"tight"`` (default): errors with free slopes, no more noise than it takes, and a law of the private
        threshold with no union bound. ``"paper"``: Algorithms 2 and 3 to the letter, for equal sites and the
        marginal criterion. Or one that
        was registered.
    one_hot : bool
        Whether only the sum of all sites' one-hot vectors may be calibrated (secure aggregation).

    Raises
    ------
    TypeError
        If ``bins`` is not a Bins, or ``epsilon`` not a number.
    ValueError
        If a number or a name is not one of those allowed, or the mechanism does not suit the analysis.

    Examples
    --------
    >>> from fedconformal.privacy import Bins, Privacy
    >>> Privacy(epsilon=1.0, bins=Bins.uniform(0, 5, 100)).release(n_levels=2).epsilon
    Fraction(1, 2)
    """

    epsilon: float
    bins: Bins
    _: KW_ONLY
    mechanism: str | None = None
    analysis: str = "tight"
    one_hot: bool = False

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        if isinstance(self.epsilon, Bins):
            raise TypeError("epsilon comes first, then the bins, as in Privacy(1.0, Bins.uniform(0, 5, 100))")
        fraction("epsilon", self.epsilon, low=SMALLEST_EPSILON, high=LARGEST_EPSILON, closed=True)
        if not isinstance(self.bins, Bins):
            raise TypeError(f"bins must be Bins, for example Bins.uniform(0, 5, 100), got {self.bins!r}")
        analysis = self._analysis()
        analysis.check(mechanism=self._mechanism(analysis))

    def release(self, n_levels: int = 1) -> PrivateRelease:
        """What each site does for each of some levels; its aim is still to be found.

        Parameters
        ----------
        n_levels : int
            How many levels share epsilon.

        Returns
        -------
        PrivateRelease
            The release of one level.
        """
        analysis = self._analysis()
        return PrivateRelease(
            epsilon=Fraction(str(float(self.epsilon))) / integer("n_levels", n_levels, low=1),
            n_bins=self.bins.n_bins,
            mechanism=self._mechanism(analysis),
            analysis=analysis,
        )

    def fields(self) -> dict[str, Any]:
        """Everything by name, as a plan holds it.

        Returns
        -------
        dict
            ``epsilon``, ``mechanism``, ``analysis``, ``edges``, ``bounded`` and ``one_hot``.
        """
        return {
            "epsilon": float(self.epsilon),
            "mechanism": self._mechanism(self._analysis()).name,
            "analysis": self.analysis,
            "edges": self.bins.edges,
            "bounded": self.bins.bounded,
            "one_hot": self.one_hot,
        }

    def _analysis(self) -> Analysis:
        return ANALYSES[self.analysis]()

    def _mechanism(self, analysis: Analysis) -> Mechanism:
        return MECHANISMS[analysis.default_mechanism if self.mechanism is None else self.mechanism]()
