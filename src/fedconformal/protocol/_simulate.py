"""Simulated rounds of private plans: seeded noise that protects nobody."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._util import private_numbers
from fedconformal.documents import Calibration, Plan, Report, ReportPart
from fedconformal.messages import of
from fedconformal.protocol._calibrate import calibrate
from fedconformal.protocol._report import is_private


def simulate(
    plan: Plan, scores: Mapping[str, ArrayLike], rng: np.random.Generator
) -> Calibration:
    """Simulate a round of a private plan without groups, with seeded noise, which
    protects nobody.
    """
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng must be a numpy.random.Generator, got {rng!r}")
    if plan.is_grouped or not is_private(plan):
        raise ValueError(
            "simulate takes a private plan without groups; other plans need no"
            " simulated noise"
        )
    if plan.keys is not None:
        raise ValueError(
            "simulate takes a plan without keys and masks: there is nobody who could"
            " sign"
        )
    (design,) = plan.designs
    reports = []
    for site, own in scores.items():
        values = private_numbers(own)
        payload = of(design.message).simulate(design, values, rng)
        reports.append(
            Report(
                plan=plan.digest,
                site=site,
                parts=(ReportPart(n=values.size, payload=payload),),
            )
        )
    return calibrate(plan, reports)
