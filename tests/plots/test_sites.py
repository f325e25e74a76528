"""Coverage site by site."""

import numpy as np
import pytest

import fedconformal as fc


def test_sites_with_exact_intervals(lines):
    covered = np.r_[np.ones(9), np.zeros(1), np.ones(20)].astype(bool)
    sites = np.r_[np.repeat("A", 10), np.repeat("B", 20)]
    ax = fc.plots.SiteCoverageDisplay.from_covered(covered, sites, confidence_level=0.9).ax_
    low, high = fc.metrics.clopper_pearson(9, 10)
    (bars,) = ax.containers
    assert bars[0].get_xdata().tolist() == [0.9, 1.0]
    assert bars[2][0].get_segments()[0][:, 0].tolist() == pytest.approx([float(low), float(high)])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["A (n = 10)", "B (n = 20)"]
    assert "level 0.9" in lines(ax)
    assert ax.get_ylim() == (1.5, -0.5)
