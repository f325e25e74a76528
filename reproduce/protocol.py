"""The protocol of section 5.2: random splits, a fit for each, and every method on the
same scores.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import joblib
import numpy as np
import pandas as pd

import fedconformal as fc
from fedconformal.scores import EmptySetWarning
from reproduce import data, models
from reproduce.data import DataSet
from reproduce.methods import METHODS, Method

MANY, FEW, PRIVATE = "m >> n", "m << n", "private"

SETTING = ["scenario", "dataset", "model", "n_sites", "n_points", "method", "epsilon"]
"""Columns that tell the rows of one setting from those of another; splits are averaged
within it.
"""


@dataclass(frozen=True)
class Settings:
    """What the studies are run with: where fits are kept, how much is done, with which
    models.
    """

    out: Path = Path("reproduction")
    quick: bool = False
    download: bool = False
    jobs: int = 1
    n_splits: int = 20
    models: Sequence[str] = ("ridge", "forest")
    level: float = 0.9

    def model(self, name: str):
        """Return a model, a small one if the run is quick."""
        return (models.QUICK_MODELS if self.quick else models.MODELS)[name]

    def data_sets(self, names: Sequence[str] = data.DATA_SETS) -> list[DataSet]:
        """Return the data sets that are here; the synthetic one too if the run is quick
        or none is here.
        """
        here = [
            data.load(name, download=self.download)
            for name in names
            if self.download or data.available(name)
        ]
        return [data.poisson(), *here] if self.quick or not here else here


@dataclass(frozen=True)
class Scenario:
    """A federation, and the methods compared on it."""

    name: str
    n_sites: int
    n_points: int
    methods: Sequence[Method] = METHODS


def paper_scenarios(
    dataset: DataSet, methods: Sequence[Method] = METHODS
) -> list[Scenario]:
    """Return the paper's two federations of a data set: many small sites, and few large
    ones.
    """
    return [
        Scenario(MANY, *dataset.many_sites, methods),
        Scenario(FEW, *dataset.few_sites, methods),
    ]


@dataclass(frozen=True, eq=False)
class Fit:
    """Targets and predictions of the calibration and test parts, after training on one
    split.
    """

    y_calibration: np.ndarray
    calibration: np.ndarray
    y_test: np.ndarray
    test: np.ndarray
    n_train: int
    seconds: float


def fit_split(dataset: DataSet, model, split: int) -> Fit:
    """Split at random, scale by the training part, train, and predict for the other two
    parts.

    Features get zero mean and unit variance; the target is divided by its mean absolute
    value.
    """
    start = time.process_time()
    order = np.random.default_rng([split, 0]).permutation(len(dataset.y))
    train, calibration, test = np.split(
        order, np.cumsum([dataset.n_train, dataset.n_calibration])
    )
    center, spread = dataset.X[train].mean(axis=0), dataset.X[train].std(axis=0)
    X = (dataset.X - center) / np.where(spread > 0, spread, 1.0)
    y = dataset.y / np.abs(dataset.y[train]).mean()
    new = np.concatenate([calibration, test])
    predicted = model.fit_predict(X[train], y[train], X[new], seed=split)
    return Fit(
        y_calibration=y[calibration],
        calibration=predicted[: len(calibration)],
        y_test=y[test],
        test=predicted[len(calibration) :],
        n_train=len(train),
        seconds=time.process_time() - start,
    )


def run(
    datasets: Sequence[DataSet],
    models: Sequence,
    settings: Settings,
    scenarios: Callable[[DataSet], Sequence[Scenario]] = paper_scenarios,
) -> pd.DataFrame:
    """Return coverage and length for every data set, model, split, scenario and method.

    Fits are kept in the folder of the settings, so that an interrupted run continues
    and another method costs no training.
    """
    fit = joblib.Memory(settings.out / "cache", verbose=0).cache(fit_split)
    work = [
        (d, model, split)
        for d in datasets
        for model in models
        for split in range(settings.n_splits)
    ]
    fits = joblib.Parallel(settings.jobs, return_as="generator")(
        joblib.delayed(fit)(*one) for one in work
    )
    rows = []
    for (dataset, model, split), found in zip(work, fits, strict=True):
        for scenario in scenarios(dataset):
            common = {"dataset": dataset.name, "model": model.name, "split": split}
            rows += [
                common | row
                for row in evaluate(found, model, scenario, settings.level, split)
            ]
    return pd.DataFrame(rows)


def evaluate(
    fit: Fit, model, scenario: Scenario, level: float, split: int
) -> list[dict]:
    """Return coverage on the test part and mean length of the intervals of each
    method.
    """
    m, n = scenario.n_sites, scenario.n_points
    if m * n > len(fit.y_calibration):
        raise ValueError(
            f"{m} sites of {n} need {m * n} calibration rows, got"
            f" {len(fit.y_calibration)}"
        )
    scores = model.score.score(fit.y_calibration, fit.calibration)[: m * n].reshape(
        m, n
    )
    rows = []
    for i, method in enumerate(scenario.methods):
        threshold = method.threshold(
            list(scores), level, np.random.default_rng([split, 2, i])
        )
        coverage, length = quality(fit.y_test, model.score, fit.test, threshold)
        rows.append(
            {
                "scenario": scenario.name,
                "confidence_level": level,
                "n_sites": m,
                "n_points": n,
                "method": method.name,
                "epsilon": method.epsilon,
                "plan": method.plan_text((n,) * m, level),
                "threshold": threshold,
                "coverage": coverage,
                "length": length,
                "n_train": fit.n_train,
                "n_test": len(fit.y_test),
                "fit_seconds": fit.seconds,
            }
        )
    return rows


def quality(
    y: np.ndarray, score, predicted: np.ndarray, threshold: float
) -> tuple[float, float]:
    """Return the share of covered targets and the mean length of the intervals."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmptySetWarning)
        intervals = np.asarray(score.set(predicted, threshold), dtype=float)
    coverage = fc.metrics.regression_coverage_score(y, intervals)[0]
    return float(coverage), float(fc.metrics.regression_mean_width_score(intervals)[0])


def summarise(rows: pd.DataFrame) -> pd.DataFrame:
    """Average over splits, with the standard deviation of the coverage."""
    return rows.groupby(SETTING, sort=False, dropna=False, as_index=False).agg(
        confidence_level=("confidence_level", "first"),
        n_splits=("split", "size"),
        n_train=("n_train", "first"),
        n_test=("n_test", "first"),
        plan=("plan", "first"),
        coverage=("coverage", "mean"),
        coverage_std=("coverage", "std"),
        length=("length", "mean"),
        fit_seconds=("fit_seconds", "mean"),
    )
