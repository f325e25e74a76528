"""A certificate of a calibration with groups says of each group what it says."""

import base64
import re

import numpy as np
import pytest
from reading import Reader

import fedconformal as fc
from fedconformal import audit
from fedconformal.audit import Finding
from fedconformal.protocol import assumption_sentences
from fedconformal.web import NotVerifiedError, certificate
from fedconformal.web._cases import in_cases
from fedconformal.web.certificates import _page

MIX = {"north": (160, 20, 1), "south": (120, 40, 1), "west": (70, 90, 0)}
LABELS = ("adult", "child", "infant")
POLICY = fc.SitePolicy(min_group=1)


def group_plan(**options):
    sizes = {label: {site: n[i] for site, n in MIX.items()} for i, label in enumerate(LABELS)}
    return fc.plan(groups=sizes, on_infeasible="ignore", min_group=1, **options)


def calibrated(plan, *, without=(), seed=3):
    """Every site answers for every group, but for the pairs of site and group that are left out."""
    rng = np.random.default_rng(seed)
    reports = []
    for site, sizes in MIX.items():
        labels = np.repeat(LABELS, sizes)
        labels = labels[[(site, label) not in without for label in labels]]
        reports.append(
            fc.report(plan, rng.gamma(2.0, size=labels.size), groups=labels, site=site, policy=POLICY)
        )
    return fc.calibrate(plan, reports, on_refused="skip")


@pytest.fixture(scope="module")
def grouped():
    plan = group_plan(confidence_level=[0.8, 0.9], score="absolute")
    return calibrated(plan, without={("west", "adult")})


def test_the_headline_counts_the_groups_with_a_finite_threshold(grouped):
    text = Reader(certificate(grouped)).text
    assert "at least 80 % and 90 % of new cases in 2 of 3 groups, on average" in text
    assert (
        f"3 sites with {280 + 150 + 2} calibration cases in all agreed on a threshold q for each of" in text
    )


def test_there_is_a_card_for_each_group_and_level(grouped):
    page = certificate(grouped)
    cards = re.findall(r'<div class="card( warning)?">(.*?)</div>', page)
    assert len(cards) == 6
    assert [bool(warning) for warning, _ in cards] == [False] * 4 + [True] * 2
    for label, (_, *cells) in zip(np.repeat(LABELS, 2), cards, strict=True):
        assert f"Group “{label}”" in cells[0]
    for label in ("adult", "child"):
        for threshold in grouped[label].thresholds:
            assert repr(threshold) in page
        assert f"for at least 90 % of new cases of the group “{label}”." in Reader(page).text


def test_laws_are_those_of_the_groups(grouped):
    page = certificate(grouped)
    text = Reader(page).text
    assert page.count('<svg class="law"') == 2 * 4
    identifiers = re.findall(r' id="([^"]+)"', page)
    assert len(set(identifiers)) == len(identifiers)
    for label in ("adult", "child"):
        for law in grouped[label].laws:
            mean, low = (int(value * 1e4) / 100 for value in (law.mean(), law.ppf(0.05)))
            assert re.search(rf"{label} [89]0 % \d+ of \d+ {mean:.2f} % [\d.]+ % {low:.2f} %", text)
    assert "Dashed: pooling all 280 cases in one place." in text
    assert "Dashed: pooling all 150 cases in one place." in text


def test_who_is_missing_is_said_where(grouped):
    text = Reader(certificate(grouped)).text
    assert "3 sites answered. The reports were not signed." in text
    assert "adult 2 280 1 west" in text
    assert "child 3 150 0 nobody" in text
    for received in grouped.reports:
        assert f"{received.site} {received.report.removeprefix('sha256:')[:12]}" in text


def test_assumptions_and_findings_are_all_there(grouped):
    text = Reader(certificate(grouped)).text
    assert all(in_cases(sentence) in text for sentence in assumption_sentences(grouped))
    for finding in audit.verify(grouped):
        assert f"{finding.claim} {finding.found} yes" in text


def test_it_carries_the_calibration(grouped):
    encoded = re.search(r'href="data:application/json;base64,([^"]+)"', certificate(grouped))[1]
    assert fc.Calibration.from_json(base64.b64decode(encoded)) == grouped


def test_a_group_with_too_few_answers_promises_nothing():
    plan = fc.plan(groups={label: dict.fromkeys(MIX, 40) for label in LABELS[:2]}, max_faulty=1)
    rng = np.random.default_rng(1)
    reports = [
        fc.report(plan, rng.random(80), groups=np.repeat(LABELS[:2], 40), site="north"),
        fc.report(plan, rng.random(40), groups=["adult"] * 40, site="south"),
        fc.report(plan, rng.random(40), groups=["adult"] * 40, site="west"),
    ]
    found = fc.calibrate(plan, reports)
    assert found["child"].law is None
    text = Reader(certificate(found)).text
    assert "1 site answered for it, and 3 answers are needed." in text
    assert "child 90 % too few answers – – – –" in text
    assert "child 1 40 2 south and west" in text
    assert "The promise allows for 1 wrong report in each group, in whatever way." in text


def test_a_group_that_privacy_leaves_unanswered_says_what_would_help(tmp_path):
    privacy = fc.Privacy(epsilon=3.0, bins=fc.Bins.uniform(0, 20, 40))
    plan = fc.plan(groups={"adult": [900] * 3, "infant": [5] * 3}, privacy=privacy, on_infeasible="ignore")
    ledger = fc.Ledger.create(tmp_path / "ledger.db")
    labels, rng, reports = np.repeat(["adult", "infant"], [900, 5]), np.random.default_rng(2), []
    for site in "ABC":
        ledger.set_budget(site, 3)
        scores = rng.gamma(2.0, size=labels.size)
        reports.append(fc.report(plan, scores, groups=labels, site=site, ledger=ledger, dataset=site))
    text = Reader(certificate(fc.calibrate(plan, reports))).text
    assert "No site answered for it, and 1 answer is needed." in text
    assert plan["infant"].problems[0] in text
    assert "1.5-differentially private for somebody with one case in every group" in text
    assert "by permute-and-flip" in text
    assert "the chance to reach the level are lower bounds" in text


def test_what_was_refused_in_a_group_is_named():
    plan = fc.plan(groups={"adult": {"A": 30, "B": 30}, "child": {"A": 30, "B": 30}})
    labels = np.repeat(["adult", "child"], 30)
    good = [fc.report(plan, np.arange(60.0), groups=labels, site=site) for site in "AB"]
    part = good[0]["child"]
    fewer = part.model_copy(update={"n": part.n - 1})
    wrong = good[0].model_copy(update={"parts": (good[0]["adult"], fewer)})
    text = Reader(certificate(fc.calibrate(plan, [wrong, good[1]], on_refused="skip"))).text
    assert "These numbers did not count, although the reports they came in did." in text
    assert re.search(r"child A the plan expects", text)


def test_hostile_labels_are_escaped():
    labels = ["<script>alert(1)</script>", "\"onload='x'", "&amp;</style>"]
    plan = fc.plan(groups={label: {"A": 30, "B": 30} for label in labels})
    each = np.repeat(labels, 30)
    reports = [fc.report(plan, np.arange(90.0), groups=each, site=site) for site in "AB"]
    read = Reader(certificate(fc.calibrate(plan, reports)))
    assert read.tags.isdisjoint({"script", "img"})
    assert read.open == []
    assert all(label in read.text for label in labels)


def test_many_groups_are_drawn_up_to_a_point():
    labels = [f"class {i:02}" for i in range(15)]
    plan = fc.plan(groups={label: {"A": 20, "B": 20} for label in labels})
    each = np.repeat(labels, 20)
    reports = [fc.report(plan, np.arange(300.0), groups=each, site=site) for site in "AB"]
    page = certificate(fc.calibrate(plan, reports))
    assert page.count('<svg class="law"') == 2 * 12
    assert "3 more are not drawn; the table has all of them." in page


def test_a_claim_of_one_group_that_does_not_hold_gets_no_certificate(grouped):
    found = grouped.parts[1].levels[1].model_copy(update={"server_rank": 1})
    part = grouped.parts[1].model_copy(update={"levels": (grouped.parts[1].levels[0], found)})
    forged = grouped.model_copy(update={"parts": (grouped.parts[0], part, grouped.parts[2])})
    with pytest.raises(NotVerifiedError, match=r"its claim does not hold: 'child': level 0\.9"):
        certificate(forged)


def test_a_claim_that_the_auditor_does_not_know_is_no_secret(grouped, monkeypatch):
    monkeypatch.setattr(_page, "verify", lambda found, **_: [Finding("it is kept", "nobody knows", None)])
    text = Reader(certificate(grouped)).text
    assert "it is kept nobody knows not counted" in text
    assert "1 claim of this calibration could not be counted again" in text
    assert (
        "1 claim could not be counted again, because this code does not know how, or would take too long"
        in text
    )


@pytest.mark.parametrize(
    ("group_by", "headline", "first"),
    [
        ("class", "in each of 2 classes", "class “adult”"),
        (("site", "class"), "in each of 6 groups", "class “adult” at the site “north”"),
        (("site", "label"), "in each of 6 groups", "group “adult” at the site “north”"),
    ],
)
def test_groups_by_class_and_site_are_called_so(group_by, headline, first):
    sizes = {label: {site: n[i] for site, n in MIX.items()} for i, label in enumerate(LABELS[:2])}
    plan = fc.plan(groups=sizes, group_by=group_by, score="lac")
    rng, reports = np.random.default_rng(0), []
    for site, n in MIX.items():
        labels = np.repeat(LABELS[:2], n[:2])
        reports.append(fc.report(plan, rng.random(labels.size), groups=labels, site=site))
    text = Reader(certificate(fc.calibrate(plan, reports))).text
    assert f"at least 90 % of new cases {headline}, on average" in text
    assert f"for at least 90 % of new cases of the {first}." in text
    assert ("Each label has its own q." in text) == ("class" in group_by)
    assert ("This is for labels of this class" in text) == ("class" in group_by)
    assert f"The law of the coverage at 90 % for the {first}." in text
    assert f"{first[:1].upper()}{first[1:]}: Twenty calibrations like this one." in text
    assert ("at most q of that class." in text) == ("class" in group_by)


def test_thresholds_of_each_sites_own():
    plan = fc.plan(n_points={"north": 40, "south": 50}, group_by="site")
    rng = np.random.default_rng(0)
    reports = [fc.report(plan, rng.random(n), site=site) for site, n in (("north", 40), ("south", 50))]
    text = Reader(certificate(fc.calibrate(plan, reports))).text
    assert "of new cases in each of 2 sites, on average" in text
    assert "of new cases of the site “north”." in text
    assert "A threshold is used for new cases of its own site alone." in text
