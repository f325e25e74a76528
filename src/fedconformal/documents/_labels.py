"""Labels of points as people hold them: text or whole numbers."""

import warnings
from collections.abc import Collection, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


class UnknownGroupWarning(UserWarning):
    """Points of groups that were not calibrated: their threshold is infinite."""


def label_text(label: Any) -> str:
    """A label as documents hold it; the class number 3 is the label "3"."""
    if isinstance(label, str):
        return str(label)
    if isinstance(label, bool) or not isinstance(label, Integral):
        raise TypeError(f"a label must be text or a whole number, got {label!r}")
    return str(int(label))


def unique_labels(labels: ArrayLike) -> tuple[list[str], NDArray[np.intp]]:
    """The different labels, and for each point which of them it has."""
    # Text of numpy's own loses zero bytes at its end, so lists are taken as they are.
    values = labels if isinstance(labels, np.ndarray) else np.asarray(labels, dtype=object)
    if values.ndim != 1:
        raise ValueError(f"labels must be a flat array, one for each point, got shape {values.shape}")
    if values.dtype.kind not in "iuU":
        values = np.array([label_text(value) for value in values.tolist()], dtype=object)
    names, which = np.unique(values, return_inverse=True)
    return [label_text(name) for name in names.tolist()], which.reshape(values.shape)


def tell_unknown(names: Sequence[str], which: NDArray[np.intp], known: Collection[str]) -> None:
    """Warn of points whose label is not among those known."""
    strange = [i for i, name in enumerate(names) if name not in known]
    if strange:
        count = int(np.isin(which, strange).sum())
        warnings.warn(
            f"{count} of {which.size} points are in groups that the plan does not have "
            f"({listed([names[i] for i in strange])}): their threshold is infinite",
            UnknownGroupWarning,
            stacklevel=3,
        )


def listed(labels: Sequence[str]) -> str:
    """A few labels for a message, each short and on one line."""
    shown = [repr(label if len(label) <= 40 else label[:37] + "...") for label in labels[:5]]
    return ", ".join(shown) + (", ..." if len(labels) > 5 else "")
