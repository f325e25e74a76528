"""Twenty calibrations like this one, drawn as twenty marks: what "on average" means."""

import numpy as np

from fedconformal._text import floor_percent, percent
from fedconformal._typing import Floats
from fedconformal.laws import Summary
from fedconformal.web._html import Markup, tag
from fedconformal.web.certificates._claim import LevelClaim

_MARKS = 20
_WIDE, _NARROW, _HEIGHT, _SIDE = 720, 340, 84, 16
_STEPS = 200


def marks(level: LevelClaim, law: Summary) -> Markup:
    """Return one mark for each twentieth of the law, those at or above the level filled.

    Parameters
    ----------
    level : LevelClaim
        What is claimed.
    law : Summary
        The law of its coverage, or a bound of it; not certain.

    Returns
    -------
    Markup
        A picture with its sentence.
    """
    coverages = _typical(law)
    words = _words(level, int(np.sum(coverages >= law.confidence_level)))
    drawn = (
        tag("div", _picture(coverages, law.confidence_level, width, words), class_=where)
        for width, where in ((_WIDE, "wide"), (_NARROW, "narrow"))
    )
    return tag("figure", *drawn, tag("figcaption", words))


def _words(level: LevelClaim, reached: int) -> str:
    claim = level.claim
    least, more = (" at the least", " or more") if claim.is_bound else ("", "")
    return (
        f"{level.where}Twenty calibrations like this one. Each mark is the share of new cases that one of "
        f"them covers{claim.promise.among}{least}: about {reached} of {_MARKS} marks{more} lie at "
        f"{percent(level.level)} or above. Yours is one of them, and nobody knows which."
    )


def _picture(coverages: Floats, level: float, width: int, words: str) -> Markup:
    low, high = min(float(coverages[0]), level), max(float(coverages[-1]), level)

    def place(coverage: float) -> float:
        return _SIDE + (coverage - low) / max(high - low, 1e-12) * (width - 2 * _SIDE)

    radius = 6 if width == _WIDE else 4
    dots = "".join(
        f'<circle cx="{place(float(c)):.1f}" cy="{32 + 13 * (i % 2)}" r="{radius}" '
        f'class="{"mark-reached" if c >= level else "mark-below"}"/>'
        for i, c in enumerate(coverages)
    )
    x = place(level)
    side = "end" if x > width / 2 else "start"
    drawn = (
        f'<path class="law-level" d="M{x:.1f} 18V58"/>{dots}'
        f'<text x="{x:.1f}" y="12" text-anchor="{side}">level {percent(level)}</text>'
        f'<text class="law-tick" x="4" y="76">{floor_percent(low)}</text>'
        f'<text class="law-tick" x="{width - 4}" y="76" text-anchor="end">{floor_percent(high)}</text>'
    )
    return tag(
        "svg",
        Markup(drawn),
        class_="law marks",
        viewBox=f"0 0 {width} {_HEIGHT}",
        width=f"{width}",
        role="img",
        aria_label=words,
    )


def _typical(law: Summary) -> Floats:
    """The middle of each twentieth of the law."""
    low, high = law.window
    edges = np.linspace(low, high, _STEPS)
    wanted = (np.arange(_MARKS) + 0.5) / _MARKS
    found: Floats = np.interp(wanted, np.maximum.accumulate(np.asarray(law.law.cdf(edges))), edges)
    return found
