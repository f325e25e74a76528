"""The law of coverage, against exact integers, brute force and fifty digits.

What one would use instead is the paper's formula in exact integers, which is far
slower, or brute-force integration. Goals: every mean within 1e-12; every table rising
in both ranks; small probabilities within one part in 1e9, down to 1e-300; no nan up to
a million sites of a million points. All of them are required. No clock is involved.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from time import perf_counter

import mpmath  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

import fedconformal as fc
from benchmarks import exact_integers, vote_laws
from benchmarks._rows import Figure, Row, beside
from benchmarks._timing import duration

TOLERANCE = 1e-12
TAIL_TOLERANCE = 1e-9  # relative
TAILS = (1e-3, 1e-10, 1e-30, 1e-100, 1e-300)
TABLES = (
    (100, 100),
    (30, 300),
    (300, 30),
    (1000, 10),
    (10, 1000),
    (1, 3000),
    (3000, 1),
)
SIZES = (1, 2, 3, 1000, 10**6)
LEVELS = np.array([0.0, 1e-9, 0.1, 0.5, 0.9, 1 - 1e-9, 1.0])

Arguments = tuple[int, int, int, int]
Array = NDArray[np.float64]


def run(
    *,
    tiny: int = 40,
    small: int = 400,
    large: int = 10_000,
    n_random: int = 200,
    tables: Sequence[tuple[int, int]] = TABLES,
    sizes: Sequence[int] = SIZES,
    n_pairs: int = 50,
    n_uneven: int = 100,
    n_tails: int = 25,
) -> Iterator[Row]:
    """Products mn up to which figures are checked, and how many random ones there are
    beyond.
    """
    yield _oracle(tiny)
    yield from _small_tables(small)
    yield _random_cases(small, large, n_random)
    yield _large_tables(tables)
    yield from _extremes(sizes)
    yield _order_of_neighbours(max(sizes), n_pairs)
    yield _very_uneven(n_uneven)
    yield from _far_tails(n_tails)


def _oracle(limit: int) -> Row:
    start = perf_counter()
    count = exact_integers.count_agreements(limit)
    took = duration(perf_counter() - start)
    ours = Figure(count, "count", f"equal, in {took}")
    return _row(
        "entries of the exact oracle that equal Theorem 3.2",
        f"mn <= {limit}",
        ours,
        "all",
        True,
    )


def _small_tables(limit: int) -> Iterator[Row]:
    """Every entry of every table with mn up to the limit."""
    worst, entries, gap, ours_took, exact_took = 0.0, 0, np.inf, 0.0, 0.0
    shapes = exact_integers.shapes(limit)
    for m, n in shapes:
        start = perf_counter()
        ours = np.asarray(fc.coverage_table(n_sites=m, n_points=n))
        between = perf_counter()
        exact = exact_integers.table(m, n)
        ours_took, exact_took = (
            ours_took + between - start,
            exact_took + perf_counter() - between,
        )
        worst, gap, entries = (
            max(worst, _error(ours, exact)),
            min(gap, _gap(ours)),
            entries + exact.size,
        )
    setting = f"every (l, k), mn <= {limit}: {len(shapes)} tables, {entries} entries"
    words = f"exact integers in {duration(exact_took)}, ours in {duration(ours_took)}"
    yield _error_row(setting, worst, words)
    yield _order_row("the same tables, rising in l and k", gap)


def _random_cases(small: int, large: int, count: int) -> Row:
    cases = _cases(small, large, count)
    worst = max(
        _error(_law(*case).mean(), exact_integers.mean(*case)) for case in cases
    )
    largest = max(m * n for m, n, _, _ in cases)
    return _error_row(
        f"{count} random laws, {small} < mn <= {largest}", worst, "exact integers"
    )


def _cases(small: int, limit: int, count: int) -> list[Arguments]:
    """Random federations, alternately with any ranks and with ranks of a level near
    0.9.
    """
    rng = np.random.default_rng(2)
    cases = []
    for i in range(count):
        total = (
            int(np.exp(rng.uniform(np.log(small + 1), np.log(limit)))) if i else limit
        )
        m = int(np.exp(rng.uniform(0, np.log(total)))) if i else int(limit**0.5)
        n = total // m
        ell, k = int(rng.integers(1, n + 1)), int(rng.integers(1, m + 1))
        if i % 2 == 0:
            ell = min(max(round(rng.normal(0.9 * n, 0.3 * n**0.5)), 1), n)
            k = min(max(round((m + 1) * float(betainc(ell, n - ell + 1, 0.9))), 1), m)
        cases.append((m, n, ell, k))
    return cases


def _large_tables(shapes: Sequence[tuple[int, int]]) -> Row:
    gap = min(
        _gap(np.asarray(fc.coverage_table(n_sites=m, n_points=n))) for m, n in shapes
    )
    names = ", ".join(f"{m}x{n}" for m, n in shapes)
    return _order_row(f"whole tables {names}", gap)


def _extremes(sizes: Sequence[int]) -> Iterator[Row]:
    """Corners and middles of every m, n among these sizes: finite, and right where a
    closed form exists.
    """
    cases = [
        (m, n, ell, k)
        for m, n in product(sizes, sizes)
        for ell in _ranks(n)
        for k in _ranks(m)
    ]
    bad = [case for case in cases if not _is_sound(*case)]
    found = Figure(len(bad), "count", f"first {bad[0]}" if bad else "")
    setting = f"{len(cases)} laws up to m = n = {_power(max(sizes))}"
    yield _row("laws with nan or out of range", setting, found, "0", not bad)
    closed = [
        (case, value) for case in cases if (value := _closed_form(*case)) is not None
    ]
    worst = max(_error(_law(*case).mean(), value) for case, value in closed)
    yield _error_row(
        f"{len(closed)} of them against closed forms (l = n, n = 1, m = 1)",
        worst,
        "closed form",
    )


def _ranks(size: int) -> list[int]:
    return sorted(
        {1, min(2, size), (size + 1) // 2, -(-9 * size // 10), max(size - 1, 1), size}
    )


def _is_sound(m: int, n: int, ell: int, k: int) -> bool:
    law = _law(m, n, ell, k)
    mean, std, quantiles = (
        float(law.mean()),
        float(law.std()),
        np.asarray(law.ppf(LEVELS)),
    )
    cdf, sf = np.asarray(law.cdf(LEVELS)), np.asarray(law.sf(LEVELS))
    numbers = np.concatenate([[mean, std], quantiles, cdf, sf])
    return (
        bool(np.all((numbers >= 0) & (numbers <= 1)))
        and 0 < mean < 1
        and all(bool(np.all(np.diff(values) >= 0)) for values in (quantiles, cdf, -sf))
    )


def _closed_form(m: int, n: int, ell: int, k: int) -> float | None:
    if n == 1:
        return k / (m + 1)
    if m == 1:
        return ell / (n + 1)
    if ell == n:  # Gamma(k+1/n) Gamma(m+1) / (Gamma(k) Gamma(m+1+1/n))
        with mpmath.workdps(50):
            part = mpmath.mpf(1) / n
            return float(mpmath.gammaprod([k + part, m + 1], [k, m + 1 + part]))
    return None


def _order_of_neighbours(size: int, count: int) -> Row:
    """One rank higher means more coverage, also where neighbours differ in the ninth
    digit.
    """
    rng, gap = np.random.default_rng(3), np.inf
    for _ in range(count):
        ell, k = (int(rank) for rank in rng.integers(1, size, size=2))
        square = [
            [_law(size, size, ell + up, k + right).mean() for right in (0, 1)]
            for up in (0, 1)
        ]
        gap = min(gap, _gap(np.array(square)))
    return _order_row(
        f"{count} random pairs and their neighbours, m = n = {_power(size)}", gap
    )


def _very_uneven(count: int, largest: int = 10**9) -> Row:
    """Sites of 3 to a billion points with any votes: steps of all widths in one law."""
    rng = np.random.default_rng(4)
    drawn = [vote_laws.federation(rng, 3, largest) for _ in range(count)]
    worst = max(_error(given.ours.mean(), vote_laws.mean(given)) for given in drawn)
    return _error_row(
        f"{count} laws of votes, sites of 3 to {_power(largest)} points",
        worst,
        "brute-force integration",
    )


def _far_tails(count: int) -> Iterator[Row]:
    """Where our cdf, or for equal sites our sf, falls to each of the tails, against
    fifty digits.
    """
    rng, low, high = np.random.default_rng(5), [], []
    for _ in range(count):
        given = vote_laws.federation(rng, 3, 300)
        law = given.ours
        low += [
            _relative(law.cdf(c), vote_laws.tail(given, c))
            for c in _places(law.cdf, rising=True)
        ]
        m, n = (int(size) for size in rng.integers(2, 30, size=2))
        equal = (m, n, int(rng.integers(1, n + 1)), int(rng.integers(1, m + 1)))
        sf = _law(*equal).sf
        high += [
            _relative(sf(c), vote_laws.upper_tail(*equal, c))
            for c in _places(sf, rising=False)
        ]
    yield _tail_row(
        f"{len(low)} probabilities of votes P(C <= c) down to {min(TAILS):g}", max(low)
    )
    yield _tail_row(
        f"{len(high)} probabilities P(C > c) of equal sites down to {min(TAILS):g}",
        max(high),
    )


def _places(probability: Callable[[float], float], *, rising: bool) -> list[float]:
    """Coverages at which a probability falls to each of the tails, where floats are
    fine enough.
    """
    return [
        c
        for tail in TAILS
        if probability(c := _place(probability, tail, rising=rising)) > tail / 1e3
    ]


def _place(
    probability: Callable[[float], float], tail: float, *, rising: bool
) -> float:
    """The place of one tail, by bisection in the logarithm of the distance from 0 or
    from 1.
    """
    near, far = -0.7, -740.0
    for _ in range(60):
        middle = (near + far) / 2
        c = np.exp(middle) if rising else 1 - np.exp(middle)
        near, far = (middle, far) if probability(c) > tail else (near, middle)
    return float(np.exp(far) if rising else 1 - np.exp(far))


def _relative(ours: float, exact: mpmath.mpf) -> float:
    return float(abs(mpmath.mpf(float(ours)) / exact - 1))


def _tail_row(setting: str, worst: float) -> Row:
    allowed = Figure(
        TAIL_TOLERANCE, "error", f"allowed, from {vote_laws.DIGITS} digits"
    )
    return beside(
        "largest relative error",
        setting,
        Figure(worst, "error"),
        allowed,
        required=True,
    )


def _power(size: int) -> str:
    """10^6 for a million."""
    exponent = len(str(size)) - 1
    return f"10^{exponent}" if size == 10**exponent else str(size)


def _law(m: int, n: int, ell: int, k: int) -> fc.CoverageLaw:
    return fc.CoverageLaw(n_sites=m, n_points=n, local_rank=ell, server_rank=k)


def _error(ours: Array | float, exact: Array | float) -> float:
    """Largest absolute error; nan counts as infinite, another shape is a fault."""
    if np.shape(ours) != np.shape(exact):
        raise ValueError(f"shape {np.shape(ours)} where {np.shape(exact)} was expected")
    error = float(np.max(np.abs(np.subtract(ours, exact))))
    return np.inf if np.isnan(error) else error


def _gap(table: Array) -> float:
    """Smallest step from one rank to the next; nan counts as a step down."""
    steps = np.concatenate([np.diff(table, axis=axis).ravel() for axis in (0, 1)])
    if np.isnan(table).any():
        return -np.inf
    return float(steps.min(initial=np.inf))


def _error_row(setting: str, worst: float, words: str) -> Row:
    allowed = Figure(TOLERANCE, "error", f"allowed, from {words}")
    return beside(
        "largest error of a mean",
        setting,
        Figure(worst, "error"),
        allowed,
        required=True,
    )


def _order_row(setting: str, gap: float) -> Row:
    return _row(
        "least step from rank to rank", setting, Figure(gap, "error"), "> 0", gap > 0
    )


def _row(name: str, setting: str, ours: Figure, goal: str, met: bool) -> Row:
    return Row(name, setting, ours, goal=goal, met=met, required=True)
