"""The table of marginal coverages."""

import numpy as np
import pytest

import fedconformal as fc


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
    privacy = fc.Privacy(epsilon=5.0, bins=fc.Bins.uniform(0, 1, 10))
    for plan in (fc.plan(n_points=[40, 50]), fc.plan(n_sites=3), fc.plan(5, 200, privacy=privacy)):
        with pytest.raises(ValueError, match="sites of one size"):
            fc.plots.CoverageTableDisplay.from_plan(plan)


def test_a_huge_table_is_refused():
    with pytest.raises(ValueError, match="must be at most 4,000,000, got 100,000,000"):
        fc.plots.CoverageTableDisplay.from_plan(fc.plan(10_000, 10_000))
