"""Numbers and lists in words, never stronger than they are: lower bounds are rounded
down; and warnings.
"""

import math
import sys
import warnings
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from pathlib import Path

_PACKAGE = str(Path(__file__).parent)
_SPACE = "\N{NO-BREAK SPACE}"

USUAL_CLAIM = "the truth lies inside the prediction set for at least {share} of {whose}"
"""What a score promises to some new cases at a level, as the end of a sentence."""


def percent(value: float) -> str:
    """Write a chosen number as it was given: 0.9 is "90 %"."""
    text = f"{Decimal(str(value)) * 100:f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}{_SPACE}%"


def floor_percent(value: float, *, digits: int = 1) -> str:
    """Write a lower bound, rounded down: 0.87269 is "87.2 %"."""
    return _percent(value, digits, ROUND_FLOOR)


def ceiling_percent(value: float, *, digits: int = 1) -> str:
    """Write an upper bound, rounded up."""
    return _percent(value, digits, ROUND_CEILING)


def nearest_percent(value: float, *, digits: int = 1) -> str:
    """Write a figure that is not a bound, rounded."""
    return _percent(value, digits, ROUND_HALF_EVEN)


def _percent(value: float, digits: int, rounding: str) -> str:
    # Fifteen digits are what a probability is good for: 0.29 * 100 must not become
    # 28.9.
    exact = Decimal(f"{value:.15g}") * 100
    return f"{exact.quantize(Decimal(1).scaleb(-digits), rounding=rounding)}{_SPACE}%"


def plain_spaces(text: str) -> str:
    """Write the same for a terminal, without no-break spaces, which hinder a search."""
    return text.replace(_SPACE, " ")


def visible(text: str, *, keep: str = _SPACE) -> str:
    """Text that somebody else may have written, with every control character spelled
    out.

    So no name, label, file name or reason moves a cursor, changes a colour or turns the
    direction of a line.

    Parameters
    ----------
    text : str
        Whatever it is.
    keep : str
        Characters that stay as they are although they do not print, such as the end of
        a line.

    Returns
    -------
    str
        Printable, but for what is kept.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode()
        for c in text
    )


def one_line(text: str, longest: int) -> str:
    """Text that somebody else may have written, on one line of printable characters,
    cut if it is long.
    """
    line = visible(" ".join(text[: 10 * longest].split()), keep="")
    return line if len(line) <= longest else line[: longest - 3] + "..."


def threshold_text(value: float) -> str:
    """Write a threshold with all its digits, so that nobody uses a rounded one."""
    return "infinite" if value == math.inf else repr(value)


def count(number: int, singular: str, plural: str | None = None) -> str:
    """1 site, 2 sites, 10,000 sites."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def listed(names: Sequence[str]) -> str:
    """Join words: A, B and C."""
    return (
        names[0]
        if len(names) == 1
        else f"{', '.join(names[:-1])} and {names[-1]}"
        if names
        else ""
    )


def quoted(names: Sequence[str]) -> str:
    """Write a few names for a message, each quoted, short and on one line: 'A', 'B',
    ...
    """
    shown = [repr(name if len(name) <= 40 else name[:37] + "...") for name in names[:5]]
    return ", ".join(shown) + (", ..." if len(names) > 5 else "")


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line that is not of this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
