"""Private reports: what a site may release, at what cost, and the account it keeps."""

from fedconformal.privacy._bins import Bins
from fedconformal.privacy._ledger import BudgetExceededError, Ledger, LedgerError
from fedconformal.privacy._release import Cost, expected_cost, one_hot, pmf
from fedconformal.privacy._rule import Privacy
from fedconformal.privacy._shuffling import amplified_epsilon

__all__ = [
    "Bins",
    "BudgetExceededError",
    "Cost",
    "Ledger",
    "LedgerError",
    "Privacy",
    "amplified_epsilon",
    "expected_cost",
    "one_hot",
    "pmf",
]
