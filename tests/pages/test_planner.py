"""What the planner answers: the library's own plans, in words that come from their
classes.
"""

import re
import shlex
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from reading import Shown, text_of
from scipy.special import erf, erfinv

import fedconformal as fc
from fedconformal._text import ceiling_percent, floor_percent
from fedconformal.pages._planner import (
    Effort,
    always_from,
    answer_cases,
    answer_plan,
    cases_needed,
    make_plan,
    solve,
)
from fedconformal.pages._promises import answer_promises, make_cards, page_choices
from fedconformal.pages._question import Grid, PlanQuestion, PrivacyOptions
from fedconformal.pages._render import render
from fedconformal.planning import CRITERIA, PROMISES
from fedconformal.planning.promises import EachSite

SIZES = (120, 40, 377, 88)


def plain(text):
    return text.replace("\N{NO-BREAK SPACE}", " ")


def shown(compare=True, **question):
    return Shown(answer_plan(PlanQuestion(**question), compare=compare))


class TestAnswers:
    def test_they_are_the_librarys(self):
        answer, law = shown(sites=10, points=79), fc.plan(10, 79).law
        ours, three, pooled, alone = answer.rows.values()
        assert ours == [
            f"{int(law.mean() * 1e4) / 100} %",
            f"{law.std():.2%}".replace("%", " %"),
            f"{int(law.ppf(0.05) * 1e3) / 10} %",
        ]
        assert solve(PlanQuestion(sites=10, points=79)).law.std == law.std()
        assert list(answer.rows)[1] == "With 3 numbers per site"
        assert three[1] == f"{fc.plan(10, 79, numbers=3).law.std():.2%}".replace(
            "%", " %"
        )
        assert (pooled[0], alone[0]) == ("90.01 %", "90.00 %")
        rows = list(shown(sites=10, points=79, compare=False).rows)
        assert rows == ["This plan", "All cases in one place", "One site alone"]
        plan = fc.plan(10, 79)
        discloses = fc.messages.of(plan.message).discloses(plan.designs[0], 79, "A")
        assert answer.steps[0] == f"Each site sends {discloses.replace('your', 'its')}."
        assert f"(the {plan.local_ranks[0]}st smallest)" in answer.steps[0]
        assert f"number {plan.server_rank} of the 10" in answer.steps[1]

    @pytest.mark.parametrize(
        "options",
        [{"confidence_level": 0.8}, {"promise": "each-site"}, {"numbers": 3}],
        ids=str,
    )
    def test_missing_sites_are_solved_for_as_the_server_would(self, options):
        plan = fc.plan(n_points=[60, 60, 90, 200], **options)
        rng = np.random.default_rng(0)
        reports = [
            fc.report(plan, rng.random(n), site=f"{i}")
            for i, n in enumerate((60, 60, 90))
        ]
        calibration = fc.calibrate(plan, reports)
        solution = solve(PlanQuestion(points=(60, 60, 90, 200), missing=1, **options))
        assert solution.planned.levels == plan.designs[0].levels
        assert solution.answered.levels == calibration.parts[0].design.levels
        assert solution.law.mean == pytest.approx(calibration.law.mean(), abs=1e-14)

    def test_missing_sites_of_a_private_plan_are_solved_for_too(self):
        privacy = fc.Privacy(4.0, fc.Bins.uniform(0, 1, 50))
        plan = fc.plan(
            n_points={"A": 160, "B": 160, "C": 190, "D": 300}, privacy=privacy
        )
        rng = np.random.default_rng(0)
        scores = {
            site: rng.random(n) for site, n in zip("ABC", (160, 160, 190), strict=True)
        }
        calibration = fc.privacy.simulate(plan, scores, rng)
        asked = {
            "points": (160, 160, 190, 300),
            "privacy": PrivacyOptions(epsilon=4.0, bins=50),
            "missing": 1,
        }
        solution = solve(PlanQuestion(**asked))
        assert solution.answered.levels == calibration.parts[0].design.levels
        assert solution.law.mean == pytest.approx(calibration.law.mean(), abs=1e-14)

    def test_missing_sites_can_make_a_plan_infeasible(self):
        answer = shown(sites=10, points=2, missing=8)
        assert not answer.feasible
        assert answer.notes == [
            "With all 10 sites there is a finite threshold; with 8 missing there is"
            " none."
        ]
        assert answer.picture is None
        only_one_is_asked = shown(points=(12_000, 40, 30), missing=1)
        assert "2 sites are not asked" in only_one_is_asked.notes[0]
        assert "with 1 missing there is none" in only_one_is_asked.notes[-1]
        assert next(iter(only_one_is_asked.rows.values())) == ["–"] * 3

    @pytest.mark.slow
    def test_a_private_plan_costs_what_the_library_says(self):
        question = PlanQuestion(
            sites=5, points=200, privacy=PrivacyOptions(epsilon=2.0, bins=50)
        )
        plan = fc.plan(
            5, 200, privacy=fc.Privacy(epsilon=2.0, bins=fc.Bins.uniform(0, 1, 50))
        )
        expected, _ = fc.messages.of(plan.message).expected(plan.designs[0], 0)
        answer = Shown(answer_plan(question))
        said = " ".join(answer.cost)
        assert (
            f"expect them to cover about {plain(ceiling_percent(expected))} where"
            in said
        )
        assert said.startswith(
            "Each site sends 50 numbers, once, and how many cases it has."
        )
        assert answer.steps == [
            "Each site sends 50 counts of its 200 scores, with noise of epsilon 2.",
            (
                "The server adds up the counts of all sites. The threshold is the end"
                f" of the cell up to which they show {plan.server_rank} of 1,000 cases,"
                " with a margin for the noise."
            ),
        ]
        assert "times as wide as those that cover 90" in said
        labels = question.model_copy(update={"score": "lac"})
        assert "bell curve" not in answer_plan(labels)

    @pytest.mark.parametrize(
        ("asked", "options", "command"),
        [
            (
                {"curve": Grid(bins=50)},
                {"curve": fc.Bins.uniform(0, 1, 50)},
                "--curve uniform:0:1:50",
            ),
            (
                {"privacy": PrivacyOptions(epsilon=10.0, bins=50, analysis="paper")},
                {
                    "privacy": fc.Privacy(
                        10.0, fc.Bins.uniform(0, 1, 50), analysis="paper"
                    )
                },
                "--epsilon 10 --bins uniform:0:1:50 --paper",
            ),
        ],
    )
    def test_exact_curves_and_the_papers_analysis(self, asked, options, command):
        question = PlanQuestion(sites=5, points=200, **asked)
        plan, answer = fc.plan(5, 200, **options), Shown(answer_plan(question))
        assert make_plan(question) == plan
        assert command in answer.command
        sent = (
            fc.messages.of(plan.message)
            .discloses(plan.designs[0], 200, "A")
            .replace("your", "its")
        )
        assert answer.steps[0] == f"Each site sends {sent}."
        assert (answer.picture is None) == (plan.law is None)
        assert "differ in any way" not in " ".join(answer.promise)
        assert "Whatever the sites are like" not in " ".join(answer.promise)

    def test_what_is_left_out_is_as_usual_for_the_promise(self):
        for promise in PROMISES:
            question = PlanQuestion(sites=10, points=79, promise=promise)
            assert (
                make_plan(question).designs == fc.plan(10, 79, promise=promise).designs
            )
            assert make_plan(question).criterion == PROMISES[promise].default_criterion

    def test_a_promise_to_each_site_is_said_as_one(self):
        answer = shown(points=(120, 40, 377), promise="each-site", missing=1)
        assert answer.headline == plain(
            EachSite().sentence(CRITERIA["marginal"](), 0.9, None)
        )
        assert any(EachSite().assumed() in sentence for sentence in answer.promise)
        assert "at each single site" in answer.promise[0]
        assert next(iter(answer.rows)) == "This plan, at least, 1 missing"
        assert "one place" not in answer.answer
        assert "per site" not in answer.answer

    @pytest.mark.parametrize(
        ("options", "headline", "summary"),
        [
            (
                {"promise": "mixture"},
                "of the new cases of these sites, mixed",
                "at least 90.00 % on average",
            ),
            (
                {"promise": "new-site"},
                "On average over new sites",
                "at least 90.47 % on average",
            ),
            (
                {"promise": "new-site", "criterion": "conditional"},
                "At 90 % of new sites or more",
                "at least 90.0 % at 91.3 % of new sites",
            ),
        ],
    )
    def test_promises_without_a_law_say_what_is_guaranteed(
        self, options, headline, summary
    ):
        answer = shown(sites=20, points=100, **options)
        assert headline in plain(answer.headline)
        assert plain(answer.summary) == summary
        assert (answer.rows, answer.picture) == ({}, None)

    def test_what_is_sent_and_how_votes_are_counted(self):
        plan = fc.plan(n_points=SIZES, numbers=3)
        small, large = (plan.local_ranks[j] for j in (1, 2))
        votes = [3 * weight for weight in plan.weights]
        answer = shown(points=SIZES, numbers=3)
        assert make_plan(PlanQuestion(points=SIZES, numbers=3)) == plan
        assert list(answer.rows)[1] == "With 1 number per site"
        assert (
            answer.cost[0]
            == "Each site sends 3 numbers, once, and how many cases it has."
        )
        smallest, largest = (
            ", ".join(f"{rank}th" for rank in ranks) for ranks in (small, large)
        )
        assert answer.steps == [
            (
                "The smallest site that is asked sends 3 of its 40 scores (the"
                f" {smallest} smallest), the largest 3 of its 377 scores (the {largest}"
                " smallest)."
            ),
            (
                f"A larger site counts more: the smallest has {votes[1]} votes, the"
                f" largest {votes[2]}, all its numbers together."
            ),
            (
                "The server adds up the votes of the 12 numbers it receives, from the"
                f" smallest: where they reach {plan.server_rank} of {sum(votes)}, that"
                " is the threshold."
            ),
        ]
        laws = plan.law, fc.CoverageLaw(1, 625, 564, 1)
        ours, pooled = (
            ((law.mean() - 0.9) ** 2 + law.std() ** 2) ** 0.5 for law in laws
        )
        assert (
            f"It spreads {ours / pooled:.2f} times as much round 90 % as pooling"
            in plain(answer.cost[-1])
        )

    def test_what_can_be_promised_with_the_same_cases_comes_first(self):
        answer = shown(sites=3, points=5, criterion="conditional")
        assert (
            answer.notes[0]
            == "With the same cases, this can be promised: “on average, and close to it"
            " every time”, or “on average”."
        )
        assert "You need 8 cases per site" in answer.notes[1]
        hopeless = shown(sites=3, points=2)
        assert not hopeless.notes[0].startswith("With the same cases")
        assert {cell for row in hopeless.rows.values() for cell in row} == {"–"}

    @pytest.mark.parametrize(
        ("asked", "options"),
        [
            ({"criterion": "stable", "numbers": 1}, ""),
            (
                {"criterion": "conditional", "delta": 0.05},
                " --criterion conditional:0.05",
            ),
            ({"promise": "each-site", "criterion": "marginal"}, " --promise each-site"),
            (
                {"promise": "each-site", "criterion": "conditional"},
                " --promise each-site --criterion conditional:0.1",
            ),
            ({"max_faulty": 1}, " --max-faulty 1"),
            ({"numbers": 3, "max_missing": 0}, " --numbers 3 --max-missing 0"),
        ],
    )
    def test_the_command_says_what_is_not_usual(self, asked, options):
        command = PlanQuestion(sites=10, points=79, **asked).command
        assert (
            command == "fedconformal plan --sites 10 --points 79 --confidence-level"
            f" 0.9{options} -o plan.json"
        )


class TestNamesAndScore:
    ASKED: ClassVar = {
        "points": (120, 40),
        "names": ("St. Mary's", "south"),
        "score": "cqr",
    }

    def test_the_plan_is_the_librarys_and_the_commands_name_the_sites(self):
        expected = fc.plan(n_points={"St. Mary's": 120, "south": 40}, score="cqr")
        assert make_plan(PlanQuestion(**self.ASKED)) == expected
        answer = shown(**self.ASKED)
        assert shlex.split(answer.command)[2:6] == [
            "--points",
            "St. Mary's=120,south=40",
            "--score",
            "cqr",
        ]
        assert shlex.split(answer.report_command)[4:] == [
            *[
                "--site",
                "St. Mary's",
                "--target",
                "y",
                "--prediction",
                "lower",
                "--prediction",
                "upper",
            ],
            *["-o", "report.json"],
        ]
        unnamed = shown(points=(120, 40))
        assert unnamed.rows == answer.rows
        assert (
            unnamed.report_command
            == "fedconformal report plan.json scores.csv --site A -o report.json"
        )

    def test_facts_and_classes_go_into_the_plan_and_the_command(self):
        facts = {"purpose": "triage at St. Mary's", "contact": "office"}
        question = PlanQuestion(
            sites=3, points=50, score="lac", classes=("well", "very ill"), facts=facts
        )
        terms = {"classes": ["well", "very ill"], **facts}
        assert make_plan(question) == fc.plan(3, 50, score="lac", terms=terms)
        words = shlex.split(question.command)
        given = [words[i + 1] for i, word in enumerate(words) if word == "--term"]
        assert given == [
            "classes=well,very ill",
            *(f"{name}={text}" for name, text in facts.items()),
        ]
        assert shlex.split(question.report_command("A"))[-4:-2] == [
            "--prediction",
            "very ill",
        ]
        assert (
            Shown(answer_plan(question)).rows
            == shown(sites=3, points=50, score="lac").rows
        )
        with pytest.raises(ValueError, match="the score is not one of labels"):
            PlanQuestion(sites=3, points=50, score="absolute", classes=("well", "ill"))

    @pytest.mark.parametrize("analysis", ["curve", "paper"])
    def test_the_commands_of_a_private_plan_work(self, analysis, tmp_path, monkeypatch):
        from fedconformal.cli import main

        monkeypatch.chdir(tmp_path)
        Path("scores.csv").write_text(
            "\n".join(["score", *map(str, np.linspace(0, 1, 200)), ""])
        )
        question = PlanQuestion(
            sites=5,
            points=200,
            privacy=PrivacyOptions(epsilon=10.0, bins=50, analysis=analysis),
        )
        for command in (
            question.command,
            *question.ledger_commands,
            question.report_command("A") + " --yes",
        ):
            assert main(shlex.split(command)[1:]) == 0
        assert fc.Plan.read("plan.json") == make_plan(question)
        assert fc.Report.read("report.json").site == "A"

    def test_a_name_that_the_command_line_would_split_is_put_into_a_table(self):
        question = PlanQuestion(points=(120, 40), names=("Ward 3, north", "south"))
        assert "--points sites.csv " in question.command


class TestPromisesSideBySide:
    @staticmethod
    def cards(**question):
        asked = PlanQuestion(**question)
        articles = re.findall(
            r"<article.*?</article>", answer_promises(asked), re.DOTALL
        )
        return [
            (card, text_of(article))
            for card, article in zip(make_cards(asked), articles, strict=True)
        ]

    def test_each_is_the_librarys(self):
        cards = self.cards(sites=10, points=100)
        assert {card.promise.name for card, _ in cards} == set(PROMISES)
        assert ["usual choice" in text for _, text in cards] == [
            True,
            False,
            False,
            False,
        ]
        rows = {"population": (0.9022, 0.608), "each-site": (0.9416, 0.925)}
        for card, text in cards:
            name = card.promise.name
            plan = fc.plan(10, 100, promise=name)
            assert bool(card.problems) != plan.feasible
            assert " point" not in text
            assert "times as wide as need be" in text
            if name in rows:
                at_others = fc.monitoring.shifted_law(
                    plan, dict.fromkeys(["8", "9", "10"], lambda c: erf(erfinv(c) / 2))
                )
                at_doubled = fc.monitoring.shifted_law(
                    plan, dict.fromkeys("1234567", lambda c: erf(2 * erfinv(c)))
                )
                worst = min(at_others.mean(), at_doubled.mean())
                alike = fc.monitoring.shifted_law(plan, {}).mean()
                assert (
                    (alike, worst)
                    == (card.mean, card.worst)
                    == pytest.approx(rows[name], abs=1e-3)
                )
                condition = "If the model errs equally at every site, its sets cover"
                assert (
                    f"{condition} {plain(floor_percent(alike, digits=2))} of new cases"
                    in text
                )

    def test_what_cannot_be_given_says_why(self):
        cards = {
            card.promise.name: text for card, text in self.cards(sites=3, points=20)
        }
        assert "You need 9 sites of 20 cases. It assumes" in cards["new-site"]
        large = {
            card.promise.name: text
            for card, text in self.cards(sites=500, points=10_000)
        }
        words = (
            "How much its sets cover takes too long to compute here, for this many"
            " cases. It assumes"
        )
        assert words in large["mixture"]

    def test_with_noise_the_figures_are_those_of_private_plans(self):
        privacy = PrivacyOptions(epsilon=4.0, bins=50)
        cards = {
            card.promise.name: (card, text)
            for card, text in self.cards(sites=5, points=300, privacy=privacy)
        }
        for name in ("population", "each-site"):
            plan = fc.plan(
                5, 300, promise=name, privacy=fc.Privacy(4.0, fc.Bins.uniform(0, 1, 50))
            )
            expected, _ = fc.messages.of(plan.message).expected(plan.designs[0], 0)
            card, text = cards[name]
            assert card.mean == expected
            assert (
                f"its sets with noise cover about {plain(ceiling_percent(expected))} of"
                " new cases" in text
            )
            assert "Each site sends 50 numbers." in text
        assert (
            "This promise cannot be given with private reports." in cards["new-site"][1]
        )


class TestCasesNeeded:
    """One less is not enough, and all larger numbers that were tried are."""

    @staticmethod
    def effort(n):
        return Effort(streak=40, ratio=1.5, tries=2000)

    def test_a_turning_point_is_found_behind_lucky_numbers(self):
        rng = np.random.default_rng(0)
        for turn in rng.integers(20, 500, size=60):
            # Failures at most half a streak apart are all seen, whatever lies between.
            fails = {n for n in range(turn) if rng.random() < 0.5 or n % 20 == 0} | {
                turn - 1
            }
            n, checked_to = always_from(
                lambda n, fails=fails: n not in fails, stop=1000, effort=self.effort
            )
            assert n == turn
            assert checked_to >= min(1000, 4 * turn)
        assert always_from(lambda n: True, stop=1000, effort=self.effort)[0] == 1

    def test_what_is_never_enough_is_said(self):
        assert always_from(lambda n: False, stop=1000, effort=self.effort) is None
        assert always_from(lambda n: n % 2 == 1, stop=1000, effort=self.effort) is None

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "criterion", ["stable", pytest.param("marginal", marks=pytest.mark.nightly)]
    )
    def test_the_answer_is_the_librarys_wherever_the_slider_stands(self, criterion):
        def is_enough(n):
            return fc.plan(10, n, criterion=criterion).law.ppf(0.05) >= 0.88

        questions = [
            PlanQuestion(sites=10, points=n, criterion=criterion) for n in (101, 5000)
        ]
        assert cases_needed(questions[0], 0.88) == cases_needed(questions[1], 0.88)
        n, checked_to = cases_needed(questions[0], 0.88)
        assert [is_enough(k) for k in (n - 1, n, n + 1, n + 50, checked_to)] == [
            False,
            *[True] * 4,
        ]
        assert checked_to == 4 * n
        sentence = (
            f"You need at least {n} cases per site (checked up to {checked_to:,})."
        )
        assert answer_cases(questions[0], 0.88) == sentence

    @pytest.mark.nightly
    def test_a_level_that_no_number_of_cases_reaches(self):
        assert (
            plain(answer_cases(PlanQuestion(sites=2, points=50), 0.9))
            == "No number of cases per site up to 1,000,000 is known to suffice. With"
            " more cases the coverage comes closer to 90 %, from both sides."
        )

    @pytest.mark.nightly
    def test_of_private_reports_and_of_a_bound(self):
        private = PlanQuestion(
            sites=3, points=100, privacy=PrivacyOptions(epsilon=5.0, bins=50)
        )
        for question in (
            private,
            PlanQuestion(sites=3, points=60, promise="each-site"),
        ):
            n, _ = cases_needed(question, 0.85)
            for points, enough in ((n, True), (n - 1, False)):
                solution = solve(question.model_copy(update={"points": points}))
                assert (solution.is_feasible and solution.law.low >= 0.85) == enough

    @pytest.mark.parametrize(
        ("options", "coverage", "words"),
        [
            (
                {"promise": "mixture"},
                0.8,
                "has no distribution of the coverage here to search with",
            ),
            ({"numbers": 6}, 0.8, "searched for up to 5 numbers per site"),
            (
                {"sites": 2000, "privacy": PrivacyOptions(epsilon=1.0)},
                0.8,
                "searched for up to 1,000 sites of",
            ),
            ({}, 1.0, "coverage must be between 0 and 1, got 1"),
        ],
    )
    def test_what_cannot_be_searched_is_refused(self, options, coverage, words):
        with pytest.raises(ValueError, match=words):
            answer_cases(
                PlanQuestion(**{"sites": 20, "points": 50, **options}), coverage
            )


class TestPage:
    def radios(self, name):
        page = render("planner.html", **page_choices())
        return re.findall(
            rf'<input type="radio" name="{name}" value="([^"]+)"([^>]*)>', page
        )

    def test_everything_registered_is_offered_and_the_usual_is_chosen(self):
        for name, registry, usual in (
            ("promise", PROMISES, "population"),
            ("criterion", CRITERIA, "stable"),
        ):
            offered = self.radios(name)
            assert {value for value, _ in offered} == set(registry)
            assert (
                [value for value, rest in offered if rest.endswith("checked")]
                == [usual]
                == [offered[0][0]]
            )
        page = render("planner.html", **page_choices())
        assert re.findall(r'<option value="([\w-]+)"', page) == list(fc.scores.SCORES)
        assert '<option value="absolute">absolute error</option>' in page
        assert all(
            f'id="fact-{name}"' in page for name in fc.documents.Facts.model_fields
        )
