"""An analysis is one class: ours, the paper's, and one that somebody brings."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from fedconformal.laws import MEAN_ERROR, CoverageLaw, Federation, coverage_table
from fedconformal.privacy import (
    ANALYSES,
    Analysis,
    Bins,
    Privacy,
    PrivateChoice,
    PrivateRelease,
    PrivateSearch,
)
from fedconformal.privacy.analyses import Paper, Tight
from fedconformal.privacy.mechanisms import Exponential, PermuteAndFlip

BINS = Bins.uniform(0, 1, 100)
LEVEL = Fraction(9, 10)
GAMMAS = [i / 100 for i in (*range(1, 10), *range(10, 100, 5))]


table_of = cache(coverage_table)


@dataclass(frozen=True)
class Search:
    """Equal sites under the marginal criterion, by the laws themselves."""

    n_sites: int
    n: int
    release: PrivateRelease
    max_faulty: int = 0
    level: Fraction = LEVEL
    finest: int = 1000

    @property
    def sizes(self):
        return np.array([self.n])

    @property
    def ranks(self):
        return range(self.max_faulty + 1, self.n_sites - self.max_faulty + 1)

    def is_valid(self, quantile, k):
        sites = self.release.aiming_at(quantile).sites(self.sizes)
        law = Federation(sites, np.array([self.n_sites]), self.max_faulty)
        return bool(law.moments(np.array([k]))[0][0] > float(self.level) + MEAN_ERROR)

    def expected(self, quantile, k):
        sites = self.release.aiming_at(quantile).expected_sites(self.sizes)
        mean = Federation(sites, np.array([self.n_sites])).moments(np.array([k]))[0][0]
        return float(mean), float(mean)

    def exact_ranks(self, level):
        table = table_of(self.n_sites, self.n)
        if table[-1, -1] < level:
            return None
        l, k = np.unravel_index(np.argmin(np.where(table < level, 2.0, table)), table.shape)
        return int(l) + 1, int(k) + 1

    def exact_mean(self, local_rank, server_rank):
        return CoverageLaw(self.n_sites, self.n, local_rank, server_rank).mean()


def search_of(m, n, epsilon, analysis="tight", **options):
    search: PrivateSearch = Search(
        m, n, Privacy(epsilon=epsilon, bins=BINS, analysis=analysis).release(), **options
    )
    return search


class TestRegistry:
    def test_finds_ours_by_name(self):
        assert (ANALYSES["tight"](), ANALYSES["paper"]()) == (Tight(), Paper())
        assert {"tight", "paper"} <= set(ANALYSES)

    def test_two_of_one_class_are_the_same(self):
        assert Tight() == Tight() != Paper()
        assert len({Tight(), Tight(), Paper()}) == 2
        assert repr(Paper()) == "Paper()"

    def test_defaults(self):
        assert (Tight.default_mechanism, Tight.default_criterion) == ("permute-and-flip", None)
        assert (Paper.default_mechanism, Paper.default_criterion) == ("exponential", "marginal")

    def test_one_of_your_own(self):
        @ANALYSES.register
        class Wasteful(Tight):
            name = "wasteful"

            def width(self, quantile):
                return 3 * quantile.denominator

        try:
            release = Privacy(epsilon=1, bins=BINS, analysis="wasteful").release().aiming_at(LEVEL)
            assert (release.scale, release.analysis) == (30.0, Wasteful())
            assert release.pmf(np.full(100, 5)).sum() == pytest.approx(1)
            assert release.prepare(np.full(100, 5))() in range(100)
        finally:
            ANALYSES.unregister("wasteful")
        assert "wasteful" not in ANALYSES

    def test_all_of_it_is_needed(self):
        with pytest.raises(TypeError, match="abstract"):
            type("Nothing", (Analysis,), {"name": "nothing"})()


class TestWidth:
    @pytest.mark.parametrize("quantile", [Fraction(1, 2), Fraction(9, 10), Fraction(997, 1000)])
    def test_formulas(self, quantile):
        a, d = quantile.as_integer_ratio()
        assert Tight().width(quantile) == d
        assert Paper().width(quantile) == 2 * max(a, d - a) >= d


class TestCheck:
    def test_the_tight_analysis_takes_everything(self):
        for mechanism in (Exponential(), PermuteAndFlip()):
            Tight().check(mechanism=mechanism, n_sizes=5, criterion="conditional", max_faulty=3)

    def test_the_paper_covers_its_own_setting(self):
        Paper().check(mechanism=Exponential())
        Paper().check(mechanism=Exponential(), n_sizes=1, criterion="marginal", max_faulty=0)

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
    def test_finds_the_least_expected_coverage_of_all_valid_choices(self):
        """Every server rank with its smallest valid quantile, one by one, on a coarse grid."""
        search = search_of(5, 200, 2.0, finest=40)
        valid = {}
        for k in search.ranks:
            steps = [i for i in range(20, 40) if search.is_valid(Fraction(i, 40), k)]
            if steps:
                valid[k] = search.expected(Fraction(min(steps), 40), k)[1], Fraction(min(steps), 40)
        best = min(valid, key=lambda k: (valid[k][0], k))
        cost, quantile = valid[best]
        assert Tight().choose(search) == PrivateChoice(quantile, best, cost)

    def test_with_many_sites_looks_around_the_best_of_a_few_ranks(self):
        asked = set()

        @dataclass(frozen=True)
        class Toy(Search):
            """Valid from a half on; the cost is least at rank 700."""

            def is_valid(self, quantile, k):
                asked.add(k)
                return True

            def expected(self, quantile, k):
                return 0.9, abs(k - 700.0)

        choice = Tight().choose(Toy(1000, 200, search_of(1, 1, 1.0).release))
        assert choice == PrivateChoice(Fraction(1, 2), 700, 0.9)
        assert len(asked) < 60

    def test_stays_within_the_ranks_that_faulty_sites_leave(self):
        choice = Tight().choose(search_of(9, 300, 1.0, max_faulty=2))
        assert 2 < choice.server_rank <= 7

    @pytest.mark.parametrize(
        ("m", "n", "epsilon", "found"), [(5, 200, 1.0, True), (5, 50, 0.1, False), (1, 8, 100.0, False)]
    )
    def test_knows_whether_there_is_a_plan(self, m, n, epsilon, found):
        search = search_of(m, n, epsilon)
        assert Tight().has_plan(search) is found
        assert (Tight().choose(search) is not None) is found


class TestPaper:
    def test_algorithm_3_by_hand(self):
        """For every gamma of the grid: ranks at the raised level, the correction, M at the corrected rank."""
        m, n, epsilon = 10, 500, 1.0
        search = search_of(m, n, epsilon, "paper")
        best = (2.0, 0, 0)
        for gamma in GAMMAS:
            local, server = search.exact_ranks(0.9 / (1 - gamma * 0.1))
            rank = local + math.ceil(2 / epsilon * math.log(100 / (1 - (1 - gamma * 0.1) ** (1 / m))))
            if rank < n:
                best = min(best, (CoverageLaw(m, n, rank, server).mean(), rank, server))
        choice = Paper().choose(search)
        assert (choice.quantile, choice.server_rank) == (Fraction(best[1], n), best[2])
        assert choice.expected_coverage == search.expected(choice.quantile, choice.server_rank)[0]

    def test_aims_at_a_half_at_least(self):
        search = search_of(3, 400, 100.0, "paper", level=Fraction(1, 5))
        assert Paper().choose(search).quantile == Fraction(1, 2)

    @pytest.mark.parametrize(
        ("m", "n", "epsilon", "found"),
        [(10, 500, 1.0, True), (5, 200, 1.0, False), (2, 4, 100.0, False)],
    )
    def test_knows_whether_there_is_a_plan(self, m, n, epsilon, found):
        search = search_of(m, n, epsilon, "paper")
        assert Paper().has_plan(search) is found
        assert (Paper().choose(search) is not None) is found
