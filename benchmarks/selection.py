"""A site's report, against numpy's own partition, and from a file larger than it should
hold.

`report` selects the score of a rank; by hand one would call `numpy.partition`, which
does no check and writes no document. Goal: at most 1.5 times its time, and at most
2,000 MB for a hundred million scores in a Parquet file.
"""

import math
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

import fedconformal as fc
from benchmarks._rows import Figure, Row, memory, timed
from benchmarks._timing import Comparison, duration, peak_memory, seconds, summarise

GOAL = 1.5
MEMORY_LIMIT = 2000
BYTES_EACH = (
    30  # of a score on disk: the parts and the file made of them are there at once
)
Selection = Callable[[np.ndarray], object]

COMMAND = """
import runpy, sys
sys.argv = ["fedconformal", "report", {plan!r}, {scores!r}]
sys.argv += ["--site", "A", "--yes", "-o", {report!r}]
try:
    runpy.run_module("fedconformal", run_name="__main__")
except SystemExit as end:
    assert not end.code, end.code
"""


def run(
    *,
    in_memory: int = 10**7,
    in_file: int = 10**8,
    part: int = 10**7,
    repetitions: int = 15,
) -> Iterator[Row]:
    """So many scores in memory and in a file, the file written in parts."""
    yield from _in_memory(in_memory, repetitions)
    yield from _in_file(in_file, part)


def _in_memory(n: int, repetitions: int) -> Iterator[Row]:
    plan = fc.plan(n_sites=10)
    scores = np.random.default_rng(7).random(n)
    answer = partial(fc.report, plan, site="A")
    report = answer(scores)
    rank, value = _sent(report)
    place = rank - 1
    if value != np.partition(scores, place)[place]:
        raise RuntimeError("the report does not hold the score of its rank")
    theirs = partial(np.partition, kth=place)
    in_place = partial(answer, in_place=True)
    theirs_in_place = partial(np.ndarray.partition, kth=place)
    for name, ours, other, words in (
        ("report", answer, theirs, "numpy.partition"),
        ("report in place", in_place, theirs, "numpy.partition"),
        (
            "report in place, beside the same",
            in_place,
            theirs_in_place,
            "partition in place",
        ),
    ):
        result = _timed(ours, other, scores, repetitions)
        yield timed(name, f"{n:,} scores", result, words, goal=GOAL)


def _sent(report: fc.Report) -> tuple[int, float]:
    """The rank that a report answers, and the score that it holds."""
    (level,) = report.payload.levels
    (rank,) = level.ranks
    (value,) = level.values
    return rank, value


def _timed(
    ours: Selection, theirs: Selection, scores: np.ndarray, repetitions: int
) -> Comparison:
    """Each call gets a copy made just before it: untouched, and equally warm in the
    cache.
    """
    pairs = []
    for _ in range(repetitions):
        ours_once = seconds(partial(ours, scores.copy()))
        pairs.append((ours_once, seconds(partial(theirs, scores.copy()))))
    return summarise(pairs)


def _in_file(n: int, part: int) -> Iterator[Row]:
    name, setting = (
        "fedconformal report, peak memory of its process",
        f"{n:,} scores in Parquet",
    )
    free, needed = shutil.disk_usage(tempfile.gettempdir()).free, n * BYTES_EACH
    if free < needed:
        skipped = (
            f"skipped: {free / 1e9:.1f} GB of disk free, {needed / 1e9:.0f} GB needed"
        )
        yield Row(name, setting, Figure(None, words=skipped))
        return
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        plan, scores, report = (
            directory / file for file in ("plan.json", "big.parquet", "out.json")
        )
        plan.write_text(fc.plan(n_sites=10).to_json())
        _write(scores, n, part)
        program = COMMAND.format(plan=str(plan), scores=str(scores), report=str(report))
        peaks: list[int] = []
        time = seconds(lambda: peaks.append(peak_memory(program)))
        _check(fc.Report.from_json(report.read_text()), scores, n)
    yield memory(name, setting, peaks[0], MEMORY_LIMIT, words=f"in {duration(time)}")


def _write(path: Path, n: int, size: int) -> None:
    """Uniform scores, never all in memory: parts first, then one file streamed from
    them.
    """
    rng = np.random.default_rng(8)
    parts = [path.with_name(f"part-{i}.parquet") for i in range(n // size)]
    for part in parts:
        pl.DataFrame({"score": rng.random(size)}).write_parquet(part)
    pl.scan_parquet(parts).sink_parquet(path)
    for part in parts:
        part.unlink()


def _check(report: fc.Report, path: Path, n: int) -> None:
    """A small peak is worth nothing if the answer is wrong."""
    rank, value = _sent(report)
    score = pl.col("score")
    below, upto = (
        pl.scan_parquet(path)
        .select(below=(score < value).sum(), upto=(score <= value).sum())
        .collect()
        .row(0)
    )
    if report.n != n or not (math.isfinite(value) and below < rank <= upto):
        raise RuntimeError(
            f"rank {rank} was asked, {below} scores are below the one sent"
        )
