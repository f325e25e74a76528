"""A plan on one line."""

from collections.abc import Iterable, Sequence

from fedconformal._text import count
from fedconformal.documents._grouping import Grouping
from fedconformal.documents._plan_parts import PlanPart, PrivacyRule


def plan_line(
    parts: Sequence[PlanPart], n_sites: int | None, grouping: Grouping, privacy: PrivacyRule | None
) -> str:
    """Who is asked, how many points they have, and what is promised."""
    sites = "any number of sites" if n_sites is None else count(n_sites, "site")
    groups = [grouping.counted(len(grouping.groups))] if grouping.groups else []
    levels = "level " + ", ".join(f"{level.confidence_level:g}" for level in parts[0].levels)
    finite = all(level.advice is None for part in parts for level in part.levels)
    terms = [
        f"promise {_alike(part.promise for part in parts)}",
        f"criterion {_alike(part.criterion for part in parts)}",
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


def _alike(names: Iterable[str]) -> str:
    return " or ".join(dict.fromkeys(names))
