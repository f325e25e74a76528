"""Content of a round in Flower's messages."""

from dataclasses import dataclass

from flwr.app import ArrayRecord, ConfigRecord, Error, Message, RecordDict

from fedconformal._text import quoted
from fedconformal.rounds import Failure, Unexpected

RECORD = "conformal"
ARRAYS = "arrays"


@dataclass(frozen=True)
class Query:
    """A kind of question: its action, and the fields of the question and of its answer."""

    action: str
    asked: str
    answered: str

    @property
    def message_type(self) -> str:
        """Message type, by which Flower routes."""
        return f"query.{self.action}"

    def content(self, packed: bytes, arrays: ArrayRecord | None) -> RecordDict:
        """Return the content of the message to every site."""
        content = RecordDict({RECORD: ConfigRecord({self.asked: packed})})
        if arrays is not None:
            content[ARRAYS] = arrays
        return content

    def read_question(self, message: Message) -> object:
        """Return the question to a site, of any type; only a model may come with it."""
        return _read_only_field(message.content, self.asked, beside=ARRAYS)

    def reply(self, answer: str | Failure, message: Message) -> Message:
        """Return a site's reply: its answer, or a code."""
        if isinstance(answer, Failure):
            return reply_failure(answer, message)
        return Message(RecordDict({RECORD: ConfigRecord({self.answered: answer})}), reply_to=message)

    def read_answer(self, message: Message) -> object:
        """Return the answer in a reply, of any type; nothing may come with it."""
        return _read_only_field(message.content, self.answered)


CALIBRATE = Query("conformal", "plan", "report")
CHECK = Query("conformal_check", "calibration", "check")


def read_arrays(message: Message) -> ArrayRecord:
    """Return the model that came with the question; empty if none did."""
    return message.content.array_records.get(ARRAYS) or ArrayRecord()


def model_digest(arrays: ArrayRecord) -> str:
    """Return the digest of a model that travels as arrays, for ``fedconformal.plan(terms={"model": ...})``.

    Parameters
    ----------
    arrays : ArrayRecord
        The model, as `calibrate` sends it.

    Returns
    -------
    str
        Flower's own SHA-256 of its content.

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> from flwr.app import ArrayRecord
    >>> digest = model_digest(ArrayRecord([np.zeros((3, 2))]))
    >>> plan = fc.plan(n_sites=10, n_points=79, terms={"model": digest})
    >>> plan.terms.model == digest
    True
    """
    return f"sha256:{arrays.object_id}"


def reply_failure(code: Failure, message: Message) -> Message:
    """Return a site's reply where there is no answer."""
    return Message(Error(code=int(code), reason=code.meaning), reply_to=message)


def _read_only_field(content: RecordDict, field: str, *, beside: str | None = None) -> object:
    """Return the only field of our record, refusing a message with anything else in it."""
    record = content.config_records.get(RECORD)
    if record is None:
        return None
    unexpected = [
        *(key for key in record if key != field),
        *(key for key in content if key not in (RECORD, beside)),
    ]
    if unexpected:
        return Unexpected(f"the message carries {quoted(unexpected)} beside the {field}")
    return record.get(field)
