"""Distribution of the coverage when sites vote with ranked scores, computed from its
definition.

The threshold is the smallest reported number at which the votes of all numbers up to it
reach those needed, so P(coverage <= c) = P(votes of the numbers below the c-quantile >=
votes needed). A site's number of rank l lies below with probability I_c(l, n - l + 1),
and votes add up over sites by plain convolution. The mean coverage is an integral by
Gauss' rule on panels that are halved until they agree. Faulty sites cast all their
votes; which sites these are is taken at its worst for each coverage. What is too close
to the level for floating point is counted in whole numbers, by the same convolution.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from fedconformal._util import Floats
from fedconformal.audit._base import NotVerifiableError, Work, decide

MEAN_ERROR = 2e-13
"""Largest error of a mean coverage in floating point."""

_TAIL_ERROR = 1e-10  # of a probability, relative
_MOST_CHOICES = 1000  # of faulty sites, up to which all are tried
_FOURIER_ERROR = 1e-12  # of a probability, absolute
_MOST_TERMS = 2**20  # of a Fourier sum, which all are in memory
# sites of each kind on average, from which their votes are added by a Fourier sum
_MANY_ALIKE = 20
_MOST_COUNTING = 10**9  # operations with whole numbers
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_AT_ONCE = 2**17  # numbers, which fit into a processor's cache
_BETA, _CALL = 100, 5000  # operations of an incomplete beta function, and of any step


class Voters(NamedTuple):
    """Sites that are alike, and the ranks and votes of the numbers that each of them
    sends.
    """

    number: int
    n: int
    ranks: tuple[int, ...]
    votes: tuple[int, ...]

    @property
    def total(self) -> int:
        """Votes of one site."""
        return sum(self.votes)

    @property
    def casts(self) -> tuple[int, ...]:
        """Votes that one site casts when none, one, two, ... of its numbers lie
        below.
        """
        return tuple(accumulate(self.votes, initial=0))

    @property
    def finite(self) -> "Voters":
        """The same without ranks above n, which mean +inf."""
        kept = sum(rank <= self.n for rank in self.ranks)
        return self._replace(ranks=self.ranks[:kept], votes=self.votes[:kept])


class _Case(NamedTuple):
    """Honest sites with finite numbers, and the votes that they must reach.

    ``left_out`` sites of one vote each are faulty: at each coverage those least likely
    to lie below it.
    """

    sites: tuple[Voters, ...]
    needed: int
    left_out: int = 0

    def add_up(self, value: Callable[[Voters], int]) -> int:
        """Add up a value of all sites."""
        return sum(site.number * value(site) for site in self.sites)

    @property
    def has_many_alike(self) -> bool:
        """True if votes of single sites would take long to add up, one site after the
        other.
        """
        n_sites = self.add_up(lambda site: 1)
        return not self.left_out and n_sites > max(500, _MANY_ALIKE * len(self.sites))

    @property
    def certain(self) -> int | None:
        """The coverage where it is not random: 0 if no votes are needed, 1 if they
        cannot be reached.
        """
        most = self.add_up(lambda site: site.total) - self.left_out
        return 0 if self.needed <= 0 else 1 if self.needed > most else None


def check_mean(
    sites: Sequence[Voters], needed: int, max_faulty: int, level: Fraction, work: Work
) -> tuple[bool, float]:
    """Check that the mean coverage is at least a level.

    Parameters
    ----------
    sites : sequence of Voters
        The sites that answered.
    needed : int
        Votes that the threshold needs.
    max_faulty : int
        Number of sites that may send anything.
    level : Fraction
        The confidence level.
    work : Work
        Counter of operations.

    Returns
    -------
    holds : bool
    mean : float
        Mean coverage if faulty sites do their worst.

    Raises
    ------
    NotVerifiableError
        If the sites are too many or too large.
    """
    cases = list(_list_cases(sites, needed, max_faulty))
    mean: Fraction | float | None = _simple_mean(cases[0]) if len(cases) == 1 else None
    if mean is None:
        mean = _integrate_mean(cases, work)
        if abs(mean - level) <= MEAN_ERROR:
            mean = _count_mean(cases, work)
    return mean >= level, float(mean)


def check_missed(
    sites: Sequence[Voters],
    needed: int,
    max_faulty: int,
    level: Fraction,
    delta: Fraction,
    work: Work,
) -> tuple[bool, float]:
    """Check that the coverage is at most a level with a probability of at most delta.

    Parameters
    ----------
    sites, needed, max_faulty, level, work
        As for `check_mean`.
    delta : Fraction
        The largest probability allowed.

    Returns
    -------
    holds : bool
    missed : float
        The probability if faulty sites do their worst.

    Raises
    ------
    NotVerifiableError
        If the sites are too many or too large.
    """
    cases = list(_list_cases(sites, needed, max_faulty))
    missed = float(_cdf(cases, work, np.array([float(level)]))[0])
    error = _FOURIER_ERROR if any(case.has_many_alike for case in cases) else 0.0
    if abs(missed - float(delta)) <= max(_TAIL_ERROR * float(delta), error):
        return max(_count_missed(case, level, work) for case in cases) <= delta, missed
    return missed <= delta, missed


# -- faulty sites ----------------------------------------------------------------------


def _list_cases(
    sites: Sequence[Voters], needed: int, max_faulty: int
) -> Iterator[_Case]:
    """List the honest sites and the votes they need, for each choice of faulty ones.

    Where there are too many choices, all sites are counted and the votes needed are
    lowered by the most that faulty sites can have: no choice is worse.
    """
    room = sum(site.number for site in sites)
    max_faulty = min(max_faulty, room)
    if all(site.votes == (1,) for site in sites):
        infinite = sum(site.number for site in sites if site.ranks[0] > site.n)
        yield _simplify(sites, needed - max_faulty, max(max_faulty - infinite, 0))
        return
    choices: list[tuple[tuple[int, ...], int]] = [((), max_faulty)]
    for site in sites:
        room -= site.number
        choices = [
            ((*outs, out), rest - out)
            for outs, rest in choices
            for out in range(max(0, rest - room), min(rest, site.number) + 1)
        ]
        if len(choices) > _MOST_CHOICES:
            yield _simplify(sites, needed - _leave_largest(sites, max_faulty)[1])
            return
    for outs, _ in choices:
        pairs = list(zip(sites, outs, strict=True))
        honest = [site._replace(number=site.number - out) for site, out in pairs]
        yield _simplify(honest, needed - sum(out * site.total for site, out in pairs))


def _leave_largest(
    sites: Sequence[Voters], max_faulty: int
) -> tuple[list[Voters], int]:
    """Return the other sites, and the votes of those that have most; of equal ones,
    those never below.
    """
    honest, votes = [], 0
    for site in sorted(sites, key=lambda site: (-site.total, site.finite.total)):
        out = min(site.number, max_faulty)
        max_faulty, votes = max_faulty - out, votes + out * site.total
        honest.append(site._replace(number=site.number - out))
    return honest, votes


def _simplify(sites: Sequence[Voters], needed: int, left_out: int = 0) -> _Case:
    """Leave out infinite numbers, put alike sites together, and count votes in their
    largest unit.
    """
    counts = Counter[tuple[Any, ...]]()
    for site in sites:
        counts[site.finite[1:]] += site.number
    counts = Counter(
        {kind: count for kind, count in counts.items() if count and kind[1]}
    )
    unit = math.gcd(*(vote for _, _, votes in counts for vote in votes)) or 1
    alike = [
        Voters(count, n, ranks, tuple(vote // unit for vote in votes))
        for (n, ranks, votes), count in counts.items()
    ]
    if len(alike) == 1 and left_out:
        alike, left_out = (
            [alike[0]._replace(number=max(alike[0].number - left_out, 0))],
            0,
        )
    return _Case(tuple(alike), -(-needed // unit), left_out)


# -- bounds ----------------------------------------------------------------------------


def bound_coverage(
    sites: Sequence[Voters],
    needed: int,
    max_faulty: int,
    level: Fraction,
    delta: Fraction,
    work: Work,
) -> tuple[bool | None, str]:
    """Bound the mean coverage, or with a delta the probability to miss the level, for
    sites of any number.

    Votes are independent between sites, so their sum V at a coverage c has the mean and
    the variance that add up over sites, and P(V >= k) is bounded from both sides by the
    inequalities of Cantelli and of Bernstein. If faulty sites are those with most
    votes, the coverage is at least the worst one. It is at most that if all sites are
    honest and the votes needed are lowered by as many. The distribution function rises,
    so that sums over a grid bound its integral.

    Returns
    -------
    holds : bool or None
        None if the bounds do not decide.
    detail : str
    """
    honest, lost = _leave_largest(sites, max_faulty)
    worst, choice = _simplify(sites, needed - lost), _simplify(honest, needed - lost)

    def bound(c: Floats) -> tuple[Floats, Floats]:
        return _bound_tail(choice, work, c)[0], _bound_tail(worst, work, c)[1]

    if delta:
        (low,), (high,) = bound(np.array([float(level)]))
        holds = decide(1 - high, 1 - low, 1 - delta, slack=1e-6 * float(delta))
        return (
            holds,
            (
                f"missed with probability {high if holds else low:.6g} at"
                f" {'most' if holds else 'least'}"
            ),
        )
    c, lows, highs = np.array([0.0, 1.0]), np.zeros(2), np.ones(2)
    for _ in range(4):
        inside = c[(lows < 0.99) & (highs > 0.01)]
        first, last = np.searchsorted(
            c, [inside.min(initial=1.0), inside.max(initial=0.0)]
        )
        new = np.linspace(c[max(first - 1, 0)], c[min(last + 1, c.size - 1)], 34)[1:-1]
        low, high = bound(new)
        order = np.argsort(c := np.append(c, new))
        c = c[order]
        lows = np.maximum.accumulate(np.append(lows, low)[order])
        highs = np.minimum.accumulate(np.append(highs, high)[order][::-1])[::-1]
    least, most = 1 - float(np.diff(c) @ highs[1:]), 1 - float(np.diff(c) @ lows[:-1])
    holds = decide(least, most, level)
    return holds, f"at least {least:.6f}" if holds else f"at most {most:.6f}"


def _bound_tail(case: _Case, work: Work, c: Floats) -> tuple[Floats, Floats]:
    """Return a lower and an upper bound of P(votes below c >= votes needed) for each
    c.
    """
    if case.certain is not None:
        return np.full(c.size, 1.0 - case.certain), np.full(c.size, 1.0 - case.certain)
    work.spend(
        sum(len(site.ranks) + 1 for site in case.sites) * (_CALL + _BETA * c.size)
    )
    mean, variance, most = (
        np.zeros(c.size),
        np.zeros(c.size),
        max(site.total for site in case.sites),
    )
    for site in case.sites:
        casts, masses = np.array(site.casts, dtype=float), _find_masses(site, c)
        own = casts @ masses
        mean += site.number * own
        variance += site.number * ((casts[:, None] - own) ** 2 * masses).sum(axis=0)

    def bound(distance: Floats) -> Floats:
        t = np.maximum(distance, 0.0)
        cantelli = variance / np.maximum(variance + t**2, 1e-300)
        bernstein = np.exp(-(t**2) / np.maximum(2 * (variance + most * t / 3), 1e-300))
        return np.where(distance > 0, np.minimum(cantelli, bernstein), 1.0)

    return 1 - bound(mean - (case.needed - 1)), bound(case.needed - mean)


# -- floating point --------------------------------------------------------------------


def _integrate_mean(cases: Sequence[_Case], work: Work) -> float:
    """Return the mean coverage: 1 less the integral of the cdf."""
    cdf = partial(_cdf, cases, work)
    low, high = _find_window(cdf)
    panels = np.array(list(pairwise([low, *_find_steps(cases, low, high), high])))
    coarse, missed = _apply_rule(cdf, panels), 1.0 - high
    while panels.size:
        middle = panels.mean(axis=1)
        halves = np.stack([panels[:, 0], middle, middle, panels[:, 1]], axis=1).reshape(
            -1, 2
        )
        fine = _apply_rule(cdf, halves).reshape(-1, 2)
        settled = (np.abs(fine.sum(axis=1) - coarse) <= 1e-15) | (
            panels[:, 1] - panels[:, 0] < 1e-12
        )
        missed += float(fine[settled].sum())
        panels, coarse = (
            halves.reshape(-1, 2, 2)[~settled].reshape(-1, 2),
            fine[~settled].ravel(),
        )
    return 1.0 - missed


def _apply_rule(cdf: Callable[[Floats], Floats], panels: Floats) -> Floats:
    """Integrate over each panel by Gauss' rule."""
    middle, half = panels.mean(axis=1)[:, None], np.diff(panels, axis=1) / 2
    values = cdf((middle + half * _NODES).ravel()).reshape(len(panels), -1)
    return np.asarray((values * half) @ _WEIGHTS)


def _find_window(cdf: Callable[[Floats], Floats]) -> tuple[float, float]:
    """Find the coverages between which the cdf rises from 0 to 1."""
    low, high, narrower = 0.0, 1.0, True
    while narrower:
        grid = np.linspace(low, high, 18)[1:-1]
        values = cdf(grid)
        first = float(np.max(grid[values <= 1e-17], initial=low))
        last = float(np.min(grid[values >= 1 - 3e-14], initial=high))
        narrower = last - first < 0.5 * (high - low)
        low, high = first, last
    return low, high


def _find_steps(cases: Sequence[_Case], low: float, high: float) -> list[float]:
    """Find coverages round which the numbers of a large site make the cdf rise
    steeply.
    """
    places: list[tuple[float, float]] = []
    for n, rank in {
        (site.n, rank) for case in cases for site in case.sites for rank in site.ranks
    }:
        share = rank / (n + 1)
        spread = math.sqrt(share * (1 - share) / (n + 2))
        if spread < (high - low) / 20:
            places += [(share + z * spread, spread) for z in (-9, -3, 0, 3, 9)]
    steps, last = [], low
    for place, spread in sorted(places):
        if last + spread / 2 < place < high:
            steps.append(place)
            last = place
    return steps


def _cdf(cases: Sequence[_Case], work: Work, c: Floats) -> Floats:
    """Return P(coverage <= c) for each c, of the case that is worst there."""
    found = np.zeros(c.size)
    for case in cases:
        if case.certain is not None:
            found = np.maximum(found, 1 - case.certain)
            continue
        step = max(1, _AT_ONCE // (case.needed + 1))
        for i in range(0, c.size, step):
            some = slice(i, i + step)
            found[some] = np.maximum(found[some], _reach_votes(case, work, c[some]))
    return found


def _reach_votes(case: _Case, work: Work, c: Floats) -> Floats:
    """Return P(votes below c >= votes needed) for each c."""
    if (
        len(case.sites) == 1 and len(case.sites[0].ranks) == 1
    ):  # an incomplete beta of an incomplete beta
        m, n, (rank,), (vote,) = case.sites[0]
        work.spend(_CALL + 2 * _BETA * c.size)
        k = -(-case.needed // vote)
        return np.asarray(
            special.betainc(k, m - k + 1, special.betainc(rank, n - rank + 1, c))
        )
    if case.has_many_alike:
        return _reach_by_transform(case, work, c)
    length = min(case.needed, case.add_up(lambda site: site.total)) + 1
    work.spend(
        case.add_up(
            lambda site: (len(site.ranks) + 1) * (_CALL + (_BETA + length) * c.size)
        )
    )
    rows = [(site, _find_masses(site, c)) for site in case.sites]
    votes: list[tuple[Sequence[int], Floats]]
    if case.left_out:
        below = [masses[1] for site, masses in rows for _ in range(site.number)]
        votes = [
            ((0, 1), np.stack([1 - p, p]))
            for p in np.sort(below, axis=0)[case.left_out :]
        ]
    else:
        votes = [
            (site.casts, masses) for site, masses in rows for _ in range(site.number)
        ]
    return np.asarray(_convolve(votes, case.needed, np.ones((1, c.size))))


def _reach_by_transform(case: _Case, work: Work, c: Floats) -> Floats:
    """Return P(votes below c >= votes needed) for each c, to `_FOURIER_ERROR`, for
    sites of any number.

    Where the bounds leave it open it is a Fourier sum over the angles of 2 pi t / L, L
    the largest number of votes plus 1. The characteristic function of votes that differ
    by one with probabilities p and q has at most the modulus exp(-2 p q sin^2(angle /
    2)), and sin(x) >= 2 x / pi: where that is small the sum ends.
    """
    low, high = _bound_tail(case, work, c)
    found, length = (
        np.where(low > 0.5, 1.0, 0.0),
        case.add_up(lambda site: site.total) + 1,
    )
    for i in np.flatnonzero((low < 1 - 1e-16) & (high > 1e-18)):
        rows = [(site, _find_masses(site, c[i : i + 1])[:, 0]) for site in case.sites]
        decay = sum(
            2 * site.number * masses[place] * masses[place + 1]
            for site, masses in rows
            for place, vote in enumerate(site.votes)
            if vote == 1
        )
        furthest = math.sqrt((40 + math.log(length)) / decay) if decay else math.inf
        last = min(length // 2, math.ceil(length * min(furthest, 1.0) / 2))
        if last > _MOST_TERMS:
            raise NotVerifiableError("too large")
        work.spend(_CALL + 60 * last * sum(len(site.casts) for site in case.sites))
        found[i] = _sum_terms(rows, case.needed, length, last)
    return found


def _sum_terms(
    rows: Sequence[tuple[Voters, Floats]], needed: int, length: int, last: int
) -> float:
    """Return P(votes >= needed) as a Fourier sum of the terms up to t = last and their
    conjugates.

    With phi the characteristic function, it is the sum over t = 0, ..., L - 1 of phi
    (exp(-i k angle) - 1) / (1 - exp(-i angle)) / L. Sites add up in the logarithm of
    phi, whose modulus near 1 is found without cancellation.
    """
    half = np.pi * np.arange(1, last + 1) / length  # of the angle
    log_modulus, phase = np.zeros(last), half.copy()
    for site, masses in rows:
        real, imaginary = np.zeros(last), np.zeros(last)
        for cast, mass in zip(site.casts, masses, strict=True):
            real -= 2 * mass * np.sin(cast * half) ** 2
            imaginary += mass * np.sin(2 * cast * half)
        log_modulus += (
            site.number
            / 2
            * np.log1p(np.maximum(2 * real + real**2 + imaginary**2, -1 + 1e-300))
        )
        phase += site.number * np.arctan2(imaginary, 1 + real)
    terms = (
        np.exp(log_modulus)
        * (np.sin(phase - 2 * needed * half) - np.sin(phase))
        / np.sin(half)
    )
    if 2 * last == length:
        terms[-1] /= 2  # its own conjugate
    return float(np.clip((length - needed + terms.sum()) / length, 0.0, 1.0))


def _find_masses(site: Voters, c: Floats) -> Floats:
    """Return P(none, one, two, ... of a site's numbers lie below c): a row each."""
    l = np.array(site.ranks)[:, None]
    below = [
        np.ones((1, c.size)),
        special.betainc(l, site.n - l + 1, c),
        np.zeros((1, c.size)),
    ]
    return np.asarray(np.maximum(-np.diff(np.concatenate(below), axis=0), 0.0))


def _convolve(sites: Iterable[tuple[Sequence[int], Any]], needed: int, law: Any) -> Any:
    """Return the mass of all sums of votes that reach those needed, from 1 in ``law``
    for no votes.

    Parameters
    ----------
    sites : iterable of (votes, masses)
        For each site the votes that it may cast, and how likely each is.
    needed : int
        Votes needed.
    law : array
        Ones of the type of the masses, in one row.

    Returns
    -------
    array or number
    """
    for casts, masses in sites:
        longer = np.zeros(
            (min(needed, len(law) - 1 + casts[-1]) + 1, *law.shape[1:]), dtype=law.dtype
        )
        for votes, mass in zip(casts, masses, strict=True):
            inside = min(len(law), max(needed + 1 - votes, 0))
            longer[votes : votes + inside] += mass * law[:inside]
            if inside < len(law):
                longer[needed] += mass * law[inside:].sum(axis=0)
        law = longer
    return law[needed]


# -- whole numbers ---------------------------------------------------------------------


def _simple_mean(case: _Case) -> Fraction | None:
    """Return the mean where it is a simple fraction."""
    if case.certain is not None or case.left_out:
        return None if case.certain is None else Fraction(case.certain)
    sites, n_points = case.sites, case.add_up(lambda site: site.n)
    total = case.add_up(lambda site: site.total)
    if case.add_up(lambda site: 1) == 1:  # split conformal prediction
        pairs = zip(sites[0].ranks, sites[0].casts[1:], strict=True)
        ranks = (rank for rank, votes in pairs if votes >= case.needed)
        return Fraction(next(ranks), n_points + 1)
    if len(sites) == 1 and sites[0].n == 1:  # one score at each site
        return Fraction(-(-case.needed // sites[0].total), n_points + 1)
    spared = min(site.votes[-1] for site in sites)
    if all(site.ranks[-1] == site.n for site in sites) and case.needed > total - spared:
        return Fraction(n_points, n_points + 1)  # the largest of all scores
    mirrored = all(
        site.votes == site.votes[::-1]
        and site.ranks == tuple(site.n + 1 - l for l in reversed(site.ranks))
        for site in sites
    )
    return Fraction(1, 2) if mirrored and 2 * case.needed == total + 1 else None


def _count_mean(cases: Sequence[_Case], work: Work) -> Fraction:
    """Count the ways to choose scores such that the votes of the numbers among them are
    enough.

    A new score has any number r of the N others below it with probability 1/(N + 1),
    and these are any r of them. So it is missed with probability sum_r W_r / (binom(N,
    r) (N + 1)), where W_r counts the ways to choose r scores. The W_r are the digits of
    one whole number, in a base that exceeds them all.
    """
    if len(cases) > 1:
        raise NotVerifiableError("too close to the level")
    n = cases[0].add_up(lambda site: site.n)
    width = n + 1
    packed = _count_ways(
        cases[0], width, lambda site: _list_terms(site.n, 1 << width, 1), work
    )
    digits = ((packed >> (width * r)) & ((1 << width) - 1) for r in range(n + 1))
    missed = sum(
        (Fraction(ways, math.comb(n, r)) for r, ways in enumerate(digits)), Fraction(0)
    )
    return 1 - missed / (n + 1)


def _count_missed(case: _Case, level: Fraction, work: Work) -> Fraction:
    """Return P(votes below the level >= votes needed) as a fraction."""
    if case.certain is not None:
        return Fraction(1 - case.certain)
    a, b = level.numerator, level.denominator
    count = _count_ways(
        case, b.bit_length(), lambda site: _list_terms(site.n, a, b - a), work
    )
    return Fraction(count, b ** case.add_up(lambda site: site.n))


def _count_ways(
    case: _Case, width: int, ways: Callable[[Voters], list[int]], work: Work
) -> int:
    """Count the ways in which the votes are reached; `ways` gives those of one site by
    its scores below.

    Whole numbers have ``width`` bits for each score.
    """
    n = case.add_up(lambda site: site.n)
    words = n * width / 30
    steps = case.add_up(lambda site: len(site.ranks) + 1) * case.needed
    operations = steps * (500 + words**1.3) + n * (500 + words)
    if case.left_out or operations > _MOST_COUNTING:
        raise NotVerifiableError("too close to the level")
    work.spend(operations)
    votes = []
    for site in case.sites:
        terms = ways(site)
        masses = [sum(terms[i:j]) for i, j in pairwise((0, *site.ranks, site.n + 1))]
        votes += [(site.casts, masses)] * site.number
    return int(_convolve(votes, case.needed, np.ones(1, dtype=object)))


def _list_terms(n: int, a: int, b: int) -> list[int]:
    """Return binom(n, i) a^i b^(n - i) for i = 0, ..., n."""
    terms = [b**n]
    for i in range(n):
        terms.append(terms[-1] * ((n - i) * a) // ((i + 1) * b))
    return terms
