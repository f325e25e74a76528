"""A site's private answer to a plan: one bin per confidence level."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal.laws import CoverageLaw
from fedconformal.laws._sites import Floats
from fedconformal.privacy import _mechanism
from fedconformal.privacy._bins import Bins
from fedconformal.privacy._ledger import Ledger, fingerprint

if TYPE_CHECKING:
    from fedconformal.documents import Plan


def pmf(scores: ArrayLike, plan: "Plan") -> Floats:
    """Exact probabilities of a site's private release, one per bin; a row per level if there are several."""
    counts = bins_of(plan).place(scores)
    rows = [_mechanism.pmf(counts, **options) for options in _options(plan)]
    return rows[0] if len(rows) == 1 else np.stack(rows)


def private_answer(
    plan: "Plan", scores: ArrayLike, *, site: str, ledger: Ledger, dataset: str
) -> tuple[int, ...]:
    """Bins to release, one per level: charged to the ledger first, and always the same for the same plan.

    Scores are clipped into the end bins, NaN into the last one, and never raise: whether an error was raised
    would be a release of its own.
    """
    draw = prepared(plan, scores)
    text = ledger.answer(
        dataset,
        plan_digest=plan.digest,
        site=site,
        epsilon=_rule(plan).epsilon,
        data_fingerprint=fingerprint(scores),
        sample=lambda: json.dumps(draw()),
    )
    return tuple(json.loads(text))


def prepared(plan: "Plan", scores: ArrayLike) -> Callable[[], list[int]]:
    """Everything short of the draw: calling it draws the bins, one per level, and must be paid for first."""
    if not plan.feasible:
        raise ValueError(
            "this private plan has an infinite threshold: answering it would spend epsilon for nothing"
        )
    counts = bins_of(plan).place(scores)
    draws = [_mechanism.prepare(counts, **options) for options in _options(plan)]
    return lambda: [draw() for draw in draws]


def bins_of(plan: "Plan") -> Bins:
    """The bins of a private plan."""
    rule = _rule(plan)
    return Bins(rule.edges, bounded=rule.bounded)


def one_hot(bins: tuple[int, ...], plan: "Plan") -> np.ndarray[Any, np.dtype[np.int64]]:
    """A release as one row per level with a single 1, to be summed by secure aggregation."""
    vectors = np.zeros((len(bins), len(_rule(plan).edges)), dtype=np.int64)
    vectors[np.arange(len(bins)), list(bins)] = 1
    return vectors


def _rule(plan: "Plan") -> Any:
    if plan.privacy is None:
        raise ValueError("this plan is not private: make it with privacy=Privacy(...)")
    return plan.privacy


def _options(plan: "Plan") -> list[dict[str, Any]]:
    """Arguments of the mechanism for each level."""
    terms = plan.terms
    assert terms is not None
    return [
        {
            "a": level.exact_quantile.numerator,
            "d": level.exact_quantile.denominator,
            "epsilon": terms.epsilon,
            "calibration": terms.calibration,
            "mechanism": terms.mechanism,
        }
        for level in plan.levels
        if level.exact_quantile is not None
    ]


@dataclass(frozen=True)
class Cost:
    """What privacy costs at one level: the coverage to expect with it, and without."""

    confidence_level: float
    without: float
    expected: float


def expected_cost(plan: "Plan") -> tuple[Cost, ...]:
    """Expected coverage with and without privacy, if scores lie evenly over the bins and all sites answer."""
    from fedconformal.planning import plan as make

    _rule(plan)
    costs = []
    for level in plan.levels:
        public = make(
            n_points=list(plan.n_points or ()),
            confidence_level=level.confidence_level,
            criterion=plan.criterion,
            delta=plan.delta or 0.1,
            max_faulty=plan.max_faulty,
            on_infeasible="ignore",
        )
        groups = plan.groups or ()
        sizes, counts = (np.array([getattr(group, name) for group in groups]) for name in ("n", "count"))
        assert plan.terms is not None
        assert level.exact_quantile is not None
        sites = plan.terms.sites(sizes, level.exact_quantile, expected=True)
        law = CoverageLaw.of_sites(sites, counts, server_rank=level.server_rank or 1)
        costs.append(Cost(level.confidence_level, public.law.mean(), law.mean()))
    return tuple(costs)
