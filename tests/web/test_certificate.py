"""A certificate says what the calibration says, no more, and carries it whole."""

import base64
import re

import numpy as np
import pytest
from reading import Reader

import fedconformal as fc
from fedconformal.documents import ScoreRule
from fedconformal.protocol import assumption_sentences
from fedconformal.web import NotVerifiedError, certificate
from fedconformal.web._cases import in_cases
from fedconformal.web._html import Markup, tag

HOSTILE = ["<script>alert(1)</script>", "\"onload='x'", "&amp;</style>", "山田\N{RIGHT-TO-LEFT MARK}"[:2]]


def calibration(plan, *, skip=(), extra=(), scores=None):
    rng = np.random.default_rng(5)
    names = plan.site_names or [f"site {i}" for i in range(plan.n_sites)]
    draw = scores or (lambda n: rng.gamma(2.0, size=n))
    reports = [
        fc.report(plan, draw(n), site=site)
        for site, n in zip(names, plan.n_points, strict=True)
        if site not in skip
    ]
    return fc.calibrate(plan, [*reports, *extra], on_refused="skip")


@pytest.fixture(scope="module")
def ordinary():
    plan = fc.plan(n_points={"north": 120, "south": 40, "west": 377, "east": 88}, score="absolute")
    stray = fc.report(fc.plan(1, 40), np.arange(40.0), site="south")
    return calibration(plan, skip=("east",), extra=[stray])


@pytest.fixture(scope="module")
def private(tmp_path_factory):
    privacy = fc.Privacy(epsilon=2.0, bins=fc.Bins.uniform(0, 10, 40))
    plan = fc.plan(n_sites=4, n_points=300, privacy=privacy, max_faulty=1)
    ledger = fc.Ledger.create(tmp_path_factory.mktemp("ledger") / "ledger.db")
    rng = np.random.default_rng(6)
    reports = []
    for site in "ABCD":
        ledger.set_budget(site, 2)
        reports.append(fc.report(plan, rng.gamma(2.0, size=300), site=site, ledger=ledger, dataset=site))
    return fc.calibrate(plan, reports)


class TestOrdinary:
    def test_plain_words_come_before_numbers_and_numbers_before_formulas(self, ordinary):
        headings = re.findall(r"<h2>(.*?)</h2>", certificate(ordinary))
        assert headings == [
            "What is promised",
            "What it cost",
            "What it rests on",
            "How far off it can be",
            "Who reported",
            "How to check it",
            "Formulas",
            "Words on this page",
            "Signed",
        ]

    def test_it_says_what_the_calibration_says(self, ordinary):
        text = Reader(certificate(ordinary)).text
        assert repr(ordinary.threshold) in text
        assert "On average, the truth lies inside the prediction set for at least 90 % of new cases." in text
        assert "3 sites answered; 1 site did not: east. The reports were not signed." in text
        assert all(in_cases(words) in text for words in assumption_sentences(ordinary))
        assert ordinary.refused[0].reason in text
        assert ordinary.digest in text
        assert ordinary.plan.digest in text
        assert all(received.report.removeprefix("sha256:")[:12] in text for received in ordinary.reports)
        assert "the interval from prediction − q to prediction + q" in text
        assert "not differentially private" in text

    def test_no_figure_is_rounded_up(self, ordinary):
        text = Reader(certificate(ordinary)).text
        law = ordinary.law
        shown = float(re.search(r"the share covered is ([\d.]+) % or more", text)[1]) / 100
        assert law.ppf(0.05) - 0.001 < shown <= law.ppf(0.05)

    def test_the_law_is_a_picture(self, ordinary):
        page = certificate(ordinary)
        assert len(re.findall(r'<svg class="law"', page)) == 2  # wide, and narrow for a phone
        assert len(re.findall(r'<svg class="law marks"', page)) == 2
        for part in ("law-line", "law-pooled", "law-level", "law-mean", "law-low", "law-tail"):
            assert f'class="{part}"' in page

    def test_it_carries_the_calibration(self, ordinary):
        encoded = re.search(r'href="data:application/json;base64,([^"]+)"', certificate(ordinary))[1]
        assert fc.Calibration.from_json(base64.b64decode(encoded)) == ordinary

    def test_it_loads_and_runs_nothing(self, ordinary):
        read = Reader(certificate(ordinary))
        assert read.tags.isdisjoint({"script", "link", "img", "iframe", "object", "form", "base"})
        inside = [address for address in read.addresses if address.startswith("#")]
        assert all(f'id="{address[1:]}"' in certificate(ordinary) for address in inside)
        assert [address[:5] for address in read.addresses if address not in inside] == ["data:"]
        assert read.open == []

    def test_it_is_a_function_of_the_calibration(self, ordinary):
        assert certificate(ordinary) == certificate(fc.Calibration.from_json(ordinary.to_json()))


class TestVotes:
    """Several numbers from each site, and more votes for larger sites."""

    @pytest.fixture(scope="class")
    def several(self):
        sizes = {"north": 120, "south": 40, "west": 377, "east": 88}
        return calibration(fc.plan(n_points=sizes, numbers=3, score="absolute"))

    def test_what_was_given_away_and_how_much_each_site_counts(self, several):
        text = Reader(certificate(several)).text
        assert "Each site gave away 3 numbers and how many cases it has." in text
        assert "Votes were counted: the threshold is the smallest number sent at which" in text
        for answer in several.answers:
            ((weight,),) = answer.weights or ((1,),)
            ranks = ", ".join(map(str, answer.ranks[0]))
            assert f"{answer.site} {answer.n} {ranks} 3 × {weight} = {3 * weight} " in text

    def test_votes_needed_and_the_formula_of_the_law(self, several):
        text = Reader(certificate(several)).text
        assert f" {several.server_rank} of {several.part.n_votes(0)} " in text
        assert "P(C ≤ c) = P(Σⱼ Vⱼ ≥ k), Vⱼ = Σ wⱼᵢ over the i with lⱼᵢ ≤ Xⱼ" in text
        assert "the k-th smallest of what it received" not in text

    def test_equal_sites_with_one_number_are_counted_as_sites(self):
        text = Reader(certificate(calibration(fc.plan(n_sites=5, n_points=60)))).text
        assert "Each site gave away one number and how many cases it has." in text
        assert "q, the k-th smallest of what it received" in text
        assert "Votes were counted" not in text

    def test_sites_that_were_not_asked_and_the_silence_it_could_not_bear(self):
        plan = fc.plan(n_points={"large": 12_000, "small": 40})
        text = Reader(certificate(calibration(plan, skip=("small",)))).text
        assert "1 site (small) could never have changed the threshold, so the plan did not ask there." in text
        frail = calibration(fc.plan(n_points={"A": 90, "B": 60}))
        assert not frail.designs[0].survives()
        assert (
            "Had one site more been silent, the threshold could have been infinite."
            in Reader(certificate(frail)).text
        )


class TestKinds:
    def test_several_levels(self):
        plan = fc.plan(n_sites=5, n_points=60, confidence_level=[0.8, 0.9], criterion="conditional")
        found = calibration(plan)
        page = certificate(found)
        text = Reader(page).text
        assert all(repr(threshold) in text for threshold in found.thresholds)
        assert "for at least 80 % and 90 % of new cases, with 90 % certainty" in text
        assert page.count('<svg class="law"') == 2 * 2
        assert len(set(re.findall(r' id="([^"]+)"', page))) == len(re.findall(r' id="([^"]+)"', page))

    def test_many_sites_are_listed_up_to_a_point(self):
        text = Reader(certificate(calibration(fc.plan(n_sites=250, n_points=20, criterion="stable")))).text
        assert "and 50 more, all listed in the calibration." in text

    def test_private(self, private):
        text = Reader(certificate(private)).text
        assert "one of 40 public bins" in text
        assert "at most 7.39 times as likely or unlikely (e to the power ε = 2)" in text
        assert "can be 88.1 % sure which it was" in text
        assert "the chance to reach the level are lower bounds" in text
        assert "P(C ≤ c) ≤ P(number of sites" in text
        assert "The promise allows for 1 wrong report, in whatever way." in text

    def test_what_privacy_costs_is_said(self, private):
        text = Reader(certificate(private, effort=20)).text
        shown = re.search(r"expect them to cover about ([\d.]+) % where 90 % was asked for", text)[1]
        expected = private.designs[0].expected_law().mean()
        assert expected <= float(shown) / 100 < expected + 0.002

    def test_summed_answers(self):
        privacy = fc.Privacy(epsilon=4.0, bins=fc.Bins.uniform(0, 1, 4), one_hot=True)
        plan = fc.plan(n_sites=6, n_points=200, privacy=privacy)
        text = Reader(certificate(fc.calibrate_histogram(plan, [0, 0, 2, 3]))).text
        assert "The server saw the sum of all answers, not who sent which." in text
        assert "5 sites answered; 1 site did not." in text

    @pytest.mark.filterwarnings("ignore::fedconformal.InfeasibleWarning")
    def test_an_infinite_threshold_promises_nothing(self):
        page = certificate(calibration(fc.plan(n_sites=3, n_points=2)))
        text = Reader(page).text
        assert "No finite threshold keeps the promise" in text
        assert "every prediction set holds everything. It is never wrong, and it says nothing." in text
        assert "It would take 3 cases at every site or 5 sites of the smallest size." in text
        assert "On average, the truth lies" not in text
        assert "Every prediction set holds everything, so every new case is covered" in text
        assert "<svg" not in page

    def test_an_infinite_report_is_named(self):
        found = calibration(fc.plan(n_sites=3, n_points=20), scores=lambda n: np.full(n, np.inf))
        text = Reader(certificate(found)).text
        assert "The report that the server had to keep was itself infinite." in text

    def test_an_open_plan(self):
        plan = fc.plan(confidence_level=0.8)
        reports = [fc.report(plan, np.arange(n, dtype=float), site=f"{n}") for n in (30, 50, 70)]
        text = Reader(certificate(fc.calibrate(plan, reports))).text
        assert "3 sites answered. The reports were not signed." in text


class TestHostility:
    def test_names_and_reasons_are_escaped(self):
        plan = fc.plan(n_points=dict.fromkeys([*HOSTILE, "B"], 30))
        stray = fc.report(fc.plan(1, 30), np.arange(30.0), site="<img src=x onerror=alert(1)>")
        read = Reader(certificate(calibration(plan, skip=(HOSTILE[2],), extra=[stray])))
        assert read.tags.isdisjoint({"script", "img"})
        assert all(name in read.text for name in [*HOSTILE, stray.site])

    def test_a_claim_that_does_not_hold_gets_no_certificate(self, ordinary):
        found = ordinary.levels[0].model_copy(update={"server_rank": 1})
        forged = ordinary.model_copy(
            update={"parts": (ordinary.part.model_copy(update={"levels": (found,)}),)}
        )
        with pytest.raises(NotVerifiedError, match=r"its claim does not hold: level 0\.9"):
            certificate(forged)

    def test_tags_escape_what_was_not_made_here(self):
        made = tag("a", "<b>", Markup("<i></i>"), href='"><script>', class_="x")
        assert made == '<a href="&quot;&gt;&lt;script&gt;" class="x">&lt;b&gt;<i></i></a>'


@pytest.mark.parametrize("options", [{}, {"criterion": "conditional", "delta": 0.1}])
def test_a_promise_to_each_site_is_said_as_one(options):
    plan = fc.plan(n_points={"A": 100, "B": 60}, confidence_level=0.9, promise="each-site", **options)
    rng = np.random.default_rng(0)
    reports = [fc.report(plan, rng.random(n), site=site) for site, n in (("A", 100), ("B", 60))]
    text = Reader(certificate(fc.calibrate(plan, reports))).text
    assert "of the new cases of every site" in text
    assert "sites may differ in any way" in text
    assert re.search(
        r"The chance that this one covers 90 % or more at any one site is at least [\d.]+ %", text
    )
    assert "the share covered at any one site is" in text
    assert "new cases that one of them covers at any one site at the least" in text
    assert "Pooling all" not in text
    assert "brought together" not in text


def test_a_score_that_is_not_known_here_is_named():
    plan = fc.plan(n_sites=3, n_points=30)
    foreign = plan.model_copy(update={"score": ScoreRule(name="somebodys-own")})
    reports = [fc.report(foreign, np.arange(30.0), site=site) for site in "ABC"]
    text = Reader(certificate(fc.calibrate(foreign, reports))).text
    assert "The score of the plan, somebodys-own, is not one that is known here" in text
