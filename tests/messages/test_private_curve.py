"""Private curves: noise on every count, one release for all levels, and a promise for
all data.
"""

import math
import tracemalloc
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from scipy import stats

import fedconformal as fc
from fedconformal.laws import _curves
from fedconformal.laws._curves import (
    CurveNoise,
    NoisyCurve,
    compute_references,
    solve_votes,
)
from fedconformal.messages import check_plan, of
from fedconformal.privacy import CountNoise, _mechanisms
from messages.sent import change, check, names
from planning.plans import quiet
from support import bernstein_limit

NINE = Fraction(9, 10)
BINS = fc.Bins.uniform(0, 1, 50)
FIVE = dict.fromkeys(names(5), 200)
ODD = [math.nan, math.inf, -math.inf, 0.1, 0.2, 0.9, 7.0]


def private(n_points=FIVE, epsilon=1.0, bins=BINS, **options):
    return quiet(n_points=n_points, privacy=fc.Privacy(epsilon, bins), **options)


@pytest.fixture
def book(tmp_path):
    ledger = fc.Ledger.create(tmp_path / "ledger.db")
    ledger.set_budget("D", 3)
    return ledger


@pytest.fixture
def added(monkeypatch):
    """Noise that the test states, in place of OpenDP's; the scales that were asked for
    are listed.
    """
    noise, scales = [], []

    def measure(scale, epsilon, *, sensitivity):
        assert sensitivity == 2
        scales.append(scale)
        return lambda cells: [
            count + z for count, z in zip(cells, noise or [0] * len(cells), strict=True)
        ]

    monkeypatch.setattr(_mechanisms, "_measurement", measure)
    return noise, scales


class TestPrivacy:
    @pytest.mark.parametrize(
        ("epsilon", "n", "edges"), [(0.5, 3, [0.1, 0.5]), (2.0, 2, [0.1, 0.5, 1.0])]
    )
    def test_no_neighbours_are_told_apart_by_more_than_epsilon(
        self, added, book, epsilon, n, edges
    ):
        """All data sets of n records, whatever they hold, through the report; the noise
        is as stated.
        """
        noise, scales = added
        privacy = fc.Privacy(epsilon, fc.Bins(edges))
        plan = fc.plan(
            n_sites=1, n_points=200 * n, confidence_level=[0.2, 0.3], privacy=privacy
        )
        law, B = CountNoise.of(epsilon / 2), len(edges)
        padding = [0.05] * (
            199 * n
        )  # so that there is a plan; the other n records are any

        def sent(records):
            dataset = str(records)
            book.set_budget(dataset, 2)
            return fc.report(
                plan, [*padding, *records], site="A", ledger=book, dataset=dataset
            )

        values = [ODD[0], *edges[:-1], edges[-1] + 1, -1.0]
        answers = {
            records: sent(records)
            for records in combinations_with_replacement(values, n)
        }
        assert (
            len(
                {a.model_copy(update={"parts": ()}).to_json() for a in answers.values()}
            )
            == 1
        )
        assert set(scales) == {2 / epsilon} == {law.scale}
        offset = np.eye(B, dtype=int)[0] * len(padding)
        counts = {
            records: np.array(a.payload.counts) - offset
            for records, a in answers.items()
        }
        box = np.array(list(product(range(-2, n + 3), repeat=B)))
        logs = {
            records: np.log(law.pmf(box - each)).sum(axis=1)
            for records, each in counts.items()
        }
        losses = [
            float(np.abs(logs[one] - logs[other]).max())
            for one, other in product(logs, repeat=2)
            if len(_without(one, other)) <= 1
        ]
        assert epsilon * (1 - 1e-9) <= max(losses) <= epsilon * (1 + 1e-9)
        noise[:] = [5, -300, 2][:B]
        shown = np.array(sent((-0.5,) * n).payload.counts)
        assert (shown - offset - counts[(-1.0,) * n]).tolist() == noise

    def test_levels_and_groups_cost_epsilon_once(self, book, added):
        privacy = fc.Privacy(1.25, BINS)
        sizes = {"x": {"A": 600}, "y": {"A": 700}}
        plan = fc.plan(groups=sizes, confidence_level=[0.5, 0.8, 0.9], privacy=privacy)
        scores, labels = np.linspace(0, 1, 1300), ["x"] * 600 + ["y"] * 700
        prepared = fc.protocol.prepare(
            plan, scores, site="A", groups=labels, ledger=book, dataset="D"
        )
        assert (prepared.epsilon, prepared.numbers) == (
            Fraction(5, 4),
            {"x": 50, "y": 50},
        )
        report = prepared.report()
        assert book.remaining("D") == Fraction(7, 4)
        assert [len(report.by_group[group].payload.counts) for group in "xy"] == [
            50,
            50,
        ]
        assert prepared.report() == report  # the ledger gives the same answer again
        assert book.remaining("D") == Fraction(7, 4)
        assert all(
            of(design.message).epsilon(design) == Fraction(5, 4)
            for design in plan.designs
        )

    def test_whatever_the_data_hold_is_counted(self, book, added):
        plan = private({"A": 700}, bins=fc.Bins([0.1, 0.5, 1.0]), confidence_level=0.3)
        report = fc.report(plan, ODD * 100, site="A", ledger=book, dataset="D")
        assert report.payload.counts == (200, 100, 400)

    def test_an_answer_that_is_worth_nothing_is_not_given(self, book):
        plan = private({"A": 20}, epsilon=0.1)
        assert not plan.feasible
        with pytest.raises(
            ValueError, match="answering it would spend epsilon for nothing"
        ):
            fc.report(plan, np.arange(20), site="A", ledger=book, dataset="D")
        assert book.remaining("D") == 3

    def test_what_leaves_is_said(self):
        plan = private()
        words = of(plan.message).discloses(plan.designs[0], 200, names(5)[0])
        assert words == "50 counts of your 200 scores, with noise of epsilon 1"

    def test_a_policy_for_private_answers_alone_allows_it(self, book, added):
        policy = fc.SitePolicy(private_only=True, max_epsilon=1)
        assert fc.report(
            private({"A": 900}),
            np.arange(900),
            site="A",
            ledger=book,
            dataset="D",
            policy=policy,
        )


def _without(one, other):
    """The records of one data set that the other does not have, each as often as
    that.
    """
    rest = list(map(str, other))
    return [value for value in map(str, one) if value not in rest or rest.remove(value)]


class TestVotes:
    def test_are_the_fewest_that_keep_the_promise(self):
        for options in ({}, {"criterion": "conditional"}):
            plan = private(**options)
            noise = CurveNoise(50, 5, 2.0)
            delta = Fraction(1, 10) if options else None
            (offsets,) = plan.message.offsets
            assert plan.server_rank == solve_votes(
                1000, noise, NINE, offsets=offsets, delta=delta
            )
            check(plan.designs[0])
            with pytest.raises(ValueError, match="votes needed are too few"):
                check(change(plan, level={"votes": plan.server_rank - 1}))
            with pytest.raises(ValueError, match="votes needed are too few"):
                check(
                    change(
                        plan, message={"offsets": ((0,) * 49,)}, level={"votes": 890}
                    )
                )
            assert (
                plan.guarantee.mean
                == NoisyCurve(1000, plan.server_rank, noise, offsets).mean_bound
            )
        assert plan.guarantee.probability >= 0.9
        assert plan.law.cdf(0.9) <= 0.1

    def test_a_hostile_epsilon_needs_votes_of_its_own(self):
        """Whoever promises more privacy with the votes of less noise is refused."""
        plan = private()
        with pytest.raises(ValueError, match="votes needed are too few"):
            check(change(plan, message={"epsilon": Fraction(1, 3)}))

    def test_the_mean_is_at_least_the_level_for_the_theorys_federations(self):
        """Theory, section 13.3: local curves of 100 cells; the worst of even scores and
        a long tail.
        """
        for (m, n, epsilon), even, tail in (
            ((10, 500, 1), 0.9067, 0.9123),
            ((10, 200, 2), 0.9087, 0.9136),
            ((50, 100, 2), 0.9078, 0.9128),
            ((5, 200, 1), 0.9102, 0.9195),
        ):
            plan = private([n] * m, epsilon, fc.Bins.uniform(0, 1, 100))
            assert plan.guarantee.mean >= 0.9
            message, design = of(plan.message), plan.designs[0]
            for masses, limit in zip(
                compute_references(100), (even, tail), strict=True
            ):
                mean, std = message.expected(design, 0, masses)
                assert (
                    0.9 < mean < limit + 6 * std / math.sqrt(4000)
                )  # as many runs, with a fixed seed

    def test_one_curve_serves_all_levels(self):
        levels = [0.5, 0.8, 0.9, 0.95]
        plan = private(dict.fromkeys(names(8), 500), confidence_level=levels)
        assert [plan[level].guarantee.mean >= level for level in levels] == [True] * 4
        alone = private(dict.fromkeys(names(8), 500), confidence_level=0.8)
        assert plan[0.8].server_rank == alone.server_rank
        rng = np.random.default_rng(3)
        for _ in range(30):
            scores = {site: rng.random(500) for site in names(8)}
            found = fc.privacy.simulate(plan, scores, rng).thresholds
            assert list(found) == sorted(found)

    def test_missing_sites_are_solved_with_the_planned_offsets(self):
        plan, rng = private(), np.random.default_rng(0)
        found = fc.privacy.simulate(
            plan, {site: rng.random(200) for site in names(5)[1:]}, rng
        )
        solved = found.by_group[None].design
        assert solved.message == plan.message
        assert found.server_rank == solve_votes(
            800, CurveNoise(50, 4, 2.0), NINE, offsets=plan.message.offsets[0]
        )
        assert found.guarantee.mean >= 0.9
        assert found.missing == (names(5)[0],)
        message, design = of(plan.message), plan.designs[0]
        fewest = next(k for k in range(1, 6) if not message.tolerates(design, 0, k))
        few = (
            fc.privacy.simulate(
                plan, {s: rng.random(200) for s in names(5)[fewest:]}, rng
            )
            if fewest < 5
            else None
        )
        assert few is None or few.threshold == math.inf

    @pytest.mark.parametrize(
        "options", [{}, {"criterion": "conditional"}, {"promise": "each-site"}]
    )
    def test_infeasible_plans_say_what_would_do(self, options):
        plan = private([40] * 3, 0.2, **options)
        assert not plan.feasible
        advice = plan.designs[0].levels[0].advice
        assert private([advice.n_points] * 3, 0.2, **options).feasible
        if advice.epsilon is not None:
            assert private([40] * 3, float(advice.epsilon), **options).feasible
        assert plan.guarantee.mean == 1.0

    def test_each_site_has_its_own_votes(self):
        plan = private([400, 900, 900], 2.0, promise="each-site")
        (own,), (offsets,) = plan.message.own, plan.message.offsets
        noise = CurveNoise(50, 1, 1.0)
        assert own == tuple(
            solve_votes(n, noise, NINE, offsets=offsets) for n in (400, 900)
        )
        assert plan.guarantee.mean >= 0.9
        check(plan.designs[0])
        with pytest.raises(ValueError, match="own count is too small"):
            check(change(plan, message={"own": ((own[0], own[1] - 1),)}))

    @pytest.mark.parametrize("promise", ["population", "each-site"])
    def test_scores_that_are_bounded_do_not_fall_into_the_last_cell(self, promise):
        """Few cells suffice then, and levels above those of evenly spread scores can be
        reached.
        """
        coarse = fc.Bins([0.2, 0.4, 0.6, 0.8, 1.0], bounded=True)
        assert private([2000] * 5, 5.0, coarse, promise=promise).feasible
        assert not private(
            [2000] * 5, 5.0, fc.Bins(coarse.edges), promise=promise
        ).feasible
        assert fc.plan(
            5, 5000, score="lac", privacy=fc.Privacy(5.0), confidence_level=0.999
        ).feasible

    @pytest.mark.parametrize("promise", ["population", "each-site"])
    def test_low_levels_need_no_votes_but_have_one(self, promise):
        plan = private([100] * 3, 2.0, promise=promise, confidence_level=0.001)
        assert plan.feasible
        check(plan.designs[0])


class TestCost:
    """What checking takes is known beforehand."""

    @pytest.mark.parametrize(
        ("m", "n", "cells", "epsilon", "options"),
        [
            (10, 10**6, 500, 1.0, {}),
            (300, 10**6, 20, 1.0, {"criterion": "conditional", "delta": 0.1}),
            (1000, 1000, 50, 0.5, {}),
        ],
    )
    def test_memory_is_at_most_what_was_estimated(self, m, n, cells, epsilon, options):
        """Up to 10 MB that every check takes."""
        planned = private(
            [n] * m, epsilon, fc.Bins.uniform(0, 1, cells), **options
        ).designs[0]
        _curves._convolve.cache_clear()
        _curves._worst_tail.cache_clear()
        tracemalloc.start()
        of(planned.message).check(planned)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= 8 * of(planned.message).memory(planned) + 10 * 2**20

    def test_groups_with_the_same_noise_share_a_table(self):
        """The noise of five numbers of sites, in turn, is convolved five times: the
        cache has room for fewer.
        """
        sizes = {f"{i:02}": [2000] * (5 + i % 5) for i in range(20)}
        text = private(None, 4.0, groups=sizes).to_json()
        _curves._convolve.cache_clear()
        check_plan(fc.Plan.from_json(text))
        assert _curves._convolve.cache_info().misses == 5


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (
                {"max_faulty": 1},
                (
                    "max_faulty must be 0 with curves, got 1: one site can claim every"
                    " count"
                ),
            ),
            ({"promise": "mixture"}, "privacy does not go with promise 'mixture'"),
            (
                {"promise": "new-site"},
                (
                    "promise must be 'population' or 'each-site' with privacy, got"
                    " 'new-site'"
                ),
            ),
            ({"n_points": None}, "privacy needs n_points: the noise counts for more"),
            ({"numbers": 3}, "numbers must be left out with curves, got 3"),
            ({"local_ranks": "paper"}, "local_ranks must be left out with curves"),
            (
                {"criterion": "conditional", "delta": 1e-12},
                "delta must be between 1e-09 and 0.5",
            ),
        ],
    )
    def test_have_one_sentence(self, options, words):
        with pytest.raises(ValueError, match=words) as refused:
            fc.plan(
                **{
                    "n_sites": 5,
                    "n_points": 500,
                    "privacy": fc.Privacy(1.0, BINS),
                    **options,
                }
            )
        assert "\n" not in str(refused.value)

    @pytest.mark.parametrize(
        "score", ["lac", "aps", {"name": "aps", "randomized": True}]
    )
    @pytest.mark.parametrize("analysis", ["curve", "paper"])
    def test_bins_may_be_left_out_for_bounded_scores(self, score, analysis):
        plan = fc.plan(
            n_sites=5,
            n_points=800,
            score=score,
            privacy=fc.Privacy(2.0, analysis=analysis),
        )
        assert plan.message.bounded
        assert plan.message.edges[-1] == pytest.approx(1.0, abs=0.003)
        assert plan.feasible

    def test_the_bound_of_raps_depends_on_the_classes(self):
        terms, score = (
            {"classes": list("abcdefgh")},
            {"name": "raps", "penalty": 0.1, "k_reg": 3},
        )
        plan = fc.plan(
            n_sites=5, n_points=800, score=score, privacy=fc.Privacy(2.0), terms=terms
        )
        assert plan.feasible
        assert plan.message.edges[-1] == pytest.approx(1.5, abs=0.003)

    @pytest.mark.parametrize("score", [None, "absolute", "raps"])
    def test_else_the_refusal_says_what_to_type(self, score):
        with pytest.raises(
            ValueError, match=r"Privacy\(2, Bins.from_reference\(public_scores\)\)"
        ) as refused:
            fc.plan(n_sites=5, n_points=500, score=score, privacy=fc.Privacy(2.0))
        assert "--bins from:FILE" in str(refused.value)


RUNS = 300


class Scores:
    """Distributions of scores between 0 and 1, with their distribution functions."""

    even = (lambda rng, n: rng.random(n)), lambda t: np.clip(t, 0, 1)
    long_tailed = (
        lambda rng, n: np.abs(rng.standard_normal(n)) / 10,
        lambda t: 2 * stats.norm.cdf(10 * np.asarray(t)) - 1,
    )
    two_points = (
        lambda rng, n: np.where(rng.random(n) < 0.895, 0.3, 0.6),
        lambda t: np.where(t >= 0.6, 1.0, 0.895),
    )


@pytest.mark.slow
class TestSimulation:
    """300 rounds each, seeded; false-alarm probability 1e-7 each by the empirical
    Bernstein bound.
    """

    @pytest.mark.parametrize("kind", ["even", "long_tailed", "two_points"])
    @pytest.mark.parametrize("criterion", ["stable", "conditional"])
    def test_the_promise_is_kept(self, kind, criterion):
        draw, cdf = getattr(Scores, kind)
        plan, rng = private(criterion=criterion), np.random.default_rng(7)
        q = [
            fc.privacy.simulate(
                plan, {site: draw(rng, n) for site, n in FIVE.items()}, rng
            ).threshold
            for _ in range(RUNS)
        ]
        covered = cdf(np.array(q))
        if criterion == "conditional":
            covered = (covered >= 0.9).astype(float)
        assert covered.mean() >= 0.9 - bernstein_limit(covered)

    def test_every_site_is_covered_whatever_the_others_are_like(self):
        kinds = [Scores.even, Scores.long_tailed, Scores.two_points]
        sizes, rng = (
            dict(zip("ABC", (400, 500, 600), strict=True)),
            np.random.default_rng(8),
        )
        plan = private(sizes, promise="each-site")
        q = [
            fc.privacy.simulate(
                plan,
                {
                    s: draw(rng, n)
                    for (s, n), (draw, _) in zip(sizes.items(), kinds, strict=True)
                },
                rng,
            ).threshold
            for _ in range(RUNS)
        ]
        for _, cdf in kinds:
            covered = cdf(np.array(q))
            assert covered.mean() >= 0.9 - bernstein_limit(covered)

    def test_what_to_expect_is_what_is_simulated(self):
        """Even scores over the cells: the difference of two means is below six of its
        standard errors.
        """
        plan, rng = private(), np.random.default_rng(9)
        mean, std = of(plan.message).expected(plan.designs[0], 0)
        q = [
            fc.privacy.simulate(
                plan, {site: rng.random(n) for site, n in FIVE.items()}, rng
            ).threshold
            for _ in range(RUNS)
        ]
        covered = np.minimum(q, 1.0)
        assert covered.mean() == pytest.approx(
            mean, abs=6 * std * math.sqrt(1 / RUNS + 1 / 4000)
        )
        assert covered.std() == pytest.approx(std, rel=0.25)


def test_what_is_simulated_needs_a_generator_and_a_private_plan_without_groups():
    with pytest.raises(TypeError, match=r"rng must be a numpy.random.Generator"):
        fc.privacy.simulate(private(), {}, 0)
    for plan in (fc.plan(n_points=FIVE), private(None, groups={"x": {"A": 500}})):
        with pytest.raises(
            ValueError, match="simulate takes a private plan without groups"
        ):
            fc.privacy.simulate(plan, {}, np.random.default_rng(0))
