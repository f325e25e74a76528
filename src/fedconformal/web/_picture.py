"""The distribution of the coverage as an SVG picture; its colours come from the page's style."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

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


@dataclass(frozen=True)
class _Frame:
    """Scale from coverage and density to places on the picture."""

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
    level = law.confidence_level
    low = min(level, *(drawn.window[0] for drawn in shown))
    high = max(level, *(drawn.window[1] for drawn in shown))
    margin = 0.02 * (high - low)
    low, high = max(0.0, low - margin), min(1.0, high + margin)
    edges = np.linspace(low, high, _STEPS + 1)
    curves = [density(drawn.law, edges) for drawn in shown]
    frame = _Frame(low, high, max(float(curve.max()) for curve in curves), width, height)
    description = _description(law, with_pooled=len(shown) > 1)
    parts = [
        f'<svg class="law" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-labelledby="{name}-title {name}-text" xmlns="http://www.w3.org/2000/svg">',
        f'<title id="{name}-title">The distribution of the coverage</title>',
        f'<desc id="{name}-text">{escape(description)}</desc>',
        *_draw_axis(frame),
        *_draw_curves(frame, edges, curves, law.low),
        *_draw_markers(frame, law, is_bound=is_bound),
        "</svg>",
    ]
    return "".join(parts)


def _description(law: Summary, *, with_pooled: bool) -> str:
    mean, asked, low = floor_percent(law.mean), percent(law.confidence_level), floor_percent(law.low)
    text = f"Density of the coverage: mean {mean}, asked for {asked}, below {low} in 1 of 20 calibrations."
    return text + (" The dashed line is that of pooling all cases in one place." if with_pooled else "")


def _draw_curves(frame: _Frame, edges: Floats, curves: Sequence[Floats], low: float) -> Iterator[str]:
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


def _draw_axis(frame: _Frame) -> Iterator[str]:
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
    """Return round numbers inside a range, at most this many."""
    for decade in range(-9, 1):
        for digit in (1, 2, 5):
            step = digit * 10.0**decade
            first, last = int(np.ceil(low / step - 1e-9)), int(np.floor(high / step + 1e-9))
            if last - first + 1 <= most:
                return [round(i * step, -decade) for i in range(first, last + 1)]
    return []


def _draw_markers(frame: _Frame, law: Summary, *, is_bound: bool) -> Iterator[str]:
    """Mark the level, the mean and the 5 % quantile, each with a label in a row of its own.

    The line in the middle has the highest label, and the labels of the other two point away from it: no line
    runs through a label. In a picture too narrow for that, all lines begin below all labels.
    """
    mean, low = floor_percent(law.mean, digits=2), floor_percent(law.low)
    left, middle, right = sorted(
        [
            (frame.x(law.confidence_level), "law-level", f"asked for: {percent(law.confidence_level)}"),
            (frame.x(law.mean), "law-mean", f"on average{' at least' if is_bound else ':'} {mean}"),
            (frame.x(law.low), "law-low", f"{'at most ' if is_bound else ''}1 in 20 below {low}"),
        ]
    )
    lines, labels, fits = [], [], True
    for row, (x, kind, text) in enumerate((middle, left, right)):
        length, y = _CHARACTER * len(text), _ROW * (row + 1) - 6
        begin = x - _GAP - length if (x, kind, text) == left else x + _GAP
        inside = min(max(begin, 4.0), frame.width - 4.0 - length)
        fits = fits and (inside == begin or row == 0)
        lines.append((kind, x, y - 10 if inside == begin else y + 5))
        place, anchor = (x - _GAP, "end") if inside == begin < x else (inside, "start")
        labels.append(
            f'<text class="law-label {kind}-label" x="{place:.1f}" y="{y}" text-anchor="{anchor}">'
            f"{escape(text)}</text>"
        )
    for kind, x, top in lines:
        yield f'<path class="{kind}" d="M{x:.1f},{top if fits else _ROWS * _ROW}V{frame.base:.1f}"/>'
    yield from labels
