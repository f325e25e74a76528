"""Federations in which some sites send whatever serves them, under plans that tolerate
them.

Votes of a faulty site count at most in full and at least not at all. So the threshold
lies between the one of the honest sites alone that needs as many votes less, and the
one that needs all of them; both follow from the honest reports by counting, which is
done here by hand.
"""

import math
import random
from functools import lru_cache
from typing import Any

import numpy as np

import fedconformal as fc
from torture._run import Section

_SIZES = (
    (40,) * 7,
    (25, 60, 40, 40, 90),
    (60,) * 12,
    (30, 30, 30, 200, 80, 45),
    (19,) * 25,
)
_ANY = fc.SitePolicy.unlimited()


@lru_cache(maxsize=256)
def make_plan(place: int, max_faulty: int, numbers: int, criterion: str) -> fc.Plan:
    """Return a plan that tolerates faulty sites."""
    sizes = {f"site {number}": n for number, n in enumerate(_SIZES[place])}
    delta = {"delta": 0.2} if criterion == "conditional" else {}
    return fc.plan(
        n_points=sizes,
        confidence_level=0.75,
        max_faulty=max_faulty,
        numbers=numbers,
        criterion=criterion,
        **delta,
    )


def corrupt(report: fc.Report, values: list[float]) -> fc.Report:
    """Return the report with other numbers in it."""
    (part,) = report.parts
    levels = [
        level.model_copy(update={"values": tuple(values)})
        for level in part.payload.levels
    ]
    payload = part.payload.model_copy(update={"levels": tuple(levels)})
    return report.model_copy(
        update={"parts": (part.model_copy(update={"payload": payload}),)}
    )


def count_threshold(votes: list[tuple[float, int]], needed: int) -> float:
    """Return the smallest value that has the votes needed."""
    total = 0
    for value, weight in sorted(votes):
        total += weight
        if total >= needed:
            return value
    return math.inf


def as_tuple(value: Any) -> tuple[int, ...]:
    """Return the entry of a site as a tuple, also where it is one number."""
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def attack(seed: int) -> int:
    """Let the faulty sites of one federation send low, high or arbitrary numbers."""
    rng, scores = random.Random(seed), np.random.default_rng(seed)
    place = rng.randrange(len(_SIZES))
    max_faulty = rng.randint(1, 2 if len(_SIZES[place]) < 12 else 4)
    plan = make_plan(
        place,
        max_faulty,
        rng.choice((1, 1, 3)),
        rng.choice(("stable", "marginal", "conditional")),
    )
    if not plan.feasible:
        return 0
    reports = [
        fc.report(plan, scores.random(n), site=name, policy=_ANY)
        for name, n in zip(plan.site_names or (), _SIZES[place], strict=True)
    ]
    faulty = rng.sample(range(len(reports)), max_faulty)
    kind = rng.randrange(4)
    for index in faulty:
        size = len(reports[index].payload.levels[0].values)
        draws = {
            0: [-1e308] * size,
            1: [1e308] * size,
            2: [math.inf] * size,
            3: sorted(rng.uniform(-1, 2) for _ in range(size)),
        }
        reports[index] = corrupt(reports[index], draws[kind])
    calibration = fc.calibrate(plan, reports, on_refused="skip")
    findings = fc.audit.verify(calibration, reports)
    assert all(finding.holds for finding in findings), (
        "an honest calibration was not verified"
    )
    honest, lost = list[tuple[float, int]](), 0
    for index, (report, weights) in enumerate(zip(reports, plan.weights, strict=True)):
        values, shares = report.payload.levels[0].values, as_tuple(weights)
        shares = shares * (len(values) // len(shares))
        if index in faulty:
            lost += sum(shares)
        else:
            honest += list(zip(values, shares, strict=True))
    low = count_threshold(honest, plan.server_rank - lost)
    high = count_threshold(honest, plan.server_rank)
    if len(calibration.reports) == len(reports):
        assert low <= calibration.threshold <= high, (
            f"{calibration.threshold} is not between {low} and {high}"
        )
    assert low > -1e300, "the faulty sites reach the votes alone"
    assert calibration.threshold < 1e300, "the faulty sites can block the threshold"
    return 1


SECTION = Section(
    "byzantine",
    "federations with arbitrary reports",
    "the threshold lies between those that the honest sites alone allow, and is"
    " verified",
    attack,
    runs=5_000,
    quick=30,
)
