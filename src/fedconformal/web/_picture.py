"""The distribution of the coverage as an SVG picture; its colours come from the page's style."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import permutations, product

import numpy as np

from fedconformal._text import floor_percent, percent
from fedconformal._typing import Floats
from fedconformal.laws import Summary, density

_STEPS = 180
_ROW = 20  # height of a line of labels
_ROWS = 3
_BOTTOM = 44
_SIDE = 10
_CHARACTER = 7.4  # mean width of a character of a label, in a wide font
_DIGIT = 8.8  # the same of a tick
_GAP = 8  # between a line and its label
_TOUCH = 3  # closer than this, a line touches a label


@dataclass(frozen=True)
class _Frame:
    """From coverage and density to places on the picture."""

    low: float
    high: float
    peak: float
    width: int
    height: int

    def x(self, coverage: float) -> float:
        share = (coverage - self.low) / (self.high - self.low)
        return _SIDE + share * (self.width - 2 * _SIDE)

    def y(self, value: float) -> float:
        top = _ROWS * _ROW + 8
        return self.base - value / self.peak * (self.base - top)

    @property
    def base(self) -> float:
        return self.height - _BOTTOM


def law_picture(
    law: Summary,
    *,
    pooled: Summary | None = None,
    is_bound: bool = False,
    width: int = 720,
    height: int = 300,
    name: str = "law",
) -> str | None:
    """Draw the density of a coverage with the level, the mean and the 5 % quantile.

    Parameters
    ----------
    law : Summary
        The distribution of the coverage, or a bound of it.
    pooled : Summary, optional
        The distribution with all cases in one place, drawn as a dashed line.
    is_bound : bool
        True if it bounds the coverage from below, rather than being its distribution.
    width, height : int
        Of the picture, in pixels.
    name : str
        Keeps the identifiers of several pictures on one page apart.

    Returns
    -------
    str or None
        SVG whose colours come from the page's style; None if the coverage is not random.
    """
    if law.is_certain:
        return None
    shown = [law] if pooled is None or pooled.is_certain else [law, pooled]
    low, high = _range(shown)
    edges = np.linspace(low, high, _STEPS + 1)
    curves = [density(each.law, edges) for each in shown]
    frame = _Frame(low, high, max(float(curve.max()) for curve in curves), width, height)
    description = _description(law, with_pooled=len(shown) > 1)
    parts = [
        f'<svg class="law" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-labelledby="{name}-title {name}-text" xmlns="http://www.w3.org/2000/svg">',
        f'<title id="{name}-title">The distribution of the coverage</title>',
        f'<desc id="{name}-text">{escape(description)}</desc>',
        *_axis(frame),
        *_curves(frame, edges, curves, law.low),
        *_markers(frame, _marks(law, is_bound=is_bound)),
        "</svg>",
    ]
    return "".join(parts)


def _range(shown: Sequence[Summary]) -> tuple[float, float]:
    """Return the range of coverages that has all distributions and the level in it."""
    level = shown[0].confidence_level
    low, high = min(law.window[0] for law in shown), max(law.window[1] for law in shown)
    margin = 0.02 * (high - low)
    return max(0.0, min(low, level) - margin), min(1.0, max(high, level) + margin)


def _description(law: Summary, *, with_pooled: bool) -> str:
    mean, asked, low = floor_percent(law.mean), percent(law.confidence_level), floor_percent(law.low)
    text = f"Density of the coverage: mean {mean}, asked for {asked}, below {low} in 1 of 20 calibrations."
    return text + (" The dashed line is that of pooling all cases in one place." if with_pooled else "")


def _curves(frame: _Frame, edges: Floats, curves: Sequence[Floats], low: float) -> Iterator[str]:
    middles = (edges[1:] + edges[:-1]) / 2
    ours = _path(frame, middles, curves[0])
    first, last, base = frame.x(float(middles[0])), frame.x(float(middles[-1])), frame.base
    yield f'<path class="law-area" d="{ours}L{last:.1f},{base:.1f}L{first:.1f},{base:.1f}Z"/>'
    tail = middles < low
    if tail.any():
        x, y = np.append(middles[tail], low), np.append(curves[0][tail], np.interp(low, middles, curves[0]))
        end = frame.x(low)
        yield (
            f'<path class="law-tail" d="{_path(frame, x, y)}L{end:.1f},{base:.1f}L{first:.1f},{base:.1f}Z"/>'
        )
    if len(curves) > 1:
        yield f'<path class="law-pooled" d="{_path(frame, middles, curves[1])}"/>'
    yield f'<path class="law-line" d="{ours}"/>'


def _path(frame: _Frame, x: Floats, y: Floats) -> str:
    points = (f"{frame.x(float(a)):.1f},{frame.y(float(b)):.1f}" for a, b in zip(x, y, strict=True))
    return "M" + "L".join(points)


def _axis(frame: _Frame) -> Iterator[str]:
    base = frame.base
    yield f'<path class="law-axis" d="M{_SIDE},{base:.1f}H{frame.width - _SIDE}"/>'
    for tick in _ticks(frame.low, frame.high, most=max(2, frame.width // 64)):
        x = frame.x(tick)
        yield f'<path class="law-axis" d="M{x:.1f},{base:.1f}v5"/>'
        half = _DIGIT * len(percent(tick)) / 2
        inside = min(max(x, half), frame.width - half)
        place = f'x="{inside:.1f}" y="{base + 19:.1f}"'
        yield f'<text class="law-tick" {place} text-anchor="middle">{percent(tick)}</text>'
    yield (
        f'<text class="law-label" x="{frame.width / 2:.1f}" y="{frame.height - 6}" text-anchor="middle">'
        "share of new cases covered</text>"
    )


def _ticks(low: float, high: float, *, most: int) -> list[float]:
    """Round numbers inside a range, at most so many."""
    for decade in range(-9, 1):
        for digit in (1, 2, 5):
            step = digit * 10.0**decade
            first, last = int(np.ceil(low / step - 1e-9)), int(np.floor(high / step + 1e-9))
            if last - first + 1 <= most:
                return [round(i * step, -decade) for i in range(first, last + 1)]
    return []


@dataclass(frozen=True)
class _Marker:
    """A line at a coverage, and the words beside it."""

    coverage: float
    kind: str
    label: str
    prefers_left: bool = False

    def places(self, frame: _Frame) -> list["_Place"]:
        """Return the places of its words, the best place first; the last two are for narrow pictures."""
        x, length = frame.x(self.coverage), _CHARACTER * len(self.label)
        beside = [_Place(x + _GAP, "start", length), _Place(x - _GAP, "end", length)]
        edges = [_Place(4.0, "start", length), _Place(frame.width - 4.0, "end", length)]
        ordered = beside[::-1] if self.prefers_left else beside
        fitting = [place for place in ordered if place.low > 0 and place.high < frame.width]
        return [*fitting, *edges]


@dataclass(frozen=True)
class _Place:
    """Place of words in their row."""

    x: float
    anchor: str
    length: float

    @property
    def low(self) -> float:
        return self.x if self.anchor == "start" else self.x - self.length

    @property
    def high(self) -> float:
        return self.low + self.length

    def holds(self, x: float) -> bool:
        """True if a line at x would run through the words, or touch them."""
        return self.low - _TOUCH < x < self.high + _TOUCH


def _marks(law: Summary, *, is_bound: bool) -> list[_Marker]:
    """The level, the mean and the 5 % quantile."""
    mean, low = floor_percent(law.mean, digits=2), floor_percent(law.low)
    asked = f"asked for: {percent(law.confidence_level)}"
    average = f"on average{' at least' if is_bound else ':'} {mean}"
    rarely = f"{'at most ' if is_bound else ''}1 in 20 below {low}"
    return [
        _Marker(law.confidence_level, "law-level", asked),
        _Marker(law.mean, "law-mean", average),
        _Marker(law.low, "law-low", rarely, prefers_left=True),
    ]


def _markers(frame: _Frame, markers: Sequence[_Marker]) -> Iterator[str]:
    """A line for each, then a label for each, on rows of their own so that labels never collide.

    A line begins at the row of its label, or below it where the label is wider than the room beside the line.
    """
    way = _rows(frame, markers)
    highest = _ROWS * _ROW if _n_struck(frame, way) else 0  # too narrow for any: all lines begin below
    drawn = [_marker(frame, marker, row, place, highest) for row, (marker, place) in enumerate(way)]
    yield from (line for line, _ in drawn)
    yield from (label for _, label in drawn)


def _rows(frame: _Frame, markers: Sequence[_Marker]) -> Sequence[tuple[_Marker, _Place]]:
    """The order from top to bottom, and the places, in which no line runs through the label of another."""
    ways = (
        tuple(zip(order, places, strict=True))
        for order in permutations(markers)
        for places in product(*(marker.places(frame) for marker in order))
    )
    return min(ways, key=lambda way: (_n_struck(frame, way), _n_second_best(frame, way)))


def _n_struck(frame: _Frame, way: Sequence[tuple[_Marker, _Place]]) -> int:
    """Count the labels that the line of a row above runs through."""
    lines = [frame.x(marker.coverage) for marker, _ in way]
    return sum(place.holds(x) for row, (_, place) in enumerate(way) for x in lines[:row])


def _n_second_best(frame: _Frame, way: Sequence[tuple[_Marker, _Place]]) -> int:
    return sum(marker.places(frame).index(place) for marker, place in way)


def _marker(frame: _Frame, marker: _Marker, row: int, place: _Place, highest: float) -> tuple[str, str]:
    """A line, which begins no higher than this, and its label."""
    x, y = frame.x(marker.coverage), _ROW * (row + 1) - 6
    top = max(highest, y + 5 if place.holds(x) else y - 10)
    return (
        f'<path class="{marker.kind}" d="M{x:.1f},{top:.1f}V{frame.base:.1f}"/>',
        f'<text class="law-label {marker.kind}-label" x="{place.x:.1f}" y="{y}" '
        f'text-anchor="{place.anchor}">{escape(marker.label)}</text>',
    )
