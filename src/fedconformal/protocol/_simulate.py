"""Simulated rounds of private plans: seeded noise that protects nobody."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal.documents import (
    BinPayload,
    Calibration,
    Curve,
    CurvePayload,
    Design,
    Gridded,
    Plan,
    Report,
    ReportPart,
)
from fedconformal.messages import mechanisms
from fedconformal.privacy import Bins, simulate_noisy_counts
from fedconformal.protocol._calibrate import calibrate
from fedconformal.protocol._rows import private_numbers


def simulate(plan: Plan, scores: Mapping[str, ArrayLike], rng: np.random.Generator) -> Calibration:
    """Simulate a round of a private plan without groups, with seeded noise, which protects nobody."""
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng must be a numpy.random.Generator, got {rng!r}")
    if plan.is_grouped or not isinstance(plan.designs[0].message, Gridded):
        raise ValueError("simulate takes a private plan without groups; other plans need no simulated noise")
    design, reports = plan.designs[0], []
    for site, own in scores.items():
        values = private_numbers(own)
        part = ReportPart(n=values.size, payload=_payload(design, values, rng))
        reports.append(Report(plan=plan.digest, site=site, parts=(part,)))
    return calibrate(plan, reports)


def _payload(design: Design, values: Any, rng: np.random.Generator) -> CurvePayload | BinPayload:
    message = design.message
    assert isinstance(message, Gridded)
    counts = Bins(message.edges, bounded=message.bounded).place(values)
    if isinstance(message, Curve):
        noisy = counts if message.epsilon is None else simulate_noisy_counts(counts, message.epsilon, rng=rng)
        return CurvePayload(counts=tuple(noisy.tolist()))
    return BinPayload(cells=tuple(int(draw.simulate(counts, rng)) for draw in mechanisms(design)))
