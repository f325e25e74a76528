"""Curves: thresholds from cumulative counts that add up over sites, exact or with noise
(theory, section 13).

A plan names G cells; the last one means +inf. Sites send how many scores fall into each
cell, with or without noise, and the server adds these up. The noise of edge g is the
sum of the noise up to g less a share r_g of all noise, which is known because the
number of scores is public (a bridge). The threshold is the edge after the last interior
edge whose count is below ``votes + offset`` (last passage). Whatever the distribution
of the scores and however the noise depends between edges,

    E[C] >= 1 - sum_{y=0..N} H(y) / (N + 1),        P(C <= c) <= E[H(Y)],  Y ~
    Binomial(N, c),

with H(y) the largest probability, over interior edges, that the noise is at least
``votes + offset - y``. The first needs exchangeable scores, the second independent ones
of one distribution.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate, product
from typing import NamedTuple

import numpy as np
from scipy import special

from fedconformal._util import Bools, Floats, Ints, rank_of
from fedconformal.laws._beta import binomial_cdf

TAIL_ERROR = 1e-11
"""Added to every tail probability of the noise: more than all rounding and truncation
errors together.
"""

_BEYOND = 1e-16  # noise outside the table, by Chernoff's bound
# relative distance of a binomial tail from delta that floating point does not decide
_TIE = 1e-9
_MOST_EXACT = 20_000  # scores up to which such a tie is decided in whole numbers
_LONGEST = 2**23  # points of one Fourier transform
MOST_WORK = 2**27
"""Points of all Fourier transforms of a convolution, which take about two seconds."""
_TAIL = 45.0  # counts whose Bernstein bound is below exp(-45) are left out
_FACTORS = tuple(
    product((0.0, 0.5, 1.0, 1.5, 2.0), (0.0, 1.0, 2.0))
)  # for noisier and quieter edges


def share_bridge(cells: int, denominator: int) -> Ints:
    """Return the shares of the total noise that interior edges subtract, in units of
    ``1 / denominator``.

    Parameters
    ----------
    cells : int
        Number of cells G.
    denominator : int
        The shares are g / G, rounded to multiples of ``1 / denominator``; symmetric in
        g and G - g.

    Returns
    -------
    array of int
        One share for each of the G - 1 interior edges.

    Examples
    --------
    >>> share_bridge(5, 10).tolist()
    [2, 4, 6, 8]
    """
    half = [
        (2 * denominator * g + cells) // (2 * cells) for g in range(1, cells // 2 + 1)
    ]
    mirrored = [
        denominator - share for share in reversed(half[: cells - 1 - len(half)])
    ]
    return np.array(half + mirrored, dtype=np.int64)


@dataclass(frozen=True)
class CurveNoise:
    """Distribution of the noise in the pooled count of each interior edge, by exact
    convolution.

    Parameters
    ----------
    cells : int
        Number of cells, at least 2; the last one means +inf.
    n_sites : int
        Number of sites that add discrete Laplace noise to each of their cells.
    scale : float
        ``P(z)`` is proportional to ``exp(-abs(z) / scale)``; 2 / epsilon for an
        epsilon-private histogram whose neighbours replace one record, 0 for exact
        counts.
    denominator : int
        Denominator of the bridge; a small one makes the convolution fast and costs next
        to no precision.

    Examples
    --------
    >>> from fractions import Fraction
    >>> noise = CurveNoise(cells=100, n_sites=10, scale=2.0)
    >>> curve = choose_curve(5000, noise, Fraction(9, 10))
    >>> print(curve.votes, round(curve.mean_bound, 4))
    4503 0.9002
    """

    cells: int
    n_sites: int
    scale: float
    denominator: int = 16

    @cached_property
    def shares(self) -> Ints:
        """Bridge of the interior edges, in units of ``1 / denominator``."""
        return share_bridge(self.cells, self.denominator)

    @cached_property
    def _edges(self) -> tuple[Floats, Floats]:
        """Bridge, and number of noise variables up to the edge, for the first half of
        the interior edges.
        """
        count = np.arange(1, self.cells // 2 + 1)
        return self.shares[: count.size] / self.denominator, (
            count * self.n_sites
        ).astype(float)

    @cached_property
    def rows(self) -> Ints:
        """Rows of the interior edges in `tails`: edges g and G - g have noise of the
        same distribution.
        """
        edge = np.arange(1, self.cells)
        return np.minimum(edge, self.cells - edge) - 1

    @property
    def _odds(self) -> float:
        """``4 a / (1 - a)**2`` with ``a = exp(-1 / scale)``, which is twice the
        variance of one variable.
        """
        return math.sinh(0.5 / self.scale) ** -2 if self.scale else 0.0

    @cached_property
    def deviations(self) -> Floats:
        """Standard deviations of the noise at the interior edges."""
        share, before = self._edges
        after = self.cells * self.n_sites - before
        half: Floats = np.sqrt(
            self._odds / 2 * ((1 - share) ** 2 * before + share**2 * after)
        )
        return half[self.rows]

    @cached_property
    def reach(self) -> int:
        """Whole number that the noise of any edge exceeds with a probability below
        1e-16.
        """
        if not self.scale:
            return 1
        share, before = (part[:, None] for part in self._edges)
        after = self.cells * self.n_sites - before
        s = np.geomspace(1e-4, 0.99, 200) / self.scale / np.maximum(share, 1 - share)
        growth = -before * np.log1p(-self._odds * np.sinh((1 - share) * s / 2) ** 2)
        growth -= after * np.log1p(-self._odds * np.sinh(share * s / 2) ** 2)
        return 1 + math.ceil(
            float(((growth - math.log(_BEYOND)) / s).min(axis=1).max())
        )

    @property
    def work(self) -> int:
        """Number of points of all Fourier transforms; too many where a single one would
        be too long.
        """
        points = (2 * self.reach + 1) * self.denominator
        return points * (self.cells // 2) if points <= _LONGEST else 2 * MOST_WORK

    @property
    def tails(self) -> Floats:
        """``P(Z >= x)`` for x from ``-reach`` to ``reach + 1``: a row for each of the
        first G // 2 edges.
        """
        return _convolve(self)

    def worst_tail(self, offsets: tuple[int, ...] = ()) -> tuple[int, Floats]:
        """Return an upper bound of the largest ``P(Z_g >= x + offset_g)`` over interior
        edges g.

        Parameters
        ----------
        offsets : tuple of int
            One for each interior edge; none means zeros.

        Returns
        -------
        first : int
            The smallest x of the table; the bound is 1 below it.
        tail : array
            The bound for x = first, first + 1, ...; the last entry holds for all larger
            x too.
        """
        return _worst_tail(self, offsets)

    def rvs(self, size: tuple[int, ...], rng: np.random.Generator) -> Ints:
        """Draw the noise of single cells, summed over sites, for simulation only."""
        if not self.scale:
            return np.zeros(size, dtype=np.int64)
        stop = -math.expm1(-1 / self.scale)
        ups, downs = (rng.negative_binomial(self.n_sites, stop, size) for _ in range(2))
        return np.asarray(ups - downs)


@lru_cache(maxsize=4)
def _convolve(noise: CurveNoise) -> Floats:
    """Invert the characteristic functions of the edges, each on the lattice of its own
    bridge.

    The functions are real and positive, so that no digits cancel: the error is below
    1e-12, and that of wrapping around at most 1e-16.
    """
    from scipy import fft

    reach, half = noise.reach, noise.cells // 2
    if noise.work > MOST_WORK:
        raise ValueError(
            f"the noise of {noise.cells} cells at {noise.n_sites:,} sites is too wide"
            " for exact convolution: use fewer cells, or a larger epsilon"
        )
    length = int(fft.next_fast_len(2 * reach + 2, real=True))
    logs: dict[int, Floats] = {}
    tails = np.zeros((half, 2 * reach + 2))
    for g in range(1, half + 1):
        bridge = Fraction(int(noise.shares[g - 1]), noise.denominator)
        part, unit = bridge.numerator, bridge.denominator
        points = length * unit
        if unit not in logs:
            logs[unit] = -np.log1p(
                noise._odds * np.sin(np.pi / points * np.arange(points)) ** 2
            )
        k = np.arange(points // 2 + 1)
        before = g * logs[unit][(unit - part) * k % points]
        after = (noise.cells - g) * logs[unit][part * k % points]
        masses = fft.irfft(np.exp(noise.n_sites * (before + after)), points)
        around = np.concatenate([masses[-reach * unit :], masses[: (reach + 1) * unit]])
        tails[g - 1, :-1] = around.reshape(-1, unit).sum(axis=1)[::-1].cumsum()[::-1]
    tails.setflags(write=False)
    return tails


@lru_cache(maxsize=64)
def _worst_tail(noise: CurveNoise, offsets: tuple[int, ...]) -> tuple[int, Floats]:
    least = min(offsets, default=0)
    if least < 0:
        raise ValueError(f"offsets must be >= 0, got {least}")
    reach = noise.reach
    # An edge whose offset is larger than this never has the largest tail.
    raised = np.minimum(
        np.array(offsets or [0] * (noise.cells - 1)) - least, 2 * reach + 2
    )
    first = -reach - int(raised.max())
    x, worst = np.arange(first, reach + 2), np.zeros(reach + 2 - first)
    for row, offset in sorted(
        {*zip(noise.rows.tolist(), raised.tolist(), strict=True)}
    ):
        np.maximum(
            worst,
            noise.tails[row, np.clip(x + offset + reach, 0, 2 * reach + 1)],
            out=worst,
        )
    # Rounding must not make the table rise.
    bound = np.minimum(np.maximum.accumulate(worst[::-1])[::-1] + TAIL_ERROR, 1.0)
    bound.setflags(write=False)
    return first - least, bound


def binomial_masses(p: Floats, m: int) -> tuple[int, Floats]:
    """Return Binomial(m, p) probabilities of the counts that matter for any of several
    p.

    Ratios of neighbours are added in logarithms and the sum is normalised: for large m
    this keeps three more digits than factorials do.

    Parameters
    ----------
    p : array of shape (rows,)
        Probabilities of success.
    m : int
        Number of trials.

    Returns
    -------
    first : int
        The smallest count that matters.
    masses : array of shape (rows, counts)
        Probabilities of the counts from ``first`` on.

    Examples
    --------
    >>> import numpy as np
    >>> from fedconformal.laws._curves import binomial_masses
    >>> first, masses = binomial_masses(np.array([0.5]), 2)
    >>> first, masses.round(3)
    (0, array([[0.25, 0.5 , 0.25]]))
    """
    mean, variance = m * p, m * p * (1 - p)
    reach = _TAIL / 3 + np.sqrt((_TAIL / 3) ** 2 + 2 * _TAIL * variance)
    first = max(0, math.floor(float(np.min(mean - reach))))
    last = min(m, math.ceil(float(np.max(mean + reach))))
    inside = np.clip(p, 1e-300, 1 - 2**-53)[:, None]
    count = np.arange(first, last)
    steps = np.log((m - count) / (count + 1)) + (np.log(inside) - np.log1p(-inside))
    logs = np.concatenate([np.zeros((len(p), 1)), np.cumsum(steps, axis=1)], axis=1)
    masses = np.exp(logs - logs.max(axis=1, keepdims=True))
    return first, masses / masses.sum(axis=1, keepdims=True)


@dataclass(frozen=True, eq=False)
class NoisyCurve:
    """The pooled curve of all sites as a site law: a bound of the coverage of its last
    passage.

    ``CoverageLaw.of_sites(curve, [1], server_rank=1)`` is the guaranteed distribution
    of the coverage: for independent scores of one distribution the coverage is
    stochastically at least as large. It is that of the pooled score of rank ``votes -
    X``, X independent of the scores with the worst tail of the noise.

    Parameters
    ----------
    n_points : int
        Number of scores at all sites together.
    votes : int
        Count that an edge must reach.
    noise : CurveNoise
        Noise of the curve.
    offsets : tuple of int
        Counts that interior edges must reach beyond ``votes``; none means zeros.

    Examples
    --------
    >>> import numpy as np
    >>> from fedconformal.laws import CoverageLaw
    >>> curve = NoisyCurve(99, 90, CurveNoise(cells=50, n_sites=3, scale=0.0))
    >>> print(f"{CoverageLaw.of_sites(curve, np.array([1]), server_rank=1).mean():.6f}")
    0.900000
    """

    n_points: int
    votes: int
    noise: CurveNoise
    offsets: tuple[int, ...] = ()

    @property
    def sends_infinity(self) -> Bools:
        """False, as noise can make any threshold finite."""
        return np.zeros(1, dtype=bool)

    def below(self, c: Floats) -> Floats:
        """Return bounds of P(C <= c), with the shape of ``c`` and one more axis of
        length 1.
        """
        first, tail = self.noise.worst_tail(self.offsets)
        return self._average(np.asarray(c, float), first, tail)[..., None]

    def _average(
        self, c: Floats, first: int, tail: Floats, *, offset: int = 0
    ) -> Floats:
        """Average ``tail(votes + offset - Y)`` over Y ~ Binomial(N, c)."""
        values = []
        for p in c.ravel():
            start, masses = binomial_masses(np.array([p]), self.n_points)
            place = self.votes + offset - start - first - np.arange(masses.shape[1])
            heights = np.where(place < 0, 1.0, tail[np.clip(place, 0, tail.size - 1)])
            values.append(
                float((masses[0] * heights).sum())
            )  # as a dot product, threads would wait
        return np.asarray(np.clip(values, 0.0, 1.0)).reshape(c.shape)

    @cached_property
    def mean_bound(self) -> float:
        """Lower bound of the marginal coverage for exchangeable scores of any
        distribution.
        """
        first, tail = self.noise.worst_tail(self.offsets)
        low, high = self.votes - self.n_points, self.votes  # of votes - y
        ones = max(min(first, high + 1) - low, 0)
        rest = max(high - max(first + tail.size, low) + 1, 0)
        inside = tail[max(low - first, 0) : max(high - first + 1, 0)]
        return 1.0 - (ones + math.fsum(inside) + rest * float(tail[-1])) / (
            self.n_points + 1
        )

    def infinite_share(self, last_mass: float) -> float:
        """Return the probability of an infinite threshold if the last cell has this
        share of the scores.
        """
        offset = self.offsets[-1] if self.offsets else 0
        below_last = np.array([1.0 - last_mass])
        finite = self._average(
            below_last, -self.noise.reach, self.noise.tails[0], offset=offset
        )
        return 1.0 - float(finite[0])


def _rarely_reached(n: int, votes: int, level: Fraction, delta: Fraction) -> bool:
    """Return whether P(Binomial(n, level) >= votes) <= delta, whatever the rounding."""
    tail, limit = (
        float(special.betainc(votes, n - votes + 1, float(level))),
        float(delta),
    )
    if abs(tail - limit) > _TIE * limit:
        return tail < limit
    if n > _MOST_EXACT:
        return False
    hit, miss = level.numerator, level.denominator - level.numerator
    ways: int = sum(
        math.comb(n, i) * hit**i * miss ** (n - i) for i in range(votes, n + 1)
    )
    return bool(ways * delta.denominator <= delta.numerator * level.denominator**n)


def _bisect(suffices: Callable[[int], bool], low: int, high: int) -> int | None:
    """Return the smallest number from low to high that suffices, as all larger ones
    then do; None if none.
    """
    if high < low or not suffices(high):
        return None
    return low + bisect_left(range(low, high), True, key=suffices)


def solve_votes(
    n_points: int,
    noise: CurveNoise,
    level: Fraction,
    *,
    offsets: tuple[int, ...] = (),
    delta: Fraction | None = None,
    last_mass: float | None = None,
) -> int | None:
    """Return the smallest count that satisfies the target whatever the distribution of
    the scores.

    Parameters
    ----------
    n_points : int
        Number of scores at all sites together.
    noise : CurveNoise
        Noise of the curve.
    level : Fraction
        Coverage that is asked for.
    offsets : tuple of int
        Counts that interior edges must reach beyond the result; none means zeros.
    delta : Fraction, optional
        Largest probability of a coverage of ``level`` or less given the calibration
        data; by default the target is the marginal coverage.
    last_mass : float, optional
        Share of the scores in the last cell, by default that of scores spread evenly
        over the cells.

    Returns
    -------
    int or None
        None if the threshold would be infinite with a probability of one half or more,
        or if the standard deviation of the noise at some edge is above ``2.5 * (1 -
        level) * n_points``, which would take about as many votes as there are scores.
        Without noise or offsets the result is exact; a tie with delta is decided in
        whole numbers, and counts as a failure beyond 20,000 scores.
    """
    if not noise.scale and not any(offsets):
        if delta is not None:
            return _bisect(
                lambda votes: _rarely_reached(n_points, votes, level, delta),
                1,
                n_points,
            )
        exact = rank_of(level, n_points)
        return exact if exact <= n_points else None
    if noise.deviations.max() > 2.5 * float(1 - level) * n_points:
        return None

    def suffices(votes: int) -> bool:
        curve = NoisyCurve(n_points, votes, noise, offsets)
        if delta is None:
            return curve.mean_bound >= level
        return float(curve.below(np.array(float(level)))[0]) + TAIL_ERROR <= delta

    votes = _bisect(suffices, 0, n_points + noise.reach + 1)
    mass = 1 / noise.cells if last_mass is None else last_mass
    if (
        votes is None
        or NoisyCurve(n_points, votes, noise, offsets).infinite_share(mass) >= 0.5
    ):
        return None
    return votes


def bound_tail(n: int, total: float, risk: float) -> float:
    """Return the Hoeffding-Bentkus bound of the probability that n losses sum up to so
    little.

    Valid for independent losses in [0, 1] whose mean expectation is at least ``risk``,
    however they are distributed (Bates et al. 2021).

    Parameters
    ----------
    n : int
        Number of losses.
    total : float
        Their sum.
    risk : float
        Mean of their expectations, between 0 and 1.

    Returns
    -------
    float

    Examples
    --------
    >>> round(bound_tail(500, 30, 0.1), 7)
    0.0027252
    """
    mean = min(total / n, risk)
    distance = special.xlogy(mean, mean / risk) + special.xlogy(
        1 - mean, (1 - mean) / (1 - risk)
    )
    bentkus = math.e * float(binomial_cdf(math.ceil(total - _TIE), n, risk))
    return min(math.exp(-n * float(distance)), bentkus, 1.0)


def solve_sum(
    n_points: int, parts: int, level: Fraction, delta: Fraction | None = None
) -> int | None:
    """Return the smallest sum of what is found, in parts of a case, that satisfies the
    target.

    Parameters
    ----------
    n_points : int
        Number of cases at all sites together.
    parts : int
        Parts of a case.
    level : Fraction
        1 minus the risk that is allowed.
    delta : Fraction, optional
        Largest probability of a larger risk given the calibration data; by default the
        mean risk counts, as in conformal risk control: the losses and one more, the
        largest, have at most the mean that is allowed.

    Returns
    -------
    int or None
        None if no sum suffices.

    Examples
    --------
    >>> solve_sum(4, 2, Fraction(1, 2)), solve_sum(4, 2, Fraction(4, 5)), solve_sum(
    ...     4, 2, Fraction(9, 10)
    ... )
    (5, 8, None)
    """
    whole = parts * n_points
    if delta is None:
        needed = -(-level.numerator * parts * (n_points + 1) // level.denominator)
        return needed if needed <= whole else None
    risk, most = float(1 - level), float(delta) * (1 - _TIE)
    return _bisect(
        lambda found: bound_tail(n_points, (whole - found) / parts, risk) <= most,
        1,
        whole,
    )


def fewest_answers(level: Fraction, delta: Fraction) -> int:
    """Return how many answers, all of them right, show that at least a share ``level``
    is right.

    Parameters
    ----------
    level : Fraction
        Share of right answers.
    delta : Fraction
        Largest probability of an error.

    Returns
    -------
    int

    Examples
    --------
    >>> fewest_answers(Fraction(95, 100), Fraction(1, 10))
    45
    """
    estimate = math.log(delta) / math.log(level)
    return max(1, math.ceil(estimate + _TIE * estimate))


def first_answered(
    answered: Sequence[int],
    wrong: Sequence[int],
    risk: Fraction,
    delta: Fraction,
    starts: int,
) -> int | None:
    """Return the lowest setting at which the share of wrong answers is shown to be
    small (Learn-then-Test).

    From each start, fixed before the data, settings are tested towards more answers,
    each with an equal share of delta, up to the first that fails. Given how many cases
    are answered, wrong answers are binomial.

    Parameters
    ----------
    answered, wrong : sequence of int
        Cases in each cell, and how many of their answers are wrong; a setting answers
        its cell and all after.
    risk, delta : Fraction
        Largest share of wrong answers, and probability of an error.
    starts : int
        Number of starts, evenly over the settings.

    Returns
    -------
    int or None
        None if no setting passes.
    """
    n, k = (np.cumsum(np.asarray(counts)[::-1])[::-1] for counts in (answered, wrong))
    most = float(delta) / starts * (1 - _TIE)
    passes = (n > 0) & (binomial_cdf(k, n, float(risk)) <= most)
    lowest = None
    for start in {(i * len(passes)) // starts - 1 for i in range(1, starts + 1)} - {-1}:
        place = start
        while place >= 0 and passes[place]:
            lowest = place if lowest is None else min(lowest, place)
            place -= 1
    return lowest


def compute_offsets(
    noise: CurveNoise, level: Fraction, noisier: float, quieter: float
) -> tuple[int, ...]:
    """Return offsets that compensate for noise unlike that of the edge at the level.

    The bound takes the worst edge for each count, so that edges with more noise, and
    those with less, raise the votes at all edges. Raising their own count instead costs
    little far from the threshold.

    Parameters
    ----------
    noise : CurveNoise
        Noise of the curve.
    level : Fraction
        Coverage that is asked for; the edge at this share of the cells is the
        reference.
    noisier, quieter : float
        Offset of an edge for each unit by which the standard deviation of its noise is
        above, or below, that of the reference.

    Returns
    -------
    tuple of int
        One offset for each interior edge, rounded up.
    """
    reference = min(max(round(level * noise.cells), 1), noise.cells - 1)
    excess = noise.deviations - noise.deviations[reference - 1]
    raised = np.where(excess > 0, noisier * excess, -quieter * excess)
    return tuple(np.ceil(raised.round(9)).astype(int).tolist())


def last_passage(
    counts: Iterable[int],
    n_points: int,
    votes: int,
    offsets: Sequence[int] = (),
    *,
    denominator: int = 16,
) -> int:
    """Return the cell whose right edge is the threshold, in whole numbers of any size.

    Parameters
    ----------
    counts : iterable of int
        Pooled counts of the cells, with noise or without.
    n_points : int
        Number of scores at all sites together, which is public.
    votes : int
        Count that an edge must reach.
    offsets : sequence of int
        Counts that interior edges must reach beyond ``votes``; none means zeros.
    denominator : int
        Denominator of the bridge.

    Returns
    -------
    int
        Index of the cell, from 0; the last one means +inf.

    Examples
    --------
    >>> last_passage([5, 3, 1, 0], 9, 8)
    1
    """
    *curve, total = accumulate(map(int, counts))
    shares = share_bridge(len(curve) + 1, denominator).tolist()
    failing = [
        cell
        for cell, (count, share, offset) in enumerate(
            zip(curve, shares, offsets or [0] * len(curve), strict=True)
        )
        if denominator * (count - votes - int(offset)) < share * (total - n_points)
    ]
    return failing[-1] + 1 if failing else 0


class SimulatedCoverage(NamedTuple):
    """Mean and standard deviation of simulated coverages, and the share of infinite
    thresholds.
    """

    mean: float
    std: float
    infinite: float


def simulate_coverage(
    curve: NoisyCurve, masses: Floats, *, runs: int, rng: np.random.Generator
) -> SimulatedCoverage:
    """Simulate the coverage of a curve for scores that fall into the cells with known
    probabilities.

    Parameters
    ----------
    curve : NoisyCurve
        Votes, offsets and noise.
    masses : array of float
        Probabilities of the cells.
    runs : int
        Number of calibrations.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    SimulatedCoverage
    """
    return _covered(
        curve, masses, _bridged(curve.n_points, curve.noise, masses, runs, rng)
    )


def _bridged(
    n_points: int,
    noise: CurveNoise,
    masses: Floats,
    runs: int,
    rng: np.random.Generator,
) -> Ints:
    """Draw the counts of the interior edges after the bridge, times its denominator:
    (runs, edges).
    """
    counts = rng.multinomial(n_points, masses, size=runs) + noise.rvs(
        (runs, noise.cells), rng
    )
    total = counts.sum(axis=1, keepdims=True) - n_points
    return np.asarray(
        noise.denominator * counts.cumsum(axis=1)[:, :-1] - noise.shares * total
    )


def _covered(curve: NoisyCurve, masses: Floats, bridged: Ints) -> SimulatedCoverage:
    needed = curve.votes + np.array(curve.offsets or [0] * (curve.noise.cells - 1))
    failing = bridged < curve.noise.denominator * needed
    cell = np.where(
        failing.any(axis=1), failing.shape[1] - failing[:, ::-1].argmax(axis=1), 0
    )
    coverage = np.append(masses.cumsum()[:-1], 1.0)[cell]
    return SimulatedCoverage(
        float(coverage.mean()),
        float(coverage.std()),
        float((cell == failing.shape[1]).mean()),
    )


def compute_references(cells: int) -> tuple[Floats, Floats]:
    """Return the probabilities of equal cells for two references: even scores, and
    long-tailed ones.

    Parameters
    ----------
    cells : int
        Number of cells.

    Returns
    -------
    even, half_normal : arrays
        The half-normal scores ``abs(N(0, 1))`` have cells that divide 0 to 10, so that
        nine tenths of them fall into a sixth of the cells.
    """
    below = special.erf(np.arange(1, cells) * (10 / cells) / math.sqrt(2))
    return np.full(cells, 1 / cells), np.diff(below, prepend=0.0, append=1.0)


def choose_curve(
    n_points: int,
    noise: CurveNoise,
    level: Fraction,
    *,
    delta: Fraction | None = None,
    last_mass: float | None = None,
    runs: int = 1000,
    rng: np.random.Generator | None = None,
) -> NoisyCurve | None:
    """Return the valid votes and offsets with the smallest simulated coverage.

    The bound holds for any offsets; the simulation decides only how close to the level
    the coverage is. It weighs the worse of the two references of `compute_references`
    three times.

    Parameters
    ----------
    n_points : int
        Number of scores at all sites together.
    noise : CurveNoise
        Noise of the curve.
    level : Fraction
        Coverage that is asked for.
    delta : Fraction, optional
        As for `solve_votes`.
    last_mass : float, optional
        As for `solve_votes`.
    runs : int
        Number of simulated calibrations of each reference.
    rng : numpy.random.Generator, optional
        Source of randomness, by default a generator with a fixed seed.

    Returns
    -------
    NoisyCurve or None
        None if no offsets make a finite threshold likely.
    """
    source = rng or np.random.default_rng(0)
    references = [
        (masses, _bridged(n_points, noise, masses, runs, source))
        for masses in compute_references(noise.cells)
    ]
    candidates: dict[NoisyCurve, float] = {}
    for offsets in dict.fromkeys(
        compute_offsets(noise, level, *factors) for factors in _FACTORS
    ):
        votes = solve_votes(
            n_points, noise, level, offsets=offsets, delta=delta, last_mass=last_mass
        )
        if votes is not None:
            curve = NoisyCurve(n_points, votes, noise, offsets)
            means = sorted(_covered(curve, *reference).mean for reference in references)
            candidates[curve] = means[0] + 3 * means[1]
    return min(candidates, key=candidates.__getitem__, default=None)


def suggest_cells(
    n_points: int, n_sites: int, epsilon: float | Fraction, level: Fraction
) -> int:
    """Return a number of equal cells that balances their width against the noise.

    The excess of the coverage falls like 1 / G and the variance of the noise grows like
    G, so that the best G grows like the cube root of ``(epsilon * n_points)**2 /
    n_sites``. The factor was measured: for 12 federations at levels of 0.8, 0.9 and
    0.95 the root mean square distance of the coverage from the level is at most 13 %
    above that of the best of eight numbers of cells from 30 to 400, and mostly within 3
    %.

    Parameters
    ----------
    n_points : int
        Number of scores at all sites together.
    n_sites : int
        Number of sites that add noise.
    epsilon : float or Fraction
        Privacy loss of each site.
    level : Fraction
        Coverage that is asked for.

    Returns
    -------
    int
        At least 20 and ``3 / (1 - level)``, at most 400 unless that is less.

    Examples
    --------
    >>> suggest_cells(5000, 10, 1.0, Fraction(9, 10))
    170
    """
    missed = float(1 - level)
    balanced = math.cbrt((float(epsilon) * n_points) ** 2 / n_sites * missed / 0.1)
    return max(min(10 * round(balanced / 8), 400), 20, math.ceil(3 / missed))


def total_reach(cells: int, scale: float) -> int:
    """Return what the total noise of one site's cells exceeds with a probability below
    1e-16.

    The noise of a cell has a standard deviation below ``scale * sqrt(2)`` and
    exponential tails.

    Parameters
    ----------
    cells : int
        Number of cells.
    scale : float
        Scale of the discrete Laplace noise of a cell.

    Returns
    -------
    int

    Examples
    --------
    >>> total_reach(100, 2.0)
    400
    """
    return math.ceil(scale * (80 + 12 * math.sqrt(cells)))
