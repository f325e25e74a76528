"""Where a round's content sits in Flower's messages."""

from dataclasses import dataclass

from flwr.app import ArrayRecord, ConfigRecord, Error, Message, RecordDict

from fedconformal._text import quoted
from fedconformal.rounds import Failure, Unexpected

RECORD = "conformal"
ARRAYS = "arrays"


@dataclass(frozen=True)
class Query:
    """A kind of question, and where it and its answer sit."""

    action: str
    asked: str
    answered: str

    @property
    def message_type(self) -> str:
        """As Flower routes it."""
        return f"query.{self.action}"

    def content(self, packed: bytes, arrays: ArrayRecord | None) -> RecordDict:
        """The content of the message to every site."""
        content = RecordDict({RECORD: ConfigRecord({self.asked: packed})})
        if arrays is not None:
            content[ARRAYS] = arrays
        return content

    def asked_in(self, message: Message) -> object:
        """What a site is asked to answer, whatever it is; only a model may come with it."""
        return _alone(message.content, self.asked, beside=ARRAYS)

    def reply(self, answer: str | Failure, message: Message) -> Message:
        """A site's reply: its answer, or a code."""
        if isinstance(answer, Failure):
            return failure(answer, message)
        return Message(RecordDict({RECORD: ConfigRecord({self.answered: answer})}), reply_to=message)

    def answered_in(self, message: Message) -> object:
        """What a reply carries, whatever it is; nothing may come with it."""
        return _alone(message.content, self.answered)


CALIBRATE = Query("conformal", "plan", "report")
CHECK = Query("conformal_check", "calibration", "check")


def arrays_in(message: Message) -> ArrayRecord:
    """The model that came with the question; empty if none did."""
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

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> from flwr.app import ArrayRecord
    >>> digest = model_digest(ArrayRecord([np.zeros((3, 2))]))
    >>> plan = fc.plan(n_sites=10, n_points=79, model=digest)
    >>> plan.model == digest
    True
    """
    return f"sha256:{arrays.object_id}"


def failure(code: Failure, message: Message) -> Message:
    """A site's reply where there is no answer."""
    return Message(Error(code=int(code), reason=code.meaning), reply_to=message)


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
