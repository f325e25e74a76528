"""What privacy costs in coverage."""

import numpy as np

import fedconformal as fc


def test_privacy_against_coverage(lines):
    bins = fc.Bins.uniform(0, 1, 20)
    display = fc.plots.PrivacyDisplay.from_federation(3, 60, bins=bins, epsilons=[5.0, 0.05, 2.0])
    ax = display.ax_
    curve = lines(ax)["private, to be expected"]
    assert curve.get_xdata().tolist() == [0.05, 2.0, 5.0]
    assert np.isnan(curve.get_ydata()[0])
    assert curve.get_ydata()[1] > curve.get_ydata()[2] > 0.9
    assert lines(ax)["no finite threshold"].get_xdata().tolist() == [0.05]
    assert ax.get_xscale() == "log"
    assert {"without privacy", "level 0.9"} <= lines(ax).keys()
