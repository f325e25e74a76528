"""What importing the core costs, against importing what it needs itself, and a Flower
client against Flower.

Whoever writes such a tool by hand imports scipy and a library for documents too. Goal:
at most twice their time, and none of the heavy packages that extras bring. Flower
starts a process for every message to a site, so what a client app imports is paid in
every round: at most 1.2 times what Flower's own imports take.
"""

from collections.abc import Callable, Iterator
from functools import partial

from benchmarks._rows import Figure, Row, timed
from benchmarks._timing import python, seconds, summarise

OURS = "from fedconformal import calibrate, plan, report"
YARDSTICK = "import scipy.special, pydantic"
HEAVY = ("sklearn", "matplotlib", "flwr", "opendp")
STATEMENT = (
    "import time; start = time.perf_counter(); {}; print(time.perf_counter() - start)"
)
LOADED = (
    "import sys; {}; print(*sorted({{name.split('.')[0] for name in sys.modules}} &"
    " {{{}}}))"
)
GOAL = 2.0
CLIENT_FLOOR = (
    "from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict; "
    "from flwr.clientapp import ClientApp"
)
CLIENT = f"{CLIENT_FLOOR}; from fedconformal.flower import add_conformal, sealed"
CPU = "{}; import time; print(time.process_time())"
GOAL_CLIENT = 1.2


def run(*, repetitions: int = 15) -> Iterator[Row]:
    for program in (OURS, YARDSTICK):  # compiled files and the disk's cache
        _process(program)
    yield _row("the whole process", _process, repetitions)
    yield _row("the statement alone", _statement, repetitions)
    loaded = python(LOADED.format(OURS, ", ".join(map(repr, HEAVY)))).split()
    yield Row(
        "packages loaded",
        f"of {', '.join(HEAVY)}",
        ours=Figure(len(loaded), "count", ", ".join(loaded)),
        goal="0",
        met=not loaded,
    )
    clients = [
        (_processor(CLIENT), _processor(CLIENT_FLOOR)) for _ in range(repetitions + 1)
    ][1:]
    words = "the same without fedconformal"
    yield timed(
        "import of a Flower client",
        "CPU time",
        summarise(clients),
        words,
        goal=GOAL_CLIENT,
    )


def _process(program: str) -> float:
    return seconds(partial(python, program))


def _statement(program: str) -> float:
    return float(python(STATEMENT.format(program)))


def _processor(program: str) -> float:
    return float(python(CPU.format(program)))


def _row(setting: str, measure: Callable[[str], float], repetitions: int) -> Row:
    result = summarise(
        [(measure(OURS), measure(YARDSTICK)) for _ in range(repetitions)]
    )
    return timed("import", setting, result, YARDSTICK, goal=GOAL)
