"""The Calibration: thresholds, who answered, and everything needed to verify the
claim.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, Self

from numpy.typing import ArrayLike
from pydantic import Field

from fedconformal._text import count, quoted
from fedconformal._util import Floats
from fedconformal.documents import _fields as limits
from fedconformal.documents._base import Part, SizeLimit, count_items
from fedconformal.documents._design import Design
from fedconformal.documents._fields import (
    Digest,
    Extended,
    Label,
    Many,
    Name,
    Period,
    Sentence,
    Share,
    SiteCount,
    SiteName,
)
from fedconformal.documents._grouping import GroupBy, Grouping, pair_label
from fedconformal.documents._messages import Ranks
from fedconformal.documents._plan import Plan, SiteKey
from fedconformal.documents._report import signed_text
from fedconformal.documents._score_rule import ScoreRule
from fedconformal.documents._signing import AuthoredDocument, Signature, is_signature
from fedconformal.documents._terms import Terms
from fedconformal.documents._thresholds import GroupThresholds, Thresholds
from fedconformal.documents._views import PlanAttributes

_KEPT = ("promise", "criterion", "delta", "max_faulty", "max_missing")


class Refusal(Part):
    """A report that did not count."""

    source: Sentence = Field(description="site or file that it came from")
    reason: Sentence


class Received(Part):
    """A report that counted, by its digest."""

    site: SiteName
    report: Digest
    signature: Signature | None = Field(
        default=None, description="the site's, where the plan lists keys"
    )


class CalibrationPart(Part):
    """Thresholds for all cases together, or for one group of them."""

    design: Design = Field(
        description="the plan's design for the sites that answered, votes solved again"
    )
    thresholds: Many[Extended] = Field(
        min_length=1, max_length=limits.MOST_LEVELS, description="by level"
    )
    missing: Many[SiteName] = Field(
        default=(), description="sites that were asked and did not answer"
    )
    n_missing: SiteCount = Field(
        default=0, description="number of missing sites, named or not"
    )
    refused: Many[Refusal] = Field(
        default=(), description="payloads for this group that did not count"
    )
    sums: Annotated[
        Many[Annotated[int, Field(ge=-(2**63), lt=2**63)]],
        Field(max_length=limits.MOST_MASKED),
    ] = Field(
        default=(), description="of a masked plan, the numbers of all sites, added up"
    )

    def check(self, planned: Design) -> None:
        """Refuse a part that cannot be the answer to a design of the plan."""
        design = self.design
        if any(getattr(design, name) != getattr(planned, name) for name in _KEPT):
            raise ValueError(f"{', '.join(_KEPT)} must be those of the plan")
        levels, goals = (
            [each.confidence_level for each in own.levels] for own in (design, planned)
        )
        if levels != goals:
            raise ValueError("the levels must be those of the plan")
        if len(self.thresholds) != len(levels):
            raise ValueError("there must be a threshold for each level")
        same = design.message == planned.message
        if design.message.kind != planned.message.kind or not (design.sites or same):
            raise ValueError("the message must be that of the plan")
        if len(self.missing) > self.n_missing:
            raise ValueError("n_missing must count the missing sites, named or not")
        self._check_sites(planned)
        too_few = (design.n_sites or 0) < design.fewest_answers
        for level, threshold in zip(design.levels, self.thresholds, strict=True):
            if (level.votes is None) != too_few:
                raise ValueError(
                    "votes must be left out if too few sites answered, and only then"
                )
            if (
                level.votes is None or level.advice is not None
            ) and threshold != math.inf:
                raise ValueError(
                    "the threshold must be Infinity where the level is not reached"
                )
        if design.sites:
            design.check_shares()
            design.message.check(design)

    def _check_sites(self, planned: Design) -> None:
        """Refuse sites that answered without a name, twice, or although the plan does
        not ask them.
        """
        design = self.design
        length = (
            planned.message.vector_length(len(design.levels))
            if planned.message.is_masked
            else 0
        )
        is_unanswered = not design.sites and all(
            threshold == math.inf for threshold in self.thresholds
        )
        if len(self.sums) != length * (not is_unanswered) or (
            self.sums and self.n_missing
        ):
            raise ValueError(
                "sums must be those of all sites of a masked plan, and of no other"
            )
        if design.sites is None or (not design.sites and design.group is None):
            raise ValueError("at least one site must have answered")
        if any(
            not kind.names or len(kind.names) != kind.count or not kind.asked
            for kind in design.sites
        ):
            raise ValueError("the sites that answered must have names")
        names = [name for kind in design.sites for name in kind.names]
        if len(set(names)) < len(names):
            raise ValueError("a site answered twice")
        if planned.site_names is not None and not set(names) <= set(
            planned.asked_names or ()
        ):
            raise ValueError("a site answered that the plan does not ask")
        room = Counter[int]()
        for kind in planned.kinds:
            room[kind.n] += kind.count * kind.asked
        for kind in design.sites:
            room[kind.n] -= kind.count
            for name in kind.names if planned.site_names is not None else (None,):
                planned.find_kind(kind.n, site=name)
        if not planned.is_open and min(room.values()) < 0:
            raise ValueError("more sites of a size answered than the plan has")


class CalibrationAttributes(PlanAttributes):
    """Thresholds and the distribution of the coverage, for one group and level."""

    kind: ClassVar[str] = "calibration"

    @property
    def selected_parts(self) -> Sequence[CalibrationPart]:
        """Parts of the selected groups."""
        raise NotImplementedError

    @property
    def whole(self) -> Calibration:
        """The calibration with all its groups and levels."""
        raise NotImplementedError

    @property
    def selected_designs(self) -> Sequence[Design]:
        """Designs of the selected groups, for the sites that answered."""
        return [part.design for part in self.selected_parts]

    @property
    def calibration_digest(self) -> str:
        """Digest of the calibration with all its groups and levels."""
        return self.whole.digest

    @property
    def plan_digest(self) -> str:
        """Digest of the plan that was answered."""
        return self.whole.plan.digest

    @property
    def threshold(self) -> float:
        """The threshold."""
        _, place = self._only("threshold")
        return self.selected_parts[0].thresholds[place]

    @property
    def thresholds(self) -> tuple[float, ...]:
        """Thresholds of one group, one per level."""
        self._only_design("thresholds")
        return tuple(self.selected_parts[0].thresholds[i] for i in self.selected_levels)

    @property
    def sets(self) -> Thresholds:
        """Thresholds with which prediction sets are made."""
        return self._gather(self.selected_parts)

    def _gather(self, parts: Sequence[CalibrationPart]) -> Thresholds:
        """Return the thresholds of some groups at the selected levels."""
        plan = self.whole.plan
        is_selected = self.group is not None
        sites = {} if is_selected else plan.grouping.sites
        gathered = []
        for part in parts:
            values = [part.thresholds[place] for place in self.selected_levels]
            group = None if is_selected else part.design.group
            site = sites.get(group or "")
            gathered.append(
                GroupThresholds(group=group, site=site, values=tuple(values))
            )
        levels = plan.designs[0].levels
        chosen = [levels[place].confidence_level for place in self.selected_levels]
        return Thresholds(
            score=plan.score,
            classes=plan.classes,
            group_by=() if is_selected else plan.grouping.by,
            levels=tuple(chosen),
            parts=tuple(gathered),
            of_answers=plan.of_answers,
        )

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of sites that were asked and did not answer, for any of the groups."""
        return tuple(
            sorted({name for part in self.selected_parts for name in part.missing})
        )

    @property
    def n_missing(self) -> int:
        """Number of sites that were asked and did not answer; with groups, the largest
        number of any.
        """
        return max(part.n_missing for part in self.selected_parts)

    @property
    def not_asked(self) -> tuple[str, ...]:
        """Names of sites that no group asks, because no answer of theirs could change a
        threshold.
        """
        designs = [
            self.whole.plan.by_group[design.group] for design in self.selected_designs
        ]
        asked = {name for design in designs for name in design.asked_names or ()}
        return tuple(
            sorted(
                {name for design in designs for name in design.site_names or ()} - asked
            )
        )

    @property
    def answered(self) -> tuple[str, ...]:
        """Names of the sites whose answers counted, for any of the groups."""
        return tuple(
            sorted(
                {
                    name
                    for design in self.selected_designs
                    for name in design.site_names or ()
                }
            )
        )

    @property
    def n_answers(self) -> int:
        """Number of sites whose answers counted."""
        return len(self.answered)

    def __getitem__(self, key: Any) -> CalibrationView:
        """Select a group by its label, a level by its number, or both."""
        places, levels = self._select(key)
        return CalibrationView(
            self.whole, tuple(self.selected_parts[i] for i in places), levels
        )

    @property
    def is_calibrated(self) -> bool:
        """True if enough sites answered, in any group."""
        return any(
            level.votes is not None
            for design in self.selected_designs
            for level in design.levels
        )


@dataclass(frozen=True)
class CalibrationView(CalibrationAttributes):
    """One group, one level, or both, of a calibration."""

    calibration: Calibration
    _parts: tuple[CalibrationPart, ...]
    _levels: tuple[int, ...]

    @property
    def selected_parts(self) -> Sequence[CalibrationPart]:
        """Parts of the selected groups."""
        return self._parts

    @property
    def selected_levels(self) -> Sequence[int]:
        """Places of the selected levels among those of the calibration."""
        return self._levels

    @property
    def whole(self) -> Calibration:
        """The calibration with all its groups and levels."""
        return self.calibration

    @property
    def group(self) -> str | None:
        """Label of the selected group; None for several."""
        return self._parts[0].design.group if len(self._parts) == 1 else None


class Calibration(CalibrationAttributes, AuthoredDocument):
    """The server's result: prediction sets are {y : score(x, y) <= threshold}.

    ``threshold``, ``law`` and so on are those of one group and level; of several,
    ``calibration["child"]``, ``calibration[0.9]`` and ``calibration["child", 0.9]``
    have the same attributes.

    Examples
    --------
    >>> import fedconformal as fc
    >>> calibration = fc.conformalize(
    ...     {"A": range(40), "B": range(60)}, score="absolute"
    ... )
    >>> calibration
    <Calibration: threshold 53 at level 0.9, 2 of 2 sites answered>
    >>> calibration.predict_interval([100.0])
    array([[ 47., 153.]])
    >>> fc.Calibration.from_json(calibration.to_json()) == calibration
    True
    """

    limit: ClassVar[SizeLimit] = SizeLimit(4 * 2**20, 1_750_000, ("site",), 44 * 2**20)

    format: Literal["fedconformal/calibration"] = "fedconformal/calibration"
    version: Literal[1] = 1
    plan: Plan
    parts: Many[CalibrationPart] = Field(
        min_length=1, max_length=limits.MOST_GROUPS, description="by group"
    )
    reports: Many[Received] = Field(
        default=(), description="reports that counted, by site"
    )
    refused: Many[Refusal] = Field(default=(), description="reports that did not count")
    assumptions: Many[Name] = Field(
        max_length=20, description="codes of the assumptions of the guarantee"
    )

    def check(self) -> None:
        """Refuse content that does not fit together, whoever wrote it."""
        self.plan.check()
        if [part.design.group for part in self.parts] != [
            design.group for design in self.plan.designs
        ]:
            raise ValueError("the parts must be those of the plan")
        sites = [received.site for received in self.reports]
        if sites != sorted(set(sites)):
            raise ValueError(
                "the sites that answered must be different, in alphabetical order"
            )
        if not set(self.answered) <= set(sites):
            raise ValueError("a site answered without a report")
        for part, planned in zip(self.parts, self.plan.designs, strict=True):
            part.check(planned)

    @classmethod
    def check_format(cls, fields: dict[str, Any]) -> None:
        """Refuse another kind of document, here or in the place of the plan.

        Parameters
        ----------
        fields : dict
            The fields of a calibration.
        """
        super().check_format(fields)
        if isinstance(fields.get("plan"), dict):
            Plan.check_format(fields["plan"])

    @property
    def selected_parts(self) -> Sequence[CalibrationPart]:
        """All parts."""
        return self.parts

    @property
    def selected_levels(self) -> Sequence[int]:
        """Places of all levels."""
        return range(len(self.parts[0].design.levels))

    @property
    def whole(self) -> Calibration:
        """The calibration itself."""
        return self

    @cached_property
    def by_group(self) -> dict[str | None, CalibrationPart]:
        """The part of each group, under None where there are no groups."""
        return {part.design.group: part for part in self.parts}

    @cached_property
    def sets(self) -> Thresholds:
        """Thresholds with which prediction sets are made."""
        return self._gather(self.parts)

    @cached_property
    def authenticated(self) -> bool:
        """True if every report that counted carries a valid signature of the key that
        the plan lists.
        """
        keys = {key.site: key.public_key for key in self.plan.keys or ()}
        return bool(keys and self.reports) and all(
            received.site in keys
            and is_signature(
                received.signature,
                signed_text(self.plan.digest, received.report),
                keys[received.site],
            )
            for received in self.reports
        )

    @property
    def without_threshold(self) -> tuple[str, ...]:
        """Groups without a finite threshold at some level, those included that a site
        has too few cases of, or none, for the plan.
        """
        pairs = [pair_label(site, label) for site, label in self.plan.grouping.absent]
        infinite = [
            part.design.group
            for part in self.parts
            if part.design.group is not None and max(part.thresholds) == math.inf
        ]
        return tuple(sorted([*pairs, *infinite]))

    def _line(self) -> str:
        expected, left_out = self.plan.n_sites, len(self.not_asked)
        sites = count(
            self.n_answers if expected is None else expected - left_out, "site"
        )
        answered = (
            f"{'' if expected is None else f'{self.n_answers:,} of '}{sites} answered"
        )
        answered += f", {left_out:,} not asked" if left_out else ""
        levels = [f"{level:g}" for level in self.plan.confidence_levels]
        if self.plan.is_grouped:
            groups = self.plan.grouping.counted(len(self.plan.groups))
            line = f"thresholds for {groups} at level {', '.join(levels)}, {answered}"
            if self.without_threshold:
                line += f", no finite threshold for {quoted(self.without_threshold)}"
            return line
        pairs = zip(self.thresholds, levels, strict=True)
        return (
            "threshold"
            f" {', '.join(f'{value:.6g} at level {level}' for value, level in pairs)},"
            f" {answered}"
        )

    def threshold_of(self, labels: ArrayLike, *, site: str | None = None) -> Floats:
        """Return the threshold for each case, by its label.

        Parameters
        ----------
        labels : array-like
            The group of each case, as text or whole numbers: its label, its site where
            groups are sites, its true class where groups are classes.
        site : str, optional
            The site of all cases, where groups are made of sites and labels.

        Returns
        -------
        array of shape (n,), or (n, n_levels) for several levels
            Infinite for a label that the plan does not have, with a warning, and for
            one that the plan does not have at this site.
        """
        return self.sets.threshold_of(labels, site=site)

    def predict_interval(
        self,
        prediction: ArrayLike,
        *,
        groups: ArrayLike | None = None,
        site: str | None = None,
        score: Any = None,
    ) -> Floats:
        """Return the prediction intervals of new cases.

        Parameters
        ----------
        prediction : array-like of shape (n,) or (n, n_columns)
            Predictions, as the plan's score takes them.
        groups : array-like of shape (n,), optional
            With groups by label, the group of each case.
        site : str, optional
            The site of the cases, where each site has thresholds of its own.
        score : Score, optional
            The score, where the plan fixes none.

        Returns
        -------
        array of shape (n, 2), or (n, 2, n_levels) for several levels
            Lower and upper ends.
        """
        return self.sets.predict_interval(
            prediction, groups=groups, site=site, score=score
        )

    def predict_set(
        self,
        probabilities: Any,
        *,
        classes: Any = None,
        groups: ArrayLike | None = None,
        site: str | None = None,
        score: Any = None,
        u: Any = None,
        as_labels: bool = False,
    ) -> Any:
        """Return the prediction sets of new cases from class probabilities.

        Parameters
        ----------
        probabilities : array-like of shape (n, n_classes), or data frame
            A column for each class, in the order of the plan's classes unless they are
            named.
        classes : iterable, optional
            The class of each column, where the plan names its classes; by default the
            names of a data frame's columns. Columns are found by name, in any order.
        groups : array-like of shape (n,), optional
            With groups by label, the group of each case.
        site : str, optional
            The site of the cases, where each site has thresholds of its own.
        score : Score, optional
            The score, where the plan fixes none.
        u : array of shape (n,), or numpy Generator, optional
            Uniform numbers for a randomized score.
        as_labels : bool
            Return lists of classes: their names where the plan, ``classes`` or a data
            frame has them, else the numbers of their columns.

        Returns
        -------
        bool array of shape (n, n_classes), or with several levels (n, n_classes,
            n_levels)
            Columns in the order of ``probabilities``. With ``as_labels`` a list of n
            lists; with several levels each of these has a list for each level.

        Examples
        --------
        >>> import fedconformal as fc
        >>> sizes = {"sick": {"A": 20, "B": 15}, "well": {"A": 30, "B": 12}}
        >>> plan = fc.plan(
        ...     groups=sizes, group_by="class", score="lac", confidence_level=0.8
        ... )
        >>> scores = {"A": [0.3] * 20 + [0.5] * 30, "B": [0.4] * 15 + [0.6] * 12}
        >>> labels = {
        ...     "A": ["sick"] * 20 + ["well"] * 30,
        ...     "B": ["sick"] * 15 + ["well"] * 12,
        ... }
        >>> reports = [
        ...     fc.report(plan, scores[site], groups=labels[site], site=site)
        ...     for site in "AB"
        ... ]
        >>> calibration = fc.calibrate(plan, reports)
        >>> calibration["sick"].threshold, calibration["well"].threshold
        (0.4, 0.5)
        >>> calibration.predict_set([[0.6, 0.4], [0.3, 0.7]], classes=["well", "sick"])
        array([[ True, False],
               [False,  True]])
        >>> calibration.predict_set(
        ...     [[0.6, 0.4], [0.3, 0.7]], classes=["well", "sick"], as_labels=True
        ... )
        [['well'], ['sick']]
        """
        return self.sets.predict_set(
            probabilities,
            classes=classes,
            groups=groups,
            site=site,
            score=score,
            u=u,
            as_labels=as_labels,
        )


# -- what a site needs to know of a calibration to check it ----------------------------


class CheckQuestion(AuthoredDocument):
    """The thresholds of a calibration, or of one group of it, for a site that counts
    its covered cases.

    It takes the place of the calibration on the wire. It has the digest, but nothing
    proves that these are the thresholds: whoever asks may choose them. ``whole``,
    ``plan`` and ``selected_parts`` are those of a calibration, as far as an answer
    needs them.
    """

    kind: ClassVar[str] = "check question"
    limit: ClassVar[SizeLimit] = SizeLimit(64 * 2**10, 20_000, ("classes",), 4 * 2**20)

    format: Literal["fedconformal/check-question"] = "fedconformal/check-question"
    version: Literal[1] = 1
    calibration_digest: Digest
    plan_digest: Digest
    group: Label | None = None
    site: SiteName | None = None
    period: Period | None = None
    group_by: Many[GroupBy] | None = None
    classes: (
        Annotated[Many[Label], Field(min_length=2, max_length=limits.MOST_CLASSES)]
        | None
    ) = None
    score: ScoreRule | None = None
    terms: Terms = Terms()
    promise: Name
    message: Name
    levels: Many[Share] = Field(min_length=1, max_length=limits.MOST_LEVELS)
    thresholds: Many[Extended] = Field(min_length=1, max_length=limits.MOST_LEVELS)
    keys: (
        Annotated[Many[SiteKey], Field(min_length=2, max_length=limits.MOST_NAMED)]
        | None
    ) = Field(
        default=None,
        description="of masked counts, the sites over which they are added up",
    )

    @classmethod
    def of(
        cls,
        calibration: Calibration | CalibrationView,
        period: str | None = None,
        keys: tuple[SiteKey, ...] | None = None,
    ) -> Self:
        """Return the question about a calibration without groups or one group, for
        cases of a period.
        """
        plan, part = calibration.whole.plan, calibration.selected_parts[0]
        grouping, design = plan.grouping, part.design
        return cls(
            calibration_digest=calibration.calibration_digest,
            plan_digest=calibration.plan_digest,
            group=design.group,
            site=grouping.sites.get(design.group or ""),
            period=period,
            group_by=grouping.by or None,
            classes=plan.classes,
            score=plan.score,
            terms=Terms(model=plan.terms.model),
            promise=design.promise,
            message=design.message.kind,
            levels=tuple(level.confidence_level for level in design.levels),
            thresholds=part.thresholds,
            keys=keys,
        )

    def check(self) -> None:
        """Refuse thresholds that no calibration has."""
        pairs = sorted(zip(self.levels, self.thresholds, strict=False))
        if len(self.levels) != len(self.thresholds) or len(set(self.levels)) < len(
            self.levels
        ):
            raise ValueError("there must be a threshold for each level")
        if any(low[1] > high[1] for low, high in pairwise(pairs)):
            raise ValueError("a higher level must not have a smaller threshold")
        if (self.group is None) != (self.group_by is None) or (
            self.site is None
        ) == self.grouping.by_site:
            raise ValueError("a group must come with what it is made of")
        if self.keys is not None and len({key.site for key in self.keys}) < len(
            self.keys
        ):
            raise ValueError("keys must be one for each site")

    @property
    def whole(self) -> Self:
        """The question itself, in the place of the calibration."""
        return self

    @property
    def plan(self) -> Self:
        """The question itself, in the place of the plan: score, classes, grouping,
        terms and levels.
        """
        return self

    @property
    def selected_parts(self) -> tuple[Self]:
        """The question itself, in the place of the only part of a calibration."""
        return (self,)

    @property
    def selected_levels(self) -> Sequence[int]:
        """Places of all levels."""
        return range(len(self.levels))

    @property
    def confidence_levels(self) -> tuple[float, ...]:
        """The confidence levels as floats."""
        return tuple(map(float, self.levels))

    @property
    def is_grouped(self) -> bool:
        """True if the question is about one group."""
        return self.group is not None

    @cached_property
    def grouping(self) -> Grouping:
        """Rule that tells the cases of this group."""
        group = self.group or ""
        sites = {} if self.site is None else {group: self.site}
        return Grouping(self.group_by or (), sites, (group,) if self.is_grouped else ())

    @property
    def choices(self) -> dict[str, tuple[str | None, ...]]:
        """Names of the score, the promise and the message, by the field of a site's
        policy.
        """
        score = None if self.score is None else self.score.name
        return {
            "scores": (score,),
            "promises": (self.promise,),
            "messages": (self.message,),
        }


# -- room for the calibration, known when the plan is made -----------------------------

_NAME, _REPORT, _SIGNATURE, _KIND, _REFUSAL = 64, 96, 153, 60, 70
"""Bytes of a name that is not known yet, and of parts of a calibration without their
names.
"""


def check_room(plan: Plan) -> None:
    """Refuse a plan whose calibration nobody could read, before any site is asked.

    A calibration names the sites that answered, in every group, with the digests of
    their reports. Names that only the reports will bring are taken as 64 bytes; more
    than `MOST_NAMED` sites without names are left to the calibration, as hardly all of
    them will answer.

    Parameters
    ----------
    plan : Plan
        The plan.

    Raises
    ------
    ValueError
        In one line.
    """
    sizes = [design.n_asked or 0 for design in plan.designs]
    if plan.site_names is None and max(sizes) > limits.MOST_NAMED:
        return
    written = plan.to_json(indent=None).encode()
    known = [len(name.encode()) + 2 for name in plan.site_names or ()]
    name = _NAME if not known else sum(known) // len(known) + 1
    n_reports, signed = len(known) or max(sizes), plan.keys is not None
    items = (
        count_items(written) + n_reports * (5 + 2 * signed) + 6 * limits.MOST_REFUSALS
    )
    size = len(written) + n_reports * (_REPORT + name + _SIGNATURE * signed)
    size += limits.MOST_REFUSALS * (_REFUSAL + 8 * limits.LONGEST_REASON)
    for design, n in zip(plan.designs, sizes, strict=True):
        answered = design.model_copy(update={"names": None})
        own, ranks = answered.model_dump_json(exclude_defaults=True).encode(), 0
        if isinstance(design.message, Ranks):
            levels = design.message.levels
            ranks = sum(
                1 + len(each) for level in levels for each in level.ranks
            )  # votes, perhaps
            ranks += n * sum(
                1 + level.rule.numbers
                for level in levels
                if level.rule and design.is_open
            )
        items += (
            count_items(own) + ranks + n * (8 * design.is_open + 6 * plan.is_grouped)
        )
        unnamed = design.is_open or design.site_names is None
        items += n * unnamed * (not design.is_open)
        size += len(own) + 12 * ranks + n * (_KIND * design.is_open + name * unnamed)
        size += n * (_REFUSAL + name) * plan.is_grouped
    limit = Calibration.limit
    if items > limit.items or size > limit.largest:
        asked = f"{sum(sizes):,} answers" + (
            " of sites in groups" if plan.is_grouped else ""
        )
        raise ValueError(
            f"the calibration of {asked} would have {items:,} items in"
            f" {size / 2**20:.0f} MB, and at most {limit.items:,} items in"
            f" {limit.largest // 2**20} MB can be read: use fewer sites, groups, levels"
            " or numbers, equal sizes, or shorter names"
        )
