"""One round, whatever the engine carries it: a question to every site, one answer of each, who is missing.

An engine's adapter calls `pack_plan` and `answer` at its ends of the wire, and hands what comes back to a
`Collection`, which keeps it in a `Folder` if it is given one; `pack_calibration`, `answer_check` and
`CheckCollection` are the same for checks. Nothing here knows how any number is computed, nor which engine is
used.
"""

from fedconformal.rounds._collection import CheckCollection, Collection
from fedconformal.rounds._folder import PLAN_FILE, Folder, read_reports
from fedconformal.rounds._packing import (
    Failure,
    Unexpected,
    longest_report,
    pack_calibration,
    pack_plan,
    pack_report,
    unpack_calibration,
    unpack_check,
    unpack_plan,
    unpack_report,
)
from fedconformal.rounds._site import Site, answer, answer_check, keep_inside

__all__ = [
    "PLAN_FILE",
    "CheckCollection",
    "Collection",
    "Failure",
    "Folder",
    "Site",
    "Unexpected",
    "answer",
    "answer_check",
    "keep_inside",
    "longest_report",
    "pack_calibration",
    "pack_plan",
    "pack_report",
    "read_reports",
    "unpack_calibration",
    "unpack_check",
    "unpack_plan",
    "unpack_report",
]
