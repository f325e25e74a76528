"""What the planner answers: the library's own plans, in words that come from their classes."""

import json
import re
import shlex
from typing import ClassVar
from urllib.parse import urlsplit

import numpy as np
import pytest
from asking import post
from browsing import planner
from scipy.special import erf, erfinv

import fedconformal as fc
from fedconformal._text import ceiling_percent, floor_percent
from fedconformal.planning import CRITERIA, PROMISES
from fedconformal.planning.criteria import Marginal
from fedconformal.planning.promises import EachSite
from fedconformal.web import (
    PlanQuestion,
    PlanRequest,
    PrivacyWish,
    WishRequest,
    answer_plan,
    answer_promises,
    make_plan,
    solve,
)
from fedconformal.web._assets import read_asset
from fedconformal.web._cases import in_cases
from fedconformal.web.server._controls import criterion_controls, promise_controls, score_controls


@pytest.fixture(scope="module")
def address():
    with planner() as url:
        yield urlsplit(url).netloc


class TestAnswers:
    def test_they_are_the_librarys(self, address):
        status, answer, _ = post(address, "/api/plan", {"sites": 10, "points": 79, "criterion": "stable"})
        plan = fc.plan(10, 79, criterion="stable")
        ours, three, pooled, alone = answer["rows"]
        assert (status, answer["feasible"], answer["draft"]) == (200, True, False)
        assert (ours["mean"], ours["std"]) == (plan.law.mean(), plan.law.std())
        assert (ours["low"], ours["reached"]) == (plan.law.ppf(0.05), plan.law.sf(0.9))
        assert three["name"] == "With 3 numbers per site"
        assert three["std"] == fc.plan(10, 79, criterion="stable", numbers=3).law.std() < ours["std"]
        assert pooled["mean"] == pytest.approx(712 / 791)
        assert alone["mean"] == pytest.approx(72 / 80)
        assert f"number {plan.local_ranks[0]} from the smallest" in answer["steps"][0]
        assert f"number {plan.server_rank} of the 10" in answer["steps"][1]

    def test_missing_sites_are_solved_for_as_the_server_would(self):
        question = PlanQuestion(points=(60, 60, 90, 200), missing=1, confidence_level=0.8)
        plan = fc.plan(n_points=[60, 60, 90, 200], confidence_level=0.8)
        rng = np.random.default_rng(0)
        reports = [fc.report(plan, rng.random(n), site=f"{i}") for i, n in enumerate((60, 60, 90))]
        calibration = fc.calibrate(plan, reports)
        solution = solve(question)
        assert solution.planned.server_rank == plan.server_rank
        assert solution.answered.server_rank == calibration.server_rank
        assert solution.law.mean == pytest.approx(calibration.law.mean(), abs=1e-14)

    def test_a_private_plan_costs_what_the_library_says(self):
        question = PlanQuestion(sites=5, points=200, privacy=PrivacyWish(epsilon=2.0, bins=50))
        plan = fc.plan(5, 200, privacy=fc.Privacy(epsilon=2.0, bins=fc.Bins.uniform(0, 1, 50)))
        (cost,) = fc.privacy.expected_cost(plan)
        assert solve(question).expected_mean == pytest.approx(cost.expected, abs=1e-14)

    @pytest.mark.parametrize(
        "question",
        [
            {"points": (120, 40, 377), "criterion": "conditional"},
            {"sites": 10, "points": 500, "privacy": PrivacyWish(epsilon=1.0)},
            {"points": (100, 200, 200), "max_faulty": 1, "privacy": PrivacyWish(epsilon=4.0, bins=20)},
        ],
    )
    def test_a_draft_keeps_the_promise_too(self, question):
        draft = solve(PlanQuestion(**question), draft=True)
        assert draft.is_draft
        assert draft.is_feasible
        if question.get("criterion") == "conditional":
            assert draft.planned_law.reached >= 0.9
        else:
            assert draft.planned_law.mean >= 0.9

    def test_silence_can_make_a_plan_infeasible(self, address):
        asked = {"sites": 10, "points": 2, "missing": 8}
        _, answer, _ = post(address, "/api/plan", asked)
        assert not answer["feasible"]
        assert answer["notes"] == [
            "With all 10 sites there is a finite threshold; with 8 silent there is none."
        ]
        assert answer["picture"] is None

    def test_the_document_is_the_plan(self, address):
        asked = {"points": [120, 40, 377], "max_faulty": 1, "missing": 0}
        status, document, headers = post(address, "/api/document", asked)
        assert status == 200
        assert headers["Content-Disposition"] == 'attachment; filename="plan.json"'
        assert fc.Plan.from_json(json.dumps(document)) == fc.plan(n_points=[120, 40, 377], max_faulty=1)


class TestChoices:
    def test_what_is_left_out_is_as_usual_for_the_promise(self):
        for promise in PROMISES:
            question = PlanQuestion(sites=10, points=79, promise=promise)
            assert make_plan(question).parts == fc.plan(10, 79, promise=promise).parts
            assert make_plan(question).criterion == PROMISES[promise].default_criterion

    def test_a_promise_to_each_site_is_said_as_one(self):
        answer = answer_plan(PlanRequest(points=(120, 40, 377), promise="each-site", missing=1))
        plan = fc.plan(n_points=[120, 40, 377], promise="each-site")
        assert answer.headline == plan.criterion_object().promise(0.9, plan.promise_object().whose, None)
        assert any(in_cases(EachSite().assumed()) in sentence for sentence in answer.promise)
        assert "at any one site" in answer.promise[0]
        assert answer.rows[0].name == "This plan, at least, 1 silent"
        shown = " ".join([*answer.cost, *(row.name for row in answer.rows), answer.caption, answer.picture])
        assert "one place" not in shown

    @pytest.mark.parametrize(
        ("options", "headline", "summary"),
        [
            ({"promise": "mixture"}, "of the new cases of these sites, mixed", "at least 90.0 % on average"),
            ({"promise": "new-site"}, "On average over new sites", "at least 90.4 % on average"),
            (
                {"promise": "new-site", "criterion": "conditional"},
                "At 90 % of new sites or more",
                "at least 90.0 % at 91.3 % of new sites",
            ),
        ],
    )
    def test_promises_without_a_law_say_what_is_guaranteed(self, options, headline, summary):
        answer = answer_plan(PlanRequest(sites=20, points=100, **options))
        assert headline in answer.headline.replace("\N{NO-BREAK SPACE}", " ")
        assert answer.summary.replace("\N{NO-BREAK SPACE}", " ") == summary
        assert (answer.rows, answer.picture, answer.draft) == ((), None, False)
        assert f"--promise {options['promise']}" in answer.command
        assert "--numbers" not in answer.command

    def test_every_drawn_plan_has_a_round_of_its_own(self):
        question = PlanQuestion(sites=20, points=100, promise="new-site")
        assert make_plan(question).round != make_plan(question).round

    def test_a_wish_needs_a_law(self):
        with pytest.raises(ValueError, match="there is no law of the coverage to wish from"):
            WishRequest(sites=20, points=100, promise="mixture", wish="low", value=0.8)

    def test_missing_sites_of_such_a_plan_are_solved_for_as_the_server_would(self):
        plan = fc.plan(n_points=[60, 60, 90, 200], promise="each-site")
        rng = np.random.default_rng(0)
        reports = [fc.report(plan, rng.random(n), site=f"{i}") for i, n in enumerate((60, 60, 90))]
        solution = solve(PlanQuestion(points=(60, 60, 90, 200), promise="each-site", missing=1))
        calibration = fc.calibrate(plan, reports)
        assert solution.answered.server_rank == calibration.server_rank == 3
        assert solution.law.low == calibration.law.ppf(0.05)

    def test_ranks_that_are_not_searched_need_no_draft(self):
        question = PlanQuestion(points=(120, 40, 377), promise="each-site")
        assert not solve(question, draft=True).is_draft
        assert solve(PlanQuestion(points=(120, 40, 377)), draft=True).is_draft

    @pytest.mark.parametrize(
        ("asked", "options"),
        [
            ({}, ""),
            ({"criterion": "stable"}, ""),
            ({"criterion": "marginal"}, " --criterion marginal"),
            ({"criterion": "conditional", "delta": 0.05}, " --criterion conditional --delta 0.05"),
            ({"promise": "each-site"}, " --promise each-site"),
            ({"promise": "each-site", "criterion": "marginal"}, " --promise each-site"),
            (
                {"promise": "each-site", "criterion": "conditional"},
                " --promise each-site --criterion conditional --delta 0.1",
            ),
            ({"max_faulty": 1}, " --max-faulty 1"),
            ({"numbers": 1}, ""),
            ({"numbers": 3, "max_missing": 0}, " --numbers 3 --max-missing 0"),
        ],
    )
    def test_the_command_says_what_is_not_usual(self, asked, options):
        command = PlanQuestion(sites=10, points=79, **asked).command
        assert command == (
            f"fedconformal plan --sites 10 --points 79 --confidence-level 0.9{options} -o plan.json"
        )


class TestPromisesSideBySide:
    def test_each_is_the_librarys(self):
        answer = answer_promises(PlanQuestion(sites=10, points=100, promise="each-site", numbers=None))
        assert {card.name for card in answer.cards} == set(PROMISES)
        assert [card.usual for card in answer.cards] == [True, False, False, False]
        rows = {"population": (0.9022, 0.608), "each-site": (0.9416, 0.925)}
        for card in answer.cards:
            plan = fc.plan(10, 100, promise=card.name)
            assert card.feasible == plan.feasible
            assert "point" not in card.assumes
            if card.name in rows:
                others, last = map(str, range(1, 8)), map(str, range(8, 11))
                larger, smaller = (lambda c: erf(erfinv(c) / 2)), (lambda c: erf(2 * erfinv(c)))
                shifts = {}, dict.fromkeys(others, smaller), dict.fromkeys(last, larger)
                alike, *differing = (fc.heterogeneity.shifted_law(plan, each).mean() for each in shifts)
                worst = min(differing)
                assert (alike, worst) == pytest.approx(rows[card.name], abs=1e-3)
                assert card.costs[1].startswith(
                    f"If sites are alike, its sets cover {ceiling_percent(alike)}"
                )
                assert f"has {floor_percent(worst)} of its new cases" in card.costs[2]

    def test_what_cannot_be_given_says_why(self):
        cards = {card.name: card for card in answer_promises(PlanQuestion(sites=3, points=20)).cards}
        assert not cards["new-site"].feasible
        assert cards["new-site"].costs[1].endswith("It would take 9 sites of 20 cases.")

    @pytest.mark.parametrize(
        "question", [{"sites": 2000, "points": 50}, {"points": tuple(range(40, 680, 80))}]
    )
    def test_what_it_costs_is_said_for_many_sites_and_sizes(self, question):
        for card in answer_promises(PlanQuestion(**question)).cards:
            if card.feasible:
                assert "times as wide as need be" in card.costs[1] or "too long to compute" in card.costs[1]
            if card.feasible and card.name != "mixture":
                assert "times as wide as need be" in card.costs[1]
                assert card.costs[2].startswith("If some sites differ, the site worst off has")

    def test_what_takes_too_long_is_said_to(self):
        cards = {c.name: c for c in answer_promises(PlanQuestion(sites=500, points=10_000)).cards}
        assert cards["mixture"].costs[1:] == (
            "How much its sets cover takes too long to compute here, for so many cases.",
        )

    def test_sets_of_labels_have_no_width(self):
        cards = answer_promises(PlanQuestion(sites=10, points=100, score="lac")).cards
        assert "its sets cover 90.3" in cards[0].costs[1]
        assert not any("wide" in line for card in cards for line in card.costs)

    def test_the_library_speaks_in_the_words_of_the_page(self):
        cards = answer_promises(PlanQuestion(sites=3, points=2)).cards
        plans = [answer_plan(PlanRequest(sites=3, points=n)) for n in (2, 4)]
        said = " ".join(
            [*(line for c in cards for line in c.costs), *(note for p in plans for note in p.notes)]
        )
        assert "No ranks reach 90\N{NO-BREAK SPACE}% with 3 sites of 2 cases" in said
        assert "1 in the field “Silent sites it must bear” plans for that" in said
        assert "Silent sites it must bear</label>" in read_asset("planner.html")
        assert not re.search(r"_|--|point|\bstable|\bmarginal|level 0", said)

    def test_what_can_be_promised_with_the_same_cases_comes_first(self):
        answer = answer_plan(PlanRequest(sites=3, points=5, criterion="conditional"))
        assert answer.notes[0] == (
            "With the same cases, this can be promised: “on average, and close to it every time”, or "
            "“on average”."
        )
        assert "It would take 8 cases" in answer.notes[1]
        assert fc.plan(3, 5).feasible
        assert not answer_plan(PlanRequest(sites=3, points=2)).notes[0].startswith("With the same cases")

    def test_a_plan_that_cannot_work_shows_no_success(self):
        answer = answer_plan(PlanRequest(sites=3, points=2))
        assert {row.shown for row in answer.rows} == {("–", "–", "–", "–")}


class TestNamesAndScore:
    ASKED: ClassVar = {"points": (120, 40), "names": ("St. Mary's", "south"), "score": "cqr"}

    def test_the_plan_is_the_librarys(self):
        expected = fc.plan(n_points={"St. Mary's": 120, "south": 40}, score="cqr")
        assert make_plan(PlanQuestion(**self.ASKED)) == expected
        unnamed = answer_plan(PlanRequest(points=(120, 40)))
        assert answer_plan(PlanRequest(**self.ASKED)).rows == unnamed.rows
        assert unnamed.report_command is None

    def test_the_commands_name_them(self):
        answer = answer_plan(PlanRequest(**self.ASKED))
        assert shlex.split(answer.command)[2:6] == ["--points", "St. Mary's=120,south=40", "--score", "cqr"]
        assert shlex.split(answer.report_command)[4:] == [
            *["--site", "St. Mary's", "--target", "y", "--prediction", "lower", "--prediction", "upper"],
            *["-o", "report.json"],
        ]

    def test_the_site_that_answers_is_one_that_is_asked(self):
        question = {"points": (10, 120), "names": ("small", "large"), "score": "absolute"}
        assert "1 site is not asked" in answer_plan(PlanRequest(**question)).notes[0]
        assert "--site large --target" in answer_plan(PlanRequest(**question)).report_command

    def test_a_name_that_the_command_line_would_split_is_put_into_a_table(self):
        question = PlanQuestion(points=(120, 40), names=("Ward 3, north", "south"))
        assert "--points sites.csv " in question.command

    def test_every_score_is_offered(self):
        assert re.findall(r'<option value="(\w+)">\1: ', score_controls()) == list(fc.scores.SCORES)


class TestSeveralNumbers:
    SIZES = (120, 40, 377, 88)

    def test_the_answer_is_the_librarys(self):
        plan = fc.plan(n_points=self.SIZES, numbers=3)
        answer = answer_plan(PlanRequest(points=self.SIZES, numbers=3))
        assert make_plan(PlanQuestion(points=self.SIZES, numbers=3)) == plan
        assert (answer.rows[0].mean, answer.rows[0].std) == (plan.law.mean(), plan.law.std())
        assert answer.rows[1].name == "With 1 number per site"
        assert answer.rows[1].std == fc.plan(n_points=self.SIZES).law.std()

    def test_what_is_sent_and_how_votes_are_counted(self):
        plan = fc.plan(n_points=self.SIZES, numbers=3)
        small, large = (fc.plan(n_points=self.SIZES, numbers=3).local_ranks[j] for j in (1, 2))
        votes = [3 * weight for weight in plan.weights]
        answer = answer_plan(PlanRequest(points=self.SIZES, numbers=3))
        assert answer.cost[0].startswith("Each site sends 3 numbers, once: the scores of 3 of its cases, and")
        assert answer.steps == (
            f"Each site sorts its scores and sends 3: numbers {small[0]}, {small[1]} and {small[2]} of 40 at "
            f"the smallest site, numbers {large[0]}, {large[1]} and {large[2]} of 377 at the largest.",
            f"A larger site counts more: the smallest has {votes[1]} votes, the largest {votes[2]}, all its "
            "numbers together.",
            "The server adds up the votes of the 12 numbers it receives, from the smallest: where they reach "
            f"{plan.server_rank} of {sum(votes)}, that is the threshold.",
        )

    def test_the_spread_is_compared_with_pooling(self):
        laws = fc.plan(n_points=self.SIZES, numbers=3).law, fc.CoverageLaw(1, 625, 564, 1)
        ours, pooled = (((law.mean() - 0.9) ** 2 + law.std() ** 2) ** 0.5 for law in laws)
        ratio = ours / pooled
        shown = answer_plan(PlanRequest(points=self.SIZES, numbers=3)).cost
        assert f"It spreads {ratio:.2f} times as much round 90\N{NO-BREAK SPACE}% as pooling" in shown[-1]

    def test_a_plan_that_is_pooling_spreads_as_much(self):
        """The largest of all 12 scores, wherever they are: the same law, though its mean is above 90 %."""
        answer = answer_plan(PlanRequest(sites=3, points=4))
        ours, _, pooled, _ = answer.rows
        assert (ours.mean, ours.std) == pytest.approx((pooled.mean, pooled.std))
        assert answer.cost[-1].startswith("It spreads 1.00 times as much")

    @pytest.mark.parametrize("question", [{"sites": 10, "points": 79}, {"points": SIZES}])
    def test_a_draft_is_made_at_once_and_says_that_there_is_more(self, question):
        draft = answer_plan(PlanRequest(**question, numbers=3, draft=True))
        assert (draft.draft, draft.more) == (True, True)
        assert not any("per site" in row.name for row in draft.rows)
        assert draft.promise[0].startswith("This first draft keeps the promise, but its sets may be larger")
        assert "19 of 20" not in draft.summary
        assert draft.rows[0].shown == ("…", "…", "…", "…")
        assert "asked for: 90" in draft.picture
        assert "law-tail" not in draft.picture
        assert not any(word in draft.picture for word in ("on average", "1 in 20"))
        assert not any("one place would" in sentence for sentence in draft.cost)
        assert solve(PlanQuestion(**question, numbers=3), draft=True).law.mean >= 0.9
        one = answer_plan(PlanRequest(**question, draft=True))
        best, compared = (answer_plan(PlanRequest(**question, compare=compare)) for compare in (False, True))
        assert (one.more, best.more, compared.more) == (True, True, False)
        assert (best.draft, best.rows[0]) == (False, compared.rows[0])
        assert set(compared.rows) - set(best.rows) == {compared.rows[1]}

    def test_missing_sites_are_solved_for_with_their_votes(self):
        plan = fc.plan(n_points=self.SIZES, numbers=3)
        rng = np.random.default_rng(0)
        reports = [fc.report(plan, rng.random(n), site=f"{n}") for n in self.SIZES if n < 377]
        solution, found = (
            solve(PlanQuestion(points=self.SIZES, numbers=3, missing=1)),
            fc.calibrate(plan, reports),
        )
        assert solution.answered.server_rank == found.server_rank
        assert solution.law.mean == pytest.approx(found.law.mean(), abs=1e-14)

    def test_silence_of_the_only_site_that_is_asked(self):
        answer = answer_plan(PlanRequest(points=(12_000, 40, 30), missing=1))
        assert not answer.feasible
        assert "2 sites are not asked" in answer.notes[0]
        assert "with 1 silent there is none" in answer.notes[-1]
        assert "sorts its 12,000 scores" in answer.steps[0]

    def test_a_promise_that_refuses_it_has_no_such_row(self):
        answer = answer_plan(PlanRequest(sites=5, points=100, promise="each-site"))
        assert not any("per site" in row.name for row in answer.rows)
        assert not answer_plan(PlanRequest(sites=5, points=100, promise="each-site", draft=True)).more


class TestControls:
    def test_everything_registered_is_offered(self):
        for registry, controls in ((CRITERIA, criterion_controls), (PROMISES, promise_controls)):
            for name in registry:
                assert f'value="{name}"' in controls()

    def test_the_usual_promise_and_its_criterion_are_chosen(self):
        for controls, usual in ((promise_controls, "population"), (criterion_controls, "stable")):
            chosen = re.findall(
                r'<input type="radio" name="\w+" value="([^"]+)"[^>]* checked="">', controls()
            )
            assert chosen == [usual]
            assert controls().index(f'value="{usual}"') == controls().index('value="')

    def test_a_promise_says_what_goes_with_it(self):
        population, each_site = promise_controls().split("</label>")[:2]
        for control, criteria, others in (
            (population, "stable marginal conditional", "yes"),
            (each_site, "marginal conditional", "no"),
        ):
            assert f'data-criteria="{criteria}" data-faulty="{others}" data-numbers' in control
            assert f'data-numbers="{others}" data-privacy="yes"' in control

    def test_ones_own_criterion_is_offered_and_planned_with(self, own_criterion):
        answer = answer_plan(PlanRequest(sites=7, points=60, criterion="generous"))
        assert answer.headline.startswith("Generously, the truth lies inside")
        assert answer.rows[0].mean == fc.plan(7, 60, criterion="generous").law.mean()
        assert "Generously" in criterion_controls()
        names = PlanQuestion.model_json_schema()["properties"]["criterion"]["anyOf"][0]["enum"]
        assert names == sorted(CRITERIA)
        assert "generous" in names


@pytest.fixture
def own_criterion():
    @CRITERIA.register
    class Generous(Marginal):
        name = "generous"

        def margin(self, law, goal):
            return super().margin(law, goal) - 0.02

        def settles(self, law, goal):
            return False

        def surety(self, delta):
            return "generously"

    yield Generous
    CRITERIA.unregister("generous")


def test_requests_are_remembered_by_what_they_ask():
    first, second = (PlanRequest(sites=4, points=30, width=width) for width in (300, 900))
    assert first != second
    assert hash(first.question) == hash(second.question)
    assert first.question == second.question
