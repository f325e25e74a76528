"""A promise under watch: monthly checks of 1,000 sites, a million cases in all, put
together.

Every row, its evidence and its lower bound, beside reading the same checks from JSON.
Goal: no longer than reading them, and under a second.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

import fedconformal as fc
from benchmarks._rows import Row, timed
from benchmarks._timing import compare
from fedconformal.documents import Check

GOAL = 1.0
SHORT = {"sites": 100}
LEFT_OUT = "1,000 sites"


def run(
    *, sites: int = 1000, months: int = 12, cases: int = 84, repetitions: int = 5
) -> Iterator[Row]:
    """Sites, months and cases of each site and month; how often it is timed."""
    rng = np.random.default_rng(0)
    calibration = fc.conformalize({f"site {j}": rng.random(50) for j in range(sites)})
    checks = [
        Check(
            calibration=calibration.digest,
            site=f"site {j}",
            period=f"2027-{month:02}",
            n=cases,
            epsilon=None,
            covered=(int(covered),),
        )
        for month in range(1, months + 1)
        for j, covered in enumerate(rng.binomial(cases, 0.9, size=sites))
    ]
    texts = [check.to_json() for check in checks]
    ours = partial(fc.monitoring.watch, calibration, checks)
    ours()
    result = compare(
        [ours] * repetitions, lambda: [Check.from_json(text) for text in texts]
    )
    setting = f"{sites:,} sites, {months} months, {sites * months * cases:,} cases"
    yield timed("monitoring.watch", setting, result, "reading these checks", goal=GOAL)
