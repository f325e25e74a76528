"""How many cases a check needs."""

import numpy as np
import pytest
from scipy import stats

from fedconformal.heterogeneity import cases_needed


@pytest.mark.parametrize(("level", "low"), [(0.9, 0.8), (0.9, 0.85), (0.95, 0.9), (0.5, 0.2), (0.99, 0.9)])
def test_cases_needed_is_the_smallest_number(level, low):
    def enough(n):
        p = stats.binom.cdf(np.arange(n + 1), n, level)
        critical = int(np.searchsorted(p, 0.05, side="right")) - 1
        return critical >= 0 and stats.binom.cdf(critical, n, low) >= 0.8

    assert cases_needed(level, low) == next(n for n in range(1, 10_000) if enough(n))


def test_differences_too_small_to_find_are_refused():
    with pytest.raises(ValueError, match="more than 30,000 cases"):
        cases_needed(0.9, 0.8999)
    with pytest.raises(ValueError, match="coverage must be"):
        cases_needed(0.9, 0.9)
