import json
from dataclasses import dataclass
from typing import ClassVar

import joblib
import numpy as np
import pytest

import fedconformal as fc
from fedconformal.experiments import (
    METHODS,
    PRIVATE_METHODS,
    DataSet,
    Method,
    Ridge,
    Scenario,
    Store,
    _protocol,
    poisson,
    run,
    summarise,
)
from fedconformal.experiments._methods import QQ, STABLE, UNBALANCED, private_plan
from fedconformal.experiments._protocol import FEW, MANY, PRIVATE, evaluate, fit_split
from fedconformal.experiments._store import Fit, select

DATA = poisson(100, 200, 100)
SCORES = np.random.default_rng(0).gamma(2.0, size=(10, 100))


@dataclass(frozen=True)
class Spy:
    """Predicts zero, and notes on disk what it was trained on; fails at the splits it is told to."""

    name: ClassVar[str] = "spy"
    score: ClassVar = fc.scores.Absolute()
    notes: str = ""
    shift: float = 0.0

    def fit_predict(self, X, y, new, *, seed):
        from pathlib import Path

        folder = Path(self.notes)
        if (folder / f"fail-{seed}").exists():
            raise RuntimeError(f"interrupted at split {seed}")
        np.savez(folder / f"trained-{seed}-{len(list(folder.glob('trained-*')))}.npz", X=X, y=y, new=new)
        return np.full(len(new), self.shift)


def trained(folder):
    return sorted(int(path.name.split("-")[1]) for path in folder.glob("trained-*"))


@pytest.fixture
def spy(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    return Spy(str(folder))


def test_splits_are_40_40_20_and_scaled_by_the_training_part(spy, tmp_path):
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(7, 3, 501), np.full(501, 4.0)])  # the second feature never varies
    data = DataSet("own", X, np.arange(501.0), (2, 10), (10, 2))
    fit = fit_split(data, spy, 3)
    seen = np.load(tmp_path / "notes" / "trained-3-0.npz")
    assert (fit.n_train, len(fit.y_calibration), len(fit.y_test)) == (200, 200, 101)
    assert seen["X"].mean(axis=0) == pytest.approx([0, 0], abs=1e-12)
    assert seen["X"].std(axis=0) == pytest.approx([1, 0])
    assert np.abs(seen["y"]).mean() == pytest.approx(1)
    scale = np.sort(np.concatenate([seen["y"], fit.y_calibration, fit.y_test]))[1]
    everything = np.concatenate([seen["y"], fit.y_calibration, fit.y_test]) / scale
    assert np.sort(everything) == pytest.approx(np.arange(501))  # every row once, in one part
    assert not np.array_equal(fit.y_test, fit_split(data, spy, 4).y_test)


def test_another_method_costs_no_fit_and_another_setting_does(spy, tmp_path):
    store, notes = Store(tmp_path), tmp_path / "notes"
    scenario = [Scenario("own", 10, 20)]
    first = run([DATA], [spy], store=store, scenarios=lambda d: scenario, n_splits=3, jobs=1)
    assert trained(notes) == [0, 1, 2]
    mine = Method("largest", lambda sites, level, rng: float(np.max(sites)))
    more = [Scenario("own", 10, 20, (*METHODS, mine))]
    second = run([DATA], [spy], store=store, scenarios=lambda d: more, n_splits=3, jobs=1)
    assert trained(notes) == [0, 1, 2]
    assert [row for row in second if row["method"] != "largest"] == first
    run([DATA], [Spy(spy.notes, shift=1.0)], store=store, scenarios=lambda d: scenario, n_splits=1, jobs=1)
    assert trained(notes) == [0, 0, 1, 2]
    run([poisson(100, 200, 100, rng=9)], [spy], store=store, scenarios=lambda d: scenario, n_splits=1, jobs=1)
    assert trained(notes) == [0, 0, 0, 1, 2]


def test_an_interrupted_run_goes_on_where_it_was(spy, tmp_path):
    store, notes = Store(tmp_path), tmp_path / "notes"
    (notes / "fail-2").touch()
    with pytest.raises(RuntimeError, match="split 2"):
        run([DATA], [spy], store=store, n_splits=4, jobs=1)
    kept = len(list((tmp_path / "fits").iterdir()))
    before = len(trained(notes))
    assert 0 < kept <= before < 4
    (notes / "fail-2").unlink()
    counted = []
    rows = run([DATA], [spy], store=store, n_splits=4, jobs=1, progress=lambda *p: counted.append(p))
    assert (counted[0], counted[-1]) == ((kept, 4), (4, 4))
    assert len(trained(notes)) == before + 4 - kept
    afresh = run([DATA], [spy], store=Store(tmp_path / "afresh"), n_splits=4, jobs=1)
    assert timeless(rows) == timeless(afresh)


def timeless(rows):
    return [{**row, "fit_seconds": None} for row in rows]


def test_a_half_written_fit_is_never_seen(tmp_path, monkeypatch):
    fit = fit_split(DATA, Ridge(), 0)
    path = tmp_path / "fits" / "one.npz"

    def broken(file, **arrays):
        file.write_bytes(b"half of it")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", broken)
    with pytest.raises(ValueError, match=r"one.npz: cannot be written: disk full"):
        fit.save(path)
    assert list(path.parent.iterdir()) == []
    monkeypatch.undo()
    fit.save(path)
    again = Fit.read(path)
    assert np.array_equal(again.test, fit.test)
    assert (again.n_train, again.seconds) == (fit.n_train, fit.seconds)


@pytest.mark.parametrize("damage", [b"", b"junk", b"PK\x03\x04junk", "cut", "another"])
def test_a_damaged_fit_is_made_anew_with_one_line(damage, spy, tmp_path):
    store, notes = Store(tmp_path), tmp_path / "notes"
    rows = run([DATA], [spy], store=store, n_splits=2, jobs=1)
    path = store.fit_path(DATA, spy, 1)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-50])
    elif damage == "another":
        np.savez(path, x=1)
    else:
        path.write_bytes(damage)
    with pytest.warns(UserWarning, match=rf"^{path}: not a whole fit: .*; it is made anew$") as told:
        again = run([DATA], [spy], store=store, n_splits=2, jobs=1)
    assert len(told) == 1
    assert timeless(again) == timeless(rows)
    assert trained(notes) == [0, 1, 1]


def test_a_damaged_table_of_results_is_refused_in_one_line(tmp_path):
    store = Store(tmp_path)
    store.save_results("study", [{"a": 1}])
    assert store.read_results("study") == [{"a": 1}]
    store.results_path("study").write_bytes(b"PAR1junk")
    with pytest.raises(ValueError, match=r"study.parquet: cannot be read: .+; run the study 'study' again$"):
        store.read_results("study")


def test_dask_workers_find_the_same_as_one_process(tmp_path):
    distributed = pytest.importorskip("distributed", reason="dask is not installed")
    alone = run([DATA], [Ridge()], store=Store(tmp_path / "alone"), n_splits=3, jobs=1)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        spread = run([DATA], [Ridge()], store=Store(tmp_path / "spread"), n_splits=3)
    assert timeless(spread) == timeless(alone)


def test_every_setting_is_in_the_table(tmp_path):
    store = Store(tmp_path)
    rows = run([DATA], [Ridge()], store=store, n_splits=2, jobs=1, confidence_level=0.8)
    store.save_results("own", rows)
    assert store.read_results("own") == rows
    row = rows[-1]
    assert json.loads(row["settings"]) == {"alphas": [0.1, 1.0, 10.0]}
    assert (row["dataset"], row["model"], row["split"], row["scenario"]) == ("synthetic", "ridge", 1, FEW)
    assert (row["n_sites"], row["n_points"], row["n_calibration"]) == (10, 20, 200)
    assert row["confidence_level"] == 0.8
    assert row["version"] == fc.__version__
    assert {row["scenario"] for row in rows} == {MANY, FEW}
    csv = (tmp_path / "results" / "own.csv").read_text().splitlines()
    assert len(csv) == len(rows) + 1 == 29
    assert store.read_results("never run") == []


def test_models_that_are_not_wanted_are_left_out(spy, tmp_path):
    rows = run(
        [DATA], [spy, Ridge()], store=Store(tmp_path), n_splits=1, jobs=1, wanted=lambda d, m: m != spy
    )
    assert {row["model"] for row in rows} == {"ridge"}


def test_coverage_and_length_are_what_they_say():
    """Test targets 1, ..., 10 and prediction 0: a threshold of 7.5 covers seven; intervals are 15 long."""
    zeros = np.zeros(10)
    fit = Fit(np.arange(1.0, 11), zeros, np.arange(1.0, 11), zeros, n_train=1, seconds=0.0)
    mine = Method("mine", lambda sites, level, rng: 7.5)
    (row,) = evaluate(fit, Ridge(), Scenario("own", 2, 5, [mine]), 0.9, 0)
    assert row["coverage"] == pytest.approx(0.7)
    assert row["length"] == pytest.approx(15)
    with pytest.raises(ValueError, match="3 sites of 5 need 15 calibration rows, there are 10"):
        evaluate(fit, Ridge(), Scenario("own", 3, 5, [mine]), 0.9, 0)


def test_empty_intervals_have_no_length_and_cover_nothing():
    fit = Fit(np.zeros(10), np.zeros(10), np.zeros(5), np.zeros(5), n_train=1, seconds=0.0)
    (row,) = evaluate(fit, Ridge(), Scenario("own", 2, 5, [Method("none", lambda *_: -1.0)]), 0.9, 0)
    assert (row["coverage"], row["length"]) == (0.0, 0.0)


@pytest.mark.parametrize(("name", "ranks"), [(QQ, (95, 1)), (STABLE, (92, 4))])
def test_methods_take_the_ranks_of_their_plan(name, ranks):
    """The paper's pair and ours for ten sites of a hundred, by hand: the k-th of the l-th smallest."""
    method = next(method for method in METHODS if method.name == name)
    l, k = ranks
    expected = np.sort(np.sort(SCORES, axis=1)[:, l - 1])[k - 1]
    assert method.threshold(list(SCORES), 0.9, np.random.default_rng(0)) == expected


def test_baselines_by_hand():
    by_name = {method.name: method.threshold for method in METHODS}
    rng = np.random.default_rng(0)
    own = np.sort(SCORES, axis=1)[:, 90]
    assert by_name["Centralised"](list(SCORES), 0.9, rng) == np.sort(SCORES, axis=None)[900]
    assert by_name["FedCP-Avg"](list(SCORES), 0.9, rng) == pytest.approx(own.mean())
    assert by_name["Single site"](list(SCORES), 0.9, rng) == own[0]


def test_unbalanced_sites_send_the_papers_rank():
    sites = [SCORES[0, :10], SCORES[1, :30], SCORES[2]]
    sent = [np.sort(sites[0])[9], np.sort(sites[1])[27], np.sort(sites[2])[90]]
    assert UNBALANCED.threshold(sites, 0.9, np.random.default_rng(0)) in sent


def test_private_thresholds_are_edges_of_the_papers_bins_and_infinite_without_a_plan():
    """m = 5, n = 200: the paper's analysis has a plan at epsilon 10 and 5 and none at 1; ours has all."""
    scores = np.random.default_rng(1).gamma(2.0, size=(5, 200))
    edges = scores.min() + np.arange(1, 101) * (scores.max() - scores.min()) / 100
    for method in PRIVATE_METHODS[1:]:
        found = [method.threshold(list(scores), 0.9, np.random.default_rng(seed)) for seed in (0, 0, 1)]
        assert found[0] == found[1]  # seeded: this is a simulation
        analysis = "paper" if "paper" in method.name else "tight"
        feasible = private_plan(5, 200, 0.9, method.epsilon, analysis).feasible
        assert feasible == (analysis == "tight" or method.epsilon > 1)
        if feasible:
            assert np.isclose(edges, found[0], rtol=0, atol=1e-9).any()
        else:
            assert found[0] == np.inf


def test_means_over_splits(tmp_path):
    rows = run([DATA], [Ridge()], store=Store(tmp_path), n_splits=4, jobs=1)
    summary = summarise(rows)
    assert len(summary) == 2 * len(METHODS)
    group = select(rows, scenario=MANY, method=QQ)
    (one,) = select(summary, scenario=MANY, method=QQ)
    coverage = [row["coverage"] for row in group]
    assert (one["n_splits"], one["coverage"]) == (4, pytest.approx(np.mean(coverage)))
    assert one["coverage_std"] == pytest.approx(np.std(coverage, ddof=1))
    assert not select(summary, scenario=PRIVATE)


def test_the_rest_of_the_package_does_not_know_experiments():
    import subprocess
    import sys

    code = (
        "import sys; from fedconformal.cli import main; main(['plan', '--sites', '5', '--points', '20']); "
        "print('fedconformal.experiments' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "False"
    assert "matplotlib" not in dir(_protocol)
