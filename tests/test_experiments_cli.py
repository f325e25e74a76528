import os
import re
from pathlib import Path

import polars
import pytest

from fedconformal.cli import main
from fedconformal.experiments import STUDIES, _data
from fedconformal.experiments._results import claims, markdown, summarise
from fedconformal.experiments._store import Store

FOLDER = os.environ.get(_data.FOLDER)
DOCS = Path(__file__).parent.parent / "docs"


@pytest.fixture(autouse=True)
def nothing_here(monkeypatch, tmp_path):
    monkeypatch.delenv(_data.FOLDER, raising=False)
    monkeypatch.setattr(_data, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.chdir(tmp_path)


def test_all_quick_needs_no_data_and_says_what_it_left_out(tmp_path, capsys):
    assert main(["reproduce", "all", "--quick", "--splits", "2", "--jobs", "1", "--out", "out"]) == 0
    said = capsys.readouterr()
    assert (
        "left out, for their files are not here: bio, bike, community, star, concrete; --download" in said.err
    )
    assert "left out: the network" in said.err
    assert "coverage: 4 of 4 fits" in said.err
    drawn = {path.stem for path in Path("out/figures").iterdir()}
    assert drawn == set(STUDIES) - set(_data.NAMES)
    for name in drawn:
        assert Path(f"out/figures/{name}.png").read_bytes().startswith(b"\x89PNG")
        assert Path(f"out/figures/{name}.pdf").read_bytes().startswith(b"%PDF")
        assert "<svg" in Path(f"out/figures/{name}.svg").read_text()
        assert Store(Path("out")).read_results(name)
    page = Path("out/index.html").read_text()
    assert page.count("<img ") == page.count("data:image/svg+xml;base64,") == len(drawn)
    assert not re.search(r'(src|href)="http', page)  # it stands alone
    assert "FedCP-QQ stable" in page
    assert "n_sites" in page
    results = Path("out/results.md").read_text()
    assert results.startswith("# A quick look")
    assert "| synthetic | ridge | 100 x 10 | coverage |" in results
    assert polars.read_csv("out/results/coverage.csv").height == 2 * 2 * 2 * 5


def test_a_second_run_makes_no_fit(capsys):
    again = ["reproduce", "coverage", "--quick", "--models", "ridge", "--jobs", "1", "--splits", "2"]
    assert main(again) == 0
    said = capsys.readouterr().err
    assert "coverage: 0 of 2 fits" in said
    assert "coverage: 2 of 2 fits" in said
    first = Path("reproduction/figures/coverage.svg").read_bytes()
    assert main(again) == 0
    assert "coverage: 0 of 2 fits" not in capsys.readouterr().err
    assert Path("reproduction/figures/coverage.svg").read_bytes() == first


@pytest.mark.skipif(not FOLDER, reason="FEDCONFORMAL_DATA does not name the paper's data sets")
def test_quick_takes_whatever_data_is_there(capsys):
    quick = [
        "reproduce",
        "coverage",
        "concrete",
        "--quick",
        "--models",
        "ridge",
        "--jobs",
        "1",
        "--splits",
        "1",
    ]
    assert main([*quick, "--data", str(FOLDER)]) == 0
    assert "not here" not in capsys.readouterr().err
    found = Store(Path("reproduction")).read_results("coverage")
    assert {row["dataset"] for row in found} == {"synthetic", *_data.NAMES}
    assert Path("reproduction/figures/concrete.png").exists()


def test_without_a_name_the_studies_are_listed(capsys):
    assert main(["reproduce"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in STUDIES)


def test_a_table_of_ones_own(capsys):
    rows = "".join(f"{i % 13},{'red' if i % 3 else 'blue'},{i % 13 + i % 5}\n" for i in range(300))
    Path("houses.csv").write_text("size,colour,price\n" + rows)
    own = ["reproduce", "--csv", "houses.csv", "--target", "price", "--models", "ridge", "--jobs", "1"]
    assert main([*own, "--splits", "2"]) == 0
    found = Store(Path("reproduction")).read_results("houses")
    assert {(row["n_sites"], row["n_points"]) for row in found} == {(12, 10), (10, 12)}
    assert "houses: coverage and length" in Path("reproduction/index.html").read_text()
    assert capsys.readouterr().err.count("left out") == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "no study 'nonsense'; there are upper-bounds, "),
        (["bio"], "bio: CASP.csv is not in "),
        (["curves", "--models", "oracle"], "--models: no model 'oracle'; there are ridge, forest, network"),
        (["curves", "--network-on", "iris"], "--network-on: no data set 'iris'"),
        (["curves", "--jobs", "0"], "--jobs must be -1 or at least 1, got 0"),
        (["curves", "--splits", "0"], "--splits must be"),
        (["curves", "--data", "nowhere"], "--data nowhere: no such folder"),
        (["--csv", "a.csv"], "--csv needs --target"),
        (["--target", "y"], "--target needs --csv"),
        (["curves", "--csv", "a.csv", "--target", "y"], "goes without a name, got 'curves'"),
        (["--csv", "a.csv", "--target", "y"], "a.csv: no such file"),
    ],
)
def test_errors_are_one_line(arguments, message, capsys):
    assert main(["reproduce", *arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith("fedconformal: ")
    assert message in said
    assert said.count("\n") == 1


def test_a_table_may_not_take_the_name_of_a_study(capsys):
    Path("bio.csv").write_text("a,b\n" + "1,2\n" * 60)
    assert main(["reproduce", "--csv", "bio.csv", "--target", "b"]) == 2
    assert "rename the file" in capsys.readouterr().err


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
    assert {row["dataset"] for row in summary if row["model"] == "forest"} == set(_data.NAMES)
    assert {row["n_splits"] for row in summary} == {20}
    found = {claim.words: claim.holds for claim in claims(summary)}
    for scenario in ("m >> n", "m << n"):
        assert found[f"{scenario}: mean coverage of FedCP-QQ just above .90"]
        assert found[f"{scenario}: FedCP-QQ close to centralised in coverage and length"]
