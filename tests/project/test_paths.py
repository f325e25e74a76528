"""Everyday calls pass through few files and functions, counted by the interpreter's own profiler."""

import sys

import numpy as np
import pytest

import fedconformal as fc

SIZES = {"north": 120, "south": 40, "west": 377}
SCORES = {site: np.random.default_rng(n).random(n) for site, n in SIZES.items()}


def path_of(call):
    """Return the files of the package, and the number of its functions, that a call runs through."""
    functions = set()

    def note(frame, event, _):
        code = frame.f_code
        _, ours, file = code.co_filename.rpartition("src/fedconformal/")
        if event == "call" and ours and file != "__init__.py" and "<" not in code.co_name:
            functions.add((file, code.co_qualname))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return sorted({file for file, _ in functions}), len(functions)


@pytest.fixture(scope="module")
def plan():
    return fc.plan(n_points=SIZES, numbers=3)


@pytest.fixture(scope="module")
def calibration(plan):
    return fc.calibrate(plan, [fc.report(plan, SCORES[site], site=site) for site in SIZES])


def test_a_report(plan):
    files, functions = path_of(lambda: fc.report(plan, SCORES["north"], site="north"))
    assert len(files) <= 10, files
    assert functions <= 58


def test_a_plan_for_uneven_sites_with_three_numbers(plan):
    files, functions = path_of(lambda: fc.plan(n_points={"north": 121, "south": 41, "west": 378}, numbers=3))
    assert len(files) <= 20, files
    assert functions <= 183


def test_a_verification(calibration):
    verify = fc.audit.verify  # imported before it is counted
    files, functions = path_of(lambda: verify(calibration))
    assert len(files) <= 12, files
    assert functions <= 116
