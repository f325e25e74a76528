"""Adaptive prediction sets."""

from dataclasses import dataclass
from typing import ClassVar

from numpy.typing import ArrayLike

from fedconformal._typing import Bools, Floats
from fedconformal.scores._arrays import Draws
from fedconformal.scores._blocks import MAX_SUM_ERROR
from fedconformal.scores._cumulated import caution, check_randomized, cumulated, example
from fedconformal.scores._label import LabelScore


@dataclass(frozen=True)
class APS(LabelScore):
    """The total probability of the labels at least as probable as y (adaptive prediction sets).

    Labels are ranked by decreasing probability, among equals by increasing index, and the score is the sum of
    the probabilities up to and including y.

    Parameters
    ----------
    randomized : bool
        Subtract u * p_y, with u uniform on [0, 1), one number per row. Then ``score`` and ``set`` both ask
        for u. The coverage is then not conservative, and sets may be empty.

    Examples
    --------
    >>> APS().score([2], [[0.5, 0.25, 0.25]])
    array([1.])
    >>> APS().set([[0.5, 0.25, 0.25]], 0.75)
    array([[ True,  True, False]])
    """

    name: ClassVar[str] = "aps"
    # Rows are accepted whose sum is MAX_SUM_ERROR above 1; as much again is more than sums can be rounded.
    largest: ClassVar[float] = 1 + 2 * MAX_SUM_ERROR

    randomized: bool = False

    def __post_init__(self) -> None:
        """Refuse a ``randomized`` that is no boolean."""
        check_randomized(self.randomized)

    @property
    def needs_draws(self) -> bool:
        """Whether the score is randomized."""
        return self.randomized

    def score(self, y: ArrayLike, prediction: ArrayLike, *, u: Draws | None = None) -> Floats:
        """Return the cumulated probability of each label.

        Parameters
        ----------
        y : array of shape (n,)
            Class indices.
        prediction : array of shape (n, n_classes)
            Class probabilities.
        u : array of shape (n,) with values in [0, 1), or numpy Generator
            To be given if and only if the score is randomized.

        Returns
        -------
        array of shape (n,)
        """
        return self.scores_of(cumulated, y, prediction, u=u)

    def set(self, prediction: ArrayLike, threshold: ArrayLike, *, u: Draws | None = None) -> Bools:
        """Return which labels score at most the threshold.

        Parameters
        ----------
        prediction : array of shape (n, n_classes)
            Class probabilities.
        threshold : number or array of shape (n_levels,)
            inf gives all labels, -inf none.
        u : array of shape (n,) with values in [0, 1), or numpy Generator
            To be given if and only if the score is randomized; the same for all thresholds.

        Returns
        -------
        bool array of shape (n, n_classes), or (n, n_classes, n_levels) for an array of thresholds
            A row without a true entry is an empty set.
        """
        return self.labels_of(cumulated, prediction, threshold, u=u)

    def admits_all(self, threshold: float, n_classes: int) -> bool:
        """Return whether every set holds every label: from the largest possible sum on."""
        return threshold >= 1 - MAX_SUM_ERROR

    def caution(self, n_classes: int) -> str:
        """Return a warning where there are two classes; see `LabelScore.caution`."""
        return caution(self.name, n_classes, randomized=self.randomized)

    def set_words(self) -> str:
        """Return how a prediction and the threshold q make a set, as a sentence for everybody."""
        return "The set holds the labels, from the most probable down, whose summed probability is at most q."

    def example(self, threshold: float, unit: str = "") -> str:
        """Return which labels stay; see `Score.example`."""
        return "" if self.randomized else example(cumulated, threshold)
