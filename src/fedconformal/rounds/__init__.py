"""One round, whatever the engine carries it: a question to every site, one answer of each, who is missing.

An engine's adapter calls `pack_plan` and `answer` at its ends of the wire, and hands what comes back to a
`Collection`. Nothing here knows how any number is computed, nor which engine is used.
"""

from fedconformal.rounds._collection import Collection
from fedconformal.rounds._failures import Failure
from fedconformal.rounds._packing import MAX_REPORT_LENGTH, pack_plan, pack_report, unpack_plan, unpack_report
from fedconformal.rounds._site import Site, answer, keep_inside

__all__ = [
    "MAX_REPORT_LENGTH",
    "Collection",
    "Failure",
    "Site",
    "answer",
    "keep_inside",
    "pack_plan",
    "pack_report",
    "unpack_plan",
    "unpack_report",
]
