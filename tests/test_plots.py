"""The pictures: labels, lines, limits, and that they can be told apart without
colour.
"""

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot
from sklearn.linear_model import LinearRegression

import fedconformal as fc
from fedconformal.metrics import clopper_pearson
from fedconformal.plots import GREY

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    pyplot.close("all")


@pytest.fixture
def lines():
    """Return the lines of some axes, by label."""
    return lambda ax: {line.get_label(): line for line in ax.get_lines()}


@pytest.fixture
def plan():
    return fc.plan(10, 79, criterion="marginal")


def test_it_shows_level_mean_quantile_and_the_centralised_law(plan, lines):
    ax = fc.plots.CoverageLawDisplay.from_plan(plan).ax_
    law = plan.law
    found = lines(ax)
    assert found["level 0.9"].get_xdata()[0] == 0.9
    assert found[f"mean {law.mean():.4f}"].get_xdata()[0] == law.mean()
    assert found[f"5 % quantile {law.ppf(0.05):.4f}"].get_xdata()[0] == law.ppf(0.05)
    assert {"this plan", "all scores in one place"} <= found.keys()
    assert ax.get_xlabel() == "coverage given the calibration data"
    assert ax.get_ylabel() == "density"
    assert ax.get_xlim()[0] < law.ppf(0.01)
    assert ax.get_xlim()[1] > law.ppf(0.99)
    assert ax.get_ylim()[0] == 0


def test_the_curve_is_a_density(plan, lines):
    x, y = lines(fc.plots.CoverageLawDisplay.from_plan(plan).ax_)[
        "this plan"
    ].get_data()
    assert np.sum(y) * (x[1] - x[0]) == pytest.approx(1, abs=0.003)
    middle = len(x) // 2
    step = (x[1] - x[0]) / 2
    exact = (plan.law.cdf(x[middle] + step) - plan.law.cdf(x[middle] - step)) / (
        2 * step
    )
    assert y[middle] == pytest.approx(exact)


def test_lines_differ_without_colour(plan, lines):
    found = lines(fc.plots.CoverageLawDisplay.from_plan(plan).ax_)
    looks = {(line.get_linestyle(), line.get_linewidth()) for line in found.values()}
    assert len(looks) == len(found)


def test_a_calibration_is_shown_for_who_answered(lines):
    plan = fc.plan(5, 40, confidence_level=[0.8, 0.9])
    reports = [fc.report(plan, np.arange(40.0), site=name) for name in "ABCD"]
    calibration = fc.calibrate(plan, reports)
    display = fc.plots.CoverageLawDisplay.from_calibration(calibration, level=1)
    assert f"mean {calibration[0.9].law.mean():.4f}" in lines(display.ax_)
    same = fc.plots.CoverageLawDisplay.from_calibration(calibration[0.9])
    assert same.law.mean() == display.law.mean()
    assert display.beside.mean() == fc.baselines.coverage_law(4 * 40, 0.9).mean()


def test_pooling_is_no_comparison_for_a_promise_to_each_site(lines):
    display = fc.plots.CoverageLawDisplay.from_plan(fc.plan(5, 40, promise="each-site"))
    assert display.beside is None
    assert {"this plan (lower bound)"} <= lines(display.ax_).keys()
    assert "all scores in one place" not in lines(display.ax_)


def test_private_and_exact_curves_are_lower_bounds(lines):
    bins = fc.Bins.uniform(0, 1, 20)
    for options in ({"curve": bins}, {"privacy": fc.Privacy(2.0, bins)}):
        plan = fc.plan(5, 100, **options)
        found = lines(fc.plots.CoverageLawDisplay.from_plan(plan).ax_)
        assert {
            "this plan (lower bound)",
            f"mean {plan.law.mean():.4f}",
        } <= found.keys()


@pytest.mark.filterwarnings("ignore::fedconformal.InfeasibleWarning")
def test_an_infinite_threshold_is_a_line_at_one(lines):
    found = lines(fc.plots.CoverageLawDisplay.from_plan(fc.plan(3, 2)).ax_)
    assert found["this plan: coverage 1 for sure"].get_xdata()[0] == 1


def test_what_has_no_distribution_is_named():
    with pytest.raises(ValueError, match="an open plan has no distribution yet"):
        fc.plots.CoverageLawDisplay.from_plan(fc.plan(confidence_level=0.9))
    paper = fc.Privacy(10.0, fc.Bins.uniform(0, 1, 20), analysis="paper")
    for plan in (fc.plan(5, 40, promise="mixture"), fc.plan(5, 200, privacy=paper)):
        with pytest.raises(
            ValueError, match="has a guarantee here, and no distribution to plot"
        ):
            fc.plots.CoverageLawDisplay.from_plan(plan)


def test_a_group_that_nobody_answered_for_has_no_law():
    plan = fc.plan(groups={"adult": None, "child": None}, n_sites=["A"])
    report = fc.report(plan, np.arange(30.0), groups=["adult"] * 30, site="A")
    calibration = fc.calibrate(plan, [report])
    with pytest.raises(ValueError, match="too few sites answered"):
        fc.plots.CoverageLawDisplay.from_calibration(calibration["child"])


def test_it_shows_the_table_and_marks_the_pair(lines):
    plan = fc.plan(10, 40, criterion="marginal")
    ax = fc.plots.CoverageTableDisplay.from_plan(plan).ax_
    l, k = plan.local_ranks[0], plan.server_rank
    (image,) = ax.get_images()
    assert np.array_equal(image.get_array(), fc.coverage_table(10, 40))
    label = f"chosen: l = {l}, k = {k}, M = {plan.law.mean():.4f}"
    assert (lines(ax)[label].get_xdata()[0], lines(ax)[label].get_ydata()[0]) == (k, l)
    assert (ax.get_xlim(), ax.get_ylim()) == ((0.5, 10.5), (40.5, 0.5))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("server rank k", "local rank l")


def test_the_border_parts_valid_from_invalid_pairs():
    ax = fc.plots.CoverageTableDisplay.from_plan(fc.plan(6, 20)).ax_
    border = ax.patches[-1].get_data().values
    table = fc.coverage_table(6, 20)
    for k, place in enumerate(border):
        below = int(place - 0.5)
        assert (table[:below, k] < 0.9).all()
        assert (table[below:, k] >= 0.9).all()


@pytest.mark.filterwarnings("ignore::fedconformal.InfeasibleWarning")
def test_without_a_pair_none_is_marked(lines):
    ax = fc.plots.CoverageTableDisplay.from_plan(fc.plan(3, 2)).ax_
    assert not [label for label in lines(ax) if label.startswith("chosen")]


def test_uneven_open_and_private_plans_have_no_table():
    bins = fc.Bins.uniform(0, 1, 20)
    privacies = [
        fc.Privacy(epsilon=9.0, bins=bins, analysis=analysis)
        for analysis in ("curve", "paper")
    ]
    private = [fc.plan(5, 200, privacy=privacy) for privacy in privacies]
    for plan in (fc.plan(n_points=[40, 50]), fc.plan(n_sites=3), *private):
        with pytest.raises(ValueError, match="sites of one size"):
            fc.plots.CoverageTableDisplay.from_plan(plan)


def test_a_huge_table_is_refused():
    with pytest.raises(ValueError, match="must be at most 4,000,000, got 100,000,000"):
        fc.plots.CoverageTableDisplay.from_plan(fc.plan(10_000, 10_000))


def test_sites_with_exact_intervals(lines):
    covered = np.r_[np.ones(9), np.zeros(1), np.ones(20)].astype(bool)
    sites = np.r_[np.repeat("A", 10), np.repeat("B", 20)]
    ax = fc.plots.SiteCoverageDisplay.from_covered(
        covered, sites, confidence_level=0.9
    ).ax_
    low, high = clopper_pearson(9, 10)
    (bars,) = ax.containers
    assert bars[0].get_xdata().tolist() == [0.9, 1.0]
    assert bars[2][0].get_segments()[0][:, 0].tolist() == pytest.approx(
        [float(low), float(high)]
    )
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        "A (n = 10)",
        "B (n = 20)",
    ]
    assert "level 0.9" in lines(ax)
    assert ax.get_ylim() == (1.5, -0.5)


def test_a_watch_has_coverage_above_evidence(lines):
    rng = np.random.default_rng(0)
    calibration = fc.conformalize({"A": rng.random(200), "B": rng.random(200)})
    checks = [
        fc.monitoring.answer(
            calibration, scale * rng.random(100), site=site, period=f"2027-0{month}"
        )
        for site, scale in {"A": 1.0, "B": 1.3}.items()
        for month in (1, 2, 3)
    ]
    display = fc.plots.WatchDisplay.from_checks(calibration, checks)
    above, below = display.ax_
    assert {"all sites together", "A", "B", "level 0.9"} <= set(lines(above))
    assert "alarm at 20" in lines(below)
    row = display.watch.rows[2]
    assert row.site == "B"
    assert any(
        list(line.get_ydata()) == [point.evidence for point in row.points]
        for line in below.lines
    )
    assert (
        len([line for line in below.lines if line.get_marker() == "X"])
        == len(display.watch.alarms)
        == 2
    )
    assert len(above.collections) == 3


def luminance(colour):
    """Relative luminance as the web's accessibility guidelines define it."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    ]
    return sum(
        weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True)
    )


def test_grey_can_be_read_on_white():
    assert 1.05 / (luminance(GREY) + 0.05) >= 7


# -- prediction intervals --------------------------------------------------------------


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    return X, X @ [1.0, 2.0] + rng.normal(size=300)


def test_truths_inside_and_outside_are_told_apart(lines):
    intervals = np.array([[0.0, 2.0], [1.0, 3.0], [-np.inf, np.inf]])
    ax = fc.plots.IntervalDisplay.from_predictions(
        [1.0, 2.0, 3.0], intervals, [1.5, 9.0, 100.0]
    ).ax_
    found = lines(ax)
    inside, outside = found["truth inside (2 of 3)"], found["truth outside (1)"]
    assert inside.get_marker() != outside.get_marker()
    assert outside.get_ydata().tolist() == [9.0]
    assert ax.get_ylim()[0] < 0
    assert ax.get_ylim()[1] > 100
    assert ax.get_ylabel() == "outcome"


def test_truths_keep_their_places_in_the_order_of_the_prediction(lines):
    intervals = np.array([[2.0, 4.0], [0.0, 2.0]])
    ax = fc.plots.IntervalDisplay.from_predictions(
        [3.0, 1.0], intervals, [3.5, 7.0]
    ).ax_
    found = lines(ax)
    assert found["truth outside (1)"].get_xydata().tolist() == [[0.0, 7.0]]
    assert found["truth inside (1 of 2)"].get_xydata().tolist() == [[1.0, 3.5]]


def test_from_an_estimator(rows):
    X, y = rows
    model = fc.FederatedConformalRegressor(LinearRegression().fit(X[:50], y[:50]))
    model.conformalize(X[50:200], y[50:200], sites=np.arange(150) % 3)
    display = fc.plots.IntervalDisplay.from_estimator(model, X[200:], y[200:])
    prediction, intervals = model.predict_interval(X[200:])
    assert np.array_equal(display.prediction, prediction)
    assert np.array_equal(display.intervals, intervals[:, :, 0])
    model.set_params(confidence_level=[0.8, 0.5]).conformalize(
        X[50:200], y[50:200], sites=np.arange(150) % 3
    )
    display = fc.plots.IntervalDisplay.from_estimator(model, X[200:], level=1)
    assert display.ax_.get_legend_handles_labels()[1][0] == "interval, level 0.5"


@pytest.mark.parametrize(
    ("intervals", "truth", "words"),
    [
        ([[0, 1, 2]], None, "intervals must have shape"),
        ([[0, 1]], [1, 2], "y_true must have shape"),
    ],
)
def test_wrong_shapes_are_named(intervals, truth, words):
    with pytest.raises(ValueError, match=words):
        fc.plots.IntervalDisplay.from_predictions([1.0], intervals, truth)


def test_without_truths(lines):
    ax = fc.plots.IntervalDisplay.from_predictions([1.0, 1.0], np.ones((2, 2, 1))).ax_
    assert set(lines(ax)) == {"prediction"}


def test_empty_intervals_are_not_drawn():
    display = fc.plots.IntervalDisplay.from_predictions(
        [1.0, 2.0], [[0.0, 2.0], [np.inf, -np.inf]]
    )
    [bars] = display.ax_.collections
    assert [np.isnan(bar.vertices[:, 1]).all() for bar in bars.get_paths()] == [
        False,
        True,
    ]
