"""Private plans end to end: planned, released through OpenDP, charged, calibrated."""

import json
import math

import numpy as np
import pytest

import fedconformal as fc
from fedconformal import privacy
from fedconformal.privacy._simulation import simulate_releases

BINS = fc.Bins.uniform(0, 1, 100)
SETTINGS = [(5, 200, 10), (5, 200, 1), (10, 500, 1), (10, 500, 0.5), (100, 500, 1), (20, 2000, 0.5)]
GOALS = [0.912, 0.952, 0.927, 0.940, 0.926, 0.914]


def private_plan(m, n, epsilon, **options):
    rule = {key: options.pop(key) for key in ("mechanism", "analysis", "one_hot") if key in options}
    rule = fc.Privacy(epsilon=epsilon, bins=options.pop("bins", BINS), **rule)
    return fc.plan(
        n_sites=m, n_points=n, confidence_level=0.9, privacy=rule, on_infeasible="ignore", **options
    )


def mean_coverage(plan, masses, *, runs, seed):
    """True coverage of the private threshold for scores with these bin masses; overflow counts as 1."""
    rng = np.random.default_rng(seed)
    m, n, level = plan.n_sites, plan.n_points[0], plan.levels[0]
    counts = rng.multinomial(n, masses, size=(runs, m)).reshape(runs * m, -1)
    bins = simulate_releases(
        counts,
        level.exact_quantile.numerator,
        level.exact_quantile.denominator,
        epsilon=plan.privacy.epsilon,
        calibration="range" if plan.privacy.analysis == "tight" else "paper",
        mechanism=plan.privacy.mechanism,
        rng=rng,
    )
    kept = np.sort(bins.reshape(runs, m), axis=1)[:, plan.server_rank - 1]
    coverage = np.cumsum(masses)
    coverage[-1] = 1.0
    return float(coverage[kept].mean())


class TestTightPlans:
    @pytest.mark.parametrize(("setting", "goal"), list(zip(SETTINGS, GOALS, strict=True)))
    def test_expected_cost_of_privacy(self, setting, goal):
        """1,000 runs, coverage spread below 0.02: the mean is off by less than 0.004 but for 1 in 1e9."""
        plan = private_plan(*setting)
        coverage = mean_coverage(plan, np.full(100, 0.01), runs=1000, seed=1)
        assert 0.9 <= coverage <= goal
        assert plan.law.mean() >= 0.9

    @pytest.mark.parametrize("setting", [(5, 200, 1), (10, 500, 1)])
    @pytest.mark.parametrize("mechanism", ["permute-and-flip", "exponential"])
    def test_no_distribution_gets_below_the_level(self, setting, mechanism):
        """The guarantee is for every distribution: mean over 400 runs each, Hoeffding below 1e-7 together."""
        plan = private_plan(*setting, mechanism=mechanism)
        rng = np.random.default_rng(3)
        masses = [rng.dirichlet(np.full(100, alpha)) for alpha in (0.02, 0.1, 1.0, 10.0) for _ in range(5)]
        for level in (0.89, 0.9, 0.91, 0.95):
            two = np.zeros(100)
            two[[30, 60]] = level, 1 - level
            masses.append(two)
        masses.append(np.eye(100)[40])
        allowed = math.sqrt(math.log(len(masses) / 1e-7) / (2 * 400))
        for i, mass in enumerate(masses):
            assert mean_coverage(plan, mass / mass.sum(), runs=400, seed=i) > 0.9 - allowed

    def test_half_of_the_papers_excess_where_the_paper_is_feasible(self):
        for m, n, epsilon in [(10, 500, 1), (10, 500, 0.5), (100, 500, 1), (20, 2000, 0.5)]:
            ours, paper = (private_plan(m, n, epsilon, analysis=analysis) for analysis in ("tight", "paper"))
            assert paper.feasible
            excess = [
                mean_coverage(plan, np.full(100, 0.01), runs=1000, seed=5) - 0.9 for plan in (ours, paper)
            ]
            assert excess[0] <= excess[1] / 2

    def test_conditional_uneven_and_faulty(self):
        rule = fc.Privacy(epsilon=1.0, bins=BINS)
        plan = fc.plan(n_points=[200, 300, 500, 500, 500], criterion="conditional", privacy=rule)
        assert plan.law.cdf(0.9) <= 0.1
        faulty = fc.plan(n_sites=9, n_points=300, max_faulty=2, privacy=rule)
        assert faulty.law.mean() >= 0.9
        assert 2 < faulty.server_rank <= 7

    def test_several_levels_share_epsilon(self):
        plan = fc.plan(
            n_sites=5, n_points=1000, confidence_level=[0.8, 0.9], privacy=fc.Privacy(epsilon=2.0, bins=BINS)
        )
        alone = fc.plan(
            n_sites=5, n_points=1000, confidence_level=0.9, privacy=fc.Privacy(epsilon=1.0, bins=BINS)
        )
        assert plan.levels[1].quantile == alone.levels[0].quantile
        assert plan.terms.epsilon == 1

    def test_infeasible_plans_name_the_smallest_epsilon_and_size(self):
        plan = private_plan(5, 50, 0.1)
        assert not plan.feasible
        advice = plan.levels[0].advice
        assert private_plan(5, advice.n_points, 0.1).feasible
        assert not private_plan(5, advice.n_points - 1, 0.1).feasible
        assert private_plan(5, 50, advice.epsilon).feasible
        assert not private_plan(5, 50, round(advice.epsilon - 0.001, 3)).feasible
        assert f"an epsilon of {advice.epsilon:g}" in plan.problems[0]


class TestPapersPlan:
    def test_algorithm_3_by_hand(self):
        """For every gamma of the grid: ranks at the raised level, the correction, M at the corrected rank."""
        m, n, epsilon = 10, 500, 1.0
        plan = private_plan(m, n, epsilon, analysis="paper")
        best = None
        for gamma in [i / 100 for i in (*range(1, 10), *range(10, 100, 5))]:
            level = 0.9 / (1 - gamma * 0.1)
            pair = fc.plan(n_sites=m, n_points=n, confidence_level=level, on_infeasible="ignore")
            correction = math.ceil(2 / epsilon * math.log(100 / (1 - (1 - gamma * 0.1) ** (1 / m))))
            rank = pair.local_ranks[0] + correction
            if pair.feasible and rank < n:
                mean = fc.CoverageLaw(m, n, rank, pair.server_rank).mean()
                best = min(best or (2,), (mean, rank, pair.server_rank))
        assert (plan.local_ranks[0], plan.server_rank) == best[1:]
        assert plan.privacy.mechanism == "exponential"
        assert plan.law.mean() >= 0.9

    def test_is_infeasible_where_theory_says_so(self):
        plan = private_plan(5, 200, 1, analysis="paper")
        assert not plan.feasible
        assert private_plan(5, 200, 1).feasible

    @pytest.mark.parametrize(
        "options", [{"criterion": "stable"}, {"max_faulty": 1}, {"n_points": [100, 200], "n_sites": None}]
    )
    def test_refuses_what_the_paper_does_not_cover(self, options):
        rule = fc.Privacy(epsilon=1.0, bins=BINS, analysis="paper")
        with pytest.raises(ValueError, match="paper's analysis"):
            fc.plan(**{"n_sites": 5, "n_points": 200, "privacy": rule, **options})


@pytest.fixture
def ledger(tmp_path):
    book = fc.Ledger.create(tmp_path / "ledger.db")
    book.set_budget("trial", 2.0)
    return book


class TestReports:
    def test_a_private_report_is_charged_and_replayed(self, ledger):
        plan = private_plan(5, 200, 1.0)
        scores = np.random.default_rng(0).random(200)
        first = fc.report(plan, scores, site="A", ledger=ledger, dataset="trial")
        assert first.value in (*BINS.edges, math.inf)
        assert ledger.spent("trial") == 1
        assert all(
            fc.report(plan, scores, site="A", ledger=ledger, dataset="trial") == first for _ in range(20)
        )
        assert ledger.spent("trial") == 1
        assert fc.Report.from_json(first.to_json()) == first

    def test_above_the_budget_nothing_is_sent(self, ledger):
        scores = np.random.default_rng(0).random(200)
        for epsilon in (1.0, 0.9):
            fc.report(private_plan(5, 200, epsilon), scores, site="A", ledger=ledger, dataset="trial")
        with pytest.raises(privacy.BudgetExceededError):
            fc.report(private_plan(5, 200, 0.8), scores, site="A", ledger=ledger, dataset="trial")
        assert float(ledger.spent("trial")) == 1.9

    def test_not_without_a_ledger_nor_for_an_infeasible_plan(self, ledger):
        plan = private_plan(5, 200, 1.0)
        with pytest.raises(ValueError, match="ledger and dataset are needed"):
            fc.report(plan, np.ones(200), site="A")
        hopeless = private_plan(5, 50, 0.1)
        with pytest.raises(ValueError, match="spend epsilon for nothing"):
            fc.report(hopeless, np.ones(50), site="A", ledger=ledger, dataset="trial")
        with pytest.raises(ValueError, match="expects sites with 200 scores, got 199"):
            fc.report(plan, np.ones(199), site="A", ledger=ledger, dataset="trial")
        assert ledger.spent("trial") == 0

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e308, -5.0])
    def test_odd_scores_are_clipped_and_never_raise(self, ledger, value):
        plan = private_plan(5, 200, 1.0)
        scores = np.full(200, value)
        assert privacy.pmf(scores, plan).argmax() == (0 if value < 0 else 99)
        fc.report(plan, scores, site="A", ledger=ledger, dataset="trial")

    def test_the_overflow_bin_means_infinity_unless_scores_are_bounded(self, ledger):
        scores = np.full(200, 1.0)
        open_ended = private_plan(5, 200, 1.9)
        sent = fc.report(open_ended, scores + 9, site="A", ledger=ledger, dataset="trial")
        assert sent.value == math.inf
        bounded = private_plan(5, 200, 0.1 + 1.8, bins=fc.Bins.uniform(0, 1, 100, bounded=True))
        other = fc.Ledger.create(ledger.path.with_name("other.db"))
        other.set_budget("trial", 5)
        assert fc.report(bounded, scores, site="A", ledger=other, dataset="trial").value == 1.0

    def test_pmf_is_a_distribution(self):
        plan = private_plan(5, 200, 1.0)
        mass = privacy.pmf(np.random.default_rng(1).random(200), plan)
        assert mass.shape == (100,)
        assert mass.sum() == pytest.approx(1)
        with pytest.raises(ValueError, match="not private"):
            privacy.pmf([1.0], fc.plan(n_sites=2, n_points=20))


class TestServer:
    def releases(self, plan, tmp_path, sites):
        rng, reports = np.random.default_rng(4), []
        for site in sites:
            book = fc.Ledger.create(tmp_path / f"{site}.db")
            book.set_budget("trial", 10)
            scores = rng.random(plan.n_points[0])
            reports.append(fc.report(plan, scores, site=site, ledger=book, dataset="trial"))
        return reports

    def test_missing_sites_are_solved_anew(self, tmp_path):
        plan = private_plan(6, 300, 2.0)
        reports = self.releases(plan, tmp_path, "ABCDEF")
        whole, part = fc.calibrate(plan, reports), fc.calibrate(plan, reports[:4])
        assert whole.law.mean() == plan.law.mean()
        assert part.n_missing == 2
        assert part.law.mean() >= 0.9
        assert any("2-differentially private" in words for words in part.assumptions)
        assert fc.Calibration.from_json(part.to_json()) == part

    def test_a_value_that_is_no_edge_is_refused(self, tmp_path):
        plan = private_plan(3, 300, 2.0)
        reports = self.releases(plan, tmp_path, "ABC")
        forged = reports[0].model_copy(update={"values": (0.12345,)})
        with pytest.raises(fc.RefusedReportsError, match="no edge"):
            fc.calibrate(plan, [forged, *reports[1:]])

    def test_the_sum_of_one_hot_vectors_gives_the_same_threshold(self, tmp_path):
        plan = private_plan(6, 300, 2.0)
        reports = self.releases(plan, tmp_path, "ABCDEF")
        edges = [*BINS.edges[:-1], math.inf]
        vectors = [privacy.one_hot(tuple(edges.index(v) for v in report.values), plan) for report in reports]
        for n in (6, 4):
            by_sum = fc.calibrate_histogram(plan, sum(vectors[:n]))
            assert by_sum.threshold == fc.calibrate(plan, reports[:n]).threshold
            assert by_sum.law.mean() == pytest.approx(fc.calibrate(plan, reports[:n]).law.mean())
            assert (by_sum.n_answers, by_sum.n_missing, by_sum.answers) == (n, 6 - n, ())
            assert fc.Calibration.from_json(by_sum.to_json()) == by_sum

    def test_a_plan_can_demand_it(self, ledger):
        plan = private_plan(3, 300, 2.0, one_hot=True)
        with pytest.raises(ValueError, match="secure aggregation"):
            fc.calibrate(plan, [])
        with pytest.raises(ValueError, match="only as one-hot vectors"):
            fc.report(plan, np.ones(300), site="A", ledger=ledger, dataset="trial")
        assert ledger.spent("trial") == 0

    def test_an_aggregate_must_fit_the_plan(self, tmp_path):
        plan = private_plan(3, 300, 2.0)
        good = fc.calibrate_histogram(plan, 3 * np.eye(100, dtype=int)[90])
        fields = {name: getattr(good, name) for name in type(good).model_fields}
        part = good.aggregated[0]
        for change in ({"n": 301}, {"count": 4}, {"ranks": (1,)}):
            with pytest.raises(ValueError, match="aggregated answers"):
                fc.Calibration(**{**fields, "aggregated": (part.model_copy(update=change),)})
        public = fc.plan(n_sites=3, n_points=300)
        with pytest.raises(ValueError, match="aggregated answers"):
            fc.Calibration(**{**fields, "plan": public})

    def test_signatures_and_sums_do_not_go_together(self):
        keys = {name: fc.SigningKey.new().public_key for name in "ABC"}
        plan = fc.plan(
            n_points=dict.fromkeys("ABC", 300), keys=keys, privacy=fc.Privacy(epsilon=2.0, bins=BINS)
        )
        with pytest.raises(ValueError, match="nobody signs a sum"):
            fc.calibrate_histogram(plan, 3 * np.eye(100, dtype=int)[90])

    @pytest.mark.parametrize(
        ("histogram", "words"),
        [
            (np.zeros(100, dtype=int), "must count 1 to 3 sites"),
            (np.full(100, 1), "must count 1 to 3 sites"),
            (np.zeros(99, dtype=int), "shape"),
            (np.full(100, 0.01), "counts"),
            (-np.eye(100, dtype=int)[0], "counts"),
        ],
    )
    def test_a_histogram_must_fit_the_plan(self, histogram, words):
        with pytest.raises(ValueError, match=words):
            fc.calibrate_histogram(private_plan(3, 300, 2.0), histogram)

    def test_uneven_sites_must_all_answer(self):
        plan = fc.plan(n_points=[300, 400, 400], privacy=fc.Privacy(epsilon=2.0, bins=BINS))
        ones = np.eye(100, dtype=int)
        assert fc.calibrate_histogram(plan, ones[90] + ones[91] + ones[95]).law.mean() >= 0.9
        with pytest.raises(ValueError, match="sizes differ"):
            fc.calibrate_histogram(plan, ones[90] + ones[91])
        with pytest.raises(ValueError, match="private plan"):
            fc.calibrate_histogram(fc.plan(n_sites=2, n_points=30), ones[0])


class TestArguments:
    @pytest.mark.parametrize("epsilon", [0, -1, 1e-300, math.inf, math.nan, 1e6])
    def test_epsilon(self, epsilon):
        with pytest.raises(ValueError, match=r"epsilon must be a number in \(1e-06, 100\]"):
            fc.Privacy(epsilon=epsilon, bins=BINS)

    def test_the_rest(self):
        with pytest.raises(TypeError, match="bins must be Bins"):
            fc.Privacy(epsilon=1, bins=[0, 1])
        with pytest.raises(ValueError, match="mechanism"):
            fc.Privacy(epsilon=1, bins=BINS, mechanism="laplace")
        with pytest.raises(ValueError, match="exponential"):
            fc.Privacy(epsilon=1, bins=BINS, analysis="paper", mechanism="permute-and-flip")
        with pytest.raises(ValueError, match="privacy needs n_points"):
            fc.plan(privacy=fc.Privacy(epsilon=1, bins=BINS))
        with pytest.raises(TypeError, match="privacy must be a Privacy"):
            fc.plan(n_sites=2, n_points=100, privacy=1.0)

    def test_bounded_bins_need_a_bounded_score(self):
        low, high = (fc.Bins.uniform(0, top, 10, bounded=True) for top in (0.9, 1.0))
        for score, bins in [("absolute", high), ("lac", low)]:
            with pytest.raises(ValueError, match="bounded"):
                fc.plan(n_sites=3, n_points=300, score=score, privacy=fc.Privacy(epsilon=2, bins=bins))
        assert fc.plan(
            n_sites=3, n_points=300, score="lac", privacy=fc.Privacy(epsilon=2, bins=high)
        ).feasible
        with pytest.raises(ValueError, match="local_ranks"):
            fc.plan(n_sites=3, n_points=300, local_ranks="paper", privacy=fc.Privacy(epsilon=2, bins=high))

    @pytest.mark.parametrize(
        ("place", "value"),
        [
            (("levels", 0, "quantile"), "1/4"),
            (("levels", 0, "quantile"), f"{2**60 - 1}/{2**60}"),
            (("levels", 0, "quantile"), None),
            (("privacy", "epsilon"), 150.0),
            (("privacy", "epsilon"), 1e-310),
        ],
    )
    def test_a_plan_that_cannot_be_answered_cannot_be_read(self, place, value):
        content = json.loads(private_plan(5, 200, 1.0).to_json())
        part = content
        for step in place[:-1]:
            part = part[step]
        part[place[-1]] = value
        with pytest.raises(fc.DocumentError, match="not a plan"):
            fc.Plan.from_json(json.dumps(content))

    def test_edited_edges_are_noticed(self):
        content = json.loads(private_plan(5, 200, 1.0).to_json())
        content["privacy"]["edges"][3] += 1e-9
        with pytest.raises(fc.DocumentError, match="digest"):
            fc.Plan.from_json(json.dumps(content))
        content["privacy"]["edges"][3] = content["privacy"]["edges"][4]
        with pytest.raises(fc.DocumentError, match="increase strictly"):
            fc.Plan.from_json(json.dumps(content))
