"""Cases that a promise does not cover, and cases that do not count, are named wherever
a calibration is shown; totals of cases add up.
"""

import os
import re
from collections import Counter

import numpy as np
import pytest
from reading import Reader, text_of

import fedconformal as fc
from fedconformal.cli._calibrate import _show
from fedconformal.pages import certificate
from fedconformal.pages._desk import show
from fedconformal.protocol import uncovered_sentences
from reproduce import data, hospitals

CLASSES = ("healthy", "sick")
ONE_CASE = (
    "Site 'Switzerland' has too few cases of 'healthy', or none, for a threshold of its"
    " own: there, every set contains 'healthy'."
)
NOT_COUNTED = (
    "Cases without a group of the plan are not among the cases that are counted."
)
SIZES = {
    "Cleveland": (55, 46),
    "Switzerland": (1, 38),
    "VA": (17, 50),
}


def make_plan(group_by, sizes=SIZES, **options):
    groups = {
        label: {site: own[i] for site, own in sizes.items()}
        for i, label in enumerate(CLASSES)
    }
    return fc.plan(groups=groups, group_by=group_by, score="lac", **options)


def make_report(plan, site, sizes=SIZES, policy=None):
    labels = np.repeat(CLASSES, sizes[site])
    scores = np.random.default_rng(len(site)).random(labels.size)
    return fc.report(plan, scores, groups=labels, site=site, policy=policy)


def make_calibration(plan, sizes=SIZES):
    return fc.calibrate(plan, [make_report(plan, site, sizes) for site in sizes])


def printed(capsys, calibration):
    capsys.readouterr()
    _show(calibration)
    return " ".join(capsys.readouterr().out.split())


def outputs(calibration, capsys, folder):
    """Return what is read first in each output, all of it where it is short."""
    (folder / "plan.json").write_text(calibration.plan.to_json())
    (folder / "calibration.json").write_text(calibration.to_json())
    page = Reader(certificate(calibration)).text
    return {
        "terminal": printed(capsys, calibration),
        "certificate, page one": page.partition("What was found since")[0],
        "desk": text_of(show(folder)),
        "notebook": text_of(calibration._repr_html_()),
    }


def test_one_healthy_case_at_a_site(capsys, tmp_path):
    calibration = make_calibration(make_plan(("site", "class")))
    assert uncovered_sentences(calibration) == (ONE_CASE, NOT_COUNTED)
    for name, text in outputs(calibration, capsys, tmp_path).items():
        assert ONE_CASE in text, name
        assert NOT_COUNTED in text, name
    assert calibration.without_threshold == ("Switzerland: healthy",)
    assert "no finite threshold for 'Switzerland: healthy'" in str(calibration)
    assert calibration.plan.notes[0] == ONE_CASE


def test_prevalence_is_not_stated_of_what_was_not_counted():
    calibration = make_calibration(make_plan(("site", "class")))
    page = Reader(certificate(calibration)).text
    assert "Switzerland 38 not counted 38 cases" in page
    assert "Cleveland 101 54.5 % 45.5 %" in page
    assert " 0.0 %" not in page
    assert "of a site that did not answer for every class, how many cases" in page


def test_past_cases_add_up(capsys, tmp_path):
    calibration = make_calibration(make_plan(("site", "class")))
    page = Reader(certificate(calibration)).text
    listed = page.partition("Sites that answered")[2].partition("Missing sites")[0]
    by_site = [int(number) for number in re.findall(r"\((\d+) cases\)", listed)]
    assert sum(by_site) == 101 + 38 + 67
    assert "3 sites used 206 past cases" in page
    answers = calibration.parts
    assert sum(kind.n for part in answers for kind in part.design.kinds) == 206


def test_a_site_that_answered_for_one_class_counts_with_that_class(capsys, tmp_path):
    """VA holds its 17 healthy cases back: its own min_group is 20."""
    plan = make_plan(("site", "class"))
    strict = fc.SitePolicy(min_group=20)
    reports = [make_report(plan, site) for site in ("Cleveland", "Switzerland")]
    calibration = fc.calibrate(plan, [*reports, make_report(plan, "VA", policy=strict)])
    endless = (
        "Group 'VA: healthy': no finite threshold at 90 %, so every set at 'VA'"
        " contains 'healthy'."
    )
    for name, text in outputs(calibration, capsys, tmp_path).items():
        assert ONE_CASE in text, name
        assert endless in text, name
    assert calibration.without_threshold == ("Switzerland: healthy", "VA: healthy")
    page = Reader(certificate(calibration)).text
    assert "VA (50 cases)" in page.partition("Missing sites")[0]
    missing = page.partition("Missing sites")[2].partition("Whom it does not cover")[0]
    assert "1 site in some group: VA (17 cases)" in missing
    assert "3 sites used 189 past cases" in page
    assert "VA 50 not counted 50 cases" in page


def test_sites_that_are_no_part_of_a_class_are_named(capsys, tmp_path):
    """Thresholds by class cover them if sites are alike, but do not count them."""
    plan = make_plan("class")
    sentence = (
        "Group 'healthy': 1 site is not asked, as it has too few cases of it, or none:"
        " 'Switzerland'."
    )
    assert sentence in plan.notes
    calibration = make_calibration(plan)
    for name, text in outputs(calibration, capsys, tmp_path).items():
        assert sentence in text, name
        assert NOT_COUNTED in text, name
        assert "Nothing is promised" not in text, name
    assert calibration.without_threshold == ()
    page = Reader(certificate(calibration)).text
    assert "Switzerland 38 not counted 38 cases" in page


def test_a_promise_to_each_site_is_not_for_those_that_did_not_answer(capsys, tmp_path):
    calibration = make_calibration(make_plan("class", promise="each-site"))
    sentence = (
        "Nothing is promised to cases of group 'healthy' at 'Switzerland': 1 site did"
        " not answer for them."
    )
    for name, text in outputs(calibration, capsys, tmp_path).items():
        assert sentence in text, name
    plan = fc.plan(n_points={"A": 40, "B": 50}, promise="each-site")
    calibration = fc.calibrate(plan, [fc.report(plan, range(40), site="A")])
    for name, text in outputs(calibration, capsys, tmp_path).items():
        assert "Nothing is promised to cases at 'B': 1 site did not" in text, name


@pytest.mark.parametrize(
    "options", [{"n_points": {"A": 40, "B": 50}}, {"group_by": "site"}]
)
def test_nothing_is_said_where_all_are_covered(capsys, tmp_path, options):
    plan = fc.plan(**{"n_points": {"A": 40, "B": 50}, **options})
    reports = [fc.report(plan, range(n), site=s) for s, n in (("A", 40), ("B", 50))]
    calibration = fc.calibrate(plan, reports)
    assert uncovered_sentences(calibration) == ()
    for name, text in outputs(calibration, capsys, tmp_path).items():
        assert "Whom it does not cover" not in text, name
        assert NOT_COUNTED not in text, name
    assert "no finite threshold" not in str(calibration)


def test_many_sites_without_a_class_are_shortened():
    sizes = {f"site {i:02}": (0, 20) for i in range(30)} | {"whole": (40, 40)}
    sentences = uncovered_sentences(
        make_calibration(make_plan(("site", "class"), sizes), sizes)
    )
    assert len(sentences) == 10 + 1 + 1
    assert sentences[10] == ("The same holds for 20 more pairs of a site and a label.")
    plan = make_plan("class", {f"site {i:02}": (0, 20) for i in range(30)} | SIZES)
    assert any("31 sites are not asked" in note for note in plan.notes)
    assert all(len(note) < 300 for note in plan.notes)


# -- later cases -----------------------------------------------------------------------


def check_later(calibration, cases, period=None):
    """Return the answer of each site on new cases of known truth."""
    answers = []
    for site, truths in cases.items():
        answers.append(
            fc.monitoring.answer(
                calibration,
                np.zeros(len(truths)),
                site=site,
                groups=truths,
                period=period,
            )
        )
    return answers


def later_cases(sizes):
    return {site: np.repeat(CLASSES, own).tolist() for site, own in sizes.items()}


def compare_totals(calibration, checks, watched):
    """Compare the totals of answers, assessment, watch and certificate; return them."""
    n = sum(check.n for check in checks)
    page = Reader(certificate(calibration, checks=checks)).text
    assert f"On {n} later cases" in page
    apart = "A site leaves groups smaller than its min_group out of its answer"
    assert page.count(apart) == 1
    together = fc.monitoring.watch(calibration, watched)
    assert together.n == together.rows[0].n == sum(check.n for check in watched)
    assert together.rows[0].name == "all sites together"
    page = Reader(certificate(calibration, checks=watched)).text
    assert f"{together.n} later cases since" in page
    assert f"of {together.n} " in page
    assert page.count(apart) == 1
    return n, together.n


def test_later_cases_have_one_total():
    """Of 2 healthy cases in Switzerland a check says nothing: min_group is 5."""
    sizes = SIZES | {"Switzerland": (2, 38)}
    calibration = make_calibration(make_plan(("site", "class")))
    cases = later_cases(sizes)
    assert sum(map(len, cases.values())) == 208
    checks = check_later(calibration, cases)
    watched = []
    for month in (1, 2, 3):
        watched += check_later(calibration, cases, period=f"2027-0{month}")
    assert compare_totals(calibration, checks, watched) == (206, 618)


@pytest.mark.skipif(
    not os.environ.get(data.FOLDER), reason="the data sets are not here"
)
def test_four_hospitals(capsys, tmp_path):
    """The case study: a third of the patients calibrates, a third is counted later."""
    records = hospitals.load()
    parts = {
        name: hospitals.thirds(found.truth, np.random.default_rng(5))
        for name, found in records.items()
    }
    past, later = (
        {name: records[name].truth[parts[name][i]] for name in records} for i in (1, 2)
    )
    counts = {name: Counter(truths.tolist()) for name, truths in past.items()}
    sizes = {name: (own["healthy"], own["sick"]) for name, own in counts.items()}
    assert sizes["Switzerland"][0] < 5
    calibration = make_calibration(make_plan(("site", "class"), sizes), sizes)
    for name, text in outputs(calibration, capsys, tmp_path).items():
        assert ONE_CASE in text, name
    checks = check_later(calibration, later)
    watched = check_later(calibration, later, period="2027-01")
    n = sum(own.size for own in later.values())
    in_switzerland = int((later["Switzerland"] == "healthy").sum())
    assert compare_totals(calibration, checks, watched) == (n - in_switzerland,) * 2
