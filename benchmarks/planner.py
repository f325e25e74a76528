"""What the planner's page waits for, against what a person feels as immediate.

A page that answers at once is the alternative to a script and a cup of coffee. Goals:
an answer while a slider moves within a tenth of a second; with the row of what another
number of numbers per site would give, which the page adds afterwards, within a second,
and so for sites of different sizes and private reports; the page with its first plan
within 1.5 seconds, in less than a megabyte; and of two hundred questions at once none
is lost.
"""

import http.client
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from statistics import median
from urllib.parse import urlsplit

from benchmarks._rows import ONCE, Figure, Row, beside
from benchmarks._timing import duration, seconds
from fedconformal.pages._planner import answer_plan
from fedconformal.pages._question import PlanQuestion, PrivacyOptions
from fedconformal.pages._server import background
from fedconformal.planning import CRITERIA

Question = Mapping[str, object]
Fetch = Callable[..., tuple[int, bytes]]

WHILE_DRAGGING = 0.1
AT_LEISURE = 1.0
FIRST_PLAN = 1.5
ASSETS = (
    "/",
    *(
        f"/assets/{name}"
        for name in ("common.css", "planner.css", "planner.js", "icon.svg")
    ),
)
PAGE_WEIGHT = 1_000_000
LEVELS = (0.8, 0.85, 0.9, 0.93, 0.95)
MARGINAL = {"criterion": "marginal"}
DRAGS: Mapping[str, Question] = {
    "10,000 sites of 10,000": {"sites": 10_000, "points": 10_000, **MARGINAL},
    "10,000 sites of 10,000, stable": {
        "sites": 10_000,
        "points": 10_000,
        "criterion": "stable",
    },
    "10 sites of 10,000, stable": {
        "sites": 10,
        "points": 10_000,
        "criterion": "stable",
    },
    "10,000 sites of 10,000, conditional": {
        "sites": 10_000,
        "points": 10_000,
        "criterion": "conditional",
    },
    "1,000 sites of 1,000, 50 silent, 5 faulty": {
        "sites": 1000,
        "points": 1000,
        "missing": 50,
        "max_faulty": 5,
        **MARGINAL,
    },
}
SEARCHES: Mapping[str, Question] = {
    "20 sizes": {"points": tuple(range(50, 250, 10)), **MARGINAL},
    "10 private sites of 500": {
        "sites": 10,
        "points": 500,
        "privacy": PrivacyOptions(epsilon=1.0),
        **MARGINAL,
    },
}


def run(
    *,
    drags: Mapping[str, Question] = DRAGS,
    searches: Mapping[str, Question] = SEARCHES,
    at_rest: int = 10_000,
    levels: Sequence[float] = LEVELS,
    at_once: int = 200,
) -> Iterator[Row]:
    """Questions, each asked at several levels; sites and points of a plan at rest; how
    many at once.
    """
    answer_plan(PlanQuestion(sites=2, points=20))  # loads what it needs
    for name, question in drags.items():
        yield _row(
            "answer while dragging",
            name,
            _median_time(question, levels),
            WHILE_DRAGGING,
        )
    for name, question in searches.items():
        yield _row("answer at rest", name, _median_time(question, levels), AT_LEISURE)
    for criterion in CRITERIA:
        question = {"sites": at_rest, "points": at_rest, "criterion": criterion}
        setting = f"{at_rest:,} sites of {at_rest:,}, {criterion}"
        time = _median_time(
            question, [level + 1e-4 for level in levels], compare=True
        )  # none is remembered
        yield _row("answer with its comparison", setting, time, AT_LEISURE)
    with background() as address:
        place = urlsplit(address).netloc
        fetch = partial(_fetch, place)
        yield _row(
            "page and assets",
            "with the first plan",
            seconds(lambda: _first(fetch)),
            FIRST_PLAN,
        )
        weight = sum(len(fetch("GET", path)[1]) for path in ASSETS)
        sizes = Figure(weight / 1000, "kB"), Figure(PAGE_WEIGHT / 1000, "kB")
        yield beside("page and assets", "their weight", *sizes, required=True)
        yield _at_once(fetch, at_once)


def _median_time(
    question: Question, levels: Sequence[float], *, compare: bool = False
) -> float:
    asked = [
        PlanQuestion.model_validate({**question, "confidence_level": level})
        for level in levels
    ]
    return median(
        seconds(partial(answer_plan, each, compare=compare)) for each in asked
    )


def _row(name: str, setting: str, time: float, limit: float) -> Row:
    return beside(name, setting, Figure(time, "s"), Figure(limit, "s"), factor=ONCE)


def _fetch(
    address: str, method: str, path: str, body: object = None
) -> tuple[int, bytes]:
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
    fetch("POST", "/api/plan", {"sites": 10, "points": 100, **MARGINAL})


def _at_once(fetch: Fetch, count: int) -> Row:
    asked = [{"sites": 5 + i % 20, "points": 50 + i, **MARGINAL} for i in range(count)]
    statuses: Sequence[int] = []

    def ask() -> None:
        nonlocal statuses
        with ThreadPoolExecutor(count) as pool:
            statuses = [
                status
                for status, _ in pool.map(partial(fetch, "POST", "/api/plan"), asked)
            ]

    time = seconds(ask)
    good = statuses.count(200)
    return Row(
        "plans answered",
        f"{count} different ones asked for at once",
        ours=Figure(good, "count", f"in {duration(time)}"),
        goal=f"{count}",
        met=good == count,
        required=True,
    )
