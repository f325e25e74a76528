"""Plots by their structure: labels, lines, limits, and that they can be told apart without colour."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from matplotlib import pyplot

import fedconformal as fc
from fedconformal.laws import Summary, density


@pytest.fixture(autouse=True)
def close_figures():
    yield
    pyplot.close("all")


def lines(ax):
    return {line.get_label(): line for line in ax.get_lines()}


class TestCoverageLaw:
    @pytest.fixture
    def plan(self):
        return fc.plan(10, 79)

    def test_it_shows_target_mean_quantile_and_the_centralised_law(self, plan):
        ax = fc.plots.CoverageLawDisplay.from_plan(plan).ax_
        law = plan.law
        found = lines(ax)
        assert found["target 0.9"].get_xdata()[0] == 0.9
        assert found[f"mean {law.mean():.4f}"].get_xdata()[0] == law.mean()
        assert found[f"5 % quantile {law.ppf(0.05):.4f}"].get_xdata()[0] == law.ppf(0.05)
        assert {"this plan", "all scores in one place"} <= found.keys()
        assert ax.get_xlabel() == "coverage given the calibration data"
        assert ax.get_ylabel() == "density"
        assert ax.get_xlim()[0] < law.ppf(0.01)
        assert ax.get_xlim()[1] > law.ppf(0.99)
        assert ax.get_ylim()[0] == 0

    def test_the_curve_is_a_density(self, plan):
        x, y = lines(fc.plots.CoverageLawDisplay.from_plan(plan).ax_)["this plan"].get_data()
        assert np.sum(y) * (x[1] - x[0]) == pytest.approx(1, abs=0.003)
        middle = len(x) // 2
        step = (x[1] - x[0]) / 2
        exact = (plan.law.cdf(x[middle] + step) - plan.law.cdf(x[middle] - step)) / (2 * step)
        assert y[middle] == pytest.approx(exact)

    def test_lines_differ_without_colour(self, plan):
        found = lines(fc.plots.CoverageLawDisplay.from_plan(plan).ax_)
        looks = {(line.get_linestyle(), line.get_linewidth()) for line in found.values()}
        assert len(looks) == len(found)

    def test_a_calibration_is_shown_for_who_answered(self):
        plan = fc.plan(5, 40, confidence_level=[0.8, 0.9])
        reports = [fc.report(plan, np.arange(40.0), site=name) for name in "ABCD"]
        calibration = fc.calibrate(plan, reports)
        ax = fc.plots.CoverageLawDisplay.from_calibration(calibration, level=1).ax_
        assert f"mean {calibration.laws[1].mean():.4f}" in lines(ax)

    def test_the_given_axes_are_used(self, plan):
        _, ax = pyplot.subplots()
        assert fc.plots.CoverageLawDisplay.from_plan(plan, ax=ax).ax_ is ax

    @pytest.mark.filterwarnings("ignore::fedconformal.InfeasibleWarning")
    def test_an_infinite_threshold_is_a_line_at_one(self):
        found = lines(fc.plots.CoverageLawDisplay.from_plan(fc.plan(3, 2)).ax_)
        assert found["this plan: coverage 1 for sure"].get_xdata()[0] == 1

    def test_an_open_plan_has_no_law(self):
        with pytest.raises(ValueError, match="an open plan has no law yet"):
            fc.plots.CoverageLawDisplay.from_plan(fc.plan(confidence_level=0.9))


class TestCoverageTable:
    def test_it_shows_the_table_and_marks_the_pair(self):
        plan = fc.plan(10, 40)
        ax = fc.plots.CoverageTableDisplay.from_plan(plan).ax_
        l, k = plan.local_ranks[0], plan.server_rank
        (image,) = ax.get_images()
        assert np.array_equal(image.get_array(), fc.coverage_table(10, 40))
        label = f"chosen: l = {l}, k = {k}, M = {plan.law.mean():.4f}"
        assert (lines(ax)[label].get_xdata()[0], lines(ax)[label].get_ydata()[0]) == (k, l)
        assert (ax.get_xlim(), ax.get_ylim()) == ((0.5, 10.5), (40.5, 0.5))
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("server rank k", "local rank l")

    def test_the_border_parts_valid_from_invalid_pairs(self):
        ax = fc.plots.CoverageTableDisplay.from_plan(fc.plan(6, 20)).ax_
        border = ax.patches[-1].get_data().values
        table = fc.coverage_table(6, 20)
        for k, place in enumerate(border):
            below = int(place - 0.5)
            assert (table[:below, k] < 0.9).all()
            assert (table[below:, k] >= 0.9).all()

    @pytest.mark.filterwarnings("ignore::fedconformal.InfeasibleWarning")
    def test_without_a_pair_none_is_marked(self):
        ax = fc.plots.CoverageTableDisplay.from_plan(fc.plan(3, 2)).ax_
        assert not [label for label in lines(ax) if label.startswith("chosen")]

    def test_uneven_sites_have_no_table(self):
        with pytest.raises(ValueError, match="sites of one size"):
            fc.plots.CoverageTableDisplay.from_plan(fc.plan(n_points=[40, 50]))

    def test_a_huge_table_is_refused(self):
        with pytest.raises(ValueError, match="must be at most 4,000,000, got 100,000,000"):
            fc.plots.CoverageTableDisplay.from_plan(fc.plan(10_000, 10_000))


class TestIntervals:
    def test_truths_inside_and_outside_are_told_apart(self):
        intervals = np.array([[0.0, 2.0], [1.0, 3.0], [-np.inf, np.inf]])
        ax = fc.plots.IntervalDisplay.from_predictions([1.0, 2.0, 3.0], intervals, [1.5, 9.0, 100.0]).ax_
        found = lines(ax)
        inside, outside = found["truth inside (2 of 3)"], found["truth outside (1)"]
        assert inside.get_marker() != outside.get_marker()
        assert outside.get_ydata().tolist() == [9.0]
        assert ax.get_ylim()[0] < 0
        assert ax.get_ylim()[1] > 100
        assert ax.get_ylabel() == "outcome"

    def test_from_an_estimator(self):
        from sklearn.linear_model import LinearRegression

        rng = np.random.default_rng(0)
        X = rng.normal(size=(300, 2))
        y = X @ [1.0, 2.0] + rng.normal(size=300)
        model = fc.FederatedConformalRegressor(LinearRegression().fit(X[:50], y[:50]))
        model.conformalize(X[50:200], y[50:200], sites=np.arange(150) % 3)
        display = fc.plots.IntervalDisplay.from_estimator(model, X[200:], y[200:])
        prediction, intervals = model.predict_interval(X[200:])
        assert np.array_equal(display.prediction, prediction)
        assert np.array_equal(display.intervals, intervals[:, :, 0])

    @pytest.mark.parametrize(
        ("intervals", "truth", "words"),
        [([[0, 1, 2]], None, "intervals must have shape"), ([[0, 1]], [1, 2], "y_true must have shape")],
    )
    def test_wrong_shapes_are_named(self, intervals, truth, words):
        with pytest.raises(ValueError, match=words):
            fc.plots.IntervalDisplay.from_predictions([1.0], intervals, truth)

    def test_without_truths(self):
        ax = fc.plots.IntervalDisplay.from_predictions([1.0, 1.0], np.ones((2, 2, 1))).ax_
        assert set(lines(ax)) == {"prediction"}


def test_sites_with_exact_intervals():
    covered = np.r_[np.ones(9), np.zeros(1), np.ones(20)].astype(bool)
    sites = np.r_[np.repeat("A", 10), np.repeat("B", 20)]
    ax = fc.plots.SiteCoverageDisplay.from_covered(covered, sites, confidence_level=0.9).ax_
    low, high = fc.metrics.clopper_pearson(9, 10)
    (bars,) = ax.containers
    assert bars[0].get_xdata().tolist() == [0.9, 1.0]
    assert bars[2][0].get_segments()[0][:, 0].tolist() == pytest.approx([float(low), float(high)])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["A (n = 10)", "B (n = 20)"]
    assert "target 0.9" in lines(ax)
    assert ax.get_ylim() == (1.5, -0.5)


def test_privacy_against_coverage():
    bins = fc.Bins.uniform(0, 1, 20)
    display = fc.plots.PrivacyDisplay.from_federation(3, 60, bins=bins, epsilons=[5.0, 0.05, 2.0])
    ax = display.ax_
    curve = lines(ax)["private, to be expected"]
    assert curve.get_xdata().tolist() == [0.05, 2.0, 5.0]
    assert np.isnan(curve.get_ydata()[0])
    assert curve.get_ydata()[1] > curve.get_ydata()[2] > 0.9
    assert lines(ax)["no finite threshold"].get_xdata().tolist() == [0.05]
    assert ax.get_xscale() == "log"
    assert {"without privacy", "target 0.9"} <= lines(ax).keys()


class TestSummary:
    def test_the_numbers_are_the_laws(self):
        law = fc.CoverageLaw(5, 20, 19, 3)
        summary = Summary(law, 0.9)
        assert (summary.mean, summary.std) == (law.mean(), law.std())
        assert summary.unlucky == law.ppf(0.05)
        assert summary.reached == law.sf(0.9)
        assert summary.window == (law.ppf(0.001), law.ppf(0.999))

    def test_what_is_certain_has_no_luck(self):
        summary = Summary(fc.CoverageLaw(3, 2, 2, 4), 0.9)
        assert summary.is_certain
        assert (summary.mean, summary.reached, summary.unlucky) == (1, 1, 1)

    def test_a_density_adds_up(self):
        edges = np.linspace(0, 1, 101)
        assert density(fc.CoverageLaw(3, 10, 9, 2), edges).sum() / 100 == pytest.approx(1)

    def test_one_pooled_site_is_split_conformal(self):
        law = fc.baselines.coverage_law(99, 0.9)
        assert law.mean() == pytest.approx(0.9)
        assert fc.baselines.coverage_law(5, 0.9).mean() == 1
