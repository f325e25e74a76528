"""From wishes to the parts of a plan that has groups: one part for each."""

from typing import Any

from pydantic import ValidationError

from fedconformal._text import quoted
from fedconformal.documents import PlanPart, first_problem
from fedconformal.privacy import Privacy
from fedconformal.protocol._federation import Asked
from fedconformal.protocol._grouping import Arranged
from fedconformal.protocol._groups import asked_in_group, share_epsilon
from fedconformal.protocol._parts import planned_part
from fedconformal.protocol._wishes import Wishes


def sites_alone(
    by: tuple[str, ...] | None, groups: Any, n_sites: Any, n_points: Any, sites: list[str] | None
) -> Asked | None:
    """The sites, where groups are made of them alone; None where they are made of labels."""
    if by is None or len(by) > 1 or "site" not in by:
        if groups is None:
            raise ValueError("groups must map labels to sizes where group_by is not site alone, got None")
        if n_points is not None:
            raise ValueError("n_points does not go with groups: each group has its own sizes")
        return None
    if groups is not None:
        raise ValueError("groups does not go with group_by site alone: each site is a group")
    return Asked.of(n_sites, n_points, sites)


def group_parts(
    found: Arranged,
    n_sites: int | None,
    names: list[str] | None,
    wishes: Wishes,
    privacy: Privacy | None,
    fewest: int,
) -> list[PlanPart]:
    """The part of each group, in alphabetical order; what is wrong with one is said with its name."""
    share = None if privacy is None else share_epsilon(privacy, found.n_labels)
    parts = []
    for group in sorted(found.sizes):
        try:
            asked = asked_in_group(found.sizes[group], n_sites, names, fewest)
            parts.append(planned_part(asked, wishes, share, group))
        except ValidationError as error:
            raise ValueError(f"groups: {first_problem(error)}, got {quoted([group])}") from None
        except (ValueError, TypeError) as error:
            raise type(error)(f"group {quoted([group])}: {error}") from None
    return parts


def all_names(parts: list[PlanPart]) -> tuple[str, ...] | None:
    """The sites of all groups together; None where any group does not name its own."""
    names = [part.site_names for part in parts]
    return None if None in names else tuple(sorted({name for each in names for name in each or ()}))
