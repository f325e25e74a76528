"""Numbers in cells of text: with a point or with a comma, and never with thousands separators."""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from fedconformal._extras import need

_SIGN = "[+\u2212-]?"  # some programs write the minus of typographers
_POINT = rf"^\s*{_SIGN}(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*$"
_COMMA = _POINT.replace(r"\.", ",")
_POINT_THOUSANDS = rf"^\s*{_SIGN}[1-9][0-9]{{0,2}}\.[0-9]{{3}}\s*$"
_COMMA_THOUSANDS = _POINT_THOUSANDS.replace(r"\.", ",")
_GROUPED = re.compile(r"[0-9][.,'\u2019\s][0-9]{3}(?![0-9])")


class Doubt(NamedTuple):
    """A cell that may be a thousand or one and a bit, and where it stands."""

    cell: str
    column: str
    row: int


def decimal_of(columns: Iterable[Any], *, separator: str | None) -> str | Doubt:
    """Find out whether numbers have a decimal point or a decimal comma.

    Parameters
    ----------
    columns : iterable of polars Series
        Of text.
    separator : str or None
        What stands between columns: where it is a comma, points do not separate thousands.

    Returns
    -------
    str or Doubt
        "." or ","; a cell that leaves it open where no other one settles it.
    """
    texts = list(columns)
    commas = _first(texts, _COMMA) is not None
    if commas and _first(texts, _COMMA, unless=_COMMA_THOUSANDS) is not None:
        return "," if _first(texts, _POINT, unless=_POINT_THOUSANDS) is None else "."
    if _first(texts, _POINT, unless=_POINT_THOUSANDS) is not None:
        return "."
    if commas or separator != ",":
        doubt = _first(texts, _COMMA_THOUSANDS if commas else _POINT_THOUSANDS)
        if doubt is not None:
            return doubt
    return "."


def _first(texts: Iterable[Any], pattern: str, *, unless: str | None = None) -> Doubt | None:
    for series in texts:
        found = series.str.contains(pattern).fill_null(False)
        if unless is not None:
            found = found & ~series.str.contains(unless).fill_null(False)
        if found.any():
            row = int(found.arg_max())
            return Doubt(str(series[row]).strip(), series.name, row)
    return None


def as_floats(series: Any, decimal: str) -> Any:
    """A column of text as numbers, null where there is none."""
    polars = need("polars", extra="cli")
    texts = series.str.strip_chars().str.replace("\u2212", "-", literal=True)
    if decimal == ",":
        plain = ~texts.str.contains(".", literal=True).fill_null(False)
        texts = texts.str.replace(",", ".", literal=True).set(~plain, None)
    return texts.cast(polars.Float64, strict=False)


def hint(cell: str, decimal: str, *, said: bool) -> str:
    """What may be wrong with a cell that holds no number: the end of a message.

    Parameters
    ----------
    cell : str
        What it holds.
    decimal : str
        The decimal sign.
    said : bool
        Whether somebody said that this is the sign, rather than the file.

    Returns
    -------
    str
    """
    if _GROUPED.search(cell):
        return ": thousands are written without a separator, as 1200"
    if not re.match(_COMMA if decimal == "." else _POINT, cell):
        return ""
    other, signs = (",", "points") if decimal == "." else (".", "commas")
    return f": say --decimal {other}, or nothing" if said else f": other numbers have decimal {signs}"
