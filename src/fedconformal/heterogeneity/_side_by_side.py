"""All promises for one federation, side by side: votes, what is promised, and the sets' width."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fedconformal._typing import Floats
from fedconformal.documents import Plan
from fedconformal.heterogeneity._distributions import Distribution
from fedconformal.heterogeneity._distributions import reference as as_distribution
from fedconformal.heterogeneity._shifts import Shift, scale
from fedconformal.heterogeneity._what_if import MIXTURE, WhatIf, what_if
from fedconformal.planning import CRITERIA, PROMISES, Criterion, Goal, Promise
from fedconformal.protocol import plan as make_plan

# Where the law of the coverage is looked at: from 0 to 1, closer together towards both ends.
_COVERAGES: Floats = special.expit(np.linspace(-12.0, 30.0, 4201))


@dataclass(frozen=True)
class PromiseRow:
    """One promise for one federation.

    Attributes
    ----------
    promise, criterion : Promise and Criterion
        What is promised, and how sure.
    plan : Plan or None
        The plan; None where this promise cannot be given.
    reason : str
        Why it cannot be given, or why the threshold is infinite; else empty.
    width : float or None
        The expected threshold if no site differs; None where there is no plan.
    shifted_width : float or None
        The expected threshold if some sites differ as named.
    worst_site : float or None
        The mean coverage, then, at the site where it is lowest.
    all_sites : float or None
        The mean coverage, then, over the cases of all sites, by size.

    Examples
    --------
    >>> from fedconformal.heterogeneity import side_by_side
    >>> first = side_by_side({"A": 100, "B": 100, "C": 60})[0]
    >>> first.promise.name, round(first.width, 2), round(first.worst_site, 2)
    ('population', 1.67, 0.62)
    """

    promise: Promise
    criterion: Criterion
    plan: Plan | None
    reason: str = ""
    width: float | None = None
    shifted_width: float | None = None
    worst_site: float | None = None
    all_sites: float | None = None

    def sentence(self) -> str:
        """The promise in words.

        Returns
        -------
        str
        """
        level = 0.9 if self.plan is None else self.plan.confidence_levels[0]
        delta = 0.1 if self.plan is None else self.plan.delta
        return self.promise.sentence(self.criterion, level, delta if self.criterion.takes_delta else None)


def side_by_side(
    n_points: Any,
    *,
    n_sites: int | None = None,
    confidence_level: float = 0.9,
    delta: float = 0.1,
    shifts: Mapping[str, Shift] | None = None,
    reference: "str | ArrayLike | Distribution" = "half-normal",
    mixture: Mapping[str, float] | None = None,
) -> tuple[PromiseRow, ...]:
    """Lay all promises side by side for a federation, those of other packages included.

    Parameters
    ----------
    n_points, n_sites, confidence_level, delta : as for `plan`
        The federation, with known sizes, and the level.
    shifts : mapping from str to Shift, optional
        How sites differ, as for `what_if`; left out, a third of the sites (at least one) have doubled scores,
        those that come last.
    reference : str, array-like or Distribution
        The distribution of the other sites' scores, as for `what_if`.
    mixture : mapping from str to float, optional
        Shares of the sites in new cases, for the promise to a mixture; by size if left out.

    Returns
    -------
    tuple of PromiseRow
        A row for each promise under its own criterion, and one with a delta where that can be had; those
        that hold however sites differ come last.

    Raises
    ------
    ValueError
        If the sizes are not known, or a name is no site.

    Examples
    --------
    >>> rows = side_by_side({"A": 100, "B": 100, "C": 60})
    >>> [(row.promise.name, row.criterion.name) for row in rows][:3]
    [('population', 'stable'), ('population', 'conditional'), ('each-site', 'marginal')]
    """
    common = {"n_points": n_points, "n_sites": n_sites, "confidence_level": confidence_level}
    usual = make_plan(**common, on_infeasible="ignore")
    if usual.is_open:
        raise ValueError("n_points must be given: what a promise costs depends on the sites' sizes")
    moved = doubled_sites(usual) if shifts is None else dict(shifts)
    typical = as_distribution(reference)
    what_if(usual, moved, reference=typical)  # refuses names that no site has
    return tuple(
        _row(promise, criterion, common, delta, mixture, moved, typical)
        for promise in sorted((PROMISES[name]() for name in PROMISES), key=lambda p: p.bears_differing_sites)
        for criterion in _criteria(promise)
    )


def doubled_sites(plan: Plan) -> dict[str, Shift]:
    """The shift that is looked at where none is named: the last third of the sites has doubled scores.

    Parameters
    ----------
    plan : Plan
        With known sizes.

    Returns
    -------
    dict from str to Shift
        By the names of the sites, or their numbers.

    Examples
    --------
    >>> import fedconformal as fc
    >>> list(fc.heterogeneity.doubled_sites(fc.plan(n_points={"A": 100, "B": 100, "C": 100})))
    ['C']
    """
    names = list(plan.site_names or [str(i + 1) for i in range(len(plan.n_points))])
    return dict.fromkeys(names[-max(1, len(names) // 3) :], scale(2.0))


def _criteria(promise: Promise) -> list[Criterion]:
    """The promise's own criterion, and those with a delta that go with it."""
    with_delta = [CRITERIA[name]() for name in CRITERIA if CRITERIA[name].takes_delta]
    own = CRITERIA[promise.default_criterion]()
    return [own, *(each for each in with_delta if each.name != own.name and _goes(promise, each))]


def _goes(promise: Promise, criterion: Criterion) -> bool:
    try:
        promise.check(Goal(Fraction(9, 10), criterion), private=False, is_open=False)
    except ValueError:
        return False
    return True


def _row(
    promise: Promise,
    criterion: Criterion,
    common: dict[str, Any],
    delta: float,
    mixture: Mapping[str, float] | None,
    shifts: Mapping[str, Shift],
    reference: Distribution,
) -> PromiseRow:
    wishes = {**common, "promise": promise.name, "criterion": criterion.name, "delta": delta}
    shares = mixture if promise.takes_mixture else None
    try:
        plan = make_plan(**wishes, mixture=shares, on_infeasible="ignore")
    except ValueError as error:
        if shares is not None:  # what was asked for is wrong, rather than not to be had
            raise
        return PromiseRow(promise, criterion, None, str(error))
    if not plan.feasible:
        return PromiseRow(promise, criterion, plan, " ".join(plan.problems), math.inf, math.inf, 1.0, 1.0)
    asked = what_if(plan, shifts, reference=reference)
    return PromiseRow(
        promise,
        criterion,
        plan,
        "",
        _expected_threshold(what_if(plan, {}, reference=reference)),
        _expected_threshold(asked),
        min(asked.law(test).mean() for test in _kinds_of_sites(asked)),
        asked.law(MIXTURE).mean(),
    )


def _kinds_of_sites(asked: WhatIf) -> list[str | None]:
    """One site of each distribution; None for those that do not differ."""
    different = {id(shift): name for name, shift in asked.shifts.items()}
    same = [None] if len(asked.shifts) < len(asked.sites) else []
    return [*same, *different.values()]


def _expected_threshold(asked: WhatIf) -> float:
    """E[q], from the law of the coverage of the sites' mixture, in which every q has its place."""
    quantiles = asked.distribution_of(MIXTURE).ppf((_COVERAGES[1:] + _COVERAGES[:-1]) / 2)
    return float(quantiles @ np.diff(asked.law(MIXTURE).cdf(_COVERAGES)))
