"""What the groups of a private plan cost: each its part of epsilon."""

from collections.abc import Iterable, Sequence
from fractions import Fraction

from fedconformal.documents._grouping import Grouping
from fedconformal.documents._plan_parts import PlanPart, PrivacyRule


def privacy_of(part: PlanPart, privacy: PrivacyRule | None) -> PrivacyRule | None:
    """The privacy of one part: that of the plan, with the part's own epsilon."""
    if privacy is None or part.epsilon is None:
        return privacy
    return privacy.model_copy(update={"epsilon": part.epsilon})


def cost_of(parts: Sequence[PlanPart], labels: Iterable[str]) -> Fraction:
    """What an answer for these groups costs: the sum of their epsilons, exactly."""
    wanted = set(labels)
    own = [part.epsilon for part in parts if part.label in wanted]
    return sum((Fraction(str(epsilon)) for epsilon in own if epsilon is not None), Fraction(0))


def largest_cost(parts: Sequence[PlanPart], grouping: Grouping, labels: Iterable[str]) -> Fraction:
    """What an answer for these groups costs at most, whoever gives it."""
    wanted = set(labels)
    sites = set(grouping.sites.values()) or {""}
    return max(cost_of(parts, wanted.intersection(grouping.groups_at(site))) for site in sites)
