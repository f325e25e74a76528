"""A criterion, a promise and a score of one's own: one class each, and every interface
takes them.

Nothing of the package is changed for them: each class is registered, used from the plan
to the certificate and on the command line, and taken out again.
"""

import json
import logging
import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from reading import Reader

import fedconformal as fc
from fedconformal import rounds
from fedconformal.audit import verify
from fedconformal.cli import main
from fedconformal.pages._planner import answer_plan, cases_needed
from fedconformal.pages._question import PlanQuestion
from fedconformal.planning import CRITERIA, PROMISES, Criterion, Promise
from fedconformal.scores import SCORES, IntervalScore

LOG = logging.getLogger("fedconformal.test")
SIZES = {"A": 40, "B": 60, "C": 50, "D": 60}


class Median(Criterion):
    """The median of the coverage given the data is at least the level; then the
    smallest mean coverage.
    """

    name = "median"

    def margin(self, law, goal):
        return 0.5 - law.cdf(float(goal.level))

    def surety(self, delta):
        return "at least as often as not"


class Spare(Promise):
    """The promise for the population, with one vote more than it takes where there is
    one to spare.
    """

    name = "spare"
    default_criterion = "marginal"
    assumption = "spare-alike"
    whose = "new cases, with a vote to spare"

    def choose(self, sites, goal, numbers, share):
        return _with_spare(PROMISES["population"]().choose(sites, goal, numbers, share))

    def solve(self, planned, answered, goal):
        return _with_spare(PROMISES["population"]().solve(planned, answered, goal))

    def tolerates(self, solution, goal, n_missing):
        return PROMISES["population"]().tolerates(solution, goal, n_missing)

    def law(self, solution, goal):
        return solution.ballot.law(solution.needed)

    def assumed(self):
        return "All cases are alike, and one report too few is no harm."

    def shortfall(self, where):
        return (
            f"cases {where} differ, or this calibration came out low: if they do not,"
        )


def _with_spare(solution):
    spare = solution.is_finite and solution.needed < solution.ballot.total_votes
    return replace(solution, needed=solution.needed + 1) if spare else solution


@dataclass(frozen=True)
class Relative(IntervalScore):
    """The distance in units of the prediction, and of a unit that is a parameter."""

    name: ClassVar[str] = "relative"
    unit: float = 1.0

    def score(self, y, prediction):
        return np.abs(np.asarray(y) - prediction) / (
            self.unit * self.checked(prediction)
        )

    def set(self, prediction, threshold):
        center = self.checked(prediction)
        return self.intervals(
            center, center, lambda t: t * self.unit * center, threshold
        )

    def set_words(self):
        return "The set reaches from the prediction by q units of itself to both sides."


@pytest.fixture(autouse=True)
def registered():
    choices = [(CRITERIA, Median), (PROMISES, Spare), (SCORES, Relative)]
    for registry, kind in choices:
        registry.register(kind)
    yield
    for registry, kind in choices:
        registry.unregister(kind.name)


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """The command line, in an empty directory."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, code=0):
        capsys.readouterr()
        assert main([str(argument) for argument in arguments]) == code, (
            capsys.readouterr().err
        )
        return capsys.readouterr()

    return run


def answered(plan, seed=0):
    rng = np.random.default_rng(seed)
    return [fc.report(plan, rng.random(n), site=site) for site, n in SIZES.items()]


def not_counted(findings):
    """The claims that the auditor does not know; every other one holds."""
    assert not any(finding.holds is False for finding in findings)
    return [finding for finding in findings if finding.holds is None]


def on_the_terminal(run, plan, *options):
    """From the plan to the certificate, as files; returns the calibration."""
    points = ",".join(
        f"{site}={n}" for site, n in zip(plan.site_names, plan.n_points, strict=True)
    )
    run("plan", "--points", points, *options, "-o", "plan.json")
    assert fc.Plan.read("plan.json") == plan
    rng, files = np.random.default_rng(0), []
    for site, n in zip(plan.site_names, plan.n_points, strict=True):
        np.savetxt(f"{site}.csv", rng.random(n), header="score", comments="")
        run("report", "plan.json", f"{site}.csv", "--site", site, "-o", f"{site}.json")
        files.append(f"{site}.json")
    run("calibrate", "plan.json", *files, "-o", "calibration.json")
    np.savetxt("new.csv", [1.0, 2.0], header="prediction", comments="")
    rows = json.loads(run("predict", "calibration.json", "new.csv", "--json").out)
    threshold = fc.Calibration.read("calibration.json").threshold
    assert [row["upper"] for row in rows] == pytest.approx(
        [1 + threshold, 2 + threshold]
    )
    run("certificate", "calibration.json", "-o", "certificate.html", code=1)
    run(
        "certificate",
        "calibration.json",
        "-o",
        "certificate.html",
        "--allow-unverified",
    )
    reports = [each for file in files for each in ("--reports", file)]
    found = json.loads(
        run("verify", "calibration.json", *reports, "--json", code=1).out
    )
    assert not found["verified"]
    assert {finding["holds"] for finding in found["findings"]} == {True, None}
    return fc.Calibration.read("calibration.json")


class TestCriterion:
    @pytest.fixture
    def plan(self, registered):
        return fc.plan(n_points=SIZES, criterion="median")

    def test_the_plan_keeps_the_promise_and_no_other_share_is_better(self, plan):
        assert plan.law.cdf(0.9) <= 0.5
        assert plan.law.ppf(0.5) >= 0.9
        for share in range(80, 100):
            ranks = [math.ceil(share * (n + 1) / 100) for n in SIZES.values()]
            for votes in range(1, len(SIZES) + 1):
                other = fc.CoverageLaw(
                    n_points=list(SIZES.values()), local_rank=ranks, server_rank=votes
                )
                assert other.cdf(0.9) > 0.5 or other.mean() >= plan.law.mean() - 1e-12

    def test_from_reports_to_the_certificate(self, plan):
        reports = answered(plan)
        for there in (reports, reports[1:]):
            found = fc.calibrate(plan, there)
            assert found.law.cdf(0.9) <= 0.5
            again = fc.Calibration.from_json(found.to_json())
            assert again == found
            findings = not_counted(verify(again, there))
            assert any(
                "holds with criterion 'median'" in finding.claim for finding in findings
            )
            assert {finding.verdict for finding in findings} == {"not verified"}
            page = Reader(fc.pages.certificate(found, allow_unverified=True)).text
            assert "At least as often as not, the truth lies" in page
            assert "could not be verified" in page

    def test_with_every_promise_privacy_groups_and_levels(self):
        each = fc.plan(n_points=SIZES, criterion="median", promise="each-site")
        assert all(
            fc.CoverageLaw(1, n, l, 1).cdf(0.9) <= 0.5
            for n, l in zip(each.n_points, each.local_ranks, strict=True)
        )
        privacy = fc.Privacy(epsilon=2.0, bins=fc.Bins.uniform(0, 1, 50))
        with pytest.raises(
            ValueError, match="criterion 'median' does not go with curves"
        ):
            fc.plan(5, 300, criterion="median", privacy=privacy)
        grouped = fc.plan(
            groups={"a": [40, 60], "b": None},
            criterion="median",
            confidence_level=[0.8, 0.9],
        )
        assert grouped["a", 0.9].law.cdf(0.9) <= 0.5
        with pytest.warns(
            fc.InfeasibleWarning, match=r"99 % coverage at least as often as not cannot"
        ):
            hopeless = fc.plan(2, 3, criterion="median", confidence_level=0.99)
        advice = hopeless.designs[0].levels[0].advice
        options = {"criterion": "median", "confidence_level": 0.99}
        assert fc.plan(2, advice.n_points, **options).feasible
        assert not fc.plan(2, advice.n_points - 1, **options).feasible

    def test_once_it_is_gone_its_plans_cannot_be_answered(self, plan):
        text = plan.to_json()
        CRITERIA.unregister("median")
        with pytest.raises(
            ValueError, match=r"criterion must be one of .*, got 'median'"
        ):
            fc.report(fc.Plan.from_json(text), range(40), site="A")


class TestPromise:
    @pytest.fixture
    def plan(self, registered):
        return fc.plan(
            n_points=SIZES, promise="spare", criterion="marginal", local_ranks="paper"
        )

    def test_the_plan_has_one_vote_more(self, plan):
        usual = fc.plan(n_points=SIZES, criterion="marginal", local_ranks="paper")
        assert plan.local_ranks == list(usual.local_ranks)
        assert plan.server_rank == usual.server_rank + 1
        assert plan.law.mean() > usual.law.mean() >= 0.9
        assert (
            fc.plan(n_points=SIZES, promise="spare", local_ranks="paper") == plan
        )  # its own criterion

    def test_from_reports_to_the_certificate(self, plan):
        reports = answered(plan)
        for there in (reports, reports[1:]):
            found = fc.calibrate(plan, there)
            numbers = sorted(report.payload.levels[0].values[0] for report in there)
            assert found.threshold == numbers[found.server_rank - 1]
            assert found.assumptions[0] == "spare-alike"
            assert fc.protocol.assumption_sentences(found)[0] == Spare().assumed()
            assert fc.Calibration.from_json(found.to_json()) == found
            claims = [finding.claim for finding in not_counted(verify(found, there))]
            assert any(
                "promise 'spare' holds with criterion 'marginal'" in claim
                for claim in claims
            )
            page = Reader(fc.pages.certificate(found, allow_unverified=True)).text
            assert "new cases, with a vote to spare" in page
            assert "one report too few is no harm" in page


class TestScore:
    @pytest.fixture
    def plan(self, registered):
        return fc.plan(n_points=SIZES, score={"name": "relative", "unit": 2.0})

    @pytest.fixture
    def cases(self):
        rng = np.random.default_rng(0)
        predictions = {site: 1 + rng.random(n) for site, n in SIZES.items()}
        return {
            site: (p * (1 + 0.1 * rng.standard_normal(p.size)), p)
            for site, p in predictions.items()
        }

    def test_from_cases_to_sets_and_the_certificate(self, plan, cases):
        assert plan == fc.plan(n_points=SIZES, score=Relative(unit=2.0))
        score = fc.scores.from_name(plan.score.name, **plan.score.parameters)
        assert score == Relative(unit=2.0)
        reports = [
            fc.report(plan, score.score(*cases[site]), site=site) for site in SIZES
        ]
        found = fc.calibrate(plan, reports)
        assert not_counted(verify(found, reports)) == []
        sets = score.set(np.array([1.0, 2.0]), found.threshold)
        np.testing.assert_allclose(sets.mean(axis=1), [1.0, 2.0])
        np.testing.assert_allclose(
            np.diff(sets)[:, 0], np.array([4.0, 8.0]) * found.threshold
        )
        assert Relative().set_words() in fc.pages.certificate(found)

    def test_a_plan_that_names_it_can_be_carried_without_it(self, plan):
        """A coordinator need not have what the sites have; only using it asks for
        it.
        """
        text = plan.to_json()
        SCORES.unregister("relative")
        assert fc.Plan.from_json(text) == plan
        found = fc.calibrate(plan, answered(plan))
        assert "relative, is not one that is known here" in fc.pages.certificate(found)
        with pytest.raises(ValueError, match="got 'relative'"):
            fc.scores.from_name("relative")


class TestOtherDoors:
    """The planner, the estimators and the tools for sites that differ take them as they
    are.
    """

    @pytest.mark.slow
    def test_the_planner(self):
        question = PlanQuestion(sites=5, points=40, promise="spare", criterion="median")
        answer = answer_plan(question)
        assert "spare" in answer
        assert "median" in answer
        assert cases_needed(question, 0.8)[0] <= 40

    def test_estimators(self):
        linear_model = pytest.importorskip("sklearn.linear_model")
        rng = np.random.default_rng(0)
        X = 1 + rng.random((800, 1))
        y = X[:, 0] * (1 + 0.1 * rng.standard_normal(800))
        model = linear_model.LinearRegression().fit(X[:200], y[:200])
        regressor = fc.FederatedConformalRegressor(
            model, conformity_score=Relative(), criterion="median"
        )
        sites = np.repeat(["A", "B", "C"], 200)
        points, intervals = regressor.conformalize(
            X[200:], y[200:], sites=sites
        ).predict_interval(X[:5])
        assert (intervals[:, 0, 0] < points).all()
        assert regressor.calibration_.plan.score.name == "relative"
        assert not_counted(verify(regressor.calibration_)) != []

    @pytest.mark.parametrize("kind", ["criterion", "promise", "score"])
    def test_a_round_over_any_engine(self, kind):
        """The same bytes as through files: plans are unpacked, answered and collected
        as they are.
        """
        sizes = dict.fromkeys("ABC", 60)
        wishes = {
            "criterion": {"criterion": "median"},
            "promise": {"promise": "spare"},
            "score": {"score": Relative(unit=2.0)},
        }
        plan = fc.plan(n_points=sizes, **wishes[kind])
        scores = {
            site: np.random.default_rng(ord(site)).random(n)
            for site, n in sizes.items()
        }
        found = rounds.ReportCollection(
            plan, {site: site for site in sizes}, engine="Toy", log=LOG
        )
        named = {"score": Relative(unit=2.0)} if kind == "score" else {}
        for site in sizes:
            sent = rounds.CALIBRATE.answer(
                rounds.pack_plan(plan),
                lambda _, site=site: {"scores": scores[site], **named},
                lambda _, site=site: rounds.Site(site),
                log=LOG,
            )
            assert isinstance(sent, str)
            found.receive(site, sent)
        reports = [fc.report(plan, scores[site], site=site, **named) for site in sizes]
        made = found.calibrate(timeout=1, on_refused="raise")
        assert made.to_json() == fc.calibrate(plan, reports).to_json()


class TestNames:
    """What a class must have to be registered."""

    @pytest.mark.parametrize("name", [None, "two\nlines"])
    def test_a_name_is_one_line_of_text(self, name):
        kind = type("Odd", (Median,), {"name": name})
        with pytest.raises(TypeError, match="a criterion needs a class attribute name"):
            CRITERIA.register(kind)

    def test_a_name_that_is_taken_is_refused(self):
        with pytest.raises(
            ValueError, match="there is a criterion called 'marginal' already"
        ):
            CRITERIA.register(type("Other", (Median,), {"name": "marginal"}))
        assert CRITERIA.register(Median) is Median  # the same class again is no harm
