"""Attributes of plans and calibrations, for one group of cases and one confidence
level.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

from fedconformal._extras import call_higher
from fedconformal._text import quoted
from fedconformal.documents._design import Design, Level, PerSite
from fedconformal.documents._messages import MessageData

if TYPE_CHECKING:
    from fedconformal.documents._plan import Plan


class Selectable:
    """Attributes of one group and level; of several, ``[...]`` selects a group, a
    level, or both.
    """

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
        first, *others = self.selected_designs
        if others:
            selected = f"{self.kind}[{first.group!r}].{name}"
            raise ValueError(
                f"{name} differs between groups: ask for one, as in {selected}"
            )
        return first

    def _only(self, name: str) -> tuple[Design, int]:
        """Return the only design and the place of its only level, or name how to select
        them.
        """
        design, place = self.selected_designs[0], self.selected_levels[0]
        differing = ["group"] * (len(self.selected_designs) > 1) + ["level"] * (
            len(self.selected_levels) > 1
        )
        if differing:
            keys = [] if design.group is None else [repr(design.group)]
            if len(design.levels) > 1:
                keys.append(f"{float(design.levels[place].confidence_level):g}")
            selected = f"{self.kind}[{', '.join(keys)}].{name}"
            raise ValueError(
                f"{name} differs by {' and '.join(differing)}: ask for one, as in"
                f" {selected}"
            )
        return design, place

    def _select(self, key: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the places of the designs and levels that a key selects."""
        designs, levels = (
            tuple(range(len(self.selected_designs))),
            tuple(self.selected_levels),
        )
        for part in key if isinstance(key, tuple) else (key,):
            if isinstance(part, str):
                designs = tuple(
                    i for i in designs if self.selected_designs[i].group == part
                )
                if not designs:
                    groups = [design.group or "" for design in self.selected_designs]
                    known = (
                        f"there are {quoted(groups)}"
                        if groups != [""]
                        else "there are no groups"
                    )
                    raise KeyError(f"no group {part!r}: {known}")
            elif isinstance(part, Real):
                wanted = part if isinstance(part, Fraction) else Fraction(str(part))
                known_levels = self.selected_designs[0].levels
                levels = tuple(
                    i for i in levels if known_levels[i].confidence_level == wanted
                )
                if not levels:
                    listed = ", ".join(
                        f"{float(level.confidence_level):g}" for level in known_levels
                    )
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

    def _per_site(
        self, design: Design, values: Sequence[Any] | None
    ) -> PerSite[Any] | None:
        counts = [kind.count for kind in design.kinds]
        return None if values is None or design.is_open else PerSite(counts, values)

    @property
    def n_points(self) -> PerSite[int] | None:
        """Size of each site, in order; None while the plan is open."""
        design = self._only_design("n_points")
        return self._per_site(design, [kind.n for kind in design.kinds])

    @property
    def local_ranks(self) -> PerSite[Any] | None:
        """Rank that each site sends, or a tuple of several; None while open, or where
        no ranks are sent.
        """
        design, place = self._only("local_ranks")
        ranks = call_higher("messages.local_ranks", design, place)
        if ranks is not None and all(len(each) < 2 for each in ranks):
            ranks = [each[0] if each else each for each in ranks]
        return self._per_site(design, ranks)

    @property
    def weights(self) -> PerSite[Any] | None:
        """Votes of each number of a site: one whole number, or a tuple where they
        differ; None while open.
        """
        design, place = self._only("weights")
        votes = call_higher("messages.votes", design, place)
        if votes is not None:
            votes = [each if len(set(each)) > 1 else (*each, 0)[0] for each in votes]
        return self._per_site(design, votes)

    @property
    def server_rank(self) -> int | None:
        """Votes that the threshold needs; None while the plan is open."""
        return self._level("server_rank").votes

    @property
    def law(self) -> Any:
        """Distribution of the coverage if all sites answer; None while open, or where
        there is none.
        """
        return call_higher("messages.law", *self._only("law"))

    @property
    def guarantee(self) -> Any:
        """Guarantee for the coverage if all sites answer; with promise 'each-site' that
        of each single site. None while the plan is open.
        """
        return call_higher("messages.guarantee", *self._only("guarantee"))

    @property
    def feasible(self) -> bool:
        """True if every selected level can be reached, in every selected group."""
        return all(
            design.levels[i].advice is None
            for design in self.selected_designs
            for i in self.selected_levels
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
        """Share of new cases that come from each site, by name or in order; None if
        there are no shares.
        """
        design = self._only_design("mixture")
        if any(kind.share is None for kind in design.kinds) or not design.kinds:
            return None
        ordered = self._per_site(design, [kind.share for kind in design.kinds])
        return (
            dict(zip(design.site_names, ordered or (), strict=True))
            if design.site_names
            else ordered
        )


@dataclass(frozen=True)
class PlanView(PlanAttributes):
    """One group, one level, or both, of a plan."""

    plan: "Plan"
    _designs: tuple[Design, ...]
    _levels: tuple[int, ...]

    @property
    def selected_designs(self) -> Sequence[Design]:
        """Designs of the selected groups."""
        return self._designs

    @property
    def selected_levels(self) -> Sequence[int]:
        """Places of the selected levels among those of the plan."""
        return self._levels

    @property
    def group(self) -> str | None:
        """Label of the selected group; None for several."""
        return self._designs[0].group if len(self._designs) == 1 else None

    def __getitem__(self, key: Any) -> "PlanView":
        """Select a group by its label, or a level by its number."""
        places, levels = self._select(key)
        return PlanView(self.plan, tuple(self._designs[i] for i in places), levels)
