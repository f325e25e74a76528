"""Empirical privacy audit from the bytes of a file to the report: a lower bound on
epsilon.

``python -m torture.privacy`` prints the bound of one audit.
"""

import tempfile
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import beta

import fedconformal as fc
from fedconformal.cli._report import CaseColumns, read_cases
from torture._run import Section

EPSILON, CELLS, CASES = 1.0, 4, 200
DRAWS = 700
FAILURE = 1e-7
"""Probability with which the bound of one audit exceeds the true epsilon by chance."""
ODD = ["1.5", "", "x", '"', "nan", "inf", "7,8,9", "\x00"]


def trial(seed: int) -> int:
    """Audit one pair of files that differ in one record."""
    bound = lower_bound(seed)
    assert bound <= EPSILON, (
        f"epsilon is at least {bound:.3f}, and {EPSILON} was claimed"
    )
    return 2 * DRAWS


SECTION = Section(
    "privacy",
    "private reports of neighbouring files",
    "the lower confidence bound on epsilon (wrong once in 10⁷) is at most the epsilon"
    " that was claimed",
    trial,
    runs=20,
    quick=1,
)


def lower_bound(seed: int) -> float:
    """Return a lower confidence bound on epsilon, from reports of two files that differ
    in one record.

    The event is fixed beforehand, that with the largest ratio of probabilities: the
    first count is at least, and the last at most, what it is without noise. Both
    probabilities are bounded by Clopper and Pearson.
    """
    rng = np.random.default_rng(seed)
    lines = [f"{value:.6f}" for value in rng.random(CASES)]
    place = int(rng.integers(CASES))
    inside, outside = (
        [*lines[:place], record, *lines[place + 1 :]]
        for record in ("0.0", ODD[seed % len(ODD)])
    )
    values = np.array([float(line) for line in inside])
    first, last = (
        np.count_nonzero(values <= 1 / CELLS),
        np.count_nonzero(values > 1 - 1 / CELLS),
    )
    hits, misses = (
        sum(counts[0] >= first and counts[-1] <= last for counts in answer_file(lines))
        for lines in (inside, outside)
    )
    level = FAILURE / 2
    low = beta.ppf(level, hits, DRAWS - hits + 1) if hits else 0.0
    high = beta.ppf(1 - level, misses + 1, DRAWS - misses) if misses < DRAWS else 1.0
    return float(np.log(low / high)) if low > 0 else -np.inf


def answer_file(lines: list[str]) -> list[tuple[int, ...]]:
    """Return the counts of independent reports from one file, each read again and
    charged to a ledger.
    """
    privacy = fc.Privacy(epsilon=EPSILON, bins=fc.Bins.uniform(0, 1, CELLS))
    memory = Path("/dev/shm")  # waiting for a disk is no part of the audit
    with (
        tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder,
        warnings.catch_warnings(action="ignore"),
    ):
        plan = fc.plan(n_sites=3, n_points=CASES, confidence_level=0.5, privacy=privacy)
        path = Path(folder, "scores.csv")
        path.write_text("\n".join(["score", *lines, ""]))
        reports = []
        for i in range(DRAWS):
            if i % 50 == 0:  # a ledger checks all its entries before each answer
                ledger = fc.Ledger.create(Path(folder, f"{i}.db"))
                ledger.set_budget("D", 50 * EPSILON)
            scores = read_cases(plan, path, CaseColumns(), private=True)[1]
            reports.append(
                fc.report(plan, scores, site=f"site {i}", ledger=ledger, dataset="D")
            )
    return [report.payload.counts for report in reports]


if __name__ == "__main__":
    print(
        f"{2 * DRAWS} reports: epsilon is at least {lower_bound(0):.3f}, and {EPSILON}"
        " is claimed"
    )
