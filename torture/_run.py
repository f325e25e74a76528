"""Sections of the harness, and the runner that tries them seed by seed on all cores."""

import os
import resource
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path


@dataclass(frozen=True)
class Section:
    """One kind of trial.

    Parameters
    ----------
    name : str
        The word for it on the command line.
    tried : str
        What is counted, in the plural.
    invariant : str
        What must hold in each trial, as a sentence.
    trial : callable
        Runs the trial of a seed, and returns how many things were tried; an exception
        is a violation.
    runs, quick : int
        Number of seeds in full, and in ``make test``.
    """

    name: str
    tried: str
    invariant: str
    trial: Callable[[int], int]
    runs: int
    quick: int


@dataclass
class Result:
    """Outcome of a section.

    Parameters
    ----------
    section : Section
        The section.
    tried : int
        How many things were tried.
    seconds : float
        Wall-clock time.
    violations : list
        Seeds, each with the last line of its exception and the whole traceback.
    """

    section: Section
    tried: int = 0
    seconds: float = 0.0
    violations: list[tuple[int, str, str]] = field(default_factory=list)


def run_section(section: Section, seeds: Iterable[int], *, jobs: int = 1) -> Result:
    """Run the trials of a section, in this process or in several."""
    result, start = Result(section), time.perf_counter()
    for seed, tried, line, trace in _run_all(
        partial(_run_trial, section.trial), list(seeds), jobs
    ):
        result.tried += tried
        if line is not None:
            result.violations.append((seed, line, trace))
    result.seconds = time.perf_counter() - start
    return result


Outcome = tuple[int, int, str | None, str]
"""Seed, number of things tried, and the exception with its traceback, if there was one.
"""


def _run_all(
    trial: Callable[[int], Outcome], seeds: list[int], jobs: int
) -> Iterator[Outcome]:
    if jobs == 1:
        yield from map(trial, seeds)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("fork")) as pool:
        yield from pool.map(trial, seeds, chunksize=max(1, len(seeds) // (jobs * 20)))


def _run_trial(trial: Callable[[int], int], seed: int) -> Outcome:
    try:
        return seed, trial(seed), None, ""
    except Exception as error:
        lines = str(error).splitlines() or [""]
        return seed, 1, f"{type(error).__name__}: {lines[0]}", traceback.format_exc()


_MEMORY = 500 * 2**20


def run_limited(action: Callable[[], object]) -> None:
    """Run in a child process that may take 500 MB more than this one; an exception
    there is raised here.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            used = (
                int(Path("/proc/self/statm").read_text().split()[0])
                * resource.getpagesize()
            )
            resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY,) * 2)
            action()
        except BaseException as error:
            os.write(
                writer,
                f"{type(error).__name__}: {error}"[:2000].encode(
                    "utf-8", "backslashreplace"
                ),
            )
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        problem = file.read().decode()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code == 0, f"the reader's process ended with {code}"
    assert not problem, problem
