"""What a check found, in plain words."""

import math

from fedconformal._text import ceiling_percent, count, floor_percent, nearest_percent, percent, plain_spaces
from fedconformal.heterogeneity._coverage import CoverageCheck
from fedconformal.planning import Promise


def check_sentence(check: CoverageCheck, low_by_luck: float, promise: Promise, where: str) -> str:
    """What one level's cases say of the coverage at a place, and of a shortfall its causes."""
    return plain_spaces(_check_sentence(check, low_by_luck, promise, where))


def _check_sentence(check: CoverageCheck, low_by_luck: float, promise: Promise, where: str) -> str:
    level, cases = percent(check.confidence_level), count(check.n, "new case")
    if check.threshold == math.inf:
        return (
            f"Level {level}: the threshold is infinite, so the sets hold everything and cover all {cases} "
            f"{where}, whatever they are."
        )
    low, high = check.interval
    found = (
        f"Level {level}: of {cases} {where}, {check.covered:,} ({nearest_percent(check.coverage)}) fall "
        f"inside their sets, so the true coverage {where} is between {floor_percent(low)} and "
        f"{ceiling_percent(high)} ({percent(check.confidence)} confidence)."
    )
    if not check.falls_short:
        return f"{found} {_no_shortfall(check, where)}"
    found += (
        f" If it were {level} or more, so few would fall inside {odds(check.p_value)}, so this speaks for a "
        f"coverage below {level}."
    )
    if not promise.has_law:
        return f"{found} It may be that {promise.shortfall(where)}."
    return (
        f"{found} Either {promise.shortfall(where)} it gives {ceiling_percent(high)} or less with a "
        f"probability of at most {ceiling_percent(low_by_luck)}."
    )


def _no_shortfall(check: CoverageCheck, where: str) -> str:
    level = percent(check.confidence_level)
    if check.interval[0] >= check.confidence_level:
        return f"That is at least {level}."
    words = f"If it were {level}, so few or fewer would fall inside {odds(check.p_value)}: "
    words += f"no sign that the coverage {where} is below {level}, and no proof that it is not."
    weakest = check.noticeable
    if weakest is None:
        return f"{words} So few cases can never show a shortfall."
    return (
        f"{words} So many cases would show a shortfall in 4 of 5 checks if it were "
        f"{floor_percent(weakest)} or less."
    )


def odds(p: float) -> str:
    """How often that happens by chance."""
    if p >= 0.1:
        return f"by chance in about {round(100 * p)} of 100 checks"
    if p >= 1e-4:
        return f"by chance in about 1 of {round(1 / p):,} checks"
    bound = 10 ** min(6, math.floor(-math.log10(p))) if p > 0 else 10**6
    return f"by chance in fewer than 1 of {bound:,} checks"
