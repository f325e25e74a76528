"""What importing the core costs and what it must not load."""

from collections.abc import Callable, Iterator
from functools import partial

from benchmarks._timing import Row, python, ratio_row, seconds, summarise

OURS = "from fedconformal import calibrate, plan, report"
ANCHOR = "import scipy.special, pydantic"
HEAVY = ("sklearn", "matplotlib", "flwr", "opendp")
STATEMENT = "import time; start = time.perf_counter(); {}; print(time.perf_counter() - start)"
LOADED = "import sys; {}; print(*sorted({{name.split('.')[0] for name in sys.modules}} & {{{}}}))"
GOAL = 2.0


def run(*, repetitions: int = 15) -> Iterator[Row]:
    for program in (OURS, ANCHOR):  # compiled files and the disk's cache
        _process(program)
    yield _row("python -c 'import ...', the whole process", _process, repetitions)
    yield _row("the import statement alone", _statement, repetitions)
    loaded = python(LOADED.format(OURS, ", ".join(map(repr, HEAVY)))).split()
    yield Row(
        what=f"loads {', '.join(HEAVY)}",
        ours=", ".join(loaded) or "none",
        goal="none",
        met=not loaded,
    )


def _process(program: str) -> float:
    return seconds(partial(python, program))


def _statement(program: str) -> float:
    return float(python(STATEMENT.format(program)))


def _row(what: str, measure: Callable[[str], float], repetitions: int) -> Row:
    result = summarise([(measure(OURS), measure(ANCHOR)) for _ in range(repetitions)])
    return ratio_row(what, result, ANCHOR, goal=GOAL)
