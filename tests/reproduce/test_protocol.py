"""Splits, cached fits, methods by hand, and means over splits."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

import fedconformal as fc
from reproduce.data import DataSet, poisson
from reproduce.methods import (
    AVERAGE,
    AVERAGE_NEXT,
    CENTRALISED,
    METHODS,
    PAPER,
    PRIVATE_METHODS,
    QQ,
    SINGLE,
    STABLE,
    Method,
    private_plan,
)
from reproduce.models import Ridge
from reproduce.protocol import (
    FEW,
    MANY,
    Fit,
    Scenario,
    Settings,
    evaluate,
    fit_split,
    run,
    summarise,
)

DATA = poisson(100, 200, 100)
SCORES = np.random.default_rng(0).gamma(2.0, size=(10, 100))
BY_NAME = {method.name: method.threshold for method in METHODS}


@dataclass(frozen=True)
class Spy:
    """Predicts zero, and notes on disk what it was trained on; fails at the splits it
    is told to.
    """

    name: ClassVar[str] = "spy"
    score: ClassVar = fc.scores.Absolute()
    notes: str = ""
    shift: float = 0.0

    def fit_predict(self, X, y, new, *, seed):
        folder = Path(self.notes)
        if (folder / f"fail-{seed}").exists():
            raise RuntimeError(f"interrupted at split {seed}")
        np.savez(
            folder / f"trained-{seed}-{len(list(folder.glob('trained-*')))}.npz",
            X=X,
            y=y,
        )
        return np.full(len(new), self.shift)

    def trained(self):
        return sorted(
            int(path.name.split("-")[1]) for path in Path(self.notes).glob("trained-*")
        )


@pytest.fixture
def spy(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    return Spy(str(folder))


def settings(folder, n_splits):
    return Settings(out=folder, n_splits=n_splits)


def test_splits_are_40_40_20_and_scaled_by_the_training_part(spy, tmp_path):
    rng = np.random.default_rng(1)
    X = np.column_stack(
        [rng.normal(7, 3, 501), np.full(501, 4.0)]
    )  # the second feature never varies
    data = DataSet("own", X, np.arange(501.0), (2, 10), (10, 2))
    fit = fit_split(data, spy, 3)
    seen = np.load(tmp_path / "notes" / "trained-3-0.npz")
    assert (fit.n_train, len(fit.y_calibration), len(fit.y_test)) == (200, 200, 101)
    assert seen["X"].mean(axis=0) == pytest.approx([0, 0], abs=1e-12)
    assert seen["X"].std(axis=0) == pytest.approx([1, 0])
    assert np.abs(seen["y"]).mean() == pytest.approx(1)
    everything = np.sort(np.concatenate([seen["y"], fit.y_calibration, fit.y_test]))
    assert everything / everything[1] == pytest.approx(
        np.arange(501)
    )  # every row once, in one part
    assert not np.array_equal(fit.y_test, fit_split(data, spy, 4).y_test)


def test_another_method_costs_no_fit_and_another_setting_does(spy, tmp_path):
    first = run(
        [DATA], [spy], settings(tmp_path, 3), lambda d: [Scenario("own", 10, 20)]
    )
    assert spy.trained() == [0, 1, 2]
    mine = Method("largest", lambda sites, level, rng: float(np.max(sites)))
    more = [Scenario("own", 10, 20, (*METHODS, mine))]
    second = run([DATA], [spy], settings(tmp_path, 3), lambda d: more)
    assert spy.trained() == [0, 1, 2]
    rest = second[second["method"] != "largest"].reset_index(drop=True)
    pd.testing.assert_frame_equal(rest, first, check_dtype=False)
    run([DATA], [Spy(spy.notes, shift=1.0)], settings(tmp_path, 1))
    run([poisson(100, 200, 100, rng=9)], [spy], settings(tmp_path, 1))
    assert spy.trained() == [0, 0, 0, 1, 2]


def test_an_interrupted_run_continues(spy, tmp_path):
    failing = Path(spy.notes) / "fail-2"
    failing.touch()
    with pytest.raises(RuntimeError, match="split 2"):
        run([DATA], [spy], settings(tmp_path, 4))
    before = spy.trained()
    assert before[:2] == [0, 1]
    failing.unlink()
    rows = run([DATA], [spy], settings(tmp_path, 4))
    assert spy.trained() == [0, 1, 2, 3]
    assert rows["split"].unique().tolist() == [0, 1, 2, 3]
    assert set(rows["scenario"]) == {MANY, FEW}


def test_coverage_and_length_are_what_they_say():
    """Test targets 1, ..., 10 and prediction 0: a threshold of 7.5 covers seven;
    intervals are 15 long.
    """
    zeros = np.zeros(10)
    fit = Fit(
        np.arange(1.0, 11), zeros, np.arange(1.0, 11), zeros, n_train=1, seconds=0.0
    )
    methods = [Method("mine", lambda *_: 7.5), Method("none", lambda *_: -1.0)]
    mine, none = evaluate(fit, Ridge(), Scenario("own", 2, 5, methods), 0.9, 0)
    assert (mine["coverage"], mine["length"]) == (pytest.approx(0.7), pytest.approx(15))
    assert (none["coverage"], none["length"]) == (0.0, 0.0)
    with pytest.raises(
        ValueError, match="3 sites of 5 need 15 calibration rows, got 10"
    ):
        evaluate(fit, Ridge(), Scenario("own", 3, 5, methods), 0.9, 0)


@pytest.mark.parametrize(("name", "ranks"), [(QQ, (95, 1)), (STABLE, (92, 4))])
def test_methods_take_the_ranks_of_their_plan(name, ranks):
    """The paper's pair and ours for ten sites of a hundred: the k-th of the l-th
    smallest.
    """
    l, k = ranks
    expected = np.sort(np.sort(SCORES, axis=1)[:, l - 1])[k - 1]
    assert BY_NAME[name](list(SCORES), 0.9, np.random.default_rng(0)) == expected


def test_baselines_by_hand():
    found = {
        name: method(list(SCORES), 0.9, None)
        for name, method in BY_NAME.items()
        if "QQ" not in name
    }
    ordered = np.sort(SCORES, axis=1)
    assert found == {
        CENTRALISED: np.sort(SCORES, axis=None)[900],
        AVERAGE: pytest.approx(ordered[:, 90].mean()),
        AVERAGE_NEXT: pytest.approx(ordered[:, 91].mean()),
        SINGLE: ordered[0, 90],
    }


def test_means_over_splits(tmp_path):
    rows = run([DATA], [Ridge()], settings(tmp_path, 4))
    means = summarise(rows)
    assert len(means) == 2 * len(METHODS)
    coverage = rows.loc[(rows["scenario"] == MANY) & (rows["method"] == QQ), "coverage"]
    one = means[(means["scenario"] == MANY) & (means["method"] == QQ)].iloc[0]
    assert (one["n_splits"], one["coverage"]) == (4, pytest.approx(coverage.mean()))
    assert one["coverage_std"] == pytest.approx(np.std(coverage, ddof=1))
    assert one["plan"] == "rank 10, weight 1; votes 8"


@pytest.mark.nightly
def test_private_thresholds_are_edges_of_the_papers_bins_and_infinite_without_a_plan():
    """m = 5, n = 200: the paper's analysis has a plan at epsilon 10 and 5 and none at
    1; ours has all.
    """
    scores = np.random.default_rng(1).gamma(2.0, size=(5, 200))
    edges = scores.min() + np.arange(1, 101) * (scores.max() - scores.min()) / 100
    for method in PRIVATE_METHODS[1:]:
        found = [
            method.threshold(list(scores), 0.9, np.random.default_rng(seed))
            for seed in (0, 0)
        ]
        assert found[0] == found[1]  # seeded: this is a simulation
        analysis = "paper" if method.name == PAPER else "curve"
        feasible = private_plan(5, 200, 0.9, method.epsilon, analysis).feasible
        assert feasible == (analysis == "curve" or method.epsilon > 1)
        assert (
            np.isclose(edges, found[0], rtol=0, atol=1e-9).any()
            if feasible
            else np.isinf(found[0])
        )
