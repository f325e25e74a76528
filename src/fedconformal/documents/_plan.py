"""The Plan: everything that is agreed before any score is looked at."""

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from fedconformal._extras import call_higher
from fedconformal._text import count
from fedconformal.documents import _fields as limits
from fedconformal.documents._base import Part, SizeLimit
from fedconformal.documents._design import Design
from fedconformal.documents._fields import (
    Label,
    Many,
    SiteName,
    check_labels,
    check_looks,
)
from fedconformal.documents._grouping import (
    GROUPED_BY,
    GroupBy,
    Grouping,
    pair_label,
)
from fedconformal.documents._messages import Cases
from fedconformal.documents._score_rule import ScoreRule
from fedconformal.documents._signing import AuthoredDocument, PublicKey, exchange_point
from fedconformal.documents._terms import Terms
from fedconformal.documents._views import PlanAttributes, PlanView


class SiteKey(Part):
    """Public key of a site."""

    site: SiteName
    public_key: PublicKey


class Plan(PlanAttributes, AuthoredDocument):
    """Agreement made before any score is looked at: a design for each group of cases.

    ``local_ranks``, ``server_rank``, ``law`` and so on are those of one group and
    level; of several, ``plan["child"]``, ``plan[0.9]`` and ``plan["child", 0.9]`` have
    the same attributes.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_sites=10, n_points=79)
    >>> plan
    <Plan: 10 sites, 79 points each, level 0.9, promise population, criterion stable>
    >>> plan.local_ranks[0], plan.server_rank, round(plan.law.mean(), 4)
    (71, 7, 0.9029)
    >>> fc.Plan.from_json(plan.to_json()) == plan
    True
    """

    limit: ClassVar[SizeLimit] = SizeLimit(
        2 * 2**20, 750_000, ("names", "edges"), 24 * 2**20
    )

    format: Literal["fedconformal/plan"] = "fedconformal/plan"
    version: Literal[1] = 1
    designs: Many[Design] = Field(
        min_length=1, max_length=limits.MOST_GROUPS, description="by group"
    )
    group_by: Many[GroupBy] | None = Field(
        default=None, description="what makes groups, if not a label"
    )
    classes: (
        Annotated[Many[Label], Field(min_length=2, max_length=limits.MOST_CLASSES)]
        | None
    ) = Field(
        default=None,
        description=(
            "names of the classes, in the order of the columns of probabilities"
        ),
    )
    score: ScoreRule | None = Field(
        default=None, description="of all sites, where the plan fixes it"
    )
    keys: Many[SiteKey] | None = Field(
        default=None, min_length=1, description="which sign the reports"
    )
    terms: Terms = Field(default=Terms(), description="model, round, expiry and facts")

    def check(self) -> None:
        """Refuse content that does not fit together, whoever wrote it.

        Whether a design keeps its promise is checked by its message when it is
        answered, and by the audit.
        """
        check_labels([design.group for design in self.designs])
        check_looks(
            {name for design in self.designs for name in design.site_names or ()}
        )
        check_looks(self.groups, "groups", with_case=True)
        check_looks(self.classes or (), "classes", with_case=True)
        levels = sum(len(design.levels) for design in self.designs)
        if levels > limits.MOST_LEVELS_OF_GROUPS:
            most = f"{limits.MOST_LEVELS_OF_GROUPS:,}"
            raise ValueError(
                f"levels times groups must be at most {most}, got {levels:,}"
            )
        cells = sum(
            design.message.count_cells(len(design.levels)) for design in self.designs
        )
        if cells > limits.MOST_CELLS:
            most = f"{limits.MOST_CELLS:,}"
            raise ValueError(
                f"cells of all groups and levels must be at most {most}, got {cells:,}"
            )
        if self.classes is not None and len(set(self.classes)) < len(self.classes):
            raise ValueError("classes must be different")
        if self.is_grouped:
            self._check_groups()
        elif self.group_by is not None:
            raise ValueError("group_by was given, but there are no groups")
        if self.keys is not None and sorted(key.site for key in self.keys) != sorted(
            self.site_names or ()
        ):
            raise ValueError("keys must name exactly the sites that the plan names")
        if self.is_masked:
            self._check_masks()
        for design in self.designs:
            design.check()
            if isinstance(design.message, Cases) and not re.fullmatch(
                r"[0-9a-f]{32}", self.terms.round or ""
            ):
                raise ValueError(
                    "a plan for random cases needs a random round of 32 hexadecimal"
                    " digits"
                )

    def _check_masks(self) -> None:
        """Refuse masks that could be read, or that need not cancel."""
        points = [exchange_point(key.public_key) for key in self.keys or ()]
        if not points or len(set(points)) < len(points):
            raise ValueError(
                "a masked plan needs keys: one of its own for every named site"
            )
        if not re.fullmatch(r"[0-9a-f]{32}", self.terms.round or ""):
            raise ValueError(
                "a masked plan needs a random round of 32 hexadecimal digits"
            )
        for design in self.designs:
            if len(design.asked_names or ()) < 2 or not design.message.is_masked:
                raise ValueError("masks need two or more named sites, in every group")
            if design.max_faulty or design.max_missing:
                raise ValueError("a masked sum tolerates no missing and no faulty site")
        is_exact = getattr(self.designs[0].message, "epsilon", None) is None
        if (
            is_exact
            and len({frozenset(design.asked_names or ()) for design in self.designs})
            > 1
        ):
            raise ValueError(
                "without noise, masked sums of all groups must be over the same sites"
            )

    def _check_groups(self) -> None:
        """Refuse groups that are not made of what they say, or that differ in more than
        their sites.
        """
        grouping, messages = self.grouping, [design.message for design in self.designs]
        if self.group_by is not None and self.group_by not in GROUPED_BY:
            known = " or ".join(" and ".join(kind) for kind in GROUPED_BY)
            raise ValueError(f"groups must be made of a label, or of {known}")
        if grouping.by_site and any(
            len(design.site_names or ()) != 1 for design in self.designs
        ):
            raise ValueError(
                "where groups are made of sites, each has one site, with a name"
            )
        for group, site in grouping.sites.items():
            label = group.removeprefix(pair_label(site, ""))
            if (label == group if grouping.has_labels else group != site) or not label:
                raise ValueError(
                    f"group {group!r} must be named after its site, {site!r}"
                )
        if grouping.by_class and (
            self.classes is None or set(grouping.labels) != set(self.classes)
        ):
            raise ValueError(
                "groups by class are those of the classes, each in one of them"
            )
        if len({design.confidence_levels for design in self.designs}) > 1:
            raise ValueError("all groups must have the same confidence levels")
        if len({message.kind for message in messages}) > 1:
            raise ValueError("all groups must ask for the same kind of message")
        shared = ("edges", "bounded", "epsilon", "masked")
        if (
            len(
                {
                    tuple(getattr(message, name, None) for name in shared)
                    for message in messages
                }
            )
            > 1
        ):
            raise ValueError("all groups must have the same grid and epsilon")

    @property
    def selected_designs(self) -> Sequence[Design]:
        """All designs."""
        return self.designs

    @property
    def selected_levels(self) -> Sequence[int]:
        """Places of all levels."""
        return range(len(self.designs[0].levels))

    def __getitem__(self, key: Any) -> PlanView:
        """Select a group by its label, a level by its number, or both."""
        places, levels = self._select(key)
        return PlanView(self, tuple(self.designs[i] for i in places), levels)

    @property
    def is_grouped(self) -> bool:
        """True if there is a threshold for each group of cases."""
        return self.designs[0].group is not None

    @property
    def groups(self) -> tuple[str, ...]:
        """Labels of the groups, in alphabetical order; none if there are no groups."""
        return tuple(
            design.group for design in self.designs if design.group is not None
        )

    @cached_property
    def by_group(self) -> dict[str | None, Design]:
        """The design of each group, under None where there are no groups."""
        return {design.group: design for design in self.designs}

    @cached_property
    def grouping(self) -> Grouping:
        """Rule that assigns a case to its group by its label and site."""
        by = self.group_by or (("label",) if self.is_grouped else ())
        sites = {
            design.group or "": (design.site_names or ("",))[0]
            for design in self.designs
        }
        return Grouping(by, sites if "site" in by else {}, self.groups)

    @property
    def is_masked(self) -> bool:
        """True if nothing but sums over all sites can be read."""
        return self.designs[0].message.is_masked  # the same in all groups

    @property
    def of_answers(self) -> bool:
        """True if thresholds are of confidences, from which on cases are answered."""
        return any(design.message.of_answers for design in self.designs)

    @property
    def is_open(self) -> bool:
        """True if sizes come with the reports, in any group."""
        return any(design.is_open for design in self.designs)

    @cached_property
    def site_names(self) -> tuple[str, ...] | None:
        """Names of the sites, where the plan names them; with groups, of all groups in
        alphabetical order.
        """
        names = [design.site_names for design in self.designs]
        if None in names:
            return None
        if not self.is_grouped:
            return names[0]
        return tuple(sorted({name for each in names for name in each or ()}))

    @property
    def n_sites(self) -> int | None:
        """Number of sites; None if anybody may answer."""
        if not self.is_grouped:
            return self.designs[0].n_sites
        if self.site_names is not None:
            return len(self.site_names)
        expected = [design.n_sites for design in self.designs]
        return None if None in expected else max(each or 0 for each in expected)

    @property
    def confidence_levels(self) -> tuple[float, ...]:
        """The confidence levels, the same in all groups."""
        return self.designs[0].confidence_levels

    @property
    def max_faulty(self) -> int:
        """Number of reports that may be arbitrary, in any group."""
        return max(design.max_faulty for design in self.designs)

    @property
    def choices(self) -> dict[str, tuple[str | None, ...]]:
        """Names of the score, the promises and the messages, by the field of a site's
        policy.
        """
        return {
            "scores": (None if self.score is None else self.score.name,),
            "promises": tuple(design.promise for design in self.designs),
            "messages": tuple(design.message.kind for design in self.designs),
        }

    @property
    def problems(self) -> tuple[str, ...]:
        """A sentence for each level that cannot be reached, with what would suffice."""
        found: tuple[str, ...] = call_higher("protocol.describe_problems", self)
        return found

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for a reader: problems, sites that are too small or not asked, missing
        sites.
        """
        found: tuple[str, ...] = call_higher("protocol.describe_notes", self)
        return found

    def _line(self) -> str:
        sites = (
            "any number of sites"
            if self.n_sites is None
            else count(self.n_sites, "site")
        )
        by_site = self.grouping.by_site and not self.grouping.has_labels
        groups = (
            [self.grouping.counted(len(self.groups))]
            if self.groups and not by_site
            else []
        )
        levels = "level " + ", ".join(f"{level:g}" for level in self.confidence_levels)
        losses = {
            getattr(design.message, "epsilon", None) or 0 for design in self.designs
        } - {0}
        promises = dict.fromkeys(design.promise for design in self.designs)
        criteria = dict.fromkeys(design.criterion for design in self.designs)
        terms = [
            f"promise {' or '.join(promises)}",
            f"criterion {' or '.join(criteria)}",
            *(f"epsilon {float(epsilon):g}" for epsilon in sorted(losses)),
            *([] if self.feasible else ["infinite threshold"]),
        ]
        return ", ".join([sites, *groups, self._points(), levels, *terms])

    def _points(self) -> str:
        if self.is_open:
            return "open sizes"
        sizes = [kind.n for design in self.designs for kind in design.kinds]
        low, high = min(sizes, default=0), max(sizes, default=0)
        return (
            f"{count(low, 'point')} each"
            if low == high
            else f"{low:,} to {high:,} points each"
        )
