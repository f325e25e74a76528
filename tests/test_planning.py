import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal.laws import exact_cdf, exact_mean
from fedconformal.laws._moments import equal_cdf, equal_moments
from support import simulated_coverage

levels = st.sampled_from([0.1, 0.5, 0.75, 0.8, 0.9, 0.95, 0.99])
criteria = st.sampled_from(["marginal", "stable", "conditional"])


def quiet(*args, **kwargs):
    return fc.plan(*args, on_infeasible="ignore", **kwargs)


def is_valid(plan, law=None):
    """The promise of a plan, checked with the law and a margin for rounding only."""
    law = law or plan.law
    if plan.criterion == "conditional":
        return law.cdf(plan.confidence_level) <= plan.delta + 1e-12
    return law.mean() >= plan.confidence_level - 1e-12


class TestEverySearch:
    @settings(max_examples=150)
    @given(st.integers(1, 60), st.integers(1, 120), levels, criteria, st.integers(0, 2))
    def test_equal_sites_get_the_best_pair_of_all(self, m, n, level, criterion, f):
        f = f if 2 * f < m else 0
        plan = quiet(n_sites=m, n_points=n, confidence_level=level, criterion=criterion, max_faulty=f)
        l, k = np.arange(1, n + 1)[:, None], np.arange(f + 1, m - f + 1)[None, :]
        mean, variance = equal_moments(m - f, n, l, k - f)
        if criterion == "conditional":
            valid = equal_cdf(m - f, n, l, k - f, level) <= 0.1 + 1e-13
        else:
            valid = mean >= level - 1e-13
        cost = np.where(valid, variance + (mean - level) ** 2 if criterion == "stable" else mean, np.inf)
        if not plan.feasible:
            # only pairs that equal the level to the last digit may be passed over
            assert not valid.any() or (cost.min() <= level + 1e-12 and criterion != "stable")
            return
        got = cost[plan.local_ranks[0] - 1, plan.server_rank - f - 1]
        assert got <= cost.min() * (1 + 1e-9) if criterion == "stable" else got <= cost.min() + 1e-12

    @settings(max_examples=60)
    @given(st.lists(st.integers(1, 14), min_size=1, max_size=5), levels, criteria)
    def test_uneven_sites_get_the_best_common_share_of_all(self, sizes, level, criterion):
        plan = quiet(n_points=sizes, confidence_level=level, criterion=criterion)
        a = Fraction(str(level))
        best = math.inf
        shares = {Fraction(i, n + 1) for n in sizes for i in range(1, n + 1)}
        vectors = [[math.ceil(share * (n + 1)) for n in sizes] for share in shares]
        for ranks in (*vectors, sizes):
            for k in range(1, sum(l <= n for l, n in zip(ranks, sizes, strict=True)) + 1):
                if criterion == "conditional":
                    valid = exact_cdf(sizes, ranks, k, a) <= Fraction(1, 10)
                else:
                    valid = exact_mean(sizes, ranks, k) >= a
                if valid:
                    law = fc.CoverageLaw(n_points=sizes, local_rank=ranks, server_rank=k)
                    spread = law.var() + (law.mean() - level) ** 2
                    best = min(best, spread if criterion == "stable" else law.mean())
        assert plan.feasible == (best < math.inf)
        if plan.feasible:
            law = plan.law
            cost = law.var() + (law.mean() - level) ** 2 if criterion == "stable" else law.mean()
            assert cost == pytest.approx(best, rel=1e-8)

    @settings(max_examples=60)
    @given(
        st.lists(st.integers(1, 400), min_size=1, max_size=20),
        levels,
        criteria,
        st.integers(0, 3),
        st.sampled_from(["common", "paper", 0.7]),
    )
    def test_no_plan_is_ever_invalid(self, sizes, level, criterion, f, rule):
        f = f if 2 * f < len(sizes) else 0
        plan = quiet(
            n_points=sizes, confidence_level=level, criterion=criterion, max_faulty=f, local_ranks=rule
        )
        independent = fc.CoverageLaw(
            n_points=sizes, local_rank=list(plan.local_ranks), server_rank=plan.server_rank, max_faulty=f
        )
        assert is_valid(plan, independent)
        if plan.feasible:
            assert independent.mean() < 1
            finite = sum(l <= n for l, n in zip(plan.local_ranks, sizes, strict=True))
            assert f < plan.server_rank <= finite - f
        else:
            assert plan.server_rank == len(sizes) + 1

    @pytest.mark.parametrize("criterion", ["marginal", "stable", "conditional"])
    def test_many_different_sites(self, criterion):
        sizes = np.random.default_rng(1).permutation(np.arange(20, 320))
        plan = fc.plan(n_points=sizes, confidence_level=0.9, criterion=criterion)
        assert is_valid(plan)
        assert plan.law.mean() < (0.905 if criterion == "conditional" else 0.9003)


class TestTheLevelIsWhatWasTyped:
    @pytest.mark.parametrize(
        ("size", "level", "rank"), [(9, 0.9, 9), (99, 0.95, 95), (199, 0.99, 198), (19, 0.7, 14)]
    )
    def test_ranks_of_split_conformal_prediction(self, size, level, rank):
        """(n + 1) * level is whole here, where floating point is one off as often as not."""
        assert fc.plan(n_sites=size, n_points=1, confidence_level=level).server_rank == rank
        assert list(fc.plan(n_sites=1, n_points=size, confidence_level=level).local_ranks) == [rank]

    def test_a_mean_that_equals_the_level_exactly_is_valid(self):
        plan = fc.plan(n_sites=7, n_points=91, confidence_level=0.5)
        assert (plan.local_ranks[0], plan.server_rank) == (46, 4)

    def test_plans_are_functions_of_their_inputs(self):
        same = [fc.plan(n_sites=10, n_points=79, confidence_level=0.9) for _ in range(2)]
        assert same[0] == same[1]
        assert same[0].digest == "sha256:82fd2559348fb50e7c4d3297aa93a84430cc9634d1153833d84dc7f70b898df5"
        assert fc.plan(n_points=[79] * 10, confidence_level=0.9) == same[0]


class TestCriteria:
    def test_the_papers_pair_has_twice_the_spread_of_the_stable_one(self):
        paper = fc.plan(n_sites=10, n_points=100, confidence_level=0.9)
        stable = fc.plan(n_sites=10, n_points=100, confidence_level=0.9, criterion="stable")
        assert (paper.local_ranks[0], paper.server_rank) == (95, 1)
        assert paper.law.std() == pytest.approx(0.0192, abs=5e-5)
        assert stable.law.std() < 0.0120
        assert stable.law.mean() < 0.9031
        assert paper.law.std() > 1.6 * stable.law.std()

    def test_conditional_keeps_its_promise_with_probability_one_minus_delta(self):
        plan = fc.plan(n_sites=10, n_points=100, confidence_level=0.9, criterion="conditional", delta=0.05)
        assert plan.law.sf(0.9) >= 0.95
        lower = plan.law.federation.cdf(np.array([0.9]), np.array([plan.server_rank - 1]))[0, 0]
        assert lower > 0.05

    @pytest.mark.parametrize("size", [1000, 10**6])
    def test_large_federations_come_close_to_the_level(self, size):
        for criterion in ("marginal", "stable"):
            plan = fc.plan(n_sites=size, n_points=size, confidence_level=0.9, criterion=criterion)
            assert 0 <= plan.law.mean() - 0.9 < 0.05 / size
        assert len(plan.to_json()) < 1000

    def test_faulty_sites_cost_coverage_but_not_validity(self):
        plan = fc.plan(n_sites=20, n_points=50, confidence_level=0.9, max_faulty=3)
        runs = 4000
        draws = simulated_coverage(
            [50] * 20,
            list(plan.local_ranks),
            plan.server_rank,
            runs=runs,
            rng=np.random.default_rng(2),
            adversary=3,
        )
        # 4,000 runs of standard deviation below 0.03: five and a half standard errors, false alarm below 1e-7
        assert draws.mean() > 0.9 - 5.5 * 0.03 / math.sqrt(runs)


class TestLocalRanks:
    def test_the_papers_choice(self):
        plan = fc.plan(n_points=[120, 40, 377], confidence_level=0.9, local_ranks="paper")
        assert list(plan.local_ranks) == [109, 37, 341]
        assert plan.levels[0].share == "9/10"

    def test_sites_that_are_too_small_are_named(self):
        plan = fc.plan(n_points={"A": 5, "B": 30, "C": 40}, confidence_level=0.9, local_ranks="paper")
        assert list(plan.local_ranks) == [6, 28, 37]
        assert "send Infinity: A" in plan.notes[0]

    def test_a_number_is_the_share(self):
        assert list(fc.plan(n_points=[9, 19], confidence_level=0.6, local_ranks=0.7).local_ranks) == [7, 14]


class TestOpenPlans:
    def test_sites_apply_the_rule_to_what_they_have(self):
        plan = fc.plan(confidence_level=0.9)
        assert plan.is_open
        assert (plan.law, plan.server_rank, plan.local_ranks, plan.n_points, plan.n_sites) == (None,) * 5
        assert [plan.ranks_for(n) for n in (9, 10, 99, 5)] == [(9,), (10,), (90,), (6,)]
        assert fc.plan(n_sites=4, confidence_level=0.9).n_sites == 4
        assert fc.plan(sites=["A", "B"], confidence_level=0.9).n_sites == 2

    def test_several_levels(self):
        assert fc.plan(confidence_level=[0.8, 0.9]).ranks_for(9) == (8, 9)

    def test_levels_with_many_digits(self):
        level = 0.0012345678901234567
        assert fc.plan(confidence_level=level).ranks_for(10_000) == (13,)
        sizes = np.arange(5000, 5100)
        assert fc.plan(n_points=sizes, confidence_level=0.9123456789012345).law.mean() >= 0.9123456789012345


class TestSeveralLevels:
    def test_each_level_is_planned_as_if_alone(self):
        several = fc.plan(n_sites=10, n_points=100, confidence_level=[0.8, 0.9, 0.95])
        alone = [fc.plan(n_sites=10, n_points=100, confidence_level=level) for level in (0.8, 0.9, 0.95)]
        assert several.server_rank == tuple(plan.server_rank for plan in alone)
        assert [list(ranks) for ranks in several.local_ranks] == [list(plan.local_ranks) for plan in alone]
        assert [law.mean() for law in several.law] == [plan.law.mean() for plan in alone]
        assert several.confidence_level == (0.8, 0.9, 0.95)


class TestInfeasible:
    def test_says_so_and_what_would_do(self):
        with pytest.warns(fc.InfeasibleWarning, match="3 points at each of 3 sites, or 5 sites of 2 points"):
            plan = fc.plan(n_sites=3, n_points=2, confidence_level=0.9)
        assert not plan.feasible
        assert (plan.server_rank, plan.law.mean()) == (4, 1.0)
        assert quiet(n_sites=3, n_points=3, confidence_level=0.9).feasible
        assert quiet(n_sites=5, n_points=2, confidence_level=0.9).feasible
        assert not quiet(n_sites=4, n_points=2, confidence_level=0.9).feasible

    def test_raises_the_same_sentence(self):
        with pytest.raises(ValueError, match=r"No ranks reach the level 0\.9"):
            fc.plan(n_sites=3, n_points=2, confidence_level=0.9, on_infeasible="raise")

    @settings(max_examples=40)
    @given(st.integers(1, 12), st.integers(1, 12), levels, criteria, st.integers(0, 2))
    def test_the_advice_is_the_smallest_that_works(self, m, n, level, criterion, f):
        f = f if 2 * f < m else 0
        options = {"confidence_level": level, "criterion": criterion, "max_faulty": f}
        plan = quiet(n_sites=m, n_points=n, **options)
        if plan.feasible:
            return
        advice = plan.levels[0].advice
        assert quiet(n_sites=m, n_points=advice.n_points, **options).feasible
        assert quiet(n_sites=advice.n_sites, n_points=n, **options).feasible
        assert not quiet(n_sites=m, n_points=advice.n_points - 1, **options).feasible
        assert not quiet(n_sites=advice.n_sites - 1, n_points=n, **options).feasible

    def test_uneven_sites(self):
        assert fc.plan(n_points=[5, 20], confidence_level=0.96).law.mean() == pytest.approx(25 / 26)

    @pytest.mark.parametrize(
        ("m", "n", "level"), [(27, 37, 0.999), (3, 3333, 0.9999), (20, 50_000, 0.999999), (1, 999, 0.999)]
    )
    def test_the_largest_of_all_points_is_exact_at_any_size(self, m, n, level):
        """m n / (m n + 1) equals the level to the last digit."""
        assert fc.plan(n_sites=m, n_points=n, confidence_level=level).feasible
        assert not quiet(n_sites=m, n_points=n - 1, confidence_level=level).feasible

    def test_rare_misses_can_be_promised(self):
        for options in ({"n_sites": 1, "delta": 0.001}, {"n_sites": 10, "delta": 1e-12}):
            plan = fc.plan(n_points=1000, confidence_level=0.9, criterion="conditional", **options)
            assert plan.feasible
            assert plan.law.cdf(0.9) <= options["delta"]

    def test_advice_keeps_to_fixed_local_ranks(self):
        plan = quiet(n_sites=2, n_points=100, confidence_level=0.9, local_ranks=0.7)
        advice = plan.levels[0].advice
        assert advice.n_points is None  # more points make it worse
        assert quiet(n_sites=advice.n_sites, n_points=100, local_ranks=0.7).feasible
        assert "these local ranks" in plan.problems[0]

    def test_a_level_out_of_reach_of_any_federation_gets_no_advice(self):
        plan = quiet(n_sites=2, n_points=5, confidence_level=1 - 1e-14)
        assert "more than this search could find" in plan.problems[0]

    def test_messages_show_the_level_that_was_typed(self):
        plan = quiet(n_points=[2, 3, 2], confidence_level=0.9999999)
        assert "level 0.9999999 " in plan.problems[0]
        assert "3 sites of 2 to 3 points" in plan.problems[0]


class TestArguments:
    @pytest.mark.parametrize(
        ("arguments", "error", "words"),
        [
            ({"n_sites": 0, "n_points": 5}, ValueError, "n_sites must be >= 1, got 0"),
            ({"confidence_level": 90}, ValueError, r"confidence_level must be a number in \(0, 1\), got 90"),
            ({"confidence_level": "0.9"}, TypeError, "confidence_level must be .* got '0.9'"),
            ({"confidence_level": math.nan}, ValueError, "confidence_level must be .* got nan"),
            ({"confidence_level": [0.9, 0.9]}, ValueError, "different levels"),
            ({"confidence_level": []}, ValueError, "different levels"),
            ({"n_points": [3, -1]}, ValueError, r"n_points\[1\] must be between 1 and .*, got -1"),
            ({"n_points": []}, ValueError, "non-empty"),
            ({"n_points": "12"}, TypeError, "n_points"),
            ({"n_points": [1.5]}, TypeError, "n_points"),
            ({"n_points": [3, True]}, TypeError, "n_points"),
            (
                {"n_sites": 3, "n_points": [3, 1]},
                ValueError,
                "n_sites must be the length of n_points, 2, got 3",
            ),
            (
                {"n_sites": 4, "n_points": 5, "delta": 0.6},
                ValueError,
                r"delta must be a number in \(0, 0.5\], got 0.6",
            ),
            ({"n_sites": 4, "n_points": 5, "delta": 0}, ValueError, "delta"),
            ({"n_sites": 4, "n_points": 5, "max_faulty": 2}, ValueError, "max_faulty must be below half"),
            ({"n_sites": 4, "n_points": 5, "max_faulty": -1}, ValueError, "max_faulty"),
            ({"n_sites": 4, "n_points": 5, "criterion": "best"}, ValueError, "criterion must be one of"),
            ({"n_sites": 4, "n_points": 5, "local_ranks": "mine"}, ValueError, "local_ranks must be one of"),
            ({"n_sites": 4, "n_points": 5, "local_ranks": 2}, ValueError, "local_ranks"),
            ({"n_points": 5}, TypeError, "n_sites is needed"),
            ({"n_points": [10**30]}, ValueError, "n_points"),
            ({"n_sites": 3, "n_points": 10**400}, ValueError, "n_points"),
            ({"sites": ["A\u2028B"]}, ValueError, "site"),
            ({"sites": ["A"], "keys": {"A": "nonsense"}}, ValueError, "public_key"),
            ({"n_sites": 4, "n_points": 5, "score": "best"}, ValueError, "name"),
            ({"n_points": {"A": 3}, "sites": ["B"]}, ValueError, "the same"),
            ({"sites": ["A", "A"]}, ValueError, "twice"),
            ({"sites": "A"}, ValueError, "list of names"),
            ({"n_sites": 3, "sites": ["A", "B"]}, ValueError, "number of site names, 2, got 3"),
            ({"sites": ["A"], "keys": {"B": "ed25519:" + "0" * 64}}, ValueError, "keys must hold"),
        ],
    )
    def test_a_refusal_names_argument_value_and_range(self, arguments, error, words):
        with pytest.raises(error, match=words):
            fc.plan(**arguments)


class TestViews:
    def test_local_ranks_of_a_million_sites_is_a_view(self):
        plan = fc.plan(n_sites=10**6, n_points=20, confidence_level=0.9)
        assert len(plan.local_ranks) == 10**6
        assert plan.local_ranks[999_999] == plan.local_ranks[0] == plan.local_ranks[-1]
        assert len(json.dumps(json.loads(plan.to_json()))) < 600

    def test_a_million_sites_in_any_order_is_a_small_file(self):
        sizes = np.random.default_rng(0).choice([100, 200, 300, 400], size=1_000_000)
        plan = fc.plan(n_points=sizes, confidence_level=0.9)
        assert len(plan.to_json()) < 2000
        assert np.array_equal(np.sort(sizes), np.asarray(plan.n_points))

    def test_it_behaves_like_a_sequence(self):
        ranks = fc.plan(n_points=[120, 40, 40, 377], confidence_level=0.9).local_ranks
        assert ranks != ["x", None, 1.5, 2]
        assert ranks == [np.int64(rank) for rank in ranks]
        assert ranks != [rank + 1 for rank in ranks]
        assert ranks == list(ranks)
        assert ranks[1:3] == [ranks[1], ranks[2]]
        assert np.asarray(ranks).tolist() == list(ranks)
        assert ranks != [1]
        assert "2 x" in repr(ranks)
        with pytest.raises(IndexError, match="4 sites"):
            ranks[4]

    def test_sites_are_found_by_name_or_by_size(self):
        named = fc.plan(n_points={"A": 120, "B": 40}, confidence_level=0.9)
        assert named.ranks_for(40, site="B") == (named.local_ranks[1],)
        for n, site, words in [
            (41, "B", "expects 40 scores from site 'B', got 41"),
            (40, "C", "one of the 2 sites"),
        ]:
            with pytest.raises(ValueError, match=words):
                named.ranks_for(n, site=site)
        sized = fc.plan(n_points=[120, 40], confidence_level=0.9)
        assert sized.ranks_for(120) == (sized.local_ranks[0],)
        with pytest.raises(ValueError, match="expects sites with 40, 120 scores, got 7"):
            sized.ranks_for(7)


@settings(max_examples=60)
@given(st.lists(st.integers(1, 300), min_size=1, max_size=12), levels, criteria)
def test_searching_the_share_is_never_worse_than_the_papers_choice(sizes, level, criterion):
    options = {"n_points": sizes, "confidence_level": level, "criterion": criterion}
    paper, ours = quiet(local_ranks="paper", **options), quiet(**options)
    if not paper.feasible:
        return
    assert ours.feasible
    if criterion == "stable":
        cost = [plan.law.var() + (plan.law.mean() - level) ** 2 for plan in (ours, paper)]
        assert cost[0] <= cost[1] * (1 + 1e-8)
    else:
        assert ours.law.mean() <= paper.law.mean() + 1e-11
