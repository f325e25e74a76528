"""Claims judged by the numbers, and documentation that is no older than the plans."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedconformal.experiments import (
    DATA_SETS,
    METHODS,
    MODELS,
    PRIVATE_METHODS,
    STUDIES,
    Forest,
    Ridge,
    Settings,
    Store,
    is_fresh,
    published,
    record_run,
)
from fedconformal.experiments import _laws as laws
from fedconformal.experiments._claims import (
    CONSISTENT,
    NO,
    TOO_FEW,
    YES,
    Estimate,
    claims,
    coverage_spread,
    estimate,
    judged,
    just_above,
    length_ratio,
)
from fedconformal.experiments._page import PLANS_KEY, ROWS_KEY
from fedconformal.experiments._results import markdown
from fedconformal.experiments._runs import recorded_runs
from fedconformal.experiments._studies import FEDERATIONS
from fedconformal.experiments._summary import by_split, fingerprint, plans, summarise

DOCS = Path(__file__).parents[2] / "docs"
AGAIN = "the plan has changed since docs/results.* were made: run 'make results', see docs/reproduce.md"
REDRAW = "the figure was not drawn from the rows in docs: run 'make pages', see docs/reproduce.md"


@pytest.fixture(scope="module")
def splits():
    return published.read_splits(DOCS)


@pytest.fixture(scope="module")
def summary():
    return published.read_table(DOCS / published.MEANS)


WIDER = {"FedCP-QQ": 1.2}


def rows_with(n_splits=20, noise=0.0, **methods):
    """Rows of one data set and model with these coverages and lengths in each federation."""
    common = {
        "dataset": "own",
        "model": "ridge",
        "n_sites": 10,
        "n_points": 20,
        "epsilon": None,
        "plan": None,
    }
    return [
        {**common, "scenario": scenario, "method": method, "confidence_level": 0.9, "n_train": 1, "n_test": 1}
        | {
            "coverage": coverage + noise * WIDER.get(method, 1) * (-1) ** split,
            "length": length,
            "fit_seconds": 1.0,
            "split": split,
        }
        for scenario in ("m >> n", "m << n")
        for method, (coverage, length) in methods.items()
        for split in range(n_splits)
    ]


VALUES = {
    "FedCP-QQ": (0.907, 1.01),  # the law says 0.9079
    "FedCP-QQ stable": (0.902, 1.0),
    "FedCP-QQ 3 numbers": (0.902, 1.0),
    "Centralised": (0.901, 1.0),
    "FedCP-Avg": (0.95, 1.4),
    "FedCP-Avg, rank + 1": (0.95, 1.4),
    "Single site": (0.92, 1.2),
}


def verdicts(changes=None, **options):
    """Of the first federation: coverage, closeness to centralised, spread and FedCP-Avg."""
    found = claims(rows_with(**{"noise": 0.005, **options}, **{**VALUES, **(changes or {})}))
    return [claim.verdict for claim in found[:4]]


def test_claims_are_judged_by_the_numbers():
    assert verdicts() == [YES] * 4
    assert verdicts({"FedCP-QQ": (0.93, 1.01)}) == [NO, NO, YES, YES]
    assert verdicts({"FedCP-QQ": (0.907, 1.05)}) == [YES, NO, YES, YES]
    assert verdicts({"FedCP-Avg": (0.95, 1.0)}) == [YES, YES, YES, NO]


def test_few_splits_never_contradict_what_is_proven():
    """Three splits with a mean of .89 and a spread of .03: the interval reaches .90, nothing is refuted."""
    found = verdicts({"FedCP-QQ": (0.89, 1.05)}, n_splits=3, noise=0.03)
    assert found == [CONSISTENT, TOO_FEW, YES, YES]


def test_a_mean_is_just_above_if_the_law_says_so_and_the_splits_could_tell():
    law = 0.901
    assert just_above(Estimate(0.902, 0.001), law, 20) == YES
    assert just_above(Estimate(0.8995, 0.001), law, 20) == YES  # it agrees with the law
    assert just_above(Estimate(0.905, 0.001), law, 20) == CONSISTENT  # above, but not as the law says
    assert just_above(Estimate(0.905, 0.02), law, 20) == CONSISTENT  # it could be anything
    assert just_above(Estimate(0.89, 0.001), law, 20) == NO
    assert just_above(Estimate(0.89, 0.001), law, 3) == TOO_FEW
    assert just_above(Estimate(0.93, 0.001), 0.93, 20) == NO


def test_what_lies_within_the_errors_is_not_refuted():
    assert judged([Estimate(0.1, 1.0), Estimate(0.0, 0.0)], 20) == YES
    assert judged([Estimate(0.1, 1.0), Estimate(-1.9, 1.0)], 20) == CONSISTENT
    assert judged([Estimate(0.1, 1.0), Estimate(-2.1, 1.0)], 20) == NO
    assert judged([Estimate(-2.1, 1.0)], 20, errors=3.0) == CONSISTENT
    assert judged([Estimate(-2.1, 1.0)], 9) == TOO_FEW


def test_one_pair_the_other_way_within_its_error_is_named_and_refutes_nothing():
    rows = rows_with(**{**VALUES, "FedCP-Avg": (0.95, 1.4), "FedCP-QQ": (0.907, 1.4001)})
    for row in rows:
        if row["method"] == "FedCP-QQ":
            row["length"] += 0.1 * (-1) ** row["split"]
    claim = claims(rows)[3]
    assert claim.words.startswith("m >> n: FedCP-Avg has higher")
    assert claim.verdict == CONSISTENT
    assert claim.found.endswith(
        "longer in 0 of 1 pairs of data set and model; length of own ridge: -0.000 ± 0.023"
    )


def test_errors_are_those_of_means_whose_models_share_splits():
    rng = np.random.default_rng(0)
    values = {(data, model, i): rng.normal() for data in "ab" for model in "xyz" for i in range(20)}
    found = estimate(values)
    per_split = [[np.mean([values[data, model, i] for model in "xyz"]) for i in range(20)] for data in "ab"]
    assert found.value == pytest.approx(np.mean(per_split))
    errors = [np.std(line, ddof=1) / np.sqrt(20) for line in per_split]
    assert found.error == pytest.approx(np.hypot(*errors) / 2)
    same = {(data, model, i): values[data, "x", i] for data, model, i in values}
    assert estimate(same).error == pytest.approx(
        np.hypot(*[np.std([values[d, "x", i] for i in range(20)], ddof=1) for d in "ab"]) / np.sqrt(20) / 2
    )


def test_a_ratio_of_lengths_is_one_of_means_with_the_error_of_paired_lengths():
    rows = rows_with(**VALUES)
    for row in rows:
        row["length"] *= 1 + 0.3 * (-1) ** row["split"]  # fits differ, methods do not
    assert length_ratio(rows, "m >> n", "FedCP-QQ") == pytest.approx((1.01, 0.0), abs=1e-12)


def test_the_error_of_a_spread_is_that_of_a_normal_sample():
    """400 samples of 20, whose spreads are about normal: theirs is known to 3.5 %, a quarter is 7 errors."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(400):
        rows = rows_with(**{"FedCP-QQ": (0.9, 1.0)})
        for row in rows:
            row["coverage"] = rng.normal(0.9, 0.01)
        found.append(coverage_spread(rows, "m >> n", "FedCP-QQ"))
    assert np.std([one.value for one in found]) == pytest.approx(np.mean([o.error for o in found]), rel=0.25)


def private_rows(coverages, *, n_splits=20, noise=0.0, **infinite):
    common = {"dataset": "own", "model": "ridge", "scenario": "private", "n_sites": 5, "n_points": 200}
    common |= {"method": "FedCP²-QQ paper", "confidence_level": 0.9, "plan": None}
    rows = [
        {**common, "epsilon": epsilon, "split": i, "coverage": coverage + noise * (-1) ** i, "length": length}
        for epsilon, (coverage, length) in zip((10.0, 5.0, 1.0), coverages, strict=True)
        for i in range(n_splits)
    ]
    return rows + [{**row, "method": "FedCP²-QQ tight"} for row in rows]


@pytest.mark.parametrize(
    ("coverages", "noise", "verdict"),
    [
        ([(0.91, 1), (0.92, 1), (0.95, 1)], 0.0, YES),
        ([(0.91, 1), (0.92, 1), (1.0, np.inf)], 0.0, "yes at ε = 10 and 5; **no plan** at ε = 1"),
        ([(0.91, 1), (0.90, 1), (1.0, np.inf)], 0.0, "**no** at ε = 10 and 5; **no plan** at ε = 1"),
        ([(1.0, np.inf)] * 3, 0.0, "**no plan** at ε = 10, 5 and 1"),
        ([(0.91, 1), (0.92, 1), (0.95, 1)], 0.1, YES),
        ([(0.89, 1), (0.92, 1), (0.95, 1)], 0.1, CONSISTENT),
        ([(0.89, 1), (0.92, 1), (0.95, 1)], 0.0, NO),
    ],
)
def test_a_private_claim_says_where_there_is_no_plan(coverages, noise, verdict):
    assert [claim.verdict for claim in claims(private_rows(coverages, noise=noise))] == [verdict] * 2


def test_a_quick_page_says_so_at_the_top():
    page = markdown(rows_with(n_splits=3, **VALUES), quick=True)
    assert "--quick" in page.split("##", maxsplit=1)[0]
    assert NO not in page


def test_a_run_from_nothing_says_how_long_it_took(tmp_path):
    store = Store(tmp_path)
    assert recorded_runs(store) == []
    assert is_fresh(store)
    (tmp_path / "fits").mkdir()
    (tmp_path / "fits" / "one.npz").touch()
    assert not is_fresh(store)
    record_run(store, [Ridge(), Forest()], cores=2, seconds=1500.4)
    page = markdown(rows_with(n_splits=3, **VALUES), quick=False, runs=recorded_runs(store))
    assert "with ridge and forest that began with an empty folder" in page
    assert "1 fit, tables and figures together, took 25 minutes by the clock on 2 cores." in page


# -- what the documentation shows ---------------------------------------------------------------------------


def test_the_results_page_is_what_the_command_writes():
    """docs/results.md holds no number by hand: it is made of the splits and of how long the run took."""
    assert (DOCS / published.PAGE).read_text() == published.page(DOCS), "run 'make pages'"


def test_the_page_names_the_command_networks_included():
    page = (DOCS / published.PAGE).read_text()
    assert "one command, `fedconformal reproduce all --models ridge,forest,network`" in page
    assert json.loads((DOCS / published.RUNS).read_text())[0]["fits"] == 200  # the run that was timed


def test_the_means_are_those_of_the_published_splits(splits, summary):
    assert splits == by_split(splits)
    again = summarise(splits)
    assert len(again) == len(summary)
    for mine, kept in zip(again, summary, strict=True):
        for name, value in kept.items():
            assert mine[name] == (pytest.approx(value, rel=1e-9) if isinstance(value, float) else value)


def test_every_split_of_a_row_has_the_same_plan(splits):
    found = {}
    for row in splits:
        key = (row["method"], row["epsilon"], row["n_sites"], row["n_points"], row["confidence_level"])
        assert found.setdefault(key, row["plan"]) == row["plan"]


def test_no_result_is_older_than_its_plan(summary):
    """Every row carries the plan that it was made with; a plan made now must be the same."""
    methods = {(method.name, method.epsilon): method for method in (*METHODS, *PRIVATE_METHODS)}
    asked = {
        (row["method"], row["epsilon"], row["n_sites"], row["n_points"], row["confidence_level"], row["plan"])
        for row in summary
    }
    assert any(plan is not None for *_, plan in asked)
    for name, epsilon, m, n, level, plan in asked:
        assert methods[name, epsilon].plan_text((n,) * m, level) == plan, AGAIN


@pytest.mark.slow
def test_no_compensation_is_older_than_its_plan():
    """Figure 2: plans and coverages up to 300 points, which are quick to plan, with both analyses."""
    rows = [row for row in published.read_table(DOCS / published.COMPENSATION) if row["n_points"] <= 300]
    again = laws.compensation((200, 300), (0.95, 0.9, 0.8))
    assert len(again) == 36
    for kept, made in zip(rows, again, strict=True):
        coverage = made.pop("coverage")
        assert kept.pop("coverage") == (None if coverage is None else pytest.approx(coverage, rel=1e-9))
        assert kept == made, AGAIN


def drawn_from(name):
    """What a figure of the documentation says that it was drawn from."""
    with Image.open(DOCS / "figures" / f"{name}.png") as image:
        return image.text[ROWS_KEY], image.text[PLANS_KEY]


@pytest.mark.parametrize("name", ["compensation", "coverage", *DATA_SETS, "private"])
def test_no_figure_is_older_than_the_rows(name):
    rows = published.published_rows(DOCS)[name]
    assert drawn_from(name) == (fingerprint(rows), fingerprint(plans(rows))), REDRAW


@pytest.mark.slow
@pytest.mark.parametrize("name", ["upper-bounds", "heat-map", "curves"])
def test_no_figure_of_a_law_is_older_than_the_law(name, tmp_path):
    rows = STUDIES[name].compute(Settings(Store(tmp_path)))
    assert drawn_from(name)[0] == fingerprint(rows), f"run 'fedconformal reproduce {name}' for docs/figures"


@pytest.mark.parametrize("name", FEDERATIONS)
def test_no_figure_of_intervals_is_older_than_its_plans(name):
    methods, sizes = FEDERATIONS[name]
    rows = [{"method": method.name, "plan": method.plan_text(sizes, 0.9)} for method in methods]
    assert sum(row["plan"] is not None for row in rows) == 3
    assert drawn_from(name)[1] == fingerprint(plans(rows)), AGAIN


def test_a_fingerprint_sees_what_a_figure_shows_and_nothing_else():
    rows = [{"method": "a", "coverage": 0.9123456, "plan": "rank 1"}, {"method": "b", "coverage": None}]
    kept = fingerprint(rows)
    assert fingerprint(rows[::-1]) == kept
    assert fingerprint([{**row, "fit_seconds": 3.0, "version": "9"} for row in rows]) == kept
    assert fingerprint([{**rows[0], "coverage": 0.9123456 + 1e-12}, rows[1]]) == kept
    assert fingerprint([{**rows[0], "coverage": 0.9123466}, rows[1]]) != kept
    assert fingerprint([{**rows[0], "plan": "rank 2"}, rows[1]]) != kept
    assert fingerprint(rows[:1]) != kept
    assert plans(rows) == [{"method": "a", "plan": "rank 1"}]


@pytest.mark.slow
def test_pages_and_figures_come_again_from_what_is_published(tmp_path):
    for name in (published.SPLITS, published.RUNS, published.COMPENSATION):
        shutil.copy(DOCS / name, tmp_path)
    published.main([str(tmp_path)])
    for name in (published.PAGE, published.MEANS):
        assert (tmp_path / name).read_text() == (DOCS / name).read_text()
    drawn = {path.stem for path in (tmp_path / "figures").iterdir()}
    assert drawn == {"compensation", "coverage", *DATA_SETS, "private"}


def test_the_results_page_meets_the_papers_figures(splits, summary):
    assert {row["dataset"] for row in summary if row["model"] == "ridge"} == set(DATA_SETS)
    assert {row["n_splits"] for row in summary} == {20}
    found = {claim.words: claim.verdict for claim in claims(splits)}
    for scenario in ("m >> n", "m << n"):
        assert found[f"{scenario}: mean coverage of FedCP-QQ just above .90"] == YES
        assert found[f"{scenario}: FedCP-QQ close to centralised in coverage and length"] == YES
        assert (
            found[f"{scenario}: FedCP-Avg, rank + 1 has higher coverage and length on all data sets"] == YES
        )


def test_the_results_are_complete(summary):
    pairs = {(row["dataset"], row["model"]) for row in summary}
    assert pairs >= {(dataset, model) for dataset in DATA_SETS for model in MODELS}
    assert {row["dataset"] for row in summary if row["scenario"] == "private"} == {"bio", "bike"}
