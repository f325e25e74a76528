"""The Plan: which ranks each site sends and how many votes the server needs."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from fedconformal._text import quoted
from fedconformal.documents._base import Digest
from fedconformal.documents._ceilings import (
    MOST_CLASSES,
    MOST_GROUPS,
    PLAN,
    Ceiling,
    check_work,
)
from fedconformal.documents._grouping import Grouping, Made
from fedconformal.documents._names import Label, check_labels, check_looks
from fedconformal.documents._plan_checks import check_classes, check_faulty, check_groups, check_part
from fedconformal.documents._plan_designs import designs_of
from fedconformal.documents._plan_parts import (
    Level,
    PlanBlock,
    PlanPart,
    PrivacyRule,
    ScoreRule,
    SiteKey,
)
from fedconformal.documents._plan_views import (
    cost_of,
    largest_cost,
    plan_line,
    privacy_of,
    site_ranks,
    site_sizes,
    site_weights,
)
from fedconformal.documents._problems import (
    absent_sentences,
    problem_sentences,
    score_sentences,
    silence_sentences,
    size_sentences,
    unasked_sentences,
    whole_sentences,
)
from fedconformal.documents._signing import AuthoredDocument
from fedconformal.documents._terms import Expiry, Facts, RoundId, moment
from fedconformal.documents._views import Many, PerSite, Ranks, one_or_all
from fedconformal.laws import CoverageLaw
from fedconformal.planning import CRITERIA, PROMISES, Criterion, Design, Guarantee, Promise
from fedconformal.privacy import Bins, PrivateRelease


class Plan(AuthoredDocument):
    """What everybody agrees on before any score is looked at.

    A plan holds nothing but the user's wishes and whole numbers, so that the same wishes give the same plan
    and the same digest everywhere. With one confidence level ``local_ranks``, ``server_rank`` and ``law``
    are that level's; with several they are tuples, one entry per level. With groups of points they are
    dictionaries by label, and ``plan["child"]`` is the plan of one group.

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

    kind: ClassVar[str] = "plan"
    ceiling: ClassVar[Ceiling] = PLAN

    format: Literal["fedconformal/plan"] = "fedconformal/plan"
    version: Literal[1] = 1
    parts: Many[PlanPart] = Field(
        min_length=1, max_length=MOST_GROUPS, description="one, or one for each group by label"
    )
    group_by: Many[Made] | None = Field(
        default=None, description="what groups are made of; left out where that is a label of each point"
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
        default=None, description="then only reports signed with these keys count"
    )
    privacy: PrivacyRule | None = Field(default=None, description="then reports are private")
    round: RoundId | None = Field(
        default=None, description="tells this round from others with the same wishes; random if signed"
    )
    model: Digest | None = Field(default=None, description="of the file of the model whose scores are meant")
    expires: Expiry | None = Field(default=None, description="when sites and server stop to honour it, UTC")
    facts: Facts | None = Field(default=None, description="which model, for what, whose cases, who answers")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_labels([part.label for part in self.parts])
        check_looks({name for part in self.parts for name in part.site_names or ()})
        check_work(
            sum(len(part.levels) for part in self.parts),
            0 if self.privacy is None else self.privacy.n_bins,
        )
        check_classes(self.classes)
        if self.is_grouped:
            check_groups(self.parts, self.group_by, self.grouping, self.classes, self.privacy)
        elif self.group_by is not None:
            raise ValueError("group_by goes with groups")
        if self.keys is not None and sorted(key.site for key in self.keys) != sorted(self.site_names or ()):
            raise ValueError("keys must name exactly the sites that the plan names")
        check_faulty(self.parts, self.privacy)
        for part in self.parts:
            check_part(part, self.privacy, self.round)
        return self

    # -- groups ----------------------------------------------------------------------------------------

    @property
    def is_grouped(self) -> bool:
        """Whether there is a threshold for each group of points."""
        return self.parts[0].label is not None

    @property
    def labels(self) -> tuple[str, ...]:
        """The groups, in alphabetical order; none if there are no groups."""
        return tuple(part.label for part in self.parts if part.label is not None)

    @cached_property
    def grouping(self) -> Grouping:
        """How the label and the site of a point lead to its group."""
        by = self.group_by or (("label",) if self.is_grouped else ())
        return Grouping(
            by,
            {part.label or "": (part.site_names or ("",))[0] for part in self.parts if "site" in by},
            self.labels,
        )

    @cached_property
    def by_label(self) -> dict[str, "Plan"]:
        """The plan of each group."""
        return {label: self._alone(part) for label, part in zip(self.labels, self.parts, strict=False)}

    def _alone(self, part: PlanPart) -> "Plan":
        single = part.model_copy(update={"label": None, "epsilon": None})
        alone = Plan(parts=(single,), score=self.score, privacy=privacy_of(part, self.privacy))
        alone.__dict__["answered_digest"] = self.digest  # no field: equal plans stay equal
        return alone

    def __getitem__(self, label: str) -> "Plan":
        """The plan of one group, as a plan of its own."""
        if label not in self.by_label:
            known = f"this plan has {quoted(self.labels)}" if self.labels else "this plan has no groups"
            raise KeyError(f"no group {label!r}: {known}")
        return self.by_label[label]

    @cached_property
    def answered_digest(self) -> str:
        """The digest that reports carry: for the plan of one group, that of the whole plan."""
        return self.digest

    @property
    def part(self) -> PlanPart:
        """The only part of a plan without groups."""
        if self.is_grouped:
            raise ValueError(f"this plan has groups: ask one of them, as in plan[{self.labels[0]!r}]")
        return self.parts[0]

    def _each(self, read: Callable[["Plan"], Any]) -> Any:
        """What a plan without groups says, or what each group's says, by label."""
        return {label: read(plan) for label, plan in self.by_label.items()} if self.is_grouped else read(self)

    # -- which round this is ---------------------------------------------------------------------------

    def has_expired(self, now: datetime | None = None) -> bool:
        """Whether the plan is past its expiry, if it has one.

        Parameters
        ----------
        now : datetime, optional
            A moment with its time zone; the present one if left out.

        Returns
        -------
        bool
            False for a plan without an expiry.
        """
        return self.expires is not None and (now or datetime.now(UTC)) >= moment(self.expires)

    # -- who is asked ----------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether sizes come with the reports."""
        return any(part.blocks is None for part in self.parts)

    @cached_property
    def site_names(self) -> tuple[str, ...] | None:
        """The sites' names in order, where the plan names them; with groups, of all groups together."""
        names = [part.site_names for part in self.parts]
        if None in names:
            return None
        if not self.is_grouped:
            return names[0]
        return tuple(sorted({name for each in names for name in each or ()}))

    @property
    def n_sites(self) -> int | None:
        """How many sites are expected; None if that is open too."""
        if not self.is_grouped:
            return self.parts[0].n_sites
        if self.site_names is not None:
            return len(self.site_names)
        expected = [part.n_sites for part in self.parts]
        return None if None in expected else max(each or 0 for each in expected)

    @property
    def blocks(self) -> tuple[PlanBlock, ...] | None:
        """Runs of equal sites; None while the plan is open."""
        return self.part.blocks

    @property
    def fewest_answers(self) -> int:
        """How many sites must answer for anything to be calibrated: faulty ones must not be half."""
        return 2 * self.part.max_faulty + 1

    def ranks_for(self, n: int, *, site: str | None = None) -> tuple[Ranks, ...]:
        """Ranks that a site with n scores sends, for each level.

        Parameters
        ----------
        n : int
            How many scores the site has.
        site : str, optional
            Its name, by which it is found where the plan names sites; else it is found by its size.

        Returns
        -------
        tuple of tuple of int
            For each level the ranks, in increasing order; n + 1 stands for +inf.

        Raises
        ------
        ValueError
            If the plan expects no such site.
        """
        return self.part.ranks_for(n, site=site)

    # -- the goal --------------------------------------------------------------------------------------

    @property
    def levels(self) -> tuple[Level, ...]:
        """What is planned for each confidence level."""
        return self.part.levels

    @property
    def confidence_levels(self) -> tuple[float, ...]:
        """The levels, the same in all groups."""
        return tuple(level.confidence_level for level in self.parts[0].levels)

    @property
    def confidence_level(self) -> Any:
        """The level, or a tuple of them."""
        return one_or_all(self.confidence_levels)

    @property
    def criterion(self) -> Any:
        """Name of the criterion; with groups, by label."""
        return self._each(lambda plan: plan.part.criterion)

    @property
    def delta(self) -> float | None:
        """How often the promise may fail, for criteria that take it."""
        return self.part.delta

    @property
    def promise(self) -> Any:
        """Name of the promise; with groups, by label."""
        return self._each(lambda plan: plan.part.promise)

    @property
    def max_faulty(self) -> int:
        """How many reports may be arbitrary, in any group."""
        return max(part.max_faulty for part in self.parts)

    def criterion_object(self) -> Criterion:
        """The criterion itself."""
        return CRITERIA[self.part.criterion]()

    def promise_object(self) -> Promise:
        """The promise itself."""
        return PROMISES[self.part.promise]()

    # -- ranks, votes, laws ----------------------------------------------------------------------------

    @cached_property
    def designs(self) -> tuple[Design, ...]:
        """The design of each level: everything that is promised follows from it."""
        return designs_of(self.part, self.privacy)

    @property
    def n_points(self) -> Any:
        """Size of each site, by label if there are groups; None while the plan is open."""
        return self._each(lambda plan: site_sizes(plan.part))

    @property
    def server_rank(self) -> Any:
        """Votes that the threshold needs; None while the plan is open."""
        return self._each(lambda plan: one_or_all([level.server_rank for level in plan.levels]))

    @property
    def local_ranks(self) -> Any:
        """Rank that each site sends, in the order of the sites; None while open, or if cases are drawn."""
        return self._each(lambda plan: one_or_all(site_ranks(plan.part)))

    @property
    def weights(self) -> Any:
        """Votes of each number that a site sends, in the order of the sites; None while the plan is open.

        One whole number per site, or a tuple where its numbers have different ones; 0 for a site that is not
        asked.
        """
        return self._each(lambda plan: one_or_all(site_weights(plan.part)))

    @property
    def laws(self) -> tuple[CoverageLaw, ...] | None:
        """The law of the coverage for each level, if all sites answer.

        None while the plan is open, and where there is none: then see ``guarantee``.
        """
        if self.is_open or not self.promise_object().has_law:
            return None
        return tuple(design.law() for design in self.designs)

    @property
    def law(self) -> Any:
        """The law of the coverage if all sites answer; None while the plan is open, or has none."""
        return self._each(lambda plan: None if plan.laws is None else one_or_all(plan.laws))

    @property
    def guarantee(self) -> Any:
        """What is guaranteed of the coverage if all sites answer; None while the plan is open."""
        return self._each(lambda plan: None if plan.is_open else one_or_all(plan._guarantees()))

    def _guarantees(self) -> tuple[Guarantee, ...]:
        return tuple(design.guarantee() for design in self.designs)

    @property
    def mixture(self) -> dict[str, Fraction] | PerSite[Fraction] | None:
        """Share of new points that come from each site, by name or in order; None if that plays no part."""
        blocks = self.part.blocks or ()
        shares = [block.exact_share for block in blocks if block.exact_share is not None]
        if not shares:
            return None
        ordered = PerSite([block.count for block in blocks], shares)
        return ordered if self.site_names is None else dict(zip(self.site_names, ordered, strict=True))

    # -- privacy ---------------------------------------------------------------------------------------

    @property
    def bins(self) -> Bins | None:
        """Where private releases may fall; None if the plan is not private."""
        return None if self.privacy is None else Bins(self.privacy.edges, bounded=self.privacy.bounded)

    @property
    def releases(self) -> tuple[PrivateRelease, ...] | None:
        """The private release of each level; None if the plan is not private."""
        found = tuple(design.sending.release for design in self.designs)
        return tuple(release for release in found if release is not None) or None

    @cached_property
    def to_answer(self) -> tuple[str, ...]:
        """The groups that sites answer for: with privacy, only those that their part of epsilon can serve."""
        private = self.privacy is not None
        return tuple(label for label, plan in self.by_label.items() if plan.feasible or not private)

    @property
    def epsilon(self) -> Fraction | None:
        """What the answer of a site with points of all groups costs; None if the plan is not private."""
        if self.privacy is None:
            return None
        if not self.is_grouped:
            return Fraction(str(self.privacy.epsilon))
        return largest_cost(self.parts, self.grouping, self.to_answer)

    def cost(self, labels: Iterable[str]) -> Fraction:
        """What an answer for these groups costs: the sum of their epsilons, exactly.

        Parameters
        ----------
        labels : iterable of str
            Groups of the plan.

        Returns
        -------
        Fraction
            0 if the plan is not private.
        """
        return cost_of(self.parts, labels)

    # -- words -----------------------------------------------------------------------------------------

    def _line(self) -> str:
        return plan_line(self.parts, self.n_sites, self.grouping, self.privacy)

    @property
    def feasible(self) -> bool:
        """Whether every level has a finite threshold, in every group."""
        return all(level.advice is None for part in self.parts for level in part.levels)

    @property
    def problems(self) -> tuple[str, ...]:
        """A sentence for each level that no ranks reach, and what would be enough."""
        own = self.grouping.by_site
        return self._sentences(lambda part, rule: problem_sentences(part, rule, one_site=own))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know: problems, sites that are too small, and what silence would do."""
        return (
            *self.problems,
            *self._sentences(lambda part, _: size_sentences(part)),
            *self._sentences(lambda part, _: whole_sentences(part)),
            *absent_sentences(self.grouping),
            *self._sentences(lambda part, _: unasked_sentences(part)),
            *self._silence_notes(),
            *score_sentences(self.score, self.classes),
        )

    def _silence_notes(self) -> tuple[str, ...]:
        plans = self.by_label.values() if self.is_grouped else [self]
        pairs = zip(self.parts, plans, strict=True)
        return tuple(text for part, plan in pairs for text in silence_sentences(part, plan.designs))

    def _sentences(self, say: Callable[[PlanPart, PrivacyRule | None], Iterable[str]]) -> tuple[str, ...]:
        split = ", with its part of epsilon" if self.privacy is not None else ""
        return tuple(
            sentence if part.label is None else f"Group {part.label!r}{split}: {sentence}"
            for part in self.parts
            for sentence in say(part, privacy_of(part, self.privacy))
        )
