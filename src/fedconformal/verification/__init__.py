"""The law of coverage by a second path, for auditors: see `fedconformal.audit`."""

from fedconformal.verification._recount import MEAN_ERROR, Recount

__all__ = ["MEAN_ERROR", "Recount"]
