"""The documentation is no older than the plans, and its tables, figures and sentences
belong to its rows.
"""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import fedconformal as fc
from reproduce import (
    authors,
    bounds,
    conditional,
    hospitals,
    numbers,
    open_questions,
    publish,
    risk,
)
from reproduce import figure_2_compensation as figure_2
from reproduce import figure_3_intervals as figure_3
from reproduce.data import DATA_SETS
from reproduce.methods import (
    AVERAGE,
    AVERAGE_NEXT,
    CENTRALISED,
    CURVE,
    METHODS,
    PRIVATE_METHODS,
    QQ,
    THREE,
    plan_text,
)
from reproduce.models import MODELS
from reproduce.protocol import FEW, MANY, Settings, summarise
from reproduce.publish import estimate, keyed, length_ratio
from reproduce.studies import STUDIES, fingerprint, plans

DOCS = Path(__file__).parents[2] / "docs"
AGAIN = (
    "the plan has changed since docs/results* were made: run 'make results', see"
    " docs/research.md"
)
REDRAW = "does not belong to the rows in docs: run 'make pages', see docs/research.md"


@pytest.fixture(scope="module")
def splits():
    return pd.read_csv(DOCS / publish.SPLITS)


@pytest.mark.slow
def test_tables_are_those_of_the_published_rows():
    for name, tables in publish.tables(DOCS).items():
        page = (DOCS / name).read_text()
        assert publish.with_tables(page, tables) == page, f"a table of {name} {REDRAW}"


def test_the_means_are_those_of_the_published_splits(splits):
    kept = pd.read_csv(DOCS / "results.csv")
    pd.testing.assert_frame_equal(summarise(splits), kept, check_dtype=False, rtol=1e-9)
    assert set(kept["n_splits"]) == {20}
    pairs = set(zip(kept["dataset"], kept["model"], strict=True))
    assert pairs == {(dataset, model) for dataset in DATA_SETS for model in MODELS}
    assert set(kept.loc[kept["scenario"] == "private", "dataset"]) == {"bio", "bike"}


@pytest.mark.slow
def test_no_result_is_older_than_its_plan(splits):
    """Every row carries the plan that it was made with; a plan made now must be the
    same.
    """
    columns = ["method", "epsilon", "n_sites", "n_points", "confidence_level", "plan"]
    used = splits[columns].drop_duplicates().replace({np.nan: None})
    methods = {
        (method.name, method.epsilon): method for method in (*METHODS, *PRIVATE_METHODS)
    }
    assert used["plan"].notna().sum() > 20
    for row in used.itertuples():
        method = methods[row.method, row.epsilon]
        assert (
            method.plan_text((row.n_points,) * row.n_sites, row.confidence_level)
            == row.plan
        ), AGAIN


@pytest.mark.slow
def test_no_case_study_is_older_than_its_plans():
    """A plan depends on how many healthy and sick patients each hospital has, and on
    nothing else.
    """
    kept = (
        pd.read_csv(DOCS / "results-hospitals.csv")
        .dropna(subset="plan")
        .set_index("rule")["plan"]
    )
    counts = {
        "Cleveland": (164, 139),
        "Hungary": (188, 106),
        "Switzerland": (8, 115),
        "VA": (51, 149),
    }
    truths = {
        name: np.repeat(hospitals.CLASSES, found) for name, found in counts.items()
    }
    rng = np.random.default_rng(0)
    seconds = {
        name: truth[hospitals.thirds(truth, rng)[1]] for name, truth in truths.items()
    }
    sites = {
        name: hospitals.Patients(np.zeros((len(truth), 2)), truth)
        for name, truth in seconds.items()
    }
    planned = [rule for rule in hospitals.RULES if rule.threshold is None]
    assert len(planned) == len(kept) == 9
    for rule in planned:
        assert plan_text(rule.plan(sites, 0.9)) == kept[rule.name], AGAIN


@pytest.mark.nightly
def test_no_compensation_is_older_than_its_plan():
    """Figure 2: all plans and coverages, with both analyses."""
    kept = pd.read_csv(DOCS / "results-compensation.csv")
    again = figure_2.compute(Settings())
    pd.testing.assert_frame_equal(again, kept, check_dtype=False, rtol=1e-9)


@pytest.mark.nightly
def test_open_questions_are_answered_by_the_distributions_of_today():
    kept = pd.read_csv(DOCS / "results-open-questions.csv")
    pd.testing.assert_frame_equal(
        open_questions.compute(Settings()), kept, check_dtype=False, rtol=1e-6
    )


# -- figures --


def drawn_from(name):
    """The fingerprints of the rows and plans that a figure of the documentation was
    drawn from.
    """
    with Image.open(DOCS / "figures" / f"{name}.png") as image:
        return image.text["Source rows"], image.text["Source plans"]


@pytest.mark.slow
def test_no_figure_is_older_than_the_rows():
    for name, rows in publish.published_rows(DOCS).items():
        assert drawn_from(name) == (
            fingerprint(rows),
            fingerprint(plans(rows)),
        ), f"{name}.png {REDRAW}"


@pytest.mark.parametrize(
    "name",
    [
        "heat-map",
        "curves",
        *(
            pytest.param(n, marks=pytest.mark.nightly)
            for n in ("upper-bounds", "numbers", "conditional", "bounds", "risk")
        ),
    ],
)
def test_no_figure_without_fits_is_older_than_the_law(name):
    assert drawn_from(name)[0] == fingerprint(STUDIES[name].compute(Settings())), (
        f"{name}.png {REDRAW}"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "methods", "sizes"),
    [
        ("intervals", figure_3.INTERVALS, figure_3.EQUAL),
        ("unbalanced", figure_3.UNBALANCED_INTERVALS, figure_3.UNEQUAL),
    ],
)
def test_no_figure_of_intervals_is_older_than_its_plans(name, methods, sizes):
    rows = pd.DataFrame(
        [{"method": m.name, "plan": m.plan_text(sizes, 0.9)} for m in methods]
    )
    assert rows["plan"].notna().sum() == 3
    assert drawn_from(name)[1] == fingerprint(plans(rows)), AGAIN


def test_a_fingerprint_sees_what_a_figure_shows_and_nothing_else():
    rows = pd.DataFrame(
        {"method": ["a", "b"], "coverage": [0.9123456, None], "plan": ["rank 1", None]}
    )
    kept = fingerprint(rows)
    assert fingerprint(rows[::-1]) == kept
    assert fingerprint(rows.assign(fit_seconds=3.0)) == kept
    assert fingerprint(rows.assign(coverage=rows["coverage"] + 1e-12)) == kept
    assert fingerprint(rows.assign(coverage=rows["coverage"] + 1e-6)) != kept
    assert fingerprint(rows.replace("rank 1", "rank 2")) != kept
    assert fingerprint(rows[:1]) != kept
    assert plans(rows).to_dict("records") == [{"method": "a", "plan": "rank 1"}]


@pytest.mark.nightly
def test_a_run_is_published_and_pages_come_again(tmp_path, monkeypatch):
    """The published rows, as a run would leave them, give the published files again."""
    docs, run = tmp_path / "docs", tmp_path / "run"
    for folder in (docs / "figures", run / "results", run / "figures"):
        folder.mkdir(parents=True)
    rows = publish.published_rows(DOCS)
    for name in ("coverage", "private", "compensation", "open-questions"):
        rows[name].to_csv(run / "results" / f"{name}.csv", index=False)
    for name in ("hospitals", "schools", "authors"):
        (docs / f"results-{name}.csv").write_bytes(
            (DOCS / f"results-{name}.csv").read_bytes()
        )
    for name in publish.tables(DOCS):
        (docs / name).write_bytes((DOCS / name).read_bytes())
    monkeypatch.setattr(publish, "NO_FITS", ("curves",))
    publish.main([str(docs), "--from", str(run)])
    for name in ("research.md", "results.csv", "cases.md"):
        assert (docs / name).read_text() == (DOCS / name).read_text()
    pd.testing.assert_frame_equal(
        pd.read_csv(docs / publish.SPLITS), pd.read_csv(DOCS / publish.SPLITS)
    )
    assert {path.stem for path in (docs / "figures").iterdir()} == {*rows, "curves"}


# -- estimates, and sentences --


def test_errors_are_those_of_means_whose_models_share_splits():
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product(
        [["a", "b"], ["x", "y", "z"], range(20)], names=["dataset", "model", "split"]
    )
    values = pd.Series(rng.normal(size=len(index)), index)
    mean, error = estimate(values)
    assert mean == pytest.approx(values.mean())
    spreads = values.groupby(["dataset", "split"]).mean().groupby("dataset").std()
    assert error == pytest.approx(np.hypot(*spreads) / np.sqrt(20) / 2)


def test_a_ratio_of_lengths_has_the_error_of_paired_lengths():
    rows = pd.DataFrame(
        [
            {
                "scenario": MANY,
                "dataset": "own",
                "model": "x",
                "split": i,
                "method": name,
                "length": length,
            }
            for i in range(20)
            for name, length in (
                (QQ, 1.01 * (1 + 0.3 * (-1) ** i)),
                (CENTRALISED, 1 + 0.3 * (-1) ** i),
            )
        ]
    )  # fits differ, methods do not
    assert length_ratio(rows, MANY, QQ) == pytest.approx((1.01, 0.0), abs=1e-12)


def test_what_results_md_says(splits):
    """Each sentence about the paper's statements, with the numbers in it."""
    for scenario, law in ((MANY, 0.9011), (FEW, 0.9006)):
        ours, pooled, average, after = (
            keyed(splits, scenario, name)
            for name in (QQ, CENTRALISED, AVERAGE, AVERAGE_NEXT)
        )
        mean, error = estimate(ours["coverage"])
        sizes = ours.groupby(["dataset", "model"])[["n_sites", "n_points"]].first()
        exact = [
            METHODS[0].plan((n,) * m, 0.9).law.mean()
            for m, n in sizes.itertuples(index=False)
        ]
        assert np.mean(exact) == pytest.approx(law, abs=5e-5)
        assert abs(mean - np.mean(exact)) < error
        apart = estimate(ours["coverage"] - pooled["coverage"])[0]
        assert round(apart, 3) == 0.001
        assert length_ratio(splits, scenario, QQ)[0] < 1.01
        assert estimate_std(ours) > estimate_std(pooled)
        for other in (average, after):
            longer = {
                c: (other[c] - ours[c]).groupby(["dataset", "model"]).mean()
                for c in ("coverage", "length")
            }
            short = [
                pair for values in longer.values() for pair in values.index[values <= 0]
            ]
            assert short == (
                [("bio", "ridge")] if other is average and scenario == FEW else []
            )
    errors = pd.read_csv(DOCS / "results.csv")
    errors = errors[errors["scenario"] != "private"].assign(
        error=lambda e: e["coverage_std"] / np.sqrt(20)
    )
    single = errors["method"] == "Single site"
    assert errors.loc[~single, "error"].between(0.001, 0.0085).all()
    assert errors.loc[single, "error"].max() < 0.035
    seconds = errors.groupby(["dataset", "model"])["fit_seconds"].first()
    assert (seconds["bio", "forest"], seconds["bio", "network"]) == (
        pytest.approx(66, abs=0.5),
        pytest.approx(45, abs=0.5),
    )
    (run,) = json.loads((DOCS / "results-runs.json").read_text())
    assert (run["models"], run["cores"], round(run["seconds"] / 60)) == (
        ["ridge", "forest"],
        2,
        28,
    )


def estimate_std(rows):
    return rows.groupby(["dataset", "model"])["coverage"].std().mean()


def test_what_cases_md_says():
    cells = pd.read_csv(DOCS / "results-hospitals.csv").set_index(
        ["rule", "part", "hospital", "truth"]
    )
    here = cells.xs(hospitals.HERE, level="part")
    share = here["coverage"].mul(100).round(1)
    assert share["population (default)", "all", "all"] == 90.5
    assert round(share["population (default)", "VA", "healthy"]) == 64
    assert round(share["each site", "VA", "healthy"]) == 73
    sites = [(name, "all") for name in hospitals.HOSPITALS]
    classes = [("all", name) for name in hospitals.CLASSES]
    both = [(site, name) for site in hospitals.HOSPITALS for name in hospitals.CLASSES]
    promised = {
        "mixture": [("all", "all")],
        "each site": sites,
        "by class, 5 numbers": classes,
        "by class, each site": both,
        "by class and site": both,
    }
    for rule, cells_of_rule in promised.items():
        assert not any(here["short"][rule, *cell] for cell in cells_of_rule)
    assert round(share["by class", "all", "healthy"]) == 88
    assert round(share["by class", "VA", "healthy"]) == 61
    assert here["short"]["by class", "VA", "healthy"]
    new = cells.xs(hospitals.LEFT_OUT, level="part")["coverage"].mul(100)
    default = [new["population (default)", *site] for site in sites]
    assert (round(min(default)), round(max(default))) == (78, 92)
    assert round(np.mean([new["new site, 75 %", *site] for site in sites])) == 71
    schools = pd.read_csv(DOCS / "results-schools.csv").set_index("method")
    assert (
        schools.loc["population (default)", "coverage"]
        + 3 * schools.loc["population (default)", "error"]
        < 0.9
    )
    for method in ("new site, mean", "new site, mean, 5 pupils"):
        assert schools.loc[method, "coverage"] + 3 * schools.loc[method, "error"] >= 0.9
    strict = schools.loc["new site, 9 in 10"]
    assert strict["truly_below"] < 0.01
    assert strict["width"] / schools.loc[
        "population (default)", "width"
    ] == pytest.approx(1.4, abs=0.05)
    assert np.isinf(schools.loc[["FedCP-Avg", "each site"], "width"]).all()


def test_what_research_md_says_of_open_questions():
    rows = pd.read_csv(DOCS / "results-open-questions.csv")
    excess = rows[rows["question"] == open_questions.EXCESS]
    one = excess[excess["numbers"] == 1].groupby("n_sites")["value"]
    assert list(one.groups) == [2, 5, 10, 20, 50, 100, 200, 400]
    assert (round(one.mean().min(), 2), round(one.mean().max(), 2)) == (0.66, 1.05)
    assert (one.max().idxmax(), round(one.max().max(), 2)) == (50, 4.28)
    many = excess[
        (excess["numbers"] == 1) & (excess["n_sites"] >= open_questions.MANY_SITES)
    ]["value"]
    shares = [round(100 * np.mean(many > times * many.mean())) for times in (2, 3)]
    assert (len(many), shares) == (306, [13, 4])
    assert [round(100 * np.exp(-times)) for times in (2, 3)] == [14, 5]
    several = excess[excess["numbers"] > 1].groupby("numbers")["value"].max()
    assert several.round(2).to_list() == [0.85, 0.19]
    rates = rows[rows["question"] == open_questions.RATE]
    fails = rates[rates["value"] > rates["delta"]]
    assert set(fails["criterion"]) == {"marginal"}
    by_delta = fails.groupby("delta", sort=False)["value"]
    assert by_delta.size().to_dict() == {0.1: 2, 0.05: 5, 0.01: 11}
    assert by_delta.max().round(3).to_dict() == {0.1: 0.164, 0.05: 0.14, 0.01: 0.103}
    assert (rates["criterion"] == "marginal").sum() == 3 * 244
    assert fails["server_rank"].max() == 5
    law = fc.CoverageLaw(n_sites=10, n_points=100, local_rank=90, server_rank=10)
    assert law.ppf(0.1) == pytest.approx(0.917, abs=5e-4)
    bound = fc.laws.conditional_coverage_bound(10, 100, 90, 10, delta=0.1)
    assert bound == pytest.approx(0.866, abs=5e-4)


def test_what_research_md_says_of_networks(splits):
    published = (
        authors.published()
        .dropna(subset="trend")
        .set_index(["model", "scenario", "dataset"])
    )
    first = published.sort_index().loc["network", MANY]["first_length"]
    ours = (
        keyed(splits, MANY, CENTRALISED)["length"]
        .xs("network", level="model")
        .groupby("dataset")
        .mean()
    )
    names = ["bio", "community", "star", "concrete"]
    assert first[names].to_list() == [1.624, 1.704, 0.21, 0.464]
    assert ours[names].to_numpy() == pytest.approx(
        [1.51, 1.65, 0.200, 0.514], abs=0.005
    )
    assert (first["bike"], round(ours["bike"], 2)) == (1.509, 0.70)


def test_what_research_md_says_of_conditional_coverage():
    rows = conditional.compute(Settings())
    cost = rows[rows["panel"] == conditional.COST].groupby("method")["value"]
    ranges = {
        name: (round(values.min(), 2), round(values.max(), 2)) for name, values in cost
    }
    assert ranges == {QQ: (0.39, 0.57), THREE: (0.35, 0.42), CENTRALISED: (0.37, 0.41)}
    assert set(cost.size()) == {28}
    below = rows[(rows["panel"] == conditional.LAW) & np.isclose(rows["coverage"], 0.9)]
    below = below.set_index("method")["value"]
    assert (below.drop("marginal") <= conditional.DELTA + 1e-9).all()
    assert below["marginal"] > 0.4
    covered = conditional.unstable_coverage(2000, math.prod(conditional.LARGE), 0.9)
    assert (
        np.mean(covered == 0),
        np.mean(covered == 1),
        covered.mean(),
    ) == pytest.approx((0.094, 0.906, 0.906))
    law = fc.plan(*conditional.LARGE, criterion="marginal").law
    assert round(law.std(), 4) == 0.0012


def test_the_unstable_learner_is_that_of_full_conformal_prediction():
    """A small cycle, on which the learner is fitted again with every new case and
    ranked.
    """
    rng = np.random.default_rng(3)
    n, classes, bad = 59, 20, 3
    partial = 0
    for _ in range(300):
        features = rng.integers(classes, size=n)
        covered = []
        for new in range(classes):
            everything = np.append(features, new)
            scores = (
                everything.sum() - everything
            ) % classes < bad  # |0 - prediction| at each case
            covered.append(5 * np.sum(scores >= scores[-1]) > n + 1)  # level 0.8
        counts = np.bincount(features, minlength=classes)
        assert np.mean(covered) == conditional.coverage_given(counts, bad, 0.8)
        partial += 0 < np.mean(covered) < 1
    assert partial > 5


def test_what_theory_md_says_of_upper_bounds():
    rows = bounds.compute(Settings())
    values = rows.groupby("curve")["value"]
    ranges = {
        name: (round(found.min(), 3), round(found.max(), 3)) for name, found in values
    }
    assert ranges[bounds.STEP] == (0.736, 0.795)
    assert ranges[bounds.PAPER_STEP] == (0.739, 0.822)
    assert round(bounds.scaled_step(20, 28, 27, 0.9), 3) == 1.139
    page = (DOCS / "theory.md").read_text()
    for low, high in (ranges[bounds.STEP], ranges[bounds.PAPER_STEP]):
        assert f"{low:.3f} to {high:.3f} at the" in page
    assert "other sizes have 1.139 or more (m = 20, n = 28, l = 27, k = 5)" in page
    assert ranges[bounds.CONDITIONAL] == (0.464, 0.645)
    assert ranges[bounds.EXCESS][0] >= 0
    assert set(values.size()) == {1225}
    assert round(bounds.limits(0.9)[bounds.STEP], 3) == 0.752
    assert (rows["n_sites"].min(), rows["n_points"].max()) == (20, 394)


def test_what_the_paper_draft_says():
    """Private coverages and limits of the spread; other numbers are those of pages that
    are tested.
    """
    rows = pd.read_csv(DOCS / "results-compensation.csv")
    rows = rows[rows["confidence_level"] == 0.9].set_index(
        ["analysis", "n_points", "epsilon"]
    )["coverage"]
    curve = [
        round(rows["curve", n, epsilon], 3)
        for n in (200, 1000)
        for epsilon in (10, 5, 1)
    ]
    assert curve == [0.905, 0.905, 0.908, 0.905, 0.905, 0.905]
    assert [round(rows["paper", 1000, epsilon], 3) for epsilon in (10, 5, 1)] == [
        0.903,
        0.906,
        0.926,
    ]
    assert np.isnan(rows["paper", 200, 1])
    means = pd.read_csv(DOCS / "results.csv")
    means = means[(means["scenario"] == "private") & (means["model"] == "forest")]
    means = (
        means[means["method"] == CURVE]
        .set_index(["epsilon", "dataset"])["coverage"]
        .round(3)
    )
    expected = {(1, "bio"): 0.930, (1, "bike"): 0.924}
    expected |= {(10, "bio"): 0.912, (10, "bike"): 0.917}
    assert {place: means[place] for place in expected} == expected
    assert [round(numbers.asymptotic_spread(r), 2) for r in (1, 3, 5)] == [
        1.25,
        1.07,
        1.03,
    ]


def test_the_risk_has_the_distribution_of_the_coverage():
    """2,000 runs: by Massart's bound a distance above 0.061 has a probability below
    1e-6.
    """
    rows = risk.compute(Settings())
    assert np.abs(rows["simulated"] - rows["exact"]).max() < 0.061
