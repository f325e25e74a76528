"""What the planner's page waits for: answers while a slider moves, and two hundred at once."""

import http.client
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from statistics import median
from urllib.parse import urlsplit

from benchmarks._timing import Row, duration, seconds
from fedconformal.planner import background
from fedconformal.planner._answers import answer
from fedconformal.planner._app import ASSETS
from fedconformal.planner._questions import PlanRequest, PrivacyWish

WHILE_DRAGGING = 0.1
FIRST_PLAN = 1.5
PAGE_WEIGHT = 1_000_000
AT_ONCE = 200
LEVELS = (0.8, 0.85, 0.9, 0.93, 0.95)
# Asked at several levels, so that nothing is remembered.
DRAGS = {
    "10,000 sites of 10,000": {"sites": 10_000, "points": 10_000},
    "10,000 sites of 10,000, stable": {"sites": 10_000, "points": 10_000, "criterion": "stable"},
    "10 sites of 10,000, stable": {"sites": 10, "points": 10_000, "criterion": "stable"},
    "10,000 sites of 10,000, conditional": {"sites": 10_000, "points": 10_000, "criterion": "conditional"},
    "1,000 sites of 1,000, 50 silent, 5 faulty": {
        "sites": 1000,
        "points": 1000,
        "missing": 50,
        "max_faulty": 5,
    },
    "draft, 20 sizes": {"points": tuple(range(50, 250, 10))},
    "draft, 10 private sites of 500": {"sites": 10, "points": 500, "privacy": PrivacyWish(epsilon=1.0)},
    "draft, 10,000 private sites of 10,000": {
        "sites": 10_000,
        "points": 10_000,
        "privacy": PrivacyWish(epsilon=1.0, bins=1000),
    },
}


def run() -> Iterator[Row]:
    answer(PlanRequest(sites=2, points=20))  # loads what it needs
    for name, question in DRAGS.items():
        time = _median_time({**question, "draft": True})
        yield _row(f"answer while dragging: {name}", time, WHILE_DRAGGING)
    for criterion in ("marginal", "stable", "conditional"):
        time = _median_time({"sites": 10_000, "points": 10_000, "criterion": criterion})
        yield _row(f"best plan at rest: 10,000 sites of 10,000, {criterion}", time, WHILE_DRAGGING)
    with background() as address:
        place = urlsplit(address).netloc
        fetch = partial(_fetch, place)
        yield _row("page, assets and first plan", seconds(lambda: _first(fetch)), FIRST_PLAN)
        weight = sum(len(fetch("GET", path)[1]) for path in ASSETS)
        yield Row(
            what="page and assets",
            ours=f"{weight / 1000:.0f} kB",
            goal=f"< {PAGE_WEIGHT / 1000:,.0f} kB",
            met=weight < PAGE_WEIGHT,
            required=True,
        )
        yield _at_once(fetch)


def _median_time(question: dict[str, object]) -> float:
    requests = [PlanRequest.model_validate({**question, "confidence_level": level}) for level in LEVELS]
    return median(seconds(partial(answer, request)) for request in requests)


def _row(what: str, time: float, limit: float) -> Row:
    return Row(
        what=what,
        ours=duration(time),
        anchor=duration(limit),
        ratio=f"{time / limit:.3f}",
        goal="< 1",
        met=time < limit,
    )


Fetch = Callable[..., tuple[int, bytes]]


def _fetch(address: str, method: str, path: str, body: object = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(address, timeout=120)
    content = None if body is None else json.dumps(body)
    connection.request(method, path, content, {"Content-Type": "application/json"})
    response = connection.getresponse()
    result = response.status, response.read()
    connection.close()
    return result


def _first(fetch: Fetch) -> None:
    for path in ASSETS:
        fetch("GET", path)
    fetch("POST", "/api/plan", {"sites": 10, "points": 100, "draft": True})


def _at_once(fetch: Fetch) -> Row:
    asked = [{"sites": 5 + i % 20, "points": 50 + i, "draft": True} for i in range(AT_ONCE)]
    statuses: Sequence[int] = []

    def ask() -> None:
        nonlocal statuses
        with ThreadPoolExecutor(AT_ONCE) as pool:
            statuses = [status for status, _ in pool.map(partial(fetch, "POST", "/api/plan"), asked)]

    time = seconds(ask)
    good = statuses.count(200)
    return Row(
        what=f"{AT_ONCE} different plans asked for at once",
        ours=f"{good} answered in {duration(time)}",
        goal=f"{AT_ONCE} answered",
        met=good == AT_ONCE,
        required=True,
    )
