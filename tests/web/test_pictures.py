"""The picture of the law: what can be read on it."""

import itertools
import re

import pytest

import fedconformal as fc
from fedconformal.laws import Summary
from fedconformal.web._picture import law_picture

LINE = re.compile(r'<path class="law-(level|mean|low)" d="M([\d.]+),([\d.]+)V')
LABEL = re.compile(
    r'<text class="law-label law-(level|mean|low)-label" x="([\d.]+)" y="(\d+)" text-anchor="(start|end)">'
    r"([^<]+)</text>"
)
WIDTHS = {"level": 6.6, "low": 6.6, "mean": 7.4}


def struck_through(picture):
    """Labels that the line of another mark runs through."""
    lines = {name: (float(x), float(top)) for name, x, top in LINE.findall(picture)}
    found = []
    for name, x, y, anchor, words in LABEL.findall(picture):
        reach = WIDTHS[name] * len(words)
        begin = float(x) if anchor == "start" else float(x) - reach
        found += [
            (name, other)
            for other, (at, top) in lines.items()
            if other != name and begin < at < begin + reach and top < float(y)
        ]
    return found


def beyond(picture, width):
    """Labels that do not fit the picture."""
    return [
        words
        for name, x, _, anchor, words in LABEL.findall(picture)
        if (
            float(x) + WIDTHS[name] * len(words) > width + 1
            if anchor == "start"
            else float(x) - WIDTHS[name] * len(words) < -1
        )
    ]


@pytest.mark.parametrize("width", [340, 720])
def test_no_line_runs_through_a_label_and_none_is_cut(width):
    sizes = itertools.product((1, 3, 10), (4, 12, 30, 100), (0.5, 0.8, 0.9, 0.95), (0.4, 0.05, 0.001))
    for sites, points, level, delta in sizes:
        for criterion in ("stable", "conditional"):
            plan = fc.plan(
                sites,
                points,
                criterion=criterion,
                confidence_level=level,
                delta=delta,
                on_infeasible="ignore",
            )
            if plan.feasible:
                picture = law_picture(Summary(plan.law, level), is_bound=sites == 3, width=width)
                assert struck_through(picture) == [], (sites, points, level, delta, criterion)
                assert beyond(picture, width) == [], (sites, points, level, delta, criterion)
