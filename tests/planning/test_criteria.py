"""What each criterion promises, and what it prefers."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import fedconformal as fc
from fedconformal.planning import CRITERIA, Goal
from fedconformal.planning.criteria import Conditional, Criterion, Marginal, Stable
from planning.plans import quiet
from support import simulated_coverage

NINE = Fraction(9, 10)


class TestChoices:
    def test_the_papers_pair_has_twice_the_spread_of_the_stable_one(self):
        paper = fc.plan(
            n_sites=10, n_points=100, confidence_level=0.9, criterion="marginal"
        )
        stable = fc.plan(
            n_sites=10, n_points=100, confidence_level=0.9, criterion="stable"
        )
        assert (paper.local_ranks[0], paper.server_rank) == (95, 1)
        assert paper.law.std() == pytest.approx(0.0192, abs=5e-5)
        assert stable.law.std() < 0.0120
        assert stable.law.mean() < 0.9031
        assert paper.law.std() > 1.6 * stable.law.std()

    def test_conditional_keeps_its_promise_with_probability_one_minus_delta(self):
        plan = fc.plan(
            n_sites=10,
            n_points=100,
            confidence_level=0.9,
            criterion="conditional",
            delta=0.05,
        )
        assert plan.law.sf(0.9) >= 0.95
        lower = plan.law.federation.cdf(
            np.array([0.9]), np.array([plan.server_rank - 1])
        )[0, 0]
        assert lower > 0.05

    @pytest.mark.slow
    @pytest.mark.parametrize("size", [1000, 10**6])
    def test_large_federations_come_close_to_the_level(self, size):
        for criterion in ("marginal", "stable"):
            plan = fc.plan(
                n_sites=size, n_points=size, confidence_level=0.9, criterion=criterion
            )
            assert 0 <= plan.law.mean() - 0.9 < 0.05 / size
        assert len(plan.to_json()) < 1000

    def test_rare_misses_can_be_promised(self):
        for options in (
            {"n_sites": 1, "delta": 0.001},
            {"n_sites": 10, "delta": 1e-12},
        ):
            plan = fc.plan(
                n_points=1000, confidence_level=0.9, criterion="conditional", **options
            )
            assert plan.feasible
            assert plan.law.cdf(0.9) <= options["delta"]

    @pytest.mark.parametrize("criterion", ["marginal", "stable"])
    def test_faulty_sites_cost_coverage_but_not_validity(self, criterion):
        plan = fc.plan(
            n_sites=20,
            n_points=50,
            confidence_level=0.9,
            max_faulty=3,
            criterion=criterion,
        )
        runs = 4000
        draws = simulated_coverage(
            [50] * 20,
            list(plan.local_ranks),
            plan.server_rank,
            runs=runs,
            rng=np.random.default_rng(2),
            adversary=3,
        )
        # 4,000 runs of standard deviation below 0.03: five and a half standard errors,
        # false alarm below 1e-7
        assert draws.mean() > 0.9 - 5.5 * 0.03 / math.sqrt(runs)


class TestOwnRank:
    """The smallest rank with which a site keeps the promise by itself."""

    @pytest.mark.parametrize("n", [1, 8, 9, 10, 59, 200])
    def test_on_average_is_split_conformal_prediction(self, n):
        for criterion in (Marginal(), Stable()):
            rank = criterion.own_rank(n, Goal(NINE, criterion))
            assert rank == min(math.ceil(NINE * (n + 1)), n + 1)

    @pytest.mark.parametrize("n", [1, 21, 22, 59, 200])
    def test_with_certainty_is_the_smallest_that_misses_rarely(self, n):
        criterion = Conditional()
        rank = criterion.own_rank(n, Goal(NINE, criterion))
        missed = [stats.beta.cdf(0.9, l, n - l + 1) for l in range(1, n + 1)]
        assert rank == next(
            (l for l, p in enumerate(missed, start=1) if p <= 0.1), n + 1
        )

    @pytest.mark.parametrize("n", [1, 9, 21, 22, 59, 200])
    @pytest.mark.parametrize(
        "criterion", [Marginal(), Conditional()], ids=lambda c: c.name
    )
    def test_what_every_criterion_inherits_gives_the_same_but_for_ties(
        self, criterion, n
    ):
        goal = Goal(NINE, criterion)
        own, inherited = (
            criterion.own_rank(n, goal),
            Criterion.own_rank(criterion, n, goal),
        )
        exact = own <= n and own == NINE * (n + 1)
        assert inherited == own + exact


class TestClasses:
    def test_are_found_by_name(self):
        assert [CRITERIA[kind.name] for kind in (Marginal, Stable, Conditional)] == [
            Marginal,
            Stable,
            Conditional,
        ]
        with pytest.raises(
            ValueError, match=r"criterion must be one of .*'marginal'.*, got 'best'"
        ):
            CRITERIA["best"]

    def test_two_of_one_class_are_the_same(self):
        assert Stable() == Stable()
        assert hash(Stable()) == hash(Stable())
        assert Stable() != Marginal()

    @pytest.mark.parametrize("name", ["marginal", "stable", "conditional"])
    def test_have_words_for_everything(self, name):
        criterion = CRITERIA[name]()
        delta = 0.05 if criterion.takes_delta else None
        assert name in criterion.options(delta)
        assert criterion.promise(0.9, "new cases", delta).endswith(
            "at least 90\N{NO-BREAK SPACE}% of new cases."
        )
        assert criterion.surety(delta) in criterion.promise(0.9, "x", delta).lower()

    def test_a_certainty_is_not_rounded(self):
        assert Conditional().surety(0.001) == "with 99.9\N{NO-BREAK SPACE}% certainty"

    def test_a_law_may_keep_another_promise_too(self):
        plan = quiet(n_sites=10, n_points=100, criterion="conditional")
        assert Marginal().follows_from(plan.law, 0.9, None)
        assert not Marginal().follows_from(plan.law, 0.99, None)
