"""Do the sites look alike? A test from the few numbers that each of them sent."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fedconformal import _validation
from fedconformal._text import count
from fedconformal._typing import Floats, Ints
from fedconformal.documents import Plan, Refusal, Report, ReportPart, label_text
from fedconformal.heterogeneity._distributions import Distribution
from fedconformal.heterogeneity._documents import level_index, refuse_groups
from fedconformal.heterogeneity._yardsticks import Yardstick, yardstick
from fedconformal.protocol import take_in

T = TypeVar("T")

_WEAK = 0.5  # a power below which nothing found means little


@dataclass(frozen=True)
class SiteComparison:
    """One site beside the others.

    Attributes
    ----------
    site : str
        Its name.
    n : int
        How many scores it has.
    value : float
        What it sent; the middle one of several numbers.
    position : float
        The share of reference scores below its report, or, without a reference, how many robust standard
        deviations it lies above the middle of the sites.
    p_value : float
        Adjusted for looking at all sites.
    stands_out : bool
        Whether that is at most the false-alarm rate.

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_points={"A": 100, "B": 100, "C": 100})
    >>> rng = np.random.default_rng(0)
    >>> spread = {"A": 1.0, "B": 1.0, "C": 3.0}
    >>> reports = [fc.report(plan, rng.exponential(spread[site], 100), site=site) for site in "ABC"]
    >>> found = fc.heterogeneity.compare_sites(plan, reports, reference="exponential")
    >>> [(site.site, site.stands_out) for site in found.sites]
    [('A', False), ('B', False), ('C', True)]
    """

    site: str
    n: int
    value: float
    position: float
    p_value: float
    stands_out: bool


@dataclass(frozen=True)
class Comparison:
    """Which sites stand out.

    If all sites are alike and the assumption holds, a site is named with probability at most ``false_alarm``.

    Attributes
    ----------
    yardstick : Yardstick
        What the reports were compared with.
    false_alarm : float
        The probability with which any site may be named if all are alike.
    sites : tuple of SiteComparison
        By name.
    left_out : tuple of str
        Sites too small for their rank: whatever their scores, they send Infinity.
    refused : tuple of Refusal
        Reports that do not answer the plan.
    power : float
        How probably one site with doubled scores would be named, if the others were alike.
    suspicion : str or None
        What speaks against the reference itself.

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_points={"A": 100, "B": 100, "C": 100})
    >>> rng = np.random.default_rng(0)
    >>> spread = {"A": 1.0, "B": 1.0, "C": 3.0}
    >>> reports = [fc.report(plan, rng.exponential(spread[site], 100), site=site) for site in "ABC"]
    >>> found = fc.heterogeneity.compare_sites(plan, reports, reference="exponential")
    >>> [site.site for site in found.odd], found.false_alarm
    (['C'], 0.05)
    """

    yardstick: Yardstick
    false_alarm: float
    sites: tuple[SiteComparison, ...]
    left_out: tuple[str, ...] = ()
    refused: tuple[Refusal, ...] = ()
    power: float = 0.0
    suspicion: str | None = None

    @property
    def assumption(self) -> str:
        """What was assumed, in two words."""
        return self.yardstick.assumption

    @property
    def position_heading(self) -> str:
        """What the positions are, as the heading of a column."""
        return self.yardstick.position_heading

    def position_text(self, site: SiteComparison) -> str:
        """Where a site lies, for a table.

        Parameters
        ----------
        site : SiteComparison
            One of ``sites``.

        Returns
        -------
        str
            Its position with the digits that a reader needs.
        """
        return self.yardstick.position_text(site.position)

    @property
    def p_value(self) -> float:
        """Of the hypothesis that all sites are alike (and, with a reference, like it)."""
        return min(site.p_value for site in self.sites)

    @property
    def ordered(self) -> tuple[SiteComparison, ...]:
        """All sites, the most surprising first."""
        return tuple(sorted(self.sites, key=lambda site: (site.p_value, -abs(site.position))))

    @property
    def odd(self) -> tuple[SiteComparison, ...]:
        """The sites that stand out, the most surprising first."""
        return tuple(site for site in self.ordered if site.stands_out)

    def sentence(self) -> str:
        """The result in plain words.

        Returns
        -------
        str
            Who stands out, how often that would be a false alarm, and what was assumed.
        """
        rule = f"(chance of a false alarm: {self.false_alarm:g}; assumed: {self.yardstick.assumed})"
        if not self.odd:
            return f"No site stands out among {len(self.sites)} {rule}."
        who = ", ".join(site.site for site in self.odd)
        verb = "stands" if len(self.odd) == 1 else "stand"
        return f"{len(self.odd)} of {len(self.sites)} sites {verb} out: {who} {rule}."

    def power_sentence(self) -> str:
        """What the comparison could have seen, in plain words.

        Returns
        -------
        str
            How probably it finds a site with doubled scores.
        """
        about = f"{self.power:.2f}" if 0.005 <= self.power < 0.995 else ("0" if self.power < 0.5 else "1")
        silence = "; its silence says little" if self.power < _WEAK else ""
        sites = count(len(self.sites), "site")
        return f"With {sites} this test would find one with doubled scores with probability {about}{silence}."


def compare_sites(
    plan: Plan,
    reports: Iterable[Report],
    *,
    group: Any = None,
    reference: "str | ArrayLike | Distribution | None" = None,
    confidence_level: float | None = None,
    false_alarm: float = 0.05,
    rng: int | np.random.Generator | None = 0,
) -> Comparison:
    """Find sites whose report does not fit the others.

    Of several numbers per site the middle one is looked at. Sites that the plan does not ask do not occur.

    Parameters
    ----------
    plan : Plan
        The plan that was answered.
    reports : iterable of Report
        As for `calibrate`; reports that do not answer the plan are left out.
    group : str or int, optional
        For a plan with groups, the one whose numbers are compared.
    reference : str, array-like or Distribution, optional
        Scores of a typical site, such as the coordinator's own (the test is then exact whatever their
        distribution), or a distribution (a name as for `what_if`, or anything with ``cdf`` and ``ppf``).
        Without it the sites are compared with each other, on the assumption that above some point the scores
        have an exponential tail, of any position and scale.
    confidence_level : float, optional
        Which level of the plan, if it has several; the first by default.
    false_alarm : float
        The probability with which any site may be named if all are alike.
    rng : None, int or numpy Generator
        Random numbers of the simulation behind the comparison without a reference.

    Returns
    -------
    Comparison
        Every site's position and p-value, and who stands out.

    Raises
    ------
    ValueError
        If the plan is private, has groups and none was chosen, or there is too little to compare.

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_points={"A": 100, "B": 100, "C": 100})
    >>> rng = np.random.default_rng(0)
    >>> reports = [fc.report(plan, rng.exponential(size=100), site=site) for site in "ABC"]
    >>> [site.site for site in fc.heterogeneity.compare_sites(plan, reports, reference="exponential").odd]
    []
    """
    alarm = float(_validation.fraction("false_alarm", false_alarm))
    if plan.privacy is not None:
        raise ValueError("private reports cannot be compared: their noise hides what would be looked for")
    label, level = _label(plan, group), level_index(plan, confidence_level)
    intake = take_in(plan, reports)
    numbers = {site: part for site, part in intake.numbers[label].items() if part.ranks[level]}
    if plan.parts[0].cases is not None:
        # Drawn cases are as good as a site that has no others.
        numbers = {s: p.model_copy(update={"n": plan.part.n_drawn(p.n)}) for s, p in numbers.items()}
    able = {site: part for site, part in numbers.items() if _middle(part.ranks[level]) <= part.n}
    stick = yardstick(reference, rng=rng)
    _check_alarm(stick, alarm, len(able))
    values, sizes, ranks = _arrays(able, level)
    return Comparison(
        stick,
        alarm,
        _compared(stick, able, values, sizes, ranks, alarm),
        tuple(site for site in numbers if site not in able),
        (*intake.refused, *intake.refused_in[label]),
        stick.power(sizes, ranks, alarm),
        stick.suspicion(values, sizes, ranks),
    )


def _label(plan: Plan, group: Any) -> str | None:
    """The group as documents hold it; None for a plan without groups."""
    if group is None:
        refuse_groups(plan)
        return None
    if not plan.is_grouped:
        raise ValueError(f"group goes with a plan that has groups, and this one has none, got {group!r}")
    return _validation.choice("group", label_text(group), plan.labels)


def _middle(values: Sequence[T]) -> T:
    """The middle one of the numbers that a site sends at a level; any of them would do for a test."""
    return values[len(values) // 2]


def _check_alarm(stick: Yardstick, alarm: float, n_sites: int) -> None:
    least = stick.least_false_alarm(n_sites)
    if alarm < least:
        raise ValueError(
            f"false_alarm must be at least {least:g} without a reference, the simulation sees no less; "
            f"got {alarm:g}"
        )


def _arrays(parts: dict[str, ReportPart], level: int) -> tuple[Floats, Ints, Ints]:
    """What each site sent, its size, and the rank of what it sent."""
    values = np.array([_middle(part.values[level]) for part in parts.values()], dtype=float)
    sizes = np.array([part.n for part in parts.values()], dtype=np.int64)
    ranks = np.array([_middle(part.ranks[level]) for part in parts.values()], dtype=np.int64)
    return values, sizes, ranks


def _compared(
    stick: Yardstick, parts: dict[str, ReportPart], values: Floats, sizes: Ints, ranks: Ints, alarm: float
) -> tuple[SiteComparison, ...]:
    positions, chances = stick.compare(values, sizes, ranks)
    rows = zip(parts, sizes.tolist(), values.tolist(), positions.tolist(), chances.tolist(), strict=True)
    return tuple(SiteComparison(*row, stands_out=row[-1] <= alarm) for row in rows)
