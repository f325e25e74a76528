"""The command line: names, options, errors, and all studies in a quick run."""

from pathlib import Path

import pandas as pd
import pytest

from reproduce import data
from reproduce.__main__ import main
from reproduce.studies import STUDIES


@pytest.fixture(autouse=True)
def nothing_here(monkeypatch, tmp_path):
    """No data on this machine, and an empty folder to work in."""
    monkeypatch.delenv(data.FOLDER, raising=False)
    monkeypatch.setattr(data, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.chdir(tmp_path)


@pytest.mark.nightly
def test_all_studies_run_quickly_without_data(capsys):
    main(["all", "--quick", "--jobs", "1", "--splits", "2"])
    said = capsys.readouterr().out
    left_out = {"bio", "bike", "community", "star", "concrete", "authors", "hospitals"}
    assert {
        line.split(":")[0] for line in said.splitlines() if "left out, needs" in line
    } == left_out
    out = Path("reproduction/quick")
    assert {path.stem for path in (out / "results").glob("*.csv")} == set(
        STUDIES
    ) - left_out
    for name in set(STUDIES) - left_out:
        assert (out / f"figures/{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (out / f"figures/{name}.pdf").read_bytes().startswith(b"%PDF")
    assert len(pd.read_csv(out / "results/coverage.csv")) == 2 * 2 * 2 * 7
    assert (out / "results/runs.json").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "no study 'nonsense'; choose from upper-bounds, "),
        (["bio"], "bio: CASP.csv is not in "),
        (["curves", "--models", "oracle"], "invalid choice: 'oracle'"),
    ],
)
def test_errors_name_what_is_wrong(arguments, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
