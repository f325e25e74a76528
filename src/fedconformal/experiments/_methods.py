"""Calibration methods: from the scores of sites to a threshold."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from fedconformal import _validation, baselines
from fedconformal._typing import Floats
from fedconformal.documents import Plan
from fedconformal.laws import CoverageLaw
from fedconformal.privacy import Bins, Privacy, simulate_releases
from fedconformal.protocol import SitePolicy, calibrate, report
from fedconformal.protocol import plan as make_plan

Sites = Sequence[Floats]
Rule = Callable[[Sites, float, np.random.Generator], float]
Planner = Callable[[tuple[int, ...], float], Plan]

N_BINS = 100
EPSILONS = (10.0, 5.0, 1.0)


@dataclass(frozen=True)
class Method:
    """A way to calibrate, to be compared with others on the same scores.

    Parameters
    ----------
    name : str
        What tables and figures call it.
    threshold : callable
        A function of each site's scores, the confidence level and a random generator to a threshold.
    epsilon : float or None
        Privacy loss of each site's report, for a private method.
    plan : callable or None
        A function of the sites' sizes and the confidence level to a Plan, for a method that follows one: its
        law then stands beside what was measured.
    pools : callable or None
        A function of the number of sites and of the scores at each to how many scores are sorted in one
        place, for a method that takes the usual rank of so many: its law is known too.

    Examples
    --------
    >>> from fedconformal.experiments import Method
    >>> largest = Method("largest score", lambda sites, level, rng: max(scores.max() for scores in sites))
    >>> float(largest.threshold([np.array([1.0, 3.0]), np.array([2.0])], 0.9, np.random.default_rng(0)))
    3.0
    """

    name: str
    threshold: Rule
    epsilon: float | None = None
    plan: Planner | None = None
    pools: Callable[[int, int], int] | None = None

    def plan_text(self, sizes: Sequence[int], level: float) -> str | None:
        """The plan that it follows, short enough for a table: results carry it, so that stale ones show.

        Parameters
        ----------
        sizes : sequence of int
            Scores at each site.
        level : float
            The confidence level.

        Returns
        -------
        str or None
            None for a method without a plan.
        """
        return None if self.plan is None else plan_text(self.plan(tuple(sizes), level))

    def law(self, n_sites: int, n_points: int, level: float) -> CoverageLaw | None:
        """The law of its coverage for equal sites.

        Parameters
        ----------
        n_sites, n_points : int
            The federation.
        level : float
            The confidence level.

        Returns
        -------
        CoverageLaw or None
            None for a method whose law is not known.
        """
        if self.pools is not None:
            n_scores = self.pools(n_sites, n_points)
            rank = _validation.rank_of(_validation.fraction("confidence_level", level), n_scores)
            return CoverageLaw(n_sites=1, n_points=n_scores, local_rank=rank, server_rank=1)
        return None if self.plan is None else self.plan((n_points,) * n_sites, level).designs[0].law()


@dataclass(frozen=True)
class QuantileOfQuantiles:
    """The package's own way: a plan, a report of each site, a calibration.

    Parameters
    ----------
    criterion, promise, local_ranks, numbers, delta : optional
        As `fedconformal.plan` takes them.
    """

    criterion: str | None = None
    promise: str = "population"
    local_ranks: str = "common"
    numbers: int | None = None
    delta: float = 0.1

    def __call__(self, sites: Sites, level: float, rng: np.random.Generator) -> float:
        """The threshold that the server finds."""
        chosen = new_round(self.plan(tuple(len(scores) for scores in sites), level), rng)
        own = SitePolicy.unlimited()  # the sites are simulated
        reports = [report(chosen, scores, site=f"site {j}", policy=own) for j, scores in enumerate(sites)]
        return float(calibrate(chosen, reports).threshold)

    def plan(self, sizes: tuple[int, ...], level: float) -> Plan:
        """The plan for sites of these sizes."""
        return _plan(self, sizes, level)


def plan_text(chosen: Plan) -> str:
    """Ranks or private aim, weights and votes of a plan, in one line.

    Parameters
    ----------
    chosen : Plan
        For one level; of each group, if there are groups.

    Returns
    -------
    str
        Such as ``rank 10, weight 1; votes 3``.

    Examples
    --------
    >>> from fedconformal import plan
    >>> plan_text(plan(5, 10, criterion="marginal"))
    'rank 10, weight 1; votes 3'
    """
    if isinstance(chosen.server_rank, dict):
        return "; ".join(f"{label}: {plan_text(chosen[label])}" for label in chosen.server_rank)
    if not chosen.feasible:
        return "none: infinite"
    if chosen.local_ranks is None:
        return f"cases drawn at random; votes {chosen.server_rank}"
    if chosen.releases is not None and (aim := chosen.releases[0].aim) is not None:
        slope = "" if aim.slope is None else f", slope {aim.slope}"
        return (
            f"{chosen.releases[0].mechanism.name}, quantile {aim.quantile}{slope}; votes {chosen.server_rank}"
        )
    kinds = dict.fromkeys(zip(chosen.local_ranks, chosen.weights, strict=True))
    sent = [
        "not asked" if ranks == () else f"rank {_plain(ranks)}, weight {_plain(weight)}"
        for ranks, weight in kinds
    ]
    return f"{' and '.join(sent)}; votes {chosen.server_rank}"


def _plain(value: int | tuple[int, ...]) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def new_round(chosen: Plan, rng: np.random.Generator) -> Plan:
    """The same plan for another round, where the round decides which cases sites draw; else as it is.

    The id is drawn by the study's own generator, so that a study gives the same numbers again.

    Parameters
    ----------
    chosen : Plan
        What was planned, perhaps once for many rounds.
    rng : numpy.random.Generator
        Where the id of the round comes from.

    Returns
    -------
    Plan
        With an id that no other round has.
    """
    return chosen if chosen.round is None else chosen.model_copy(update={"round": rng.bytes(16).hex()})


@cache
def _plan(rule: QuantileOfQuantiles, sizes: tuple[int, ...], level: float) -> Plan:
    return make_plan(n_points=sizes, confidence_level=level, on_infeasible="ignore", **vars(rule))


def private(sites: Sites, level: float, rng: np.random.Generator, *, epsilon: float, analysis: str) -> float:
    """FedCP²-QQ with bins from the smallest to the largest score, as in the paper's experiment.

    **Not private**: such bins depend on the data, and the draws are seeded. This is for comparison only; a
    site's private report has public bins and a ledger.

    Parameters
    ----------
    sites : sequence of array
        Each site's scores, equally many.
    level : float
        The confidence level.
    rng : numpy.random.Generator
        Where the noise comes from.
    epsilon : float
        Privacy loss of each site's report.
    analysis : str
        As `Privacy` takes it.

    Returns
    -------
    float
        Infinite where the analysis has no plan.
    """
    pooled = np.concatenate(sites)
    chosen = private_plan(len(sites), len(sites[0]), level, epsilon, analysis)
    if not chosen.feasible or chosen.releases is None:
        return float("inf")
    bins = Bins.uniform(float(pooled.min()), float(pooled.max()), N_BINS)
    counts = np.stack([bins.place(scores) for scores in sites])
    released = simulate_releases(counts, chosen.releases[0], rng=rng)
    return bins.edges[int(np.sort(released)[chosen.server_rank - 1])]  # no score is above the last one


def _private_method(name: str, epsilon: float, analysis: str) -> Method:
    def chosen(sizes: tuple[int, ...], level: float) -> Plan:
        return private_plan(len(sizes), sizes[0], level, epsilon, analysis)

    return Method(name, partial(private, epsilon=epsilon, analysis=analysis), epsilon, chosen)


@cache
def private_plan(n_sites: int, n_points: int, level: float, epsilon: float, analysis: str) -> Plan:
    """The plan of the private experiment, with the paper's criterion and its number of bins.

    Parameters
    ----------
    n_sites, n_points : int
        The federation.
    level : float
        The confidence level.
    epsilon : float
        Privacy loss of each site's report.
    analysis : str
        As `Privacy` takes it.

    Returns
    -------
    Plan
        A private plan; its threshold is infinite where the analysis finds none.
    """
    # A plan depends on how many bins there are, not on where they lie.
    bins = Bins.uniform(0, 1, N_BINS)
    privacy = Privacy(epsilon=epsilon, bins=bins, analysis=analysis)
    return make_plan(
        n_sites,
        n_points,
        confidence_level=level,
        criterion="marginal",
        privacy=privacy,
        on_infeasible="ignore",
    )


def _centralised(sites: Sites, level: float, rng: np.random.Generator) -> float:
    return baselines.centralized(np.concatenate(sites), level)


def _average(sites: Sites, level: float, rng: np.random.Generator) -> float:
    return baselines.average(sites, level)


def _average_of_next(sites: Sites, level: float, rng: np.random.Generator) -> float:
    """The mean of the sites' next larger scores, as numpy's "higher" quantiles of that order are."""
    share = _validation.fraction("confidence_level", level)
    ranks = [min(_validation.rank_of(share, len(scores)) + 1, len(scores)) for scores in sites]
    return float(np.mean([np.sort(scores)[rank - 1] for scores, rank in zip(sites, ranks, strict=True)]))


def _single(sites: Sites, level: float, rng: np.random.Generator) -> float:
    return baselines.single_site(sites[0], level)


def planned(name: str, criterion: str | None = None, **wishes: Any) -> Method:
    """A method of the package's own.

    Parameters
    ----------
    name : str
        What tables and figures call it.
    criterion : str, optional
        As `fedconformal.plan` takes it.
    **wishes
        Of `QuantileOfQuantiles`.

    Returns
    -------
    Method
        With its plan.
    """
    rule = QuantileOfQuantiles(criterion, **wishes)
    return Method(name, rule, plan=rule.plan)


QQ = "FedCP-QQ"
STABLE = "FedCP-QQ stable"
THREE = "FedCP-QQ 3 numbers"
CENTRALISED = "Centralised"
AVERAGE = "FedCP-Avg"
AVERAGE_NEXT = "FedCP-Avg, rank + 1"
SINGLE = "Single site"
EACH = "FedCP-QQ each site"
PAPER = "FedCP²-QQ paper"
TIGHT = "FedCP²-QQ tight"

_AVERAGE = Method(AVERAGE, _average)

METHODS: tuple[Method, ...] = (
    planned(QQ, "marginal"),
    planned(STABLE, "stable"),
    planned(THREE, "stable", numbers=3),
    Method(CENTRALISED, _centralised, pools=lambda n_sites, n_points: n_sites * n_points),
    _AVERAGE,
    Method(AVERAGE_NEXT, _average_of_next),
    Method(SINGLE, _single, pools=lambda n_sites, n_points: n_points),
)
"""The methods of section 5, and ours."""

UNBALANCED = planned(QQ, "marginal", local_ranks="paper")
"""The paper's appendix A.1: local ranks ceil(level (n_j + 1)), then the votes that reach the level."""

INTERVALS = METHODS[:6]
"""The methods of the figures of intervals."""

DIFFERENT = (*METHODS[:2], *METHODS[3:5], planned(EACH, "marginal", promise="each-site"))
"""The methods of the study of sites that differ."""

PRIVATE_METHODS = (
    METHODS[0],
    *(
        _private_method(name, epsilon, analysis)
        for name, analysis in ((PAPER, "paper"), (TIGHT, "tight"))
        for epsilon in EPSILONS
    ),
)
"""The methods of the private experiment, appendix B.2."""
