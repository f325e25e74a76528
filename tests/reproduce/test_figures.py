"""Each figure has what the paper's reader looks for: the lines, the boxes, the means, the target."""

import math
import re

import numpy as np
import pytest
from matplotlib.figure import Figure

from fedconformal.experiments import (
    METHODS,
    PRIVATE_METHODS,
    STUDIES,
    Ridge,
    Scenario,
    Settings,
    Store,
    poisson,
    run,
)
from fedconformal.experiments import _figures as figures
from fedconformal.experiments import _laws as laws
from fedconformal.experiments._figures._style import COLOURS, boxes, panels
from fedconformal.experiments._methods import AVERAGE, AVERAGE_NEXT, CENTRALISED, QQ, SINGLE, STABLE, THREE

NAMES = [method.name for method in METHODS]


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    return run(
        [poisson(100, 200, 100)], [Ridge()], store=Store(tmp_path_factory.mktemp("s")), n_splits=4, jobs=1
    )


def targets(axes):
    """Heights of the dashed black lines."""
    return [
        float(line.get_ydata()[0])
        for line in axes.lines
        if line.get_linestyle() == "--" and line.get_color() == "black" and len(set(line.get_ydata())) == 1
    ]


def white_circles(axes):
    return [
        float(line.get_ydata()[0])
        for line in axes.lines
        if line.get_marker() == "o" and line.get_markerfacecolor() == "white"
    ]


def faces(axes):
    return [patch.get_facecolor()[:3] for patch in axes.patches]


def drawn(figure):
    assert isinstance(figure, Figure)
    figure.canvas.draw()
    return figure


def test_upper_bounds_lie_as_in_figure_1():
    figure = drawn(figures.upper_bounds(laws.upper_bounds((5, 20), (10, 50, 100), 0.9)))
    above, below = figure.axes[:2], figure.axes[2:]
    assert [axes.get_title() for axes in above] == ["m = 5, $\\alpha$ = 0.1", "m = 20, $\\alpha$ = 0.1"]
    assert [axes.get_title() for axes in below] == ["the same, near the target"] * 2
    for near in below:  # all but the single site's bound is inside
        low, high = near.get_ylim()
        inside = [line for line in near.lines if not str(line.get_label()).startswith("Single site")]
        assert len(inside) == 5
        assert all(low < value < high for line in inside for value in line.get_ydata())
        assert high < 0.93
    for axes, m in zip(above, (5, 20), strict=True):
        curves = {line.get_label(): line.get_ydata() for line in axes.lines}
        assert targets(axes) == [0.9]
        assert curves["Single site, upper bound"] == pytest.approx([0.9 + 1 / (n + 1) for n in (10, 50, 100)])
        assert curves["Centralised, upper bound"] == pytest.approx(
            [0.9 + 1 / (m * n + 1) for n in (10, 50, 100)]
        )
        for name in (QQ, STABLE, THREE):
            assert (np.asarray(curves[name]) >= 0.9).all()
            assert (curves[name] < curves["Single site, upper bound"]).all()
    assert figure.axes[0].lines[0].get_ydata()[0] == pytest.approx(0.92562595455)  # m = 5, n = 10


@pytest.mark.slow
def test_compensation_falls_to_the_target_and_shows_gaps():
    figure = drawn(figures.compensation(laws.compensation((100, 250), (0.9,))))
    (axes,) = figure.axes
    curves = {line.get_label(): np.asarray(line.get_ydata(), float) for line in axes.lines}
    assert targets(axes) == [0.9]
    key = [text.get_text().split(",")[0] for text in figure.legends[0].get_texts()]
    assert key == ["paper"] * 3 + ["ours"] * 3 + ["hollow", "target"]  # a column for each
    for epsilon in (10, 5, 1):
        paper, tight = (curves[f"{a}, $\\varepsilon$ = {epsilon}"] for a in ("paper", "ours, free slopes"))
        assert 0.9 < tight[1] < paper[1]
    paper = curves["paper, $\\varepsilon$ = 1"]
    assert np.isnan(paper[0])  # n = 100 has no plan, and a hollow mark says so
    hollow = [line for line in axes.lines if line.get_markerfacecolor() == "white"]
    assert [list(line.get_xdata()) for line in hollow] == [[100]]
    assert axes.get_title() == "m = 10, $\\alpha$ = 0.1, 100 bins"
    assert curves["paper, $\\varepsilon$ = 10"][0] > curves["paper, $\\varepsilon$ = 10"][1]


def test_heat_map_is_the_array_with_both_choices():
    figure = drawn(figures.heat_map(laws.table(10, 100, 0.9)))
    axes = figure.axes[0]
    shown = np.asarray(axes.images[0].get_array())
    assert shown.shape == (100, 10)
    assert (np.diff(shown, axis=0) > 0).all()
    assert (np.diff(shown, axis=1) > 0).all()
    assert axes.get_legend() is None  # it would cover cells
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["marginal: l = 95, k = 1", "stable: l = 92, k = 4"]


def test_curves_have_one_colour_for_each_server_rank(tmp_path):
    settings = Settings(Store(tmp_path))
    figure = drawn(STUDIES["curves"].draw(STUDIES["curves"].compute(settings)))
    left, right = figure.axes
    for axes, m, n in ((left, 5, 10), (right, 10, 20)):
        ranks = [line for line in axes.lines if str(line.get_label()).startswith("k = ")]
        assert len(ranks) == len({tuple(line.get_color()) for line in ranks}) == m
        assert all(len(line.get_ydata()) == n for line in ranks)
        assert targets(axes) == [0.9]
    largest = math.gamma(1.1) * math.gamma(6) / math.gamma(6.1)  # the paper's M for l = n = 10, k = 1, m = 5
    assert left.lines[0].get_ydata()[-1] == pytest.approx(largest)


@pytest.mark.parametrize("name", ["intervals", "unbalanced"])
def test_intervals_show_points_and_both_ends_of_each_method(name, tmp_path):
    found = STUDIES[name].compute(Settings(Store(tmp_path), quick=True))
    figure = drawn(STUDIES[name].draw(found))
    (axes,) = figure.axes
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels[0] == "test points"
    shown = [QQ, STABLE, THREE, CENTRALISED, AVERAGE, AVERAGE_NEXT]
    assert [label.partition(":")[0] for label in labels[1:]] == shown
    assert len(axes.lines) == 1 + 2 * len(shown)
    assert re.match(
        r"m = 50, n = (20|11 to 46), \$\\alpha\$ = 0.1; CQR with a quantile forest of 100 trees",
        axes.get_title(),
    )
    assert axes.get_ylim() == (-2.5, 7.0)
    lengths = {row["method"]: row["length"] for row in found}
    assert lengths[AVERAGE] > lengths[QQ]
    sizes = {(row["smallest_site"], row["largest_site"]) for row in found}
    assert (sizes == {(20, 20)}) == (name == "intervals")


def test_coverage_boxes_have_means_target_and_our_method(rows):
    figure = drawn(figures.coverage(rows))
    titles = [axes.get_title() for axes in figure.axes]
    settings = ["$m \\gg n$: m = 20, n = 10", "$m \\ll n$: m = 10, n = 20"]
    assert [title.partition(", 4 splits")[0] for title in titles] == settings
    for axes, scenario in zip(figure.axes, ("m >> n", "m << n"), strict=True):
        means = [
            np.mean([r["coverage"] for r in rows if r["scenario"] == scenario and r["method"] == name])
            for name in NAMES
        ]
        assert white_circles(axes) == pytest.approx(means)
        assert targets(axes) == [0.9]
        assert len(set(faces(axes))) == len(NAMES)
        assert [text.get_text() for text in axes.get_xticklabels()] == ["ridge\n(synthetic)"]
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == [*NAMES, "mean", "target"]


def test_a_data_set_has_coverages_and_an_axis_of_lengths_for_each_model(rows):
    figure = drawn(figures.dataset(rows))
    coverages, ridge, forest, network = (figure.axes[i::4] for i in range(4))
    assert [axes.get_ylabel() for axes in coverages] == ["coverage"] * 2
    for axes, words in zip(coverages, ("m = 20, n = 10", "m = 10, n = 20"), strict=True):
        assert axes.get_title().partition("\n")[0] == f"synthetic: {words}, 4 splits"
        assert targets(axes) == [0.9]
        assert [text.get_text() for text in axes.texts] == ["not run"] * 2
    for axes in (*coverages, *ridge):
        assert len(white_circles(axes)) == len(NAMES)
    for axes in (*forest, *network):
        assert [text.get_text() for text in axes.texts] == ["not run"]


def test_one_length_far_out_does_not_squeeze_the_boxes(rows):
    far = [{**row, "length": 50.0} if row is rows[0] else row for row in rows]
    axes = drawn(figures.dataset(far)).axes[1]
    assert axes.get_ylim()[1] < 50
    assert axes.get_title() == "ridge (1 beyond)"


def test_very_low_coverages_are_counted_not_drawn(rows):
    low = [{**row, "coverage": 0.5} if row["method"] == SINGLE and row["split"] < 3 else row for row in rows]
    figure = drawn(figures.coverage(low))
    for axes in figure.axes:
        assert axes.get_ylim() == (0.8, 1.005)
        assert axes.get_title().endswith("(3 of 28 coverages below 0.8 are not shown)")
        assert not axes.texts  # no words among the whiskers


@pytest.mark.slow
def test_private_boxes_say_what_is_infeasible(tmp_path):
    scenario = Scenario("private", 5, 200, PRIVATE_METHODS)
    found = run(
        [poisson(100, 1000, 100)],
        [Ridge()],
        store=Store(tmp_path),
        n_splits=2,
        jobs=1,
        scenarios=lambda d: [scenario],
    )
    figure = drawn(figures.private(found))
    (axes,) = figure.axes
    assert targets(axes) == [0.9]
    labels = [text.get_text() for text in axes.get_xticklabels()]
    assert labels == [QQ, *[f"$\\varepsilon$ = {e}" for e in (10, 5, 1, 10, 5, 1)]]
    (words,) = axes.texts
    assert words.get_text() == "no plan:\ninfinite"
    assert words.get_position()[0] == labels.index("$\\varepsilon$ = 1")


def test_infinite_lengths_are_words_not_boxes():
    figure, ((axes,),) = panels(1, 1, (3, 3))
    boxes(axes, [[1.0, 2.0], [np.inf, np.inf]], ["red", "blue"], [0, 1])
    drawn(figure)
    assert len(axes.patches) == 1
    assert [text.get_text() for text in axes.texts] == ["infinite"]


def test_every_method_has_its_own_colour():
    assert len(set(COLOURS.values())) == len(COLOURS)
    assert {method.name for method in (*METHODS, *PRIVATE_METHODS)} <= set(COLOURS)
