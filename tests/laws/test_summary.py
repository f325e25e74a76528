"""What is shown of a coverage law: a few numbers and a density."""

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.laws import Summary, density


@pytest.mark.parametrize(
    "law",
    [
        fc.CoverageLaw(5, 20, 19, 3),
        fc.CoverageLaw(n_points=[20, 30], local_rank=[(18, 19), (26, 28)], server_rank=5, weights=[2, 3]),
    ],
    ids=repr,
)
def test_the_numbers_are_the_laws(law):
    summary = Summary(law, 0.9)
    assert (summary.mean, summary.std) == (law.mean(), law.std())
    assert summary.low == law.ppf(0.05)
    assert summary.reached == law.sf(0.9)
    assert summary.window == (law.ppf(0.001), law.ppf(0.999))
    assert not summary.is_certain


def test_what_is_certain_has_no_luck():
    summary = Summary(fc.CoverageLaw(3, 2, 2, 4), 0.9)
    assert summary.is_certain
    assert (summary.mean, summary.reached, summary.low) == (1, 1, 1)


def test_a_density_adds_up():
    edges = np.linspace(0, 1, 101)
    assert density(fc.CoverageLaw(3, 10, 9, 2), edges).sum() / 100 == pytest.approx(1)
