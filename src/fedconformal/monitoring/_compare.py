"""Comparison of sites by the few numbers that each of them sent.

Without any assumption odd sites cannot be distinguished from a heavy tail: the reports
of sites with equal sizes are independent draws from one distribution, which may be any
continuous one. A test whose false-alarm rate is a for every distribution of scores
finds one odd site with probability at most e * a, however odd it is. So something must
be fixed: reference scores, or the shape of the tail.

*Proof.* Let m sites follow P, and one of them, equally likely any, P' instead. If all
sites follow (1 - 1/m) P + P'/m, then with probability (1 - 1/m)^(m - 1) >= 1/e exactly
one of the m draws comes from the part P', and given that, the reports are distributed
as with one odd site at a random place. So the alarm rate, at most a, is at least the
power divided by e.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fedconformal import _util, messages
from fedconformal._text import count, quoted
from fedconformal._util import Floats, Ints
from fedconformal.documents import (
    Calibration,
    CalibrationView,
    Cases,
    CasesPayload,
    Check,
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
from fedconformal.monitoring._check import assess
from fedconformal.monitoring._coverage import Checked, holm, level_places, refuse_groups
from fedconformal.planning import Ballot
from fedconformal.protocol import is_private, validate_reports

_WEAK = 0.5  # a power below which finding nothing means little
_DRAWS = 20_000_000  # simulated reports, in all
_FEWEST = 4
_NODES, _MOST_KINDS = (
    1000,
    50,
)  # quantiles of a report, and kinds of sites, that a power is averaged over
_SUSPICIOUS = 3.0
_NORMAL_QUARTILE = (
    0.6744897501960817  # a robust standard deviation is a median distance over this
)


class ReferenceScores:
    """Scores of a typical site: the rank of each report among them has a known
    distribution.

    At most k of N reference scores lie below the l-th smallest of n others if and only
    if among the k + l smallest of all N + n at least l are of the n (negative
    hypergeometric). With ties both tails count them against a finding.
    """

    assumption: ClassVar[str] = "reference scores"
    assumed: ClassVar[str] = "the reference scores are distributed as a typical site's"
    position_heading: ClassVar[str] = "share of the reference below"
    position_format: ClassVar[str] = ".6g"

    def __init__(self, scores: ArrayLike) -> None:
        values = _util.plain_array(scores, dtype=float)
        if values.ndim != 1 or values.size == 0 or np.isnan(values).any():
            raise ValueError(
                "reference scores must be a flat array of numbers, at least one"
            )
        self._ordered = np.sort(values)

    def compare(self, values: Floats, n: Ints, l: Ints) -> tuple[Floats, Floats]:
        """Compare by the share of reference scores that are not above each report."""
        if values.size == 0:
            raise ValueError(
                "no site sent a finite report: there is nothing to compare"
            )
        positions, chances = self._single(values, n, l)
        return positions, np.array(holm(chances.tolist()))

    def _single(self, values: Floats, n: Ints, l: Ints) -> tuple[Floats, Floats]:
        from scipy import stats  # which takes long to import, and no site needs

        below, at_most = (
            np.searchsorted(self._ordered, values, side=side)
            for side in ("left", "right")
        )
        total = self._ordered.size + n
        low = stats.hypergeom.sf(l - 1, total, n, at_most + l)
        high = np.where(
            below > 0,
            stats.hypergeom.cdf(l - 1, total, n, np.maximum(below - 1, 0) + l),
            1.0,
        )
        return at_most / self._ordered.size, np.minimum(1.0, 2 * np.minimum(low, high))

    def power(self, n: Ints, l: Ints, false_alarm: float, factor: float = 2.0) -> float:
        """Estimate the power to name a site whose scores are those of the reference,
        times the factor.

        Noisy in two ways: the quantiles of a typical site are those of the reference
        sample, and an odd site counts as named only if Holm's first step names it.
        """
        kinds, counts = np.unique(np.stack([n, l]), axis=1, return_counts=True)
        nodes = (np.arange(_NODES) + 0.5) / _NODES
        shares = []
        for size, rank in kinds.T.tolist()[:_MOST_KINDS]:
            quantiles = special.betaincinv(rank, size - rank + 1, nodes)
            values = factor * np.quantile(
                self._ordered, quantiles, method="inverted_cdf"
            )
            chances = self._single(
                values, np.full(_NODES, size), np.full(_NODES, rank)
            )[1]
            shares.append(np.mean(chances <= false_alarm / n.size))
        return float(np.average(shares, weights=counts[:_MOST_KINDS]))

    def suspicion(self, values: Floats, n: Ints, l: Ints) -> str | None:
        """Return a warning if the sites together lie far above the reference.

        Scores of cases that a model was trained on are too small. A heuristic: the mean
        distance of the sites' positions from their expectation exceeds 3 standard
        errors about once in 700 times by chance.
        """
        expected = l / (n + 1)
        positions = (
            np.searchsorted(self._ordered, values, side="left") / self._ordered.size
        )
        middle = float(expected.mean())
        variance = (expected * (1 - expected) / (n + 2)).sum() / n.size**2
        error = np.sqrt(variance + middle * (1 - middle) / self._ordered.size)
        away = float((positions - expected).mean() / error)
        if away <= _SUSPICIOUS:
            return None
        return (
            f"Together the sites lie {away:.1f} standard errors above the reference."
            " This happens if the model was trained on the reference cases, whose"
            " scores are then too small: use cases that it has not seen."
        )


class EachOther:
    """The other sites: distances from their median, compared with simulated
    federations.

    With an exponential tail F^{-1}(u) = a - b log(1 - u) a report is a + b E, and E,
    the l-th smallest of n exponential variables, has a known distribution. The
    distances, in robust standard deviations, do not depend on a and b, so the
    simulation is exact, and the p-value (1 + number of simulated distances that are as
    large) / (1 + number of simulations) is valid.
    """

    assumption: ClassVar[str] = "exponential tail"
    assumed: ClassVar[str] = "around the threshold the scores have an exponential tail"
    position_heading: ClassVar[str] = "robust sd from the middle"
    position_format: ClassVar[str] = "+.1f"

    def __init__(self, rng: int | np.random.Generator | None = 0) -> None:
        self._seed = (
            rng
            if isinstance(rng, int)
            else int(np.random.default_rng(rng).integers(2**63))
        )

    def compare(self, values: Floats, n: Ints, l: Ints) -> tuple[Floats, Floats]:
        """Compare by the distance of each report from the median of all."""
        if values.size < _FEWEST:
            raise ValueError(
                f"without a reference at least {_FEWEST} sites with a finite report are"
                f" needed, got {values.size}"
            )
        if not np.isfinite(values).all() or np.unique(values).size < values.size:
            raise ValueError(
                "reports that are equal, or infinite, have no exponential tail: give"
                " reference scores"
            )
        distances = _distances(values, n, l)
        return distances, self._p_values(distances, n, l)

    def _p_values(self, distances: Floats, n: Ints, l: Ints) -> Floats:
        largest = _simulate_largest(tuple(n.tolist()), tuple(l.tolist()), self._seed)
        larger = largest.size - np.searchsorted(largest, np.abs(distances), side="left")
        return np.asarray((1 + larger) / (1 + largest.size))

    def power(self, n: Ints, l: Ints, false_alarm: float, factor: float = 2.0) -> float:
        """Estimate the power to name a site with larger scores: up to 2,000 simulated
        federations.
        """
        m = n.size
        if m < _FEWEST:
            return 0.0
        rng = np.random.default_rng([self._seed, 1])
        draws = np.arange(np.clip(2_000_000 // m, 99, 2_000))
        values = -np.log1p(-rng.beta(l, n - l + 1, size=(draws.size, m)))
        odd = rng.integers(m, size=draws.size)
        values[draws, odd] *= factor
        return float(
            np.mean(
                self._p_values(_distances(values, n, l)[draws, odd], n, l)
                <= false_alarm
            )
        )


Yardstick = ReferenceScores | EachOther
"""Baseline that reports are compared with, and the assumption that this takes."""


def _count_draws(m: int) -> int:
    """Return the number of simulated federations of m sites."""
    return int(np.clip(_DRAWS // max(m, 1), 999, 9999))


@lru_cache(maxsize=16)
def _simulate_largest(
    sizes: tuple[int, ...], ranks: tuple[int, ...], seed: int
) -> Floats:
    """Simulate federations of sites that are alike; return their largest distances,
    sorted.
    """
    n, l = np.array(sizes), np.array(ranks)
    draws = _count_draws(n.size)
    rng = np.random.default_rng(seed)
    largest = np.empty(draws)
    step = max(1, 2_000_000 // n.size)
    for start in range(0, draws, step):
        size = min(step, draws - start)
        exponential = -np.log1p(-rng.beta(l, n - l + 1, size=(size, n.size)))
        largest[start : start + size] = np.abs(_distances(exponential, n, l)).max(
            axis=1
        )
    return np.sort(largest)


def _distances(values: Floats, n: Ints, l: Ints) -> Floats:
    """(value - median) / (its spread x the median of such ratios): the same for a + b *
    values.

    The spread is the standard deviation of the l-th smallest of n exponential
    variables.
    """
    spread = np.sqrt(special.polygamma(1, n - l + 1) - special.polygamma(1, n + 1))
    away = (values - np.median(values, axis=-1, keepdims=True)) / spread
    unit = np.median(np.abs(away), axis=-1, keepdims=True)
    return np.asarray(away / unit * _NORMAL_QUARTILE)


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
        The share of reference scores below its report, or, without a reference, how
        many robust standard deviations it lies above the middle of the sites.
    p_value : float
        Adjusted for looking at all sites.
    stands_out : bool
        True if that is at most the false-alarm rate.
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

    If all sites are alike and the assumption holds, a site is named with probability at
    most ``false_alarm``.

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
        Estimated probability that one site with doubled scores would be named, if the
        others were alike.
    suspicion : str or None
        Evidence against the reference itself.
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
        """Of the hypothesis that all sites are alike (and, with a reference, like
        it).
        """
        return min(site.p_value for site in self.sites)

    @property
    def ordered(self) -> tuple[SiteComparison, ...]:
        """All sites, the most surprising first."""
        return tuple(
            sorted(self.sites, key=lambda site: (site.p_value, -abs(site.position)))
        )

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
        rule = (
            f"(chance of a false alarm: {self.false_alarm:g}; assumed:"
            f" {self.yardstick.assumed})"
        )
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
            Probability of finding a site with doubled scores, as estimated from the
            reference.
        """
        about = (
            f"{self.power:.2f}"
            if 0.005 <= self.power < 0.995
            else ("0" if self.power < 0.5 else "1")
        )
        weak = ", so finding nothing means little" if self.power < _WEAK else ""
        sites = count(len(self.sites), "site")
        return (
            f"With {sites}, the estimated power to find one with doubled scores is"
            f" {about}{weak}."
        )


def compare(
    document: Plan | Checked,
    answers: Iterable[Any],
    *,
    group: Any = None,
    reference: ArrayLike | None = None,
    confidence_level: float | None = None,
    false_alarm: float = 0.05,
    rng: int | np.random.Generator | None = 0,
) -> Any:
    """Find sites that stand out by their reports, or that fall short by their checks of
    a calibration.

    Of a plan and its reports, sites are found whose report does not fit the others; of
    several numbers per site the middle one is looked at, and sites that the plan does
    not ask do not occur. Of a calibration and checks of it, sites and groups of cases
    are found whose coverage is below the level.

    Parameters
    ----------
    document : Plan or Calibration
        The plan that was answered; or the calibration that was checked, or one group of
        it if that is what the sites checked: ``calibration["child"]``.
    answers : iterable of Report or of Check
        Reports as for `calibrate`, of which those that do not answer the plan are left
        out; or checks, one for each site.
    group : str or int, optional
        For a plan with groups, the one whose numbers are compared.
    reference : array-like, optional
        With reports, scores of a typical site, such as the coordinator's own: the test
        is then exact whatever their distribution. Without it the sites are compared
        with each other, on the assumption that above some point the scores have an
        exponential tail, of any position and scale.
    confidence_level : float, optional
        Level of the plan, if it has several; the first by default. Checks are compared
        at all levels.
    false_alarm : float
        The probability with which any site may be named if all are alike, or if none
        falls short.
    rng : None, int or numpy Generator
        Random numbers of the simulation behind the comparison of reports without a
        reference.

    Returns
    -------
    Comparison or Assessment
        Of reports: ``sites`` with position and p-value of each, those that stand out
        (``odd``), ``power``, and a ``sentence()``. Of checks: ``rows`` with ``site``,
        ``group``, ``check`` (n, covered, interval and p-value of one level) and
        ``adjusted_p_value`` (Holm), those that fall ``short``, and a ``sentence()``.
        Each interval holds with probability 1 - ``false_alarm``; with groups, all of
        them at once (Bonferroni). Checks are as true as the counts that the sites
        report.

    Raises
    ------
    ValueError
        If the plan is private or asks for curves, has groups and none was chosen, there
        is too little to compare, or checks do not fit the calibration.

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_points={"A": 100, "B": 100, "C": 100})
    >>> rng = np.random.default_rng(0)
    >>> reports = [
    ...     fc.report(plan, rng.exponential(size=100), site=site) for site in "ABC"
    ... ]
    >>> own = rng.exponential(size=1000)
    >>> [site.site for site in fc.monitoring.compare(plan, reports, reference=own).odd]
    []
    >>> calibration = fc.calibrate(plan, reports)
    >>> new = {"A": rng.exponential(size=100), "B": 2 * rng.exponential(size=100)}
    >>> checks = [
    ...     fc.monitoring.answer(calibration, new[site], site=site) for site in new
    ... ]
    >>> [row.site for row in fc.monitoring.compare(calibration, checks).short]
    ['B']
    """
    alarm = _util.fraction("false_alarm", false_alarm)
    if isinstance(document, Plan):
        stick = EachOther(rng) if reference is None else ReferenceScores(reference)
        return _compare_reports(
            document, answers, group, stick, confidence_level, float(alarm)
        )
    if group is not None or reference is not None or confidence_level is not None:
        raise ValueError(
            "group, reference and confidence_level go with a plan and its reports, got"
            " a calibration"
        )
    checks = list(answers)
    if not isinstance(document, Calibration | CalibrationView):
        raise TypeError(
            f"document must be a Plan or a Calibration, got {type(document).__name__}"
        )
    if wrong := [each for each in checks if not isinstance(each, Check)]:
        raise TypeError(
            "answers must be checks of this calibration, got"
            f" {type(wrong[0]).__name__}: to compare reports, give the plan"
        )
    return assess(document, checks, 1 - alarm)


def _compare_reports(
    plan: Plan,
    reports: Iterable[Report],
    group: Any,
    stick: Yardstick,
    confidence_level: float | None,
    alarm: float,
) -> Comparison:
    """Compare the middle score that each site sent with the others, or with a
    reference.
    """
    if is_private(plan):
        raise ValueError(
            "private reports cannot be compared: their noise hides what would be"
            " looked for"
        )
    if group is None:
        refuse_groups(plan)
    elif not plan.is_grouped:
        raise ValueError(
            f"group must be left out: the plan has no groups, got {group!r}"
        )
    chosen = (
        None if group is None else _util.choice("group", label_text(group), plan.groups)
    )
    level = level_places(plan, confidence_level)[0]
    intake = validate_reports(plan, reports)
    answers = intake.answers[chosen]
    sent = {
        site: _middle_score(answer.payload, answer.n, level)
        for site, answer in answers.items()
    }
    numbers = {site: number for site, number in sent.items() if number is not None}
    able = {
        site: (value, n, rank)
        for site, (value, n, rank) in numbers.items()
        if rank <= n
    }
    least = 2 / (
        1 + _count_draws(len(able))
    )  # twice the smallest p-value that a simulation can give
    if isinstance(stick, EachOther) and alarm < least:
        raise ValueError(
            f"false_alarm must be at least {least:g} without a reference, the"
            f" simulation resolves no less; got {alarm:g}"
        )
    values = np.array([value for value, _, _ in able.values()], dtype=float)
    sizes = np.array([n for _, n, _ in able.values()], dtype=np.int64)
    ranks = np.array([rank for _, _, rank in able.values()], dtype=np.int64)
    positions, chances = stick.compare(values, sizes, ranks)
    rows = zip(
        able,
        sizes.tolist(),
        values.tolist(),
        positions.tolist(),
        chances.tolist(),
        strict=True,
    )
    return Comparison(
        stick,
        alarm,
        tuple(SiteComparison(*row, stands_out=row[-1] <= alarm) for row in rows),
        tuple(site for site in numbers if site not in able),
        (*intake.refused, *intake.refused_in[chosen]),
        stick.power(sizes, ranks, alarm),
        (
            stick.suspicion(values, sizes, ranks)
            if isinstance(stick, ReferenceScores)
            else None
        ),
    )


def _middle_score(
    payload: Payload, n: int, level: int
) -> tuple[float, int, int] | None:
    """Return the middle score of those sent at a level, and n and l if it is the l-th
    smallest of n.

    None where a site is not asked at this level. Any one of several scores would
    suffice for a test.
    """
    if isinstance(payload, RanksPayload):
        sent = payload.levels[level]
        place = len(sent.ranks) // 2
        return (sent.values[place], n, sent.ranks[place]) if sent.ranks else None
    if isinstance(payload, CasesPayload):
        place = len(payload.values) // 2
        return (
            payload.values[place],
            len(payload.values),
            place + 1,
        )  # as good as a site without other cases
    raise ValueError(
        f"reports of kind {payload.kind!r} cannot be compared: they hold no score of"
        " known rank"
    )


# -- distribution of the coverage of a plan if named sites differ from the new cases (se


def shifted_law(
    document: Plan | PlanView | Checked,
    distortion: Mapping[str, Distortion],
    *,
    confidence_level: float | None = None,
) -> CoverageLaw:
    """Return the exact distribution of the coverage if some sites' scores are
    distributed differently.

    With F_j the distribution function of the scores of site j and F that of the new
    cases', the distortion of site j is ``h(c) = F_j(F^{-1}(c))``: the share of its
    scores below the c-quantile of the new cases'. `CoverageLaw` takes the same
    distortions; this applies them to a whole plan, whichever scores sites send.

    Parameters
    ----------
    document : Plan or Calibration
        A plan with known sizes, or a calibration (then for the sites that answered); of
        a document with groups, one group: ``plan["child"]``.
    distortion : mapping from str to callable
        Distortions by site; each takes arrays and grows from h(0) = 0 to h(1) = 1.
        Sites that are not named are like the new cases. Sites without names are called
        by their numbers, "1" first. Sites that share a distortion should share the same
        object, which is faster.
    confidence_level : float, optional
        Level of the plan, if it has several; the first by default.

    Returns
    -------
    CoverageLaw
        Exact; with ``max_faulty`` a lower bound.

    Raises
    ------
    ValueError
        If a name is no site of the plan, or the plan is open, private, has groups or
        asks for curves.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_points={"A": 100, "B": 100, "C": 100}, criterion="marginal")
    >>> law = fc.monitoring.shifted_law(plan, {"A": lambda c: c**2})
    >>> round(plan.law.mean(), 3), round(law.mean(), 3)
    (0.902, 0.916)
    """
    refuse_groups(document)
    level, design = (
        level_places(document, confidence_level)[0],
        document.selected_designs[0],
    )
    if messages.of(design.message).epsilon(design) is not None:
        raise ValueError(
            "private plans are not supported: their distribution bounds that of any"
            " scores"
        )
    needed = design.levels[level].votes
    if needed is None:
        raise ValueError(
            f"this {document.kind} has no sites of known size to compute a coverage for"
        )
    rows = _list_rows(design, level)
    names = design.site_names or [str(i + 1) for i in range(len(rows))]
    if unknown := sorted(set(distortion) - set(names)):
        raise ValueError(
            f"distortion must name sites ({quoted(sorted(names))}), got {unknown[0]!r}"
        )
    for site, h in distortion.items():
        if not callable(h):
            raise TypeError(f"distortion[{site!r}] must be a function, got {h!r:.80}")
    alike = Counter(
        (*row, distortion.get(name, _identity))
        for row, name in zip(rows, names, strict=True)
        if row[1]
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


def _list_rows(
    design: Design, level: int
) -> list[tuple[int, tuple[int, ...], tuple[int, ...]]]:
    """Return the size of each site, the ranks that it sends at a level, and their
    votes.
    """
    message, votes = design.message, messages.votes(design, level)
    if isinstance(message, Ranks):
        sizes, ranks = [kind.n for kind in design.kinds], message.levels[level].ranks
    elif isinstance(
        message, Cases
    ):  # drawn at random, which are as good as a site that has no others
        sizes = [len(own) for own in votes]
        ranks = tuple(tuple(range(1, n + 1)) for n in sizes)
    else:
        kind = message.kind
        raise ValueError(
            f"plans of kind {kind!r} are not supported: sites send no scores of known"
            " rank"
        )
    counts = [kind.count for kind in design.kinds]
    rows = zip(counts, zip(sizes, ranks, votes, strict=True), strict=True)
    return [row for number, row in rows for _ in range(number)]


def _identity(c: Floats) -> Floats:
    return c
