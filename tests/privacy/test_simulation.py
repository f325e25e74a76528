import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

from fedconformal.privacy import PrivateRelease, simulate_releases
from fedconformal.privacy.analyses import Paper, Tight
from fedconformal.privacy.mechanisms import Exponential, PermuteAndFlip
from privacy.histograms import counts_alarm

NINE = Fraction(9, 10)


@pytest.mark.parametrize(
    ("mechanism", "analysis"), [(PermuteAndFlip(), Tight()), (Exponential(), Paper())], ids=repr
)
def test_draws_follow_the_pmf(mechanism, analysis):
    """10^5 draws for each of three sites; a right program fails with probability 1e-7 for each."""
    table = np.array([[1, 6, 2, 3, 0, 4], [0, 0, 0, 0, 0, 9], [5, 5, 5, 5, 5, 5]])
    release = PrivateRelease(Fraction(13, 10), 6, mechanism, analysis, analysis.usual_aim(NINE))
    rng = np.random.default_rng(0)
    drawn = simulate_releases(np.broadcast_to(table, (100_000, 3, 6)), release, rng=rng)
    assert drawn.shape == (100_000, 3)
    for site, p in enumerate(release.pmf(table)):
        assert not counts_alarm(np.bincount(drawn[:, site], minlength=6), p)


def test_bad_input():
    release = PrivateRelease(Fraction(1), 2, Exponential(), Tight(), Tight().usual_aim(NINE))
    with pytest.raises(TypeError, match=r"rng must be a numpy.random.Generator, got 7"):
        simulate_releases([1, 2], release, rng=7)
    with pytest.raises(ValueError, match=r"counts must be of 2 bins, got shape \(3,\)"):
        simulate_releases([1, 2, 3], release, rng=np.random.default_rng(0))


@pytest.mark.slow
def test_it_is_not_imported_unless_asked_for():
    """Nothing that a site runs loads it: neither the package nor this room."""
    look = "import sys, fedconformal.privacy; print('fedconformal.privacy._simulation' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"
