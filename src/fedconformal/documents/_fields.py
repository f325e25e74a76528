"""Fields of documents: limits on their size, exact numbers, names of sites that look
different, and labels.

The limits keep what follows from a document, such as the distribution of the coverage,
as affordable as reading it.
"""

import math
import re
import unicodedata
from calendar import monthrange
from collections.abc import Collection, Iterable, Sequence
from datetime import date
from fractions import Fraction
from functools import lru_cache
from numbers import Integral
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import (
    AfterValidator,
    BeforeValidator,
    FailFast,
    Field,
    PlainSerializer,
    PlainValidator,
    StringConstraints,
    ValidationInfo,
    WithJsonSchema,
)

from fedconformal._text import one_line, quoted, warn
from fedconformal._util import plain_array
from fedconformal.documents._lookalikes import LOOKALIKES

LARGEST_N = 2**30  # scores of a site
LARGEST_ADVICE = 2**40  # number in an advice
MOST_SITES = (
    10**7
)  # sites of a plan; they may have names as far as these fit into the document
MOST_LEVELS = 100  # confidence levels of a plan
MOST_NUMBERS = 20  # scores that a site sends for one level
MOST_GROUPS = 1000  # groups of cases in a plan
MOST_CLASSES = 10_000  # classes that a plan names
MOST_EDGES = 10_000  # edges of a grid
MOST_MASKED = 2**22  # characters of masked numbers
MOST_BEARERS = 100  # sites that add the noise of a masked sum
MOST_PARTS = 10**6  # parts of the largest loss, in which sums of losses are counted
MOST_STARTS = 100  # edges from which tests of answers begin
# cells times groups, and times levels where levels differ: the work of a site
MOST_CELLS = 100_000
MOST_LEVELS_OF_GROUPS = 2_000  # levels times groups of a plan
MOST_NAMED = 100_000  # names of sites in one list
MOST_COMPARED = (
    4 * 10**6
)  # characters of all names beyond ASCII in the form in which they are compared
MOST_DIGITS = 400  # digits of the common denominator of all shares
MOST_REFUSALS = 1_000  # refusals that a calibration lists; the others are counted
MOST_SENT = (
    500  # numbers that a plan may ask a site for, over all levels, in each group
)
MOST_VOTES = 2**20  # votes of one number
LARGEST_UNIT = 10**40  # votes of a whole mixture
MOST_COLUMNS = 5  # columns by whose values a check is split
MOST_CHECKED = 100  # combinations of values in a check
MOST_FIELDS = 100  # fields of an object in a document
LONGEST_REASON = 400  # characters of the source of a refusal, or of its reason
# Range of a privacy loss: below it noise drowns any data, above it nothing is hidden.
SMALLEST_EPSILON, LARGEST_EPSILON = 1e-6, 100.0

SiteCount = Annotated[int, Field(ge=0, le=MOST_SITES)]
Size = Annotated[int, Field(ge=1, le=LARGEST_N)]
Rank = Annotated[int, Field(ge=1, le=LARGEST_N + 1)]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,59}$")]
Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]


class _FirstWrong(FailFast):
    __hash__ = object.__hash__  # so that it may stand in a union


T = TypeVar("T")
Many = Annotated[tuple[T, ...], _FirstWrong()]
"""A list that is refused at its first wrong entry."""


# -- numbers ---------------------------------------------------------------------------


def _read_extended(value: Any) -> float:
    if isinstance(value, str) and value == "Infinity":
        return math.inf
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    try:
        number = float(value) + 0.0 if is_number else math.nan  # there is one zero
    except OverflowError:
        raise ValueError("must be a number that fits into a float64") from None
    if math.isnan(number) or number == -math.inf:
        raise ValueError('must be a finite number or the word "Infinity"')
    return number


Extended = Annotated[
    float,
    Field(allow_inf_nan=True),
    BeforeValidator(_read_extended),
    PlainSerializer(
        lambda value: "Infinity" if value == math.inf else value, when_used="json"
    ),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"const": "Infinity"}]}),
]
"""A float64 that may be +inf, which JSON spells as the word "Infinity"; never NaN,
never -inf.
"""

_RATIO = r"^(0|[1-9][0-9]{0,39})(\.[0-9]{1,320}|/[1-9][0-9]{0,39})?$"


_DECIMALS = {digits: 10**digits for digits in (18, 320)}


def ratio_text(value: Fraction) -> str:
    """Write an exact number: as a decimal where it has one, else as numerator and
    denominator.

    Parameters
    ----------
    value : Fraction
        A number of at least 0.

    Returns
    -------
    str
        The one way in which documents write it.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedconformal.documents import ratio_text
    >>> ratio_text(Fraction(9, 10)), ratio_text(Fraction(1, 3))
    ('0.9', '1/3')
    """
    for digits, scale in _DECIMALS.items():
        if scale % value.denominator == 0:
            whole, part = divmod(value.numerator * (scale // value.denominator), scale)
            return f"{whole}.{part:0{digits}}".rstrip("0").removesuffix(".")
    return f"{value.numerator}/{value.denominator}"


def _read_ratio(value: Any) -> Fraction:
    if not isinstance(value, Fraction) and not (
        isinstance(value, str) and re.fullmatch(_RATIO, value)
    ):
        raise ValueError('must be an exact number such as "0.9" or "1/3"')
    exact = Fraction(value)
    text = ratio_text(abs(exact))
    if exact < 0 or (isinstance(value, str) and text != value):
        raise ValueError(f"must be at least 0, written as {text!r}")
    if not re.fullmatch(_RATIO, text):
        raise ValueError(
            "must have at most 40 digits above and below the line, or 320 decimals"
        )
    return exact


Ratio = Annotated[
    Fraction,
    PlainValidator(_read_ratio),
    PlainSerializer(ratio_text, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": _RATIO}),
]
"""An exact number, which JSON writes as a decimal or a fraction in text."""


def _share(value: Fraction) -> Fraction:
    if not 0 < value < 1:
        raise ValueError("must lie between 0 and 1")
    return value


Share = Annotated[Ratio, AfterValidator(_share)]
"""An exact number strictly between 0 and 1."""


def check_epsilon(epsilon: Fraction | None) -> None:
    """Refuse a privacy loss that is out of range."""
    if epsilon is not None and not SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
        raise ValueError(
            f"epsilon must be between {SMALLEST_EPSILON:g} and {LARGEST_EPSILON:g}"
        )


# -- periods of time -------------------------------------------------------------------

_PERIOD = r"^[0-9]{4}-[0-9]{2}(-[0-9]{2}/[0-9]{4}-[0-9]{2}-[0-9]{2})?$"


@lru_cache(maxsize=4096)  # the same few for all sites
def read_period(text: str) -> tuple[date, date]:
    """Return the first and the last day of a period.

    Parameters
    ----------
    text : str
        Two days, ``2027-03-01/2027-03-31``, or a month, ``2027-03``.

    Returns
    -------
    tuple of two dates

    Raises
    ------
    ValueError
        If it is neither, or the last day comes before the first.

    Examples
    --------
    >>> from fedconformal.documents import read_period
    >>> read_period("2027-02")
    (datetime.date(2027, 2, 1), datetime.date(2027, 2, 28))
    """
    try:
        if not re.fullmatch(_PERIOD, text):
            raise ValueError
        if len(text) == 7:
            first = date.fromisoformat(f"{text}-01")
            return first, first.replace(day=monthrange(first.year, first.month)[1])
        first, last = map(date.fromisoformat, text.split("/"))
    except ValueError:
        raise ValueError(
            f"period must be FIRST-DAY/LAST-DAY or a month, 2027-03, got {text!r:.60}"
        ) from None
    if last < first:
        raise ValueError(f"period must not end before it begins, got {text!r}")
    return first, last


def period_text(first: date, last: date) -> str:
    """Write a period: a month where it is one, else its first and last day.

    Parameters
    ----------
    first, last : date
        Its days.

    Returns
    -------
    str
        The one way in which documents write it.

    Examples
    --------
    >>> from fedconformal.documents import period_text, read_period
    >>> period_text(*read_period("2027-03-01/2027-03-31"))
    '2027-03'
    """
    month = first.isoformat()[:7]
    return month if read_period(month) == (first, last) else f"{first}/{last}"


Period = Annotated[
    str,
    AfterValidator(lambda text: period_text(*read_period(text))),
    WithJsonSchema({"type": "string", "pattern": _PERIOD}),
]
"""A month, or a first and a last day, as `period_text` writes it."""


# -- names of sites: one form for each, and none that looks like another ---------------

_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Characters that count as printable and show nothing: fillers, joiners and selectors
of variants.
"""

_LOOKS = {
    ord(character): target
    for target, characters in LOOKALIKES.items()
    for character in characters
}
"""Characters, and those that they look like."""


def proper_form(name: str) -> str:
    """Return a name in the form that documents hold: composed (NFC), visible, without
    spaces around it.

    Empty if nothing of it can be seen.
    """
    if name.isprintable() and (
        name.isascii()
        or (not _INVISIBLE.search(name) and unicodedata.is_normalized("NFC", name))
    ):
        return name.strip()
    shown = _INVISIBLE.sub("", "".join(c for c in name if c.isprintable()))
    return unicodedata.normalize("NFC", shown).strip()


def check_site_name(name: Any) -> str:
    """Refuse an invalid name of a site.

    Parameters
    ----------
    name : object
        The candidate.

    Returns
    -------
    str
        The name.

    Raises
    ------
    ValueError
        In one line.

    Examples
    --------
    >>> from fedconformal.documents import check_site_name
    >>> check_site_name("St. Mary's")
    "St. Mary's"
    """
    form = proper_form(name)[:200] if isinstance(name, str) else ""
    if not form or name != form:
        raise ValueError(
            "a site's name must be visible, of 1 to 200 characters in one line,"
            f" composed (NFC), without spaces around it, got {one_line(repr(name), 60)}"
            + (f": use {form!r}" if form else "")
        )
    return str(name)


SiteName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=200),
    AfterValidator(check_site_name),
]
"""Name of a site: visible, on one line, in Unicode's composed form, without spaces
around it.
"""


def look(name: str) -> str:
    """Return a form to compare, which is equal for names that a reader may take for
    each other.

    Width, spacing and the alphabet of letters that look alike do not count.
    """
    if not name.isascii():
        decomposed = unicodedata.normalize("NFKD", name.translate(_LOOKS))
        name = unicodedata.normalize("NFC", decomposed.translate(_LOOKS))
    return " ".join(name.split())


def check_looks(
    names: Iterable[str], what: str = "sites", *, with_case: bool = False
) -> None:
    """Refuse different names that a reader may take for each other.

    Parameters
    ----------
    names : iterable of str
        The names.
    what : str
        What they are the names of, in the plural.
    with_case : bool
        Whether names that differ in case alone are different.
    """
    seen: dict[str, str] = {}
    compared = 0
    for name in names:
        forms = {look(name)}  # which may be 18 times as long
        if not with_case:
            plain = unicodedata.normalize("NFKC", name)
            forms = {form.casefold() for form in (*forms, " ".join(plain.split()))}
        if not name.isascii():
            compared += max(map(len, forms))
        if compared > MOST_COMPARED:
            raise ValueError(
                f"the names of all {what} must have at most {MOST_COMPARED:,}"
                " characters"
            )
        for form in forms:
            other = seen.setdefault(form, name)
            if other != name:
                raise ValueError(
                    f"the {what} {other!r} and {name!r} look alike: give one of them"
                    " another name"
                )


# -- text that somebody else wrote -----------------------------------------------------


def _clean_sentence(value: Any, info: ValidationInfo) -> Any:
    """Make a sentence printable and short where it is written; where it is read it must
    be so.
    """
    return (
        one_line(value, LONGEST_REASON)
        if info.mode == "python" and isinstance(value, str)
        else value
    )


def printable(text: str) -> str:
    """Refuse what cannot be shown on one line."""
    if not text.isprintable():
        raise ValueError("must be printable, on one line")
    return text


Sentence = Annotated[
    str,
    StringConstraints(max_length=LONGEST_REASON),
    BeforeValidator(_clean_sentence),
    AfterValidator(printable),
]
"""A sentence about what somebody else sent: printable, on one line, and not long."""


# -- labels of cases, as people hold them: text or whole numbers -----------------------


def _check_label(label: str) -> str:
    if not label.isprintable() or label != label.strip():
        raise ValueError(
            "a label must be printable, on one line, without spaces around it"
        )
    return label


Label = Annotated[
    str, StringConstraints(min_length=1, max_length=200), AfterValidator(_check_label)
]
"""Name of a group of cases: printable, on one line, without spaces around it."""


def check_labels(labels: Sequence[str | None]) -> None:
    """Refuse labels that occur twice or out of order; a single part may do without."""
    if list(labels) == [None]:
        return
    if None in labels or list(labels) != sorted(
        {label for label in labels if label is not None}
    ):
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
        raise ValueError(
            f"labels must be a flat array, one for each point, got shape {values.shape}"
        )
    if values.dtype.kind not in "iuU":
        values = np.array(
            [label_text(value) for value in values.tolist()], dtype=object
        )
    names, which = np.unique(values, return_inverse=True)
    return [label_text(name) for name in names.tolist()], which.reshape(values.shape)


def warn_of_unknown(
    names: Sequence[str], which: NDArray[np.intp], known: Collection[str]
) -> None:
    """Warn of points whose label is not among those known."""
    unknown = [i for i, name in enumerate(names) if name not in known]
    if unknown:
        count = int(np.isin(which, unknown).sum())
        warn(
            f"{count} of {which.size} points are in groups that the plan does not have "
            f"({quoted([names[i] for i in unknown])}): their threshold is infinite",
            UnknownGroupWarning,
        )
