"""Ways to look at the parts of a plan: on one line, site by site, and what groups cost."""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from fedconformal._text import count
from fedconformal.documents._grouping import Grouping
from fedconformal.documents._plan_parts import PlanPart, PrivacyRule
from fedconformal.documents._views import PerSite, one_or_all


def plan_line(
    parts: Sequence[PlanPart], n_sites: int | None, grouping: Grouping, privacy: PrivacyRule | None
) -> str:
    """Who is asked, how many points they have, and what is promised."""
    sites = "any number of sites" if n_sites is None else count(n_sites, "site")
    groups = [grouping.counted(len(grouping.groups))] if grouping.groups else []
    levels = "level " + ", ".join(f"{level.confidence_level:g}" for level in parts[0].levels)
    finite = all(level.advice is None for part in parts for level in part.levels)
    terms = [
        f"promise {' or '.join(dict.fromkeys(part.promise for part in parts))}",
        f"criterion {' or '.join(dict.fromkeys(part.criterion for part in parts))}",
        *([] if privacy is None else [f"epsilon {privacy.epsilon:g}"]),
        *([] if finite else ["infinite threshold"]),
    ]
    return ", ".join([sites, *groups, _points(parts), levels, *terms])


def _points(parts: Sequence[PlanPart]) -> str:
    """From where to where sizes go: "40 points each", "40 to 120 points each"."""
    if any(part.blocks is None for part in parts):
        return "open sizes"
    sizes = [block.n for part in parts for block in part.blocks or ()]
    low, high = min(sizes, default=0), max(sizes, default=0)
    return f"{count(low, 'point')} each" if low == high else f"{low:,} to {high:,} points each"


# -- what the groups of a private plan cost ----------------------------------------------------------------


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


# -- one value per site, in the order of the sites ---------------------------------------------------------


def site_sizes(part: PlanPart) -> PerSite[int] | None:
    """How many points each site has; None while sizes are unknown."""
    return _per_site(part, [block.n for block in part.blocks or ()])


def site_ranks(part: PlanPart) -> list[PerSite[Any] | None]:
    """The rank of each site, or its ranks, for each level; None while open, or if cases are drawn."""
    if part.cases is not None:
        return [None for _ in part.levels]
    return [
        _per_site(part, [one_or_all(block.ranks[i]) for block in part.blocks or ()])
        for i in range(len(part.levels))
    ]


def site_weights(part: PlanPart) -> list[PerSite[Any] | None]:
    """The votes of each number of a site for each level: one number, or a tuple where they differ."""
    found = []
    for i in range(len(part.levels)):
        votes = [block.votes[i] for block in part.blocks or ()]
        found.append(_per_site(part, [each if len(set(each)) > 1 else (*each, 0)[0] for each in votes]))
    return found


def _per_site(part: PlanPart, values: Sequence[Any]) -> PerSite[Any] | None:
    return None if part.blocks is None else PerSite([block.count for block in part.blocks], values)
