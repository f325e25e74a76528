"""Private plans with files: ledgers, noisy counts, cases that must not be
distinguished.
"""

import json
import math

import numpy as np
import polars as pl
import pytest

import fedconformal as fc

RULE = ("--epsilon", 4, "--bins", "uniform:0:8:50")


@pytest.fixture
def private(desk, run):
    run("plan", "--sites", 3, "--points", 300, *RULE, "-o", "private.json")
    return desk


def account(run, name, dataset="trial", budget=5):
    run("ledger", "new", f"{name}.db")
    run("ledger", "budget", f"{name}.db", dataset, budget)
    return ["--ledger", f"{name}.db", "--dataset", dataset]


@pytest.mark.parametrize("options", [(), ("--paper",)])
def test_the_whole_way(desk, run, options):
    run("plan", "--sites", 3, "--points", 300, *RULE, *options, "-o", "private.json")
    for name in "XYZ":
        np.save(f"{name}.npy", np.random.default_rng(ord(name)).exponential(size=300))
        order = [
            "report",
            "private.json",
            f"{name}.npy",
            "--site",
            name,
            *account(run, name),
        ]
        run(*order, "-o", f"{name}.json")
        again = run(*order, "--json").out
        assert fc.Report.from_json(again) == fc.Report.read(f"{name}.json")
    shown = run(
        "calibrate", "private.json", "X.json", "Y.json", "Z.json", "-o", "c.json"
    ).out
    assert "with noise)" in shown
    assert fc.Calibration.read("c.json").threshold > 1.5
    run("verify", "c.json")
    accounts = json.loads(run("ledger", "show", "X.db", "--json").out)["accounts"]
    assert accounts[0]["spent"] == 4
    assert "trial" in run("ledger", "show", "X.db").out


@pytest.mark.slow
def test_no_more_than_the_budget_and_never_without_a_ledger(private, run):
    np.save("X.npy", np.random.default_rng(0).exponential(size=300))
    ledger = account(run, "X")
    run("report", "private.json", "X.npy", "--site", "X", *ledger, "-o", "X.json")
    more = ["--epsilon", 3, "--bins", "log:0.01:8:50"]
    run("plan", "--sites", 3, "--points", 300, *more, "-o", "other.json")
    order = ["report", "other.json", "X.npy", "--site", "X"]
    assert "trial" in run(*order, *ledger, code=2).err
    assert "ledger" in run(*order, code=2).err


def test_scores_of_a_new_model_draw_on_the_old_budget_once_accepted(desk, run):
    run(
        "plan",
        "--sites",
        3,
        "--points",
        300,
        "--epsilon",
        2,
        "--bins",
        "uniform:0:80:50",
        "-o",
        "p.json",
    )
    scores = np.random.default_rng(0).exponential(size=300)
    np.save("old.npy", scores)
    np.savetxt("new.csv", 9 * scores, header="score", comments="")
    options = ["--site", "X", *account(run, "X", budget=4), "--decimal", ".", "--json"]
    first = fc.Report.from_json(run("report", "p.json", "old.npy", *options).out)
    refused = run("report", "p.json", "new.csv", *options, code=2).err
    assert "have changed" in refused
    assert "ledger accept" in refused
    run("ledger", "accept", "X.db", "trial", "new.csv", "--reason", "model 2")
    second = fc.Report.from_json(run("report", "p.json", "new.csv", *options).out)
    assert (
        first.payload.counts[0] > 2 * second.payload.counts[0]
    )  # nine times as large scores
    assert (
        json.loads(run("ledger", "show", "X.db", "--json").out)["accounts"][0]["spent"]
        == 4
    )


def test_odd_labels_are_not_distinguished_either(desk, run):
    rng = np.random.default_rng(3)
    odd = [7, -1, 0.5, math.nan, None, math.inf]
    first = [*odd, *rng.integers(2, size=294).tolist()]
    p = rng.random(300)
    pl.DataFrame({"y": first, "a": p, "b": 1 - p}, strict=False).write_csv("cases.csv")
    rule = ["--epsilon", 4, "--bins", "uniform:0:1:20:bounded", "--score", "lac"]
    run("plan", "--sites", 3, "--points", 300, *rule, "-o", "private.json")
    cases = ["--target", "y", "--prediction", "a", "--prediction", "b"]
    order = [
        "report",
        "private.json",
        "cases.csv",
        "--site",
        "X",
        *cases,
        *account(run, "X"),
    ]
    run(*order, "-o", "X.json")
    assert fc.Report.read("X.json").n == 300


def test_randomized_scores_are_answered_once(desk, run):
    """Fresh randomness in the scores must not make the same question a new one."""
    rng = np.random.default_rng(0)
    chances = rng.dirichlet([1, 1, 1], size=400)
    frame = {
        "y": rng.integers(3, size=400),
        **{f"p{i}": chances[:, i] for i in range(3)},
    }
    pl.DataFrame(frame).write_csv("cases.csv")
    options = ("--score", "aps:randomized=true", "--confidence-level", 0.8)
    bins = ("--epsilon", 4, "--bins", "uniform:0:1:50")
    run("plan", "--sites", 3, "--points", 400, *options, *bins, "-o", "p.json")
    columns = [word for i in range(3) for word in ("--prediction", f"p{i}")]
    order = [
        "report",
        "p.json",
        "cases.csv",
        "--site",
        "A",
        "--target",
        "y",
        *columns,
        *account(run, "A"),
    ]
    first = run(*order, "--json").out
    assert [run(*order, "--json").out for _ in range(3)] == [first] * 3
    assert fc.Ledger("A.db").spent("trial") == 4


def test_randomness_of_scores_is_the_ledgers_own(desk, run):
    fc.Ledger.create("other.db")
    ledger = fc.Ledger.create("one.db")
    first = ledger.generator("plan", "A").random(5)
    assert (ledger.generator("plan", "A").random(5) == first).all()
    for other in (ledger.generator("plan 2", "A"), ledger.generator("plan", "B")):
        assert (other.random(5) != first).all()
    assert (fc.Ledger("other.db").generator("plan", "A").random(5) != first).all()
