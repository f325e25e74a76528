"""Private reports: what a site may release, at what cost, and the account it keeps."""

from typing import TYPE_CHECKING, Any

from fedconformal.privacy._aims import Aim, Balanced, Slopes
from fedconformal.privacy._bins import Bins
from fedconformal.privacy._count import CountNoise, prepare_count
from fedconformal.privacy._expected import (
    MOST_DRAWS,
    ExpectedCoverage,
    Releases,
    draws_for,
    even,
    expected_coverage,
    ranks_seen,
)
from fedconformal.privacy._ledger import BudgetExceededError, Ledger, Quote, exact_text, fingerprint
from fedconformal.privacy._ledger_file import Entry, LedgerAccessWarning, LedgerError
from fedconformal.privacy._loss import LARGEST_EPSILON, SMALLEST_EPSILON
from fedconformal.privacy._privacy import Privacy
from fedconformal.privacy._private_plan import Cost, expected_cost, one_hot, pmf
from fedconformal.privacy._release import PrivateRelease
from fedconformal.privacy._released import Released, Tabulated
from fedconformal.privacy._shapes import SHAPES
from fedconformal.privacy._shuffling import amplified_epsilon
from fedconformal.privacy.analyses import ANALYSES, Analysis, PrivateChoice, PrivateSearch
from fedconformal.privacy.mechanisms import MECHANISMS, Mechanism

if TYPE_CHECKING:
    from fedconformal.privacy._simulation import simulate_releases

__all__ = [
    "ANALYSES",
    "LARGEST_EPSILON",
    "MECHANISMS",
    "MOST_DRAWS",
    "SHAPES",
    "SMALLEST_EPSILON",
    "Aim",
    "Analysis",
    "Balanced",
    "Bins",
    "BudgetExceededError",
    "Cost",
    "CountNoise",
    "Entry",
    "ExpectedCoverage",
    "Ledger",
    "LedgerAccessWarning",
    "LedgerError",
    "Mechanism",
    "Privacy",
    "PrivateChoice",
    "PrivateRelease",
    "PrivateSearch",
    "Quote",
    "Released",
    "Releases",
    "Slopes",
    "Tabulated",
    "amplified_epsilon",
    "draws_for",
    "even",
    "exact_text",
    "expected_cost",
    "expected_coverage",
    "fingerprint",
    "one_hot",
    "pmf",
    "prepare_count",
    "ranks_seen",
    "simulate_releases",
]


def __getattr__(name: str) -> Any:
    """Load seeded noise only when it is asked for by name, so that no report can come from it by accident."""
    if name == "simulate_releases":
        from fedconformal.privacy._simulation import simulate_releases

        return simulate_releases
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
