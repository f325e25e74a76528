"""The law of coverage as an SVG picture, drawn without any library; colours come from the page's style."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

import numpy as np

from fedconformal._text import floor_percent, percent
from fedconformal._typing import Floats
from fedconformal.laws import Summary, density

_STEPS = 180
_ROW = 20  # height of a line of labels
_ROWS = 3
_BOTTOM = 44
_SIDE = 10
_CHARACTER = 6.6  # mean width of a character of a label


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
        The law of the coverage, or a bound of it.
    pooled : Summary, optional
        The law that all cases in one place would give, drawn as a dashed line.
    is_bound : bool
        Whether the law bounds the coverage from below, rather than being its law.
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
    parts = [
        f'<svg class="law" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-labelledby="{name}-title {name}-text" xmlns="http://www.w3.org/2000/svg">',
        f'<title id="{name}-title">The law of the coverage</title>',
        f'<desc id="{name}-text">{escape(_description(law, with_pooled=len(shown) > 1))}</desc>',
        *_axis(frame),
        *_curves(frame, edges, curves, law.low),
        *_markers(frame, law, is_bound=is_bound),
        "</svg>",
    ]
    return "".join(parts)


def _range(shown: Sequence[Summary]) -> tuple[float, float]:
    """Coverages from where to where, so that all laws and the level are in the picture."""
    level = shown[0].confidence_level
    low, high = min(law.window[0] for law in shown), max(law.window[1] for law in shown)
    margin = 0.02 * (high - low)
    return max(0.0, min(low, level) - margin), min(1.0, max(high, level) + margin)


def _description(law: Summary, *, with_pooled: bool) -> str:
    text = (
        f"Density of the coverage: mean {floor_percent(law.mean)}, asked for "
        f"{percent(law.confidence_level)}, below {floor_percent(law.low)} in 1 of 20 calibrations."
    )
    return text + (" The dashed line is the law of pooling all cases in one place." if with_pooled else "")


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
        place = f'x="{x:.1f}" y="{base + 19:.1f}"'
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


def _markers(frame: _Frame, law: Summary, *, is_bound: bool) -> Iterator[str]:
    """Three lines, then a label for each, on rows of their own so that labels never collide."""
    mean, low = floor_percent(law.mean, digits=2), floor_percent(law.low)
    asked = f"asked for: {percent(law.confidence_level)}"
    average = f"on average{' at least' if is_bound else ':'} {mean}"
    rarely = f"{'at most ' if is_bound else ''}1 in 20 below {low}"
    markers = [
        _marker(frame, law.confidence_level, 0, "law-level", asked),
        _marker(frame, law.mean, 1, "law-mean", average),
        _marker(frame, law.low, 2, "law-low", rarely, side="left"),
    ]
    yield from (line for line, _ in markers)
    yield from (label for _, label in markers)


def _marker(
    frame: _Frame,
    coverage: float,
    row: int,
    kind: str,
    label: str,
    side: Literal["left", "right"] = "right",
) -> tuple[str, str]:
    """A line and its label."""
    x, y = frame.x(coverage), _ROW * (row + 1) - 6
    room_right = x + 8 + _CHARACTER * len(label) < frame.width
    room_left = x - 8 - _CHARACTER * len(label) > 0
    left = room_left if side == "left" else not room_right and room_left
    if left or room_right:
        place, anchor = (x - 8, "end") if left else (x + 8, "start")
    else:  # a narrow picture: the label takes what room there is
        place, anchor = (4.0, "start") if x > frame.width / 2 else (frame.width - 4.0, "end")
    crossing = not (left or room_right)
    top = y + 5 if crossing else y - 10
    return (
        f'<path class="{kind}" d="M{x:.1f},{top:.1f}V{frame.base:.1f}"/>',
        f'<text class="law-label {kind}-label" x="{place:.1f}" y="{y}" text-anchor="{anchor}">'
        f"{escape(label)}</text>",
    )
