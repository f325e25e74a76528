"""Scores of losses: their miscoverage is a risk, so that whatever controls coverage
controls the risk.

A loss L(t) in [0, B] falls with the setting t. With U uniform, one for each case and
independent of everything, the score s is the smallest setting t with L(t) / B <= U.
Then s > t exactly when L(t) / B > U, so P(s > t) = E[L(t)] / B: the risk at a threshold
is the probability that the score of a new case exceeds it (theory, section 14).

Only scores are random. Sets draw nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._text import ceiling_percent
from fedconformal._util import (
    Bools,
    Floats,
    all_rows,
    float_array,
    number_array,
    plain_array,
)
from fedconformal.scores._base import (
    Draws,
    Score,
    as_draws,
    as_thresholds,
    wrong_columns,
)
from fedconformal.scores._label import BLOCK, MAX_EXCESS

_CLAIM = (
    "at least {{share}} of {}'s {} are found{{mean}} for {{whose}}. {} counts as found"
    " completely"
)


def from_losses(
    losses: ArrayLike,
    settings: ArrayLike,
    rng: Draws | None = None,
    *,
    bound: float = 1.0,
) -> Floats:
    """Return one score for each case, whose miscoverage at a setting is the risk at
    that setting.

    Calibrated like any scores, at a confidence level of 1 - risk / ``bound``, they give
    a threshold among the settings. The mean loss of new cases there is at most the
    risk, and ``law`` is the distribution of 1 minus that mean, divided by ``bound``, or
    a lower bound of it where the score has ties.

    Parameters
    ----------
    losses : array of shape (n, n_settings)
        Loss of each case at each setting, from 0 to ``bound``, never rising from one
        setting to the next, and 0 at the last: the threshold may be as large as that.
    settings : array of shape (n_settings,)
        The settings, rising; the last may be +inf.
    rng : numpy Generator, or array of shape (n,) with values in [0, 1), optional
        Source of one uniform number for each case; the system's generator if left out.
        Nobody may choose among several draws of the same cases.
    bound : float
        Largest loss.

    Returns
    -------
    array of shape (n,)

    Raises
    ------
    ValueError
        If a loss rises, is out of bounds, or is not 0 at the last setting, with the
        first such case.

    Examples
    --------
    >>> from_losses([[1.0, 0.5, 0.0], [0.25, 0.0, 0.0]], [1, 2, 3], rng=[0.6, 0.2])
    array([2., 2.])
    """
    values, grid = (
        float_array("losses", losses, ndim=2),
        float_array("settings", settings, ndim=1),
    )
    n, n_settings = values.shape
    if n_settings == 0 or grid.shape != (n_settings,):
        raise ValueError(
            f"settings must hold one number for each of the {n_settings} columns of"
            f" losses, got {grid.size}"
        )
    if np.isnan(grid).any() or grid[0] == -np.inf or not (np.diff(grid) > 0).all():
        raise ValueError(f"settings must rise, got {grid.tolist()}")
    if not 0 < bound < np.inf:
        raise ValueError(f"bound must be a finite number above 0, got {bound!r}")
    if isinstance(rng, int):
        raise TypeError(
            "rng must be a numpy Generator or one number in [0, 1) for each case, got"
            f" {rng}"
        )
    limits = bound * draw_uniform(rng, n)
    places, step = np.empty(n, dtype=np.intp), max(1, BLOCK // n_settings)
    for start in range(0, n, step):
        rows = slice(start, start + step)
        block = values[rows]
        flat = block.reshape(-1)
        falls = flat[1:] <= flat[:-1]
        falls[n_settings - 1 :: n_settings] = (
            True  # from the last setting of a case to the first of the next
        )
        if not (
            falls.all() and (block[:, 0] <= bound).all() and (block[:, -1] == 0).all()
        ):
            _refuse_losses(values, bound)
        places[rows] = (block > limits[rows, np.newaxis]).argmin(
            axis=1
        )  # the last loss is 0
    return grid[places]


def _refuse_losses(losses: Floats, bound: float) -> None:
    """Refuse losses, naming the first case that breaks the first rule that is
    broken.
    """
    all_rows(
        "losses",
        losses,
        (losses >= 0) & (losses <= bound),
        f"must lie between 0 and {bound:g}",
    )
    all_rows(
        "losses",
        losses,
        losses[:, 1:] <= losses[:, :-1],
        "must not rise from one setting to the next",
    )
    all_rows("losses", losses, losses[:, -1] == 0, "must be 0 at the last setting")


def draw_uniform(u: Draws | None, n: int) -> Floats:
    """Return one uniform number for each case, from the system's generator if no other
    is given.
    """
    drawn = as_draws(np.random.default_rng() if u is None else u, n=n, needed=True)
    assert drawn is not None
    return drawn


class LossScore(Score):
    """A score whose miscoverage is the mean share of a case's truth that its set
    misses.

    Its sets select what has a probability of at least 1 minus the threshold, so that
    +inf, and 1, select everything and miss nothing. A case without anything to miss has
    loss 0 and score 0.
    """

    largest: ClassVar[float] = 1.0
    item: ClassVar[str]
    """What a set selects: "label" or "pixel"."""

    @property
    def needs_draws(self) -> bool:
        """True: one uniform number for each case decides which share of its truth is to
        be found.
        """
        return True

    @property
    def has_random_sets(self) -> bool:
        """False: sets draw nothing."""
        return False

    @abstractmethod
    def improbable_truth(self, y: Any, prediction: Any) -> list[Floats]:
        """Return, for each case, 1 minus the probability of everything that is true."""

    def score(self, y: Any, prediction: Any, *, u: Draws | None = None) -> Floats:
        """Return the smallest threshold at which the share of its truth that a case
        misses is at most u.

        Parameters
        ----------
        y : array of the shape of ``prediction``, or list of n arrays
            1 or True for what is true of each case, 0 or False for all else.
        prediction : array of n rows, or list of n arrays
            Probabilities.
        u : array of shape (n,) with values in [0, 1), or numpy Generator, optional
            One uniform number for each case; the system's generator if left out.

        Returns
        -------
        array of shape (n,)
            0 for a case of which nothing is true.
        """
        cases = self.improbable_truth(y, prediction)
        sizes, draws = (
            np.array([len(case) for case in cases]),
            draw_uniform(u, len(cases)),
        )
        needed = np.ceil(sizes * (1.0 - draws)).astype(np.int_)
        pairs = zip(cases, needed, strict=True)
        return np.array(
            [np.partition(case, k - 1)[k - 1] if k else 0.0 for case, k in pairs],
            dtype=float,
        )

    def set(self, prediction: Any, threshold: ArrayLike) -> Any:
        """Return what has a probability of at least 1 - threshold.

        Parameters
        ----------
        prediction : array of n rows
            Probabilities.
        threshold : number or array of shape (n_levels,)
            1 and inf give everything.

        Returns
        -------
        bool array of the shape of ``prediction``, with a last axis (n_levels,) for an
        array of thresholds
        """
        levels, single = as_thresholds(threshold)
        chosen = (
            _improbability(self.prediction_from(prediction))[..., np.newaxis] <= levels
        )
        return chosen[..., 0] if single else chosen

    def losses(self, y: Any, prediction: Any, settings: ArrayLike) -> Floats:
        """Return the share of its truth that each case misses at each setting, shape
        (n, n_settings).
        """
        levels, _ = as_thresholds(settings)
        cases = [np.sort(case) for case in self.improbable_truth(y, prediction)]
        sizes = np.array([len(case) for case in cases])[:, np.newaxis]
        found = np.array(
            [np.searchsorted(case, levels, side="right") for case in cases]
        )
        return np.asarray(
            (sizes - found.reshape(len(cases), -1)) / np.maximum(sizes, 1)
        )

    def example(self, threshold: float, unit: str = "") -> str:
        """Return what is selected; see `Score.example`."""
        if not 0 <= threshold < 1:
            return (
                f"With this threshold {'no' if threshold < 0 else 'every'} {self.item}"
                " is selected."
            )
        least = ceiling_percent(1 - threshold)
        return (
            f"For example, a {self.item} with a predicted probability of {least} or"
            " more is selected."
        )

    def truth_from(self, values: ArrayLike, *, argument: str = "y") -> Bools:
        """Return an array of 0 and 1, one row for each case, others refused; see
        `Score.truth_from`.
        """
        return _as_mask(values, argument)

    def _truth_shape(self, prediction: NDArray[Any]) -> tuple[int, ...]:
        return prediction.shape

    def _can_be_truth(self, values: Floats) -> Bools:
        binary = ((values == 0) | (values == 1)).reshape(len(values), -1)
        return np.asarray(binary.all(axis=1))


@dataclass(frozen=True)
class MissedLabels(LossScore):
    """Share of a case's true labels that its set misses, for cases with any number of
    true labels.

    Each label has a probability of its own; those of a case need not sum to 1. The set
    holds the labels with a probability of at least 1 minus the threshold.

    Examples
    --------
    >>> probabilities = [[0.9, 0.6, 0.2], [0.5, 0.3, 0.1]]
    >>> MissedLabels().score([[1, 1, 0], [0, 0, 0]], probabilities, u=[0.25, 0.25])
    array([0.4, 0. ])
    >>> MissedLabels().set(probabilities, 0.5)
    array([[ True,  True, False],
           [ True, False, False]])
    """

    name: ClassVar[str] = "missed-labels"
    claim: ClassVar[str] = _CLAIM.format(
        "a case", "true labels", "A case without true labels"
    )
    item: ClassVar[str] = "label"

    def improbable_truth(self, y: ArrayLike, prediction: ArrayLike) -> list[Floats]:
        """Return how improbable the true labels of each case are."""
        improbable, truth = (
            _improbability(self.prediction_from(prediction)),
            _as_mask(y, "y"),
        )
        if truth.shape != improbable.shape:
            raise ValueError(
                f"y must have shape {improbable.shape} to match prediction, got"
                f" {truth.shape}"
            )
        return [row[mask] for row, mask in zip(improbable, truth, strict=True)]

    def column_help(self) -> str:
        """Return which prediction columns it needs, in words; see
        `Score.column_help`.
        """
        return "one column per label: its probability"

    def prediction_from(
        self, table: ArrayLike, names: Sequence[str] | None = None
    ) -> Floats:
        """Return a table's columns as ``score`` and ``set`` take them; see
        `Score.prediction_from`.
        """
        probabilities = float_array("prediction", table, ndim=2)
        if probabilities.shape[1] == 0:
            raise wrong_columns(self, probabilities, names)
        return probabilities

    def set_words(self) -> str:
        """Return how a prediction and the threshold q make a set, as a sentence for
        everybody.
        """
        return (
            "The set holds every label whose predicted probability is at least 1 − q."
        )


@dataclass(frozen=True)
class MissedPixels(LossScore):
    """Share of an image's true pixels that its mask misses (segmentation).

    The mask selects the pixels with a probability of at least 1 minus the threshold.
    Images are arrays of any shape: (height, width), volumes, or (classes, height,
    width), each pixel with a probability of its own.

    Examples
    --------
    >>> truth, probabilities = np.array([[[1, 1], [0, 1]]]), np.array(
    ...     [[[0.9, 0.6], [0.2, 0.3]]]
    ... )
    >>> MissedPixels().score(truth, probabilities, u=[0.5])
    array([0.4])
    >>> MissedPixels().set(probabilities, 0.5)
    array([[[ True,  True],
            [False, False]]])
    """

    name: ClassVar[str] = "missed-pixels"
    takes_images: ClassVar[bool] = True
    claim: ClassVar[str] = _CLAIM.format(
        "an image", "true pixels", "An image without true pixels"
    )
    item: ClassVar[str] = "pixel"

    def set(self, prediction: Any, threshold: ArrayLike) -> Any:
        """Return which pixels have a probability of at least 1 - threshold.

        Parameters
        ----------
        prediction : array of shape (n, height, width) or list of n arrays
            Probability of each pixel.
        threshold : number or array of shape (n_levels,)
            1 and inf give all pixels.

        Returns
        -------
        bool array of shape (n, height, width), with an array of thresholds (n,
            height, width, n_levels)
            A list of such arrays, one for each image, if a list was given.
        """
        if isinstance(prediction, list | tuple):
            return [
                self.set(image[np.newaxis], threshold)[0]
                for image in _as_images(prediction)
            ]
        return super().set(prediction, threshold)

    def sets(
        self, prediction: Any, thresholds: ArrayLike, *, u: Draws | None = None
    ) -> Any:
        """Return the masks of images that may have different thresholds; see
        `Score.sets`.
        """
        if not isinstance(prediction, list | tuple):
            return super().sets(prediction, thresholds, u=u)
        levels = number_array("thresholds", thresholds)
        images = _as_images(prediction)
        rows = [levels] * len(images) if levels.ndim == 1 else levels
        pairs = zip(images, rows, strict=True)
        return [
            np.asarray(super(MissedPixels, self).sets(i[np.newaxis], t))[0]
            for i, t in pairs
        ]

    def improbable_truth(self, y: Any, prediction: Any) -> list[Floats]:
        """Return how improbable the true pixels of each image are."""
        truths, images = _as_images(y, "y"), _as_images(prediction)
        if len(truths) != len(images):
            raise ValueError(
                f"y must hold {len(images)} images to match prediction, got"
                f" {len(truths)}"
            )
        pixels = []
        for i, (truth, image) in enumerate(zip(truths, images, strict=True)):
            if truth.shape != image.shape:
                raise ValueError(
                    f"y must have the shape of prediction, {image.shape}, in image {i},"
                    f" got {truth.shape}"
                )
            pixels.append(_improbability(image, i)[_as_mask(truth, "y", i)])
        return pixels

    def column_help(self) -> str:
        """Return which predictions it needs, in words; see `Score.column_help`."""
        return "an array of images with the probability of each pixel, from a file .npz"

    def prediction_from(
        self, table: ArrayLike, names: Sequence[str] | None = None
    ) -> Floats:
        """Return an array of images as ``score`` and ``set`` take it; see
        `Score.prediction_from`.
        """
        images = number_array("prediction", table).astype(np.float64, copy=False)
        if images.ndim < 3 and names is not None:
            raise wrong_columns(self, np.atleast_2d(images), names)
        _as_images(images)
        return images

    def set_words(self) -> str:
        """Return how a prediction and the threshold q make a set, as a sentence for
        everybody.
        """
        return (
            "The mask selects every pixel whose predicted probability is at least 1"
            " − q."
        )


# -- steps that labels and pixels share ------------------------------------------------


def _as_images(values: Any, name: str = "prediction") -> list[NDArray[Any]]:
    listed = (
        values
        if isinstance(values, list | tuple)
        else np.atleast_1d(plain_array(values))
    )
    images = [plain_array(image) for image in listed]
    if flat := [image.shape for image in images if image.ndim < 2]:
        raise ValueError(
            f"{name} must be an array (n, height, width) or a list of images, got"
            f" {flat[0]}"
        )
    return images


def _as_mask(y: ArrayLike, name: str, image: int | None = None) -> Bools:
    values = number_array(name, y)
    _check(name, values, (values == 0) | (values == 1), "must hold 0 or 1", image)
    return values.astype(np.bool_, copy=False)


def _improbability(prediction: ArrayLike, image: int | None = None) -> Floats:
    """Return 1 - p, computed alike for scores and sets."""
    values = number_array("prediction", prediction).astype(np.float64, copy=False)
    inside = (values >= 0) & (values <= 1 + MAX_EXCESS)
    _check("prediction", values, inside, "must hold probabilities, from 0 to 1", image)
    return 1.0 - values


def _check(
    name: str, values: NDArray[Any], good: Bools, rule: str, image: int | None
) -> None:
    if image is None:
        all_rows(name, values, good, rule)
    elif not good.all():
        raise ValueError(
            f"{name} {rule}; violated in image {image}, got {values[~good][0].tolist()}"
        )
