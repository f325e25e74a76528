"""Plans for tests of planning: without warnings, and checked against their promise."""

import fedconformal as fc


def quiet(*args, **kwargs):
    return fc.plan(*args, on_infeasible="ignore", **kwargs)


def is_valid(plan, law=None):
    """The promise of a plan, checked with the law and a margin for rounding only."""
    law = law or plan.law
    if plan.criterion == "conditional":
        return law.cdf(plan.confidence_level) <= plan.delta + 1e-12
    return law.mean() >= plan.confidence_level - 1e-12
