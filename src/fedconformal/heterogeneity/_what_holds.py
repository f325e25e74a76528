"""After a difference was found: which promises hold all the same, and what they would cost here."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from fedconformal._text import floor_percent, plain_spaces
from fedconformal.documents import Plan, Report, ReportPart
from fedconformal.heterogeneity._documents import level_index
from fedconformal.planning import PROMISES, Promise, Reached, Sent
from fedconformal.protocol import calibrate, take_in


@dataclass(frozen=True)
class Alternative:
    """A promise that holds however the sites differ.

    Attributes
    ----------
    promise : Promise
        Which one.
    reached : Reached or None
        The threshold for these very reports, and the coverage that it would promise; None where they do not
        allow it, and a new round would be needed to know.
    ratio : float or None
        How many times the threshold that the plan gives for these reports.
    short : bool
        Whether these reports cannot reach the level.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_points={"A": 100, "B": 100, "C": 100})
    >>> reports = [fc.report(plan, range(100), site=site) for site in "ABC"]
    >>> [(each.promise.name, each.short) for each in fc.heterogeneity.alternatives(plan, reports)]
    [('each-site', False), ('mixture', False), ('new-site', True)]
    """

    promise: Promise
    reached: Reached | None
    ratio: float | None
    short: bool = False

    def words(self) -> str:
        """Its name, whom it serves and what it costs.

        Returns
        -------
        str
        """
        serves = f"{self.promise.name} ({self.promise.serves or self.promise.whose})"
        if self.reached is None:
            return serves
        ratio = "" if self.ratio is None else f", {self.ratio:.2f} times the present one"
        short = f", and promise {floor_percent(self.reached.coverage)}" if self.short else ""
        cost = f"the threshold would be {self.reached.threshold:.4g}{ratio}{short}"
        return f"{serves}: for these very reports {cost}"


def alternatives(
    plan: Plan,
    reports: Iterable[Report] = (),
    *,
    group: str | None = None,
    confidence_level: float | None = None,
) -> tuple[Alternative, ...]:
    """The promises that hold however sites differ, with their thresholds for reports that are there.

    A threshold here says what a promise costs. It is promised only if the promise was chosen before the
    reports were seen, so plan anew, with new reports, before you publish it.

    Parameters
    ----------
    plan : Plan
        The plan that was answered.
    reports : iterable of Report
        Its answers; none if they are not at hand.
    group : str, optional
        For a plan with groups, the one whose numbers are looked at.
    confidence_level : float, optional
        Which level of the plan, if it has several; the first by default.

    Returns
    -------
    tuple of Alternative
        In the order of the registry of promises.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_points={"A": 100, "B": 100, "C": 100})
    >>> reports = [fc.report(plan, range(100), site=site) for site in "ABC"]
    >>> len(fc.heterogeneity.alternatives(plan, reports)) > 1
    True
    """
    level = level_index(plan, confidence_level)
    taken = list(reports)
    sent = _sent(plan, taken, group, level)
    now = _threshold(plan, taken, group, level) if sent else None
    exact = Fraction(str(plan.confidence_levels[level]))
    return tuple(
        _alternative(promise, sent, exact, now)
        for promise in (PROMISES[name]() for name in PROMISES)
        if promise.bears_differing_sites
    )


def what_holds(
    plan: Plan,
    reports: Iterable[Report] = (),
    *,
    group: str | None = None,
    confidence_level: float | None = None,
    in_groups: bool = False,
) -> str:
    """Say which promise still holds after sites were found to differ, and what the others would cost.

    Parameters
    ----------
    plan, reports, group, confidence_level : as for `alternatives`
        What was answered.
    in_groups : bool
        Whether it was groups of cases that fell short, rather than sites.

    Returns
    -------
    str
        A few sentences.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_points={"A": 100, "B": 100, "C": 100})
    >>> "each-site" in fc.heterogeneity.what_holds(plan)
    True
    """
    own = PROMISES[plan.parts[0].promise]()
    if in_groups:
        return (
            f"A promise about sites, like this plan's ({own.name}), is an average over their cases. For a "
            "promise to each kind of case plan thresholds of its own: --by-class if the kinds are the true "
            "classes, --group if they are known beforehand; with --by-site at every site by itself."
        )
    if own.bears_differing_sites:
        return (
            f"The promise of this plan, {own.name}, holds however the sites differ, for {own.serves}; for no "
            "more than that."
        )
    found = alternatives(plan, reports, group=group, confidence_level=confidence_level)
    words = "; ".join(each.words() for each in found)
    unknown = (
        "" if any(each.reached for each in found) else "What they cost here cannot be said without reports. "
    )
    return plain_spaces(
        f"The promise of this plan, {own.name}, holds {own.condition or 'as it says'}, and they are not. "
        f"These hold however they differ: {words}; thresholds of each site's own (plan --by-site). "
        f"{unknown}`fedconformal promises` lays them side by side; plan anew with the one that you need."
    )


def _alternative(promise: Promise, sent: Sequence[Sent], level: Fraction, now: float | None) -> Alternative:
    found = promise.read_from(sent, level) if sent else None
    if found is None:
        return Alternative(promise, None, None)
    ratio = None if not now or now == math.inf else found.threshold / now
    return Alternative(promise, found, ratio, found.coverage < float(level))


def _sent(plan: Plan, reports: Sequence[Report], group: str | None, level: int) -> list[Sent]:
    """What the sites sent at one level; nothing where these are not scores of ranks."""
    if plan.privacy is not None or plan.parts[0].cases is not None or not reports:
        return []
    parts: Iterable[ReportPart] = take_in(plan, reports).numbers[group].values()
    return [
        Sent(part.n, tuple(part.ranks[level]), tuple(part.values[level]))
        for part in parts
        if part.ranks[level]
    ]


def _threshold(plan: Plan, reports: Sequence[Report], group: str | None, level: int) -> float:
    found = calibrate(plan, reports, on_refused="skip")
    return (found if group is None else found[group]).thresholds[level]
