"""The law of coverage: labels, lines, limits, and that they can be told apart without colour."""

import numpy as np
import pytest
from matplotlib import pyplot

import fedconformal as fc


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
    x, y = lines(fc.plots.CoverageLawDisplay.from_plan(plan).ax_)["this plan"].get_data()
    assert np.sum(y) * (x[1] - x[0]) == pytest.approx(1, abs=0.003)
    middle = len(x) // 2
    step = (x[1] - x[0]) / 2
    exact = (plan.law.cdf(x[middle] + step) - plan.law.cdf(x[middle] - step)) / (2 * step)
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
    assert f"mean {calibration.laws[1].mean():.4f}" in lines(display.ax_)
    assert display.beside.mean() == fc.baselines.coverage_law(4 * 40, 0.9).mean()


def test_pooling_is_no_comparison_for_a_promise_to_each_site(lines):
    display = fc.plots.CoverageLawDisplay.from_plan(fc.plan(5, 40, promise="each-site"))
    assert display.beside is None
    assert "all scores in one place" not in lines(display.ax_)


def test_the_given_axes_are_used(plan):
    _, ax = pyplot.subplots()
    assert fc.plots.CoverageLawDisplay.from_plan(plan, ax=ax).ax_ is ax


@pytest.mark.filterwarnings("ignore::fedconformal.InfeasibleWarning")
def test_an_infinite_threshold_is_a_line_at_one(lines):
    found = lines(fc.plots.CoverageLawDisplay.from_plan(fc.plan(3, 2)).ax_)
    assert found["this plan: coverage 1 for sure"].get_xdata()[0] == 1


def test_an_open_plan_has_no_law():
    with pytest.raises(ValueError, match="an open plan has no law yet"):
        fc.plots.CoverageLawDisplay.from_plan(fc.plan(confidence_level=0.9))


def test_one_group_of_several(lines):
    plan = fc.plan(groups={"adult": {"A": 60, "B": 80}, "child": {"A": 40}})
    assert f"mean {plan['child'].law.mean():.4f}" in lines(
        fc.plots.CoverageLawDisplay.from_plan(plan["child"]).ax_
    )
    with pytest.raises(ValueError, match=r"this plan has groups: .* plan\['adult'\]"):
        fc.plots.CoverageLawDisplay.from_plan(plan)


def test_a_group_that_nobody_answered_for_has_no_law():
    plan = fc.plan(groups={"adult": None, "child": None}, sites=["A"])
    report = fc.report(plan, np.arange(30.0), groups=["adult"] * 30, site="A")
    calibration = fc.calibrate(plan, [report])
    with pytest.raises(ValueError, match="too few sites answered"):
        fc.plots.CoverageLawDisplay.from_calibration(calibration["child"])
