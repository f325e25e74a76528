"""Seeded draws of private releases, for simulation only.

Floating-point noise from a seeded generator protects nobody: a site's report must never come from here.
Nothing imports this module until ``fedconformal.privacy.simulate_releases`` is asked for.
"""

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._typing import Ints
from fedconformal.privacy._release import PrivateRelease


def simulate_releases(counts: ArrayLike, release: PrivateRelease, *, rng: np.random.Generator) -> Ints:
    """Simulate one release for each row of counts; this protects nobody.

    Parameters
    ----------
    counts : array of int
        Scores in each bin, along the last axis.
    release : PrivateRelease
        What each site does; its aim must be known.
    rng : numpy.random.Generator
        Where the randomness comes from.

    Returns
    -------
    array of int
        Bins (0 is the first), shape ``counts.shape[:-1]``.

    Raises
    ------
    TypeError
        If ``rng`` is not a generator.

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> privacy = fc.Privacy(8.0, fc.Bins.uniform(0, 1, 10))
    >>> plan = fc.plan(n_sites=5, n_points=100, privacy=privacy)
    >>> counts = plan.bins.place(np.linspace(0, 1, 100))
    >>> rng = np.random.default_rng(0)
    >>> fc.privacy.simulate_releases(counts, plan.releases[0], rng=rng).shape
    ()
    """
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng must be a numpy.random.Generator, got {rng!r}")
    errors = release.rank_errors(counts)
    noise = release.mechanism.noise(rng, errors.shape)
    # Differences are exact in whole numbers, so large errors cost no precision.
    bins: Ints = np.argmax(noise - (errors - errors.min(axis=-1, keepdims=True)) / release.scale, axis=-1)
    return bins
