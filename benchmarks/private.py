"""Private plans: coverage beside the paper's, the worst distribution we can think of, and speed."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import fedconformal as fc
from benchmarks._timing import Row, compare, duration, seconds

LEVEL = 0.9
N_BINS = 100
BINS = fc.Bins.uniform(0, 1, N_BINS)
# Sites, scores per site, epsilon, and the coverage not to be exceeded.
SETTINGS = (
    (5, 200, 10, 0.912),
    (5, 200, 1, 0.952),
    (10, 500, 1, 0.927),
    (10, 500, 0.5, 0.940),
    (100, 500, 1, 0.926),
    (20, 2000, 0.5, 0.914),
)
HOSTILE_SETTINGS = ((5, 200, 1), (10, 500, 1))
# Sites, scores per site, bins, and the seconds that planning may take.
PLANNING = ((100, 10**4, 1000, 10), (10**4, 1000, 100, 30))
DIRICHLET = (0.02, 0.1, 1.0, 10.0)
# The minimum of 660 noisy means lies below the smallest true mean: by more than this once in 50 at worst.
STANDARD_ERRORS = 4


def run(
    *,
    settings: Sequence[tuple[int, int, float, float]] = SETTINGS,
    runs: int = 1000,
    hostile_settings: Sequence[tuple[int, int, float]] = HOSTILE_SETTINGS,
    n_masses: int = 500,
    hostile_runs: int = 200,
    fresh_runs: int = 10_000,
    report_size: tuple[int, int] = (10**6, 1000),
    n_reports: int = 7,
    planning: Sequence[tuple[int, int, int, float]] = PLANNING,
) -> Iterator[Row]:
    """Federations, and how many runs and random masses; scores and bins of a report."""
    for m, n, epsilon, goal in settings:
        yield _coverage(m, n, epsilon, goal=goal, runs=runs)
    for m, n, epsilon in hostile_settings:
        yield from _worst(m, n, epsilon, n_masses=n_masses, runs=hostile_runs, fresh_runs=fresh_runs)
    yield _report(*report_size, repetitions=n_reports)
    for m, n, n_bins, limit in planning:
        yield _planning(m, n, n_bins=n_bins, limit=limit)


def _plan(
    m: int, n: int, epsilon: float, *, bins: fc.Bins = BINS, level: float = LEVEL, **rule: Any
) -> fc.Plan:
    return fc.plan(
        n_sites=m,
        n_points=n,
        confidence_level=level,
        criterion="marginal",
        privacy=fc.Privacy(epsilon=epsilon, bins=bins, **rule),
        on_infeasible="ignore",
    )


@dataclass(frozen=True)
class Mean:
    """A simulated mean with its standard error."""

    value: float
    error: float

    def __str__(self) -> str:
        return f"{self.value:.4f} +- {self.error:.4f}"


def _simulate(plan: fc.Plan, masses: np.ndarray, *, runs: int, rng: np.random.Generator) -> Mean:
    """True coverage of the private threshold for scores with these bin masses; the last bin means +inf."""
    m, n, (release,) = plan.n_sites, plan.n_points[0], plan.releases
    cumulated = np.cumsum(masses)
    cumulated[-1] = 1.0
    kept = []
    for start in range(0, runs, 1000):  # bounds the memory
        part = min(1000, runs - start)
        counts = rng.multinomial(n, masses, size=(part, m))
        bins = fc.privacy.simulate_releases(counts, release, rng=rng)
        kept.append(np.sort(bins, axis=1)[:, plan.server_rank - 1])
    coverage = cumulated[np.concatenate(kept)]
    return Mean(float(coverage.mean()), float(coverage.std(ddof=1) / np.sqrt(runs)))


def _coverage(m: int, n: int, epsilon: float, *, goal: float, runs: int) -> Row:
    uniform = np.full(N_BINS, 1 / N_BINS)
    plans = (_plan(m, n, epsilon, analysis=analysis) for analysis in ("tight", "paper"))
    ours, paper = (
        _simulate(plan, uniform, runs=runs, rng=np.random.default_rng(11)) if plan.feasible else None
        for plan in plans
    )
    return Row(
        what=f"mean coverage of {runs:,} runs, m = {m}, n = {n}, eps = {epsilon:g}",
        ours=str(ours) if ours else "infeasible",
        anchor=f"{paper or 'infeasible'} (the paper's analysis)",
        ratio=f"excess {(ours.value - LEVEL) / (paper.value - LEVEL):.2f}" if ours and paper else "",
        goal=f"{LEVEL:.3f} to {goal:.3f}",
        met=ours is not None and LEVEL <= ours.value <= goal,
        required=True,
    )


def _masses(rng: np.random.Generator, count: int) -> Iterator[np.ndarray]:
    """Sparse and dense random masses, two atoms around the level, all mass in one bin."""
    for alpha in DIRICHLET:
        yield from rng.dirichlet(np.full(N_BINS, alpha), size=count // len(DIRICHLET))
    last = N_BINS - 1
    for places in ((0, 1), (30, 60), (0, last), (last - 1, last)):
        for level in np.linspace(0.85, 0.99, 15):
            two = np.zeros(N_BINS)
            two[list(places)] = level, 1 - level
            yield two
    yield from np.eye(N_BINS)


def _worst(m: int, n: int, epsilon: float, *, n_masses: int, runs: int, fresh_runs: int) -> Iterator[Row]:
    plan = _plan(m, n, epsilon)
    rng = np.random.default_rng(12)
    tried = [(_simulate(plan, p, runs=runs, rng=rng), p) for p in _masses(rng, n_masses)]
    worst, masses = min(tried, key=lambda one: one[0].value)
    what = f"m = {m}, n = {n}, eps = {epsilon:g}"
    yield Row(
        what=f"smallest mean of {runs} runs over {len(tried)} bin masses, {what}",
        ours=str(worst),
        goal=f">= {LEVEL:.3f} - {STANDARD_ERRORS} s.e.",
        met=worst.value >= LEVEL - STANDARD_ERRORS * worst.error,
        required=True,
    )
    again = _simulate(plan, masses, runs=fresh_runs, rng=rng)
    yield Row(
        what=f"  the same masses ({np.count_nonzero(masses)} bins in use), {fresh_runs:,} fresh runs",
        ours=str(again),
        goal=f">= {LEVEL:.3f}",
        met=again.value >= LEVEL,
        required=True,
    )


def _report(n: int, n_bins: int, *, repetitions: int) -> Row:
    plan = _plan(5, n, 1, bins=fc.Bins.uniform(0, 1, n_bins))
    scores = np.random.default_rng(13).random(n)
    with tempfile.TemporaryDirectory() as directory:
        ledger = fc.Ledger.create(Path(directory, "ledger.db"))
        ledger.set_budget("scores", 100)
        # The same site would be answered from the ledger, at no cost.
        answers = [
            partial(fc.report, plan, scores, site=f"site {i}", ledger=ledger, dataset="scores")
            for i in range(repetitions + 1)
        ]
        answers[0]()  # loads OpenDP
        result = compare(answers[1:], partial(np.histogram, scores, bins=n_bins, range=(0, 1)))
    return Row(
        what=f"private report, n = {n:,}, {n_bins:,} bins, with ledger",
        ours=duration(result.ours),
        anchor=f"{duration(result.anchor)} (numpy.histogram)",
        ratio=f"{result.ratio:.2f}",
        goal="<= 3 times + 0.1 s",
        met=result.ours <= 3 * result.anchor + 0.1,
    )


def _planning(m: int, n: int, *, n_bins: int, limit: float) -> Row:
    bins = fc.Bins.uniform(0, 1, n_bins)
    times = [seconds(partial(_plan, m, n, 1, bins=bins, level=level)) for level in (0.9, 0.8999, 0.9001)]
    time = median(times)
    return Row(
        what=f"private plan, m = {m:,}, n = {n:,}, eps = 1, {n_bins:,} bins",
        ours=duration(time),
        anchor=f"{limit} s",
        ratio=f"{time / limit:.3f}",
        goal="< 1",
        met=time < limit,
    )
