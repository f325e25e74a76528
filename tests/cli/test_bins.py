"""Bins of exact and noisy counts on the command line."""

import numpy as np
import pytest

import fedconformal as fc

FEDERATION = ("--sites", 10, "--points", 300)
PRIVATE = (*FEDERATION, "--epsilon", 2)


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def bins(run, *options):
    message = fc.Plan.from_json(run("plan", *options, "--json").out).message
    return fc.Bins(message.edges, bounded=message.bounded)


@pytest.mark.parametrize("options", [(*PRIVATE, "--bins"), (*FEDERATION, "--curve")])
def test_edges(run, options):
    assert bins(run, *options, "edges:0.1,0.5,2") == fc.Bins([0.1, 0.5, 2.0])
    np.savetxt("edges.csv", [0.1, 0.5, 1.0], header="edge", comments="")
    assert bins(run, *options, "edges:edges.csv:bounded") == fc.Bins([0.1, 0.5, 1.0], bounded=True)
    for text in (
        "grid:1:2:3",
        "uniform:0:1",
        "uniform:8:0:50",
        "edges:",
        "edges:1,0",
        "log:a:b:3",
        "from:nowhere.csv",
        "from:edges.csv:bounded",
    ):
        assert f"{options[-1]} '{text}'" in run("plan", *options, text, code=2).err


def test_a_bounded_score_needs_no_bins(run):
    assert bins(run, *PRIVATE, "--score", "lac") == fc.Bins.uniform(0, 1, 190, bounded=True)
    error = run("plan", *PRIVATE, "--score", "absolute", code=2).err
    assert "needs bins, as score 'absolute' is unbounded" in error
    assert "--bins from:FILE" in error


def test_bins_from_public_scores(run, tmp_path):
    scores = np.random.default_rng(0).random(500).round(4)
    expected = fc.Bins.from_reference(scores)
    assert len(expected.edges) == 100
    np.savetxt("public.csv", scores, header="score", comments="")
    assert bins(run, *PRIVATE, "--bins", "from:public.csv") == expected
    rows = [f"{i};{score}".replace(".", ",") for i, score in enumerate(scores)]
    (tmp_path / "two.csv").write_text("\n".join(["case;score", *rows, ""]))
    assert "(case, score), and one is needed" in run("plan", *PRIVATE, "--bins", "from:two.csv", code=2).err
    (tmp_path / "commas.csv").write_text("\n".join(["score", *(row.split(";")[1] for row in rows), ""]))
    assert bins(run, *PRIVATE, "--bins", "from:commas.csv") == expected


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--bins", "uniform:0:1:9"], "--bins goes with --epsilon; for exact counts give --curve"),
        (["--curve", "uniform:0:1:9", "--epsilon", 1], "--curve and --epsilon do not go together"),
        (["--epsilon", 1, "--bins", "from:nowhere.csv"], "nowhere.csv: no such file"),
        (["--epsilon", 1, "--bins", "from:A.csv:bounded"], ":bounded goes behind all but from:FILE"),
    ],
)
def test_options_that_do_not_go_together(run, options, words):
    assert words in run("plan", "--sites", 3, "--points", 300, *options, code=2).err
