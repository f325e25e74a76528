"""Studies beyond the figures of section 5: sites that differ, numbers, the authors'
results, two cases.
"""

import math
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import fedconformal as fc
from fedconformal.laws import MEAN_ERROR
from reproduce import (
    authors,
    data,
    heterogeneity,
    hospitals,
    numbers,
    open_questions,
    schools,
)
from reproduce.methods import EACH, QQ
from reproduce.protocol import MANY, Settings
from support import FALSE_ALARM

DOCS = Path(__file__).parents[2] / "docs"

needs_data = pytest.mark.skipif(
    not os.environ.get(data.FOLDER), reason="the data sets are not here"
)


# -- sites that differ --


@pytest.fixture(scope="module")
def differing():
    return heterogeneity.study(0.9, 10, factors=(1.0, 3.0), concentrations=(100.0, 0.1))


@pytest.mark.nightly
def test_simulation_exact_value_and_bound_agree(differing):
    """The mean of ten coverages lies between quantiles that each leaves once in 1e8:
    false alarm 4e-7.
    """
    curves = differing[differing["panel"] == heterogeneity.ONE_ODD].set_index(
        ["curve", "method", "x"]
    )
    plan = fc.plan(20, 100, criterion="marginal")
    half_normal = stats.halfnorm()
    for factor in (1.0, 3.0):
        law = fc.CoverageLaw(
            n_points=[100] * 20,
            local_rank=plan.local_ranks,
            server_rank=plan.server_rank,
            distortion=[None]
            + [lambda c, f=factor: half_normal.cdf(f * half_normal.ppf(c))] * 19,
        )
        exact = curves.loc[("exact law", QQ, factor), "coverage"]
        assert exact == pytest.approx(law.mean(), abs=1e-9)
        assert curves.loc[("Proposition 3.4", QQ, factor), "coverage"] <= exact + 1e-9
        assert (
            law.ppf(1e-8)
            < curves.loc[("simulated", QQ, factor), "coverage"]
            < law.ppf(1 - 1e-8)
        )
    assert curves.loc[("exact law", QQ, 1.0), "coverage"] == pytest.approx(
        plan.law.mean(), abs=1e-9
    )


@pytest.mark.nightly
def test_a_promise_to_each_site_holds_for_the_odd_one(differing):
    """The odd site's own threshold covers with the distribution Beta(91, 10); false
    alarm 1e-7.
    """
    curves = differing[differing["panel"] == heterogeneity.ONE_ODD].set_index(
        ["curve", "method", "x"]
    )
    worst = stats.beta(91, 10).ppf(1e-8)
    each, one = (
        curves.loc[("simulated", method, 3.0), "coverage"] for method in (EACH, QQ)
    )
    assert each > worst > one


# -- several numbers, open questions --


@pytest.mark.nightly
def test_the_limit_of_the_spread():
    assert numbers.asymptotic_spread(1) == pytest.approx(
        math.sqrt(math.pi / 2), abs=1e-12
    )
    limits = [numbers.asymptotic_spread(r) for r in (1, 2, 3, 5, 9, 20)]
    assert limits == sorted(limits, reverse=True)
    assert 1 < limits[-1] < 1.005
    for r in (1, 2, 3):  # 200 sites of 10,000 points are within 2 % of the limit
        assert numbers.spread([10_000] * 200, r) == pytest.approx(
            limits[r - 1], rel=0.02
        )


@pytest.mark.slow
def test_the_spread_is_that_of_simulated_thresholds():
    """20,000 federations: E[(C - 0.9)^2] within Hoeffding's limit for values in [0,
    0.81].
    """
    sizes, runs = (30, 60, 200), 20_000
    plan = fc.plan(n_points=sizes, numbers=2)
    rng = np.random.default_rng(2)
    values, votes = [], []
    for n, ranks, weight in zip(sizes, plan.local_ranks, plan.weights, strict=True):
        uniforms = np.sort(rng.random((runs, n)), axis=1)
        values += [uniforms[:, rank - 1] for rank in ranks]
        votes += [weight] * len(ranks)
    order = np.argsort(values, axis=0)
    enough = np.cumsum(np.array(votes)[order], axis=0) >= plan.server_rank
    coverage = np.sort(values, axis=0)[enough.argmax(axis=0), np.arange(runs)]
    pooled = fc.plan(1, sum(sizes), criterion="marginal").law.std()
    limit = 0.81 * math.sqrt(math.log(2 / FALSE_ALARM) / (2 * runs))
    assert (
        abs(np.mean((coverage - 0.9) ** 2) - (numbers.spread(sizes, 2) * pooled) ** 2)
        < limit
    )


def test_centralised_calibration_has_a_scaled_excess_below_one():
    """One site is centralised calibration; (95, 1) at m = 10, n = 100 misses the rate
    of Theorem 3.3.
    """
    scaled = open_questions.excess((1,), range(50, 60))["value"]
    assert scaled.between(-60 * MEAN_ERROR, 1).all()  # zero but for rounding at n = 59
    rows = open_questions.rate((10,), (100,)).set_index(["criterion", "delta"])["value"]
    assert rows["marginal", 0.01] == pytest.approx(0.0181, abs=5e-5)
    assert rows["stable", 0.01] < 0.01


# -- the authors' results --


@pytest.mark.nightly
@needs_data
def test_the_authors_numbers_to_the_last_digit():
    means = authors.side_by_side(authors.compute(Settings()))
    kept = pd.read_csv(DOCS / "results-authors.csv")
    pd.testing.assert_frame_equal(means, kept, check_dtype=False)


def test_all_published_ridge_means_agree_with_the_authors_pairs():
    means = pd.read_csv(DOCS / "results-authors.csv")
    other = (means["scenario"] == MANY) & (
        means["method"] == QQ
    )  # (l*, k*) is another pair
    same = means[~other]
    assert (len(same), len(means)) == (30, 35)
    assert (same["coverage"] == same["published_coverage"]).all()
    assert (same["length"] == same["published_length"]).all()
    assert (means[other]["length"] != means[other]["published_length"]).all()


def test_the_authors_pairs_and_the_mean_coverage_they_have():
    """Theorem 3.2 for (9, 61) at 79 x 10 and (9, 30) at 40 x 10, the latter below the
    level.
    """
    assert authors.PAIRS == {(79, 10): (9, 61), (40, 10): (9, 30)}
    for (m, n), (local, server), theirs, ours in (
        ((79, 10), (9, 61), 0.90699, (9, 59)),
        ((40, 10), (9, 30), 0.89902, (8, 38)),
    ):
        assert float(fc.laws.exact_mean([n] * m, [local] * m, server)) == pytest.approx(
            theirs, abs=5e-6
        )
        plan = fc.plan(m, n, criterion="marginal")
        assert (plan.local_ranks[0], plan.server_rank) == ours


def test_the_published_lengths_of_networks_shrink_and_no_others_do():
    published = authors.published()
    assert published.groupby(["scenario", "dataset", "model"]).ngroups == 30
    trends = published.dropna(subset="trend").set_index(
        ["model", "scenario", "dataset"]
    )["trend"]
    assert trends[["ridge", "forest"]].abs().max() == 0.33
    assert (trends["network"].min(), trends["network"].max()) == (-0.89, -0.33)
    assert (
        trends["network"] < -0.447
    ).sum() == 9  # of 10; two-sided 5 % of random orders are beyond 0.447


def test_fewer_runs_are_not_compared_with_means_over_twenty():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1100, 3))
    made = data.DataSet(
        "concrete", X, X @ [1.0, 2.0, 3.0] + rng.normal(size=1100), (40, 10), (10, 40)
    )
    rows = authors.protocol(made, 0.9, n_seeds=1)
    assert len(rows) == 7
    assert rows["published_length"].isna().all()
    assert len(authors.draw(rows).axes) == 3


# -- hospitals --


def patients(rng, healthy, sick):
    truth = np.repeat(hospitals.CLASSES, (healthy, sick))
    X = rng.normal(size=(truth.size, 13)) + 1.5 * (truth == "sick")[:, None]
    X[rng.random(X.shape) < 0.1] = np.nan
    return hospitals.Patients(X, truth)


@pytest.fixture(scope="module")
def counted():
    rng = np.random.default_rng(0)
    sizes = dict.fromkeys(hospitals.HOSPITALS, (60, 60)) | {"Switzerland": (6, 90)}
    return hospitals.study(
        {name: patients(rng, *size) for name, size in sizes.items()}, 0.9, 2
    )


@pytest.mark.nightly
def test_every_patient_is_counted_once(counted):
    default = counted[
        (counted["rule"] == "population (default)") & (counted["split"] == 1)
    ]
    counts = default.groupby("part")["n"].sum()
    assert counts.to_dict() == {
        hospitals.HERE: 3 * 40 + 32,
        hospitals.LEFT_OUT: 3 * 120 + 96,
    }


@pytest.mark.nightly
def test_what_cannot_be_promised_is_in_every_set(counted):
    new = counted[
        counted["rule"] == "new site"
    ]  # four hospitals are too few for a new one
    assert (new["labels"] == 2 * new["n"]).all()
    own = counted[counted["rule"] == "by class and site"]
    rare = own[(own["hospital"] == "Switzerland") & (own["truth"] == "healthy")]
    assert (rare["covered"] == rare["n"]).all()
    assert set(own["part"]) == {
        hospitals.HERE
    }  # a new hospital has no thresholds of its own


def test_cells_add_up_over_hospitals_and_classes():
    rows = pd.DataFrame(
        [
            (0, "A", "sick", 9),
            (0, "B", "healthy", 5),
            (1, "A", "sick", 7),
            (1, "B", "healthy", 5),
        ],
        columns=["split", "hospital", "truth", "covered"],
    ).assign(rule="x", confidence_level=0.9, part=hospitals.HERE, n=10, labels=15)
    cells = hospitals.summarise(rows).set_index(["hospital", "truth"])
    both = cells.loc[("all", "all")]
    assert (both["coverage"], both["size"], both["n"]) == (0.65, 1.5, 40)
    assert both["error"] == pytest.approx(np.std([14, 12], ddof=1) / np.sqrt(2) / 20)
    assert cells.loc[("B", "healthy"), "error"] == 0
    assert cells.loc[("B", "healthy"), "short"]
    assert not cells.loc[("A", "sick"), "short"]  # 0.8 with an error of 0.1


@needs_data
def test_the_real_patients():
    records = hospitals.load()
    assert [len(found.truth) for found in records.values()] == [303, 294, 123, 200]
    shares = [
        round(float((found.truth == "sick").mean()), 2) for found in records.values()
    ]
    assert shares == [0.46, 0.36, 0.93, 0.74]
    assert np.isnan(records["Cleveland"].X).sum() == len(hospitals.GAPS)


# -- schools --


def test_the_distribution_of_coverages_without_the_noise_of_counting():
    """Counts of 20,000 schools whose coverages follow Beta(18, 2); fixed seed."""
    rng = np.random.default_rng(1)
    n = rng.integers(20, 100, size=20_000)
    covered = rng.binomial(n, rng.beta(18, 2, size=n.size))
    assert schools.beta_distribution(n, covered) == pytest.approx((18, 2), rel=0.06)


def test_the_mean_counts_each_school_alike():
    rows = pd.DataFrame(
        [(0, 10, 9), (0, 100, 70), (1, 10, 10), (1, 100, 80)],
        columns=["draw", "n", "covered"],
    ).assign(method="x", confidence_level=0.9, threshold=1.0)
    (found,) = schools.summarise(rows).itertuples()
    assert found.coverage == pytest.approx((0.8 + 0.9) / 2)
    assert found.error == pytest.approx(np.std([0.8, 0.9], ddof=1) / np.sqrt(2))
    assert schools.reached(found)  # 0.85 with an error of 0.05
    assert (found.below, found.width) == (0.5, 2.0)


def test_the_real_schools():
    found = schools.load()
    assert len(found) == 4059
    assert found["school"].nunique() == 65
    assert np.corrcoef(found["standLRT"], found["normexam"])[0, 1] == pytest.approx(
        0.5917, abs=1e-4
    )
