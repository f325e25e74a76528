"""Labels of points as people hold them: text or whole numbers."""

from collections.abc import Collection, Sequence
from numbers import Integral
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import AfterValidator, StringConstraints

from fedconformal._text import quoted
from fedconformal._validation import plain_array
from fedconformal._warnings import warn


def _one_line(label: str) -> str:
    if not label.isprintable() or label != label.strip():
        raise ValueError("a label must be printable, on one line, without spaces around it")
    return label


Label = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_one_line)]
"""What a group of points is called: printable, on one line, without spaces around it."""


def check_labels(labels: Sequence[str | None]) -> None:
    """One order for the same content, no label twice; a single part may do without."""
    if list(labels) == [None]:
        return
    if None in labels or list(labels) != sorted({label for label in labels if label is not None}):
        raise ValueError("the labels must be different, in alphabetical order")


class UnknownGroupWarning(UserWarning):
    """Points of groups that were not calibrated: their threshold is infinite."""


def label_text(label: Any) -> str:
    """A label as documents hold it; the class number 3 is the label "3".

    Parameters
    ----------
    label : str or int
        As people hold it.

    Returns
    -------
    str
        Text.

    Examples
    --------
    >>> from fedconformal.documents import label_text
    >>> label_text(3), label_text("child")
    ('3', 'child')
    """
    if isinstance(label, str):
        return str(label)
    if isinstance(label, bool) or not isinstance(label, Integral):
        raise TypeError(f"a label must be text or a whole number, got {label!r}")
    return str(int(label))


def unique_labels(labels: ArrayLike) -> tuple[list[str], NDArray[np.intp]]:
    """The different labels, and for each point which of them it has.

    Parameters
    ----------
    labels : array-like
        The label of each point, text or whole numbers.

    Returns
    -------
    names : list of str
        The different labels.
    which : array of int
        For each point the place of its label among them.

    Examples
    --------
    >>> from fedconformal.documents import unique_labels
    >>> names, which = unique_labels(["b", "a", "b"])
    >>> names, which.tolist()
    (['a', 'b'], [1, 0, 1])
    """
    # Text of numpy's own loses zero bytes at its end, so lists are taken as they are.
    values = plain_array(labels, dtype=None if hasattr(labels, "dtype") else object)
    if values.ndim != 1:
        raise ValueError(f"labels must be a flat array, one for each point, got shape {values.shape}")
    if values.dtype.kind not in "iuU":
        values = np.array([label_text(value) for value in values.tolist()], dtype=object)
    names, which = np.unique(values, return_inverse=True)
    return [label_text(name) for name in names.tolist()], which.reshape(values.shape)


def warn_of_unknown(names: Sequence[str], which: NDArray[np.intp], known: Collection[str]) -> None:
    """Warn of points whose label is not among those known."""
    strange = [i for i, name in enumerate(names) if name not in known]
    if strange:
        count = int(np.isin(which, strange).sum())
        warn(
            f"{count} of {which.size} points are in groups that the plan does not have "
            f"({quoted([names[i] for i in strange])}): their threshold is infinite",
            UnknownGroupWarning,
        )
