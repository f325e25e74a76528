"""Random and hostile questions to the planner: each is answered or refused, within a
budget.
"""

import json
import random
import resource
import signal
from typing import Any
from urllib.parse import urlencode

import anyio
from starlette.applications import Starlette

from fedconformal.pages import create_app
from torture._run import Section, run_limited
from torture.documents import mutate

SECONDS, PER_SEED = 2, 8
_START = 2.0  # seconds to load the libraries of a worker
_MEGABYTES = 700  # of a worker with its libraries
_PATHS = ("plan", "plan", "promises", "cases", "document")
_LARGE: tuple[dict[str, Any], ...] = (
    {"sites": 10_000, "points": 1_000_000, "numbers": 20, "max_faulty": 4_000},
    {
        "sites": 10_000,
        "points": 1_000_000,
        "privacy": {"epsilon": 0.001, "bins": 1000, "analysis": "paper"},
    },
    {"sites": 10_000, "points": 1_000_000, "privacy": {"epsilon": 0.001, "bins": 1000}},
    {"sites": 10_000, "points": 7, "numbers": 5, "max_faulty": 4_000},
    {"points": [999_900, 999_940] * 1000, "numbers": 20},
)


def make_question(rng: random.Random) -> bytes:
    """Return the body of a question: one that takes long, or random values in all
    fields, perhaps damaged.
    """
    sites = rng.choice((1, 3, 10, 40, 10_000))
    question: dict[str, Any] = {
        "sites": sites,
        "points": rng.choice((1, 19, 300, 10**6)),
    }
    if rng.random() < 0.3:
        sizes = [rng.choice((5, 50, 77, 10**6)) for _ in range(min(sites, 200))]
        names = [
            rng.choice("aµ\ufdfaＡ") * rng.choice((1, 100)) + str(i)
            for i in range(len(sizes))
        ]
        question = {"points": sizes, **({"names": names} if rng.random() < 0.5 else {})}
    options: dict[str, Any] = {
        "confidence_level": rng.choice((0.01, 0.5, 0.9, 0.9999)),
        "promise": rng.choice(("population", "each-site", "mixture", "new-site")),
        "criterion": rng.choice(("marginal", "stable", "conditional")),
        "delta": rng.choice((0.0001, 0.1, 0.5)),
        "max_faulty": rng.choice((0, 1, sites // 3)),
        "numbers": rng.choice((1, 2, 20)),
        "missing": rng.choice((0, 1, sites - 1)),
        "max_missing": rng.choice((0, sites - 1)),
        "score": rng.choice(("absolute", "lac", "raps")),
        "curve": {"bins": rng.choice((2, 1000))},
        "privacy": {
            "epsilon": rng.choice((0.001, 1, 100)),
            "bins": rng.choice((2, 100, 1000)),
            "analysis": rng.choice(("curve", "paper")),
        },
    }
    question |= {name: value for name, value in options.items() if rng.random() < 0.25}
    if rng.random() < 0.15:
        question = rng.choice(_LARGE)
    text = json.dumps(question).encode()
    return mutate(text, rng) if rng.random() < 0.15 else text


async def ask(app: Starlette, path: str, query: str, body: bytes) -> tuple[int, bytes]:
    """Return status and body of the answer of an application in this process."""
    status, answer, is_answered, parts = 0, b"", anyio.Event(), [body]

    async def receive() -> dict[str, Any]:
        if parts:
            return {"type": "http.request", "body": parts.pop(), "more_body": False}
        await is_answered.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        nonlocal status, answer
        status = message.get("status", status)
        answer += message.get("body", b"")
        if message["type"] == "http.response.body" and not message.get("more_body"):
            is_answered.set()

    scope = {
        **{"type": "http", "http_version": "1.1", "scheme": "http", "method": "POST"},
        **{
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
        },
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
    }
    await app(scope, receive, send)
    return status, answer


async def judge(questions: list[tuple[str, str, bytes]]) -> None:
    """Ask all questions; one that takes the time of the server itself ends this
    process.
    """
    app = create_app(seconds=SECONDS)
    async with app.router.lifespan_context(app):
        for path, query, body in questions:
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            status, answer = await ask(app, path, query, body)
            assert status in (200, 422), f"status {status} for {body[:200]!r}"
            if status == 422:
                (sentence,) = json.loads(answer).values()
                assert "\n" not in sentence, f"a refusal of several lines: {sentence!r}"
                assert len(sentence) < 400, f"a refusal of {len(sentence)} characters"
    signal.setitimer(signal.ITIMER_PROF, 0)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    most = len(questions) * (SECONDS + _START) + 3 * _START
    assert used.ru_utime + used.ru_stime < most, (
        f"workers took {used.ru_utime + used.ru_stime:.1f} s"
    )
    # A worker begins as a copy of this process, which may be larger.
    largest = max(
        _MEGABYTES * 2**10, 1.02 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    )
    assert used.ru_maxrss < largest, f"a worker took {used.ru_maxrss >> 10} MB"


def question_planner(seed: int) -> int:
    """Ask the planner in a process of its own."""
    rng = random.Random(seed)
    questions = []
    for _ in range(PER_SEED):
        options = {
            "coverage": rng.choice(("0.88", "0.99", "nan")),
            "compare": rng.choice(("yes", "no")),
        }
        questions.append(
            (f"/api/{rng.choice(_PATHS)}", urlencode(options), make_question(rng))
        )
    run_limited(lambda: anyio.run(judge, questions))
    return PER_SEED


SECTION = Section(
    "planner",
    "hostile questions to the planner",
    f"answered, or refused in one line, with a budget of {SECONDS} s and 500 MB each",
    question_planner,
    runs=60,
    quick=1,
)
