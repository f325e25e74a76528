"""The Plan: which ranks each site sends and how many votes the server needs."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from fedconformal._text import count, quoted
from fedconformal.documents._base import Digest
from fedconformal.documents._ceilings import (
    MOST_CLASSES,
    MOST_GROUPS,
    PLAN,
    Ceiling,
    check_work,
)
from fedconformal.documents._facts import Facts
from fedconformal.documents._grouping import KINDS, Grouping, Made, Merged, check_grouping
from fedconformal.documents._labels import Label, check_labels
from fedconformal.documents._names import check_looks
from fedconformal.documents._plan_parts import (
    Level,
    PlanBlock,
    PlanPart,
    PrivacyRule,
    ScoreRule,
    SiteKey,
)
from fedconformal.documents._problems import (
    absent_sentences,
    problem_sentences,
    rare_sentences,
    silence_sentence,
    size_sentences,
    unasked_sentences,
    whole_sentences,
)
from fedconformal.documents._rounds import Expiry, RoundId, is_random, moment
from fedconformal.documents._signing import AuthoredDocument
from fedconformal.documents._views import Many, PerSite, Ranks, one_or_all
from fedconformal.laws import CoverageLaw
from fedconformal.planning import (
    CRITERIA,
    PROMISES,
    Block,
    Cases,
    Criterion,
    Design,
    Exact,
    Goal,
    Guarantee,
    Private,
    Promise,
    Sending,
    merged,
)
from fedconformal.planning import Advice as PlannedAdvice
from fedconformal.privacy import ANALYSES, MECHANISMS, Bins, PrivateRelease
from fedconformal.scores import SCORES, LabelScore, from_name


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
    merged: Merged | None = Field(
        default=None, description="labels that are too rare for groups of their own"
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
            0 if self.privacy is None else len(self.privacy.edges),
        )
        if self.privacy is not None:
            self.privacy.check_score(self.score)
        self._check_grouping()
        if self.is_grouped:
            self._check_groups()
        if self.keys is not None and sorted(key.site for key in self.keys) != sorted(self.site_names or ()):
            raise ValueError("keys must name exactly the sites that the plan names")
        self._check_faulty()
        for part in self.parts:
            if any((self.privacy is None) != (level.quantile is None) for level in part.levels):
                raise ValueError("every level has a quantile if the plan is private, and none otherwise")
            if part.blocks is None and self.privacy is not None:
                raise ValueError("a private plan needs the sizes of the sites")
            if self.privacy is not None:
                ANALYSES[self.privacy.analysis]().check(
                    mechanism=MECHANISMS[self.privacy.mechanism](),
                    n_sizes=len({block.n for block in part.blocks or ()}),
                    criterion=part.criterion,
                    max_faulty=part.max_faulty,
                )
            promise, private = PROMISES[part.promise](), self.privacy is not None
            if part.cases is not None and (self.round is None or not is_random(self.round)):
                raise ValueError("a plan for cases drawn at random has a random round: 32 hexadecimal digits")
            for level, design in zip(part.levels, _designs(part, self._privacy_of(part)), strict=True):
                numbers = part.cases or level.numbers
                promise.check(design.goal, private=private, is_open=design.is_open, numbers=numbers)
                _check_fitting(promise, part, design)
                promise.check_design(design)
                if private and any(block.weights != (1,) for block in design.blocks):
                    raise ValueError("in a private plan every site sends one number, of one vote")
                release = design.sending.release
                if release is not None and any(b.ranks[0] != release.rank(b.n) for b in design.blocks):
                    raise ValueError("the ranks of private sites do not follow from the quantile")
        return self

    def _check_faulty(self) -> None:
        """How many reports are wrong means nothing where nobody knows how many there may be, or whose."""
        if not self.max_faulty:
            return
        if any(part.n_sites is None for part in self.parts):
            raise ValueError("max_faulty must be 0 while anybody may answer: name the sites, or count them")
        if self.privacy is not None and self.privacy.one_hot:
            raise ValueError("max_faulty must be 0 with one-hot sums, where one site could cast every vote")

    def _check_grouping(self) -> None:
        if self.classes is not None and len(set(self.classes)) < len(self.classes):
            raise ValueError("classes must be different")
        if not self.is_grouped:
            if self.group_by is not None or self.merged is not None:
                raise ValueError("group_by and merged go with groups")
            return
        if self.group_by is not None and self.group_by not in KINDS:
            known = " or ".join(" and ".join(made) for made in KINDS)
            raise ValueError(f"groups must be made of a label, or of {known}")
        if self.grouping.by_site and any(len(part.site_names or ()) != 1 for part in self.parts):
            raise ValueError("where groups are made of sites, each has one site, with a name")
        check_grouping(self.grouping, self.classes)

    def _check_groups(self) -> None:
        if len({tuple(level.confidence_level for level in part.levels) for part in self.parts}) > 1:
            raise ValueError("all groups must have the same confidence levels")
        if self.privacy is not None and self.privacy.one_hot:
            raise ValueError("groups do not go with one-hot vectors")
        if any((part.epsilon is None) != (self.privacy is None) for part in self.parts):
            raise ValueError("every group has a part of epsilon if the plan is private, and none otherwise")
        if self.privacy is not None and self._largest_cost(self.labels) > Fraction(str(self.privacy.epsilon)):
            raise ValueError("the groups' parts of epsilon add up to more than the whole")
        for part in self.parts:
            if not PROMISES[part.promise].allows_groups:
                raise ValueError(f"promise {part.promise!r} does not go with groups: it is a plan of its own")

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
        rare = () if self.merged is None else self.merged.of
        return Grouping(
            by,
            {part.label or "": (part.site_names or ("",))[0] for part in self.parts if "site" in by},
            {label: self.merged.label for label in rare if self.merged is not None},
            self.labels,
        )

    @cached_property
    def by_label(self) -> dict[str, "Plan"]:
        """The plan of each group."""
        return {label: self._alone(part) for label, part in zip(self.labels, self.parts, strict=False)}

    def _alone(self, part: PlanPart) -> "Plan":
        single = part.model_copy(update={"label": None, "epsilon": None})
        alone = Plan(parts=(single,), score=self.score, privacy=self._privacy_of(part))
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
        return _designs(self.part, self.privacy)

    @property
    def n_points(self) -> Any:
        """Size of each site, by label if there are groups; None while the plan is open."""
        return self._each(lambda plan: plan._per_site([block.n for block in plan.blocks or ()]))

    def _per_site(self, values: Sequence[Any]) -> PerSite[Any] | None:
        return None if self.blocks is None else PerSite([block.count for block in self.blocks], values)

    @property
    def server_rank(self) -> Any:
        """Votes that the threshold needs; None while the plan is open."""
        return self._each(lambda plan: one_or_all([level.server_rank for level in plan.levels]))

    @property
    def local_ranks(self) -> Any:
        """Rank that each site sends, in the order of the sites; None while open, or if cases are drawn."""
        return self._each(lambda plan: one_or_all(plan._local_ranks()))

    def _local_ranks(self) -> list[PerSite[Any] | None]:
        blocks = self.blocks or ()
        if self.part.cases is not None:
            return [None for _ in self.levels]
        return [
            self._per_site([one_or_all(block.ranks[i]) for block in blocks]) for i in range(len(self.levels))
        ]

    @property
    def weights(self) -> Any:
        """Votes of each number that a site sends, in the order of the sites; None while the plan is open.

        One whole number per site, or a tuple where its numbers have different ones; 0 for a site that is not
        asked.
        """
        return self._each(lambda plan: one_or_all(plan._weights()))

    def _weights(self) -> list[PerSite[Any] | None]:
        blocks = self.blocks or ()
        votes = [[sorted(set(block.votes[i])) or [0] for block in blocks] for i in range(len(self.levels))]
        return [
            self._per_site(
                [
                    each[0] if len(each) == 1 else block.votes[i]
                    for each, block in zip(level, blocks, strict=True)
                ]
            )
            for i, level in enumerate(votes)
        ]

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

    def _privacy_of(self, part: PlanPart) -> PrivacyRule | None:
        if self.privacy is None or part.epsilon is None:
            return self.privacy
        return self.privacy.model_copy(update={"epsilon": part.epsilon})

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
        return self._largest_cost(self.to_answer) if self.is_grouped else Fraction(str(self.privacy.epsilon))

    def _largest_cost(self, labels: Iterable[str]) -> Fraction:
        """What an answer for these groups costs at most, whoever gives it."""
        wanted = set(labels)
        sites = set(self.grouping.sites.values()) or {""}
        return max(self.cost(wanted.intersection(self.grouping.groups_at(site))) for site in sites)

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
        wanted = set(labels)
        parts = [part.epsilon for part in self.parts if part.label in wanted]
        return sum((Fraction(str(part)) for part in parts if part is not None), Fraction(0))

    # -- words -----------------------------------------------------------------------------------------

    def _line(self) -> str:
        sites = "any number of sites" if self.n_sites is None else count(self.n_sites, "site")
        sizes = [block.n for part in self.parts for block in part.blocks or ()]
        points = "open sizes" if self.is_open else f"{_span(sizes)} points each"
        groups = [self.grouping.counted(len(self.labels))] if self.is_grouped else []
        terms = [
            f"promise {_alike(part.promise for part in self.parts)}",
            f"criterion {_alike(part.criterion for part in self.parts)}",
            *([] if self.privacy is None else [f"epsilon {self.privacy.epsilon:g}"]),
            *([] if self.feasible else ["infinite threshold"]),
        ]
        levels = "level " + ", ".join(f"{level:g}" for level in self.confidence_levels)
        return ", ".join([sites, *groups, points, levels, *terms])

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
        told = (*self._said(size_sentences), *self._said(whole_sentences))
        rare = rare_sentences(self.grouping, feasible=self.feasible)
        return (
            *self.problems,
            *told,
            *rare,
            *absent_sentences(self.grouping),
            *self._said(unasked_sentences),
            *self._silence_notes(),
            *self._score_notes(),
        )

    def _score_notes(self) -> tuple[str, ...]:
        """What to know of the score for so many classes, where both are fixed."""
        if self.score is None or self.classes is None or self.score.name not in SCORES:
            return ()
        rule = from_name(self.score.name, **self.score.parameters)
        said = rule.caution(len(self.classes)) if isinstance(rule, LabelScore) else ""
        return (said,) if said else ()

    def _labelled(self) -> list[tuple[str | None, "Plan"]]:
        """The plan of each group with its label; this very plan where there are none."""
        return [*self.by_label.items()] if self.is_grouped else [(None, self)]

    def _silence_notes(self) -> tuple[str, ...]:
        """A sentence for each level whose threshold one silent site would make infinite."""
        return tuple(
            silence_sentence(label, level.confidence_level, plan.promise_object().bearing)
            for label, plan in self._labelled()
            for level, design in zip(plan.levels, plan.designs, strict=True)
            if not design.is_open and design.is_finite and design.n_sites > 1 and not design.survives()
        )

    def _said(self, say: Callable[[PlanPart], Iterable[str]]) -> tuple[str, ...]:
        return self._sentences(lambda part, _: say(part))

    def _sentences(self, say: Callable[[PlanPart, PrivacyRule | None], Iterable[str]]) -> tuple[str, ...]:
        split = ", with its part of epsilon" if self.privacy is not None else ""
        return tuple(
            sentence if part.label is None else f"Group {part.label!r}{split}: {sentence}"
            for part in self.parts
            for sentence in say(part, self._privacy_of(part))
        )


def _span(sizes: Sequence[int]) -> str:
    """From where to where numbers go: "40", "40 to 120"."""
    low, high = min(sizes, default=0), max(sizes, default=0)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _alike(names: Iterable[str]) -> str:
    return " or ".join(dict.fromkeys(names))


def _designs(part: PlanPart, privacy: PrivacyRule | None) -> tuple[Design, ...]:
    """The design of each level of a part."""
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
        None if level.advice is None else PlannedAdvice(**level.advice.model_dump()),
        level.exact_eta,
    )


def _check_fitting(promise: Promise, part: PlanPart, design: Design) -> None:
    """Refuse fields of another promise."""
    if (part.cases is not None) != isinstance(promise.sending(design.goal, 1), Cases):
        raise ValueError("cases are drawn for a promise on average over new sites, and only there")
    if design.eta is not None and not (promise.takes_eta and design.goal.criterion.takes_delta):
        raise ValueError("eta goes with a promise to new sites one by one")
    if not promise.takes_mixture and any(block.share is not None for block in design.blocks):
        raise ValueError("a share of new points goes with a promise to a mixture")


def _sending(part: PlanPart, level: Level, rule: PrivacyRule | None) -> Sending:
    n_levels = len(part.levels)
    if rule is None:
        return Exact() if part.cases is None else Cases(part.cases)
    assert level.exact_quantile is not None
    analysis = ANALYSES[rule.analysis]()
    release = PrivateRelease(
        Fraction(str(rule.epsilon)) / n_levels,
        len(rule.edges),
        MECHANISMS[rule.mechanism](),
        analysis,
        analysis.aim(level.exact_quantile, level.exact_slope),
    )
    return Private(release, n_levels)
