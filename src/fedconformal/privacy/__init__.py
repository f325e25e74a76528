"""Private reports: grids, noise, and the account that a site keeps."""

from collections.abc import Mapping
from typing import Any

from fedconformal._extras import call_higher
from fedconformal.privacy._bins import Bins, Privacy
from fedconformal.privacy._ledger import (
    BudgetExceededError,
    Ledger,
    Quote,
    exact_text,
    fingerprint,
    keyed_generator,
)
from fedconformal.privacy._ledger_file import Entry, LedgerAccessWarning, LedgerError
from fedconformal.privacy._mechanisms import (
    CountNoise,
    PrivateQuantile,
    prepare_count,
    prepare_noisy_counts,
    scale_noise,
    simulate_noisy_counts,
)
from fedconformal.privacy._shuffling import amplified_epsilon

__all__ = ["Bins", "Ledger", "Privacy", "amplified_epsilon", "simulate"]


def simulate(plan: Any, scores: Mapping[str, Any], rng: Any) -> Any:
    """Simulate a round of a private plan without groups, with seeded noise, which
    protects nobody.

    Parameters
    ----------
    plan : Plan
        A private plan.
    scores : mapping from str to array-like
        The scores of each site.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    Calibration

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> rng = np.random.default_rng(0)
    >>> privacy = fc.Privacy(1.0, fc.Bins.uniform(0, 1, 50))
    >>> plan = fc.plan(n_points=dict.fromkeys("ABCDE", 400), privacy=privacy)
    >>> calibration = fc.privacy.simulate(
    ...     plan, {site: rng.random(400) for site in "ABCDE"}, rng
    ... )
    >>> 0.8 < calibration.threshold <= 1
    True
    """
    return call_higher("protocol.simulate", plan, scores, rng)
