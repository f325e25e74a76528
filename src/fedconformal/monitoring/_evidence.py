"""Evidence that may be looked at at any time: e-processes for counts that arrive period
by period.

*Below the level.* If each case is missed with chance at most alpha given everything
before, the likelihood ratio of misses at p > alpha is a supermartingale. So are its
product over sites that are independent given the past, its average over a fixed number
of sites (those that have yet to join count 1), any mixture over a fixed grid of p, and
the mixture over the period s in which a drop begins, with weights 1/(s(s+1)). By
Ville's inequality any of them reaches 1/eta, ever, with probability at most eta. A
noisy count has a likelihood too: noise and binomial are log-concave, so their sum has a
monotone likelihood ratio in p, also when it is cut off at 0 and n, and the ratio has
mean at most 1.

*Below what calibrations are.* Let the coverage C be stochastically at least of
distribution F. Put the mass of F in each cell of a grid of miss chances on the cell's
upper end: f_i at p_i. With weights g_i such that g_i/f_i increases, E = sum g_i L(p_i)
/ sum f_i L(p_i) is a martingale if the chance is drawn from f, and it increases with
every miss, since larger counts move the posterior up. More misses can be coupled to a
lower coverage, so the probability that E ever reaches 1/eta is no larger under C. This
needs no exact distribution: ties, curves and noise of the calibration are allowed.
Where sites have coverages of their own, the test is that of the level 1 - F^-1(beta),
of which a share beta of the error is spent.

*Mixture of sites.* With shares w_j and misses s_j of t_j, prod (1 + f (sum w_j s_j/t_j
/ alpha - 1)) over periods, 0 <= f < 1, has mean at most 1 if the mean of the chances is
at most alpha. A missing site counts no misses. An exact report that comes later adds
misses to its period, so an early look stays below the product of all reports, whatever
the order in which they come.

*Average so far.* For theta < 0, exp(theta s) / prod (1 + p_i (e^theta - 1)) is a
martingale, and the product is at most the power t of the same at the mean of the p_i,
as the logarithm is concave. The mixture over a grid of theta increases with that mean,
so it is inverted to an upper bound of the mean chance of a miss, which holds at all
times even if the chance varies.

*Average of a mixture so far.* In a period let u = min t_j/w_j over the sites that
report, and 0 < k < 1. Since E(1-z)^s <= exp(-z t p) for s misses of t cases with mean
chance p, z_j = k u w_j/t_j gives E prod_j (1 - z_j)^(s_j) <= exp(-k u mu) with mu = sum
w_j p_j. So exp(k sum u mu) prod (1 - z_j)^(s_j) over periods is a supermartingale.
Mixed over k it increases with the mean of mu weighted by u, and is inverted to an upper
bound of it. A site that does not report counts as not covered: the mean of sum w_j over
the sites that report, less this bound, is a lower bound of the coverage of the whole
mixture. As u follows from all reports of a period, this is a supermartingale at the
ends of periods alone, when their reports are in, and not while they arrive.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy import special

from fedconformal._util import Bools, Floats, Ints
from fedconformal.laws import CoverageLaw
from fedconformal.privacy import CountNoise

_LARGEST_LOG = 690.0  # of evidence, beyond which it is not counted
_ODDS = np.geomspace(0.02, 4.0, 28)  # how far the log-odds of a miss have risen
_THETA = -np.geomspace(0.004, 16.0, 36)
_FRACTIONS = np.array([0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9])
_LARGEST_SCALE = 250.0  # of noise beyond which a count is no evidence
_REACH = 40  # scales of the noise that are added up


@dataclass(frozen=True, eq=False)
class Counts:
    """Batches of cases in the order of time: one for each row (such as a site) and look
    at most.

    Parameters
    ----------
    n, missed : array of int
        Cases, and how many of them were missed, perhaps with noise.
    scale : array of float
        Scale of the noise in each count; 0 for an exact count.
    look, row : array of int
        Place in time, not decreasing, and row of each batch.
    """

    n: Ints
    missed: Ints
    scale: Floats
    look: Ints
    row: Ints

    def pooled(self) -> "Counts":
        """Return the same batches as if they were of one row."""
        return replace(self, row=np.zeros_like(self.row))

    @cached_property
    def looks(self) -> Ints:
        """Place of the first batch of each look."""
        return np.flatnonzero(np.diff(self.look, prepend=-1))

    def by_look(self) -> list[Ints]:
        """Return the places of the batches of each look."""
        return np.split(np.arange(self.look.size), self.looks[1:])

    def by_row(self) -> list[Ints]:
        """Return the places of the batches of each row."""
        order = np.argsort(self.row, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(self.row[order])) + 1)


def log_likelihood(counts: Counts, p: Floats, *, upper: bool = False) -> Floats:
    """Return log P(missed) for each chance of a miss, (batches, chances), up to a
    constant for each batch.

    With ``upper`` it is a bound from above of the same, else at most the truth: both
    exact without noise.
    """
    exact = counts.scale == 0
    missed, hits = (
        counts.missed[:, np.newaxis],
        (counts.n - counts.missed)[:, np.newaxis],
    )
    logs: Floats = special.xlogy(missed, p) + special.xlog1py(hits, -p)
    logs[~exact] = 0.0
    noisy = ~exact & (counts.scale <= _LARGEST_SCALE)
    if noisy.any():
        columns = np.stack([counts.n, counts.missed, counts.scale], axis=1)[noisy]
        kinds, which = np.unique(columns, axis=0, return_inverse=True)
        each = [
            _noisy(int(n), int(y), CountNoise(scale), p, upper=upper)
            for n, y, scale in kinds
        ]
        logs[noisy] = np.array(each)[which.ravel()]
    return logs


def _noisy(n: int, y: int, noise: CountNoise, p: Floats, *, upper: bool) -> Floats:
    """Return log P(y) of a count of misses with noise, cut off at 0 and n."""
    reach = int(np.ceil(_REACH * noise.scale)) + 1
    k = np.arange(max(0, y - reach), min(n, y + reach) + 1)
    z = (
        noise.pmf(y - k) if 0 < y < n else noise.cdf(-np.abs(y - k))
    )  # ends hold what was cut off
    choose = (
        special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    )
    chance = p[:, np.newaxis]
    logs = choose + special.xlogy(k, chance) + special.xlog1py(n - k, -chance)
    total = np.asarray(special.logsumexp(logs, b=z, axis=1))
    return np.logaddexp(total, np.log(noise.cdf(-reach))) if upper else total


# -- below the level -------------------------------------------------------------------


def level_evidence(
    counts: Counts, miss: float, n_rows: int, seats: int | None = None
) -> tuple[Floats, Floats]:
    """Return the evidence that the chance of a miss is above ``miss``.

    The average is of ``seats`` rows, the first to join: a number that grew with every
    row that joins would give the evidence a new start each time. By default all rows
    have a seat.

    Returns
    -------
    array of shape (batches,)
        Of the row of each batch, after it.
    array of shape (looks,)
        Of all rows together, after each look: half their product for each p, half their
        average.
    """
    p = special.expit(special.logit(miss) + _ODDS)
    ratios = log_likelihood(counts, p) - log_likelihood(
        counts, np.array([miss]), upper=True
    )
    rows = _start_anywhere(ratios, counts.look, counts.row, n_rows)
    looks = counts.looks
    one = np.zeros(looks.size, dtype=np.int64)
    product = _start_anywhere(
        np.add.reduceat(ratios, looks, axis=0), counts.look[looks], one, 1
    )
    joined, first = np.unique(counts.row, return_index=True)
    seats = n_rows if seats is None else seats
    gain, average = np.zeros(n_rows), np.empty(looks.size)
    seated = np.isin(np.arange(n_rows), joined[np.argsort(first)][:seats])
    for i, batches in enumerate(counts.by_look()):
        gain[counts.row[batches]] = rows[batches] - 1
        average[i] = 1 + gain[seated].sum() / seats
    return rows, (product + average) / 2


def _start_anywhere(ratios: Floats, look: Ints, row: Ints, n_rows: int) -> Floats:
    """Return the mean of likelihood ratios over p and over the look at which they
    start, after each batch.

    A start at look s = 1, 2, ... has the weight 1/(s(s+1)), so starts up to s have
    s/(s+1), and those to come have value 1. All starts since a row's last batch give
    the same product.
    """
    logs = np.full((n_rows, ratios.shape[1]), -np.inf)
    used, evidence = np.zeros(n_rows), np.empty(look.size)
    bounds = np.flatnonzero(np.diff(look, prepend=-1, append=look[-1] + 1))
    for low, high in pairwise(bounds):
        own, weight = row[low:high], (look[low] + 1) / (look[low] + 2)
        logs[own] = (
            np.logaddexp(logs[own], np.log(weight - used[own])[:, np.newaxis])
            + ratios[low:high]
        )
        used[own] = weight
        evidence[low:high] = (
            np.exp(np.minimum(logs[own], _LARGEST_LOG)).mean(axis=1) + 1 - weight
        )
    return evidence


def mixture_evidence(counts: Counts, miss: float, shares: Floats) -> Floats:
    """Return the evidence, after each look, that the mixture of all rows misses more
    than ``miss``.

    Noise that is cut off at 0 adds at most the mean of its positive part to the misses.
    It is taken off; a count that has more noise than that is not used.
    """
    decay = np.exp(-1 / np.maximum(counts.scale, 1e-3))
    excess = np.where(counts.scale > 0, decay / (1 - decay**2), 0.0) / counts.n
    used = np.where(excess <= miss, shares[counts.row], 0.0)
    looks = counts.looks
    mean = np.add.reduceat(used * (counts.missed / counts.n - excess), looks)
    most = np.where(np.add.reduceat(excess, looks) > 0, 0.5, 1.0)
    return bet(
        mean, miss, counts.look[looks], np.zeros(looks.size, dtype=np.int64), 1, most
    )


def bet(
    mean: Floats,
    miss: float,
    look: Ints,
    row: Ints,
    n_rows: int,
    most: Floats | float = 1.0,
) -> Floats:
    """Return the evidence, after each look, that a mean of misses is above ``miss``.

    ``most`` keeps factors positive: a half at looks where the mean may be as low as
    minus ``miss``.
    """
    factors = np.log1p(np.outer(most * (mean / miss - 1), _FRACTIONS))
    return _start_anywhere(factors, look, row, n_rows)


def discover(evidence: Floats, rate: float) -> Bools:
    """Return what e-BH names: the expected share of wrong names among all names is at
    most ``rate``.
    """
    order = np.argsort(-evidence, kind="stable")
    enough = evidence[order] * np.arange(1, evidence.size + 1) * rate >= evidence.size
    named = np.zeros(evidence.size, dtype=bool)
    named[order[: np.flatnonzero(enough)[-1] + 1 if enough.any() else 0]] = True
    return named


# -- below what calibrations are -------------------------------------------------------


def change_evidence(counts: Counts, law: CoverageLaw) -> tuple[Floats, Floats]:
    """Return the evidence that the coverage is lower than ``law`` explains, of rows
    that share one coverage.

    Returns
    -------
    array of shape (batches,)
        Of the row of each batch, after it.
    array of shape (looks,)
        Of all rows together, whose counts are pooled, after each look.
    """
    looks = counts.looks
    centre, least = 1 - law.mean(), 1 - float(law.ppf(0.05))
    if not 0 < centre < least < 1:
        return np.ones(counts.n.size), np.ones(looks.size)
    rise = special.logit(least) - special.logit(
        centre
    )  # of the log-odds, the smallest that counts as a drop
    rises = np.geomspace(rise, max(4.0, 2 * rise), 40)
    drops = special.expit(special.logit(centre) + rises)
    chances = np.concatenate(
        [np.geomspace(1e-12, 0.02, 30), np.linspace(0.03, 0.97, 60), [0.99, 0.999]]
    )
    p = np.unique(np.concatenate([1 - np.asarray(law.ppf(chances)), drops, [1 - 1e-9]]))
    p = p[(p > 0) & (p < 1)]
    below = np.append(
        np.asarray(law.cdf(1 - p[:-1])), 0.0
    )  # that more than p is missed
    null = np.maximum(-np.diff(below, prepend=1.0), 1e-300)
    above = np.interp(
        p, drops, np.linspace(0.0, 1.0, rises.size)
    )  # even in the logarithm of the rise
    drop = np.maximum.accumulate(np.diff(above, prepend=0.0) / null) * null
    drop /= drop.sum()
    low = log_likelihood(counts, p)
    high = log_likelihood(counts, p, upper=True) if counts.scale.any() else low.copy()
    all_low, all_high = (
        np.add.reduceat(logs, looks, axis=0).cumsum(axis=0) for logs in (low, high)
    )
    for batches in counts.by_row():
        low[batches], high[batches] = (
            low[batches].cumsum(axis=0),
            high[batches].cumsum(axis=0),
        )
    return _mean_ratio(low, high, drop, null), _mean_ratio(
        all_low, all_high, drop, null
    )


def _mean_ratio(top: Floats, bottom: Floats, drop: Floats, null: Floats) -> Floats:
    """Return the ratio of two weighted means of likelihoods, given as logarithms."""
    peak = bottom.max(axis=1, keepdims=True)  # of a likelihood that is never 0
    with np.errstate(divide="ignore"):
        logs = np.log(np.exp(top - peak) @ drop) - np.log(np.exp(bottom - peak) @ null)
    ratio: Floats = np.exp(np.minimum(logs, _LARGEST_LOG))
    return ratio


# -- the average so far ----------------------------------------------------------------


def lower_bounds(counts: Counts, error: float, n_rows: int) -> Floats:
    """Return for each row a bound that is below the mean coverage of its cases so far,
    at all times.

    The probability that it ever is not is at most ``error``. Noise counts as its
    positive part.
    """
    n, missed = np.zeros(n_rows), np.zeros(n_rows)
    np.add.at(n, counts.row, counts.n)
    np.add.at(missed, counts.row, counts.missed)
    noisy = counts.scale > 0
    kinds, which = np.unique(counts.scale[noisy], return_inverse=True)
    costs = _noise_cost(np.broadcast_to(_THETA, (kinds.size, _THETA.size)), kinds)
    cost = np.zeros((n_rows, _THETA.size))
    np.add.at(cost, counts.row[noisy], costs[which])
    logs = missed[:, np.newaxis] * _THETA - cost

    def raise_by(mean: Floats) -> Floats:
        return n[:, np.newaxis] * -np.log1p(mean[:, np.newaxis] * np.expm1(_THETA))

    return 1 - _invert(logs, raise_by, error)


def mixture_lower_bound(counts: Counts, error: float, shares: Floats) -> float:
    """Return a bound that is below the mean coverage so far of the mixture of all rows,
    at the end of every look.

    Looks are weighted by their numbers of cases; a row without a report counts as not
    covered. The probability that the bound ever is not below, at a look of which all
    reports are in, is at most ``error``. While the reports of a look arrive it need not
    hold, as the weights follow from all of them.
    """
    used = np.flatnonzero((shares[counts.row] > 0) & (counts.scale <= _LARGEST_SCALE))
    if not used.size:
        return 0.0
    n, share, scale = counts.n[used], shares[counts.row[used]], counts.scale[used]
    looks = np.flatnonzero(np.diff(counts.look[used], prepend=-1))
    sizes = np.diff(np.append(looks, used.size))
    weight = np.minimum.reduceat(n / share, looks)
    steps = np.repeat(weight, sizes) * share / n  # at most 1
    theta = np.log1p(np.outer(steps, np.expm1(_THETA)))
    logs = counts.missed[used][:, np.newaxis] * theta
    cost = np.zeros_like(logs)
    cost[scale > 0] = _noise_cost(theta[scale > 0], scale[scale > 0])
    total, reported = weight.sum(), float(weight @ np.add.reduceat(share, looks))

    def raise_by(mean: Floats) -> Floats:
        return np.asarray(total * mean[:, np.newaxis] * -np.expm1(_THETA))

    high = _invert((logs - cost).sum(axis=0, keepdims=True), raise_by, error)
    return max(0.0, reported / float(total) - float(high[0]))


def _noise_cost(theta: Floats, scale: Floats) -> Floats:
    """Return log E exp(-theta Z+) for the noise Z of each row: infinite where there is
    no mean.
    """
    steps, rate = -theta - 1 / scale[:, np.newaxis], 1 / scale[:, np.newaxis]
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        tail = np.tanh(rate / 2) / np.expm1(-steps)  # a sum of powers of exp(steps)
        return np.where(steps < 0, np.log(tail + 1 / (1 + np.exp(-rate))), np.inf)


def _invert(logs: Floats, raise_by: Callable[[Floats], Floats], error: float) -> Floats:
    """Return for each row the smallest mean in [0, 1] at which the mixture over theta
    reaches 1/error.
    """
    low, high = np.zeros(logs.shape[0]), np.ones(logs.shape[0])
    for _ in range(40):
        middle = (low + high) / 2
        reaches = special.logsumexp(logs + raise_by(middle), axis=1) >= np.log(
            _THETA.size / error
        )
        low, high = np.where(reaches, low, middle), np.where(reaches, middle, high)
    return high
