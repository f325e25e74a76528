"""Ranks: choice, answer, check and combination; promises themselves are tested in
planning.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal.documents import DocumentError, RanksPayload, Sent, SiteKind
from fedconformal.messages import MESSAGES, Answer, DesignRequest, choose_message, of
from fedconformal.messages._base import largest_so_far, smallest_with_votes
from fedconformal.planning import CRITERIA, PROMISES, Goal
from messages.sent import calibrate, change, check, names
from planning.plans import kinds, quiet

SIZES = {"A": 40, "B": 60, "C": 60}
NINE = Goal(Fraction(9, 10))


class TestChoose:
    def test_the_promise_chooses_the_message(self):
        mean, most = (
            Goal(Fraction(9, 10), CRITERIA[name]())
            for name in ("marginal", "conditional")
        )
        for promise, goal, name in (
            ("population", NINE, "ranks"),
            ("mixture", mean, "ranks"),
            ("each-site", mean, "ranks"),
            ("new-site", mean, "cases"),
            ("new-site", most, "ranks"),
        ):
            request = DesignRequest(PROMISES[promise](), (goal,), kinds([50]), 1)
            assert choose_message(request).name == name
        assert sorted(MESSAGES) == ["bin", "cases", "curve", "ranks"]

    def test_every_run_of_sites_has_the_ranks_of_its_size(self):
        """The order of the sites and their runs do not change a plan."""
        mixed, sorted_ = fc.plan(n_points=[60, 40, 60]), fc.plan(n_points=[40, 60, 60])
        assert list(mixed.local_ranks) == [sorted_.local_ranks[i] for i in (1, 0, 2)]
        assert mixed.server_rank == sorted_.server_rank
        assert mixed.law.mean() == pytest.approx(sorted_.law.mean(), abs=1e-13)

    def test_one_vote_each_is_not_written(self):
        plan = fc.plan(n_sites=10, n_points=100)
        assert plan.message.levels[0].votes == ()
        assert plan.weights[0] == 1
        weighted = fc.plan(n_points=[120, 40, 377, 88])
        assert weighted.message.levels[0].votes
        assert max(weighted.weights) > 1

    def test_an_open_plan_has_a_rule(self):
        plan = fc.plan(n_sites=5, numbers=3, confidence_level=[0.8, 0.9])
        assert [level.rule.share for level in plan.message.levels] == [
            Fraction(4, 5),
            Fraction(9, 10),
        ]
        assert of(plan.message).ranks_for(plan.designs[0], 100, "A")[1] == (88, 91, 94)
        assert (
            plan[0.9].law,
            plan[0.9].guarantee,
            plan[0.9].local_ranks,
            plan[0.9].weights,
        ) == (None,) * 4


class TestAnswer:
    @given(st.integers(1, 60), st.integers(0, 2**32))
    def test_the_scores_of_the_ranks_are_sent(self, n, seed):
        plan = quiet(n_points=[n], numbers=3, confidence_level=[0.5, 0.9])
        scores = np.random.default_rng(seed).permutation(n).astype(float)
        payload = fc.report(
            plan, scores, site="A", policy=fc.SitePolicy.unlimited()
        ).payload
        for level, sent in zip(plan.message.levels, payload.levels, strict=True):
            assert sent.ranks == level.ranks[0]
            assert sent.values == tuple(
                rank - 1.0 if rank <= n else math.inf for rank in sent.ranks
            )

    def test_levels_that_share_a_rank_disclose_it_once(self):
        plan = fc.plan(n_sites=3, n_points=5, confidence_level=[0.78, 0.8])
        message, design = of(plan.message), plan.designs[0]
        different = {rank for level in plan.message.levels for rank in level.ranks[0]}
        assert message.count_numbers(design, 5, "A") == len(different)
        assert message.epsilon(design) is None

    def test_a_site_that_is_too_small_sends_none_of_its_scores(self):
        plan = quiet(n_points={"A": 3, "B": 100}, promise="each-site")
        message, design = of(plan.message), plan.designs[0]
        assert message.discloses(design, 3, "A") == "none of your 3 scores"
        assert message.count_numbers(design, 3, "A") == 1  # its size
        assert (
            message.discloses(design, 100, "B")
            == "1 of your 100 scores (the 91st smallest)"
        )

    def test_other_ranks_do_not_count(self):
        plan = fc.plan(n_points=SIZES)
        message, design = of(plan.message), plan.designs[0]
        (rank,) = plan.message.levels[0].ranks[0]
        fine, wrong = (
            RanksPayload(levels=(Sent(ranks=(each,), values=(0.5,)),))
            for each in (rank, rank - 1)
        )
        assert message.problem(design, Answer("A", 40, fine)) is None
        assert (
            message.problem(design, Answer("A", 40, wrong))
            == f"ranks [{rank - 1}] instead of [{rank}]"
        )
        many = RanksPayload(
            levels=(Sent(ranks=tuple(range(1, 20)), values=(0.5,) * 19),) * 50
        )
        assert len(message.problem(design, Answer("A", 40, many))) < 120


class TestSolve:
    def test_all_sites_give_the_plan_back(self):
        plan = fc.plan(n_points=SIZES, numbers=2, confidence_level=[0.8, 0.9])
        found = calibrate(plan, {site: np.arange(n) for site, n in SIZES.items()})
        assert found.by_group[None].design.levels == plan.designs[0].levels
        assert found[0.9].law.mean() == pytest.approx(plan[0.9].law.mean(), abs=1e-13)
        assert found[0.9].guarantee.mean == pytest.approx(
            plan[0.9].guarantee.mean, abs=1e-13
        )

    def test_faulty_sites_are_kept_in_mind(self):
        plan = fc.plan(n_sites=7, n_points=100, max_faulty=1, max_missing=2)
        message, design = of(plan.message), plan.designs[0]
        assert message.is_bound(design)
        assert not message.is_bound(fc.plan(n_sites=7, n_points=100).designs[0])
        there = (SiteKind(count=5, n=100, names=tuple("ABCDE")),)
        solved = message.solve(design, there, [0])
        assert 1 < solved.levels[0].votes <= 4
        assert message.law(solved, 0).mean() >= 0.9
        assert (
            message.law(solved, 0).mean()
            < message.law(solved.model_copy(update={"max_faulty": 0}), 0).mean()
        )

    def test_higher_levels_have_no_smaller_thresholds(self):
        """Levels are combined one by one, and ranks of one level say nothing of
        another's.
        """
        plan = fc.plan(n_sites=2, n_points=50, confidence_level=[0.9, 0.8])
        assert largest_so_far(plan.designs[0], (1.0, 2.0)) == (2.0, 2.0)
        assert largest_so_far(plan.designs[0], (3.0, 2.0)) == (3.0, 2.0)

    @given(
        st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4)), min_size=1),
        st.integers(1, 60),
    )
    def test_the_threshold_is_the_smallest_with_votes(self, ballots, needed):
        values = sorted(value for value, votes in ballots for _ in range(votes))
        expected = values[needed - 1] if needed <= len(values) else math.inf
        assert smallest_with_votes(ballots, needed) == expected


class TestHostileDesigns:
    @pytest.mark.parametrize("votes", [5, 9])
    def test_votes_that_nobody_has(self, votes):
        with pytest.raises(
            ValueError, match="votes must be at most the number of votes plus 1"
        ):
            check(change(fc.plan(n_points=SIZES), level={"votes": votes + 40}))
        with pytest.raises(
            ValueError, match="votes must be at most the number of votes plus 1"
        ):
            check(change(quiet(n_points=[3, 2]), level={"votes": 1}))

    def test_votes_that_faulty_sites_have(self):
        with pytest.raises(ValueError, match="votes must be above max_faulty"):
            check(
                change(
                    fc.plan(n_sites=7, n_points=100, max_faulty=2), level={"votes": 2}
                )
            )

    def test_ranks_that_do_not_follow_from_their_share(self):
        plan = fc.plan(n_points=SIZES, local_ranks="paper")
        level = plan.message.levels[0]
        check(plan.designs[0])
        wrong = level.model_copy(update={"ranks": ((36,), *level.ranks[1:])})
        with pytest.raises(ValueError, match="the ranks do not follow from the share"):
            check(change(plan, message={"levels": (wrong,)}))

    def test_ranks_of_promises(self):
        """Each promise refuses its own; see the tests of planning."""
        each = fc.plan(n_points=SIZES, promise="each-site")
        with pytest.raises(ValueError, match="keeps the largest report"):
            check(change(each, level={"votes": 2}))
        new = fc.plan(
            n_sites=20, n_points=100, promise="new-site", criterion="conditional"
        )
        with pytest.raises(ValueError, match="too few for a promise to a new site"):
            check(change(new, level={"votes": 19}))
        mixture = fc.plan(n_points=SIZES, promise="mixture")
        with pytest.raises(ValueError, match="too few for a promise to this mixture"):
            check(change(mixture, level={"votes": mixture.server_rank - 1}))

    def test_unnamed_sites_that_nobody_can_tell_apart(self):
        plan = fc.plan(n_points=[50, 50])
        level = plan.message.levels[0].model_copy(update={"ranks": ((45,), (46,))})
        sites = (SiteKind(count=1, n=50),) * 2
        hostile = plan.model_copy(
            update={
                "designs": (change(plan, message={"levels": (level,)}, sites=sites),)
            }
        )
        with pytest.raises(
            DocumentError, match="the same ranks if they have the same size"
        ):
            fc.Plan.from_json(hostile.to_json())


def test_sites_are_found_by_name_or_by_size():
    named, sized = fc.plan(n_points=SIZES), fc.plan(n_points=[40, 60, 60])
    message = of(named.message)
    assert message.ranks_for(named.designs[0], 60, "C") == message.ranks_for(
        sized.designs[0], 60, names(1)[0]
    )
    for plan, n, site, words in (
        (named, 60, "D", "site must be one of the plan's"),
        (named, 61, "C", "the plan expects 60 scores from site 'C', got 61"),
        (sized, 61, "C", "the plan expects sites with 40, 60 scores, got 61"),
    ):
        with pytest.raises(ValueError, match=words):
            message.ranks_for(plan.designs[0], n, site)
