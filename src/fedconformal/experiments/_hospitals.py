"""Case study: four hospitals with heart patients, sick and healthy, in mixes of their own."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedconformal import baselines
from fedconformal._extras import need
from fedconformal._typing import Bools, Floats, Ints
from fedconformal.documents import Plan
from fedconformal.experiments._data import File, find
from fedconformal.experiments._methods import new_round
from fedconformal.experiments._store import Rows
from fedconformal.protocol import InfeasibleWarning, SitePolicy, calibrate, report
from fedconformal.protocol import plan as make_plan
from fedconformal.scores import LAC

HEART_ADDRESS = "https://archive.ics.uci.edu/ml/machine-learning-databases/heart-disease/"
"""Where the patients' records are published: the UCI repository, heart disease, CC BY 4.0."""

CLASSES = ("healthy", "sick")
HERE, LEFT_OUT = "took part", "left out"
N_SPLITS = 50
_SCORE = LAC()

_PUBLISHED, _FILLED = (
    "a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8",
    "7849bebbf4e963b402b4fc7b44df2c2682262df969f36d2c536cf6391268dec0",
)
_GAPS = ((87, 12), (166, 11), (192, 11), (266, 12), (287, 11), (302, 11))
"""The six missing values of Cleveland, by row and column, which a common copy fills with zeros."""

_FILES = {
    "Cleveland": File("heart/processed.cleveland.data", (_PUBLISHED, _FILLED), HEART_ADDRESS),
    "Hungary": File(
        "heart/processed.hungarian.data",
        ("d1ad108f785768cd3d7e82dc522e6f5a61eea93cccfb3a46ee8076f73fc3d796",),
        HEART_ADDRESS,
    ),
    "Switzerland": File(
        "heart/processed.switzerland.data",
        ("834a405ccf5b66ab4056bb77794adc8df0b7125186454c0a1d002d33c6c3b314",),
        HEART_ADDRESS,
    ),
    "VA": File(
        "heart/processed.va.data",
        ("e7c93d8d0d2acdadfa4c5e8de768e2191e7f618b952e29623f1f0d5949ff6b8f",),
        HEART_ADDRESS,
    ),
}
HOSPITALS = tuple(_FILES)
FILES = tuple(_FILES.values())


@dataclass(frozen=True, eq=False)
class Records:
    """The patients of one hospital.

    Parameters
    ----------
    X : array of shape (n, 13)
        Findings; NaN where there are none.
    truth : array of n str
        Of `CLASSES`.
    """

    X: Floats
    truth: NDArray[np.str_]

    def take(self, rows: Any) -> "Records":
        """Some of the patients."""
        return Records(self.X[rows], self.truth[rows])


@dataclass(frozen=True, eq=False)
class Cases:
    """What calibration sees of a hospital's patients: the model's probabilities, and the truth.

    Parameters
    ----------
    probabilities : array of shape (n, 2)
        In the order of `CLASSES`.
    truth : array of n str
        Of `CLASSES`.
    """

    probabilities: Floats
    truth: NDArray[np.str_]

    @property
    def scores(self) -> Floats:
        """The score of the true class of each patient."""
        scores: Floats = _SCORE.score(np.searchsorted(CLASSES, self.truth), self.probabilities)
        return scores


Federation = Mapping[str, Cases]
Sets = Callable[[Floats, str], Bools]
"""From probabilities, and the name of a hospital, to which classes the sets hold."""


def load_hospitals(*, folder: Path | None = None, download: bool = False) -> dict[str, Records]:
    """Read the records of the four hospitals, each file checked by SHA-256.

    Parameters
    ----------
    folder : Path, optional
        Where to look first, see `load`.
    download : bool
        Whether files that are nowhere are fetched from where they are published.

    Returns
    -------
    dict from str to Records
        By hospital.

    Raises
    ------
    MissingDataError
        If a file is nowhere; says how to get it.
    """
    records = {}
    for name, file in _FILES.items():
        lines = find("hospitals", file, folder, download).read_text().split()
        table = np.array(
            [[np.nan if cell == "?" else float(cell) for cell in line.split(",")] for line in lines]
        )
        if name == HOSPITALS[0]:
            table[tuple(np.array(_GAPS).T)] = np.nan
        records[name] = Records(table[:, :-1], np.where(table[:, -1] > 0, CLASSES[1], CLASSES[0]))
    return records


# -- rules ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """A way to calibrate that is compared.

    Parameters
    ----------
    name : str
        What tables and figures call it.
    sets : callable
        A function of the hospitals' cases, the level and the number of the split to `Sets`.
    for_new : bool
        Whether it has an answer for a hospital that took no part.
    level : float, optional
        Its own confidence level, where it differs.
    plan : callable, optional
        A function of the hospitals' cases and the level to the plan that is followed.
    """

    name: str
    sets: Callable[[Federation, float, int], Sets]
    for_new: bool = True
    level: float | None = None
    plan: Callable[[Federation, float], Plan] | None = None


@dataclass(frozen=True)
class Planned:
    """A rule of the package's own: a plan, a report of each hospital, a calibration.

    Parameters
    ----------
    wishes : tuple of pairs
        Arguments of `fedconformal.plan`.
    by_class : bool
        Whether the groups are classes.
    """

    wishes: tuple[tuple[str, Any], ...]
    by_class: bool

    def plan(self, sites: Federation, level: float) -> Plan:
        """The plan for these hospitals."""
        counts = {site: Counter(cases.truth.tolist()) for site, cases in sites.items()}
        return _plan(self, tuple((site, tuple(sorted(of.items()))) for site, of in counts.items()), level)

    def __call__(self, sites: Federation, level: float, split: int) -> Sets:
        """Calibrate."""
        chosen = new_round(self.plan(sites, level), np.random.default_rng([split, 6, len(sites)]))
        own = SitePolicy.unlimited()  # the hospitals are simulated
        found = calibrate(
            chosen,
            [
                report(chosen, c.scores, site=site, groups=c.truth if self.by_class else None, policy=own)
                for site, c in sites.items()
            ],
        )
        by_site = chosen.grouping.by_site
        return lambda p, site: found.predict_set(p, site=site if by_site else None)


@cache
def _plan(rule: Planned, sizes: Any, level: float) -> Plan:
    wishes: dict[str, Any] = {"confidence_level": level, "score": _SCORE.name, **dict(rule.wishes)}
    if rule.by_class:
        counts = {site: dict(labels) for site, labels in sizes}
        wishes["groups"] = {
            label: {site: of.get(label, 0) for site, of in counts.items()} for label in CLASSES
        }
    else:
        wishes["n_points"] = {site: sum(n for _, n in labels) for site, labels in sizes}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfeasibleWarning)  # the table shows it
        return make_plan(**wishes)


def _planned(name: str, *, for_new: bool = True, level: float | None = None, **wishes: Any) -> Rule:
    rule = Planned(tuple(wishes.items()), by_class="group_by" in wishes)
    return Rule(name, rule, for_new=for_new, level=level, plan=rule.plan)


def _one_threshold(
    found: Callable[[Sequence[Floats], float], float],
) -> Callable[[Federation, float, int], Sets]:
    def sets(sites: Federation, level: float, split: int) -> Sets:
        threshold = found([cases.scores for cases in sites.values()], level)
        return lambda p, site: np.asarray(_SCORE.set(p, threshold), dtype=np.bool_)

    return sets


POPULATION, MIXTURE, EACH, NEW, NEW_LOWER = (
    "population (default)",
    "mixture",
    "each site",
    "new site",
    "new site, 75 %",
)
BY_CLASS, FIVE, EACH_CLASS, OWN = (
    "by class",
    "by class, 5 numbers",
    "by class, each site",
    "by class and site",
)

RULES = (
    Rule("centralised", _one_threshold(lambda s, level: baselines.centralized(np.concatenate(s), level))),
    Rule("FedCP-Avg", _one_threshold(baselines.average)),
    _planned(POPULATION),
    _planned(MIXTURE, promise="mixture"),
    _planned(EACH, promise="each-site"),
    _planned(NEW, promise="new-site"),
    _planned(NEW_LOWER, promise="new-site", level=0.75),
    _planned(BY_CLASS, group_by="class"),
    _planned(FIVE, group_by="class", numbers=5),
    _planned(EACH_CLASS, group_by="class", promise="each-site"),
    _planned(OWN, group_by=("site", "class"), for_new=False),
)
"""What is compared, in the order of the table."""


# -- the study -----------------------------------------------------------------------------------------------


def hospitals(
    records: Mapping[str, Records],
    *,
    level: float,
    n_splits: int = N_SPLITS,
    rules: Sequence[Rule] = RULES,
    jobs: int | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Rows:
    """Split every hospital into thirds, train on the first, calibrate on the second, count on the third.

    And leave each hospital out once: train and calibrate at the others, count on all of its patients.

    Parameters
    ----------
    records : mapping from str to Records
        The hospitals.
    level : float
        The confidence level.
    n_splits : int
        Random splits.
    rules : sequence of Rule
        What is compared.
    jobs : int, optional
        Processes, by joblib.
    progress : callable
        Told how many splits are done, and of how many.

    Returns
    -------
    list of dict
        A row for each split, rule, hospital and class: how many patients, how many covered, how many labels.
    """
    joblib = need("joblib", extra="experiments")
    work = (joblib.delayed(_split)(records, rules, level, split) for split in range(n_splits))
    rows: Rows = []
    for done, found in enumerate(joblib.Parallel(n_jobs=jobs, return_as="generator")(work), start=1):
        rows += found
        progress(done, n_splits)
    return rows


def _split(records: Mapping[str, Records], rules: Sequence[Rule], level: float, split: int) -> Rows:
    """All rules on one split."""
    rng = np.random.default_rng([split, 5])
    thirds = {name: _thirds(found.truth, rng) for name, found in records.items()}
    train, calibration, test = (
        {name: records[name].take(parts[i]) for name, parts in thirds.items()} for i in range(3)
    )
    rows = list(_counted(HERE, train, calibration, test, rules, level, split))
    for_new = [rule for rule in rules if rule.for_new]
    for name in records:
        others, asked = ({n: r for n, r in part.items() if n != name} for part in (train, calibration))
        rows += _counted(LEFT_OUT, others, asked, {name: records[name]}, for_new, level, split)
    return rows


def _thirds(truth: NDArray[np.str_], rng: np.random.Generator) -> list[Ints]:
    """Thirds of the patients, class by class, so that sizes and plans are the same for every split."""
    by_class = [np.array_split(rng.permutation(np.flatnonzero(truth == label)), 3) for label in CLASSES]
    return [np.concatenate(parts) for parts in zip(*by_class, strict=True)]


def _counted(
    part: str,
    train: Mapping[str, Records],
    calibration: Mapping[str, Records],
    test: Mapping[str, Records],
    rules: Sequence[Rule],
    level: float,
    split: int,
) -> Iterator[dict[str, Any]]:
    predict = _model(train)
    sites = {name: predict(found) for name, found in calibration.items()}
    new = {name: predict(found) for name, found in test.items()}
    for rule in rules:
        sets = rule.sets(sites, rule.level or level, split)
        for name, cases in new.items():
            held = sets(cases.probabilities, name)
            for k, truth in enumerate(CLASSES):
                own = held[cases.truth == truth]
                yield {
                    "split": split,
                    "rule": rule.name,
                    "confidence_level": rule.level or level,
                    "part": part,
                    "hospital": name,
                    "truth": truth,
                    "n": len(own),
                    "covered": int(own[:, k].sum()),
                    "labels": int(own.sum()),
                }


def _model(train: Mapping[str, Records]) -> Callable[[Records], Cases]:
    """Logistic regression on standardised findings, gaps filled with medians: one for all hospitals."""
    pipeline = need("sklearn.pipeline", extra="experiments")
    impute = need("sklearn.impute", extra="experiments")
    preprocessing = need("sklearn.preprocessing", extra="experiments")
    linear = need("sklearn.linear_model", extra="experiments")
    model = pipeline.make_pipeline(
        impute.SimpleImputer(strategy="median", keep_empty_features=True),
        preprocessing.StandardScaler(),
        linear.LogisticRegression(max_iter=1000),
    )
    model.fit(np.vstack([r.X for r in train.values()]), np.concatenate([r.truth for r in train.values()]))
    return lambda found: Cases(model.predict_proba(found.X), found.truth)


# -- what was found ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """The coverage of some patients under a rule, over all splits.

    Parameters
    ----------
    rule, part, hospital, truth : str
        Whose; hospital and truth may be "all".
    level : float
        What was asked for.
    coverage, error : float
        Share of covered patients, and its standard error over splits.
    size : float
        Labels in a set.
    n : int
        Patients counted, over all splits.
    """

    rule: str
    part: str
    hospital: str
    truth: str
    level: float
    coverage: float
    error: float
    size: float
    n: int

    @property
    def short(self) -> bool:
        """Whether the coverage is below the level by more than three standard errors."""
        return self.coverage < self.level - 3 * self.error


ALL = "all"


def cells(rows: Rows) -> dict[tuple[str, str, str, str], Cell]:
    """Every cell of the table.

    Parameters
    ----------
    rows : list of dict
        What `hospitals` found.

    Returns
    -------
    dict
        By rule, part, hospital and class; the last two may be "all".
    """
    sums: dict[tuple[str, str, str, str], dict[int, NDArray[np.int64]]] = {}
    levels = {}
    for row in rows:
        levels[row["rule"]] = row["confidence_level"]
        count = np.array([row["n"], row["covered"], row["labels"]])
        for hospital in (row["hospital"], ALL):
            for truth in (row["truth"], ALL):
                by_split = sums.setdefault((row["rule"], row["part"], hospital, truth), {})
                by_split[row["split"]] = by_split.get(row["split"], 0) + count
    return {key: _cell(key, levels[key[0]], np.array(list(found.values()))) for key, found in sums.items()}


def _cell(key: tuple[str, str, str, str], level: float, counts: NDArray[np.int64]) -> Cell:
    n, covered, labels = counts.T
    share = covered.sum() / n.sum()
    # The share is a ratio of two sums, so its error is that of covered - share * n.
    spread = float(np.std(covered - share * n, ddof=1)) if len(n) > 1 else 0.0
    error = spread * np.sqrt(len(n)) / n.sum()
    return Cell(*key, level, float(share), float(error), float(labels.sum() / n.sum()), int(n.sum()))
