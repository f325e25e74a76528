import math
from fractions import Fraction

import pytest

from fedconformal.privacy import Bins, Privacy
from fedconformal.privacy.analyses import Paper, Tight
from fedconformal.privacy.mechanisms import Exponential, PermuteAndFlip

BINS = Bins.uniform(0, 1, 100)


class TestArguments:
    @pytest.mark.parametrize("epsilon", [0, 1e-6, math.nan, 1e6])
    def test_epsilon(self, epsilon):
        with pytest.raises(ValueError, match=r"epsilon must be a number in \(1e-06, 100\]"):
            Privacy(epsilon=epsilon, bins=BINS)

    @pytest.mark.parametrize("epsilon", ["1", True])
    def test_an_epsilon_that_is_no_number(self, epsilon):
        with pytest.raises(TypeError, match=r"epsilon must be a number in \(1e-06, 100\]"):
            Privacy(epsilon=epsilon, bins=BINS)

    def test_the_rest(self):
        with pytest.raises(TypeError, match="bins must be Bins"):
            Privacy(epsilon=1, bins=[0, 1])
        with pytest.raises(ValueError, match=r"mechanism must be one of .*, got 'laplace'"):
            Privacy(epsilon=1, bins=BINS, mechanism="laplace")
        with pytest.raises(ValueError, match=r"analysis must be one of .*, got 'range'"):
            Privacy(epsilon=1, bins=BINS, analysis="range")
        with pytest.raises(ValueError, match="mechanism must be 'exponential' with the paper's analysis"):
            Privacy(epsilon=1, bins=BINS, analysis="paper", mechanism="permute-and-flip")


class TestRelease:
    def test_defaults(self):
        release = Privacy(epsilon=1.5, bins=BINS).release()
        assert (release.epsilon, release.n_bins, release.aim) == (Fraction(3, 2), 100, None)
        assert (release.mechanism, release.analysis) == (PermuteAndFlip(), Tight())

    def test_an_analysis_has_its_own_default_mechanism(self):
        release = Privacy(epsilon=1, bins=BINS, analysis="paper").release()
        assert (release.mechanism, release.analysis) == (Exponential(), Paper())
        assert Privacy(epsilon=1, bins=BINS, mechanism="exponential").release().mechanism == Exponential()

    @pytest.mark.parametrize(
        ("epsilon", "n_levels", "exact"),
        [(0.1, 1, Fraction(1, 10)), (1, 3, Fraction(1, 3)), (0.7, 7, Fraction(1, 10))],
    )
    def test_levels_share_epsilon_exactly(self, epsilon, n_levels, exact):
        assert Privacy(epsilon=epsilon, bins=BINS).release(n_levels).epsilon == exact

    @pytest.mark.parametrize(("n_levels", "error"), [(0, ValueError), (1.0, TypeError)])
    def test_levels_are_counted(self, n_levels, error):
        with pytest.raises(error, match="n_levels must be"):
            Privacy(epsilon=1, bins=BINS).release(n_levels)

    def test_fields_are_what_a_plan_holds(self):
        bins = Bins([0.5, 1.0], bounded=True)
        assert Privacy(epsilon=2, bins=bins, analysis="paper", one_hot=True).fields() == {
            "epsilon": 2.0,
            "mechanism": "exponential",
            "analysis": "paper",
            "edges": (0.5, 1.0),
            "bounded": True,
            "one_hot": True,
        }
