"""Where a round's content sits in Flower's messages."""

from flwr.app import ArrayRecord, ConfigRecord, Error, Message, RecordDict

from fedconformal._text import quoted
from fedconformal.documents import Plan
from fedconformal.rounds import Failure, Unexpected, pack_plan

ACTION = "conformal"
"""The action of the query: messages are of type ``query.conformal``."""

RECORD = "conformal"
ARRAYS = "arrays"


def question(plan: Plan, arrays: ArrayRecord | None) -> RecordDict:
    """The content of the message to every site."""
    content = RecordDict({RECORD: ConfigRecord({"plan": pack_plan(plan)})})
    if arrays is not None:
        content[ARRAYS] = arrays
    return content


def plan_in(message: Message) -> object:
    """The packed plan that a site is asked to answer, whatever it is; only a model may come with it."""
    return _alone(message.content, "plan", beside=ARRAYS)


def arrays_in(message: Message) -> ArrayRecord:
    """The model that came with the plan; empty if none did."""
    return message.content.array_records.get(ARRAYS) or ArrayRecord()


def model_digest(arrays: ArrayRecord) -> str:
    """The digest of a model that travels as arrays, for ``fedconformal.plan(model=...)``.

    Parameters
    ----------
    arrays : ArrayRecord
        The model, as `calibrate` sends it.

    Returns
    -------
    str
        Flower's own SHA-256 of its content.
    """
    return f"sha256:{arrays.object_id}"


def reply(answer: str | Failure, message: Message) -> Message:
    """A site's reply: its report, or a code."""
    if isinstance(answer, Failure):
        return Message(Error(code=int(answer), reason=answer.meaning), reply_to=message)
    return Message(RecordDict({RECORD: ConfigRecord({"report": answer})}), reply_to=message)


def report_in(message: Message) -> object:
    """The packed report that a reply carries, whatever it is; nothing may come with it."""
    return _alone(message.content, "report")


def _alone(content: RecordDict, field: str, *, beside: str | None = None) -> object:
    """The one field of our record, unless anything came with it that nobody asked for."""
    record = content.config_records.get(RECORD)
    if record is None:
        return None
    strange = [
        *(key for key in record if key != field),
        *(key for key in content if key not in (RECORD, beside)),
    ]
    if strange:
        return Unexpected(f"the message carries {quoted(strange)} beside the {field}")
    return record.get(field)
