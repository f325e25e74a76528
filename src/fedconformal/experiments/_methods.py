"""Calibration methods: from the scores of sites to a threshold."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedconformal import baselines
from fedconformal.documents import Plan
from fedconformal.planning import plan as make_plan
from fedconformal.privacy import Bins, Privacy
from fedconformal.privacy._simulation import simulate_releases
from fedconformal.server import calibrate
from fedconformal.site import report

Floats = NDArray[np.float64]
Sites = Sequence[Floats]
Rule = Callable[[Sites, float, np.random.Generator], float]

N_BINS = 100
EPSILONS = (10.0, 5.0, 1.0)


@dataclass(frozen=True)
class Method:
    """A name, and a function of (each site's scores, confidence level, random generator) to a threshold."""

    name: str
    threshold: Rule
    epsilon: float | None = None


def quantile_of_quantiles(
    sites: Sites,
    level: float,
    rng: np.random.Generator,
    *,
    criterion: Literal["marginal", "stable"] = "marginal",
    target: Literal["population", "each-site"] = "population",
) -> float:
    """The package's own way: a plan, a report of each site, a calibration."""
    chosen = _plan(tuple(len(scores) for scores in sites), level, criterion, target)
    reports = [report(chosen, scores, site=f"site {j}") for j, scores in enumerate(sites)]
    return float(calibrate(chosen, reports).threshold)


def unbalanced(sites: Sites, level: float, rng: np.random.Generator) -> float:
    """The paper's appendix A.1: local ranks ceil(level (n_j + 1)), then the server rank that reaches it."""
    chosen = make_plan(
        n_points=[len(scores) for scores in sites],
        confidence_level=level,
        local_ranks="paper",
        on_infeasible="ignore",
    )
    reports = [report(chosen, scores, site=f"site {j}") for j, scores in enumerate(sites)]
    return float(calibrate(chosen, reports).threshold)


def private(
    sites: Sites,
    level: float,
    rng: np.random.Generator,
    *,
    epsilon: float,
    analysis: Literal["paper", "tight"],
) -> float:
    """FedCP²-QQ with bins from the smallest to the largest score, as in the paper's experiment.

    **Not private**: such bins depend on the data, and the draws are seeded. This is for comparison only; a
    site's private report has public bins and a ledger. Infinite where the analysis has no plan.
    """
    pooled = np.concatenate(sites)
    chosen = private_plan(len(sites), len(sites[0]), level, epsilon, analysis)
    quantile, rank = chosen.levels[0].exact_quantile, chosen.levels[0].server_rank
    if not chosen.feasible or quantile is None or rank is None or chosen.terms is None:
        return float("inf")
    bins = Bins.uniform(float(pooled.min()), float(pooled.max()), N_BINS, bounded=True)
    released = simulate_releases(
        np.stack([bins.place(scores) for scores in sites]),
        quantile.numerator,
        quantile.denominator,
        epsilon=float(chosen.terms.epsilon),
        calibration=chosen.terms.calibration,
        mechanism=chosen.terms.mechanism,
        rng=rng,
    )
    return bins.value(int(np.sort(released)[rank - 1]))


@cache
def _plan(
    sizes: tuple[int, ...],
    level: float,
    criterion: Literal["marginal", "stable"],
    target: Literal["population", "each-site"],
) -> Plan:
    return make_plan(
        n_points=sizes, confidence_level=level, criterion=criterion, target=target, on_infeasible="ignore"
    )


@cache
def private_plan(m: int, n: int, level: float, epsilon: float, analysis: Literal["paper", "tight"]) -> Plan:
    """The plan of the private experiment, with the paper's number of bins."""
    # A plan depends on how many bins there are, not on where they lie.
    privacy = Privacy(
        epsilon=epsilon,
        bins=Bins.uniform(0, 1, N_BINS, bounded=True),
        analysis=analysis,
    )
    return make_plan(m, n, confidence_level=level, privacy=privacy, on_infeasible="ignore")


def _centralised(sites: Sites, level: float, rng: np.random.Generator) -> float:
    return baselines.centralized(np.concatenate(sites), level)


def _average(sites: Sites, level: float, rng: np.random.Generator) -> float:
    return baselines.average(sites, level)


def _single(sites: Sites, level: float, rng: np.random.Generator) -> float:
    return baselines.single_site(sites[0], level)


QQ = "FedCP-QQ"
STABLE = "FedCP-QQ stable"
CENTRALISED = "Centralised"
AVERAGE = "FedCP-Avg"
SINGLE = "Single site"
EACH = "FedCP-QQ each site"
PAPER = "FedCP²-QQ paper"
TIGHT = "FedCP²-QQ tight"

METHODS: tuple[Method, ...] = (
    Method(QQ, partial(quantile_of_quantiles, criterion="marginal")),
    Method(STABLE, partial(quantile_of_quantiles, criterion="stable")),
    Method(CENTRALISED, _centralised),
    Method(AVERAGE, _average),
    Method(SINGLE, _single),
)
"""The methods of section 5, and ours."""

DIFFERENT = (*METHODS[:4], Method(EACH, partial(quantile_of_quantiles, target="each-site")))
"""The methods of the study of sites that differ."""

_ANALYSES: tuple[tuple[str, Literal["paper", "tight"]], ...] = ((PAPER, "paper"), (TIGHT, "tight"))

PRIVATE_METHODS = (
    METHODS[0],
    *(
        Method(name, partial(private, epsilon=epsilon, analysis=analysis), epsilon)
        for name, analysis in _ANALYSES
        for epsilon in EPSILONS
    ),
)
"""The methods of the private experiment, appendix B.2."""
