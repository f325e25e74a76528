"""Answers to questions to the planner, in processes of their own with a budget of time
and memory.

The cost of a question is not known beforehand. So a worker reads and answers it, and is
stopped when its budget is spent or nobody waits any more, while the server goes on.
"""

import json
import math
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from pydantic import ValidationError

from fedconformal.documents import first_problem
from fedconformal.pages._desk import DESK
from fedconformal.pages._planner import answer_cases, answer_plan, make_plan
from fedconformal.pages._promises import answer_promises
from fedconformal.pages._question import PlanQuestion

MEGABYTES = 500
"""Memory that a worker may take beyond what its libraries take, where the system can
limit it.
"""

_LONGEST = 2**27  # bytes of an answer


class Reply(NamedTuple):
    """Status, content type and text of an answer; ``is_last`` if the worker takes no
    further question.
    """

    status: int
    kind: str
    text: str
    is_last: bool = False


def refuse(sentence: str, status: int = 422) -> Reply:
    """Return a refusal with its reason in one sentence, under ``error``."""
    return Reply(status, "application/json", json.dumps({"error": sentence}))


def answer(
    name: str, body: bytes, options: Mapping[str, str], folder: Path | None = None
) -> Reply:
    """Answer a question to ``/api/name`` with the options of its address, or do what
    the desk is asked to.

    Examples
    --------
    >>> answer("cases", b'{"sites": 10, "points": 79}', {"coverage": "0.88"}).text
    'You need at least 85 cases per site (checked up to 340).'
    """
    try:
        if folder is not None and name in DESK:
            return Reply(200, "text/html", DESK[name](folder, body))
        return ANSWERS[name](PlanQuestion.model_validate_json(body), options)
    except ValidationError as error:
        return refuse(first_problem(error).removeprefix("content: "))
    except ValueError as error:
        return refuse(str(error))


def plan(question: PlanQuestion, options: Mapping[str, str]) -> Reply:
    """Return what the page shows of a plan."""
    width = int(min(max(_number(options, "width", "720"), 280), 1200))
    return Reply(
        200,
        "text/html",
        answer_plan(question, compare=options.get("compare") == "yes", width=width),
    )


def promises(question: PlanQuestion, options: Mapping[str, str]) -> Reply:
    """Return the promises side by side."""
    return Reply(200, "text/html", answer_promises(question))


def cases(question: PlanQuestion, options: Mapping[str, str]) -> Reply:
    """Return the sentence that says how many cases every site needs."""
    return Reply(
        200, "text/plain", answer_cases(question, _number(options, "coverage"))
    )


def document(question: PlanQuestion, options: Mapping[str, str]) -> Reply:
    """Return the plan itself."""
    return Reply(200, "application/json", make_plan(question).to_json() + "\n")


ANSWERS: dict[str, Callable[[PlanQuestion, Mapping[str, str]], Reply]] = {
    function.__name__: function for function in (plan, promises, cases, document)
}
"""Answers by the end of their address."""


def _number(options: Mapping[str, str], name: str, default: str = "nan") -> float:
    try:
        number = float(options.get(name, default))
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise ValueError(f"{name} must be a number")
    return number


# -- the worker: a question in a line, an answer in a line -----------------------------


def work(questions: BinaryIO, answers: BinaryIO, folder: Path | None = None) -> None:
    """Answer questions until there are no more, within the time of each and the memory
    of all.
    """
    start = _memory()
    if start:
        import resource

        most, hard = (
            start + MEGABYTES * 2**20,
            resource.getrlimit(resource.RLIMIT_AS)[1],
        )
        resource.setrlimit(
            resource.RLIMIT_AS, (most if hard < 0 else min(most, hard), hard)
        )
    for line in questions:
        seconds, name, body, options = json.loads(line)
        _limit_time(seconds)
        try:
            reply = answer(name, body.encode("latin-1"), options, folder)
        except MemoryError:
            return
        except Exception:
            traceback.print_exc()
            reply = refuse("the planner failed", 500)
        _limit_time(0)
        is_last = (
            _memory() > start + MEGABYTES * 2**19
        )  # what is remembered leaves too little
        answers.write(json.dumps(reply._replace(is_last=is_last)).encode() + b"\n")
        answers.flush()


def _memory() -> int:
    """Return the size of the address space in bytes; 0 where the system does not
    tell.
    """
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[0])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _limit_time(seconds: float) -> None:
    """Let the system end this process after some time on the processor; 0 takes the
    limit away.
    """
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, seconds)


def main(folder: str | None) -> None:
    """Work for the process that started this one."""
    answers, sys.stdout = sys.stdout.buffer, sys.stderr
    work(sys.stdin.buffer, answers, None if folder is None else Path(folder))


# -- workers of a server ---------------------------------------------------------------


class Workers:
    """Processes that answer, started ahead so that nobody waits for one.

    Parameters
    ----------
    seconds : float
        Time on the processor for one answer, where the system can limit it.
    folder : Path, optional
        Folder of the desk.
    """

    def __init__(self, seconds: float, folder: Path | None = None) -> None:
        self.seconds, self.folder = seconds, folder
        self._idle: list[Process] = []

    async def start(self) -> None:
        """Start a worker; it loads its libraries while others wait for nothing."""
        folder = None if self.folder is None else str(self.folder)
        code = (
            f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import main;"
            f" main({folder!r})"
        )
        process = await anyio.open_process(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None,
            start_new_session=True,  # Ctrl-C is for the server
        )
        self._idle.append(process)

    async def stop(self) -> None:
        """End all workers that are idle; others end with their question."""
        while self._idle:
            await _end(self._idle.pop())

    async def ask(
        self, name: str, body: bytes, options: Mapping[str, str]
    ) -> Reply | None:
        """Return the answer of a worker, or None if it was too much; a cancelled worker
        is killed.
        """
        if not self._idle:
            await self.start()
        process, reply = self._idle.pop(), None
        question: list[Any] = [
            self.seconds,
            name,
            body.decode("latin-1"),
            dict(options),
        ]
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            await process.stdin.send(json.dumps(question).encode() + b"\n")
            line = await BufferedByteReceiveStream(process.stdout).receive_until(
                b"\n", _LONGEST
            )
            reply = Reply(*json.loads(line))
        except (anyio.IncompleteRead, anyio.BrokenResourceError):
            await process.wait()
        finally:
            if reply is not None and not reply.is_last:
                self._idle.append(process)
            else:
                with anyio.CancelScope(shield=True):
                    await _end(process)
                    await self.start()
        return reply


async def _end(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    await process.aclose()
