"""What is seen of documents on a line, after a tab and in a notebook."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import fedconformal as fc

SCORES = {
    name: np.random.default_rng(len(name)).random(50) for name in ("a", "bb", "ccc")
}


@pytest.fixture(scope="module")
def calibration():
    return fc.conformalize(SCORES, score="absolute")


def test_one_short_line(calibration):
    assert (
        repr(fc.plan(10, 79))
        == "<Plan: 10 sites, 79 points each, level 0.9, promise population, criterion"
        " stable>"
    )
    assert (
        str(fc.plan())
        == "<Plan: any number of sites, open sizes, level 0.9, promise population,"
        " criterion stable>"
    )
    assert (
        repr(calibration)
        == f"<Calibration: threshold {calibration.threshold:.6g} at level 0.9, 3 of 3"
        " sites answered>"
    )
    report = fc.report(calibration.plan, SCORES["a"], site="a")
    assert repr(report) == "<Report: 1 number for 50 scores, site 'a'>"


def test_groups_and_privacy_on_a_line():
    sizes = {"x": {"A": 30}, "y": {"A": 40, "B": 50}}
    assert "2 sites, 2 groups, 30 to 50 points each, level 0.5, 0.8" in repr(
        fc.plan(groups=sizes, confidence_level=[0.5, 0.8])
    )
    with pytest.warns(fc.InfeasibleWarning, match="epsilon 0.01"):
        private = fc.plan(5, 20, privacy=fc.Privacy(0.01, fc.Bins.uniform(0, 1, 5)))
    assert repr(private).endswith("criterion stable, epsilon 0.01, infinite threshold>")
    grouped = fc.conformalize(
        {"A": range(40)}, groups={"A": ["x", "y"] * 20}, confidence_level=0.8
    )
    assert (
        repr(grouped)
        == "<Calibration: thresholds for 2 groups at level 0.8, 1 of 1 site answered>"
    )


def test_our_names_alone_after_a_tab(calibration):
    for document in (calibration, calibration.plan):
        names = {name for name in dir(document) if not name.startswith("_")}
        assert not {name for name in names if name.startswith("model_")} | (
            names & {"dict", "json", "copy"}
        )
        assert {"to_json", "digest", "read"} <= names
    assert {"threshold", "predict_interval", "predict_set"} <= set(dir(calibration))


def test_a_notebook_shows_the_promise(calibration):
    page = calibration._repr_html_()
    assert "at least 90\N{NO-BREAK SPACE}% of new cases" in page
    assert repr(calibration.threshold) in page
    assert "<script" not in page
    assert (
        "at least 90\N{NO-BREAK SPACE}% of new cases" in calibration.plan._repr_html_()
    )


def test_a_notebook_shows_no_claim_that_does_not_hold(calibration):
    part = calibration.parts[0]
    levels = (part.design.levels[0].model_copy(update={"votes": 1}),)
    design = part.design.model_copy(update={"levels": levels})
    forged = part.model_copy(update={"design": design})
    page = calibration.model_copy(update={"parts": (forged,)})._repr_html_()
    assert "does not hold" in page
    assert "at least 90" not in page


def test_names_from_elsewhere_are_no_markup():
    plan = fc.plan(groups={"<b>": {"<i>": 40}}, confidence_level=0.8)
    assert "<b>" not in plan._repr_html_()
    assert "&lt;b&gt;" in plan._repr_html_()


def test_an_estimator_shows_the_promise_once_it_is_calibrated():
    X, y = np.arange(60.0)[:, None], np.random.default_rng(0).random(60)
    conformal = fc.FederatedConformalRegressor(LinearRegression().fit(X, y))
    promise = "at least 90\N{NO-BREAK SPACE}% of new cases"
    assert promise not in conformal._repr_html_()
    conformal.conformalize(X, y, sites=["A"] * 60)
    assert promise in conformal._repr_html_()
    assert promise in conformal._repr_mimebundle_()["text/html"]


def test_a_site_that_was_not_asked_did_not_fail_to_answer():
    scores = {"north": np.arange(120.0), "south": np.arange(40.0)}
    calibration = fc.conformalize(scores)
    assert calibration.not_asked == ("south",)
    assert repr(calibration).endswith("1 of 1 site answered, 1 not asked>")
