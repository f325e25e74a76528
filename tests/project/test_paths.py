"""Everyday calls pass through few files, counted by the interpreter's own profiler."""

import sys

import numpy as np
import pytest

import fedconformal as fc

SIZES = {"north": 120, "south": 40, "west": 377}
SCORES = {site: np.random.default_rng(n).random(n) for site, n in SIZES.items()}


def path_of(call):
    """Return the files of the package that a call runs through."""
    files = set()

    def note(frame, event, _):
        code = frame.f_code
        _, ours, file = code.co_filename.rpartition("src/fedconformal/")
        if (
            event == "call"
            and ours
            and file != "__init__.py"
            and "<" not in code.co_name
        ):
            files.add(file)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return sorted(files)


@pytest.fixture(scope="module")
def plan():
    return fc.plan(n_points=SIZES, numbers=3)


@pytest.fixture(scope="module")
def calibration(plan):
    return fc.calibrate(
        plan, [fc.report(plan, SCORES[site], site=site) for site in SIZES]
    )


def test_a_report(plan):
    files = path_of(lambda: fc.report(plan, SCORES["north"], site="north"))
    assert len(files) <= 10, files


def test_a_plan_for_uneven_sites_with_three_numbers(plan):
    files = path_of(
        lambda: fc.plan(n_points={"north": 121, "south": 41, "west": 378}, numbers=3)
    )
    assert len(files) <= 20, files


def test_a_verification(calibration):
    verify = fc.audit.verify  # imported before it is counted
    files = path_of(lambda: verify(calibration))
    assert len(files) <= 12, files
