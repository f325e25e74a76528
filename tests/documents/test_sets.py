"""Sets straight from predictions, with the thresholds of a calibration."""

import numpy as np
import polars as pl
import pytest

import fedconformal as fc
from fedconformal.documents import UnknownGroupWarning

CLASSES = ("b", "a", "c")
LEVELS = (0.7, 0.8)


def calibrated(score="lac", group_by="class", levels=LEVELS, seed=0):
    rng = np.random.default_rng(seed)
    sizes = {label: {"A": 40, "B": 30 + 5 * i} for i, label in enumerate(CLASSES)}
    plan = fc.plan(
        groups=sizes, group_by=group_by, score=score, confidence_level=levels
    )
    reports = []
    for site in "AB":
        labels = np.repeat(CLASSES, [sizes[label][site] for label in CLASSES])
        values = rng.random(labels.size) * np.repeat(
            [1, 0.8, 0.5], [sizes[label][site] for label in CLASSES]
        )
        reports.append(fc.report(plan, values, groups=labels, site=site))
    return fc.calibrate(plan, reports)


@pytest.fixture(scope="module")
def probabilities():
    return np.random.default_rng(1).dirichlet([1, 1, 1], size=50)


@pytest.mark.parametrize("score", [fc.scores.LAC(), fc.scores.APS(randomized=True)])
def test_a_class_is_in_the_set_if_its_score_is_at_most_its_own_threshold(
    score, probabilities
):
    found = calibrated(score=score)
    u = np.random.default_rng(2).random(50)
    draws = {"u": u} if score.needs_draws else {}
    sets = found.predict_set(probabilities, u=u)
    for k, label in enumerate(CLASSES):
        values = score.score(np.full(50, k), probabilities, **draws)
        for i in range(len(LEVELS)):
            assert (
                sets[:, k, i] == (values <= found[label, LEVELS[i]].threshold)
            ).all()


def test_each_site_uses_thresholds_of_its_own(probabilities):
    found = calibrated(group_by=("site", "class"))
    for site in "AB":
        sets = found.predict_set(probabilities, site=site)
        for k, label in enumerate(CLASSES):
            for i in range(len(LEVELS)):
                threshold = found[f"{site}: {label}", LEVELS[i]].threshold
                assert (sets[:, k, i] == (1 - probabilities[:, k] <= threshold)).all()
        assert found.threshold_of(["c", "a"], site=site).tolist() == [
            list(found[f"{site}: {label}"].thresholds) for label in "ca"
        ]
    with pytest.raises(
        ValueError,
        match="site must be given: every site has its own threshold, here 'A', 'B'",
    ):
        found.predict_set(probabilities)
    with pytest.raises(
        ValueError, match="site must be one of the plan's, 'A', 'B', got 'C'"
    ):
        found.predict_set(probabilities, site="C")


def test_columns_in_another_order_are_put_in_order_by_name(probabilities):
    found = calibrated(levels=0.8)
    sets, order = found.predict_set(probabilities), [2, 0, 1]
    names = [CLASSES[place] for place in order]
    assert (
        found.predict_set(probabilities[:, order], classes=names) == sets[:, order]
    ).all()
    frame = pl.DataFrame(
        probabilities[:, order], schema=[f"p_{name}" for name in names]
    )
    assert (found.predict_set(frame) == sets[:, order]).all()
    with pytest.raises(ValueError, match="columns must be named after the classes"):
        found.predict_set(probabilities, classes=["a", "b", "d"])
    with pytest.raises(
        ValueError,
        match=r"one column for each of the 3 classes of the plan, got shape \(50, 2\)",
    ):
        found.predict_set(probabilities[:, :2])


def test_without_groups():
    plan = fc.plan(n_points=[40, 40], score="lac", confidence_level=LEVELS)
    rng = np.random.default_rng(0)
    found = fc.calibrate(
        plan, [fc.report(plan, rng.random(40), site=site) for site in "AB"]
    )
    chances = rng.dirichlet([1, 1], size=9)
    assert (
        found.predict_set(chances)
        == fc.scores.LAC().set(chances, np.array(found.thresholds))
    ).all()
    with pytest.raises(ValueError, match="is not of numbers: use predict_set"):
        found.predict_interval(chances)
    with pytest.raises(ValueError, match="the plan does not name its classes"):
        found.predict_set(chances, classes=["a", "b"])
    with pytest.raises(ValueError, match="site must be left out, got 'A'"):
        found.predict_set(chances, site="A")
    with pytest.raises(ValueError, match="this model was calibrated without groups"):
        found.predict_set(chances, groups=["a"] * 9)


def test_intervals_by_group():
    rng = np.random.default_rng(0)
    plan = fc.plan(groups={"old": [40, 40], "young": [50, 50]}, score="absolute")
    labels = ["old"] * 40 + ["young"] * 50
    found = fc.calibrate(
        plan, [fc.report(plan, rng.random(90), groups=labels, site=s) for s in "AB"]
    )
    groups = ["young", "old", "baby"]
    with pytest.warns(UnknownGroupWarning, match="'baby'"):
        intervals = found.predict_interval([0.0, 0.0, 0.0], groups=groups)
    expected = [found["young"].threshold, found["old"].threshold, np.inf]
    assert intervals[:, 1] == pytest.approx(expected, rel=1e-12)
    with pytest.raises(ValueError, match="the calibration has 'old', 'young'"):
        found.predict_interval([0.0])


def test_the_score_is_the_plans():
    plan = fc.plan(n_points=[40, 40])
    rng = np.random.default_rng(0)
    found = fc.calibrate(
        plan, [fc.report(plan, rng.random(40), site=site) for site in "AB"]
    )
    with pytest.raises(ValueError, match="score must be given: the plan fixes none"):
        found.predict_interval([1.0])
    assert found.predict_interval([1.0], score=fc.scores.Absolute()).shape == (1, 2)
    with pytest.raises(ValueError, match="score must be the score of the plan"):
        calibrated().predict_set([[0.2, 0.3, 0.5]], score=fc.scores.APS())


def test_intervals():
    rng = np.random.default_rng(0)
    plan = fc.plan(n_points={"A": 40, "B": 50}, group_by="site", score="absolute")
    found = fc.calibrate(
        plan,
        [
            fc.report(plan, rng.random(n), site=site)
            for site, n in [("A", 40), ("B", 50)]
        ],
    )
    for site in "AB":
        expected = fc.scores.Absolute().set([1.0, 2.0], found[site].threshold)
        assert (found.predict_interval([1.0, 2.0], site=site) == expected).all()
    assert found.threshold_of(["B", "A"]).tolist() == [
        found["B"].threshold,
        found["A"].threshold,
    ]
    with pytest.raises(ValueError, match="is of numbers: use predict_interval"):
        found.predict_set([[0.5, 0.5]], site="A")
