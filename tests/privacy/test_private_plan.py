from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from fedconformal import privacy
from fedconformal.laws import CoverageLaw
from fedconformal.privacy import Bins, Cost, Privacy, PrivateRelease, Releases, even, expected_coverage

BINS = Bins.uniform(0, 1, 10)


@dataclass(frozen=True)
class Design:
    """Five sites of 100 points at one level, private or not."""

    level: Fraction
    release: PrivateRelease | None

    @property
    def goal(self):
        return SimpleNamespace(level=self.level)

    def law(self):
        return CoverageLaw(5, 100, 92, 3)

    def expected_law(self, masses=None):
        masses = even(10) if masses is None else masses
        releases = [Releases(100, masses, self.release)]
        return expected_coverage(releases, self.release, np.array([5]), 3)

    def without_privacy(self):
        return Design(self.level, None)


def plan_of(*levels):
    release = Privacy(epsilon=2.0, bins=BINS).release(len(levels))
    releases = tuple(release.aiming_at(level, Fraction(7, 10)) for level in levels)
    designs = tuple(Design(*pair) for pair in zip(levels, releases, strict=True))
    return SimpleNamespace(bins=BINS, releases=releases, designs=designs)


ONE, TWO = plan_of(Fraction(9, 10)), plan_of(Fraction(4, 5), Fraction(9, 10))
PUBLIC = SimpleNamespace(bins=None, releases=None, designs=())
SCORES = np.random.default_rng(1).random(100)


class TestPmf:
    def test_is_a_distribution_over_the_bins(self):
        mass = privacy.pmf(SCORES, ONE)
        assert mass.shape == (10,)
        assert mass.sum() == pytest.approx(1)
        assert np.array_equal(mass, ONE.releases[0].pmf(BINS.place(SCORES)))

    def test_has_a_row_per_level(self):
        mass = privacy.pmf(SCORES, TWO)
        assert mass.shape == (2, 10)
        assert mass.sum(axis=1) == pytest.approx([1, 1])


class TestOneHot:
    def test_has_a_row_per_level_with_a_single_one(self):
        vectors = privacy.one_hot((3, 9), TWO)
        assert vectors.shape == (2, 10)
        assert vectors.dtype == np.int64
        assert np.argwhere(vectors).tolist() == [[0, 3], [1, 9]]
        assert vectors.sum() == 2


class TestExpectedCost:
    def test_compares_each_level_with_its_plan_without_privacy(self):
        costs = privacy.expected_cost(TWO)
        assert [type(cost) for cost in costs] == [Cost, Cost]
        assert [cost.confidence_level for cost in costs] == [0.8, 0.9]
        assert {cost.without for cost in costs} == {CoverageLaw(5, 100, 92, 3).mean()}
        assert [cost.expected for cost in costs] == [design.expected_law().mean() for design in TWO.designs]
        assert costs[0].expected < costs[1].expected
        assert [cost.error for cost in costs] == [design.expected_law().error for design in TWO.designs]

    def test_scores_may_have_a_shape_or_be_a_public_sample(self):
        (design,) = ONE.designs
        for scores, masses in (
            ("uniform", np.full(10, 0.1)),
            ([0.05, 0.55, 0.55, 7.0], np.array([1, 0, 0, 0, 0, 2, 0, 0, 0, 1]) / 4),
        ):
            (cost,) = privacy.expected_cost(ONE, scores)
            assert cost.expected == pytest.approx(design.expected_law(masses).mean(), abs=1e-12)
        with pytest.raises(ValueError, match="scores must be one of"):
            privacy.expected_cost(ONE, "square")


@pytest.mark.parametrize(
    "use",
    [
        lambda: privacy.pmf([1.0], PUBLIC),
        lambda: privacy.one_hot((0,), PUBLIC),
        lambda: privacy.expected_cost(PUBLIC),
    ],
)
def test_a_plan_that_is_not_private_is_refused(use):
    with pytest.raises(ValueError, match=r"this plan is not private: make it with privacy=Privacy\(...\)"):
        use()
