"""What travels between the server and a site: a plan, perhaps a model, and a report or a fixed code."""

import enum
import zlib
from functools import lru_cache

from flwr.app import ArrayRecord, ConfigRecord, Error, Message, RecordDict

from fedconformal.documents import DocumentError, Plan, Report
from fedconformal.documents._base import MAX_BYTES

ACTION = "conformal"
"""The action of the query: messages are of type ``query.conformal``."""

RECORD = "conformal"
ARRAYS = "arrays"
MAX_REPORT_LENGTH = 2**16
"""A report is some hundred characters long; whoever sends much more means harm."""


class Failure(enum.IntEnum):
    """Why a site sent no report. The number is all that travels; the reason stays in the site's own log."""

    SITE = 100
    PLAN = 101
    SCORES = 102
    REPORT = 103
    BUDGET = 104

    @property
    def meaning(self) -> str:
        """The code in words, the same for every site and every error."""
        return _MEANINGS[self]

    def error(self) -> Error:
        """What is sent instead of a report."""
        return Error(code=int(self), reason=self.meaning)


_MEANINGS = {
    Failure.SITE: "the site failed; its own log says why",
    Failure.PLAN: "the site could not read the plan; its own log says why",
    Failure.SCORES: "the site could not compute its scores; its own log says why",
    Failure.REPORT: "the site could not answer this plan; its own log says why",
    Failure.BUDGET: "the site's privacy ledger refused an answer; its own log says why",
}


def question(plan: Plan, arrays: ArrayRecord | None) -> RecordDict:
    """The content of the message to every site."""
    content = RecordDict(
        {RECORD: ConfigRecord({"plan": zlib.compress(plan.to_json(indent=None).encode(), 9)})}
    )
    if arrays is not None:
        content[ARRAYS] = arrays
    return content


def plan_in(message: Message) -> Plan:
    """The plan that a site is asked to answer."""
    packed = message.content.config_records[RECORD]["plan"]
    if not isinstance(packed, bytes):
        raise DocumentError("the message carries no plan")
    return _unpacked(packed)


@lru_cache(maxsize=4)
def _unpacked(packed: bytes) -> Plan:
    """Read a plan; simulated sites share a process and get the same one."""
    unpacking = zlib.decompressobj()
    text = unpacking.decompress(packed, MAX_BYTES)
    if not unpacking.eof or unpacking.unused_data:
        raise DocumentError("the plan in the message is cut short, too large, or not alone")
    return Plan.from_json(text)


def arrays_in(message: Message) -> ArrayRecord:
    """The model that came with the plan; empty if none did."""
    return message.content.array_records.get(ARRAYS) or ArrayRecord()


def answer(report: Report) -> RecordDict:
    """The content of a site's reply."""
    return RecordDict({RECORD: ConfigRecord({"report": report.to_json(indent=None)})})


def report_in(message: Message) -> Report:
    """The report that a reply carries."""
    record = message.content.config_records.get(RECORD)
    text = None if record is None else record.get("report")
    if not isinstance(text, str):
        raise DocumentError("the reply carries no report")
    if len(text) > MAX_REPORT_LENGTH:
        raise DocumentError(f"a report of {len(text)} characters, more than {MAX_REPORT_LENGTH}")
    return Report.from_json(text)
