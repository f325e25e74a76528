"""The Plan: everything that is agreed before any score is looked at."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from numbers import Real
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, StringConstraints

from fedconformal._extras import call_higher
from fedconformal._text import count, quoted
from fedconformal.documents._base import Many, Part, SiteName, printable
from fedconformal.documents._consistency import check_plan
from fedconformal.documents._design import Design, Level, Name, PerSite
from fedconformal.documents._grouping import GroupBy, Grouping
from fedconformal.documents._limits import MOST_CLASSES, MOST_FIELDS, MOST_GROUPS, PLAN, SizeLimit
from fedconformal.documents._messages import MessageData
from fedconformal.documents._names import Label
from fedconformal.documents._signing import AuthoredDocument, PublicKey
from fedconformal.documents._terms import Terms

Word = Annotated[str, StringConstraints(max_length=200), AfterValidator(printable)]


class ScoreRule(Part):
    """The score that all sites use, with all its parameters."""

    name: Name
    parameters: Annotated[
        dict[Word, bool | int | float | Word], AfterValidator(lambda given: dict(sorted(given.items())))
    ] = Field(default={}, max_length=MOST_FIELDS)


class SiteKey(Part):
    """Public key of a site."""

    site: SiteName
    public_key: PublicKey


class Selectable:
    """Attributes of one group and level; of several, ``[...]`` selects a group, a level, or both."""

    kind: ClassVar[str]

    @property
    def selected_designs(self) -> Sequence[Design]:
        """Designs of the selected groups."""
        raise NotImplementedError

    @property
    def selected_levels(self) -> Sequence[int]:
        """Places of the selected levels among those of the document."""
        raise NotImplementedError

    @property
    def group(self) -> str | None:
        """Label of the selected group; None for a whole document, or several groups."""
        return None

    def _only_design(self, name: str) -> Design:
        if len(self.selected_designs) == 1:
            return self.selected_designs[0]
        label = self.selected_designs[0].group
        raise ValueError(f"{name} differs between groups: ask for one, as in {self.kind}[{label!r}].{name}")

    def _only(self, name: str) -> tuple[Design, int]:
        """Return the only design and the place of its only level, or name how to select them."""
        design, place = self.selected_designs[0], self.selected_levels[0]
        sizes = {"group": len(self.selected_designs), "level": len(self.selected_levels)}
        differing = [what for what, size in sizes.items() if size > 1]
        if not differing:
            return design, place
        keys = [] if design.group is None else [repr(design.group)]
        if len(design.levels) > 1:
            keys.append(f"{float(design.levels[place].confidence_level):g}")
        raise ValueError(
            f"{name} differs by {' and '.join(differing)}: ask for one, as in "
            f"{self.kind}[{', '.join(keys)}].{name}"
        )

    def _select(self, key: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the places of the designs and levels that a key selects."""
        designs, levels = tuple(range(len(self.selected_designs))), tuple(self.selected_levels)
        for part in key if isinstance(key, tuple) else (key,):
            if isinstance(part, str):
                designs = tuple(i for i in designs if self.selected_designs[i].group == part)
                if not designs:
                    groups = [design.group or "" for design in self.selected_designs]
                    known = f"there are {quoted(groups)}" if groups != [""] else "there are no groups"
                    raise KeyError(f"no group {part!r}: {known}")
            elif isinstance(part, Real):
                wanted = part if isinstance(part, Fraction) else Fraction(str(part))
                known_levels = self.selected_designs[0].levels
                levels = tuple(i for i in levels if known_levels[i].confidence_level == wanted)
                if not levels:
                    listed = ", ".join(f"{float(level.confidence_level):g}" for level in known_levels)
                    raise KeyError(f"no level {part}: there are {listed}")
            else:
                raise TypeError(f"a group's label or a level selects, got {part!r}")
        return designs, levels


class PlanAttributes(Selectable):
    """Attributes of a plan for one group and level."""

    kind: ClassVar[str] = "plan"

    @property
    def confidence_level(self) -> float:
        """The confidence level."""
        return float(self._level("confidence_level").confidence_level)

    def _level(self, name: str) -> Level:
        design, place = self._only(name)
        return design.levels[place]

    @property
    def n_points(self) -> PerSite[int] | None:
        """Size of each site, in order; None while the plan is open."""
        design = self._only_design("n_points")
        return _per_site(design, [kind.n for kind in design.kinds])

    @property
    def local_ranks(self) -> PerSite[Any] | None:
        """Rank that each site sends, or a tuple of several; None while open, or where no ranks are sent."""
        design, place = self._only("local_ranks")
        ranks = call_higher("messages.local_ranks", design, place)
        several = ranks is not None and any(len(each) > 1 for each in ranks)
        values = [each[0] if len(each) == 1 and not several else each for each in ranks or ()]
        return None if ranks is None else _per_site(design, values)

    @property
    def weights(self) -> PerSite[Any] | None:
        """Votes of each number of a site: one whole number, or a tuple where they differ; None while open."""
        design, place = self._only("weights")
        votes = call_higher("messages.votes", design, place)
        values = [each if len(set(each)) > 1 else (*each, 0)[0] for each in votes or ()]
        return None if votes is None else _per_site(design, values)

    @property
    def server_rank(self) -> int | None:
        """Votes that the threshold needs; None while the plan is open."""
        return self._level("server_rank").votes

    @property
    def law(self) -> Any:
        """Distribution of the coverage if all sites answer; None while open, or where there is none."""
        return call_higher("messages.law", *self._only("law"))

    @property
    def guarantee(self) -> Any:
        """Guarantee for the coverage if all sites answer; None while the plan is open."""
        return call_higher("messages.guarantee", *self._only("guarantee"))

    @property
    def feasible(self) -> bool:
        """True if every selected level can be reached, in every selected group."""
        return all(
            design.levels[i].advice is None for design in self.selected_designs for i in self.selected_levels
        )

    @property
    def message(self) -> MessageData:
        """Message that sites send."""
        return self._only_design("message").message

    @property
    def criterion(self) -> str:
        """Name of the criterion."""
        return self._only_design("criterion").criterion

    @property
    def promise(self) -> str:
        """Name of the promise."""
        return self._only_design("promise").promise

    @property
    def mixture(self) -> dict[str, Fraction] | PerSite[Fraction] | None:
        """Share of new cases that come from each site, by name or in order; None if there are no shares."""
        design = self._only_design("mixture")
        if any(kind.share is None for kind in design.kinds) or not design.kinds:
            return None
        ordered = PerSite(
            [kind.count for kind in design.kinds], [kind.share or Fraction(0) for kind in design.kinds]
        )
        return ordered if design.site_names is None else dict(zip(design.site_names, ordered, strict=True))


def _per_site(design: Design, values: list[Any]) -> PerSite[Any] | None:
    return None if design.is_open else PerSite([kind.count for kind in design.kinds], values)


@dataclass(frozen=True)
class PlanView(PlanAttributes):
    """One group, one level, or both, of a plan."""

    plan: "Plan"
    _design_places: tuple[int, ...]
    _level_places: tuple[int, ...]

    @property
    def selected_designs(self) -> Sequence[Design]:
        """Designs of the selected groups."""
        return [self.plan.designs[i] for i in self._design_places]

    @property
    def selected_levels(self) -> Sequence[int]:
        """Places of the selected levels among those of the plan."""
        return self._level_places

    @property
    def group(self) -> str | None:
        """Label of the selected group; None for several."""
        return self.selected_designs[0].group if len(self._design_places) == 1 else None

    def __getitem__(self, key: Any) -> "PlanView":
        """Select a group by its label, or a level by its number."""
        designs, levels = self._select(key)
        return PlanView(self.plan, tuple(self._design_places[i] for i in designs), levels)


class Plan(PlanAttributes, AuthoredDocument):
    """Agreement made before any score is looked at: a design for each group of cases.

    ``local_ranks``, ``server_rank``, ``law`` and so on are those of one group and level; of several,
    ``plan["child"]``, ``plan[0.9]`` and ``plan["child", 0.9]`` have the same attributes.

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

    limit: ClassVar[SizeLimit] = PLAN

    format: Literal["fedconformal/plan"] = "fedconformal/plan"
    version: Literal[1] = 1
    designs: Many[Design] = Field(min_length=1, max_length=MOST_GROUPS, description="one for each group")
    group_by: Many[GroupBy] | None = Field(
        default=None, description="what groups are made of; left out where that is a label of each case"
    )
    classes: Many[Label] | None = Field(
        default=None,
        min_length=2,
        max_length=MOST_CLASSES,
        description="names of the classes, in the order of the columns of probabilities",
    )
    score: ScoreRule | None = Field(
        default=None, description="how all sites compute their scores, where the plan fixes it"
    )
    keys: Many[SiteKey] | None = Field(
        default=None, min_length=1, description="then only reports signed with these keys count"
    )
    terms: Terms = Field(default=Terms(), description="model, round, expiry and facts")

    def check(self) -> None:
        """Refuse content that does not fit together, whoever wrote it."""
        check_plan(self)

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
        return PlanView(self, *self._select(key))

    @property
    def is_grouped(self) -> bool:
        """True if there is a threshold for each group of cases."""
        return self.designs[0].group is not None

    @property
    def groups(self) -> tuple[str, ...]:
        """Labels of the groups, in alphabetical order; none if there are no groups."""
        return tuple(design.group for design in self.designs if design.group is not None)

    @cached_property
    def by_group(self) -> dict[str | None, Design]:
        """The design of each group, under None where there are no groups."""
        return {design.group: design for design in self.designs}

    @cached_property
    def grouping(self) -> Grouping:
        """Rule that assigns a case to its group by its label and site."""
        by = self.group_by or (("label",) if self.is_grouped else ())
        sites = {
            design.group or "": (design.site_names or ("",))[0] for design in self.designs if "site" in by
        }
        return Grouping(by, sites, self.groups)

    @property
    def is_open(self) -> bool:
        """True if sizes come with the reports, in any group."""
        return any(design.is_open for design in self.designs)

    @cached_property
    def site_names(self) -> tuple[str, ...] | None:
        """Names of the sites, where the plan names them; with groups, of all groups in alphabetical order."""
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
    def problems(self) -> tuple[str, ...]:
        """A sentence for each level that cannot be reached, with what would suffice."""
        found: tuple[str, ...] = call_higher("protocol.describe_problems", self)
        return found

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for a reader: problems, sites that are too small or not asked, missing sites."""
        found: tuple[str, ...] = call_higher("protocol.describe_notes", self)
        return found

    def _line(self) -> str:
        sites = "any number of sites" if self.n_sites is None else count(self.n_sites, "site")
        by_site = self.grouping.by_site and not self.grouping.has_labels
        groups = [self.grouping.counted(len(self.groups))] if self.groups and not by_site else []
        levels = "level " + ", ".join(f"{level:g}" for level in self.confidence_levels)
        losses = {getattr(design.message, "epsilon", None) or 0 for design in self.designs} - {0}
        terms = [
            f"promise {' or '.join(dict.fromkeys(design.promise for design in self.designs))}",
            f"criterion {' or '.join(dict.fromkeys(design.criterion for design in self.designs))}",
            *(f"epsilon {float(epsilon):g}" for epsilon in sorted(losses)),
            *([] if self.feasible else ["infinite threshold"]),
        ]
        return ", ".join([sites, *groups, self._points(), levels, *terms])

    def _points(self) -> str:
        if self.is_open:
            return "open sizes"
        sizes = [kind.n for design in self.designs for kind in design.kinds]
        low, high = min(sizes, default=0), max(sizes, default=0)
        return f"{count(low, 'point')} each" if low == high else f"{low:,} to {high:,} points each"
