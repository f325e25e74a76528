"""An analysis is one class: ours, the paper's, and one that somebody brings."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest

from fedconformal.laws import MEAN_ERROR, CoverageLaw, Federation, coverage_table
from fedconformal.privacy import (
    ANALYSES,
    Balanced,
    Bins,
    Privacy,
    PrivateChoice,
    PrivateRelease,
    PrivateSearch,
    Releases,
    Slopes,
    even,
    expected_coverage,
)
from fedconformal.privacy.analyses import Paper, Tight
from fedconformal.privacy.mechanisms import Exponential, PermuteAndFlip

BINS = Bins.uniform(0, 1, 100)
LEVEL = Fraction(9, 10)
GAMMAS = [10 ** (-i / 60) for i in range(1, 361)]


table_of = cache(coverage_table)


@dataclass(frozen=True)
class Search:
    """Equal sites under the marginal criterion, by the laws themselves."""

    n_sites: int
    n: int
    release: PrivateRelease
    max_faulty: int = 0
    level: Fraction = LEVEL
    finest: int = 500

    @property
    def sizes(self):
        return np.array([self.n])

    @property
    def ranks(self):
        return range(self.max_faulty + 1, self.n_sites - self.max_faulty + 1)

    @property
    def judged(self):
        return self.ranks

    def is_valid(self, aim, k):
        sites = self.release.aimed(aim).sites(self.sizes)
        law = Federation(sites, np.array([self.n_sites]), self.max_faulty)
        return bool(law.moments(np.array([k]))[0][0] > float(self.level) + MEAN_ERROR)

    def seems_valid(self, aim, k):
        return self.is_valid(aim, k)

    def expected(self, aim, k):
        releases = [Releases(self.n, even(self.release.n_bins), self.release)]
        law = expected_coverage(releases, self.release.aimed(aim), np.array([self.n_sites]), k)
        return law.mean(), law.mean()

    def exact_ranks(self, level):
        table = table_of(self.n_sites, self.n)
        if table[-1, -1] < level:
            return None
        l, k = np.unravel_index(np.argmin(np.where(table < level, 2.0, table)), table.shape)
        return int(l) + 1, int(k) + 1

    def exact_mean(self, local_rank, server_rank):
        return float(table_of(self.n_sites, self.n)[local_rank - 1, server_rank - 1])


def search_of(m, n, epsilon, analysis="tight", n_bins=100, **options):
    bins = Bins.uniform(0, 1, n_bins)
    search: PrivateSearch = Search(
        m, n, Privacy(epsilon=epsilon, bins=bins, analysis=analysis).release(), **options
    )
    return search


@cache
def papers_choice(m, n, epsilon):
    """What the paper's analysis chooses; it takes seconds, and more than one test looks at it."""
    return Paper().choose(search_of(m, n, epsilon, "paper"))


class TestRegistry:
    def test_one_of_your_own(self):
        @ANALYSES.register
        class Wasteful(Tight):
            name = "wasteful"

            def width(self, aim):
                return 3 * aim.change

        try:
            release = Privacy(epsilon=1, bins=BINS, analysis="wasteful").release()
            release = release.aiming_at(LEVEL, Fraction(7, 10))
            assert (release.scale, release.analysis) == (30.0, Wasteful())
            assert release.pmf(np.full(100, 5)).sum() == pytest.approx(1)
            assert release.prepare(np.full(100, 5))() in range(100)
        finally:
            ANALYSES.unregister("wasteful")
        assert "wasteful" not in ANALYSES


class TestAim:
    def test_slopes_are_free_or_follow_from_the_quantile(self):
        quantile, slope = Fraction(9, 10), Fraction(3, 4)
        assert Tight().aim(quantile, slope) == Slopes(quantile, slope)
        assert Paper().aim(quantile) == Balanced(quantile)
        assert Tight().usual_aim(quantile).quantile == Paper().usual_aim(quantile).quantile == quantile
        with pytest.raises(ValueError, match=r"slope must be a fraction in .* the tight analysis, got None"):
            Tight().aim(quantile)
        with pytest.raises(ValueError, match="slope must be left out with the paper's analysis, got 3/4"):
            Paper().aim(quantile, slope)


class TestCheck:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"mechanism": PermuteAndFlip()}, "mechanism must be 'exponential' .* got 'permute-and-flip'"),
            ({"criterion": "stable"}, "criterion must be 'marginal' .* got 'stable'"),
            ({"n_sizes": 2}, "n_points must be the same at all sites .* got 2 sizes"),
            ({"max_faulty": 1}, "max_faulty must be 0 .* no faulty sites, got 1"),
        ],
    )
    def test_the_paper_refuses_the_rest(self, options, words):
        with pytest.raises(ValueError, match=words) as refused:
            Paper().check(**{"mechanism": Exponential(), **options})
        assert "the paper's analysis" in str(refused.value)


class TestTight:
    @pytest.mark.slow
    def test_finds_about_the_least_expected_coverage_of_all_valid_choices(self):
        """Every slope and server rank with its smallest valid quantile, one by one, on a coarse grid."""
        search = search_of(3, 200, 2.0, n_bins=20, finest=20)
        costs = []
        for slope, k in product([Fraction(i, 10) for i in (5, 7, 8)], search.ranks):
            aims = [Slopes(Fraction(2 * i - 1, 40), slope) for i in range(1, 21)]
            smallest = next((aim for aim in aims if search.is_valid(aim, k)), None)
            costs += [] if smallest is None else [search.expected(smallest, k)[1]]
        choice = Tight().choose(search)
        assert search.is_valid(choice.aim, choice.server_rank)
        assert choice.expected_coverage == search.expected(choice.aim, choice.server_rank)[0]
        assert choice.expected_coverage <= min(costs) + 0.0005

    def test_with_many_sites_looks_around_the_best_of_a_few_ranks(self):
        asked = set()

        @dataclass(frozen=True)
        class Toy(Search):
            """Valid from a half on; the cost is least at rank 700 and slope 3/5."""

            def is_valid(self, aim, k):
                asked.add(k)
                return aim.quantile >= 0.5

            def expected(self, aim, k):
                return 0.9, abs(k - 700.0) + abs(aim.slope - Fraction(3, 5))

        choice = Tight().choose(Toy(1000, 200, search_of(1, 1, 1.0).release))
        assert choice == PrivateChoice(Slopes(Fraction(501, 1000), Fraction(3, 5)), 700, 0.9)
        assert len(asked) < 60

    @pytest.mark.slow
    def test_only_what_is_valid_beyond_doubt_is_chosen(self):
        @dataclass(frozen=True)
        class Hasty(Search):
            """A quick look takes everything for valid."""

            def seems_valid(self, aim, k):
                return True

        search = Hasty(3, 200, search_of(1, 1, 2.0, n_bins=20).release, finest=20)
        choice = Tight().choose(search)
        assert search.is_valid(choice.aim, choice.server_rank)
        hopeless = Hasty(2, 20, search_of(1, 1, 0.1, n_bins=20).release, finest=10)
        assert Tight().choose(hopeless) is None

    def test_a_plan_that_a_quick_look_misses_is_found(self):
        @dataclass(frozen=True)
        class Blind(Search):
            """A quick look takes nothing for valid."""

            def seems_valid(self, aim, k):
                return False

        search = Blind(5, 200, search_of(1, 1, 1.0).release)
        choice = Tight().choose(search)
        assert (choice.server_rank, choice.aim.rank(200)) == (5, 200)
        assert search.is_valid(choice.aim, choice.server_rank)

    @pytest.mark.slow
    def test_stays_within_the_ranks_that_faulty_sites_leave(self):
        choice = Tight().choose(search_of(9, 300, 1.0, n_bins=20, max_faulty=2, finest=40))
        assert 2 < choice.server_rank <= 7


class TestPaper:
    @pytest.mark.slow
    def test_algorithm_3_by_hand(self):
        """For every gamma of the grid: ranks at the raised level, the correction, M at the corrected rank."""
        m, n, epsilon = 10, 500, 1.0
        search = search_of(m, n, epsilon, "paper")
        best = (2.0, 0, 0)
        for gamma in GAMMAS:
            local, server = search.exact_ranks(0.9 / (1 - gamma * 0.1))
            rank = local + math.ceil(2 / epsilon * math.log(100 / (1 - (1 - gamma * 0.1) ** (1 / m))))
            if rank < n:
                best = min(best, (table_of(m, n)[rank - 1, server - 1], rank, server))
        choice = papers_choice(m, n, epsilon)
        assert (choice.aim, choice.server_rank) == (Balanced(Fraction(best[1], n)), best[2])
        assert choice.expected_coverage == search.expected(choice.aim, choice.server_rank)[0]

    @pytest.mark.nightly
    def test_its_grid_is_fine_enough_not_to_handicap_it(self):
        """27 values from .01 on would give .9167."""
        choice = Paper().choose(search_of(10, 200, 10.0, "paper"))
        rank = choice.aim.rank(200)
        assert CoverageLaw(10, 200, rank, choice.server_rank).mean() == pytest.approx(0.9134, abs=5e-5)

    @pytest.mark.slow
    def test_aims_at_a_half_at_least(self):
        search = search_of(3, 400, 100.0, "paper", level=Fraction(1, 5))
        assert Paper().choose(search).aim == Balanced(Fraction(1, 2))

    @pytest.mark.slow
    @pytest.mark.parametrize(("m", "n", "epsilon", "found"), [(10, 500, 1.0, True), (5, 200, 1.0, False)])
    def test_knows_whether_there_is_a_plan(self, m, n, epsilon, found):
        assert Paper().has_plan(search_of(m, n, epsilon, "paper")) is found
        assert (papers_choice(m, n, epsilon) is not None) is found
