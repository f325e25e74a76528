"""Several numbers per site and weighted votes, from the plan to the threshold."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

import fedconformal as fc
from documents.samples import with_digest
from fedconformal.documents import RankLevel, Ranks
from fedconformal.messages import of
from protocol.sending import altered, answered, check_claims, drawn, federation, sent
from support import kolmogorov_distance, kolmogorov_limit

UNEVEN = {"A": 12, "B": 30, "C": 50}


def by_definition(values, weights, votes):
    """The smallest v with the votes of all numbers up to v at least those needed, as it
    is written.
    """
    numbers = [
        (v, w)
        for each, ws in zip(values, weights, strict=True)
        for v, w in zip(each, ws, strict=True)
    ]
    reached = [v for v, _ in numbers if sum(w for u, w in numbers if u <= v) >= votes]
    return min(reached, default=math.inf)


class TestThreshold:
    def test_is_the_smallest_value_whose_votes_reach_those_needed(self):
        """Plans, weights and numbers made up at random, with ties and +inf, through
        files and reports.
        """
        rng, kinds = np.random.default_rng(0), set()
        for _ in range(120):
            m, r = int(rng.integers(1, 6)), int(rng.integers(1, 4))
            weights = rng.integers(1, 6, size=(m, r)).tolist()
            total = sum(map(sum, weights))
            content = self._plan(weights, votes=int(rng.integers(1, total + 1)))
            plan = fc.Plan.from_json(json.dumps(with_digest(content)))
            values = np.sort(rng.integers(0, 6, size=(m, r)), axis=1).astype(float)
            values[np.sort(rng.random((m, r)), axis=1) > 0.9] = math.inf
            reports = [
                self._report(plan, j, row) for j, row in enumerate(values.tolist())
            ]
            found = fc.calibrate(plan, reports)
            expected = by_definition(values.tolist(), weights, plan.server_rank)
            assert found.threshold == expected, (values, weights, plan.server_rank)
            assert found.server_rank == plan.server_rank
            kinds.add(math.isfinite(expected))
        assert kinds == {True, False}

    @staticmethod
    def _plan(weights, *, votes):
        """A plan as a file holds it: sites of 40 scores that send numbers with these
        votes.
        """
        content = json.loads(
            fc.plan(n_points={f"{j}": 40 for j in range(len(weights))}).to_json()
        )
        sites = [{"count": 1, "n": 40, "names": [f"{j}"]} for j in range(len(weights))]
        ranks = tuple(tuple(30 + i for i in range(len(row))) for row in weights)
        message = Ranks(levels=(RankLevel.of(ranks, tuple(map(tuple, weights))),))
        written = {
            "kind": "ranks",
            **message.model_dump(mode="json", exclude_defaults=True),
        }
        levels = [{"confidence_level": "0.1", "votes": votes}]
        content["designs"][0].update(sites=sites, message=written, levels=levels)
        return content

    @staticmethod
    def _report(plan, j, values):
        report = sent(plan, f"{j}", 40, 0.0)
        (level,) = report.payload.levels
        level = level.model_copy(update={"values": tuple(values)})
        return altered(
            report, payload=report.payload.model_copy(update={"levels": (level,)})
        )


class TestLaw:
    @pytest.mark.slow
    def test_of_uneven_sites_that_send_three_numbers(self):
        """400 runs through reports and calibration; fails by chance with probability
        1e-7 (Massart).
        """
        plan = fc.plan(n_points=UNEVEN, confidence_level=0.8, numbers=3)
        assert all(len(ranks) == 3 for ranks in plan.local_ranks)
        assert len(set(plan.weights)) > 1
        runs = 400
        coverage = [
            fc.calibrate(plan, _uniform(plan, seed)).threshold for seed in range(runs)
        ]
        assert kolmogorov_distance(np.array(coverage), plan.law.cdf) < kolmogorov_limit(
            runs
        )


def _uniform(plan, seed):
    rng = np.random.default_rng(seed)
    return [fc.report(plan, rng.random(n), site=site) for site, n in UNEVEN.items()]


class TestReports:
    def test_with_other_ranks_or_too_few_numbers_do_not_count(self):
        plan = fc.plan(n_points=UNEVEN, confidence_level=0.8, numbers=3)
        reports = _uniform(plan, 0)
        ranks = reports[0].payload.levels[0].ranks
        for kept in (ranks[:2], (), (*ranks[:2], ranks[2] + 1)):
            wrong = altered(reports[0], ranks=kept, value=0.5)
            with pytest.raises(
                fc.RefusedReportsError, match=r"instead of|value Infinity"
            ):
                fc.calibrate(plan, [wrong, *reports[1:]])

    def test_a_site_with_fewer_scores_sends_all_it_has(self):
        plan = fc.plan(
            n_points={"A": 2, "B": 60, "C": 60}, confidence_level=0.8, numbers=5
        )
        assert fc.report(plan, [3.0, 1.0], site="A").payload.levels[0].values == (
            1.0,
            3.0,
        )
        assert plan.notes == (
            (
                "At 80 %, 1 site has no more cases than numbers are asked for, up to 5,"
                " and sends all scores: A."
            ),
        )


class TestOpenPlans:
    SIZES = {"A": 3, "B": 40, "C": 90, "D": 200}  # noqa: RUF012

    @pytest.mark.parametrize("criterion", ["stable", "conditional"])
    def test_five_numbers_end_to_end(self, criterion):
        plan = fc.plan(confidence_level=0.9, criterion=criterion, numbers=5)
        assert fc.Plan.from_json(plan.to_json()) == plan
        assert (
            plan.message.levels[0].rule.numbers,
            plan.message.levels[0].rule.spacing,
        ) == (
            5,
            Fraction(29, 53),
        )
        reports = federation(plan, self.SIZES)
        assert [len(report.payload.levels[0].values) for report in reports] == [
            3,
            5,
            5,
            5,
        ]
        found = fc.calibrate(plan, reports)
        ranks = [report.payload.levels[0].ranks for report in reports]
        law = fc.CoverageLaw(
            n_points=list(self.SIZES.values()),
            local_rank=ranks,
            server_rank=found.server_rank,
        )
        assert found.law.mean() == pytest.approx(law.mean(), abs=1e-12)
        assert law.cdf(0.9) <= 0.1 if criterion == "conditional" else law.mean() >= 0.9
        values = [report.payload.levels[0].values for report in reports]
        ones = [[1] * len(each) for each in values]
        assert found.threshold == by_definition(values, ones, found.server_rank)
        check_claims(found, reports)

    def test_a_larger_site_cannot_buy_votes(self):
        """Sizes are what sites say they are, so every number has one vote."""
        plan = fc.plan(confidence_level=0.9, numbers=5)
        reports = federation(plan, {"A": 40, "B": 40_000})
        design = fc.calibrate(plan, reports).parts[0].design
        assert of(design.message).votes(design, 0) == ((1,) * 5, (1,) * 5)


class TestGroupsAndLevels:
    def test_a_site_answers_for_the_groups_that_it_is_asked_for(self):
        """The large site decides alone in one group; in the other both have a say."""
        sizes = {"old": {"A": 20, "B": 400}, "young": {"A": 60, "B": 60}}
        plan = fc.plan(groups=sizes, confidence_level=0.8, max_missing=0)
        assert plan.by_group["old"].asked_names == ("B",)
        assert plan.by_group["young"].asked_names == ("A", "B")
        rng = np.random.default_rng(0)
        reports = answered(plan, {site: drawn(sizes, rng, site=site) for site in "AB"})
        assert [sorted(report.by_group) for report in reports] == [
            ["young"],
            ["old", "young"],
        ]
        found = fc.calibrate(plan, reports)
        assert (found.missing, found["old"].not_asked, found.not_asked) == (
            (),
            ("A",),
            (),
        )
        check_claims(found, reports)
        only_old = {
            "groups": {"old": sizes["old"]},
            "confidence_level": 0.8,
            "max_missing": 0,
        }
        with pytest.raises(ValueError, match="the plan does not ask site 'A'"):
            fc.report(
                fc.plan(**only_old), np.arange(20.0), site="A", groups=["old"] * 20
            )

    def test_each_level_is_planned_as_if_alone(self):
        options = {"n_points": UNEVEN, "numbers": 2}
        several = fc.plan(**options, confidence_level=[0.6, 0.8])
        scores = np.random.default_rng(9).random(50)
        both = fc.report(several, scores, site="C").payload.levels
        for level, sent_at in zip((0.6, 0.8), both, strict=True):
            alone = fc.plan(**options, confidence_level=level)
            for name in ("server_rank", "local_ranks", "weights"):
                assert getattr(several[level], name) == getattr(alone, name)
            assert fc.report(alone, scores, site="C").payload.levels == (sent_at,)
        low, high = fc.calibrate(several, _uniform(several, 3)).thresholds
        assert low <= high

    def test_a_site_may_be_asked_at_one_level_only(self):
        """It sends an empty list for the other, counts as having answered, and is
        missing for neither.
        """
        content = json.loads(
            fc.plan(
                n_points={"A": 60, "B": 80},
                confidence_level=[0.8, 0.9],
                local_ranks="paper",
            ).to_json()
        )
        design = content["designs"][0]
        design["levels"][0]["votes"] = 1
        design["message"]["levels"][0] = {"ranks": [[], [65]]}
        plan = fc.Plan.from_json(json.dumps(with_digest(content)))
        assert plan.designs[0].asked_names == ("A", "B")
        rng = np.random.default_rng(0)
        reports = [
            fc.report(plan, rng.random(n), site=site)
            for site, n in (("A", 60), ("B", 80))
        ]
        assert [len(level.values) for level in reports[0].payload.levels] == [0, 1]
        found = fc.calibrate(plan, reports)
        assert (found.missing, found.n_answers) == ((), 2)
        assert found.thresholds[0] == reports[1].payload.levels[0].values[0]
        check_claims(found, reports)
        without = fc.calibrate(plan, reports[1:])
        assert (without.missing, without.thresholds[0]) == (("A",), found.thresholds[0])


class TestArguments:
    @pytest.mark.parametrize(
        ("options", "error", "words"),
        [
            ({"numbers": 0}, ValueError, "numbers must be between 1 and 20, got 0"),
            (
                {"numbers": 2.5},
                TypeError,
                "numbers must be a whole number between 1 and 20, got 2.5",
            ),
            ({"max_missing": -1}, ValueError, "max_missing must be >= 0, got -1"),
            (
                {
                    "numbers": 2,
                    "privacy": fc.Privacy(epsilon=2.0, bins=fc.Bins.uniform(0, 1, 20)),
                },
                ValueError,
                "numbers must be left out with curves, got 2",
            ),
            (
                {"numbers": 2, "local_ranks": "paper"},
                ValueError,
                (
                    "numbers must be 1 with local_ranks, which fixes one rank for each"
                    " site, got 2"
                ),
            ),
            (
                {"numbers": 2, "promise": "each-site"},
                ValueError,
                "numbers must be 1 with promise 'each-site', got 2",
            ),
        ],
    )
    def test_a_refusal_names_argument_value_and_range(self, options, error, words):
        with pytest.raises(error, match=words) as caught:
            fc.plan(**{"n_sites": 5, "n_points": 300, **options})
        assert "\n" not in str(caught.value)

    def test_the_advice_counts_missing_sites(self):
        options = {"max_missing": 1, "criterion": "marginal"}
        for n in (5, 8):
            with pytest.warns(
                fc.InfeasibleWarning, match="any 1 of which may be missing"
            ):
                plan = fc.plan(n_sites=2, n_points=n, **options)
            assert plan.designs[0].levels[0].advice.n_points == 9
        assert fc.plan(n_sites=2, n_points=9, **options).feasible
        assert fc.plan(n_sites=3, n_points=5, **options).feasible
