"""Templates of the pages, in which every printed value is escaped, and the picture of a
distribution.
"""

import math
import re
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, Decimal
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from scipy import special

from fedconformal import _text
from fedconformal._extras import need
from fedconformal._text import floor_percent, percent
from fedconformal._util import Floats
from fedconformal.documents import Design
from fedconformal.laws import Summary, density
from fedconformal.messages import CurveMessage, of
from fedconformal.monitoring import WatchRow, floor_digits
from fedconformal.planning import Promise

_MOST_TIMES = 100
_MOST_NAMES = 200  # of larger federations the rest stays in the calibration


def disclosure(design: Design, n: int, site: str) -> str:
    """Return what leaves a site as its message describes it, in the third person: "1 of
    its 79 scores".
    """
    return re.sub(r"\byour\b", "its", of(design.message).discloses(design, n, site))


def has_law(promise: Promise) -> bool:
    """Return whether a promise has distributions of the coverage, rather than a
    guarantee alone.
    """
    return type(promise).law is not Promise.law


def expected_mean(design: Design, place: int) -> float | None:
    """Return the coverage to expect of noisy counts if scores lie evenly over the
    cells; None for others.
    """
    message = of(design.message)
    if not isinstance(message, CurveMessage) or message.epsilon(design) is None:
        return None
    return message.expected(design, place)[0]


def width_ratio(covered: float, level: float) -> float:
    """Return how much wider intervals of normal errors are that cover more than the
    level; at least 1.
    """
    if covered <= level:
        return 1.0
    wide, asked = (float(special.ndtri((1 + share) / 2)) for share in (covered, level))
    return max(1.0, wide / asked) if asked > 0 else math.inf


def times_as_wide(covered: float, level: float) -> str:
    """Return the ratio of widths, rounded up, for "1.13 times as wide"."""
    ratio = width_ratio(covered, level)
    return (
        f"over {_MOST_TIMES}"
        if ratio > _MOST_TIMES
        else f"{math.ceil(100 * ratio - 1e-9) / 100:.2f}"
    )


def first_names(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    shown = _text.listed(list(names[:_MOST_NAMES]))
    more = len(names) - _MOST_NAMES
    if more <= 0:
        return shown
    return f"{shown} and {more:,} more"


@cache
def read_asset(name: str) -> str:
    """Return the text of a style sheet, script or picture of the package."""
    return (resources.files("fedconformal.pages") / "assets" / name).read_text("utf-8")


def render(template: str, **values: Any) -> str:
    """Return a filled template.

    Raises
    ------
    MissingExtraError
        If Jinja2 is not installed.
    """
    return str(_environment().get_template(template).render(values))


@cache
def _environment() -> Any:
    jinja2 = need("jinja2", extra="cli")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("fedconformal.pages"),
        autoescape=True,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "ceiling": _text.ceiling_percent,
        "evidence": floor_digits,
        "comma": lambda number: f"{number:,}",
        "count": _text.count,
        "first_names": first_names,
        "floor": lambda share, digits=1: floor_percent(share, digits=digits),
        "general": lambda number, digits=6: f"{number:.{digits}g}",
        "listed": lambda names: _text.listed(list(names)),
        "likelihood_ratio": (
            lambda loss: Decimal(math.exp(loss)).quantize(
                Decimal("0.01"), ROUND_CEILING
            )
        ),
        "nearest": lambda share, digits: _text.nearest_percent(share, digits=digits),
        "of_100": lambda share: f"{math.floor(100 * share + 1e-9)} of 100",
        "percent": percent,
        "posterior": special.expit,  # of an event with an even chance, by Bayes' rule
        "sentence_case": lambda text: text[:1].upper() + text[1:],
        "short_digest": lambda digest: digest.removeprefix("sha256:")[:12],
        "threshold": _text.threshold_text,
        "times_as_wide": times_as_wide,
    }
    environment.globals |= {
        "law_picture": law_picture,
        "watch_picture": watch_picture,
        "words": _promise_words,
    }
    return environment


def _promise_words(promise: Promise, name: str) -> Any:
    """Return the macro of this name of a promise: its own, or else the one for any
    promise.
    """
    general = "promises/default.html"
    own = (
        _environment()
        .select_template([f"promises/{promise.name}.html", general])
        .module
    )
    return getattr(own, name, None) or getattr(
        _environment().get_template(general).module, name
    )


def _finalize(value: Any) -> Any:
    """Spell out control characters, so that no printed text changes the direction of a
    line.
    """
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return _text.visible(value, keep="\n\N{NO-BREAK SPACE}")
    return value


# -- the distribution of the coverage as a picture: places for a template in SVG -------


_STEPS = 180
_HEIGHT = 300
_ROW = 20  # height of a line of labels
_ROWS = 3
_BOTTOM = 44
_SIDE = 10
_CHARACTER = 7.4  # mean width of a character of a label, in a wide font
_DIGIT = 8.8  # the same of a tick
_GAP = 8  # between a line and its label


def law_picture(
    law: Summary,
    *,
    pooled: Summary | None = None,
    is_bound: bool = False,
    width: int = 720,
    name: str = "law",
) -> str:
    """Draw the density of a coverage with the level, the mean and the 5 % quantile.

    Parameters
    ----------
    law : Summary
        The distribution of the coverage, or a bound of it.
    pooled : Summary, optional
        The distribution with all cases in one place, drawn as a dashed line.
    is_bound : bool
        True if it bounds the coverage from below, rather than being its distribution.
    width : int
        Of the picture, in pixels.
    name : str
        Keeps the identifiers of several pictures on one page apart.

    Returns
    -------
    str
        SVG whose colours come from the page's style; empty if the coverage is not
        random.
    """
    if law.is_certain:
        return ""
    shown = [law] if pooled is None or pooled.is_certain else [law, pooled]
    level = law.confidence_level
    low = min(level, *(drawn.window[0] for drawn in shown))
    high = max(level, *(drawn.window[1] for drawn in shown))
    margin = 0.02 * (high - low)
    low, high = max(0.0, low - margin), min(1.0, high + margin)
    edges = np.linspace(low, high, _STEPS + 1)
    middles = (edges[1:] + edges[:-1]) / 2
    ours, *others = (density(drawn.law, edges) for drawn in shown)
    peak, base = max(float(curve.max()) for curve in (ours, *others)), _HEIGHT - _BOTTOM

    def x(coverage: float) -> float:
        return _SIDE + (coverage - low) / (high - low) * (width - 2 * _SIDE)

    def line(coverages: Floats, densities: Floats) -> str:
        y = base - densities / peak * (base - _ROWS * _ROW - 8)
        return "M" + "L".join(
            f"{x(float(c)):.1f},{height:.1f}"
            for c, height in zip(coverages, y, strict=True)
        )

    def area(coverages: Floats, densities: Floats) -> str:
        first, last = x(float(coverages[0])), x(float(coverages[-1]))
        return f"{line(coverages, densities)}L{last:.1f},{base}L{first:.1f},{base}Z"

    tail = middles < law.low
    tail_x = np.append(middles[tail], law.low)
    tail_y = np.append(ours[tail], np.interp(law.low, middles, ours))
    return render(
        "_picture.html",
        name=name,
        law=law,
        width=width,
        height=_HEIGHT,
        base=base,
        side=_SIDE,
        ticks=[
            (x(tick), tick)
            for tick in _round_numbers(low, high, most=max(2, width // 64))
        ],
        digit=_DIGIT,
        area=area(middles, ours),
        tail=area(tail_x, tail_y) if tail.any() else None,
        pooled=line(middles, others[0]) if others else None,
        line=line(middles, ours),
        markers=_place_markers(law, x, width, is_bound=is_bound),
    )


def _round_numbers(low: float, high: float, *, most: int) -> list[float]:
    """Return round numbers inside a range, at most this many."""
    for decade in range(-9, 1):
        for digit in (1, 2, 5):
            step = digit * 10.0**decade
            first, last = (
                int(np.ceil(low / step - 1e-9)),
                int(np.floor(high / step + 1e-9)),
            )
            if last - first + 1 <= most:
                return [round(i * step, -decade) for i in range(first, last + 1)]
    return []


def _place_markers(
    law: Summary, place: Callable[[float], float], width: int, *, is_bound: bool
) -> list[dict[str, Any]]:
    """Mark the level, the mean and the 5 % quantile, each with a label in a row of its
    own.

    The line in the middle has the highest label, and the labels of the other two point
    away from it: no line runs through a label. In a picture too narrow for that, all
    lines begin below all labels.
    """
    mean, low = floor_percent(law.mean, digits=2), floor_percent(law.low)
    left, middle, right = sorted(
        [
            (
                place(law.confidence_level),
                "law-level",
                f"asked for: {percent(law.confidence_level)}",
            ),
            (
                place(law.mean),
                "law-mean",
                f"on average{' at least' if is_bound else ':'} {mean}",
            ),
            (
                place(law.low),
                "law-low",
                f"{'at most ' if is_bound else ''}1 in 20 below {low}",
            ),
        ]
    )
    markers, fits = [], True
    for row, (x, kind, text) in enumerate((middle, left, right)):
        length, y = _CHARACTER * len(text), _ROW * (row + 1) - 6
        begin = x - _GAP - length if (x, kind, text) == left else x + _GAP
        inside = min(max(begin, 4.0), width - 4.0 - length)
        fits = fits and (inside == begin or row == 0)
        start, anchor = (x - _GAP, "end") if inside == begin < x else (inside, "start")
        top = y - 10 if inside == begin else y + 5
        markers.append(
            {
                "kind": kind,
                "x": x,
                "top": top,
                "text": text,
                "start": start,
                "y": y,
                "anchor": anchor,
            }
        )
    return markers if fits else [{**marker, "top": _ROWS * _ROW} for marker in markers]


# -- a row of checks as a picture ------------------------------------------------------


_SHARE_TOP, _SHARE_BASE, _EVIDENCE_TOP, _EVIDENCE_BASE = 24.0, 104.0, 116.0, 164.0
_LEFT = 62


def watch_picture(row: WatchRow, name: str, width: int = 340) -> str:
    """Draw the coverage of a site by period with its band, and its evidence below; an
    alarm is marked.

    Parameters
    ----------
    row : WatchRow
        Of a watch.
    name : str
        Keeps the identifiers of several pictures on one page apart.
    width : int
        Of the picture, in pixels.

    Returns
    -------
    str
        SVG without scripts.
    """
    points, last = row.points, max(1, len(row.points) - 1)
    intervals = [point.interval for point in points]
    shares = [point.covered / point.n for point in points]
    low = (
        min([row.confidence_level, *shares, *(ends[0] for ends in intervals if ends)])
        - 0.01
    )
    most = (
        math.log(max([1 / row.false_alarm, *(point.evidence for point in points)]))
        * 1.1
    )

    def x(place: int) -> float:
        return round(_LEFT + 6 + place / last * (width - _LEFT - 12), 1)

    def y(share: float) -> float:
        return round(
            _SHARE_BASE - (share - low) / (1 - low) * (_SHARE_BASE - _SHARE_TOP), 1
        )

    def height(evidence: float) -> float:
        share = max(0.0, math.log(max(evidence, 1e-300)) / most)
        return round(_EVIDENCE_BASE - share * (_EVIDENCE_BASE - _EVIDENCE_TOP), 1)

    def line(values: list[float]) -> str:
        places = (
            f"{x(0)},{values[0]}h4" if len(values) == 1 else ""
        )  # one period is a dash
        return "M" + (
            places or "L".join(f"{x(i)},{value}" for i, value in enumerate(values))
        )

    alarms = [
        x(i) for i, point in enumerate(points) if point.evidence * row.false_alarm >= 1
    ]
    return render(
        "_watch.html",
        row=row,
        name=name,
        width=width,
        height=184,
        left=_LEFT,
        level=y(row.confidence_level),
        alarm=height(1 / row.false_alarm),
        bands=[
            (x(i), y(ends[0]), y(ends[1])) for i, ends in enumerate(intervals) if ends
        ],
        coverage=line([y(share) for share in shares]),
        evidence=line([height(point.evidence) for point in points]),
        mark=alarms[0] if alarms else None,
    )
