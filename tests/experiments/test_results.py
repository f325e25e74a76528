import gzip
import io
import json
import os
from pathlib import Path

import polars
import pytest

from fedconformal.experiments import (
    DATA_SETS,
    METHODS,
    MODELS,
    PRIVATE_METHODS,
    Forest,
    Ridge,
    Store,
    _data,
    is_fresh,
    record_run,
)
from fedconformal.experiments._claims import CONSISTENT, NO, TOO_FEW, YES, claims, within
from fedconformal.experiments._methods import plan_text, private_plan
from fedconformal.experiments._results import by_split, markdown, summarise
from fedconformal.experiments._runs import recorded_runs

FOLDER = os.environ.get(_data.DATA_FOLDER)
DOCS = Path(__file__).parents[2] / "docs"
AGAIN = "the plan has changed since docs/results.* were made: run 'make results', see docs/reproduce.md"


def table(content):
    return polars.read_csv(content, infer_schema_length=None).to_dicts()


@pytest.fixture(scope="module")
def summary():
    return table(DOCS / "results.csv")


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
        | {"coverage": coverage + noise * (-1) ** split, "length": length, "fit_seconds": 1.0, "split": split}
        for scenario in ("m >> n", "m << n")
        for method, (coverage, length) in methods.items()
        for split in range(n_splits)
    ]


VALUES = {
    "FedCP-QQ": (0.903, 1.01),
    "FedCP-QQ stable": (0.902, 1.0),
    "FedCP-QQ 3 numbers": (0.902, 1.0),
    "Centralised": (0.901, 1.0),
    "FedCP-Avg": (0.95, 1.4),
    "FedCP-Avg, rank + 1": (0.95, 1.4),
    "Single site": (0.92, 1.2),
}


def verdicts(changes=None, **options):
    """Of the first federation: coverage, closeness to centralised, and FedCP-Avg."""
    found = claims(summarise(rows_with(**options, **{**VALUES, **(changes or {})})))
    return [found[i].verdict for i in (0, 1, 3)]


def test_claims_are_judged_by_the_numbers():
    assert verdicts() == [YES, YES, YES]
    assert verdicts({"FedCP-QQ": (0.93, 1.01)}) == [NO, NO, YES]
    assert verdicts({"FedCP-QQ": (0.903, 1.05)}) == [YES, NO, YES]
    assert verdicts({"FedCP-Avg": (0.95, 1.0)}) == [YES, YES, NO]


def test_few_splits_never_contradict_what_is_proven():
    """Three splits with a mean of .89 and a spread of .03: the interval reaches .90, nothing is refuted."""
    assert verdicts({"FedCP-QQ": (0.89, 1.05)}, n_splits=3, noise=0.03) == [CONSISTENT, TOO_FEW, YES]


def test_an_interval_is_judged_as_a_whole():
    assert within(0.905, 0.001, 0.9, 0.915) == YES
    assert within(0.899, 0.001, 0.9, 0.915) == CONSISTENT
    assert within(0.905, 0.02, 0.9, 0.915) == CONSISTENT
    assert within(0.89, 0.001, 0.9, 0.915) == NO


def test_a_quick_page_says_so_at_the_top():
    page = markdown(summarise(rows_with(n_splits=3, **VALUES)), quick=True)
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
    page = markdown(summarise(rows_with(n_splits=3, **VALUES)), quick=False, runs=recorded_runs(store))
    assert "with ridge and forest that began with an empty folder" in page
    assert "1 fit, tables and figures together, took 25 minutes by the clock on 2 cores." in page


# -- what the documentation shows ---------------------------------------------------------------------------


def test_the_results_page_is_what_the_command_writes(summary):
    """docs/results.md holds no number by hand: it is made of the means and of how long the run took."""
    runs = json.loads((DOCS / "results-runs.json").read_text())
    assert (DOCS / "results.md").read_text() == markdown(summary, quick=False, runs=runs)


def test_the_means_are_those_of_the_published_splits(summary):
    rows = table(io.BytesIO(gzip.decompress((DOCS / "results-splits.csv.gz").read_bytes())))
    assert rows == by_split(rows)
    again = summarise(rows)
    assert len(again) == len(summary)
    for mine, kept in zip(again, summary, strict=True):
        for name, value in kept.items():
            assert mine[name] == (pytest.approx(value, rel=1e-9) if isinstance(value, float) else value)


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


@pytest.mark.untraced
@pytest.mark.slow
def test_no_compensation_is_older_than_its_plan():
    """Figure 2: the rows up to 300 points, which are quick to plan, with both analyses."""
    rows = [row for row in table(DOCS / "results-compensation.csv") if row["n_points"] <= 300]
    assert {row["analysis"] for row in rows} == {"paper", "tight"}
    for row in rows:
        asked = (row["n_sites"], row["n_points"], row["confidence_level"], row["epsilon"], row["analysis"])
        assert plan_text(private_plan(*asked)) == row["plan"], AGAIN


def test_the_results_page_meets_the_papers_figures(summary):
    assert {row["dataset"] for row in summary if row["model"] == "ridge"} == set(DATA_SETS)
    assert {row["n_splits"] for row in summary} == {20}
    found = {claim.words: claim.verdict for claim in claims(summary)}
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
