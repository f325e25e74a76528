"""For a board that must decide: what it is about, what was found later, and every word explained."""

import math
import re

import numpy as np
import pytest
from reading import Reader

import fedconformal as fc
from fedconformal.documents import Facts
from fedconformal.heterogeneity import answer
from fedconformal.web import certificate

FACTS = {"model": "Sepsis <risk>", "version": "2.1", "purpose": "length of stay", "unit": "days"}


def calibration(rng, **options):
    sizes = {"north": 120, "south": 90, "west": 377}
    plan = fc.plan(n_points=sizes, **options)
    return fc.calibrate(
        plan, [fc.report(plan, rng.gamma(2.0, size=n), site=site) for site, n in sizes.items()]
    )


@pytest.fixture(scope="module")
def told():
    return calibration(np.random.default_rng(3), score="absolute", facts=FACTS)


class TestFacts:
    def test_what_the_plan_tells_stands_on_top_and_what_is_missing_is_said(self, told):
        text = Reader(certificate(told)).text
        top = text[: text.index("What is promised")]
        assert "Model Sepsis <risk>" in top
        assert "Version 2.1" in top
        assert "Contact not said" in top
        assert "Sites that answered 3 sites: north, south and west" in top

    def test_they_are_part_of_the_plan_and_its_digest(self, told):
        without = fc.plan(n_points={"north": 120, "south": 90, "west": 377}, score="absolute")
        assert told.plan.facts == Facts(**FACTS)
        assert told.plan.digest != without.digest
        assert fc.Plan.from_json(told.plan.to_json()) == told.plan
        assert "facts" not in without.to_json()

    def test_others_can_be_added_but_none_changed(self, told):
        page = Reader(certificate(told, facts={"contact": "office", "date": "today"})).text
        assert "Contact office (added to this page, not in the plan)" in page
        assert "Version 2.1 Purpose" in page
        assert "Date of this document today Sites" in page
        with pytest.raises(ValueError, match=r"fact 'version': the plan says '2.1', not '3'"):
            certificate(told, facts={"version": "3"})
        with pytest.raises(ValueError, match=r"no fact 'colour': there are model, version"):
            certificate(told, facts={"colour": "red"})
        with pytest.raises(ValueError, match="no fact 'colour'"):
            fc.plan(3, 50, facts={"colour": "red"})

    @pytest.mark.parametrize("text", ["", "two\nlines", "x" * 501, "\x1b[31mred"])
    def test_a_fact_is_one_line_of_text(self, text):
        with pytest.raises(ValueError, match="purpose"):
            fc.plan(3, 50, facts={"purpose": text})

    def test_from_the_command_line(self, tmp_path, monkeypatch):
        from fedconformal.cli import main

        monkeypatch.chdir(tmp_path)
        assert (
            main(["plan", "--sites", "3", "--points", "50", "--fact", "purpose=triage", "-o", "plan.json"])
            == 0
        )
        plan = fc.Plan.read("plan.json")
        assert plan.facts.purpose == "triage"
        rng = np.random.default_rng(0)
        found = fc.calibrate(plan, [fc.report(plan, rng.gamma(2.0, size=50), site=s) for s in "ABC"])
        (tmp_path / "c.json").write_text(found.to_json())
        assert main(["certificate", "c.json", "--fact", "contact=office"]) == 0
        assert "office" in (tmp_path / "certificate.html").read_text()
        assert main(["certificate", "c.json", "--fact", "purpose=war", "--force"]) == 2


class TestWhatAReaderAsks:
    def test_the_chance_that_this_one_reaches_the_level_stands_beside_the_headline(self, told):
        text = Reader(certificate(told)).text
        shown = float(re.search(r"The chance that this one covers 90 % or more is ([\d.]+) %", text)[1]) / 100
        assert told.law.sf(0.9) - 0.001 < shown <= told.law.sf(0.9)
        assert text.index("The chance that") < text.index("What is promised")

    def test_every_level_and_group_of_the_headline_has_its_chance(self):
        sites = {site: np.arange(100.0) for site in "ABC"}
        two = fc.conformalize(sites, confidence_level=(0.8, 0.9))
        each = [f"{math.floor(1000 * law.sf(x)) / 10} %" for law, x in zip(two.law, (0.8, 0.9), strict=True)]
        said = f"this one covers 80 % or more is {each[0]} and that it covers 90 % or more is {each[1]}."
        assert said in Reader(certificate(two)).text
        labels = {site: ["young", "old"] * 50 for site in "ABC"}
        text = Reader(certificate(fc.conformalize(sites, groups=labels))).text
        assert re.search(
            r"90 % or more of the .*old.* is [\d.]+ % and that it covers 90 % or more of the", text
        )

    def test_of_many_chances_the_least_is_told(self):
        levels = (0.5, 0.6, 0.7, 0.8, 0.9)
        many = fc.conformalize({site: np.arange(100.0) for site in "ABC"}, confidence_level=levels)
        least = min(law.sf(x) for law, x in zip(many.law, levels, strict=True))
        shown = f"is at least {math.floor(1000 * least) / 10} % for each of 5 thresholds."
        assert shown in Reader(certificate(many)).text

    def test_the_headline_has_its_condition(self, told):
        assert re.search(r"<h1>[^<]*, if sites are alike</h1>", certificate(told))

    def test_conditions_caveats_and_what_was_not_checked_are_three_lists(self, told):
        text = Reader(certificate(told)).text
        holds, know, unchecked = (
            text.index(words) for words in ("The promise holds if", "Good to know", "Not checked The")
        )
        assert holds < text.index("Every report was made as the plan says.") < know
        assert know < text.index("With ties among scores") < unchecked
        assert unchecked < text.index("The reports were not authenticated")

    @pytest.mark.parametrize(
        ("score", "words"),
        [
            ("absolute", r"a prediction of 100 days becomes about 9\d\.\d+ to 10\d\.\d+ days"),
            ("normalized", r"a prediction of 100 days with a scale of 5 days becomes about"),
            ("cqr", r"quantiles of 90 and 110 days become about"),
        ],
    )
    def test_an_example_in_the_unit_of_what_is_predicted(self, score, words):
        page = certificate(calibration(np.random.default_rng(3), score=score, facts=FACTS))
        assert re.search(words, Reader(page).text)

    def test_an_example_of_a_set_of_labels(self):
        sizes = {"A": 80, "B": 90}
        plan = fc.plan(n_points=sizes, score="lac")
        rng = np.random.default_rng(1)
        asked = plan.part.asked_names
        found = fc.calibrate(plan, [fc.report(plan, rng.random(sizes[s]), site=s) for s in asked])
        text = Reader(certificate(found)).text
        shown = re.search(r"a label with a predicted probability of ([\d.]+) % or more is in the set", text)[
            1
        ]
        assert 0 <= float(shown) / 100 - (1 - found.threshold) < 0.001

    def test_a_threshold_has_the_unit_of_what_is_predicted_where_scores_have_it(self, told):
        assert f"threshold q {told.threshold!r} days On average" in Reader(certificate(told)).text
        scaled = calibration(np.random.default_rng(3), score="normalized", facts=FACTS)
        assert f"threshold q {scaled.threshold!r} On average" in Reader(certificate(scaled)).text

    def test_where_sites_may_differ_in_any_way_it_says_that_no_chance_is_known(self):
        for promise in ("mixture", "new-site"):
            found = calibration(np.random.default_rng(3), promise=promise, confidence_level=0.6)
            text = Reader(certificate(found)).text
            assert (
                "How likely this one reaches its level cannot be told" in text[: text.index("What is prom")]
            )
            assert "The chance that this one" not in text

    def test_that_the_threshold_follows_from_the_reports_is_not_checked(self, told):
        text = Reader(certificate(told)).text
        unchecked = text[text.index("Not checked") : text.index("How far off it can be")]
        assert "the page was made without their reports" in unchecked
        assert "They are as somebody wrote them" in unchecked

    def test_twenty_marks_and_how_many_reach_the_level(self, told):
        page = certificate(told)
        reached = int(re.search(r"about (\d+) of 20 marks lie at 90 % or above", Reader(page).text)[1])
        assert abs(reached / 20 - told.law.sf(0.9)) <= 0.05
        wide = page[page.index('<svg class="law marks"') :]
        wide = wide[: wide.index("</svg>")]
        assert wide.count("mark-reached") == reached
        assert wide.count("<circle") == 20

    def test_words_are_explained_where_they_stand_and_at_the_end(self, told):
        page = certificate(told)
        words = re.findall(r'<span class="term" [^>]*aria-describedby="(word-[a-z-]+)"', page)
        assert set(words) == set(re.findall(r'<dd id="(word-[a-z-]+)"', page))
        assert {"word-score", "word-threshold", "word-rank", "word-coverage", "word-digest"} <= set(words)
        assert "word-privacy-loss" not in words

    def test_formulas_and_checks_are_folded_away(self, told):
        page = certificate(told)
        folded = re.findall(r"<details><summary><h2>(.*?)</h2>", page)
        assert folded == ["How to check it", "Formulas"]

    def test_printed_pages_have_their_number_and_the_digest(self, told):
        page = certificate(told)
        assert f'@bottom-left {{ content: "{told.digest}"' in page
        assert "counter(page)" in page


class TestChecks:
    def test_what_sites_found_later_is_shown(self, told):
        rng = np.random.default_rng(5)
        good = answer(told, rng.gamma(2.0, size=300), site="north")
        bad = answer(told, 2 * rng.gamma(2.0, size=300), site="south")
        page = certificate(told, checks=[good, bad])
        text = Reader(page).text
        assert "What sites found on later cases" in text
        assert "Coverage falls short at: south" in text
        assert "What sites found on later cases" not in Reader(certificate(told)).text

    def test_of_another_calibration_are_refused(self, told):
        other = calibration(np.random.default_rng(4))
        found = answer(other, np.random.default_rng(6).gamma(2.0, size=300), site="north")
        with pytest.raises(ValueError, match="another calibration"):
            certificate(told, checks=[found])
