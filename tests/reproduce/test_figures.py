"""Each figure has what a reader of the paper looks for: the lines, the boxes, the
means, the target.
"""

import numpy as np
import pytest

from reproduce import figure_1_upper_bounds as figure_1
from reproduce import figure_4_coverage as figure_4
from reproduce.data import poisson
from reproduce.drawing import COLOURS, box, panels
from reproduce.methods import METHODS, PRIVATE_METHODS, QQ, STABLE, THREE
from reproduce.models import Ridge
from reproduce.protocol import Settings, run

NAMES = [method.name for method in METHODS]


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    settings = Settings(out=tmp_path_factory.mktemp("fits"), n_splits=4)
    return run([poisson(100, 200, 100)], [Ridge()], settings)


def targets(axes):
    """Heights of the dashed black lines."""
    return [
        float(line.get_ydata()[0])
        for line in axes.lines
        if line.get_linestyle() == "--"
        and line.get_color() == "black"
        and len(set(line.get_ydata())) == 1
    ]


def white_circles(axes):
    return [
        float(line.get_ydata()[0])
        for line in axes.lines
        if line.get_marker() == "o" and line.get_markerfacecolor() == "white"
    ]


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.mark.nightly
def test_upper_bounds_lie_as_in_figure_1():
    points = (10, 50, 100)
    figure = figure_1.draw(figure_1.compute(Settings(), points=points))
    above, below = figure.axes[:2], figure.axes[2:]
    for near in below:  # all but the single site's bound is inside
        low, high = near.get_ylim()
        inside = [
            line for line in near.lines if line.get_label() != figure_1.SINGLE_BOUND
        ]
        assert all(low < value < high for line in inside for value in line.get_ydata())
        assert high < 0.93
    for axes, m in zip(above, (5, 20), strict=True):
        curves = {line.get_label(): line.get_ydata() for line in axes.lines}
        assert targets(axes) == [0.9]
        assert curves[figure_1.SINGLE_BOUND] == pytest.approx(
            [0.9 + 1 / (n + 1) for n in points]
        )
        assert curves[figure_1.POOLED_BOUND] == pytest.approx(
            [0.9 + 1 / (m * n + 1) for n in points]
        )
        for name in (QQ, STABLE, THREE):
            assert (np.asarray(curves[name]) >= 0.9).all()
            assert (curves[name] < curves[figure_1.SINGLE_BOUND]).all()
    assert above[0].lines[0].get_ydata()[0] == pytest.approx(
        0.92562595455
    )  # m = 5, n = 10


@pytest.mark.slow
def test_the_papers_three_methods_have_a_panel_of_their_own(rows):
    paper = list(figure_4.THREE_METHODS)
    figure = figure_4.draw(rows)
    for column, scenario in enumerate(("m >> n", "m << n")):
        chosen = rows[rows["scenario"] == scenario]
        means = chosen.groupby("method", sort=False)["coverage"].mean()
        above, below = figure.axes[column::2]
        assert white_circles(above) == pytest.approx(means[paper].to_list())
        assert white_circles(below) == pytest.approx(means.drop(paper).to_list())
        dots = [line for line in above.lines if line.get_marker() == "."]
        assert [len(line.get_ydata()) for line in dots] == [4] * 3  # a dot per split
        for axes in (above, below):
            assert targets(axes) == [0.9]
            assert [text.get_text() for text in axes.get_xticklabels()] == [
                "ridge\n(synthetic)"
            ]
    others = [name for name in NAMES if name not in paper]
    assert legend(figure) == [*paper, *others, "mean", "target"]
    coverages, lengths = (figure_4.draw_dataset(rows).axes[i::2] for i in range(2))
    assert [axes.get_ylabel() for axes in coverages] == ["coverage"] * 4
    for axes, words in zip(
        coverages[::2], ("m = 20, n = 10", "m = 10, n = 20"), strict=True
    ):
        assert axes.get_title().partition("\n")[0] == f"synthetic: {words}, 4 splits"
    assert [len(white_circles(axes)) for axes in lengths] == [3, 4] * 2


def test_infinite_lengths_are_words_not_boxes():
    _, ((axes,),) = panels(1, 1, (3, 3))
    box(axes, [1.0, 2.0], "red", 0)
    box(axes, [np.inf, np.inf], "blue", 1)
    assert len(axes.patches) == 1
    assert [text.get_text() for text in axes.texts] == ["infinite"]


def test_every_method_has_its_own_colour():
    assert len(set(COLOURS.values())) == len(COLOURS)
    assert {method.name for method in (*METHODS, *PRIVATE_METHODS)} <= set(COLOURS)
