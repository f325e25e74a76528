"""What a part of a closed plan asks of each site: one value per site, in the order of the sites."""

from collections.abc import Sequence
from typing import Any

from fedconformal.documents._plan_parts import PlanPart
from fedconformal.documents._views import PerSite, one_or_all


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
    return [
        _per_site(part, [_one_if_equal(block.votes[i]) for block in part.blocks or ()])
        for i in range(len(part.levels))
    ]


def _one_if_equal(votes: tuple[int, ...]) -> Any:
    """The votes of all numbers alike, 0 where there are none."""
    different = set(votes) or {0}
    return different.pop() if len(different) == 1 else votes


def _per_site(part: PlanPart, values: Sequence[Any]) -> PerSite[Any] | None:
    return None if part.blocks is None else PerSite([block.count for block in part.blocks], values)
