import math
from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedconformal.laws import CoverageLaw
from fedconformal.laws._curves import (
    TAIL_ERROR,
    CurveNoise,
    NoisyCurve,
    _bridged,
    choose_curve,
    compute_offsets,
    compute_references,
    last_passage,
    share_bridge,
    simulate_coverage,
    solve_votes,
    suggest_cells,
)

LEVEL, DELTA = Fraction(9, 10), Fraction(1, 10)


def one_edge(ratio):
    """Two-sided geometric noise at a single interior edge."""
    return CurveNoise(cells=2, n_sites=1, scale=-1 / math.log(ratio), denominator=1)


def exact_tails(noise, ratio, widest):
    """P(Z_g >= x) of every interior edge as fractions, by convolving single variables
    up to ``widest``.
    """
    unit = (1 - ratio) / (1 + ratio)
    masses = {z: unit * ratio ** abs(z) for z in range(-widest, widest + 1)}
    tails = []
    for edge, share in enumerate(noise.shares.tolist(), start=1):
        law = Counter({0: Fraction(1)})
        for cell in range(noise.cells * noise.n_sites):
            weight = (noise.denominator if cell < edge * noise.n_sites else 0) - share
            longer = Counter()
            for (at, p), (z, q) in product(law.items(), masses.items()):
                longer[at + weight * z] += p * q
            law = longer
        xs = range(-noise.reach, noise.reach + 1)
        tails.append(
            [sum(p for z, p in law.items() if z >= noise.denominator * x) for x in xs]
        )
    return tails


def law_of(curve):
    return CoverageLaw.of_sites(curve, np.array([1]), server_rank=1)


def votes_conditional(n, level, delta):
    return solve_votes(n, CurveNoise(50, 3, 0.0), level, delta=delta)


class TestVotesWithoutNoise:
    def test_references_on_average(self):
        exact = CurveNoise(50, 3, 0.0)
        assert [solve_votes(n, exact, LEVEL) for n in (8, 9, 99, 500, 5000)] == [
            None,
            9,
            90,
            451,
            4501,
        ]
        assert NoisyCurve(99, 90, exact).mean_bound == pytest.approx(0.9, abs=1e-10)

    def test_references_conditional(self):
        votes = [
            votes_conditional(n, LEVEL, DELTA)
            for n in (21, 22, 50, 100, 500, 1000, 5000)
        ]
        assert votes == [None, 22, 49, 95, 460, 913, 4528]

    def test_ties_are_decided_in_whole_numbers(self):
        """P(Binomial(10, 1/2) >= 9) = 11/1024 exactly."""
        tie = Fraction(11, 1024)
        assert votes_conditional(10, Fraction(1, 2), tie) == 9
        assert votes_conditional(10, Fraction(1, 2), tie - Fraction(1, 10**40)) == 10

    def test_a_tie_of_very_many_scores_counts_as_a_failure(self):
        n = 30_001
        votes = votes_conditional(n, Fraction(1, 2), Fraction(1, 2))
        assert votes == (n + 1) // 2 + 1

    @given(
        st.integers(1, 300),
        st.fractions(Fraction(1, 50), Fraction(49, 50), max_denominator=50),
    )
    def test_conditional_votes_are_the_smallest(self, n, level):
        votes = votes_conditional(n, level, DELTA)
        assert (
            stats.binom.sf((n if votes is None else votes - 1) - 1, n, float(level))
            > 0.1 - 1e-9
        )
        assert votes is None or stats.binom.sf(votes - 1, n, float(level)) <= 0.1 + 1e-9


class TestNoise:
    @pytest.mark.parametrize(
        ("cells", "denominator"), [(2, 1), (5, 10), (7, 16), (200, 16), (100, 100)]
    )
    def test_the_bridge_is_symmetric_and_close_to_linear(self, cells, denominator):
        shares = share_bridge(cells, denominator)
        odd_one = cells % 2 == 0 and denominator % 2
        assert shares.size == cells - 1
        same = shares + shares[::-1] == denominator
        assert same.sum() >= cells - 1 - odd_one
        assert (
            np.abs(shares / denominator - np.arange(1, cells) / cells).max()
            <= 0.5 / denominator + 1e-12
        )

    @pytest.mark.parametrize(
        ("cells", "sites", "denominator"),
        [(2, 1, 1), (3, 2, 3), (4, 1, 4), (4, 2, 2), (5, 1, 3)],
    )
    def test_tails_match_whole_numbers(self, cells, sites, denominator):
        """Single variables are cut off at 10, beyond which each has a probability of
        1e-13.
        """
        ratio = Fraction(1, 16)
        noise = CurveNoise(cells, sites, 1 / math.log(16), denominator)
        exact = np.array(exact_tails(noise, ratio, 10), dtype=float)
        assert noise.tails[noise.rows, :-1] == pytest.approx(exact, abs=2e-12)

    @pytest.mark.parametrize(
        ("cells", "sites", "scale"), [(2, 1, 8.0), (9, 3, 2.0), (20, 10, 1.0)]
    )
    def test_tails_match_direct_convolution(self, cells, sites, scale):
        """The numerical error is far below the one that is added."""
        noise = CurveNoise(cells, sites, scale)
        z = np.arange(-400, 401)
        single = np.exp(-np.abs(z) / scale) * math.tanh(0.5 / scale)
        for row, share in enumerate(noise.shares[: cells // 2].tolist()):
            parts = []
            for weight, count in ((16 - share, row + 1), (share, cells - row - 1)):
                total = np.ones(1)
                for _ in range(count * sites):
                    total = np.convolve(total, single)
                    middle = total.size // 2
                    total = total[max(middle - 400, 0) : middle + 401]
                spread = np.zeros((total.size - 1) * weight + 1)
                np.add.at(spread, np.arange(total.size) * weight, total)
                parts.append(spread)
            masses = np.convolve(*parts) if share else parts[0]
            at = np.arange(masses.size) - masses.size // 2
            direct = [
                masses[at >= 16 * x].sum() for x in range(-noise.reach, noise.reach + 1)
            ]
            assert noise.tails[row, :-1] == pytest.approx(np.array(direct), abs=2e-13)

    def test_deviations_are_those_of_the_tails(self):
        noise = CurveNoise(12, 4, 2.0)
        x = np.arange(-noise.reach, noise.reach + 1)
        masses = -np.diff(noise.tails, axis=1)
        # Z lies in [floor(Z), floor(Z) + 1) and is symmetric, so that its floor has the
        # mean of -1/2 or 0.
        moments = masses @ (x + 0.5) ** 2
        assert np.sqrt(moments) == pytest.approx(
            noise.deviations[: len(moments)], rel=0.02
        )

    def test_the_worst_tail_is_above_all_others(self):
        noise = CurveNoise(10, 2, 3.0)
        offsets = tuple(range(9))
        first, tail = noise.worst_tail(offsets)
        for row, offset in zip(noise.rows, offsets, strict=True):
            x = np.arange(-noise.reach - offset, noise.reach + 1 - offset)
            assert (
                tail[x - first] >= np.minimum(noise.tails[row, :-1] + TAIL_ERROR, 1)
            ).all()
        assert (np.diff(tail) <= 0).all()

    def test_offsets_must_fit(self):
        noise = CurveNoise(4, 2, 3.0)
        with pytest.raises(ValueError, match="offsets must be >= 0, got -1"):
            noise.worst_tail((0, -1, 0))
        with pytest.raises(ValueError, match="zip"):
            noise.worst_tail((0, 1))

    def test_noise_too_wide_for_the_table_is_refused(self):
        with pytest.raises(ValueError, match="too wide"):
            _ = CurveNoise(400, 1000, 2e4).tails


class TestPromise:
    @pytest.mark.parametrize(
        ("ratio", "n", "votes", "promise"),
        [
            (0.5, 19, 18, 0.89166679),
            (0.5, 19, 19, 0.93333340),
            (0.5, 99, 90, 0.89999349),
            (0.5, 99, 91, 0.90998698),
            (0.75, 19, 20, 0.91455753),
            (0.75, 99, 91, 0.90871283),
        ],
    )
    def test_references_with_one_interior_edge(self, ratio, n, votes, promise):
        assert NoisyCurve(n, votes, one_edge(ratio)).mean_bound == pytest.approx(
            promise, abs=6e-9
        )

    def test_references_of_the_smallest_votes(self):
        assert solve_votes(19, one_edge(0.5), LEVEL, last_mass=0.0) == 19
        assert solve_votes(99, one_edge(0.5), LEVEL, last_mass=0.0) == 91
        assert solve_votes(99, one_edge(0.75), LEVEL, last_mass=0.0) == 91
        assert solve_votes(100, one_edge(0.5), LEVEL, delta=DELTA, last_mass=0.0) == 95
        missed = NoisyCurve(100, 95, one_edge(0.5)).below(np.array([0.9]))
        assert missed[0, 0] == pytest.approx(0.09755614, abs=6e-9)

    def test_reference_of_ten_sites(self):
        noise = CurveNoise(100, 10, 2.0, denominator=100)
        offsets = compute_offsets(noise, LEVEL, 3, 0)
        assert solve_votes(5000, noise, LEVEL, offsets=offsets) == 4508
        assert NoisyCurve(5000, 4508, noise, offsets).mean_bound == pytest.approx(
            0.900091, abs=5e-7
        )

    @pytest.mark.parametrize("offsets", [(), (0, 1, 2), (3, 0, 0)])
    def test_bounds_match_fractions(self, offsets):
        ratio, n, votes = Fraction(1, 16), 12, 10
        noise = CurveNoise(4, 1, 1 / math.log(16), 4)
        tails = exact_tails(noise, ratio, 10)

        def highest(y):
            steps = [votes + o - y + noise.reach for o in offsets or (0, 0, 0)]
            return max(
                1 if i < 0 else t[i] if i < len(t) else 0
                for t, i in zip(tails, steps, strict=True)
            )

        h = np.array([highest(y) for y in range(n + 1)], dtype=float)
        curve = NoisyCurve(n, votes, noise, offsets)
        assert curve.mean_bound == pytest.approx(
            1 - h.sum() / (n + 1), abs=2 * TAIL_ERROR
        )
        for c in (0.0, 0.3, 0.8, 0.95):
            expected = stats.binom.pmf(np.arange(n + 1), n, c) @ h
            assert curve.below(np.array([c]))[0, 0] == pytest.approx(
                expected, abs=2 * TAIL_ERROR
            )

    @pytest.mark.parametrize(
        "masses", [(0.5, 0.0, 0.5), (0.3, 0.3, 0.4), (0.7, 0.25, 0.05), (0, 0.6, 0.4)]
    )
    @pytest.mark.parametrize("offsets", [(), (1, 0), (0, 2)])
    def test_no_distribution_falls_below_the_promise(self, masses, offsets):
        """All histograms of 4 scores and all noise up to 6 in each cell, without
        simulation.
        """
        n, votes, ratio = 4, 3, 0.25
        noise = CurveNoise(3, 1, -1 / math.log(ratio), 3)
        cdf = [masses[0], masses[0] + masses[1], 1.0]
        z = np.arange(-6, 7)
        single = ratio ** np.abs(z) * (1 - ratio) / (1 + ratio)
        coverage = Counter()
        for counts in product(range(n + 1), repeat=2):
            histogram = [*counts, n - sum(counts)]
            if histogram[2] < 0:
                continue
            chance = stats.multinomial.pmf(histogram, n, masses)
            for i in product(range(z.size), repeat=3):
                noisy = [
                    count + int(z[k]) for count, k in zip(histogram, i, strict=True)
                ]
                cell = last_passage(noisy, n, votes, offsets, denominator=3)
                coverage[cdf[cell]] += chance * math.prod(single[list(i)])
        assert sum(coverage.values()) == pytest.approx(1, abs=1e-3)
        curve = NoisyCurve(n, votes, noise, offsets)
        # What was cut off would only add to both sums.
        assert 1 - sum(p * (1 - c) for c, p in coverage.items()) >= curve.mean_bound
        for c in (0.29, *cdf[:2], 0.9):
            if c < 1:
                missed = sum(p for covered, p in coverage.items() if covered <= c)
                assert missed - 1e-3 <= curve.below(np.array([c]))[0, 0]

    def test_fewer_votes_promise_less(self):
        noise = CurveNoise(50, 4, 2.0)
        means = [
            NoisyCurve(400, votes, noise).mean_bound for votes in range(300, 460, 10)
        ]
        assert (np.diff(means) > 0).all()

    def test_no_votes_where_the_threshold_would_be_infinite(self):
        assert solve_votes(20, CurveNoise(100, 10, 2.0), LEVEL) is None
        assert solve_votes(5, one_edge(0.5), LEVEL, last_mass=0.0) is None
        assert (
            solve_votes(1000, CurveNoise(10, 2, 0.5), Fraction(95, 100)) is None
        )  # the last cell has 10 %
        assert (
            solve_votes(1000, CurveNoise(10, 2, 0.5), Fraction(95, 100), last_mass=0.0)
            is not None
        )
        assert choose_curve(20, CurveNoise(100, 10, 2.0), LEVEL, runs=10) is None

    def test_infinite_share_matches_simulation(self):
        """20,000 runs; 5.5 standard errors have a probability below 1e-7."""
        noise, runs = CurveNoise(10, 3, 2.0), 20_000
        curve = NoisyCurve(200, 181, noise, (0,) * 8 + (2,))
        seen = simulate_coverage(
            curve, np.full(10, 0.1), runs=runs, rng=np.random.default_rng(3)
        ).infinite
        share = curve.infinite_share(0.1)
        assert abs(seen - share) <= 5.5 * math.sqrt(share * (1 - share) / runs)


class TestLaw:
    curve = NoisyCurve(1000, 903, CurveNoise(100, 5, 2.0))

    def test_mean_is_the_bound(self):
        assert law_of(self.curve).mean() == pytest.approx(
            self.curve.mean_bound, abs=1e-11
        )

    def test_methods_agree(self):
        law = law_of(self.curve)
        c = np.linspace(0.8, 0.99, 12)
        assert law.cdf(c) + law.sf(c) == pytest.approx(np.ones(12))
        assert law.cdf(law.ppf([0.05, 0.5, 0.95])) == pytest.approx(
            [0.05, 0.5, 0.95], abs=1e-9
        )
        grid = (np.arange(2000) + 0.5) / 2000
        mean = law.mean()
        second = 1 - 2 * np.mean(grid * law.cdf(grid))
        assert law.std() == pytest.approx(math.sqrt(second - mean**2), rel=1e-3)

    def test_draws_follow_the_bound(self):
        """4,000 draws of the rank, then of its score; 5.5 standard errors have a
        probability below 1e-7.
        """
        curve, law, rng = self.curve, law_of(self.curve), np.random.default_rng(1)
        first, tail = curve.noise.worst_tail(curve.offsets)
        above = tail.size - np.searchsorted(tail[::-1], rng.random(4000), side="right")
        ranks = np.clip(curve.votes - (first + above - 1), 1, curve.n_points)
        draws = rng.beta(ranks, curve.n_points - ranks + 1)
        assert abs(draws.mean() - law.mean()) <= 5.5 * law.std() / math.sqrt(4000)
        for c in (0.85, 0.9, 0.93):
            p = law.cdf(c)
            assert abs((draws <= c).mean() - p) <= 5.5 * math.sqrt(p * (1 - p) / 4000)

    def test_an_infinite_threshold_covers_everything(self):
        curve = NoisyCurve(50, 49, CurveNoise(20, 5, 2.0))
        law = law_of(curve)
        infinite = 1 - law.cdf(1 - 1e-12)
        assert infinite > 0.3
        assert law.ppf(1 - infinite / 2) == 1.0
        assert law.mean() == pytest.approx(curve.mean_bound, abs=1e-11)

    @pytest.mark.slow
    def test_ten_million_scores(self):
        noise = CurveNoise(50, 100, 2.0)
        votes = solve_votes(10**7, noise, LEVEL)
        curve = NoisyCurve(10**7, votes, noise)
        assert curve.mean_bound == pytest.approx(0.9, abs=2e-7)
        assert law_of(curve).mean() == pytest.approx(curve.mean_bound, abs=1e-10)
        assert law_of(curve).std() == pytest.approx(math.sqrt(0.09 / 10**7), rel=0.1)


class TestLastPassage:
    def test_by_hand(self):
        assert last_passage([5, 3, 1, 0], 9, 8) == 1
        assert last_passage([9, 0, 0, 0], 9, 8) == 0
        assert last_passage([0, 0, 0, 9], 9, 8) == 3
        assert (
            last_passage([8, -3, 3, 1], 9, 8, denominator=4) == 2
        )  # the second edge fails again
        assert last_passage([5, 3, 1, 0], 9, 8, (0, 1, 0)) == 2

    def test_the_known_total_removes_noise(self):
        assert last_passage([4, 4], 8, 3, denominator=2) == 0
        assert last_passage([4, 4], 4, 3, denominator=2) == 1  # 4 - (8 - 4) / 2 < 3

    @given(st.lists(st.integers(0, 30), min_size=2, max_size=12), st.integers(1, 60))
    def test_without_noise_it_is_the_first_passage(self, counts, votes):
        reached = [
            g for g, count in enumerate(np.cumsum(counts)[:-1]) if count >= votes
        ]
        assert last_passage(counts, sum(counts), votes) == (
            reached[0] if reached else len(counts) - 1
        )

    def test_numbers_of_any_size(self):
        huge = 10**30
        assert last_passage([5 * huge, 3 * huge, huge, 0], 9 * huge, 8 * huge) == 1
        assert last_passage([5 * huge, 3 * huge, huge, 0], 9 * huge, 8 * huge + 1) == 2
        assert last_passage(np.array([2**62, 0, 2**62]), 2**63, 2**62 + 1) == 2

    def test_simulation_uses_the_same_rule(self):
        noise, n = CurveNoise(15, 3, 2.0), 60
        offsets = compute_offsets(noise, LEVEL, 1, 1)
        curve, masses = NoisyCurve(n, 50, noise, offsets), np.full(15, 1 / 15)
        seen = simulate_coverage(curve, masses, runs=200, rng=np.random.default_rng(5))
        rng = np.random.default_rng(5)
        counts = rng.multinomial(n, masses, size=200) + noise.rvs((200, 15), rng)
        cells = np.array([last_passage(row, n, 50, offsets) for row in counts])
        assert seen.mean == pytest.approx(np.mean((cells + 1) / 15))
        assert seen.infinite == np.mean(cells == 14)

    def test_offsets_must_fit(self):
        with pytest.raises(ValueError, match="zip"):
            last_passage([1, 2, 3], 6, 5, (1,))


def hostile_masses(cells):
    """Masses that a threshold from noisy counts might be fooled by."""
    plateau = np.full(cells, 1e-9)
    plateau[0], plateau[-1] = 0.88, 0.12
    two = np.zeros(cells)
    two[[0, -1]] = 0.9, 0.1
    spike = np.full(cells, 0.4 / cells)
    spike[cells // 2] += 0.6
    geometric = 0.9 ** np.arange(cells)
    late = np.linspace(0, 1, cells) ** 8
    return [
        m / m.sum()
        for m in (plateau, two, spike, geometric, late, *compute_references(cells))
    ]


class TestSimulation:
    """Means are compared within 5.5 standard errors: a false alarm has a probability of
    2e-8 each.
    """

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("n", "sites", "scale", "cells"),
        [(1000, 5, 2.0, 60), (500, 5, 1.0, 100), (150, 3, 0.5, 30)],
    )
    def test_hostile_masses_keep_the_promise(self, n, sites, scale, cells):
        noise, runs = CurveNoise(cells, sites, scale), 4000
        for delta in (None, DELTA):
            curve = choose_curve(n, noise, LEVEL, delta=delta, runs=200)
            for masses in hostile_masses(cells):
                seen = simulate_coverage(
                    curve, masses, runs=runs, rng=np.random.default_rng(7)
                )
                slack = 5.5 * max(seen.std, 1e-3) / math.sqrt(runs)
                assert seen.mean >= max(curve.mean_bound, 0.9) - slack

    @pytest.mark.slow
    def test_hostile_masses_keep_the_conditional_promise(self):
        """The coverage is 0.9 or 1; 10,000 runs, 5.5 standard errors."""
        noise, runs = CurveNoise(60, 5, 2.0), 10_000
        curve = choose_curve(1000, noise, LEVEL, delta=DELTA, runs=200)
        for cell in range(0, 59, 6):
            masses = np.zeros(60)
            masses[[cell, -1]] = 0.9, 0.1
            seen = simulate_coverage(
                curve, masses, runs=runs, rng=np.random.default_rng(cell)
            )
            assert (1 - seen.mean) / 0.1 <= 0.1 + 5.5 * math.sqrt(0.09 / runs)

    @pytest.mark.slow
    def test_first_passage_does_not(self):
        """The same votes at the first edge that reaches them: 12,000 runs with even
        scores.
        """
        n, runs, noise = 500, 12_000, CurveNoise(400, 10, 1.0)
        offsets = compute_offsets(noise, LEVEL, 1, 1)
        votes = solve_votes(n, noise, LEVEL, offsets=offsets)
        needed = noise.denominator * (votes + np.array(offsets))
        masses, rng = np.full(400, 1 / 400), np.random.default_rng(0)
        reached = _bridged(n, noise, masses, runs, rng) >= needed
        coverage = (
            np.where(reached.any(axis=1), reached.argmax(axis=1), 399) + 1
        ) / 400
        assert coverage.mean() < 0.9 - 5.5 * coverage.std() / math.sqrt(runs)
        curve = NoisyCurve(n, votes, noise, offsets)
        assert simulate_coverage(curve, masses, runs=2000, rng=rng).mean > 0.91

    @pytest.mark.parametrize(
        ("sites", "points", "epsilon", "cells", "delta", "even", "half_normal"),
        [
            (10, 500, 1, 100, None, 0.908, 0.9155),
            (10, 500, 1, 200, None, 0.906, 0.913),
            (10, 200, 2, 100, None, 0.908, 0.914),
            (50, 100, 2, 100, None, 0.908, 0.913),
            (5, 200, 1, 100, None, 0.912, 0.925),
            (20, 2000, 0.5, 100, None, 0.906, 0.912),
            (10, 500, 1, 200, DELTA, 0.914, 0.9195),
        ],
    )
    def test_coverage_is_close_to_the_level(
        self, sites, points, epsilon, cells, delta, even, half_normal
    ):
        """2,000 runs with a fixed seed; the limits are targets, not bounds."""
        noise = CurveNoise(cells, sites, 2 / epsilon)
        curve = choose_curve(sites * points, noise, LEVEL, delta=delta)
        for masses, limit in zip(
            compute_references(cells), (even, half_normal), strict=True
        ):
            seen = simulate_coverage(
                curve, masses, runs=2000, rng=np.random.default_rng(2)
            )
            assert 0.9 < seen.mean <= limit
            assert seen.infinite == 0


class TestOffsets:
    def test_they_grow_with_the_distance_from_the_level(self):
        noise = CurveNoise(100, 10, 2.0)
        offsets = compute_offsets(noise, LEVEL, 1, 2)
        assert offsets[89] == offsets[9] == 0
        assert offsets[49] == math.ceil(noise.deviations[49] - noise.deviations[89])
        assert (
            offsets[98]
            == offsets[0]
            == math.ceil(2 * (noise.deviations[89] - noise.deviations[98]))
        )
        assert not any(compute_offsets(noise, LEVEL, 0, 0))

    def test_references_are_distributions(self):
        for masses in compute_references(40):
            assert masses.shape == (40,)
            assert masses.sum() == pytest.approx(1)
            assert (masses >= 0).all()
        assert compute_references(100)[1][:16].sum() == pytest.approx(
            stats.norm.cdf(1.6) * 2 - 1
        )


@pytest.mark.parametrize(
    ("sites", "points", "epsilon", "level", "cells"),
    [
        (10, 500, 1.0, "0.9", 170),
        (5, 200, 1.0, "0.9", 70),
        (20, 2000, 0.5, "0.9", 340),
        (5, 100, 1, "0.8", 60),
        (100, 1000, 1.0, "0.9", 400),
        (2, 20, 0.1, "0.9", 30),
        (2, 200, 1.0, "0.999", 3000),
    ],
)
def test_suggested_cells(sites, points, epsilon, level, cells):
    assert suggest_cells(sites * points, sites, epsilon, Fraction(level)) == cells
