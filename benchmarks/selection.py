"""A site's selection: against numpy's own partition, and from a file that is larger than it should hold."""

import math
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

import fedconformal as fc
from benchmarks._timing import Row, duration, peak_memory, seconds, summarise

IN_MEMORY = 10**7
IN_FILE = 10**8
PART = 10**7
REPETITIONS = 15
GOAL = 1.5
MEMORY_LIMIT = 2000
DISK_NEEDED = 3e9  # the parts and the file made of them are there at once
COMMAND = """
import runpy, sys
sys.argv = ["fedconformal", "report", {plan!r}, {scores!r}, "--site", "A", "--yes", "-o", {report!r}]
try:
    runpy.run_module("fedconformal", run_name="__main__")
except SystemExit as end:
    assert not end.code, end.code
"""


def run() -> Iterator[Row]:
    yield from _in_memory()
    yield from _in_file()


def _in_memory() -> Iterator[Row]:
    plan = fc.plan(n_sites=10)
    scores = np.random.default_rng(7).random(IN_MEMORY)
    place = plan.ranks_for(scores.size)[0] - 1
    answer = partial(fc.report, plan, site="A")
    if answer(scores).value != np.partition(scores, place)[place]:
        raise RuntimeError("the report does not hold the score of its rank")
    theirs = partial(np.partition, kth=place)
    yield _row("report(plan, scores)", answer, theirs, scores, anchor="numpy.partition")
    in_place = partial(answer, in_place=True)
    what = "report(plan, scores, in_place=True)"
    yield _row(what, in_place, theirs, scores, anchor="numpy.partition")
    yield _row(what, in_place, partial(np.ndarray.partition, kth=place), scores, anchor="partition in place")


def _row(
    what: str,
    ours: Callable[[np.ndarray], object],
    theirs: Callable[[np.ndarray], object],
    scores: np.ndarray,
    *,
    anchor: str,
) -> Row:
    """Each call gets a copy made just before it: untouched, and equally warm in the cache."""
    pairs = []
    for _ in range(REPETITIONS):
        ours_once = seconds(partial(ours, scores.copy()))
        pairs.append((ours_once, seconds(partial(theirs, scores.copy()))))
    result = summarise(pairs)
    return Row(
        what=f"{what}, {IN_MEMORY:,} scores",
        ours=duration(result.ours),
        anchor=f"{duration(result.anchor)} ({anchor})",
        ratio=f"{result.ratio:.2f}",
        goal=f"<= {GOAL:g}",
        met=result.ratio <= GOAL,
    )


def _in_file() -> Iterator[Row]:
    what = f"fedconformal report, {IN_FILE:,} scores in Parquet"
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if free < DISK_NEEDED:
        yield Row(what, f"skipped: {free / 1e9:.1f} GB of disk free, {DISK_NEEDED / 1e9:.0f} GB needed")
        return
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        plan, scores, report = (directory / file for file in ("plan.json", "big.parquet", "out.json"))
        plan.write_text(fc.plan(n_sites=10).to_json())
        _write(scores)
        program = COMMAND.format(plan=str(plan), scores=str(scores), report=str(report))
        peaks: list[int] = []
        time = seconds(lambda: peaks.append(peak_memory(program)))
        _check(fc.Report.from_json(report.read_text()), scores)
    peak = peaks[0] / 1e6
    yield Row(
        what=f"{what}: peak memory of its process",
        ours=f"{peak:.0f} MB (in {duration(time)})",
        anchor=f"{MEMORY_LIMIT} MB",
        ratio=f"{peak / MEMORY_LIMIT:.2f}",
        goal="< 1",
        met=peak < MEMORY_LIMIT,
    )


def _write(path: Path) -> None:
    """Uniform scores, never all in memory: parts first, then one file streamed from them."""
    rng = np.random.default_rng(8)
    parts = [path.with_name(f"part-{i}.parquet") for i in range(IN_FILE // PART)]
    for part in parts:
        pl.DataFrame({"score": rng.random(PART)}).write_parquet(part)
    pl.scan_parquet(parts).sink_parquet(path)
    for part in parts:
        part.unlink()


def _check(report: fc.Report, path: Path) -> None:
    """A small peak is worth nothing if the answer is wrong."""
    score = pl.col("score")
    below, upto = (
        pl.scan_parquet(path)
        .select(below=(score < report.value).sum(), upto=(score <= report.value).sum())
        .collect()
        .row(0)
    )
    if report.n != IN_FILE or not (math.isfinite(report.value) and below < report.ranks[0] <= upto):
        raise RuntimeError(f"rank {report.ranks[0]} was asked, {below} scores are below the one sent")
