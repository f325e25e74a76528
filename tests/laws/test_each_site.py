"""What holds for every site when each is promised its own."""

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.laws import EachSiteLaw


@pytest.fixture
def law():
    return EachSiteLaw([(20, 19), (50, 46), (20, 19)])


def test_every_method_gives_the_worst_of_the_sites(law):
    alone = [fc.CoverageLaw(1, 20, 19, 1), fc.CoverageLaw(1, 50, 46, 1)]
    c = np.array([0.8, 0.9, 0.95])
    assert law.mean() == min(one.mean() for one in alone) == pytest.approx(min(19 / 21, 46 / 51))
    assert law.std() == max(one.std() for one in alone)
    assert (law.cdf(c) == np.max([one.cdf(c) for one in alone], axis=0)).all()
    assert (law.sf(c) == np.min([one.sf(c) for one in alone], axis=0)).all()
    assert (law.ppf(c) == np.min([one.ppf(c) for one in alone], axis=0)).all()


def test_draws_are_of_the_worst_case(law):
    draws = law.rvs((2, 3), rng=1)
    uniform = np.random.default_rng(1).random((2, 3))
    assert (draws == law.ppf(uniform)).all()


def test_kinds_are_told_once(law):
    assert repr(law) == "EachSiteLaw([(20, 19), (50, 46)])"


def test_a_site_too_small_is_covered_surely():
    assert EachSiteLaw([(5, 6)]).mean() == 1
