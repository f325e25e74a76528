"""Private reports: grids, noise, and the account that a site keeps."""

from typing import TYPE_CHECKING, Any

from fedconformal.privacy._bins import Bins
from fedconformal.privacy._count import CountNoise, prepare_count
from fedconformal.privacy._ledger import BudgetExceededError, Ledger, Quote, exact_text, fingerprint
from fedconformal.privacy._ledger_file import Entry, LedgerAccessWarning, LedgerError
from fedconformal.privacy._noise import prepare_noisy_counts, scale_noise, simulate_noisy_counts
from fedconformal.privacy._privacy import Privacy
from fedconformal.privacy._quantile import PrivateQuantile
from fedconformal.privacy._shuffling import amplified_epsilon

if TYPE_CHECKING:
    from fedconformal.protocol import simulate

__all__ = [
    "Bins",
    "BudgetExceededError",
    "CountNoise",
    "Entry",
    "Ledger",
    "LedgerAccessWarning",
    "LedgerError",
    "Privacy",
    "PrivateQuantile",
    "Quote",
    "amplified_epsilon",
    "exact_text",
    "fingerprint",
    "prepare_count",
    "prepare_noisy_counts",
    "scale_noise",
    "simulate",
    "simulate_noisy_counts",
]


def __getattr__(name: str) -> Any:
    """Load seeded noise only when it is asked for by name, so that no report can come from it by accident."""
    if name == "simulate":
        from importlib import import_module

        return import_module("fedconformal.protocol").simulate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
