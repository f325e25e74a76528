"""Calibrations that are as expensive to verify as documents can be: what would take
long is not verified.
"""

import math
import time
from fractions import Fraction

import pytest
from limits import seconds

from fedconformal.audit import verify
from fedconformal.documents import (
    Calibration,
    CalibrationPart,
    Curve,
    Design,
    Level,
    Plan,
    RankLevel,
    Ranks,
    Received,
    SiteKind,
)

N = 2**30
NINE = Fraction(9, 10)
LEVELS = tuple(Fraction(500 + 4 * i, 1000) for i in range(100))


def made(sizes, message, levels, **options):
    """A calibration of sites of these sizes, all of which answered, that nobody has
    planned.
    """
    names = [f"site {i:05}" for i in range(len(sizes))]
    sites = tuple(
        SiteKind(count=1, n=n, names=(name,))
        for n, name in zip(sizes, names, strict=True)
    )
    terms = {"promise": "population", "criterion": "marginal", **options}
    design = Design(sites=sites, message=message, levels=levels, **terms)
    part = CalibrationPart(design=design, thresholds=(1.0,) * len(levels))
    received = tuple(
        Received(site=name, report=f"sha256:{i:064x}") for i, name in enumerate(names)
    )
    return Calibration(
        plan=Plan(designs=(design,)),
        parts=(part,),
        reports=received,
        assumptions=("ties",),
    )


def ranked(sizes, *, levels=(NINE,), numbers=1, weights=None, part=0.6, **options):
    """Ranks round the level, a standard deviation apart."""
    votes = tuple((weight,) * numbers for weight in weights or [1] * len(sizes))
    needed, data = max(1, int(part * sum(map(sum, votes)))), []
    for level in levels:
        steps = [max(1, math.isqrt(int(n * level * (1 - level)))) for n in sizes]
        first = [
            math.ceil(level * (n + 1)) - numbers * step // 2
            for n, step in zip(sizes, steps, strict=True)
        ]
        ranks = (
            (a + i * step for i in range(numbers))
            for a, step in zip(first, steps, strict=True)
        )
        data.append(RankLevel.of(tuple(map(tuple, ranks)), votes))
    chosen = tuple(Level(confidence_level=level, votes=needed) for level in levels)
    return made(sizes, Ranks(levels=tuple(data)), chosen, **options)


def curved(sizes, cells, epsilon, votes, *, offsets=None, levels=(NINE,), **options):
    """A noisy curve."""
    edges, given = (
        tuple(map(float, range(cells))),
        offsets or ((0,) * (cells - 1),) * len(levels),
    )
    message = Curve(edges=edges, epsilon=epsilon, offsets=given)
    return made(
        sizes,
        message,
        tuple(Level(confidence_level=c, votes=votes) for c in levels),
        **options,
    )


CONDITIONAL = {"criterion": "conditional", "delta": Fraction(1, 10)}
CASES = {
    "huge sites of different sizes": lambda: ranked([N - i for i in range(1000)]),
    "sizes of every order": lambda: ranked(
        [int(1.2**i) + 60 for i in range(100)], numbers=5
    ),
    "many sites of twenty numbers": lambda: ranked(
        [10**6 + i for i in range(1000)], numbers=20
    ),
    "large weights": lambda: ranked(
        [10**9] * 300, numbers=20, weights=[2**20 - 7 * i for i in range(300)]
    ),
    "many levels of twenty numbers": lambda: ranked(
        [N - i for i in range(20)], levels=LEVELS[:25], numbers=20
    ),
    "many faulty sites": lambda: ranked(
        [1000 + i for i in range(300)], max_faulty=100, part=0.7
    ),
    "many choices of faulty sites": lambda: ranked(
        [1000 + i for i in range(17)],
        numbers=3,
        weights=[100 + i for i in range(17)],
        max_faulty=3,
    ),
    "each of many sites": lambda: ranked(
        [N - i for i in range(3000)], promise="each-site", part=1, **CONDITIONAL
    ),
    "tiny epsilon": lambda: curved([1000] * 10, 100, Fraction(1, 10**6), 9001),
    "many cells": lambda: curved([1000] * 10, 10_000, Fraction(1), 9001),
    "far offsets": lambda: curved(
        [1000] * 10,
        100,
        Fraction(1),
        9001,
        offsets=(tuple(range(0, 99 * 10**7, 10**7)),),
    ),
    "a huge noisy curve": lambda: curved(
        [N] * 100, 100, Fraction(1), 90 * N, **CONDITIONAL
    ),
    "many levels of a noisy curve": lambda: curved(
        [1000] * 10, 400, Fraction(1, 2), 9001, levels=LEVELS
    ),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", CASES)
def test_an_answer_within_seconds(name):
    calibration = Calibration.from_json(CASES[name]().to_json())
    start = time.process_time()
    assert verify(calibration)
    assert time.process_time() - start < seconds(10)


def claimed(calibration, level):
    """The same calibration, said to be for another level."""
    (part,), (design,) = calibration.parts, calibration.plan.designs
    levels = tuple(
        each.model_copy(update={"confidence_level": level}) for each in design.levels
    )
    design = design.model_copy(update={"levels": levels})
    plan = calibration.plan.model_copy(update={"designs": (design,)})
    return calibration.model_copy(
        update={"plan": plan, "parts": (part.model_copy(update={"design": design}),)}
    )


LARGE = {
    "numbers": 20,
    "weights": [2**20 - 7 * i for i in range(300)],
    "levels": (Fraction(1, 2),),
}
TOO_LARGE = {
    "faulty sites": lambda: claimed(
        ranked([1000] * 300, max_faulty=10, part=0.7, **LARGE), NINE
    ),
    "twenty numbers": lambda: claimed(ranked([10**9] * 300, **LARGE), NINE),
    "conditional": lambda: claimed(ranked([10**9] * 300, **LARGE, **CONDITIONAL), NINE),
    "private sizes": lambda: curved(
        [1000 + i for i in range(300)], 200, Fraction(1, 10**4), 100_000
    ),
    "private conditional": lambda: curved(
        [N] * 100, 100, Fraction(1, 10**4), 80 * N, **CONDITIONAL
    ),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_a_false_claim_of_a_design_that_is_too_large_is_refuted(name):
    calibration = TOO_LARGE[name]()
    coverage = [
        finding for finding in verify(calibration) if "coverage" in finding.claim
    ]
    assert [
        (finding.holds, " at " in f" {finding.detail}") for finding in coverage
    ] == [(False, True)]


def test_a_true_claim_with_a_margin_is_verified():
    calibration = claimed(ranked([10**9] * 300, **LARGE), Fraction(2, 5))
    (coverage,) = [
        finding for finding in verify(calibration) if "coverage" in finding.claim
    ]
    assert coverage.holds
    assert coverage.detail.startswith("at least 0.4")


def test_the_reason_is_given():
    (finding,) = [
        each for each in verify(CASES["large weights"]()) if each.holds is None
    ]
    assert (finding.detail, finding.verdict) == ("too large", "not verified")
