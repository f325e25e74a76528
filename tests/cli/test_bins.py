"""Bins of private reports on the command line."""

import numpy as np
import pytest

import fedconformal as fc

FEDERATION = ("--sites", 10, "--points", 300, "--epsilon", 2)


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def bins(run, *options):
    return fc.Plan.from_json(run("plan", *FEDERATION, *options, "--json").out).bins


def test_edges(run):
    assert bins(run, "--bins", "edges:0.1,0.5,2") == fc.Bins([0.1, 0.5, 2.0])
    np.savetxt("edges.csv", [0.1, 0.5, 1.0], header="edge", comments="")
    assert bins(run, "--bins", "edges:edges.csv", "--bounded") == fc.Bins([0.1, 0.5, 1.0], bounded=True)


def test_bins_from_public_scores(run, tmp_path):
    scores = np.random.default_rng(0).random(500).round(4)
    expected = fc.Bins.from_reference(scores)
    assert len(expected.edges) == 100
    np.savetxt("public.csv", scores, header="score", comments="")
    assert bins(run, "--bins-from", "public.csv") == expected
    rows = [f"{i};{score}".replace(".", ",") for i, score in enumerate(scores)]
    (tmp_path / "two.csv").write_text("\n".join(["case;score", *rows, ""]))
    assert "say which with --column" in run("plan", *FEDERATION, "--bins-from", "two.csv", code=2).err
    options = ("--column", "score", "--separator", ";", "--decimal", ",")
    assert bins(run, "--bins-from", "two.csv", *options) == expected


@pytest.mark.parametrize(
    "text", ["grid:1:2:3", "uniform:0:1", "uniform:8:0:50", "edges:", "edges:1,0", "log:a:b:3"]
)
def test_what_is_no_bins_is_refused(run, text):
    assert f"--bins '{text}'" in run("plan", *FEDERATION, "--bins", text, code=2).err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--epsilon", 1], "--epsilon and --bins, or --bins-from, go together"),
        (["--bins-from", "public.csv"], "--epsilon and --bins, or --bins-from, go together"),
        (["--epsilon", 1, "--bins", "uniform:0:1:9", "--bins-from", "public.csv"], "do not go together"),
        (
            ["--epsilon", 1, "--bins-from", "public.csv", "--bounded"],
            "--bounded does not go with --bins-from",
        ),
        (["--epsilon", 1, "--bins", "uniform:0:1:9", "--column", "x"], "--column goes with --bins-from"),
        (["--epsilon", 1, "--bins-from", "nowhere.csv"], "nowhere.csv: no such file"),
    ],
)
def test_options_that_do_not_go_together(run, options, words):
    assert words in run("plan", "--sites", 3, "--points", 300, *options, code=2).err
