"""The server's half of a round of very many sites, against reading their reports.

A collection takes reports as they arrive, from sites without registered names, and
calibrates. It stands beside reading the same reports, each one individually, which
nobody can do without. Goal: at most 1.5 times that. With a folder every report is
written to the disk, too: a server that is interrupted half-way and starts again stands
beside one that is not; goal: at most 1.2 times that, in processor time.
"""

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import fedconformal as fc
from benchmarks._rows import Row, memory, timed
from benchmarks._timing import peak_memory, seconds, summarise
from fedconformal import rounds

GOAL, RESTARTED, MEMORY = 1.5, 1.2, 500
LOG = logging.getLogger("fedconformal.benchmarks")
MOST = """
from benchmarks.collecting import Arriving, collect
arriving = Arriving({sites})
collect(arriving.plan, arriving)
"""


def run(
    *, sites: int = 20_000, most: int = 100_000, repetitions: int = 5
) -> Iterator[Row]:
    arriving = Arriving(sites)
    plan, texts = arriving.plan, [arriving[i] for i in range(sites)]
    setting = f"{sites:,} sites"
    ours, theirs = partial(collect, plan, texts), partial(read, texts)
    pairs = [
        (seconds(ours, process_time), seconds(theirs, process_time))
        for _ in range(repetitions)
    ]
    words = "reading the reports"
    yield timed("receive and calibrate", setting, summarise(pairs), words, goal=GOAL)
    pairs = [
        (interrupted(plan, texts, stops=1), interrupted(plan, texts, stops=0))
        for _ in range(repetitions)
    ]
    words = "without the interruption"
    yield timed(
        "with a folder, interrupted half-way",
        setting,
        summarise(pairs),
        words,
        goal=RESTARTED,
    )
    peak = peak_memory(MOST.format(sites=most))
    yield memory("peak memory of that process", f"{most:,} sites", peak, MEMORY)


class Arriving(Sequence[str]):
    """The report of each site as it travels, made when it arrives."""

    def __init__(self, sites: int) -> None:
        self.plan, self._sites = fc.plan(n_sites=sites, n_points=50), sites
        self._first = fc.report(self.plan, range(50), site="site 0")

    def __len__(self) -> int:
        return self._sites

    def __getitem__(self, site: Any) -> Any:
        return self._first.model_copy(update={"site": f"site {site}"}).to_json(
            indent=None
        )


def read(texts: Sequence[str]) -> list[fc.Report]:
    return [fc.Report.from_json(text) for text in texts]


def collect(
    plan: fc.Plan,
    texts: Sequence[str],
    folder: Path | None = None,
    *,
    most: int | None = None,
) -> fc.Calibration | None:
    """Collect the reports that are not there yet, up to ``most``, and calibrate if all
    are.
    """
    nodes = dict.fromkeys(range(len(texts)), "")
    kept = None if folder is None else rounds.Folder(folder, plan)
    collection = rounds.ReportCollection(
        plan, nodes, engine="a benchmark", log=LOG, folder=kept
    )
    for node in collection.to_ask[:most]:
        collection.receive(node, texts[node])
    return (
        None
        if collection.to_ask
        else collection.calibrate(timeout=1, on_refused="raise")
    )


def interrupted(plan: fc.Plan, texts: Sequence[str], *, stops: int) -> float:
    """Processor time of a round that is kept in a folder and starts again after so many
    interruptions.
    """
    with TemporaryDirectory() as folder:
        portion = -(-len(texts) // (stops + 1))
        start = process_time()
        for _ in range(stops + 1):
            made = collect(plan, texts, Path(folder), most=portion)
        used = process_time() - start
    if made is None or made.n_answers != len(texts):
        raise RuntimeError("not every report was counted")
    return used
