"""The paper's private algorithm, to the letter (paper, Algorithms 2 and 3)."""

import math
from fractions import Fraction
from functools import cache
from itertools import product

import mpmath
import numpy as np
import pytest

import fedconformal as fc
from fedconformal.documents import Advice, BinPayload, SiteKind
from fedconformal.laws import coverage_table
from fedconformal.messages import Answer, mechanisms, of
from messages.sent import change, check, names
from planning.plans import quiet
from support import bernstein_limit

BINS = fc.Bins.uniform(0, 1, 100)
GAMMAS = [10 ** (-i / 60) for i in range(1, 361)]


@cache
def paper(m, n, epsilon, **options):
    bins = options.pop("bins", BINS)
    gamma = options.pop("gamma", None)
    privacy = fc.Privacy(epsilon, bins, analysis="paper", gamma=gamma)
    return quiet(n_points=dict.fromkeys(names(m), n), privacy=privacy, **options)


def correction(gamma, m, epsilon, cells=100, level=0.9):
    return math.ceil(
        2 / epsilon * math.log(cells / (1 - (1 - gamma * (1 - level)) ** (1 / m)))
    )


class Algorithm:
    """Algorithm 3 by hand: the table of all means, and the correction in 50 digits."""

    def __init__(self, m, n, epsilon, cells, level):
        self.m, self.n, self.epsilon, self.cells = m, n, epsilon, cells
        self.level = Fraction(str(level))
        self.table = coverage_table(m, n)

    def correction(self, gamma):
        with mpmath.workdps(50):
            spent = gamma * (1 - self.level)
            kept = mpmath.mpf(1) - mpmath.mpf(spent.numerator) / spent.denominator
            miss = 1 - kept ** (mpmath.mpf(1) / self.m)
            return int(mpmath.ceil(2 / self.epsilon * mpmath.log(self.cells / miss)))

    def at(self, gamma, preferred):
        """Ranks and correction; the preferred pair of several with the same mean."""
        if gamma <= 0:
            return None
        raised = float(self.level / (1 - gamma * (1 - self.level)))
        valid = np.where(self.table < raised, 2.0, self.table)
        if valid.min() > 1:
            return None
        l, k = preferred
        if valid[l - 1, k - 1] > valid.min() + 1e-12:
            l, k = (int(i) + 1 for i in np.unravel_index(valid.argmin(), valid.shape))
        return (l, k), self.correction(gamma)

    def lowest_mean(self):
        """The smallest mean at corrected ranks, each pair at the largest gamma that has
        it, in steps of 1e-9; infinite if no gamma leaves a rank.
        """
        means = np.sort(self.table[self.table > float(self.level)])
        alone = np.diff(means, prepend=float(self.level)) > 3e-9
        found = [math.inf]
        for mean in means[alone].tolist():
            spent = (1 - float(self.level) / (mean - 1e-9)) / float(1 - self.level)
            gamma = Fraction(math.floor(spent * 1e9), 10**9)
            if not 0 < gamma < 1:
                continue
            for l, k in np.argwhere(np.abs(self.table - mean) < 1e-12) + 1:
                rank = l + self.correction(gamma)
                if rank < self.n:
                    found.append(float(self.table[rank - 1, k - 1]))
        return min(found)


class TestAlgorithm3:
    @pytest.mark.slow
    @pytest.mark.parametrize(("m", "n", "epsilon"), [(10, 500, 1.0), (5, 50, 10.0)])
    def test_by_hand(self, m, n, epsilon):
        """For every gamma of the grid: ranks at the raised level, the correction, M at
        the corrected rank.
        """
        table, best = coverage_table(m, n), (2.0, 0, 0)
        for gamma in GAMMAS:
            valid = np.where(table < 0.9 / (1 - gamma * 0.1), 2.0, table)
            local, server = (
                int(i) + 1 for i in np.unravel_index(np.argmin(valid), table.shape)
            )
            rank = local + correction(gamma, m, epsilon)
            if rank < n:
                best = min(best, (table[rank - 1, server - 1], rank, server))
        plan = paper(m, n, epsilon)
        (ranks,) = plan.message.levels
        assert (ranks.local_rank + ranks.correction, plan.server_rank) == best[1:]
        assert set(plan.local_ranks) == {best[1]}
        assert ranks.correction == correction(float(ranks.gamma), m, epsilon)
        (draw,) = mechanisms(plan.designs[0])
        assert (draw.quantile, draw.epsilon) == (
            Fraction(best[1], n),
            Fraction(epsilon),
        )

    def test_the_grid_of_gammas_does_not_decide(self):
        """The smallest mean over all pairs, each at the gamma that raises the level to
        its own mean.
        """
        m, n, level = 10, 500, 0.95
        table, best = coverage_table(m, n), 1.0
        for l, k in np.argwhere(table > level + 1e-8) + 1:
            gamma = (1 - level / (table[l - 1, k - 1] - 2e-9)) / (1 - level)
            rank = l + correction(gamma, m, 1.0, level=level)
            best = min(best, table[rank - 1, k - 1] if rank < n else 1.0)
        plan = paper(m, n, 1.0, confidence_level=level)
        assert table[plan.local_ranks[0] - 1, plan.server_rank - 1] == pytest.approx(
            best, abs=1e-9
        )
        assert best == pytest.approx(0.99428, abs=5e-6)
        check(plan.designs[0])

    @pytest.mark.parametrize(
        ("m", "n", "epsilon", "cells", "level"),
        [
            (10, 500, 1.0, 100, 0.9),
            (5, 50, 10.0, 100, 0.9),
            (2, 60, 20.0, 20, 0.8),
            (1, 300, 5.0, 50, 0.9),
            *(
                pytest.param(*case, marks=pytest.mark.slow)
                for case in product(
                    (2, 5, 10, 30), (50, 200, 500), (1.0, 5.0, 30.0), (20, 100), (0.9,)
                )
            ),
            pytest.param(10, 500, 1.0, 100, 0.95, marks=pytest.mark.slow),
            pytest.param(80, 400, 2.0, 100, 0.8, marks=pytest.mark.slow),
        ],
    )
    def test_is_what_the_stated_gamma_gives(self, m, n, epsilon, cells, level):
        """Ranks, correction and votes follow from gamma; no smaller gamma gives the
        same, and no gamma at all a smaller mean.
        """
        by_hand = Algorithm(m, n, epsilon, cells, level)
        bins = fc.Bins.uniform(0, 1, cells)
        plan = paper(m, n, epsilon, bins=bins, confidence_level=level)
        lowest = by_hand.lowest_mean()
        if not plan.feasible:
            assert lowest == math.inf
            return
        (ranks,) = plan.message.levels
        pair = ranks.local_rank, plan.server_rank
        stated = pair, ranks.correction
        assert by_hand.at(ranks.gamma, pair) == stated
        assert by_hand.at(ranks.gamma - Fraction(1, 10**9), pair) != stated
        mean = by_hand.table[ranks.local_rank + ranks.correction - 1, pair[1] - 1]
        assert mean == pytest.approx(lowest, abs=1e-12)
        check(plan.designs[0])
        assert plan.guarantee.mean >= level - 1e-12

    def test_is_infeasible_where_theory_says_so(self):
        """Theory, section 6: no gamma leaves a rank at 5 sites of 200 with epsilon 1
        and 100 bins.
        """
        plan = paper(5, 200, 1.0)
        assert not plan.feasible
        assert (plan.server_rank, plan.guarantee.mean, plan.law) == (6, 1.0, None)
        advice = plan.designs[0].levels[0].advice
        assert advice == Advice(n_points=204, epsilon=Fraction(11, 10))
        assert paper(5, 204, 1.0).feasible
        assert not paper(5, 203, 1.0).feasible
        assert paper(5, 200, 1.1).feasible
        assert fc.plan(5, 200, privacy=fc.Privacy(1.0, BINS)).feasible

    def test_gamma_may_be_given(self):
        plan = paper(5, 200, 10.0, gamma=0.2)
        assert plan.message.levels[0].gamma == Fraction(1, 5)
        assert plan.message.levels[0].correction == correction(0.2, 5, 10.0)

    def test_aims_at_a_half_at_least(self):
        plan = paper(3, 400, 100.0, confidence_level=0.2)
        assert mechanisms(plan.designs[0])[0].quantile == Fraction(1, 2)
        assert plan.guarantee.mean >= 0.2

    def test_levels_share_epsilon_evenly(self):
        plan = paper(5, 200, 30.0, confidence_level=(0.5, 0.8, 0.9))
        assert [draw.epsilon for draw in mechanisms(plan.designs[0])] == [10, 10, 10]
        message, design = of(plan.message), plan.designs[0]
        assert (
            message.epsilon(design),
            message.count_numbers(design, 200, names(5)[0]),
        ) == (30, 3)
        alone = paper(5, 200, 10.0)
        assert (plan.message.levels[2], plan[0.9].server_rank) == (
            alone.message.levels[0],
            alone.server_rank,
        )

    def test_the_guarantee_is_that_of_ranks_less_what_the_noise_may_cost(
        self,
    ):
        plan = paper(5, 200, 10.0)
        (ranks,) = plan.message.levels
        mean = fc.CoverageLaw(5, 200, ranks.local_rank, plan.server_rank).mean()
        assert plan.guarantee.mean == pytest.approx(float(1 - ranks.gamma / 10) * mean)
        assert plan.guarantee.mean >= 0.9 - 1e-9
        assert (plan.guarantee.probability, plan.law) == (None, None)
        assert of(plan.message).is_bound(plan.designs[0])
        assert not of(plan.message).adds_up

    @pytest.mark.slow
    @pytest.mark.parametrize("alpha", [0.02, 1.0, None])
    def test_covers_whatever_the_scores_are_like(self, alpha):
        """300 rounds of scores drawn from random masses, or even; false-alarm
        probability 1e-7.
        """
        plan, rng = (
            paper(5, 200, 10.0, bins=fc.Bins.uniform(0, 1, 40)),
            np.random.default_rng(4),
        )
        masses = (
            np.full(40, 1 / 40) if alpha is None else rng.dirichlet(np.full(40, alpha))
        )
        below = np.append(np.cumsum(masses)[:-1], 1.0)
        covered = []
        for _ in range(300):
            scores = {s: (rng.choice(40, 200, p=masses) + 0.5) / 40 for s in names(5)}
            q = fc.privacy.simulate(plan, scores, rng).threshold
            covered.append(1.0 if q == math.inf else below[round(q * 40) - 1])
        assert np.mean(covered) >= 0.9 - bernstein_limit(covered)


class TestMissing:
    @pytest.mark.parametrize("missing", [0, 1, 3])
    def test_votes_are_solved_for_those_who_answered_at_the_planned_gamma(
        self, missing
    ):
        plan = paper(10, 200, 10.0, max_missing=missing)
        assert plan.feasible
        message, design, (ranks,) = (
            of(plan.message),
            plan.designs[0],
            plan.message.levels,
        )
        kept = 0.9 / (1 - float(ranks.gamma) / 10)
        for left in range(1, 10):
            solved = message.solve(
                design, (SiteKind(count=left, n=200, names=tuple(names(left))),), [0]
            )
            column = coverage_table(left, 200)[ranks.local_rank - 1]
            valid = [k for k in range(1, left + 1) if column[k - 1] >= kept + 1e-9]
            assert solved.levels[0].votes == (valid[0] if valid else left + 1)
            assert (
                (solved.levels[0].advice is None)
                == bool(valid)
                == message.tolerates(design, 0, 10 - left)
            )
            assert valid or left < 10 - missing
            check(solved)

    def test_advice_is_for_as_many_missing_sites(self):
        plan = paper(3, 30, 8.0, max_missing=2)
        advice = plan.designs[0].levels[0].advice
        assert paper(3, advice.n_points, 8.0, max_missing=2).feasible
        assert not paper(3, advice.n_points - 1, 8.0, max_missing=2).feasible
        assert paper(3, 30, float(advice.epsilon), max_missing=2).feasible
        assert paper(3, 200, 5.0, max_missing=3).designs[0].levels[0].advice == Advice()

    def test_the_smallest_cells_decide(self):
        plan = paper(3, 400, 20.0, bins=fc.Bins([0.1, 0.2, 0.3, 0.4]))
        message, design = of(plan.message), plan.designs[0]
        for cells in ((0, 1, 2), (3, 3, 0), (2, 2, 1)):
            answers = {
                s: Answer(s, 400, BinPayload(cells=(c,)))
                for s, c in zip(names(3), cells, strict=True)
            }
            edges = sorted(plan.message.edge(cell) for cell in cells)
            assert message.combine(design, answers) == (edges[plan.server_rank - 1],)


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (
                {"criterion": "stable"},
                "criterion must be 'marginal' with the paper's analysis, got 'stable'",
            ),
            (
                {"max_faulty": 1},
                "max_faulty must be 0 with the paper's analysis, got 1",
            ),
            (
                {"n_points": [100, 200], "n_sites": None},
                "the same at all sites with the paper's analysis",
            ),
            (
                {"promise": "each-site"},
                "promise must be 'population' with privacy, got 'each-site'",
            ),
            ({"numbers": 2}, "numbers must be 1 with the paper's analysis"),
            ({"local_ranks": "paper"}, "local_ranks must be left out with privacy"),
            ({"n_points": None}, "privacy needs n_points"),
        ],
    )
    def test_name_what_the_paper_does_not_cover(self, options, words):
        privacy = fc.Privacy(1.0, BINS, analysis="paper")
        with pytest.raises(ValueError, match=words):
            fc.plan(**{"n_sites": 5, "n_points": 800, "privacy": privacy, **options})

    def test_of_reports(self):
        plan = paper(5, 200, 10.0)
        message, design, site = of(plan.message), plan.designs[0], names(5)[0]
        for cells, words in (
            ((1, 2), "2 cells instead of 1"),
            ((100,), "a cell that is not one of 100"),
        ):
            assert (
                message.problem(design, Answer(site, 200, BinPayload(cells=cells)))
                == words
            )
        assert (
            message.problem(design, Answer(site, 200, BinPayload(cells=(99,)))) is None
        )


class TestHostileDesigns:
    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"correction": 2}, "the correction is too small for the noise"),
            (
                {"local_rank": 170},
                "the ranks do not reach the level that the noise leaves",
            ),
            (
                {"local_rank": 199},
                "the corrected rank must be below the number of scores",
            ),
            (
                {"gamma": Fraction(1, 10**6)},
                "the correction is too small for the noise",
            ),
        ],
    )
    def test_ranks(self, fields, words):
        plan = paper(5, 200, 8.0)
        (ranks,) = plan.message.levels
        assert ranks.correction > 2
        check(plan.designs[0])
        wrong = ranks.model_copy(update=fields)
        with pytest.raises(ValueError, match=words):
            check(change(plan, message={"levels": (wrong,)}))

    def test_votes_and_epsilon(self):
        plan = paper(5, 200, 8.0)
        assert plan.server_rank > 1
        with pytest.raises(
            ValueError, match="the ranks do not reach the level that the noise leaves"
        ):
            check(change(plan, level={"votes": plan.server_rank - 1}))
        with pytest.raises(
            ValueError, match="the corrected rank must be below the number of scores"
        ):
            check(change(plan, level={"votes": 6}))
        with pytest.raises(
            ValueError, match="the correction is too small for the noise"
        ):
            check(change(plan, message={"epsilon": Fraction(2)}))

    @pytest.mark.parametrize(
        "design", [{"criterion": "stable"}, {"max_faulty": 1}, {"promise": "each-site"}]
    )
    def test_what_the_paper_does_not_cover(self, design):
        with pytest.raises(ValueError, match="with the paper's analysis"):
            check(change(paper(5, 200, 8.0), **design))


def test_a_report_is_charged_for_all_levels_together(tmp_path):
    pytest.importorskip("opendp")
    book = fc.Ledger.create(tmp_path / "ledger.db")
    book.set_budget("D", 40)
    plan = paper(5, 200, 30.0, confidence_level=(0.5, 0.8, 0.9))
    report = fc.report(
        plan, np.linspace(0, 1, 200), site=names(5)[0], ledger=book, dataset="D"
    )
    assert len(report.payload.cells) == 3
    assert book.remaining("D") == 10
    assert (
        of(plan.message).discloses(plan.designs[0], 200, names(5)[0])
        == "3 cells near a quantile of your 200 scores, drawn with epsilon 30"
    )
