"""The search finds the best ranks of all, and never an invalid choice."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal.laws import exact_cdf, exact_mean
from fedconformal.laws._sites import equal_cdf, equal_moments
from fedconformal.planning._choosing import reduce_votes
from planning.plans import is_valid, quiet, tolerates

levels = st.sampled_from([0.1, 0.5, 0.75, 0.8, 0.9, 0.95, 0.99])
criteria = st.sampled_from(["marginal", "stable", "conditional"])


def cost_of(law, level, criterion):
    return (
        law.var() + (law.mean() - level) ** 2 if criterion == "stable" else law.mean()
    )


class TestEqualSites:
    @pytest.mark.slow
    @settings(max_examples=60)
    @given(st.integers(1, 60), st.integers(1, 120), levels, criteria, st.integers(0, 2))
    def test_get_the_best_pair_of_all(self, m, n, level, criterion, f):
        f = f if 2 * f < m else 0
        options = {"confidence_level": level, "criterion": criterion, "max_faulty": f}
        plan = quiet(n_sites=m, n_points=n, max_missing=0, **options)
        l, k = np.arange(1, n + 1)[:, None], np.arange(f + 1, m - f + 1)[None, :]
        mean, variance = equal_moments(m - f, n, l, k - f)
        if criterion == "conditional":
            valid = equal_cdf(m - f, n, l, k - f, level) <= 0.1 + 1e-13
        else:
            valid = mean >= level - 1e-13
        cost = np.where(
            valid,
            variance + (mean - level) ** 2 if criterion == "stable" else mean,
            np.inf,
        )
        if not plan.feasible:
            # only pairs that equal the level to the last digit may be passed over
            assert not valid.any() or (
                cost.min() <= level + 1e-12 and criterion != "stable"
            )
            return
        got = cost[plan.local_ranks[0] - 1, plan.server_rank - f - 1]
        assert (
            got <= cost.min() * (1 + 1e-9)
            if criterion == "stable"
            else got <= cost.min() + 1e-12
        )
        usual = quiet(n_sites=m, n_points=n, **options)
        given_up = cost[usual.local_ranks[0] - 1, usual.server_rank - f - 1]
        if criterion == "marginal":
            assert (usual.local_ranks[0], usual.server_rank) == (
                plan.local_ranks[0],
                plan.server_rank,
            )
        elif tolerates(plan) or not tolerates(usual):
            assert given_up <= got + 1e-12
        else:
            excess = 0.0 if criterion == "stable" else level
            assert got < given_up <= excess + 1.02 * (got - excess) + 1e-12

    @pytest.mark.parametrize(
        ("m", "n", "criterion", "sharpest", "usual"),
        [(3, 10, "stable", (9, 3), (10, 2)), (5, 40, "conditional", (36, 5), (38, 3))],
    )
    def test_a_plan_that_bears_a_silent_site_is_preferred_within_two_per_cent(
        self, m, n, criterion, sharpest, usual
    ):
        plans = [
            fc.plan(m, n, criterion=criterion, max_missing=missing)
            for missing in (0, None, 1)
        ]
        assert [(plan.local_ranks[0], plan.server_rank) for plan in plans] == [
            sharpest,
            usual,
            usual,
        ]
        assert [tolerates(plan) for plan in plans] == [False, True, True]
        floor = 0.0 if criterion == "stable" else 0.9
        costs = [cost_of(plan.law, 0.9, criterion) - floor for plan in plans]
        assert costs[0] < costs[1] <= 1.02 * costs[0]

    def test_where_the_best_bears_one_nothing_is_given_up(self):
        best, usual = (
            fc.plan(10, 200, criterion="stable", max_missing=missing)
            for missing in (0, None)
        )
        assert (best.local_ranks[0], best.server_rank) == (178, 8)
        assert (best.server_rank, best.message) == (usual.server_rank, usual.message)
        assert tolerates(best)

    def test_on_average_alone_nothing_is_given_up(self):
        """The paper's choice stays the paper's choice, whatever silence does to it."""
        paper = fc.plan(10, 200, criterion="marginal")
        assert (paper.local_ranks[0], paper.server_rank) == (174, 10)
        assert not tolerates(paper)
        assert "one missing site could make the threshold infinite" in paper.notes[-1]


def best_common_share(sizes, level, criterion):
    """What the best common share costs, by brute force in whole numbers; inf where none
    is valid.

    On average the spread does not count, and a share that leaves small sites out is no
    better than one that does not: these are looked at only where there is no other.
    """
    shares = {Fraction(i, n + 1) for n in sizes for i in range(1, n + 1)}
    vectors = {tuple(math.ceil(share * (n + 1)) for n in sizes) for share in shares} | {
        tuple(sizes)
    }
    with_all = {
        ranks
        for ranks in vectors
        if all(l <= n for l, n in zip(ranks, sizes, strict=True))
    }
    if criterion == "marginal":
        found = lowest_cost(sizes, with_all, level, criterion)
        return (
            found if found < math.inf else lowest_cost(sizes, vectors, level, criterion)
        )
    return lowest_cost(sizes, vectors, level, criterion)


def lowest_cost(sizes, vectors, level, criterion):
    a, best = Fraction(str(level)), math.inf
    for ranks in vectors:
        for k in range(1, sum(l <= n for l, n in zip(ranks, sizes, strict=True)) + 1):
            mean = exact_mean(sizes, ranks, k)
            bound = float(mean - a) ** 2 if criterion == "stable" else float(mean)
            if bound >= best:
                continue
            if criterion == "conditional":
                valid = exact_cdf(sizes, ranks, k, a) <= Fraction(1, 10)
            else:
                valid = mean >= a
            if valid and criterion == "stable":
                law = fc.CoverageLaw(
                    n_points=sizes, local_rank=list(ranks), server_rank=k
                )
                bound = cost_of(law, level, criterion)
            best = min(best, bound) if valid else best
    return best


class TestUnevenSites:
    @pytest.mark.slow
    @settings(max_examples=25)
    @given(st.lists(st.integers(1, 14), min_size=1, max_size=5), levels, criteria)
    def test_are_never_worse_off_than_with_the_best_common_share_of_all(
        self, sizes, level, criterion
    ):
        """Weights can only add to what one vote each gives; sites of one size have one
        vote each.
        """
        plan = quiet(
            n_points=sizes, confidence_level=level, criterion=criterion, max_missing=0
        )
        best = best_common_share(sizes, level, criterion)
        assert plan.feasible == (best < math.inf)
        if not plan.feasible:
            return
        found = cost_of(plan.law, level, criterion)
        assert found <= best * (1 + 1e-8)
        if len(set(sizes)) == 1:
            assert found == pytest.approx(best, rel=1e-8)

    @pytest.mark.slow
    @settings(max_examples=25)
    @given(
        st.lists(st.integers(1, 400), min_size=1, max_size=12),
        levels,
        criteria,
        st.integers(0, 3),
        st.sampled_from(["common", "paper"]),
    )
    def test_never_get_an_invalid_plan(self, sizes, level, criterion, f, rule):
        f = f if 2 * f < len(sizes) else 0
        plan = quiet(
            n_points=sizes,
            confidence_level=level,
            criterion=criterion,
            max_faulty=f,
            local_ranks=rule,
        )
        check_promise(plan, sizes, f)

    @pytest.mark.slow
    @settings(max_examples=20)
    @given(
        st.lists(st.integers(1, 100), min_size=1, max_size=4),
        levels,
        criteria,
        st.integers(0, 1),
        st.integers(2, 4),
    )
    def test_never_get_an_invalid_plan_with_several_numbers(
        self, sizes, level, criterion, f, numbers
    ):
        f = f if 2 * f < len(sizes) else 0
        plan = quiet(
            n_points=sizes,
            confidence_level=level,
            criterion=criterion,
            max_faulty=f,
            numbers=numbers,
        )
        check_promise(plan, sizes, f)
        assert all(len(ranks) <= numbers for ranks in plan.message.levels[0].ranks)

    @pytest.mark.slow
    @settings(max_examples=20)
    @given(
        st.lists(st.integers(1, 400), min_size=1, max_size=6),
        levels,
        criteria,
        st.integers(0, 2),
    )
    def test_are_infeasible_only_if_all_maxima_are(self, sizes, level, criterion, f):
        """The largest threshold that faulty sites cannot make infinite: if it does,
        some plan does.
        """
        f = f if 2 * f < len(sizes) else 0
        plan = quiet(
            n_points=sizes, confidence_level=level, criterion=criterion, max_faulty=f
        )
        largest = fc.CoverageLaw(
            n_points=sizes, local_rank=sizes, server_rank=len(sizes) - f, max_faulty=f
        )
        reached = (
            0.1 - largest.cdf(level)
            if criterion == "conditional"
            else largest.mean() - level
        )
        if abs(reached) > 1e-9:
            assert plan.feasible == (reached > 0)

    @pytest.mark.slow
    @pytest.mark.parametrize("criterion", ["marginal", "stable", "conditional"])
    def test_may_be_many_and_all_different(self, criterion):
        sizes = np.random.default_rng(1).permutation(np.arange(20, 320))
        plan = fc.plan(n_points=sizes, confidence_level=0.9, criterion=criterion)
        assert is_valid(plan)
        assert plan.law.mean() < (0.905 if criterion == "conditional" else 0.9003)

    @pytest.mark.slow
    @settings(max_examples=20)
    @given(st.lists(st.integers(1, 300), min_size=1, max_size=12), levels, criteria)
    def test_are_never_worse_off_than_with_the_papers_choice(
        self, sizes, level, criterion
    ):
        options = {"n_points": sizes, "confidence_level": level, "criterion": criterion}
        paper, ours = (
            quiet(local_ranks="paper", **options),
            quiet(max_missing=0, **options),
        )
        if not paper.feasible:
            return
        assert ours.feasible
        if criterion == "stable":
            cost = [cost_of(plan.law, level, criterion) for plan in (ours, paper)]
            assert cost[0] <= cost[1] * (1 + 1e-8)
        else:
            assert ours.law.mean() <= paper.law.mean() + 1e-11


def check_promise(plan, sizes, f):
    """The promise, by a law that is made of the plan's own words; and votes that faulty
    sites leave alone.
    """
    level = plan.message.levels[0]
    rows = zip(plan.designs[0].sites, level.ranks, level.all_votes(), strict=True)
    sites = [
        (kind.n, ranks, votes) for kind, ranks, votes in rows for _ in range(kind.count)
    ]
    assert [n for n, _, _ in sites] == sizes
    asked = [site for site in sites if site[1]]
    n_points, ranks, votes = (list(column) for column in zip(*asked, strict=True))
    independent = fc.CoverageLaw(
        n_points=n_points,
        local_rank=ranks,
        weights=votes,
        server_rank=plan.server_rank,
        max_faulty=f,
    )
    assert is_valid(plan, independent)
    if not plan.feasible:
        assert plan.server_rank == sum(map(sum, votes)) + 1
        return
    assert independent.mean() < 1
    lies = sum(sorted(map(sum, votes), reverse=True)[:f])
    finite = sum(
        vote
        for n, ranks, votes in asked
        for rank, vote in zip(ranks, votes, strict=True)
        if rank <= n
    )
    assert lies < plan.server_rank <= finite - lies


class TestTheLevelIsWhatWasTyped:
    @pytest.mark.parametrize(
        ("size", "level", "rank"),
        [(9, 0.9, 9), (99, 0.95, 95), (199, 0.99, 198), (19, 0.7, 14)],
    )
    def test_ranks_of_split_conformal_prediction(self, size, level, rank):
        """(n + 1) * level is whole here, where floating point is one off as often as
        not.
        """
        options = {"confidence_level": level, "criterion": "marginal"}
        assert fc.plan(n_sites=size, n_points=1, **options).server_rank == rank
        assert list(fc.plan(n_sites=1, n_points=size, **options).local_ranks) == [rank]

    def test_a_mean_that_equals_the_level_exactly_is_valid(self):
        plan = fc.plan(
            n_sites=7, n_points=91, confidence_level=0.5, criterion="marginal"
        )
        assert (plan.local_ranks[0], plan.server_rank) == (46, 4)

    @pytest.mark.parametrize("criterion", ["marginal", "stable"])
    @pytest.mark.parametrize(
        ("m", "n", "level"),
        [(27, 37, 0.999), (3, 3333, 0.9999), (20, 50_000, 0.999999), (1, 999, 0.999)],
    )
    def test_the_largest_of_all_points_is_exact_at_any_size(
        self, m, n, level, criterion
    ):
        """m n / (m n + 1) equals the level to the last digit."""
        options = {"confidence_level": level, "criterion": criterion}
        assert fc.plan(n_sites=m, n_points=n, **options).feasible
        assert not quiet(n_sites=m, n_points=n - 1, **options).feasible


class TestFaultySites:
    """Candidates are compared on few nodes; what is chosen has been confirmed."""

    @pytest.mark.slow
    @pytest.mark.parametrize("criterion", ["stable", "marginal", "conditional"])
    @pytest.mark.parametrize(
        ("sizes", "faulty", "numbers"),
        [([30, 50, 80, 90, 200], 1, 2), ([60, 61, 70], 1, 1)],
    )
    def test_the_promise_is_kept_by_the_exact_law(
        self, criterion, sizes, faulty, numbers
    ):
        plan = fc.plan(
            n_points=sizes, max_faulty=faulty, numbers=numbers, criterion=criterion
        )
        law = fc.CoverageLaw(
            n_points=sizes,
            local_rank=[
                ranks if isinstance(ranks, tuple) else (ranks,)
                for ranks in plan.local_ranks
            ],
            weights=list(plan.weights),
            server_rank=plan.server_rank,
            max_faulty=faulty,
        )
        assert plan.feasible
        assert law.cdf(0.9) <= 0.1 if criterion == "conditional" else law.mean() >= 0.9

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("n", "m", "faulty"), [(543, 7, 3), (5000, 5, 1), (100, 12, 2)]
    )
    @pytest.mark.parametrize("delta", [0.1, 1e-4])
    def test_sizes_that_hardly_differ_cost_hardly_more_than_equal_ones(
        self, n, m, faulty, delta
    ):
        """The mean coverage above the level; equal sites are searched exhaustively."""
        options = {"criterion": "conditional", "delta": delta, "max_faulty": faulty}
        equal = fc.plan(m, n, **options).law.mean() - 0.9
        uneven = (
            fc.plan(n_points=[n + j - m // 2 for j in range(m)], **options).law.mean()
            - 0.9
        )
        assert uneven <= 1.3 * equal


def test_votes_are_reduce_votes():
    """Leaving a site out may leave a common divisor."""
    weights, votes = reduce_votes(np.array([[6], [0], [4]]), 7)
    assert (weights.tolist(), votes) == ([[3], [0], [2]], 4)
