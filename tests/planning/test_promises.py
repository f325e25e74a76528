"""Whose new points a threshold is for: ranks, votes, laws, refusals and words of each
promise.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import fedconformal as fc
from fedconformal.documents import Advice
from fedconformal.planning import CRITERIA, PROMISES, Ballot, Goal, Solution
from fedconformal.planning.promises import EachSite, Population
from planning.plans import alike, kinds, pick, quiet
from planning.unlike_sites import FEDERATIONS
from support import bernstein_limit, hoeffding_limit

NINE = Fraction(9, 10)


def goal(criterion, **options):
    return Goal(NINE, CRITERIA[criterion](), **options)


class TestRegistry:
    def test_are_found_by_name(self):
        assert (PROMISES["population"], PROMISES["each-site"]) == (Population, EachSite)
        with pytest.raises(
            ValueError, match=r"promise must be one of .*'population'.*, got 'everyone'"
        ):
            fc.plan(n_sites=5, n_points=50, promise="everyone")

    def test_two_of_one_class_are_the_same(self):
        assert Population() == Population()
        assert hash(EachSite()) == hash(EachSite())
        assert Population() != EachSite()

    @pytest.mark.parametrize("name", ["population", "each-site"])
    def test_have_words_for_everything(self, name):
        promise = PROMISES[name]()
        assert promise.assumed().endswith(".")
        assert "site" in promise.assumed_in_groups()
        assert promise.shortfall("at Ulm").startswith("cases at Ulm")
        assert "cases" in promise.whose

    def test_only_what_is_not_usual_is_mentioned(self):
        assert Population().options() == ""
        assert EachSite().options() == "for each site individually"


class TestPopulation:
    def test_ranks_and_votes_are_searched_together(self):
        found = Population().choose(alike([40, 60, 60]), goal("stable"), 1, None)
        assert Population().law(found, goal("stable")).mean() >= 0.9

    def test_the_law_is_of_the_votes_below_a_coverage(self):
        found = Solution(Ballot.from_ranks(kinds([20], [5]), [(19,)]), 4)
        law = fc.CoverageLaw(5, 20, 19, 4, max_faulty=1)
        promised = Population().law(found, goal("marginal", max_faulty=1))
        assert promised.mean() == pytest.approx(law.mean(), abs=1e-13)


class TestEachSite:
    def test_every_site_sends_the_rank_that_would_do_by_itself(self):
        plan = fc.plan(n_points={"A": 30, "B": 80, "C": 12}, promise="each-site")
        assert list(plan.local_ranks) == [28, 73, 12]
        assert plan.server_rank == 3

    def test_each_site_is_covered_whatever_the_others_are(self):
        """4,000 federations of three very different sites; each is covered at least as
        often as the level.
        """
        sizes, runs, rng = {"A": 30, "B": 80, "C": 12}, 4000, np.random.default_rng(2)
        plan = fc.plan(n_points=sizes, promise="each-site")
        ranks = dict(zip(sizes, plan.local_ranks, strict=True))
        draws = {
            "A": (rng.exponential(size=(runs, 30)), stats.expon.cdf),
            "B": (5 + rng.standard_normal((runs, 80)), stats.norm(5).cdf),
            "C": (rng.random((runs, 12)) * 5.5, stats.uniform(0, 5.5).cdf),
        }
        reports = [
            np.sort(scores, axis=1)[:, ranks[name] - 1]
            for name, (scores, _) in draws.items()
        ]
        threshold = np.max(reports, axis=0)
        for name, (_, cdf) in draws.items():
            coverage = cdf(threshold)
            assert coverage.mean() >= ranks[name] / (sizes[name] + 1) - hoeffding_limit(
                runs
            )
            # The stated bound holds for the whole law of every site: the empirical cdf
            # is not above it.
            for c in (0.7, 0.8, 0.9, 0.95):
                assert (coverage <= c).mean() <= plan.law.cdf(c) + hoeffding_limit(runs)

    @pytest.mark.parametrize("name", FEDERATIONS)
    def test_each_of_ten_sites_is_covered_in_twelve_kinds_of_heterogeneity(self, name):
        """4,000 federations of ten sites of 60; false-alarm probability 1e-7 for each
        site.
        """
        kind, runs = FEDERATIONS[name], 4_000
        rank, *_ = fc.plan(n_sites=10, n_points=60, promise="each-site").local_ranks
        scores = np.sort(kind.draw(np.random.default_rng(3), runs, 60), axis=2)
        coverage = kind.cdf(scores[:, :, rank - 1].max(axis=1))
        for j in range(10):
            assert coverage[:, j].mean() >= 0.9 - bernstein_limit(coverage[:, j])

    def test_all_sites_at_once_with_the_conditional_criterion(self):
        """4,000 federations: the share in which every site reaches the level is at
        least 1 - delta.
        """
        sizes, runs, rng = [60, 60, 90, 200], 4000, np.random.default_rng(6)
        plan = fc.plan(
            n_points=sizes, promise="each-site", criterion="conditional", delta=0.2
        )
        own = [
            np.sort(rng.random((runs, n)), axis=1)[:, l - 1]
            for n, l in zip(sizes, plan.local_ranks, strict=True)
        ]
        assert (np.min(own, axis=0) >= 0.9).mean() >= 0.8 - hoeffding_limit(runs)
        for n, l in zip(sizes, plan.local_ranks, strict=True):
            missed = [stats.beta.cdf(0.9, rank, n - rank + 1) for rank in (l, l - 1)]
            each = 0.2 / 4
            assert missed[0] <= each < missed[1]  # no smaller rank would do

    def test_the_law_is_the_worst_sites_own(self):
        found = EachSite().choose(alike([30, 80, 12]), goal("marginal"), 1, None)
        law = EachSite().law(found, goal("marginal"))
        assert law.mean() == pytest.approx(min(28 / 31, 73 / 81, 12 / 13))
        assert law.cdf(0.8) == max(
            stats.beta.cdf(0.8, l, n - l + 1) for n, l in ((30, 28), (80, 73), (12, 12))
        )

    def test_a_site_that_is_too_small_gets_an_infinite_threshold_and_advice(self):
        with pytest.warns(
            fc.InfeasibleWarning,
            match="You need 9 cases per site, or to leave out sites with fewer than 9",
        ):
            plan = fc.plan(n_points=[5, 100], confidence_level=0.9, promise="each-site")
        assert plan.law.mean() == 1.0
        options = {"promise": "each-site", "criterion": "conditional"}
        plan = quiet(n_points=[5, 100], **options)
        n = plan.designs[0].levels[0].advice.n_points
        assert fc.plan(n_points=[n, n], **options).feasible
        assert not quiet(n_points=[n - 1, n - 1], **options).feasible

    def test_votes(self):
        wanted = goal("marginal")
        found = EachSite().choose(alike([5, 100]), wanted, 1, None)
        assert (found.needed, found.advice) == (3, Advice(n_points=9))
        rest = EachSite().solve(found, pick(found.ballot, [0, 1]), wanted)
        assert (rest.needed, rest.advice) == (1, None)
        assert EachSite().tolerates(found, wanted, 1)
        assert not EachSite().tolerates(found, wanted, 2)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (
                {"criterion": "stable"},
                "criterion must be conditional or marginal.*got 'stable'",
            ),
            ({"max_faulty": 1}, "max_faulty must be 0 with promise 'each-site', got 1"),
            (
                {"local_ranks": "paper"},
                "local_ranks must be left out with promise 'each-site'",
            ),
            ({"n_points": None, "criterion": "conditional"}, "needs n_points"),
        ],
    )
    def test_what_does_not_go_with_it(self, options, words):
        with pytest.raises(ValueError, match=words):
            fc.plan(**{"n_sites": 5, "n_points": 50, "promise": "each-site", **options})

    def test_a_file_cannot_keep_a_smaller_report(self):
        wanted = goal("marginal")
        found = EachSite().choose(alike([30, 80]), wanted, 1, None)
        EachSite().check_solution(found, wanted)
        EachSite().check_solution(replace(found, needed=3), wanted)
        with pytest.raises(ValueError, match="keeps the largest report"):
            EachSite().check_solution(replace(found, needed=1), wanted)
        heavier = replace(found.ballot, votes=((1,), (2,)))
        with pytest.raises(ValueError, match="one number, of one vote"):
            EachSite().check_solution(replace(found, ballot=heavier), wanted)
