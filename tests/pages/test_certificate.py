"""A certificate says what the calibration says, no more, and carries it whole."""

import base64
import math
import re
import warnings
from typing import ClassVar

import numpy as np
import pytest
from reading import Reader

import fedconformal as fc
from fedconformal import audit
from fedconformal.audit import Finding
from fedconformal.messages import of
from fedconformal.monitoring import answer
from fedconformal.pages import _certificate, certificate
from fedconformal.protocol import assumption_sentences, is_private

HOSTILE = ["<script>alert(1)</script>", "\"onload='x'", "&amp;</style>", "山田"]
FACTS = {
    "name": "Sepsis <risk>",
    "version": "2.1",
    "purpose": "length of stay",
    "unit": "days",
}
SIZES = {"north": 120, "south": 40, "west": 377, "east": 88}


def calibration(plan, *, skip=(), extra=(), scores=None):
    rng = np.random.default_rng(5)
    names = plan.site_names or [f"site {i}" for i in range(plan.n_sites)]
    draw = scores or (lambda n: rng.gamma(2.0, size=n))
    own = {
        site: draw(n)
        for site, n in zip(names, plan.n_points, strict=True)
        if site not in skip
    }
    if is_private(plan):
        return fc.privacy.simulate(plan, own, rng)
    policy = fc.SitePolicy(curves="plain")
    reports = [
        fc.report(plan, scores, site=site, policy=policy)
        for site, scores in own.items()
    ]
    return fc.calibrate(plan, [*reports, *extra], on_refused="skip")


def text_of(found, **options):
    return Reader(certificate(found, **options)).text


@pytest.fixture(scope="module")
def ordinary():
    plan = fc.plan(n_points=SIZES, score="absolute", terms=FACTS)
    stray = fc.report(fc.plan(1, 40), np.arange(40.0), site="south")
    return calibration(plan, skip=("east",), extra=[stray])


def private_calibration(directory, bins, epsilon, sizes=None, **options):
    sizes = sizes or {"n_sites": 4, "n_points": 300}
    plan = fc.plan(privacy=fc.Privacy(epsilon, bins), **sizes)
    ledger, rng, reports = (
        fc.Ledger.create(directory / "ledger.db"),
        np.random.default_rng(6),
        [],
    )
    for site in "ABCD":
        ledger.set_budget(site, epsilon)
        scores = bins.edges[-1] * rng.beta(2.0, 8.0, size=300)
        reports.append(
            fc.report(plan, scores, site=site, ledger=ledger, dataset=site, **options)
        )
    return fc.calibrate(plan, reports)


@pytest.fixture(scope="module")
def page(ordinary):
    return certificate(ordinary)


class TestOrdinary:
    def test_plain_words_come_before_numbers(self, ordinary, page):
        assert re.findall(r"<h2>(.*?)</h2>", page) == [
            "What was found since",
            "What it does not say",
            "Wide intervals",
            "Details",
            "If one site differs",
            "The promise holds if",
            "Checking again",
            "What the sites sent",
            "How to verify it",
        ]
        assert re.search(
            r"<h1>[^<]*, if the model errs equally at every site\.</h1>", page
        )
        assert f'@bottom-left {{ content: "{ordinary.digest}"' in page

    def test_it_says_what_the_calibration_says(self, ordinary, page):
        text = Reader(page).text
        assert f"threshold q {ordinary.threshold!r} days If this were repeated" in text
        promised = (
            "On average, the truth lies inside the prediction set for at least 90 % of"
            " new cases"
        )
        assert f"{promised}, if the model errs equally at every site." in text
        assert "The reports were not signed." in text
        assert "dropped from 90 % to 85 %, and 78 for a drop to 80 %." in text
        assert all(words in text for words in assumption_sentences(ordinary))
        assert ordinary.refused[0].reason in text
        assert ordinary.digest in text
        assert ordinary.plan.digest in text
        assert all(
            received.report.removeprefix("sha256:")[:12] in text
            for received in ordinary.reports
        )
        assert "the interval from prediction − q to prediction + q" in text
        assert "Each site sent what the table lists, and nothing else." in text
        assert "north 120 1 of its 120 scores (the 109th smallest)" in text
        assert "No noise was added: the reports are not differentially private." in text

    def test_no_figure_is_rounded_up(self, ordinary, page):
        text, law = Reader(page).text, ordinary.law
        words = (
            r"(\d+) of 100 repetitions would reach 90 %, and 95 of 100 at least"
            r" ([\d.]+) %\."
        )
        chance, low = (
            float(figure) / 100 for figure in re.search(words, text).groups()
        )
        assert law.ppf(0.05) - 0.001 < low <= law.ppf(0.05)
        assert law.sf(0.9) - 0.01 < chance <= law.sf(0.9)

    def test_what_was_not_checked_is_on_the_first_page_and_conditions_among_the_details(
        self, page
    ):
        text = Reader(page).text
        places = [
            text.index(words)
            for words in (
                "What it does not say",
                "If they change, the promise is void.",
                "the page was made without their reports",
                "They are as somebody wrote them",
                "For the coordinator",
                "The promise holds if",
                "Every report was made as the plan says.",
                "With ties among scores",
                "The reports were not authenticated",
                "Checking again",
            )
        ]
        assert places == sorted(places)

    def test_it_carries_the_calibration_and_loads_and_runs_nothing(
        self, ordinary, page
    ):
        encoded = re.search(r'href="data:application/json;base64,([^"]+)"', page)[1]
        assert fc.Calibration.from_json(base64.b64decode(encoded)) == ordinary
        assert page == certificate(fc.Calibration.from_json(ordinary.to_json()))
        read = Reader(page)
        assert read.tags.isdisjoint(
            {"script", "link", "img", "iframe", "object", "form", "base"}
        )
        assert [address[:5] for address in read.addresses] == ["data:"]
        assert read.open == []


class TestFacts:
    def test_what_the_plan_tells_stands_on_top_and_what_is_missing_is_said(self, page):
        text = Reader(page).text
        top = text[: text.index("What was found since")]
        assert "Purpose length of stay Model Sepsis <risk> Version 2.1 Unit" in top
        assert (
            "Not stated: population, period of the calibration cases, coordinator,"
            " contact, to be" in top
        )
        assert "Missing sites 1 site: east (88 cases) Not stated: population" in top
        assert (
            "answered 3 sites: north (120 cases), south (40 cases) and west (377 cases)"
            in top
        )

    def test_others_can_be_added_but_none_changed(self, ordinary):
        text = text_of(ordinary, facts={"contact": "office", "date": "today"})
        assert "Contact office * " in text
        assert "* Added to this page; not in the plan that the sites saw." in text
        assert "Date of this document today Sites that answered" in text
        text = text_of(
            ordinary, facts={"plans_tried": "two, both rejected by the board"}
        )
        assert text.index("Plans tried before two, both rejected") > text.index(
            "Details"
        )
        with pytest.raises(
            ValueError, match=r"fact 'version': the plan says '2.1', not '3'"
        ):
            certificate(ordinary, facts={"version": "3"})
        with pytest.raises(
            ValueError, match=r"fact must be one of name, version, .* got 'colour'"
        ):
            certificate(ordinary, facts={"colour": "red"})
        for text in ("", "two\nlines", "x" * 501, "\x1b[31mred"):
            with pytest.raises(ValueError, match="purpose"):
                fc.plan(3, 50, terms={"purpose": text})

    def test_from_the_command_line(self, tmp_path, monkeypatch):
        from fedconformal.cli import main

        monkeypatch.chdir(tmp_path)
        plan = [
            "plan",
            "--sites",
            "3",
            "--points",
            "50",
            "--term",
            "purpose=triage",
            "-o",
            "plan.json",
        ]
        assert main(plan) == 0
        (tmp_path / "c.json").write_text(
            calibration(fc.Plan.read("plan.json")).to_json()
        )
        assert main(["certificate", "c.json", "--fact", "contact=office"]) == 0
        page = (tmp_path / "certificate.html").read_text()
        assert "triage" in page
        assert "office" in page
        assert main(["certificate", "c.json", "--fact", "purpose=war", "--force"]) == 2


class TestKinds:
    def test_several_levels(self):
        plan = fc.plan(
            n_sites=5, n_points=60, confidence_level=[0.8, 0.9], criterion="conditional"
        )
        found = calibration(plan)
        page = certificate(found)
        text = Reader(page).text
        assert all(repr(threshold) in text for threshold in found.thresholds)
        assert (
            len(
                re.findall(
                    "<h1>With 90\N{NO-BREAK SPACE}% certainty, the truth lies inside",
                    page,
                )
            )
            == 2
        )
        for x in (0.8, 0.9):
            reached = math.floor(100 * found[x].law.sf(x))
            assert (
                f"{reached} of 100 repetitions would reach {100 * x:g} %, and 95 of 100"
                in text
            )
        assert page.count('<svg class="law"') == 2 * 2
        assert len(set(re.findall(r' id="([^"]+)"', page))) == len(
            re.findall(r' id="([^"]+)"', page)
        )

    def test_votes_of_uneven_sites_with_several_numbers(self):
        several = calibration(fc.plan(n_points=SIZES, numbers=3, score="absolute"))
        text = text_of(several)
        assert (
            "Votes were counted: the threshold is the smallest number sent at which"
            in text
        )
        assert f" {several.server_rank} of {3 * sum(several.weights)} " in text
        design = several.parts[0].design
        for site, n, weight in zip(
            design.site_names, several.n_points, several.weights, strict=True
        ):
            sent = of(design.message).discloses(design, n, site).replace("your", "its")
            assert sent.startswith(f"3 of its {n} scores (the ")
            assert f"{site} {n} {sent} 3 × {weight} = {3 * weight} " in text

    def test_equal_sites_with_one_number_are_counted_as_sites(self):
        text = text_of(calibration(fc.plan(n_sites=250, n_points=20)))
        assert "Each site sent 1 of its 20 scores (the " in text
        assert "Votes were counted" not in text
        assert "and 50 more, all listed in the calibration." in text

    def test_sites_that_were_not_asked_are_not_missing(self):
        plan = fc.plan(n_points={"large": 12_000, "small": 40})
        text = text_of(calibration(plan, skip=("small",)))
        assert (
            "no answer of theirs could change a threshold 1 site: small (40 cases)"
            in text
        )
        assert (
            "Sites that answered 1 site: large (12,000 cases) Missing sites none"
            in text
        )

    def test_a_missing_site_that_it_could_not_tolerate(self):
        frail = calibration(fc.plan(n_points={"A": 90, "B": 60}))
        design = frail.parts[0].design
        assert not of(design.message).tolerates(design, 0, 1)
        assert (
            "One more missing site could have made the threshold infinite."
            in text_of(frail)
        )

    def test_private(self, tmp_path):
        private = private_calibration(tmp_path, fc.Bins.uniform(0, 10, 40), 2.0)
        text = text_of(private)
        assert (
            "Each site sent 40 counts of its 300 scores, with noise of epsilon 2, and"
            " how many" in text
        )
        assert (
            "Each report is 2-differentially private for every case behind it, if the"
            " site kept" in text
        )
        assert "at most 7.39 times as likely or unlikely (e to the power ε = 2)" in text
        assert "All figures but the spread are lower bounds" in text
        assert (
            "The threshold is the upper end of a cell of the grid that begins 0.25"
            " below it" in text
        )
        shown = re.search(
            r"expect them to cover about ([\d.]+) % where 90 % was asked for", text
        )[1]
        design = private.parts[0].design
        expected, _ = of(design.message).expected(design, 0)
        assert expected <= float(shown) / 100 < expected + 0.002
        assert "If errors follow a bell curve, intervals that cover" in text

    def test_private_groups_cost_epsilon_each(self, tmp_path):
        labels = np.repeat(["adult", "child"], 150)
        sizes = {label: dict.fromkeys("ABCD", 150) for label in ("adult", "child")}
        text = text_of(
            private_calibration(
                tmp_path, self.BINS, 2.0, {"groups": sizes}, groups=labels
            )
        )
        assert (
            "For each group that it answered for, a site sent 40 counts of its 150"
            " scores, with" in text
        )
        assert "somebody with cases in several groups pays for each of them" in text
        assert "Group “child”: Noise makes the sets larger." in text

    BINS = fc.Bins.uniform(0, 10, 40)
    SENT: ClassVar = [
        ({"curve": BINS}, "No noise was added"),
        ({"curve": BINS, "promise": "mixture"}, "90.14 % or more"),
        ({"curve": BINS, "promise": "each-site"}, "at each single site"),
        ({"promise": "mixture"}, "no distribution is known"),
        (
            {
                "privacy": fc.Privacy(10.0, BINS, analysis="paper"),
                "n_points": dict.fromkeys("ABCD", 120),
            },
            "no distribution is known",
        ),
        (
            {
                "promise": "new-site",
                "numbers": 2,
                "n_points": dict.fromkeys("ABCDEFGHIJKL", 120),
            },
            (
                "On average over new sites, the truth lies inside the prediction set"
                " for at least 90 % of a"
            ),
        ),
    ]

    @pytest.mark.parametrize(("options", "words"), SENT, ids=range(len(SENT)))
    def test_every_kind_of_message_is_described_as_it_describes_itself(
        self, options, words
    ):
        plan = fc.plan(**{"n_points": SIZES, **options})
        text, sizes = text_of(calibration(plan)), options.get("n_points", SIZES)
        site, n = min(sizes.items())
        sent = (
            of(plan.message).discloses(plan.designs[0], n, site).replace("your", "its")
        )
        assert f"its {n} scores" in sent
        assert f"{site} {n} {sent}" in text[text.index("What the sites sent") :]
        assert words in text
        assert "expect them to cover" not in text
        assert ("Noise makes the sets larger; by how much was not" in text) == (
            "privacy" in options
        )

    @pytest.mark.parametrize(
        "options", [options for options, _ in SENT], ids=range(len(SENT))
    )
    def test_notebooks_show_every_kind(self, options):
        plan = fc.plan(**{"n_points": SIZES, **options})
        shown = Reader(plan._repr_html_()).text
        assert plan.digest in shown
        assert f"≥ {plan.guarantee.mean:.4f}" in shown
        found = calibration(plan)
        assert f"threshold q {found.threshold!r}" in Reader(found._repr_html_()).text

    @pytest.mark.parametrize("analysis", ["curve", "paper"])
    def test_a_notebook_computes_nothing_that_takes_all_memory_or_forever(
        self, analysis
    ):
        """A plan of 1 KB that anybody can write: its numbers are read, and shown as
        they are.
        """
        privacy = fc.Privacy(10.0, fc.Bins.uniform(0, 5, 20), analysis=analysis)
        plan = fc.plan(n_sites=5, n_points=300, confidence_level=0.8, privacy=privacy)
        (design,) = plan.designs
        sites = (design.kinds[0].model_copy(update={"count": 10**7, "n": 2**30}),)
        levels = (design.levels[0].model_copy(update={"votes": 10**7}),)
        large = design.model_copy(update={"sites": sites, "levels": levels})
        text = plan.model_copy(update={"designs": (large,)}).to_json()
        shown = Reader(fc.Plan.from_json(text)._repr_html_()).text
        assert len(text) < 1200
        assert "80 % 10,000,000 10,000,000 not computed" in shown

    @pytest.mark.filterwarnings("ignore::fedconformal.InfeasibleWarning")
    def test_nor_does_a_notebook_show_success_where_there_is_none(self):
        shown = Reader(fc.plan(n_sites=3, n_points=2)._repr_html_()).text
        assert (
            "Plan No finite threshold guarantees 90 % coverage with these sites, so"
            " every" in shown
        )
        assert "90 % 3 none –" in shown

    def test_what_this_plan_cannot_guarantee_another_may(self):
        """One answer of four: its rank 114 of 127 is too low, and its rank 116 would
        do.
        """
        sizes = {"north": 127, "south": 98, "west": 41, "east": 67}
        plan = fc.plan(n_points=sizes)
        assert plan.local_ranks[0] == 114
        assert fc.plan(n_points={"north": 127}).local_ranks[0] == 116
        found = fc.calibrate(plan, [fc.report(plan, range(127), site="north")])
        assert found.threshold == np.inf
        card = text_of(found).partition("threshold q infinite")[2]
        assert "too few, or too small, for the level by this plan." in card
        assert (
            "What may help: answers of missing sites, or a new plan for the sites that"
            " answered." in card
        )
        assert "No number that was tried" not in card
        (reason,) = fc.protocol.describe_unreached(found)
        assert reason == (
            "This plan cannot guarantee 90 % coverage on average with 1 site of 127"
            " cases, so the threshold is infinite. What may help: answers of missing"
            " sites, or a new plan for the sites that answered."
        )

    @pytest.mark.filterwarnings("ignore::fedconformal.InfeasibleWarning")
    def test_an_infinite_threshold_promises_nothing(self):
        page = certificate(calibration(fc.plan(n_sites=3, n_points=2)))
        text = Reader(page).text
        said = (
            "No finite threshold guarantees 90 % coverage with these reports, so every"
            " prediction set holds"
        )
        assert f"Calibration certificate {said} everything." in text
        assert (
            f"threshold q infinite {said} everything. The sites that answered are"
            " too few" in text
        )
        assert "You need 3 cases at every site or 5 sites of the smallest size." in text
        assert "What may help" not in text
        assert "On average, the truth lies" not in text
        assert "Checking again" not in text
        assert "<svg" not in page
        found = calibration(
            fc.plan(n_sites=3, n_points=20), scores=lambda n: np.full(n, np.inf)
        )
        assert "The reports themselves lead to an infinite threshold." in text_of(found)
        plan = fc.plan(n_sites=3, n_points=20, curve=fc.Bins.uniform(0, 1, 10))
        text = text_of(calibration(plan, scores=lambda n: np.full(n, 5.0)))
        assert (
            "Scores above 0.9, the last finite edge of the grid, count as infinite."
            in text
        )

    @pytest.mark.parametrize(
        ("score", "words"),
        [
            (
                "absolute",
                r"a prediction of 100 days becomes about 9\d\.\d+ to 10\d\.\d+ days",
            ),
            (
                "normalized",
                r"a prediction of 100 days with a scale of 5 days becomes about",
            ),
            ("cqr", r"quantiles of 90 and 110 days become about"),
            (
                "lac",
                (
                    r"a label with a predicted probability of [\d.]+ % or more is in"
                    r" the set"
                ),
            ),
        ],
    )
    def test_an_example_in_the_unit_of_what_is_predicted(self, score, words):
        plan = fc.plan(n_points=SIZES, score=score, terms=FACTS)
        assert re.search(
            words,
            text_of(calibration(plan, scores=lambda n: np.linspace(0.1, 0.95, n))),
        )

    def test_of_many_promises_the_first_are_headlines(self):
        levels = (0.5, 0.6, 0.7, 0.8, 0.9)
        many = fc.conformalize(
            {site: np.arange(100.0) for site in "ABC"}, confidence_level=levels
        )
        text = text_of(many)
        for x in levels:
            assert (
                f"{math.floor(100 * many[x].law.sf(x))} of 100 repetitions would reach"
                f" {x:.0%}".replace("%", " %")
                in text
            )
        assert "1 more promise with its threshold below." in text

    def test_a_promise_to_each_site_is_said_as_one(self):
        text = text_of(
            calibration(fc.plan(n_points={"A": 100, "B": 60}, promise="each-site"))
        )
        assert "of the new cases of every site" in text
        assert "sites may differ in any way" in text
        assert re.search(
            r"at least \d+ of 100 repetitions would reach 90 % at each single site, and"
            r" 95 of",
            text,
        )
        assert "Pooling all" not in text


class TestSensitivity:
    """Each figure is what repetitions with other cases give."""

    WORDS = re.compile(
        r"missed twice as many cases at one site as at the others, at least ([\d.]+) %"
        r" of its new cases "
        r"would be covered on average, and at least ([\d.]+) % elsewhere, whichever"
        r" site it is\. "
        r"Whatever the scores of one site are, at least ([\d.]+) % of the new cases of"
        r" the others"
    )

    @staticmethod
    def coverages(found, odd, odd_scores):
        """Coverages elsewhere of repetitions with uniform scores, those of one site
        drawn otherwise.
        """
        rng, runs, design, columns = (
            np.random.default_rng(0),
            20_000,
            found.parts[0].design,
            [],
        )
        for kind, ranks in zip(
            design.kinds, design.message.levels[0].ranks, strict=True
        ):
            sent = np.sort(rng.random((runs, kind.n)), axis=1)[:, ranks[0] - 1]
            columns.append(odd_scores(sent) if kind.names == (odd,) else sent)
        numbers = np.stack(columns, axis=1)
        order = np.argsort(numbers, axis=1)
        reached = (
            np.cumsum(np.asarray(found.weights)[order], axis=1) >= found.server_rank
        )
        return np.take_along_axis(numbers, order, axis=1)[
            np.arange(runs), reached.argmax(axis=1)
        ]

    def test_the_figures_are_those_of_a_simulation(self, ordinary):
        own, elsewhere, whatever = (
            float(text) / 100 for text in self.WORDS.search(text_of(ordinary)).groups()
        )
        names = ordinary.parts[0].design.site_names
        # A site that misses 2 (1 - c) of its cases at the c-quantile of the others has
        # scores (1 + u) / 2.
        twice = min(
            self.coverages(ordinary, name, lambda u: (1 + u) / 2).mean()
            for name in names
        )
        assert elsewhere == pytest.approx(twice, abs=0.003)
        assert own == pytest.approx(2 * twice - 1, abs=0.006)
        lowest = min(
            self.coverages(ordinary, name, lambda u: 0 * u).mean() for name in names
        )
        assert whatever == pytest.approx(lowest, abs=0.003)

    def test_it_is_shown_where_sites_are_assumed_to_be_alike(self):
        each_site = calibration(fc.plan(n_points=SIZES, promise="each-site"))
        assert "If one site differs" not in text_of(each_site)
        counts = calibration(fc.plan(n_points=SIZES, curve=fc.Bins.uniform(0, 10, 40)))
        assert (
            "The coverage if one site differs was not computed for this page."
            in text_of(counts)
        )
        several = calibration(
            fc.plan(n_points=SIZES, numbers=3, confidence_level=[0.8, 0.9])
        )
        assert (
            len(
                re.findall(
                    r"(?:80|90) % [\d.]+ % [\d.]+ % [\d.]+ % (?=[89T])",
                    text_of(several),
                )
            )
            == 2
        )
        assert "If one site differs" not in text_of(calibration(fc.plan(1, 100)))


class TestSetSizes:
    def test_widths_of_intervals(self, ordinary):
        text = text_of(ordinary, sets=ordinary.predict_interval(np.arange(50.0)))
        width = f"{2 * ordinary.threshold:.4g}"
        assert (
            "The intervals of 50 cases, computed from their predictions, by width"
            " (days)" in text
        )
        assert f"90 % 0 0 {width} {width} {width}" in text
        assert "sizes of the sets" not in text
        assert (
            "prevalence by site, date of this document, sizes of the sets."
            in text_of(ordinary)
        )

    def test_infinite_and_empty_intervals_are_counted_and_do_not_hide_the_others(
        self, ordinary
    ):
        ends = np.array([[0.0, 1.0]] * 17 + [[-np.inf, np.inf]] * 2 + [[3.0, 2.0]])
        assert "90 % 2 1 1 1 infinite" in text_of(ordinary, sets=ends)

    def test_numbers_of_labels_at_each_level(self):
        plan = fc.plan(
            3,
            60,
            score="lac",
            confidence_level=[0.8, 0.9],
            terms={"classes": ["a", "b", "c"]},
        )
        found = calibration(plan, scores=lambda n: np.linspace(0, 1, n))
        tables = np.zeros((10, 3, 2), dtype=bool)
        tables[:6, 0], tables[:3, 1], tables[0, 2, 1] = True, True, True
        text = text_of(found, sets=tables)
        assert (
            "The sets of 10 cases, computed from their predictions, by how many labels"
            " they hold" in text
        )
        assert (
            "level no label 1 label 2 labels 3 labels 80 % 4 3 3 0 90 % 4 3 2 1" in text
        )

    @pytest.mark.parametrize(
        "sets", [np.zeros((4, 2, 2)), np.zeros((0, 2)), np.zeros(3), np.zeros((4, 3))]
    )
    def test_others_are_refused(self, ordinary, sets):
        with pytest.raises(ValueError, match="sets "):
            certificate(ordinary, sets=sets)


class TestDoubt:
    def test_names_and_reasons_are_escaped(self):
        plan = fc.plan(n_points=dict.fromkeys([*HOSTILE, "B"], 30))
        stray = fc.report(
            fc.plan(1, 30), np.arange(30.0), site="<img src=x onerror=alert(1)>"
        )
        read = Reader(certificate(calibration(plan, skip=(HOSTILE[2],), extra=[stray])))
        assert read.tags.isdisjoint({"script", "img"})
        assert all(name in read.text for name in [*HOSTILE, stray.site])

    def test_a_claim_that_does_not_hold_gets_no_certificate(self, ordinary):
        design = ordinary.parts[0].design
        level = design.levels[0].model_copy(update={"votes": 1})
        part = ordinary.parts[0].model_copy(
            update={"design": design.model_copy(update={"levels": (level,)})}
        )
        with pytest.raises(ValueError, match=r"its claim does not hold: level 0\.9"):
            certificate(ordinary.model_copy(update={"parts": (part,)}))

    def test_a_claim_that_the_auditor_does_not_know_is_no_secret(
        self, ordinary, monkeypatch
    ):
        findings = [Finding("it is kept", "nobody knows", None)]
        monkeypatch.setattr(_certificate, "verify", lambda *_: findings)
        with pytest.raises(
            ValueError, match="a claim cannot be verified: it is kept: nobody knows"
        ):
            certificate(ordinary)
        text = text_of(ordinary, allow_unverified=True)
        assert "NOT VERIFIED: " in text
        assert "it is kept nobody knows not verified" in text
        assert "1 claim of this calibration could not be verified" in text
        assert (
            "1 claim could not be verified, because this code does not know how" in text
        )

    def test_with_the_reports_thresholds_are_recomputed(self):
        plan = fc.plan(n_points=SIZES)
        rng = np.random.default_rng(2)
        reports = [
            fc.report(plan, rng.gamma(2.0, size=n), site=site)
            for site, n in SIZES.items()
        ]
        found = fc.calibrate(plan, reports)
        without, text = text_of(found), text_of(found, reports=reports)
        for page, findings in (
            (without, fc.audit.verify(found)),
            (text, fc.audit.verify(found, reports)),
        ):
            n = len(findings)
            assert f"{n} claims of {n} were verified by independent code, " in page
        assert "page was made without their reports" in without
        assert "code, without the reports of the sites." in without
        assert "without their reports" not in text
        assert "which recomputed the thresholds from the reports." in text
        with pytest.raises(ValueError, match="its claim does not hold"):
            certificate(found, reports=reports[:-1])
        other = fc.report(plan, rng.gamma(3.0, size=SIZES["north"]), site="north")
        changed = [other if own.site == "north" else own for own in reports]
        with pytest.raises(ValueError, match="its claim does not hold"):
            certificate(found, reports=changed)

    def test_what_sites_found_later_is_shown(self, ordinary):
        rng = np.random.default_rng(5)
        good = answer(ordinary, rng.gamma(2.0, size=300), site="north")
        bad = answer(ordinary, 2 * rng.gamma(2.0, size=300), site="south")
        text = text_of(ordinary, checks=[good, bad])
        assert "What was found since Coverage falls short at: south" in text
        (good_count,), (bad_count,) = (
            re.findall(rf"{site} 90 % (\d+) of 300", text)
            for site in ("north", "south")
        )
        total = int(good_count) + int(bad_count)
        assert (
            f"On 600 later cases {total} were covered, {total / 600:.1%}".replace(
                "%", " %."
            )
            in text
        )
        assert "No site has reported a check on later cases." in text_of(ordinary)
        other = calibration(fc.plan(3, 50))
        with pytest.raises(ValueError, match="another calibration"):
            certificate(other, checks=[good])

    def test_a_watch_is_on_the_first_page_with_its_pictures_behind_it(self, ordinary):
        rng = np.random.default_rng(5)
        checks = [
            answer(
                ordinary,
                scale * rng.gamma(2.0, size=80),
                site=site,
                period=f"2027-0{month}",
            )
            for site, scale in {"north": 1.0, "south": 1.5}.items()
            for month in (1, 2, 3)
        ]
        text, page = (
            text_of(ordinary, checks=checks),
            certificate(ordinary, checks=checks),
        )
        first, _, second = text.partition("Details")
        assert (
            "480 later cases since 2027-01, up to 2027-03. The next reports are due for"
            " 2027-04." in first
        )
        assert "At south: below 90 %, alarm since 2027-0" in first
        assert re.search(
            r"south 90 % \d+ of 240 [\d.]+ % [\d.]+ % [\d.e+]+ below 90 %, alarm",
            first,
        )
        assert (
            "Each lower bound is below the mean coverage of the cases so far" in first
        )
        assert "an alarm is an E of 20 or more." in first
        assert "Coverage and evidence over time" in second
        assert (
            "With 80 new cases of each site in a period, a drop from 90 % to 85 % at"
            " one site" in second
        )
        assert page.count('aria-labelledby="watch-') == 3
        assert (
            "nan"
            not in page.partition("Coverage and evidence over time")[2].partition(
                "</section>"
            )[0]
        )

    def test_one_private_period_is_drawn(self, ordinary, tmp_path):
        ledger = fc.Ledger.create(tmp_path / "site.db")
        ledger.set_budget("new", 1.0)
        terms = {
            "site": "north",
            "period": "2027-01",
            "epsilon": 1.0,
            "ledger": ledger,
            "dataset": "new",
        }
        page = certificate(ordinary, checks=[answer(ordinary, np.ones(50), **terms)])
        assert page.count('aria-labelledby="watch-') == 2

    def test_groups_of_later_cases_have_a_table_of_their_own(self, ordinary):
        scores = np.random.default_rng(5).gamma(2.0, size=300)
        sex = np.repeat(["man", "woman"], 150)
        text = text_of(
            ordinary, checks=[answer(ordinary, scores, site="north", by={"sex": sex})]
        )
        first, _, second = text.partition("Details")
        assert re.search(r"north 90 % \d+ of 300", first)
        assert "sex=" not in first
        assert re.search(
            r"Groups of later cases .*north, sex=man 90 % \d+ of 150 [\d.]+ % [\d.]+"
            r" % to",
            second,
        )

    def test_a_check_with_few_cases_tells_nothing(self, ordinary):
        few = answer(
            ordinary, np.random.default_rng(5).gamma(2.0, size=30), site="north"
        )
        assert re.search(
            r"north 90 % \d+ of 30 .* too few cases to tell",
            text_of(ordinary, checks=[few]),
        )


# -- groups ----------------------------------------------------------------------------

MIX = {"north": (160, 20, 5), "south": (120, 40, 0), "west": (70, 90, 0)}
LABELS = ("adult", "child", "infant")


def grouped_calibration(plan, n_labels=3, *, without=()):
    """Every site answers for every group, but for the pairs of site and group that are
    left out.
    """
    rng, reports = np.random.default_rng(3), []
    for site, sizes in MIX.items():
        labels = np.repeat(LABELS[:n_labels], sizes[:n_labels])
        labels = labels[[(site, label) not in without for label in labels]]
        policy = fc.SitePolicy(min_group=1)
        reports.append(
            fc.report(
                plan, rng.random(labels.size), groups=labels, site=site, policy=policy
            )
        )
    return fc.calibrate(plan, reports, on_refused="skip")


@pytest.fixture(scope="module")
def grouped():
    sizes = {
        label: {site: n[i] for site, n in MIX.items()} for i, label in enumerate(LABELS)
    }
    with warnings.catch_warnings(action="ignore", category=fc.InfeasibleWarning):
        plan = fc.plan(groups=sizes, confidence_level=[0.85, 0.9], score="absolute")
    return grouped_calibration(plan, without={("west", "adult")})


@pytest.fixture(scope="module")
def grouped_page(grouped):
    return certificate(grouped)


class TestGroups:
    @pytest.mark.slow
    def test_the_headline_counts_the_groups_with_a_finite_threshold(
        self, grouped, grouped_page
    ):
        text = Reader(grouped_page).text
        for level in (85, 90):
            assert (
                f"at least {level} % of new cases in 2 of 3 groups, if the model errs"
                " equally" in text
            )
        assert (
            "3 sites used 435 past cases to set one threshold q for each of 3 groups"
            in text
        )

    def test_there_is_a_card_for_each_group_and_level(self, grouped, grouped_page):
        page = grouped_page
        cards = re.findall(r'<div class="card( warning)?">(.*?)</div>', page, re.DOTALL)
        assert [bool(warning) for warning, _ in cards] == [False] * 4 + [True] * 2
        for label, (_, card) in zip(np.repeat(LABELS, 2), cards, strict=True):
            assert f"Group “{label}”" in card
        for label in ("adult", "child"):
            assert all(
                repr(threshold) in page for threshold in grouped[label].thresholds
            )
            assert (
                f"for at least 90 % of new cases of the group “{label}”, if"
                in Reader(page).text
            )

    def test_laws_are_those_of_the_groups(self, grouped, grouped_page):
        page = grouped_page
        text = Reader(page).text
        assert page.count('<svg class="law"') == 2 * 4
        for label in ("adult", "child"):
            for law in (grouped[label, level].law for level in (0.85, 0.9)):
                mean, low = int(law.mean() * 1e4) / 100, int(law.ppf(0.05) * 1e3) / 10
                assert re.search(
                    rf"{label} \d+ \d+ % \d+ of \d+ {mean:.2f} % [\d.]+ % {low:.1f} %",
                    text,
                )
        assert "Dashed: pooling all 280 cases in one place." in text

    def test_who_is_missing_is_said_where_and_every_finding_is_there(
        self, grouped, grouped_page
    ):
        text = Reader(grouped_page).text
        assert "The reports were not signed." in text
        assert "adult 2 280 1 west none" in text
        assert "child 3 150 0 none none" in text
        for received in grouped.reports:
            assert (
                f"{received.site} {received.report.removeprefix('sha256:')[:12]}"
                in text
            )
        assert all(sentence in text for sentence in assumption_sentences(grouped))
        assert all(
            f"{found.claim} {found.detail} yes" in text
            for found in audit.verify(grouped)
        )

    def test_a_group_with_too_few_answers_promises_nothing(self):
        sizes = {label: dict.fromkeys(MIX, 40) for label in LABELS[:2]}
        plan = fc.plan(groups=sizes, max_faulty=1)
        rng = np.random.default_rng(1)
        both = fc.report(
            plan, rng.random(80), groups=np.repeat(LABELS[:2], 40), site="north"
        )
        adults = [
            fc.report(plan, rng.random(40), groups=["adult"] * 40, site=s)
            for s in ("south", "west")
        ]
        text = text_of(fc.calibrate(plan, [both, *adults]))
        assert "1 site answered for it, and 3 answers are needed." in text
        assert "child 40 90 % too few answers – – – –" in text
        assert "child 1 40 2 south and west none" in text
        assert (
            "The promise allows for 1 wrong report in each group, in whatever way."
            in text
        )

    def test_many_hostile_labels_are_escaped_and_drawn_up_to_a_point(self):
        labels = [f"{hostile} {i}" for hostile in HOSTILE[:3] for i in range(5)][:14]
        plan = fc.plan(groups={label: {"A": 20, "B": 20} for label in labels})
        each = np.repeat(labels, 20)
        reports = [
            fc.report(plan, np.arange(280.0), groups=each, site=site) for site in "AB"
        ]
        page = certificate(fc.calibrate(plan, reports))
        read = Reader(page)
        assert read.tags.isdisjoint({"script", "img"})
        assert all(label in read.text for label in labels)
        assert page.count('<svg class="law"') == 2 * 12
        assert "2 more are not drawn; the table has all of them." in page

    @pytest.mark.parametrize(
        ("group_by", "headline", "first", "condition"),
        [
            (
                "class",
                "in each of 2 classes",
                "class “adult”",
                ", if the model errs equally on each class at every site",
            ),
            (
                ("site", "class"),
                "in each of 6 groups",
                "class “adult” at the site “north”",
                "",
            ),
        ],
    )
    def test_groups_by_class_and_site_are_called_so(
        self, group_by, headline, first, condition
    ):
        sizes = {
            label: {site: n[i] for site, n in MIX.items()}
            for i, label in enumerate(LABELS[:2])
        }
        plan = fc.plan(groups=sizes, group_by=group_by, score="lac")
        text = text_of(grouped_calibration(plan, 2))
        assert f"at least 90 % of new cases {headline}{condition}." in text
        assert f"for at least 90 % of new cases of the {first}{condition}." in text
        assert f"The distribution of the coverage at 90 % for the {first}." in text
        shares = "Prevalence by site site cases adult child north 180 88.9 % 11.1 %"
        assert shares in text
        assert "prevalence by site" not in text
        for words in (
            "Each label has its own q.",
            "This is for labels of this class",
            "at most q of that class.",
        ):
            assert (words in text) == ("class" in group_by)


class TestLosses:
    """Ranks of scores of losses, sums of losses with and without a name, and
    answers.
    """

    GRID: ClassVar = fc.Bins.uniform(0, 1, 20)

    @staticmethod
    def summed(risk=0.2, score=None):
        grid = TestLosses.GRID
        plan = fc.plan(n_points=SIZES, curve=grid, parts=100, risk=risk, score=score)
        x = np.linspace(0.01, 1, 400)[:, np.newaxis]
        losses = np.maximum(0, 1 - np.array(plan.designs[0].message.edges) / x)
        policy = fc.SitePolicy(curves="plain")
        reports = [
            fc.report(plan, losses=losses[:n], site=site, policy=policy)
            for site, n in SIZES.items()
        ]
        return fc.calibrate(plan, reports)

    @staticmethod
    def answered():
        plan = fc.plan(
            n_points=SIZES,
            curve=TestLosses.GRID,
            starts=10,
            risk=0.2,
            criterion="conditional",
            delta=0.1,
        )
        policy, reports = fc.SitePolicy(curves="plain"), []
        for site, n in SIZES.items():
            confidence = np.linspace(0, 1, n)
            given = {
                "losses": (confidence < 0.3).astype(float),
                "site": site,
                "policy": policy,
            }
            reports.append(fc.report(plan, confidence, **given))
        return fc.calibrate(plan, reports)

    def test_every_sentence_is_of_its_kind(self):
        rng = np.random.default_rng(0)
        ranked = fc.conformalize(
            {"A": rng.random(300), "B": rng.random(300)},
            score="missed-labels",
            risk=0.1,
        )
        texts = {
            "ranks": text_of(ranked),
            "sums": text_of(self.summed(score="missed-labels")),
            "unnamed": text_of(self.summed()),
            "answers": text_of(self.answered()),
        }
        only = {
            "the share is drawn at random": {"ranks"},
            "With ties among scores": {"ranks"},
            "votes needed": {"ranks"},
            "The distribution of the coverage, level by level": {"ranks"},
            "The guarantee, level by level": {"sums", "unnamed", "answers"},
            "at most what is allowed.": {"sums", "unnamed"},
            "What the loss is, is not part of the plan": {"unnamed"},
            "Large losses": {"unnamed"},
            "Selected in vain": {"ranks", "sums"},
            "Cases without an answer": {"answers"},
            "Sets of several labels": set(),
            "Which score the sites used": set(),
            "twice the share of the truth at one site": {"ranks"},
            "would be covered": set(),
            "the share covered": set(),
            "that the mean share that is found has dropped": {"ranks", "sums"},
            "A check needs": {"ranks", "sums"},
            "The share of right answers if one site differs was not computed": {
                "answers"
            },
            "the grid alone raises": set(),
            "The threshold is one of the plan’s settings": {
                "sums",
                "unnamed",
                "answers",
            },
            "in the mean over": set(),
        }
        for sentence, kinds in only.items():
            assert {
                kind for kind, text in texts.items() if sentence in text
            } == kinds, sentence

    def test_infinite_thresholds(self):
        named, unnamed = (
            text_of(self.summed(risk=0.0001, score=score))
            for score in ("missed-labels", None)
        )
        assert (
            "that 99.99 % are found with these reports, so everything is selected."
            in named
        )
        assert (
            "No setting guarantees that 99.99 % of the largest loss is avoided with"
            in unnamed
        )
        assert "every prediction set holds everything" not in named + unnamed
