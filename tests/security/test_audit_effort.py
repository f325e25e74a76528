"""Whatever a calibration says, ``verify`` and ``certificate`` answer within seconds and 500 MB."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hostile_calibrations import CASES, calibration

from fedconformal.audit import Recount, verify
from fedconformal.audit._effort import Effort, UncountableError

PROGRAM = Path(__file__).with_name("hostile_calibrations.py")


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform == "win32", reason="no resource limits")
def test_an_answer_within_the_limits():
    """A certificate is verified first."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *CASES],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {name: end for name, end in found.items() if end[0] != 0} == {}  # negative: ended by a signal
    assert set(found) == set(CASES)
    assert all(said for _, said in found.values())


@pytest.mark.slow
def test_what_is_given_up_is_not_counted_and_says_why():
    findings = verify(calibration([10**6 + i for i in range(500)], weights=[2**20 - i for i in range(500)]))
    (given_up,) = [finding for finding in findings if finding.holds is None]
    assert given_up.verdict == "not counted"
    assert "more than can be recounted" in given_up.found


def test_all_recounts_share_one_effort():
    effort = Effort()
    effort.spend(9e8, "most of it")
    with pytest.raises(UncountableError, match="the rest: more than can be recounted within seconds"):
        effort.spend(2e8, "the rest")
    assert effort.allows(1e8)
    assert not effort.allows(2e8)
    assert Effort(3).allows(2.9e9)


def test_equal_sites_are_counted_together():
    """Ten million sites take no longer than ten: they are one entry."""
    few = Recount([9, 9], [(8, 9), (8, 9)], 3)
    assert Recount([9], [(8, 9)], 3, counts=[2]).exact_moments() == few.exact_moments()
    many = Recount([100], [91], 5 * 10**6, counts=[10**7])
    assert many.moments()[0] == pytest.approx(0.9, abs=0.01)
