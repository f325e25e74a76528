"""Tests lie in folders like those of the package; what they share is imported by its plain name."""

import os
import sys
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from hypothesis import settings

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), *sorted(str(folder) for folder in HERE.glob("[a-z]*/"))]

for size in ("COLUMNS", "LINES"):  # the library that reads lines sets them behind Python's back
    os.environ.pop(size, None)

settings.register_profile("fedconformal", deadline=None, derandomize=True)
settings.load_profile("fedconformal")


@contextmanager
def untraced():
    """Do not measure coverage, neither here nor in processes that are started."""
    tracer = sys.modules["coverage"].Coverage.current() if "coverage" in sys.modules else None
    told = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("COVERAGE_PROCESS_")}
    if tracer is not None:
        tracer.stop()
    try:
        yield
    finally:
        os.environ.update(told)
        if tracer is not None:
            tracer.start()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """What repeats many times what other tests run too is not traced, which would double its time."""
    with untraced() if item.get_closest_marker("untraced") else nullcontext():
        return (yield)
