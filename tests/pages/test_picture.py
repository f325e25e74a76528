"""The picture of a law: no line runs through a label, however wide the picture."""

import itertools
import re
import warnings

import pytest

import fedconformal as fc
from fedconformal.laws import Summary
from fedconformal.pages._render import law_picture

CHARACTER = 7.4

PLANS = [
    {"n_sites": 10, "n_points": 100},
    {"n_sites": 3, "n_points": 20, "confidence_level": 0.8},
    {"n_sites": 12, "n_points": 150, "max_faulty": 2},
    {"n_sites": 4, "n_points": 300, "promise": "each-site"},
    {"n_sites": 10, "n_points": 500, "criterion": "conditional", "delta": 0.02},
    {"n_sites": 5, "n_points": 1000, "confidence_level": 0.99},
    {"n_sites": 30, "n_points": 40, "confidence_level": 0.5},
]


def lines_and_labels(picture):
    """Where each line stands and begins, and what room each label takes in its row."""
    line = r'<path class="(law-level|law-mean|law-low)" d="M([\d.]+),([\d.]+)V'
    label = (
        r'class="law-label (law-\w+)-label" x="([\d.-]+)" y="(\d+)"'
        r' text-anchor="(\w+)">([^<]+)<'
    )
    lines = [(kind, float(x), float(top)) for kind, x, top in re.findall(line, picture)]
    labels = []
    for kind, x, y, anchor, text in re.findall(label, picture):
        low = float(x) - (CHARACTER * len(text) if anchor == "end" else 0)
        labels.append((kind, low, low + CHARACTER * len(text), int(y)))
    return lines, labels


def assert_readable(plan, *, is_bound, width):
    summary = Summary(plan.law, plan.confidence_levels[0])
    lines, labels = lines_and_labels(
        law_picture(summary, is_bound=is_bound, width=width)
    )
    assert len(lines) == len(labels) == 3
    for kind, low, high, y in labels:
        assert [
            other for other, x, top in lines if low < x < high and top < y - 2
        ] == [], (kind, low, high)
        assert low > -1
        assert high < width + 1


@pytest.mark.parametrize("options", PLANS, ids=str)
def test_no_line_runs_through_a_label(options):
    plan = fc.plan(**options)
    for is_bound, width in itertools.product((False, True), (300, 340, 720)):
        assert_readable(plan, is_bound=is_bound, width=width)


@pytest.mark.nightly
@pytest.mark.parametrize("criterion", ["stable", "conditional"])
def test_nor_for_any_other_law(criterion):
    for m, n, level, delta in itertools.product(
        (1, 3), (12, 100), (0.5, 0.95), (0.4, 0.001)
    ):
        wish = {"criterion": criterion, "confidence_level": level, "delta": delta}
        with warnings.catch_warnings(action="ignore", category=fc.InfeasibleWarning):
            plan = fc.plan(m, n, **wish)
        if plan.feasible:
            for width in (340, 720):
                assert_readable(plan, is_bound=m == 3, width=width)
