"""Names of sites, one form for each and none that looks like another; and labels of points."""

import unicodedata
from collections.abc import Collection, Iterable, Sequence
from numbers import Integral
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import AfterValidator, StringConstraints

from fedconformal._text import quoted, warn
from fedconformal._util import plain_array

_INVISIBLE = frozenset(
    map(chr, (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, *range(0x180B, 0x1810)))
) | frozenset(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
"""Characters that count as printable and show nothing: fillers, joiners and selectors of variants."""

_LOOKS = str.maketrans(
    "АВЕЅІЈКМНОРСТХУҮԌԜасеоріјѕхуһкԁԛԝӏΑΒΕΖΗΙΚΜΝΟΡΤΥΧανορικυı",
    "ABESIJKMHOPCTXYYGWaceopijsxyhkdqwlABEZHIKMNOPTYXavopikui",
)
"""Cyrillic and Greek letters, and the Latin ones that they look like; not every pair that there is."""


def proper_form(name: str) -> str:
    """Return a name in the form that documents hold: composed (NFC), visible, without spaces around it.

    Parameters
    ----------
    name : str
        As somebody wrote it.

    Returns
    -------
    str
        Empty if nothing of it can be seen.
    """
    if name.isascii() and name.isprintable():
        return name.strip()
    shown = "".join(c for c in name if c.isprintable() and c not in _INVISIBLE)
    return unicodedata.normalize("NFC", shown).strip()


def look(name: str) -> str:
    """Return a form that is equal for names that a reader may take for each other.

    Case, width, spacing and the alphabet of letters that look Latin do not count.

    Parameters
    ----------
    name : str
        In its proper form.

    Returns
    -------
    str
        To be compared, not shown.
    """
    if not name.isascii():
        name = unicodedata.normalize("NFKC", name).translate(_LOOKS)
    return " ".join(name.casefold().split())


def check_looks(names: Iterable[str]) -> None:
    """Refuse names that a reader may take for each other.

    Parameters
    ----------
    names : iterable of str
        Different names.

    Raises
    ------
    ValueError
        With the first two.
    """
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(look(name), name)
        if other != name:
            raise ValueError(f"the sites {other!r} and {name!r} look alike: give one of them another name")


# -- labels of points, as people hold them: text or whole numbers -------------------------------------------


def _one_line(label: str) -> str:
    if not label.isprintable() or label != label.strip():
        raise ValueError("a label must be printable, on one line, without spaces around it")
    return label


Label = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_one_line)]
"""Name of a group of points: printable, on one line, without spaces around it."""


def check_labels(labels: Sequence[str | None]) -> None:
    """One order for the same content, no label twice; a single part may do without."""
    if list(labels) == [None]:
        return
    if None in labels or list(labels) != sorted({label for label in labels if label is not None}):
        raise ValueError("the labels must be different, in alphabetical order")


class UnknownGroupWarning(UserWarning):
    """Points of groups that were not calibrated: their threshold is infinite."""


def label_text(label: Any) -> str:
    """Return a label as documents hold it; the class number 3 is the label "3".

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
    """Return the different labels, and for each point which of them it has.

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
    unknown = [i for i, name in enumerate(names) if name not in known]
    if unknown:
        count = int(np.isin(which, unknown).sum())
        warn(
            f"{count} of {which.size} points are in groups that the plan does not have "
            f"({quoted([names[i] for i in unknown])}): their threshold is infinite",
            UnknownGroupWarning,
        )
