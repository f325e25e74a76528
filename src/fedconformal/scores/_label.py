"""Scores of labels: from the probability of the label, or summed from the most probable
label down.

Labels are class indices, 0 to n_classes - 1, and predictions are probabilities, (n,
n_classes). The scores here compute the score of every label by the same operations in
the same order, for ``score`` and for ``set``, and read off the labels they need, so a
label is in the set if and only if its score is at most the threshold, bit for bit. No
label is ever added to an empty set.
"""

from __future__ import annotations

import numbers
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._text import ceiling_percent, percent
from fedconformal._util import Bools, Floats, Ints, all_rows, float_array, number_array
from fedconformal.scores._base import (
    Draws,
    Score,
    as_draws,
    as_thresholds,
    check_length,
    wrong_columns,
)

MAX_EXCESS = 1e-6
"""Largest excess of a single probability over 1."""
MAX_SUM_ERROR = 1e-3
"""Largest distance of the sum of a row from 1."""
# Numbers handled at a time: their temporaries stay in the processor's cache.
BLOCK = 2**17
# Above it floats skip whole numbers.
_LARGEST_WHOLE = 2**53
# Of an example.
_PROBABILITIES = (0.6, 0.25, 0.1, 0.05)
_FIRST = (
    "no label",
    "the first of them",
    "the first two",
    "the first three",
    "all of them",
)


def as_probabilities(prediction: ArrayLike) -> Floats:
    """Return floats of shape (n, n_classes); `are_probabilities` looks at their
    values.
    """
    matrix = float_array("prediction", prediction, ndim=2)
    if matrix.shape[1] == 0:
        raise ValueError(
            f"prediction must have shape (n, n_classes), got {matrix.shape}: no class"
        )
    return matrix


def are_probabilities(block: Floats) -> bool:
    """Return whether all rows hold probabilities that sum to 1."""
    # Each comparison is false for nan. Sums of einsum do not depend on other rows, as
    # those of a product do.
    if not block.min() >= 0:
        return False
    sums = np.einsum("ij->i", block)
    high = sums.max()
    is_sum = sums.min() >= 1 - MAX_SUM_ERROR and high <= 1 + MAX_SUM_ERROR
    # No probability exceeds its row's sum, so most often there is no need to look for
    # the largest.
    return bool(is_sum and (high <= 1 + MAX_EXCESS or block.max() <= 1 + MAX_EXCESS))


def refuse_probabilities(prediction: Floats) -> None:
    """Refuse predictions that are no probabilities, naming the rows."""
    all_rows("prediction", prediction, np.isfinite(prediction), "must be finite")
    inside = (prediction >= 0) & (prediction <= 1 + MAX_EXCESS)
    all_rows("prediction", prediction, inside, "must hold probabilities, from 0 to 1")
    sums = np.einsum("ij->i", prediction)
    rule = f"must hold probabilities that sum to 1 within {MAX_SUM_ERROR} in each row"
    # The same comparisons as above, lest a row be good alone and bad beside a bad one.
    all_rows(
        "prediction",
        sums,
        (sums >= 1 - MAX_SUM_ERROR) & (sums <= 1 + MAX_SUM_ERROR),
        rule,
    )


class LabelScore(Score):
    """A score of outcomes that are classes; its sets are sets of labels.

    A subclass is a frozen dataclass with a ``name``, ``score`` and ``set``.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Odds(LabelScore):
    ...     '''The odds against a label.'''
    ...
    ...     name = "odds"
    ...
    ...     def score(self, y, prediction):
    ...         p = np.asarray(prediction)[np.arange(len(y)), y]
    ...         return (1 - p) / p
    ...
    ...     def set(self, prediction, threshold):
    ...         odds = (1 - np.asarray(prediction)) / prediction
    ...         return (
    ...             odds <= threshold
    ...             if np.ndim(threshold) == 0
    ...             else odds[:, :, np.newaxis] <= threshold
    ...         )
    >>> Odds().score([0, 1], [[0.5, 0.5], [0.75, 0.25]])
    array([1., 3.])
    >>> Odds().set([[0.5, 0.5], [0.75, 0.25]], 1.0)
    array([[ True,  True],
           [ True, False]])
    """

    @abstractmethod
    def set(self, prediction: ArrayLike, threshold: ArrayLike) -> Bools:
        """Return the labels of each row that score at most the threshold.

        Parameters
        ----------
        prediction : array of shape (n, n_classes)
            Class probabilities.
        threshold : number or array of shape (n_levels,)
            inf gives all labels.

        Returns
        -------
        bool array of shape (n, n_classes), or with an array of thresholds (n,
            n_classes, n_levels)
            A row without a true entry is an empty set.
        """

    def sets_by_class(
        self, prediction: ArrayLike, thresholds: ArrayLike, *, u: Draws | None = None
    ) -> Bools:
        """Return the label sets where each class has its own threshold: {y : score(y)
        <= threshold of y}.

        Parameters
        ----------
        prediction : array of shape (n, n_classes)
            Class probabilities.
        thresholds : array of shape (n_classes, n_levels)
            The thresholds of each class.
        u : array of shape (n,) with values in [0, 1), or numpy Generator
            To be given if and only if the score is randomized; the same for all classes
            and thresholds.

        Returns
        -------
        bool array of shape (n, n_classes, n_levels)

        Examples
        --------
        >>> from fedconformal.scores import LAC
        >>> LAC().sets_by_class([[0.75, 0.25], [0.5, 0.5]], [[0.3], [0.8]])[:, :, 0]
        array([[ True,  True],
               [False,  True]])
        """
        probabilities = as_probabilities(prediction)
        levels = number_array("thresholds", thresholds)
        n, n_classes = probabilities.shape
        if levels.ndim != 2 or len(levels) != n_classes:
            raise ValueError(
                f"thresholds must have shape ({n_classes}, n_levels), got"
                f" {levels.shape}"
            )
        random = self._draws_of(as_draws(u, n=n, needed=self.has_random_sets))
        different, which = np.unique(levels, axis=0, return_inverse=True)
        sets = np.empty((n, n_classes, levels.shape[1]), dtype=np.bool_)
        for i, threshold in enumerate(different):
            classes = np.flatnonzero(which.reshape(-1) == i)
            sets[:, classes] = self.set(probabilities, threshold, **random)[:, classes]
        return sets

    def column_help(self) -> str:
        """Return which prediction columns it needs, in words; see
        `Score.column_help`.
        """
        return (
            "one column per class: its probability, in the order of the class numbers"
            " 0, 1, ..."
        )

    def prediction_from(
        self, table: ArrayLike, names: Sequence[str] | None = None
    ) -> Floats:
        """Return a table's columns as ``score`` and ``set`` take them; see
        `Score.prediction_from`.
        """
        probabilities = float_array("table", table, ndim=2)
        if probabilities.shape[1] < 2:
            raise wrong_columns(self, probabilities, names)
        return probabilities

    def truth_from(self, values: ArrayLike, *, argument: str = "y") -> Ints:
        """Return a column of numbers as class numbers, others refused; see
        `Score.truth_from`.
        """
        labels = float_array(argument, values, ndim=1)
        all_rows(
            argument,
            labels,
            self._can_be_truth(labels),
            "must hold class numbers 0, 1, ...",
        )
        return labels.astype(np.int64)

    def set_words(self) -> str:
        """Return how a prediction and the threshold q make a set, as a sentence for
        everybody.
        """
        return "The set holds every label whose score is at most q."

    def with_draws(self) -> LabelScore:
        """Return the score as it is where sets may be random; by default the same.

        Returns
        -------
        LabelScore
        """
        return self

    def largest_among(self, n_classes: int) -> float | None:
        """Return what no score can exceed with this many classes; None if there is no
        such number.

        Parameters
        ----------
        n_classes : int
            Number of classes.

        Returns
        -------
        float or None
        """
        return self.largest

    def caution(self, n_classes: int) -> str:
        """Return a warning about the use of this score for this many classes; empty if
        there is none.

        Parameters
        ----------
        n_classes : int
            Number of classes.

        Returns
        -------
        str
        """
        return ""

    def _can_be_truth(self, values: Floats) -> Bools:
        whole: Bools = (
            (values >= 0) & (values <= _LARGEST_WHOLE) & (values == np.floor(values))
        )
        return whole


class ProbabilityScore(LabelScore):
    """A score that is computed for all labels of a row at once, from their
    probabilities.
    """

    @abstractmethod
    def label_scores(self, probabilities: Floats, u: Floats | None) -> Floats:
        """Return the scores of all labels of some rows, from their probabilities and
        uniform draws.
        """

    def score(
        self, y: ArrayLike, prediction: ArrayLike, *, u: Draws | None = None
    ) -> Floats:
        """Return the score of the label of each row.

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
        probabilities, labels = as_probabilities(prediction), number_array("y", y)
        n, n_classes = probabilities.shape
        check_length("y", labels, n=n)
        if labels.dtype.kind == "f":
            all_rows("y", labels, ~np.isnan(labels), "must not be nan")
        allowed = (labels >= 0) & (labels < n_classes) & (labels == np.floor(labels))
        all_rows(
            "y", labels, allowed, f"must be class indices from 0 to {n_classes - 1}"
        )
        columns, out = labels.astype(np.intp)[:, np.newaxis], np.empty(n)
        for rows, scores in self._score_blocks(probabilities, u):
            out[rows] = np.take_along_axis(scores, columns[rows], axis=1)[:, 0]
        return out

    def set(
        self, prediction: ArrayLike, threshold: ArrayLike, *, u: Draws | None = None
    ) -> Bools:
        """Return which labels score at most the threshold.

        Parameters
        ----------
        prediction : array of shape (n, n_classes)
            Class probabilities.
        threshold : number or array of shape (n_levels,)
            inf gives all labels, -inf none.
        u : array of shape (n,) with values in [0, 1), or numpy Generator
            To be given if and only if the score is randomized; the same for all
            thresholds.

        Returns
        -------
        bool array of shape (n, n_classes), or with an array of thresholds (n,
            n_classes, n_levels)
            A row without a true entry is an empty set.
        """
        probabilities = as_probabilities(prediction)
        levels, single = as_thresholds(threshold)
        out = np.empty((*probabilities.shape, len(levels)), dtype=np.bool_)
        for rows, scores in self._score_blocks(probabilities, u):
            for j, level in enumerate(levels):
                np.less_equal(scores, level, out=out[rows, :, j])
        return out[:, :, 0] if single else out

    def _score_blocks(
        self, probabilities: Floats, u: Draws | None
    ) -> Iterator[tuple[slice, Floats]]:
        """Yield blocks of rows with the scores of all their labels, the probabilities
        checked.
        """
        n, n_classes = probabilities.shape
        draws = as_draws(u, n=n, needed=self.needs_draws)
        step = max(1, BLOCK // n_classes)
        for start in range(0, n, step):
            rows = slice(start, start + step)
            if not are_probabilities(probabilities[rows]):
                refuse_probabilities(probabilities)
            yield (
                rows,
                self.label_scores(
                    probabilities[rows], None if draws is None else draws[rows]
                ),
            )


@dataclass(frozen=True)
class LAC(ProbabilityScore):
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

    def label_scores(self, probabilities: Floats, u: Floats | None) -> Floats:
        """Return 1 - p; see `ProbabilityScore.label_scores`."""
        return 1.0 - probabilities

    def set_words(self) -> str:
        """Return how a prediction and the threshold q make a set, as a sentence for
        everybody.
        """
        return (
            "The set holds every label whose predicted probability is at least 1 − q."
        )

    def example(self, threshold: float, unit: str = "") -> str:
        """Return which labels stay; see `Score.example`."""
        if not 0 <= threshold < 1:
            return (
                "With this threshold every set holds"
                f" {'no label' if threshold < 0 else 'all labels'}."
            )
        least = ceiling_percent(1 - threshold)
        return (
            f"For example, a label with a predicted probability of {least} or more is"
            " in the set."
        )


class SummedScore(ProbabilityScore):
    """Probabilities summed from the most probable label down, and a cost for each
    rank.
    """

    randomized: bool

    def __post_init__(self) -> None:
        """Refuse a ``randomized`` that is no boolean."""
        if not isinstance(self.randomized, bool):
            raise ValueError(
                f"randomized must be True or False, got {self.randomized!r}"
            )

    def with_draws(self) -> LabelScore:
        """Return the randomized score; see `LabelScore.with_draws`."""
        return replace(self, randomized=True)  # type: ignore[call-arg]

    @property
    def needs_draws(self) -> bool:
        """True if the score is randomized."""
        return self.randomized

    def costs(self, n_classes: int) -> Floats:
        """Return the cost of each rank, the most probable label first; none by
        default.
        """
        return np.zeros(n_classes)

    def label_scores(self, probabilities: Floats, u: Floats | None) -> Floats:
        """Return the sums, less u times the label's own probability, plus the costs."""
        # A stable sort, so that equal probabilities rank by class index at every site.
        order = np.argsort(-probabilities, axis=1, kind="stable")
        ranked = np.take_along_axis(probabilities, order, axis=1)
        totals = np.cumsum(ranked, axis=1)
        if u is not None:
            totals -= u[:, np.newaxis] * ranked
        totals += self.costs(probabilities.shape[1])
        scores = np.empty_like(totals)
        np.put_along_axis(scores, order, totals, axis=1)
        return scores

    def admits_all(self, threshold: float, n_classes: int) -> bool:
        """Return whether every set holds every label: from the largest possible sum
        on.
        """
        return bool(threshold >= 1 - MAX_SUM_ERROR + self.costs(n_classes)[-1])

    def largest_among(self, n_classes: int) -> float:
        """Return the largest possible sum, with the cost of the last rank."""
        return float(1 + 2 * MAX_SUM_ERROR + self.costs(n_classes)[-1])

    def caution(self, n_classes: int) -> str:
        """Return a warning where there are two classes; see `LabelScore.caution`."""
        if n_classes != 2 or self.randomized:
            return ""
        return (
            f"Score {self.name} with two classes: the less probable label always has"
            " the largest score, so a threshold admits both labels for every case or"
            " never more than one. Use lac, or randomized=true (on the command line"
            f" {self.name}:randomized=true)."
        )

    def example(self, threshold: float, unit: str = "") -> str:
        """Return which of four labels a set holds, unless it is drawn at random; see
        `Score.example`.
        """
        if self.randomized:
            return ""
        scores = self.label_scores(np.array([_PROBABILITIES]), None)
        held = _FIRST[int(np.sum(scores <= threshold))]
        listed = (
            f"{', '.join(percent(p) for p in _PROBABILITIES[:-1])} and"
            f" {percent(_PROBABILITIES[-1])}"
        )
        return (
            f"For example, of four labels with predicted probabilities of {listed} the"
            f" set holds {held}."
        )


@dataclass(frozen=True)
class APS(SummedScore):
    """The total probability of the labels at least as probable as y (adaptive
    prediction sets).

    Labels are ranked by decreasing probability, among equals by increasing index, and
    the score is the sum of the probabilities up to and including y.

    Parameters
    ----------
    randomized : bool
        Subtract u * p_y, with u uniform on [0, 1), one number per row. Then ``score``
        and ``set`` both ask for u. The coverage is then not conservative, and sets may
        be empty.

    Examples
    --------
    >>> APS().score([2], [[0.5, 0.25, 0.25]])
    array([1.])
    >>> APS().set([[0.5, 0.25, 0.25]], 0.75)
    array([[ True,  True, False]])
    """

    name: ClassVar[str] = "aps"
    # Rows are accepted whose sum is MAX_SUM_ERROR above 1; as much again is more than
    # sums can be rounded.
    largest: ClassVar[float] = 1 + 2 * MAX_SUM_ERROR

    randomized: bool = False

    def set_words(self) -> str:
        """Return how a prediction and the threshold q make a set, as a sentence for
        everybody.
        """
        return (
            "The set holds the labels, from the most probable down, whose summed"
            " probability is at most q."
        )


@dataclass(frozen=True)
class RAPS(SummedScore):
    """The APS score plus a penalty on low ranks (regularized adaptive prediction sets).

    A label of rank r, the most probable having rank 1, scores penalty * max(0, r -
    k_reg) more than under `APS`.

    Parameters
    ----------
    penalty : float
        Cost of each rank beyond k_reg (lambda in the literature), at least 0.
    k_reg : int
        Number of ranks that cost nothing, at least 0.
    randomized : bool
        As in `APS`.

    Examples
    --------
    >>> RAPS(penalty=0.5, k_reg=1).score([2], [[0.5, 0.25, 0.25]])
    array([2.])
    """

    name: ClassVar[str] = "raps"

    penalty: float = 0.01
    k_reg: int = 5
    randomized: bool = False

    def __post_init__(self) -> None:
        """Refuse parameters out of range; hold them as Python numbers, as documents
        do.
        """
        super().__post_init__()
        kinds: list[tuple[str, Any, Any, str]] = [
            ("penalty", numbers.Real, float, "a finite number >= 0"),
            ("k_reg", numbers.Integral, int, "an integer >= 0"),
        ]
        for name, kind, plain, allowed in kinds:
            value = getattr(self, name)
            if (
                not isinstance(value, kind)
                or isinstance(value, bool)
                or not 0 <= value < inf
            ):
                raise ValueError(f"{name} must be {allowed}, got {value!r}")
            object.__setattr__(self, name, plain(value))

    def costs(self, n_classes: int) -> Floats:
        """Return the penalties; see `SummedScore.costs`."""
        return self.penalty * np.maximum(0, np.arange(1, n_classes + 1) - self.k_reg)

    def set_words(self) -> str:
        """Return how a prediction and the threshold q make a set, as a sentence for
        everybody.
        """
        return (
            "The set holds the labels, from the most probable down, whose summed"
            " probability, with a penalty for long sets, is at most q."
        )
