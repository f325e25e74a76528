"""Twenty calibrations like this one, drawn as twenty marks: what "on average" means."""

import numpy as np

from fedconformal._text import percent
from fedconformal._typing import Floats
from fedconformal.laws import Summary
from fedconformal.web._html import Markup, tag

_MARKS = 20
_WIDE, _NARROW, _HEIGHT, _SIDE = 720, 340, 74, 16
_STEPS = 200


def marks(law: Summary) -> Markup:
    """Return one mark for each twentieth of the law, those at or above the level filled.

    Parameters
    ----------
    law : Summary
        The law of the coverage, or a bound of it; not certain.

    Returns
    -------
    Markup
        A picture with its sentence.
    """
    coverages = _typical(law)
    reached = int(np.sum(coverages >= law.confidence_level))
    words = (
        f"Twenty calibrations like this one: {reached} of {_MARKS} marks lie at "
        f"{percent(law.confidence_level)} or above. Yours is one of them, and nobody knows which."
    )
    drawn = (
        tag("div", _picture(coverages, law.confidence_level, width, words), class_=where)
        for width, where in ((_WIDE, "wide"), (_NARROW, "narrow"))
    )
    return tag("figure", *drawn, tag("figcaption", words))


def _picture(coverages: Floats, level: float, width: int, words: str) -> Markup:
    low, high = min(float(coverages[0]), level), max(float(coverages[-1]), level)

    def place(coverage: float) -> float:
        return _SIDE + (coverage - low) / max(high - low, 1e-12) * (width - 2 * _SIDE)

    radius = 6 if width == _WIDE else 4
    dots = "".join(
        f'<circle cx="{place(float(c)):.1f}" cy="{22 + 13 * (i % 2)}" r="{radius}" '
        f'class="{"mark-reached" if c >= level else "mark-below"}"/>'
        for i, c in enumerate(coverages)
    )
    x = place(level)
    side = "end" if x > width / 2 else "start"
    return Markup(
        f'<svg class="law marks" viewBox="0 0 {width} {_HEIGHT}" width="{width}" role="img" '
        f'aria-label="{words}">'
        f'<path class="law-level" d="M{x:.1f} 4V52"/>{dots}'
        f'<text x="{x:.1f}" y="68" text-anchor="{side}">level {percent(level)}</text></svg>'
    )


def _typical(law: Summary) -> Floats:
    """The middle of each twentieth of the law."""
    low, high = law.window
    edges = np.linspace(low, high, _STEPS)
    wanted = (np.arange(_MARKS) + 0.5) / _MARKS
    found: Floats = np.interp(wanted, np.maximum.accumulate(np.asarray(law.law.cdf(edges))), edges)
    return found
