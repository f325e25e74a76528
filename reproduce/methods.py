"""Calibration methods: from the scores of the sites to a threshold."""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial

import numpy as np

import fedconformal as fc
from fedconformal.documents import Bin, Curve

N_BINS = 100
EPSILONS = (10.0, 5.0, 1.0)
Sites = Sequence[np.ndarray]


@dataclass(frozen=True)
class Method:
    """A way to calibrate.

    ``threshold`` is a function of the sites' scores, the confidence level and a random
    generator. ``plan``, a function of the sites' sizes and the level, returns the plan
    of a method that has one.
    """

    name: str
    threshold: Callable[[Sites, float, np.random.Generator], float]
    epsilon: float | None = None
    plan: Callable[[tuple[int, ...], float], fc.Plan] | None = None

    def plan_text(self, sizes: Sequence[int], level: float) -> str | None:
        """Describe the plan in one line; None for a method without a plan."""
        return None if self.plan is None else plan_text(self.plan(tuple(sizes), level))


def plan_text(plan: fc.Plan) -> str:
    """Describe ranks or private target, weights and votes of a plan in one line."""
    if isinstance(plan, fc.Plan) and plan.is_grouped:
        return "; ".join(f"{label}: {plan_text(plan[label])}" for label in plan.groups)
    if not plan.feasible:
        return "none: infinite"
    message = plan.message
    if isinstance(message, Curve):
        return f"{message.n_cells} noisy counts; votes {plan.server_rank}"
    if isinstance(message, Bin):
        (ranks,) = message.levels
        return f"rank {ranks.local_rank} + {ranks.correction}; votes {plan.server_rank}"
    if plan.local_ranks is None:
        return f"cases drawn at random; votes {plan.server_rank}"
    sent = [
        (
            "not asked"
            if ranks == ()
            else f"rank {_spaced(ranks)}, weight {_spaced(weight)}"
        )
        for ranks, weight in dict.fromkeys(
            zip(plan.local_ranks, plan.weights, strict=True)
        )
    ]
    return f"{' and '.join(sent)}; votes {plan.server_rank}"


def _spaced(value: int | tuple[int, ...]) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


# -- plans of the package --


def planned(name: str, criterion: str | None = None, **options) -> Method:
    """Return the method that follows ``fc.plan(criterion=criterion, **options)``."""

    @cache
    def plan(sizes: tuple[int, ...], level: float) -> fc.Plan:
        with warnings.catch_warnings(action="ignore", category=fc.InfeasibleWarning):
            return fc.plan(
                n_points=sizes, confidence_level=level, criterion=criterion, **options
            )

    def threshold(sites: Sites, level: float, rng: np.random.Generator) -> float:
        chosen = new_round(plan(tuple(map(len, sites)), level), rng)
        policy = fc.SitePolicy.unlimited()  # the sites are simulated
        reports = [
            fc.report(chosen, s, site=f"site {j}", policy=policy)
            for j, s in enumerate(sites)
        ]
        return float(fc.calibrate(chosen, reports).threshold)

    return Method(name, threshold, plan=plan)


def new_round(plan: fc.Plan, rng: np.random.Generator) -> fc.Plan:
    """Give the plan another round id where the round decides which cases sites draw."""
    if plan.terms.round is None:
        return plan
    terms = plan.terms.model_copy(update={"round": rng.bytes(16).hex()})
    return plan.model_copy(update={"terms": terms})


# -- FedCP²-QQ --


@cache
def private_plan(
    n_sites: int, n_points: int, level: float, epsilon: float, analysis: str
) -> fc.Plan:
    """Return the plan of the private experiment; it depends on the number of bins, not
    on their place.
    """
    privacy = fc.Privacy(
        epsilon=epsilon, bins=fc.Bins.uniform(0, 1, N_BINS), analysis=analysis
    )
    with warnings.catch_warnings(action="ignore", category=fc.InfeasibleWarning):
        return fc.plan(
            n_sites,
            n_points,
            confidence_level=level,
            criterion="marginal",
            privacy=privacy,
        )


def private(
    sites: Sites,
    level: float,
    rng: np.random.Generator,
    *,
    epsilon: float,
    analysis: str,
) -> float:
    """Return the threshold of FedCP²-QQ with bins from the smallest to the largest
    score.

    As in the paper's experiment, and **not private**: the bins depend on the data and
    the noise is seeded.
    """
    plan = private_plan(len(sites), len(sites[0]), level, epsilon, analysis)
    if not plan.feasible:
        return math.inf
    pooled = np.concatenate(sites)
    bins = fc.Bins.uniform(float(pooled.min()), float(pooled.max()), N_BINS)
    (design,) = plan.designs
    moved = design.model_copy(
        update={"message": design.message.model_copy(update={"edges": bins.edges})}
    )
    there = plan.model_copy(update={"designs": (moved,)})
    scores = {f"site {j}": own for j, own in enumerate(sites)}
    return min(
        fc.privacy.simulate(there, scores, rng).threshold, bins.edges[-1]
    )  # no score is above it


def _private_method(name: str, epsilon: float, analysis: str) -> Method:
    def plan(sizes: tuple[int, ...], level: float) -> fc.Plan:
        return private_plan(len(sizes), sizes[0], level, epsilon, analysis)

    return Method(
        name, partial(private, epsilon=epsilon, analysis=analysis), epsilon, plan
    )


# -- baselines --


def rank(n: int, level: float) -> int:
    """Return ceil((n + 1) level), the rank of split conformal prediction."""
    return math.ceil(Fraction(str(level)) * (n + 1))


def centralised(sites: Sites, level: float, rng: np.random.Generator) -> float:
    """Return the threshold of pooled scores."""
    return fc.baselines.centralized(np.concatenate(sites), level)


def average(sites: Sites, level: float, rng: np.random.Generator) -> float:
    """Return the mean of the sites' own thresholds."""
    return fc.baselines.average(sites, level)


def average_by_size(sites: Sites, level: float, rng: np.random.Generator) -> float:
    """Return the mean of the sites' own thresholds, weighted by size."""
    return fc.baselines.average(sites, level, weighted=True)


def average_of_next(sites: Sites, level: float, rng: np.random.Generator) -> float:
    """Return the mean of the sites' next larger scores, as in the authors' published
    results.
    """
    return float(
        np.mean([np.sort(s)[min(rank(len(s), level) + 1, len(s)) - 1] for s in sites])
    )


def single(sites: Sites, level: float, rng: np.random.Generator) -> float:
    """Return the threshold of the first site alone."""
    return fc.baselines.centralized(sites[0], level)


# -- what is compared --

QQ = "FedCP-QQ"
STABLE = "FedCP-QQ stable"
THREE = "FedCP-QQ 3 numbers"
CENTRALISED = "Centralised"
AVERAGE = "FedCP-Avg"
AVERAGE_NEXT = "FedCP-Avg, rank + 1"
WEIGHTED = "FedWQ-CP"
SINGLE = "Single site"
EACH = "FedCP-QQ each site"
PAPER = "FedCP²-QQ paper"
CURVE = "private curve"

METHODS = (
    planned(QQ, "marginal"),
    planned(STABLE, "stable"),
    planned(THREE, "stable", numbers=3),
    Method(CENTRALISED, centralised),
    Method(AVERAGE, average),
    Method(AVERAGE_NEXT, average_of_next),
    Method(SINGLE, single),
)
"""The methods of section 5, our two, both readings of FedCP-Avg, and a single site."""

UNBALANCED = planned(QQ, "marginal", local_ranks="paper")
"""Appendix A.1: local ranks ceil((n_j + 1)(1 - alpha)), then the smallest valid server
rank.
"""

AVERAGE_BY_SIZE = Method(WEIGHTED, average_by_size)
"""The same as FedCP-Avg where all sites have one size, as in section 5."""

PRIVATE_METHODS = (
    METHODS[0],
    *(
        _private_method(name, epsilon, analysis)
        for name, analysis in ((PAPER, "paper"), (CURVE, "curve"))
        for epsilon in EPSILONS
    ),
)
"""The methods of appendix B.2, with the paper's analysis and with ours."""
