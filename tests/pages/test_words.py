"""Sentences that the pages share: figures never promise more than there is."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from fedconformal import pages
from fedconformal._text import ceiling_percent, floor_percent, percent
from fedconformal.pages._render import _environment, times_as_wide, width_ratio

SPACE = "\N{NO-BREAK SPACE}"


def sentence(name, *values):
    return str(
        getattr(_environment().get_template("_sentences.html").module, name)(*values)
    )


def test_lower_bounds_are_rounded_down_and_upper_ones_up():
    assert floor_percent(0.87999) == f"87.9{SPACE}%"
    assert floor_percent(0.29, digits=0) == f"29{SPACE}%"
    assert ceiling_percent(0.9001) == f"90.1{SPACE}%"
    assert (percent(0.9), percent(0.9995)) == (f"90{SPACE}%", f"99.95{SPACE}%")
    for value in np.random.default_rng(0).random(200):
        shown = float(floor_percent(value, digits=2).split(SPACE)[0]) / 100
        assert value - 1.01e-4 < shown <= value + 1e-15


@pytest.mark.parametrize(("covered", "level"), [(0.95, 0.9), (0.931, 0.8), (0.5, 0.5)])
def test_intervals_of_normal_errors_have_these_widths(covered, level):
    wide, asked = (np.ptp(stats.norm.interval(share)) for share in (covered, level))
    assert width_ratio(covered, level) == pytest.approx(wide / asked)


def test_less_than_the_level_is_never_called_narrower_and_figures_are_rounded_up():
    assert width_ratio(0.8999, 0.9) == 1.0
    assert width_ratio(0.95, 0.9) == pytest.approx(1.1916, abs=1e-4)
    assert "1.20 times as wide as those that cover 90" in sentence("width", 0.95, 0.9)


@pytest.mark.parametrize(
    ("covered", "level"), [(1.0, 0.9), (0.9, 5e-324), (0.9, 1e-12), (0.9, 0.001)]
)
def test_extremes_have_no_ratio(covered, level):
    """A hostile calibration may name any level between 0 and 1."""
    assert times_as_wide(covered, level) == "over 100"
    assert times_as_wide(1.0, 1 - 2**-53) == "1.00"


def test_a_privacy_loss_is_a_factor_and_a_certainty():
    assert (
        "at most 7.39 times as likely or unlikely (e to the power ε = 2)"
        in sentence("factor", 2.0)
    )
    assert f"can be 88.1{SPACE}% sure which it was" in sentence("factor", 2.0)
    assert "promises next to nothing" in sentence("factor", 8.0)


def sentences(source):
    """Yield pieces of text of five words or more that are neither documentation, errors
    nor commands.
    """
    tree = ast.parse(source)
    skipped = [
        node for node in ast.walk(tree) if isinstance(node, (ast.Raise, ast.Expr))
    ]
    skipped = {id(part) for node in skipped for part in ast.walk(node)}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in skipped
        ):
            words = re.findall(r"\b[a-z]+\b", node.value)
            if len(words) >= 5 and words[0] != "fedconformal":
                yield node.value


def test_sentences_stand_in_templates():
    """So that each can be found with a search, and is whole where it is found."""
    assert list(sentences('said = f"{n} of them are new cases"')) == [
        " of them are new cases"
    ]
    for path in Path(pages.__file__).parent.glob("*.py"):
        if path.name not in (
            "_question.py",
            "_server.py",
        ):  # which have ends of errors, and a header
            assert list(sentences(path.read_text())) == [], path.name
