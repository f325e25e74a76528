"""One minus the probability of the label."""

from dataclasses import dataclass
from typing import ClassVar

from numpy.typing import ArrayLike

from fedconformal._text import ceiling_percent
from fedconformal._typing import Bools, Floats
from fedconformal.scores._label import LabelScore


@dataclass(frozen=True)
class LAC(LabelScore):
    """One minus the probability of the label (least ambiguous set-valued classifier).

    Examples
    --------
    >>> LAC().score([0, 1], [[0.75, 0.25], [0.5, 0.5]])
    array([0.25, 0.5 ])
    >>> LAC().set([[0.75, 0.25], [0.5, 0.5]], 0.5)
    array([[ True, False],
           [ True,  True]])
    """

    name: ClassVar[str] = "lac"
    largest: ClassVar[float] = 1.0

    def score(self, y: ArrayLike, prediction: ArrayLike) -> Floats:
        """Return 1 - p_y.

        Parameters
        ----------
        y : array of shape (n,)
            Class indices.
        prediction : array of shape (n, n_classes)
            Class probabilities.

        Returns
        -------
        array of shape (n,)
        """
        return self.scores_of(_complements, y, prediction)

    def set(self, prediction: ArrayLike, threshold: ArrayLike) -> Bools:
        """Return which labels have 1 - p <= threshold.

        Parameters
        ----------
        prediction : array of shape (n, n_classes)
            Class probabilities.
        threshold : number or array of shape (n_levels,)
            inf gives all labels, -inf none.

        Returns
        -------
        bool array of shape (n, n_classes), or (n, n_classes, n_levels) for an array of thresholds
            A row without a true entry is an empty set.
        """
        return self.labels_of(_complements, prediction, threshold)

    def set_words(self) -> str:
        """Return how a prediction and the threshold q make a set, as a sentence for everybody."""
        return "The set holds every label whose predicted probability is at least 1 − q."

    def example(self, threshold: float, unit: str = "") -> str:
        """Return which labels stay; see `Score.example`."""
        if not 0 <= threshold < 1:
            return f"With this threshold every set holds {'no label' if threshold < 0 else 'all labels'}."
        least = ceiling_percent(1 - threshold)
        return f"For example, a label with a predicted probability of {least} or more is in the set."


def _complements(probabilities: Floats, _: Floats | None) -> Floats:
    return 1.0 - probabilities
