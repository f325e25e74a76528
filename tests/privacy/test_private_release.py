from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from fedconformal.laws import CoverageLaw
from fedconformal.privacy import Bins, Privacy, PrivateRelease, simulate_releases
from fedconformal.privacy.analyses import Paper, Tight
from fedconformal.privacy.mechanisms import Exponential, PermuteAndFlip
from support import hoeffding_limit

HALF, NINE = Fraction(1, 2), Fraction(9, 10)
RELEASES = [
    PrivateRelease(Fraction(3, 2), 5, mechanism, analysis, analysis.usual_aim(quantile))
    for mechanism, analysis, quantile in product(
        (PermuteAndFlip(), Exponential()), (Tight(), Paper()), (HALF, NINE)
    )
]
STEEP = Fraction(3, 4)


class TestValues:
    @pytest.mark.parametrize("quantile", [Fraction(0), Fraction(1)])
    def test_aims_are_quantiles(self, quantile):
        with pytest.raises(ValueError, match=r"quantile must be in \(0, 1\)"):
            RELEASES[0].aiming_at(quantile, STEEP)

    def test_a_release_without_an_aim_draws_nothing(self):
        release = Privacy(epsilon=1, bins=Bins([0, 1])).release()
        for use in (
            lambda: release.scale,
            lambda: release.rank(5),
            lambda: release.tail(5),
            lambda: release.pmf([1, 2]),
            lambda: release.prepare([1, 2]),
            lambda: simulate_releases([1, 2], release, rng=np.random.default_rng(0)),
        ):
            with pytest.raises(ValueError, match="no aim yet: see aiming_at"):
                use()

    def test_the_rank_that_is_aimed_at(self):
        assert [RELEASES[1].rank(n) for n in (1, 9, 10, 11, 100)] == [1, 9, 9, 10, 90]
        assert [RELEASES[0].rank(n) for n in (1, 2, 3)] == [1, 1, 2]

    @pytest.mark.parametrize("counts", [[1, 2], np.ones((5, 4), int), 7])
    def test_counts_must_be_of_its_bins(self, counts):
        for use in (RELEASES[0].pmf, RELEASES[0].prepare, RELEASES[0].rank_errors):
            with pytest.raises(ValueError, match="counts must be of 5 bins, got shape"):
                use(counts)


class TestNumbers:
    @pytest.mark.parametrize("release", RELEASES, ids=str)
    def test_bounds_are_those_of_the_tail(self, release):
        assert np.array_equal(release.bounds(30, np.arange(1, 31)), release.tail(30)[1:-1])

    def test_what_can_be_refused_is_refused_before_the_draw(self):
        with pytest.raises(ValueError, match=r"a flat array, got shape \(2, 5\)"):
            RELEASES[0].prepare(np.ones((2, 5), int))
        drawn = {RELEASES[0].prepare([0, 0, 0, 9, 0])() for _ in range(5)}
        assert drawn <= set(range(5))


class TestSites:
    def test_blocks_have_the_tails_of_their_sizes(self):
        release, sizes = RELEASES[1], np.array([20, 35])
        for tail_, n in zip(release.sites(sizes).tails, sizes, strict=True):
            assert np.array_equal(tail_, release.tail(int(n)))

    @pytest.mark.parametrize("release", [r for r in RELEASES if r.quantile == NINE], ids=str)
    def test_the_bound_holds_for_all_kinds_of_scores(self, release):
        """Mean coverage of the middle release over 2,000 runs, by Hoeffding's inequality."""
        n, m, k, runs, rng = 60, 3, 2, 2000, np.random.default_rng(2)
        law = CoverageLaw.of_sites(release.sites(np.array([n])), np.array([m]), server_rank=k)
        for masses in ([0.2] * 5, [0.9, 0, 0, 0.1, 0], [0, 0, 1, 0, 0], [0.5, 0.3, 0.1, 0.05, 0.05]):
            counts = rng.multinomial(n, masses, size=(runs, m))
            bins = np.sort(simulate_releases(counts, release, rng=rng), axis=1)[:, k - 1]
            coverage = np.minimum(np.cumsum(masses), 1.0)[bins]
            assert coverage.mean() > law.mean() - hoeffding_limit(runs)
