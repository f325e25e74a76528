"""Amplification by shuffling, where it holds: sites of one record each.

If reports reach the server without their senders, a site hides among the others. What
it hides is its whole input; the theorems need epsilon-privacy between *any* two inputs
of a site, which per-record privacy gives only if a site has one record.
"""

import math

import numpy as np

from fedconformal._util import fraction, integer
from fedconformal.privacy._mechanisms import check_epsilon

_ROUNDING = 1e-9
"""Relative allowance for rounding in a divergence: a thousand times what scipy's
binomials need.
"""

_BLOCKS = 2000
"""Terms of a sum over C, each for one value or a run of them."""


def amplified_epsilon(
    n_sites: int, n_points: int, epsilon: float, delta: float
) -> float:
    """Return the smallest proved epsilon' such that the shuffled reports are (epsilon',
    delta)-private.

    Every site has one record and answers with an epsilon-private mechanism; all
    ``n_sites`` answer, and an attacker sees their reports in random order. Replacing
    one site's record is what is hidden. Never above ``epsilon``.

    Parameters
    ----------
    n_sites : int
        How many sites answer.
    n_points : int
        Records at each site, which must be 1.
    epsilon : float
        Privacy loss of each site's own answer, in (0, 100].
    delta : float
        The delta of (epsilon', delta)-privacy, in (0, 1).

    Returns
    -------
    float
        The privacy loss of the shuffled reports, from 0 to ``epsilon``.

    Raises
    ------
    ValueError
        If a number is out of range, or sites have more than one record.

    Notes
    -----
    Proof (Feldman, McMillan and Talwar 2021, "Hiding among the clones", theorem 3.1 and
    its numerical form). Write R_0 = w Q + (1-w) Q' and R_1 = (1-w) Q + w Q' with w =
    e^eps / (e^eps + 1) for the two laws of the report that is to be hidden. Any other
    report's law is at least e^-eps times either, so with probability e^-eps it is a
    clone: Q or Q' with equal chance. So the shuffled reports are computed from the
    numbers of Q and Q', (A+D, C-A+1-D) or (A+1-D, C-A+D), with C ~ Bin(m-1, e^-eps), A
    ~ Bin(C, 1/2), D ~ Bern(w).

    The same authors' sharper number of clones, Bin(m-1, 2/(e^eps+1)) (2022), is not
    used: an erratum takes it back except for mechanisms in which every other law is at
    least (R_0 + R_1) / (e^eps + 1), and a private quantile is not one of them.

    Examples
    --------
    >>> round(amplified_epsilon(1000, 1, epsilon=1.0, delta=1e-6), 4)
    0.1824
    """
    m = integer("n_sites", n_sites, low=1)
    if integer("n_points", n_points, low=1) != 1:
        raise ValueError(
            f"n_points must be 1 for amplification by shuffling, got {n_points}: with"
            " more records the mechanism is epsilon-private per record, not between"
            " any two inputs of a site, as the theorem needs. If all other sites'"
            " scores are far away, site 1's bin stays visible in the shuffled reports:"
            " with n=50, m=1000, epsilon=1 and delta=1e-6 the theorem would claim"
            " 0.18, but the loss is at least 0.54 at quantile 0.9 (at the paper's"
            " scale) and 0.998 at quantile 0.5."
        )
    check_epsilon(epsilon)
    local, allowed = float(epsilon), float(fraction("delta", delta))
    if divergence(m, local, 0.0, negligible=1e-9 * allowed) <= allowed:
        return 0.0
    low, high = 0.0, local
    while high - low > 1e-9 * local:
        middle = (low + high) / 2
        if divergence(m, local, middle, negligible=1e-9 * allowed) <= allowed:
            high = middle
        else:
            low = middle
    return high


def divergence(
    n_sites: int, local: float, epsilon: float, *, negligible: float
) -> float:
    """Return the hockey-stick divergence at ``epsilon`` of the two count laws above,
    rounded up.

    Exchanging Q and Q' exchanges the two laws, so both directions have the same
    divergence. Given C = c their likelihood ratio increases in the number of Q, so the
    divergence is a sum over an upper tail, the largest over t of ``u P(X = t-1) -
    (e^epsilon - 1) P(X >= t)`` for X ~ Bin(c, 1/2). One more clone is only more noise,
    so a block of values of C may be counted at its first. At most ``2 negligible`` of
    C's mass is left out of the sum, and counted as if all were revealed.
    """
    # Slow to import, and needed by few.
    from scipy.stats import binom

    clones = binom(n_sites - 1, math.exp(-local))
    first, last = int(max(clones.ppf(negligible), 0)), int(clones.isf(negligible))
    blocks = np.unique(np.linspace(first, last + 1, _BLOCKS + 1).astype(np.int64))
    mass, c = np.maximum(np.diff(clones.cdf(blocks - 1)), 0.0), blocks[:-1]
    left_out = clones.cdf(first - 1) + clones.sf(last)

    u = math.exp(epsilon) * math.expm1(local - epsilon) / (math.exp(local) + 1)
    share = math.expm1(epsilon + local) / ((math.exp(epsilon) + 1) * math.expm1(local))
    best = np.zeros(c.size)
    # The best t is the first above (c + 1) share; rounding may put that one off.
    for t in np.floor((c + 1) * share) + np.array([[0], [1], [2]]):
        gain, loss = (
            u * binom.pmf(t - 1, c, 0.5),
            math.expm1(epsilon) * binom.sf(t - 1, c, 0.5),
        )
        best = np.maximum(best, gain - loss + _ROUNDING * (gain + loss))
    return float(mass @ best + left_out)
