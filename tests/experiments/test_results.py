import os
from pathlib import Path

import polars

from fedconformal.experiments import DATA_SETS, _data
from fedconformal.experiments._results import claims, markdown, summarise

FOLDER = os.environ.get(_data.DATA_FOLDER)
DOCS = Path(__file__).parents[2] / "docs"


def rows_with(**methods):
    """Rows of one data set and model, three splits, with these coverages and lengths in each federation."""
    common = {"dataset": "own", "model": "ridge", "n_sites": 10, "n_points": 20, "epsilon": None}
    return [
        {**common, "scenario": scenario, "method": method, "confidence_level": 0.9, "n_train": 1, "n_test": 1}
        | {"coverage": coverage, "length": length, "fit_seconds": 1.0, "split": split}
        for scenario in ("m >> n", "m << n")
        for method, (coverage, length) in methods.items()
        for split in range(3)
    ]


def verdicts(**changes):
    values = {
        "FedCP-QQ": (0.903, 1.01),
        "FedCP-QQ stable": (0.902, 1.0),
        "Centralised": (0.901, 1.0),
        "FedCP-Avg": (0.95, 1.4),
        "Single site": (0.92, 1.2),
    }
    return [claim.holds for claim in claims(summarise(rows_with(**{**values, **changes})))][:3]


def test_claims_are_judged_by_the_numbers():
    assert verdicts() == [True, True, True]
    assert verdicts(**{"FedCP-QQ": (0.93, 1.01)}) == [False, False, True]
    assert verdicts(**{"FedCP-QQ": (0.903, 1.05)}) == [True, False, True]
    assert verdicts(**{"FedCP-Avg": (0.95, 1.0)}) == [True, True, False]


def test_the_results_page_is_what_the_command_writes():
    """docs/results.md holds no number by hand: it is made of the means in docs/results.csv alone."""
    summary = polars.read_csv(DOCS / "results.csv", infer_schema_length=None).to_dicts()
    assert (DOCS / "results.md").read_text() == markdown(summary, quick=False)


def test_the_results_page_meets_the_papers_figures():
    summary = polars.read_csv(DOCS / "results.csv", infer_schema_length=None).to_dicts()
    assert {row["dataset"] for row in summary if row["model"] == "forest"} == set(DATA_SETS)
    assert {row["n_splits"] for row in summary} == {20}
    found = {claim.words: claim.holds for claim in claims(summary)}
    for scenario in ("m >> n", "m << n"):
        assert found[f"{scenario}: mean coverage of FedCP-QQ just above .90"]
        assert found[f"{scenario}: FedCP-QQ close to centralised in coverage and length"]
