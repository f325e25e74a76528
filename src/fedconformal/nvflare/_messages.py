"""Content of a round in FLARE's messages, and in the configuration of a job."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.shareable import ReservedHeaderKey, Shareable, make_reply

from fedconformal._text import quoted
from fedconformal.documents import Plan
from fedconformal.rounds import Failure, Unexpected

MODEL, FAILURE = "model", "failure"

Model = Mapping[str, Any]
"""Parameters of a model by their names, as in FLARE's ``FLModel.params``."""

_CODES = frozenset(value for name, value in vars(ReturnCode).items() if name.isupper())


@dataclass(frozen=True)
class Question:
    """A kind of question: its task, and the fields of the question and of its answer."""

    task: str
    asked: str
    answered: str

    def data(self, packed: bytes, model: Model | None) -> Shareable:
        """Return the data of the task for every site."""
        return Shareable({self.asked: packed, **({} if model is None else {MODEL: dict(model)})})

    def read_question(self, task: Shareable) -> object:
        """Return the question to a site, of any type; only a model may come with it."""
        return _read_only_field(task, self.asked, beside=MODEL)

    def reply(self, answer: str | Failure) -> Shareable:
        """Return a site's reply: its answer, or a code."""
        failed = isinstance(answer, Failure)
        reply = make_reply(ReturnCode.EXECUTION_EXCEPTION if failed else ReturnCode.OK)
        reply.update({FAILURE: int(answer)} if isinstance(answer, Failure) else {self.answered: answer})
        return reply

    def read_answer(self, result: Shareable) -> object:
        """Return the answer in a reply, of any type; nothing may come with it."""
        return _read_only_field(result, self.answered)


CALIBRATE = Question("conformal", "plan", "report")
CHECK = Question("conformal_check", "calibration", "check")

TASK, CHECK_TASK = CALIBRATE.task, CHECK.task
"""Names of the tasks that ask a site for its report, and for its check."""


def read_model(task: Shareable) -> dict[str, Any]:
    """Return the model that came with the question; empty if none did."""
    model = task.get(MODEL)
    return dict(model) if isinstance(model, Mapping) else {}


def read_failure(result: Shareable) -> int | None:
    """Return the code that came instead of an answer; None if there is none."""
    code = result.get(FAILURE)
    if isinstance(code, int):
        return int(code)
    return None if result.get_return_code() == ReturnCode.OK else int(Failure.SITE)


def read_return_code(result: Shareable) -> str:
    """Return FLARE's own code of the outcome; any other text is not repeated."""
    code = result.get_return_code()
    return str(code) if isinstance(code, str) and code in _CODES else "unknown"


def model_digest(model: Model) -> str:
    """Return the digest of a model that travels with a plan, for ``fedconformal.plan(terms={"model": ...})``.

    Parameters
    ----------
    model : mapping
        The parameters by their names, as `calibrate` sends them: arrays, numbers, texts, and lists or
        mappings of these.

    Returns
    -------
    str
        A SHA-256 of names, types, shapes and values.

    Examples
    --------
    >>> import numpy as np
    >>> model_digest({"w": np.zeros(3), "b": 0.5}) == model_digest({"b": 0.5, "w": np.zeros(3)})
    True
    """
    digest = hashlib.sha256()
    for part in _list_parts(model):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return f"sha256:{digest.hexdigest()}"


def _list_parts(value: object) -> Iterator[bytes]:
    """Yield a value as byte strings, the same for equal values regardless of the order of names."""
    if isinstance(value, Mapping):
        yield f"mapping of {len(value)}".encode()
        for name in sorted(value, key=str):
            yield str(name).encode()
            yield from _list_parts(value[name])
    elif isinstance(value, list | tuple):
        yield f"list of {len(value)}".encode()
        for item in value:
            yield from _list_parts(item)
    elif isinstance(value, bytes):
        yield b"bytes"
        yield value
    else:
        array = np.asarray(value)
        if array.dtype.hasobject:
            raise ValueError(f"model must hold arrays, numbers and texts, got {type(value).__name__}")
        yield f"{array.dtype.str}{array.shape}".encode()
        yield array.tobytes()


def write_plan(plan: Plan) -> str:
    """Write a plan for the configuration of a job: its JSON with round brackets for braces.

    FLARE takes text in braces there for a variable, and a mapping with certain keys for a component.
    """
    return _STRING.sub(_escape_brackets, plan.to_json(indent=None)).translate(_TO_ROUND)


def read_plan(text: str) -> Plan:
    """Read the plan in the configuration of a job."""
    return Plan.from_json(text.translate(_FROM_ROUND))


_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_TO_ROUND, _FROM_ROUND = str.maketrans("{}", "()"), str.maketrans("()", "{}")
_ESCAPES = {ord(bracket): f"\\u{ord(bracket):04x}" for bracket in "{}()"}


def _escape_brackets(string: re.Match[str]) -> str:
    return string[0].translate(_ESCAPES)


def _read_only_field(content: Shareable, field: str, *, beside: str | None = None) -> object:
    """Return the only field of ours, refusing a message with anything else in it."""
    unexpected = [str(key) for key in content if key not in (ReservedHeaderKey.HEADERS, field, beside)]
    if unexpected:
        return Unexpected(f"the message carries {quoted(unexpected)} beside the {field}")
    return content.get(field)
