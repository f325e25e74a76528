"""The paper's protocol: random splits, a fit for each, and every method on the same scores."""

import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedconformal import __version__, metrics
from fedconformal._extras import need
from fedconformal._typing import Floats
from fedconformal.experiments._data import DataSet
from fedconformal.experiments._methods import METHODS, Method
from fedconformal.experiments._models import Model, settings
from fedconformal.experiments._store import Fit, Rows, Store
from fedconformal.scores import EmptySetWarning

Progress = Callable[[int, int], None]
"""Called with how many fits are there, and how many there will be."""

Work = tuple[DataSet, Model, int]
"""What is split and trained, and which split."""

MANY, FEW, PRIVATE = "m >> n", "m << n", "private"


@dataclass(frozen=True)
class Scenario:
    """A federation, and the methods to compare on it.

    Parameters
    ----------
    name : str
        What tables and figures call it.
    n_sites, n_points : int
        The federation.
    methods : sequence of Method
        What is compared.

    Examples
    --------
    >>> from fedconformal.experiments import Scenario
    >>> Scenario("few sites", n_sites=5, n_points=40).n_points
    40
    """

    name: str
    n_sites: int
    n_points: int
    methods: Sequence[Method] = METHODS


def paper_scenarios(dataset: DataSet, methods: Sequence[Method] = METHODS) -> list[Scenario]:
    """The paper's two federations of a data set: many small sites, and few large ones.

    Parameters
    ----------
    dataset : DataSet
        Whose federations these are.
    methods : sequence of Method
        What is compared on them.

    Returns
    -------
    list of Scenario
        m >> n and m << n.

    Examples
    --------
    >>> from fedconformal.experiments import poisson
    >>> from fedconformal.experiments import paper_scenarios
    >>> [scenario.n_sites * scenario.n_points for scenario in paper_scenarios(poisson(100, 200, 100))]
    [200, 200]
    """
    return [
        Scenario(MANY, *dataset.many_sites, methods),
        Scenario(FEW, *dataset.few_sites, methods),
    ]


def fit_split(dataset: DataSet, model: Model, split: int) -> Fit:
    """Split 40/40/20 at random, scale by the training part, train, and predict for the other two parts.

    Features get zero mean and unit variance, the target is divided by its mean absolute value.

    Parameters
    ----------
    dataset : DataSet
        What is split.
    model : Model
        What is trained.
    split : int
        Which split: the seed of everything random.

    Returns
    -------
    Fit
        Predictions, and what was true.
    """
    start = time.process_time()
    order = np.random.default_rng([split, 0]).permutation(len(dataset.y))
    train, calibration, test = np.split(order, np.cumsum([dataset.n_train, dataset.n_calibration]))
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
    models: Sequence[Model],
    *,
    store: Store,
    scenarios: Callable[[DataSet], Sequence[Scenario]] = paper_scenarios,
    wanted: Callable[[DataSet, Model], bool] = lambda dataset, model: True,
    n_splits: int = 20,
    confidence_level: float = 0.9,
    jobs: int | None = None,
    cached: bool = False,
    progress: Progress = lambda done, of: None,
) -> Rows:
    """Run every method in every scenario on every split of each data set and model.

    Fits that the store has are not made again, so an interrupted run goes on where it was and another
    method costs no training.

    Parameters
    ----------
    datasets : sequence of DataSet
        What is split.
    models : sequence of Model
        What is trained.
    store : Store
        Where fits are kept.
    scenarios : callable
        The scenarios of a data set.
    wanted : callable
        Whether a data set and a model go together.
    n_splits : int
        Random splits of each data set.
    confidence_level : float
        Coverage wanted.
    jobs : int, optional
        Processes that train at a time, by joblib; left out, whatever an enclosing
        ``joblib.parallel_config`` says.
    cached : bool
        Whether pairs of a data set and a model whose fits are not all there are left out, not trained.
    progress : callable
        Told how many fits are there, and of how many.

    Returns
    -------
    list of dict
        One row for each data set, model, split, scenario and method.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from fedconformal.experiments import Ridge, Store, poisson, run
    >>> with TemporaryDirectory() as folder:
    ...     rows = run([poisson(100, 200, 100)], [Ridge()], store=Store(Path(folder)), n_splits=2, jobs=1)
    >>> first = rows[0]
    >>> first["scenario"], first["n_sites"], first["n_points"], first["method"], first["plan"]
    ('m >> n', 20, 10, 'FedCP-QQ', 'rank 10, weight 1; votes 8')
    >>> sorted({(row["split"], row["n_test"]) for row in rows})
    [(0, 100), (1, 100)]
    """
    pairs = [(dataset, model) for dataset in datasets for model in models if wanted(dataset, model)]
    if cached:
        pairs = [
            pair for pair in pairs if all(store.has_fit(store.fit_path(*pair, i)) for i in range(n_splits))
        ]
    work = [(*pair, split) for pair in pairs for split in range(n_splits)]
    missing = [one for one in work if not store.has_fit(store.fit_path(*one))]
    progress(len(work) - len(missing), len(work))
    for done, (one, fit) in enumerate(_fits(missing, jobs), start=1):
        fit.save(store.fit_path(*one))
        progress(len(work) - len(missing) + done, len(work))
    rows: Rows = []
    for dataset, model, split in work:
        fit = Fit.read(store.fit_path(dataset, model, split))
        for scenario in scenarios(dataset):
            common = {
                "dataset": dataset.name,
                "model": model.name,
                "settings": json.dumps(settings(model)),
                "split": split,
                "scenario": scenario.name,
                "confidence_level": confidence_level,
            }
            rows += [{**common, **row} for row in evaluate(fit, model, scenario, confidence_level, split)]
    return rows


def _fits(work: Sequence[Work], jobs: int | None) -> Iterator[tuple[Work, Fit]]:
    """Work and its fit, as they are done."""
    joblib = need("joblib", extra="experiments")

    def numbered(i: int, one: Work) -> tuple[int, Fit]:
        return i, fit_split(*one)

    parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")
    with warnings.catch_warnings():
        # A worker that has grown is replaced by a fresh one, and nothing is lost.
        warnings.filterwarnings("ignore", "A worker stopped", UserWarning)
        for i, fit in parallel(joblib.delayed(numbered)(i, one) for i, one in enumerate(work)):
            yield work[i], fit


def evaluate(fit: Fit, model: Model, scenario: Scenario, level: float, split: int) -> Rows:
    """Coverage on the test part and mean length of the intervals, for each method.

    Parameters
    ----------
    fit : Fit
        Predictions, and what was true.
    model : Model
        Whose score is used.
    scenario : Scenario
        Federation and methods.
    level : float
        The confidence level.
    split : int
        Which split: the seed of random methods.

    Returns
    -------
    list of dict
        A row for each method.

    Raises
    ------
    ValueError
        If the federation needs more calibration rows than there are.
    """
    m, n = scenario.n_sites, scenario.n_points
    if m * n > len(fit.y_calibration):
        raise ValueError(
            f"{m} sites of {n} need {m * n} calibration rows, there are {len(fit.y_calibration)}"
        )
    scores = model.score.score(fit.y_calibration, fit.calibration)[: m * n].reshape(m, n)
    rows = []
    for i, method in enumerate(scenario.methods):
        threshold = method.threshold(list(scores), level, np.random.default_rng([split, 2, i]))
        coverage, length = _quality(fit, model, threshold)
        rows.append(
            {
                "n_sites": m,
                "n_points": n,
                "method": method.name,
                "epsilon": method.epsilon,
                "plan": method.plan_text((n,) * m, level),
                "threshold": threshold,
                "coverage": coverage,
                "length": length,
                "n_train": fit.n_train,
                "n_calibration": m * n,
                "n_test": len(fit.y_test),
                "fit_seconds": fit.seconds,
                "version": __version__,
            }
        )
    return rows


def _quality(fit: Fit, model: Model, threshold: float) -> tuple[float, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmptySetWarning)
        intervals: Floats = np.asarray(model.score.set(fit.test, threshold), dtype=float)
    coverage = metrics.regression_coverage_score(fit.y_test, intervals)[0]
    return float(coverage), float(metrics.regression_mean_width_score(intervals)[0])
