"""The designs that a plan stands for: everything that is promised follows from them."""

from fractions import Fraction

from fedconformal.documents._plan_parts import Level, PlanPart, PrivacyRule
from fedconformal.planning import (
    CRITERIA,
    PROMISES,
    Advice,
    Block,
    Cases,
    Design,
    Exact,
    Goal,
    Private,
    Sending,
    merged,
)
from fedconformal.privacy import ANALYSES, MECHANISMS, PrivateRelease


def designs_of(part: PlanPart, privacy: PrivacyRule | None) -> tuple[Design, ...]:
    """The design of each level of a part, whose own privacy this is."""
    return tuple(_design(part, i, _sending(part, level, privacy)) for i, level in enumerate(part.levels))


def _design(part: PlanPart, i: int, sending: Sending) -> Design:
    level = part.levels[i]
    goal = Goal(
        Fraction(str(level.confidence_level)),
        CRITERIA[part.criterion](),
        Fraction(str(part.delta or 0.1)),
        part.max_faulty,
        part.max_missing,
    )
    return Design(
        goal,
        PROMISES[part.promise](),
        sending,
        merged(
            Block(block.count, block.n, block.ranks[i], block.votes[i], block.exact_share)
            for block in part.blocks or ()
        ),
        level.server_rank,
        level.exact_share,
        None if level.advice is None else Advice(**level.advice.model_dump()),
        level.exact_eta,
    )


def _sending(part: PlanPart, level: Level, rule: PrivacyRule | None) -> Sending:
    n_levels = len(part.levels)
    if rule is None:
        return Exact() if part.cases is None else Cases(part.cases)
    assert level.exact_quantile is not None
    analysis = ANALYSES[rule.analysis]()
    release = PrivateRelease(
        Fraction(str(rule.epsilon)) / n_levels,
        rule.n_bins,
        MECHANISMS[rule.mechanism](),
        analysis,
        analysis.aim(level.exact_quantile, level.exact_slope),
    )
    return Private(release, n_levels)
