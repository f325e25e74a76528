"""Comparison of sites by the few numbers that each of them sent.

Without any assumption odd sites cannot be distinguished from a heavy tail: the reports of sites with equal
sizes are independent draws from one distribution, which may be any continuous one. A test whose false-alarm
rate is a for every distribution of scores finds one odd site with probability at most e * a, however odd it
is. So something must be fixed: reference scores, or the shape of the tail.

*Proof.* Let m sites follow P, and one of them, equally likely any, P' instead. If all sites follow
(1 - 1/m) P + P'/m, then with probability (1 - 1/m)^(m - 1) >= 1/e exactly one of the m draws comes from the
part P', and given that, the reports are distributed as with one odd site at a random place. So the alarm
rate, at most a, is at least the power divided by e.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from fedconformal import _util, messages
from fedconformal._text import count, quoted
from fedconformal._util import Floats, Ints
from fedconformal.documents import (
    Calibration,
    CalibrationView,
    Cases,
    CasesPayload,
    Design,
    Payload,
    Plan,
    PlanView,
    Ranks,
    RanksPayload,
    Refusal,
    Report,
    SiteKind,
    label_text,
)
from fedconformal.laws import CoverageLaw, Distortion, OrderStatistics, Shifted
from fedconformal.monitoring._coverage import holm, level_index, refuse_groups
from fedconformal.planning import Ballot
from fedconformal.protocol import is_private, validate_reports

_WEAK = 0.5  # a power below which finding nothing means little
_DRAWS = 20_000_000  # simulated reports, in all
_FEWEST = 4
_NODES, _MOST_KINDS = 1000, 50  # quantiles of a report, and kinds of sites, that a power is averaged over
_SUSPICIOUS = 3.0
_NORMAL_QUARTILE = 0.6744897501960817  # a robust standard deviation is a median distance over this


class Yardstick(ABC):
    """Baseline that reports are compared with, and the assumption that this takes."""

    assumption: ClassVar[str]
    assumed: ClassVar[str]
    """The assumption as the end of a sentence."""
    position_heading: ClassVar[str]

    def least_false_alarm(self, n_sites: int) -> float:
        """Return the smallest false-alarm rate at which a site can be named."""
        return 0.0

    @abstractmethod
    def compare(self, values: Floats, n: Ints, l: Ints) -> tuple[Floats, Floats]:
        """Return the position of each report and its adjusted p-value, from values, sizes and ranks."""

    @abstractmethod
    def power(self, n: Ints, l: Ints, false_alarm: float, factor: float = 2.0) -> float:
        """Estimate how probably a site is named whose scores are multiplied, if the others are alike.

        Any of the sites may be the odd one, with equal probability.
        """

    def suspicion(self, values: Floats, n: Ints, l: Ints) -> str | None:
        """Return evidence against the reference itself, as a sentence, or None."""
        return None

    def position_text(self, position: float) -> str:
        """Format a position for a table."""
        return f"{position:.6g}"


class ReferenceScores(Yardstick):
    """Scores of a typical site: the rank of each report among them has a known distribution.

    At most k of N reference scores lie below the l-th smallest of n others if and only if among the k + l
    smallest of all N + n at least l are of the n (negative hypergeometric). With ties both tails count them
    against a finding.
    """

    assumption: ClassVar[str] = "reference scores"
    assumed: ClassVar[str] = "the reference scores are distributed as a typical site's"
    position_heading: ClassVar[str] = "share of the reference below"

    def __init__(self, scores: ArrayLike) -> None:
        values = _util.plain_array(scores, dtype=float)
        if values.ndim != 1 or values.size == 0 or np.isnan(values).any():
            raise ValueError("reference scores must be a flat array of numbers, at least one")
        self._ordered = np.sort(values)

    def compare(self, values: Floats, n: Ints, l: Ints) -> tuple[Floats, Floats]:
        """Compare by the share of reference scores that are not above each report."""
        if values.size == 0:
            raise ValueError("no site sent a finite report: there is nothing to compare")
        positions, chances = self._single(values, n, l)
        return positions, np.array(holm(chances.tolist()))

    def _single(self, values: Floats, n: Ints, l: Ints) -> tuple[Floats, Floats]:
        below, at_most = (np.searchsorted(self._ordered, values, side=side) for side in ("left", "right"))
        total = self._ordered.size + n
        low = stats.hypergeom.sf(l - 1, total, n, at_most + l)
        high = np.where(below > 0, stats.hypergeom.cdf(l - 1, total, n, np.maximum(below - 1, 0) + l), 1.0)
        return at_most / self._ordered.size, np.minimum(1.0, 2 * np.minimum(low, high))

    def power(self, n: Ints, l: Ints, false_alarm: float, factor: float = 2.0) -> float:
        """Estimate the power if the odd site's scores are distributed as the reference, times the factor.

        Noisy in two ways: the quantiles of a typical site are those of the reference sample, and an odd site
        counts as named only if Holm's first step names it.
        """
        kinds, counts = np.unique(np.stack([n, l]), axis=1, return_counts=True)
        nodes = (np.arange(_NODES) + 0.5) / _NODES
        shares = []
        for size, rank in kinds.T.tolist()[:_MOST_KINDS]:
            quantiles = special.betaincinv(rank, size - rank + 1, nodes)
            values = factor * np.quantile(self._ordered, quantiles, method="inverted_cdf")
            chances = self._single(values, np.full(_NODES, size), np.full(_NODES, rank))[1]
            shares.append(np.mean(chances <= false_alarm / n.size))
        return float(np.average(shares, weights=counts[:_MOST_KINDS]))

    def suspicion(self, values: Floats, n: Ints, l: Ints) -> str | None:
        """Return a warning if the sites together lie far above the reference.

        Scores of cases that a model was trained on are too small. A heuristic: the mean distance of the
        sites' positions from their expectation exceeds 3 standard errors about once in 700 times by chance.
        """
        expected = l / (n + 1)
        positions = np.searchsorted(self._ordered, values, side="left") / self._ordered.size
        middle = float(expected.mean())
        variance = (expected * (1 - expected) / (n + 2)).sum() / n.size**2
        error = np.sqrt(variance + middle * (1 - middle) / self._ordered.size)
        away = float((positions - expected).mean() / error)
        if away <= _SUSPICIOUS:
            return None
        return (
            f"Together the sites lie {away:.1f} standard errors above the reference. This happens if the "
            "model was trained on the reference cases, whose scores are then too small: use cases that it "
            "has not seen."
        )


class EachOther(Yardstick):
    """The other sites: distances from their median, compared with simulated federations.

    With an exponential tail F^{-1}(u) = a - b log(1 - u) a report is a + b E, and E, the l-th smallest of n
    exponential variables, has a known distribution. The distances, in robust standard deviations, do not
    depend on a and b, so the simulation is exact, and the p-value (1 + number of simulated distances that are
    as large) / (1 + number of simulations) is valid.
    """

    assumption: ClassVar[str] = "exponential tail"
    assumed: ClassVar[str] = "around the threshold the scores have an exponential tail"
    position_heading: ClassVar[str] = "robust sd from the middle"

    def __init__(self, rng: int | np.random.Generator | None = 0) -> None:
        self._seed = rng if isinstance(rng, int) else int(np.random.default_rng(rng).integers(2**63))

    def least_false_alarm(self, n_sites: int) -> float:
        """Return twice the smallest p-value that the simulation can give."""
        return 2 / (1 + _count_draws(n_sites))

    def compare(self, values: Floats, n: Ints, l: Ints) -> tuple[Floats, Floats]:
        """Compare by the distance of each report from the median of all."""
        if values.size < _FEWEST:
            raise ValueError(
                f"without a reference at least {_FEWEST} sites with a finite report are needed, "
                f"got {values.size}"
            )
        if not np.isfinite(values).all() or np.unique(values).size < values.size:
            raise ValueError(
                "reports that are equal, or infinite, have no exponential tail: give reference scores"
            )
        largest = _simulate_largest(tuple(n.tolist()), tuple(l.tolist()), self._seed)
        distances = _distances(values, _spread(n, l))
        larger = largest.size - np.searchsorted(largest, np.abs(distances), side="left")
        return distances, (1 + larger) / (1 + largest.size)

    def power(self, n: Ints, l: Ints, false_alarm: float, factor: float = 2.0) -> float:
        """Estimate the power by simulation with exponential scores: up to 2,000 federations."""
        m = n.size
        if m < _FEWEST:
            return 0.0
        largest = _simulate_largest(tuple(n.tolist()), tuple(l.tolist()), self._seed)
        rng = np.random.default_rng([self._seed, 1])
        draws = int(np.clip(2_000_000 // m, 99, 2_000))
        values = -np.log1p(-rng.beta(l, n - l + 1, size=(draws, m)))
        odd = rng.integers(m, size=draws)
        values[np.arange(draws), odd] *= factor
        distances = np.abs(_distances(values, _spread(n, l))[np.arange(draws), odd])
        larger = largest.size - np.searchsorted(largest, distances, side="left")
        return float(np.mean((1 + larger) / (1 + largest.size) <= false_alarm))

    def position_text(self, position: float) -> str:
        """Format a position with its sign."""
        return f"{position:+.1f}"


def _spread(n: Ints, l: Ints) -> Floats:
    """Return the standard deviation of the l-th smallest of n exponential variables."""
    variance: Floats = special.polygamma(1, n - l + 1) - special.polygamma(1, n + 1)
    return np.sqrt(variance)


def _count_draws(m: int) -> int:
    """Return the number of simulated federations of m sites."""
    return int(np.clip(_DRAWS // max(m, 1), 999, 9999))


@lru_cache(maxsize=16)
def _simulate_largest(sizes: tuple[int, ...], ranks: tuple[int, ...], seed: int) -> Floats:
    """Simulate federations of sites that are alike; return their largest distances, sorted."""
    n, l = np.array(sizes), np.array(ranks)
    draws = _count_draws(n.size)
    rng = np.random.default_rng(seed)
    largest = np.empty(draws)
    step = max(1, 2_000_000 // n.size)
    for start in range(0, draws, step):
        size = min(step, draws - start)
        exponential = -np.log1p(-rng.beta(l, n - l + 1, size=(size, n.size)))
        largest[start : start + size] = np.abs(_distances(exponential, _spread(n, l))).max(axis=1)
    return np.sort(largest)


def _distances(values: Floats, spread: Floats) -> Floats:
    """(value - median) / (its spread x the median of such ratios): the same for a + b * values."""
    away = (values - np.median(values, axis=-1, keepdims=True)) / spread
    unit = np.median(np.abs(away), axis=-1, keepdims=True)
    return away / unit * _NORMAL_QUARTILE


@dataclass(frozen=True)
class SiteComparison:
    """One site beside the others.

    Attributes
    ----------
    site : str
        Its name.
    n : int
        Number of its scores.
    value : float
        The number that it sent; the middle one of several.
    position : float
        The share of reference scores below its report, or, without a reference, how many robust standard
        deviations it lies above the middle of the sites.
    p_value : float
        Adjusted for looking at all sites.
    stands_out : bool
        True if that is at most the false-alarm rate.

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_points={"A": 100, "B": 100, "C": 100})
    >>> rng = np.random.default_rng(0)
    >>> spread = {"A": 1.0, "B": 1.0, "C": 3.0}
    >>> reports = [fc.report(plan, rng.exponential(spread[site], 100), site=site) for site in "ABC"]
    >>> comparison = fc.monitoring.compare(plan, reports, reference=rng.exponential(size=1000))
    >>> [(site.site, site.stands_out) for site in comparison.sites]
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
    """Sites that stand out.

    If all sites are alike and the assumption holds, a site is named with probability at most ``false_alarm``.

    Attributes
    ----------
    yardstick : Yardstick
        Baseline of the comparison.
    false_alarm : float
        The probability with which any site may be named if all are alike.
    sites : tuple of SiteComparison
        By name.
    left_out : tuple of str
        Sites too small for their rank: whatever their scores, they send Infinity.
    refused : tuple of Refusal
        Reports that do not answer the plan.
    power : float
        Estimated probability that one site with doubled scores would be named, if the others were alike.
    suspicion : str or None
        Evidence against the reference itself.

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_points={"A": 100, "B": 100, "C": 100})
    >>> rng = np.random.default_rng(0)
    >>> spread = {"A": 1.0, "B": 1.0, "C": 3.0}
    >>> reports = [fc.report(plan, rng.exponential(spread[site], 100), site=site) for site in "ABC"]
    >>> comparison = fc.monitoring.compare(plan, reports, reference=rng.exponential(size=1000))
    >>> [site.site for site in comparison.odd], comparison.false_alarm
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
        """Describe the result in plain words.

        Returns
        -------
        str
            The sites that stand out, the false-alarm rate, and the assumption.
        """
        rule = f"(chance of a false alarm: {self.false_alarm:g}; assumed: {self.yardstick.assumed})"
        if not self.odd:
            return f"No site stands out among {len(self.sites)} {rule}."
        who = ", ".join(site.site for site in self.odd)
        verb = "stands" if len(self.odd) == 1 else "stand"
        return f"{len(self.odd)} of {len(self.sites)} sites {verb} out: {who} {rule}."

    def power_sentence(self) -> str:
        """Describe the estimated power of the comparison.

        Returns
        -------
        str
            Probability of finding a site with doubled scores, as estimated from the reference.
        """
        about = f"{self.power:.2f}" if 0.005 <= self.power < 0.995 else ("0" if self.power < 0.5 else "1")
        weak = ", so finding nothing means little" if self.power < _WEAK else ""
        sites = count(len(self.sites), "site")
        return f"With {sites}, the estimated power to find one with doubled scores is {about}{weak}."


def compare(
    plan: Plan,
    reports: Iterable[Report],
    *,
    group: Any = None,
    reference: ArrayLike | None = None,
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
    reference : array-like, optional
        Scores of a typical site, such as the coordinator's own: the test is then exact whatever their
        distribution. Without it the sites are compared with each other, on the assumption that above some
        point the scores have an exponential tail, of any position and scale.
    confidence_level : float, optional
        Level of the plan, if it has several; the first by default.
    false_alarm : float
        The probability with which any site may be named if all are alike.
    rng : None, int or numpy Generator
        Random numbers of the simulation behind the comparison without a reference.

    Returns
    -------
    Comparison
        Every site's position and p-value, and the sites that stand out.

    Raises
    ------
    ValueError
        If the plan is private or asks for curves, has groups and none was chosen, or there is too little to
        compare.

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_points={"A": 100, "B": 100, "C": 100})
    >>> rng = np.random.default_rng(0)
    >>> reports = [fc.report(plan, rng.exponential(size=100), site=site) for site in "ABC"]
    >>> own = rng.exponential(size=1000)
    >>> [site.site for site in fc.monitoring.compare(plan, reports, reference=own).odd]
    []
    """
    alarm = float(_util.fraction("false_alarm", false_alarm))
    if is_private(plan):
        raise ValueError("private reports cannot be compared: their noise hides what would be looked for")
    chosen, level = _read_group(plan, group), level_index(plan, confidence_level)
    intake = validate_reports(plan, reports)
    answers = intake.answers[chosen]
    sent = {site: _middle_score(answer.payload, answer.n, level) for site, answer in answers.items()}
    numbers = {site: number for site, number in sent.items() if number is not None}
    able = {site: (value, n, rank) for site, (value, n, rank) in numbers.items() if rank <= n}
    stick: Yardstick = EachOther(rng) if reference is None else ReferenceScores(reference)
    least = stick.least_false_alarm(len(able))
    if alarm < least:
        raise ValueError(
            f"false_alarm must be at least {least:g} without a reference, the simulation resolves no less; "
            f"got {alarm:g}"
        )
    values = np.array([value for value, _, _ in able.values()], dtype=float)
    sizes = np.array([n for _, n, _ in able.values()], dtype=np.int64)
    ranks = np.array([rank for _, _, rank in able.values()], dtype=np.int64)
    positions, chances = stick.compare(values, sizes, ranks)
    rows = zip(able, sizes.tolist(), values.tolist(), positions.tolist(), chances.tolist(), strict=True)
    return Comparison(
        stick,
        alarm,
        tuple(SiteComparison(*row, stands_out=row[-1] <= alarm) for row in rows),
        tuple(site for site in numbers if site not in able),
        (*intake.refused, *intake.refused_in[chosen]),
        stick.power(sizes, ranks, alarm),
        stick.suspicion(values, sizes, ranks),
    )


def _read_group(plan: Plan, group: Any) -> str | None:
    """Return the group as documents hold it; None for a plan without groups."""
    if group is None:
        refuse_groups(plan)
        return None
    if not plan.is_grouped:
        raise ValueError(f"group must be left out: the plan has no groups, got {group!r}")
    return _util.choice("group", label_text(group), plan.groups)


def _middle_score(payload: Payload, n: int, level: int) -> tuple[float, int, int] | None:
    """Return the middle score of those sent at a level, and n and l if it is the l-th smallest of n.

    None where a site is not asked at this level. Any one of several scores would suffice for a test.
    """
    if isinstance(payload, RanksPayload):
        sent = payload.levels[level]
        place = len(sent.ranks) // 2
        return (sent.values[place], n, sent.ranks[place]) if sent.ranks else None
    if isinstance(payload, CasesPayload):
        place = len(payload.values) // 2
        return payload.values[place], len(payload.values), place + 1  # as good as a site without other cases
    raise ValueError(f"reports of kind {payload.kind!r} cannot be compared: they hold no score of known rank")


# -- distribution of the coverage of a plan if named sites differ from the new cases (section 3.5) ---------


def shifted_law(
    document: Plan | PlanView | Calibration | CalibrationView,
    distortion: Mapping[str, Distortion],
    *,
    confidence_level: float | None = None,
) -> CoverageLaw:
    """Return the exact distribution of the coverage if some sites' scores are distributed differently.

    With F_j the distribution function of the scores of site j and F that of the new cases', the distortion of
    site j is ``h(c) = F_j(F^{-1}(c))``: the share of its scores below the c-quantile of the new cases'.
    `CoverageLaw` takes the same distortions; this applies them to a whole plan, whichever scores sites send.

    Parameters
    ----------
    document : Plan or Calibration
        A plan with known sizes, or a calibration (then for the sites that answered); of a document with
        groups, one group: ``plan["child"]``.
    distortion : mapping from str to callable
        Distortions by site; each takes arrays and grows from h(0) = 0 to h(1) = 1. Sites that are not named
        are like the new cases. Sites without names are called by their numbers, "1" first. Sites that share
        a distortion should share the same object, which is faster.
    confidence_level : float, optional
        Level of the plan, if it has several; the first by default.

    Returns
    -------
    CoverageLaw
        Exact; with ``max_faulty`` a lower bound.

    Raises
    ------
    ValueError
        If a name is no site of the plan, or the plan is open, private, has groups or asks for curves.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_points={"A": 100, "B": 100, "C": 100}, criterion="marginal")
    >>> law = fc.monitoring.shifted_law(plan, {"A": lambda c: c**2})
    >>> round(plan.law.mean(), 3), round(law.mean(), 3)
    (0.902, 0.916)
    """
    refuse_groups(document)
    level, design = level_index(document, confidence_level), document.selected_designs[0]
    if messages.of(design.message).epsilon(design) is not None:
        raise ValueError("private plans are not supported: their distribution bounds that of any scores")
    needed = design.levels[level].votes
    if needed is None:
        raise ValueError(f"this {document.kind} has no sites of known size to compute a coverage for")
    ballot = _make_ballot(design, level)
    names = design.site_names or [str(i + 1) for i in range(ballot.n_sites)]
    if unknown := sorted(set(distortion) - set(names)):
        raise ValueError(f"distortion must name sites ({quoted(sorted(names))}), got {unknown[0]!r}")
    for site, h in distortion.items():
        if not callable(h):
            raise TypeError(f"distortion[{site!r}] must be a function, got {h!r:.80}")
    rows = [
        (kind.n, ranks, votes)
        for kind, ranks, votes in zip(ballot.sites, ballot.ranks, ballot.votes, strict=True)
        for _ in range(kind.count)
    ]
    alike = Counter(
        (*row, distortion.get(name, _identity)) for row, name in zip(rows, names, strict=True) if row[1]
    )
    shifted = Ballot(
        tuple(SiteKind(count=number, n=n) for (n, *_), number in alike.items()),
        tuple(ranks for _, ranks, _, _ in alike),
        tuple(votes for _, _, votes, _ in alike),
    )
    sizes, ranks, weights = shifted.arrays
    sent = OrderStatistics(sizes, ranks[:, 0] if ranks.shape[1] == 1 else ranks)
    return CoverageLaw.of_sites(
        Shifted(sent, [h for *_, h in alike]),
        shifted.counts,
        server_rank=needed,
        max_faulty=design.max_faulty,
        weights=weights,
    )


def _make_ballot(design: Design, level: int) -> Ballot:
    """Return the ranks that each kind of site sends at a level, with their votes."""
    message = design.message
    if isinstance(message, Ranks):
        return Ballot(design.kinds, message.levels[level].ranks, message.levels[level].all_votes())
    if isinstance(message, Cases):  # drawn at random, which are as good as a site that has no others
        votes = messages.of(message).votes(design, level) or ()
        sizes = [len(of_kind) for of_kind in votes]
        drawn = [kind.model_copy(update={"n": n}) for kind, n in zip(design.kinds, sizes, strict=True)]
        return Ballot(tuple(drawn), tuple(tuple(range(1, n + 1)) for n in sizes), votes)
    raise ValueError(f"plans of kind {message.kind!r} are not supported: sites send no scores of known rank")


def _identity(c: Floats) -> Floats:
    return c
