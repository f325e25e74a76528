"""The search finds the best ranks of all, and never an invalid choice."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal.laws import equal_cdf, equal_moments, exact_cdf, exact_mean
from planning.plans import is_valid, quiet

levels = st.sampled_from([0.1, 0.5, 0.75, 0.8, 0.9, 0.95, 0.99])
criteria = st.sampled_from(["marginal", "stable", "conditional"])


def cost_of(law, level, criterion):
    return law.var() + (law.mean() - level) ** 2 if criterion == "stable" else law.mean()


class TestEqualSites:
    @settings(max_examples=150)
    @given(st.integers(1, 60), st.integers(1, 120), levels, criteria, st.integers(0, 2))
    def test_get_the_best_pair_of_all(self, m, n, level, criterion, f):
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


class TestUnevenSites:
    @settings(max_examples=60)
    @given(st.lists(st.integers(1, 14), min_size=1, max_size=5), levels, criteria)
    def test_get_the_best_common_share_of_all(self, sizes, level, criterion):
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
                    best = min(best, cost_of(law, level, criterion))
        assert plan.feasible == (best < math.inf)
        if plan.feasible:
            assert cost_of(plan.law, level, criterion) == pytest.approx(best, rel=1e-8)

    @settings(max_examples=60)
    @given(
        st.lists(st.integers(1, 400), min_size=1, max_size=20),
        levels,
        criteria,
        st.integers(0, 3),
        st.sampled_from(["common", "paper", 0.7]),
    )
    def test_never_get_an_invalid_plan(self, sizes, level, criterion, f, rule):
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
    def test_may_be_many_and_all_different(self, criterion):
        sizes = np.random.default_rng(1).permutation(np.arange(20, 320))
        plan = fc.plan(n_points=sizes, confidence_level=0.9, criterion=criterion)
        assert is_valid(plan)
        assert plan.law.mean() < (0.905 if criterion == "conditional" else 0.9003)

    @pytest.mark.slow
    @settings(max_examples=60)
    @given(st.lists(st.integers(1, 300), min_size=1, max_size=12), levels, criteria)
    def test_are_never_worse_off_than_with_the_papers_choice(self, sizes, level, criterion):
        options = {"n_points": sizes, "confidence_level": level, "criterion": criterion}
        paper, ours = quiet(local_ranks="paper", **options), quiet(**options)
        if not paper.feasible:
            return
        assert ours.feasible
        if criterion == "stable":
            cost = [cost_of(plan.law, level, criterion) for plan in (ours, paper)]
            assert cost[0] <= cost[1] * (1 + 1e-8)
        else:
            assert ours.law.mean() <= paper.law.mean() + 1e-11


class TestTheLevelIsWhatWasTyped:
    @pytest.mark.parametrize(
        ("size", "level", "rank"), [(9, 0.9, 9), (99, 0.95, 95), (199, 0.99, 198), (19, 0.7, 14)]
    )
    def test_ranks_of_split_conformal_prediction(self, size, level, rank):
        """(n + 1) * level is whole here, where floating point is one off as often as not."""
        options = {"confidence_level": level, "criterion": "marginal"}
        assert fc.plan(n_sites=size, n_points=1, **options).server_rank == rank
        assert list(fc.plan(n_sites=1, n_points=size, **options).local_ranks) == [rank]

    def test_a_mean_that_equals_the_level_exactly_is_valid(self):
        plan = fc.plan(n_sites=7, n_points=91, confidence_level=0.5, criterion="marginal")
        assert (plan.local_ranks[0], plan.server_rank) == (46, 4)

    @pytest.mark.parametrize("criterion", ["marginal", "stable"])
    @pytest.mark.parametrize(
        ("m", "n", "level"), [(27, 37, 0.999), (3, 3333, 0.9999), (20, 50_000, 0.999999), (1, 999, 0.999)]
    )
    def test_the_largest_of_all_points_is_exact_at_any_size(self, m, n, level, criterion):
        """m n / (m n + 1) equals the level to the last digit."""
        options = {"confidence_level": level, "criterion": criterion}
        assert fc.plan(n_sites=m, n_points=n, **options).feasible
        assert not quiet(n_sites=m, n_points=n - 1, **options).feasible
