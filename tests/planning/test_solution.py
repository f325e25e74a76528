"""Ballots and solutions: the law that follows, and votes solved again for those who
answered.
"""

from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal.documents import Advice, RankRule, SiteKind
from fedconformal.planning import CRITERIA, PROMISES, Ballot, Goal, Solution
from planning.plans import kinds, pick

NINE = Fraction(9, 10)
SIZES, COUNTS = [40, 60, 90], [1, 2, 2]
POPULATION, EACH_SITE = (PROMISES[name]() for name in ("population", "each-site"))


def goal(criterion="stable", **options):
    return Goal(NINE, CRITERIA[criterion](), **options)


def solved(wanted, *, promise=POPULATION, sizes=SIZES, counts=COUNTS, share=None):
    return promise.choose(kinds(sizes, counts), wanted, 1, share)


@cache
def three_of_each(criterion, faulty):
    return solved(goal(criterion, max_faulty=faulty), counts=[3, 3, 3])


@pytest.fixture(scope="module")
def exact():
    return solved(goal())


def keeps(solution, wanted):
    """Whether the promise of a solution holds, by its law and a margin for rounding."""
    law = POPULATION.law(solution, wanted)
    if wanted.criterion.takes_delta:
        return law.cdf(0.9) <= float(wanted.delta) + 1e-12
    return law.mean() >= 0.9 - 1e-12


class TestLaw:
    def test_is_that_of_sites_ranks_and_votes(self, exact):
        ballot = exact.ballot
        rows = zip(ballot.sites, ballot.ranks, ballot.votes, strict=True)
        sites = [
            (kind.n, ranks, votes)
            for kind, ranks, votes in rows
            for _ in range(kind.count)
        ]
        n_points, ranks, votes = (list(column) for column in zip(*sites, strict=True))
        same = fc.CoverageLaw(
            n_points=n_points, local_rank=ranks, server_rank=exact.needed, weights=votes
        )
        c, law = np.linspace(0.7, 0.99, 30), POPULATION.law(exact, goal())
        np.testing.assert_allclose(law.cdf(c), same.cdf(c), atol=1e-13)
        assert law.mean() == pytest.approx(same.mean(), abs=1e-13)
        assert POPULATION.guarantee(exact, goal()).mean == law.mean()
        assert POPULATION.guarantee(exact, goal()).probability == pytest.approx(
            float(law.sf(0.9))
        )

    @pytest.mark.slow
    def test_counts_faulty_sites(self):
        wanted = goal(max_faulty=1)
        solution = solved(wanted)
        assert (
            POPULATION.law(solution, wanted).mean()
            < POPULATION.law(solution, goal()).mean()
        )
        assert keeps(solution, wanted)

    def test_of_an_infinite_threshold_is_one(self):
        solution = solved(goal(), sizes=[2], counts=[3])
        assert not solution.is_finite
        assert (solution.needed, solution.advice) == (4, Advice(n_points=3, n_sites=5))
        assert POPULATION.law(solution, goal()).mean() == 1.0


class TestSolve:
    @pytest.mark.parametrize("criterion", ["marginal", "stable", "conditional"])
    @pytest.mark.parametrize("missing", [0, 1, 2])
    def test_some_missing_are_solved_again(self, criterion, missing):
        wanted = goal(criterion, max_missing=2)
        solution = solved(wanted, sizes=[160, 240, 360])
        there = pick(
            solution.ballot, [0 if i == missing else c for i, c in enumerate(COUNTS)]
        )
        fewer = POPULATION.solve(solution, there, wanted)
        assert (fewer.ballot, fewer.rule) == (there, solution.rule)
        assert fewer.is_finite
        assert keeps(fewer, wanted)

    @pytest.mark.slow
    @settings(max_examples=50)
    @given(
        st.lists(st.integers(0, 3), min_size=3, max_size=3).filter(
            lambda counts: sum(counts) > 2
        ),
        st.sampled_from(["marginal", "conditional"]),
        st.integers(0, 1),
    )
    def test_the_votes_are_the_fewest_that_keep_the_promise(
        self, counts, criterion, faulty
    ):
        wanted, planned = (
            goal(criterion, max_faulty=faulty),
            three_of_each(criterion, faulty),
        )
        there = pick(planned.ballot, counts)
        solution = POPULATION.solve(planned, there, wanted)
        if not solution.is_finite:
            assert solution.needed == there.total_votes + 1
            return
        assert keeps(solution, wanted)
        lies = faulty * max(map(sum, there.votes))
        assert lies < solution.needed <= there.total_votes - lies
        one_less = replace(solution, needed=solution.needed - 1)
        assert solution.needed == lies + 1 or not keeps(one_less, wanted)

    def test_an_open_plan_is_solved_when_sizes_are_known(self):
        for criterion in ("marginal", "stable", "conditional"):
            closed = solved(goal(criterion), share=NINE)
            rule = POPULATION.open_rule(goal(criterion), 1, None, None)
            assert rule == RankRule(share=NINE)
            opened = POPULATION.solve(
                Solution(closed.ballot, 1, None, rule), closed.ballot, goal(criterion)
            )
            assert opened == closed

    def test_too_few_answers_get_advice(self):
        solution = solved(goal(), sizes=[2], counts=[5])
        assert solution.is_finite
        two = POPULATION.solve(solution, pick(solution.ballot, [2]), goal())
        assert (two.is_finite, two.needed, two.advice.n_sites) == (False, 3, 5)

    def test_an_infinite_solution_can_become_finite(self):
        """If the one site that is too small does not answer."""
        solution = solved(
            goal("marginal"), promise=EACH_SITE, sizes=[5, 100], counts=[1, 2]
        )
        assert (solution.is_finite, solution.needed) == (False, 4)
        rest = EACH_SITE.solve(
            solution, pick(solution.ballot, [0, 2]), goal("marginal")
        )
        assert (rest.is_finite, rest.needed) == (True, 2)

    def test_to_each_site_all_votes_are_needed(self):
        solution = solved(goal("marginal"), promise=EACH_SITE)
        fewer = EACH_SITE.solve(
            solution, pick(solution.ballot, [1, 2, 0]), goal("marginal")
        )
        assert fewer.needed == 3


class TestBallot:
    def test_sites_that_are_alike_are_put_together_in_their_order(self):
        ballot = Ballot.from_ranks(
            kinds([30, 40, 30, 30, 50], [1, 2, 3, 1, 1]),
            [(28,), (37,), (28,), (29,), ()],
        )
        merged = Ballot.from_ranks(
            kinds([30, 40, 30], [4, 2, 1]), [(28,), (37,), (29,)]
        )
        assert ballot.merge() == merged
        assert Ballot((), (), ()).merge() == Ballot((), (), ())

    def test_names_do_not_tell_sites_apart(self):
        named = (
            SiteKind(count=1, n=30, names=("A",)),
            SiteKind(count=1, n=30, names=("B",)),
        )
        assert Ballot.from_ranks(named, [(28,)] * 2).merge().sites == kinds([30], [2])

    def test_votes_of_infinite_numbers_are_not_finite(self):
        ballot = Ballot(kinds([30, 2], [2, 3]), ((20, 28), (3,)), ((2, 1), (4,)))
        assert (ballot.n_sites, ballot.total_votes, ballot.finite_votes) == (5, 18, 6)
        assert ballot.finite_by_kind == [3, 0]


def test_a_plan_and_its_calibration_hold_the_same_votes():
    plan = fc.plan(n_points={"A": 40, "B": 60, "C": 60}, confidence_level=[0.8, 0.9])
    for place, level in enumerate((Fraction(4, 5), NINE)):
        chosen = solved(replace(goal(), level=level), sizes=[40, 60], counts=[1, 2])
        ranks = plan.message.levels[place].ranks
        assert (plan.designs[0].levels[place].votes, ranks) == (
            chosen.needed,
            chosen.ballot.ranks,
        )
    reports = [
        fc.report(plan, np.arange(n), site=site)
        for site, n in zip("ABC", plan.n_points, strict=True)
    ]
    found = fc.calibrate(plan, reports)
    assert found.by_group[None].design.levels == plan.designs[0].levels
    fewer = fc.calibrate(plan, reports[1:]).by_group[None].design
    for place, level in enumerate((Fraction(4, 5), NINE)):
        wanted = replace(goal(), level=level)
        ballot = Ballot.from_ranks(
            kinds([60], [2]), [plan.message.levels[place].ranks[1]]
        )
        assert (
            fewer.levels[place].votes
            == POPULATION.solve(Solution(ballot, 1), ballot, wanted).needed
        )
