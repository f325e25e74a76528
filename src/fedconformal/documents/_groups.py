"""Plan, Report and Calibration for groups of points: ordinary documents, one per label, in one envelope."""

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from pydantic import AfterValidator, Field, StringConstraints, model_validator

from fedconformal.documents._base import Digest, Document, Part, SiteName
from fedconformal.documents._calibration import Calibration, Refusal
from fedconformal.documents._labels import tell_unknown, unique_labels
from fedconformal.documents._plan import Plan, ScoreRule, SiteKey
from fedconformal.documents._report import Report, Signature, Signed
from fedconformal.documents._views import one_or_all


def _one_line(label: str) -> str:
    if not label.isprintable() or label != label.strip():
        raise ValueError("a label must be printable, on one line, without spaces around it")
    return label


Label = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_one_line)]
"""What a group of points is called: printable, on one line, without spaces around it."""


class LabelledPlan(Part):
    """The plan of one group."""

    label: Label
    plan: Plan


class LabelledReport(Part):
    """A site's answer for one group; unsigned, because the envelope is signed as a whole."""

    label: Label
    report: Report


class LabelledCalibration(Part):
    """The result of one group."""

    label: Label
    calibration: Calibration


class Uncalibrated(Part):
    """A group that too few sites answered for: its threshold is infinite."""

    label: Label
    answered: tuple[SiteName, ...]
    missing: tuple[SiteName, ...] = Field(
        description="sites of the group's plan that did not answer, by name"
    )
    n_missing: int = Field(ge=0, description="how many sites did not answer, named or not")
    refused: tuple[Refusal, ...]


class GroupAnswer(Part):
    """A site whose message counted."""

    site: SiteName
    report: Digest = Field(description="digest of the site's group report")


def _check_labels(labels: Sequence[str]) -> None:
    """One order for the same content, and no label twice."""
    if list(labels) != sorted(set(labels)):
        raise ValueError("the labels must be different, in alphabetical order")


class GroupPlan(Document):
    """What everybody agrees on beforehand: one ordinary plan for each group of points."""

    kind: ClassVar[str] = "group-plan"

    format: Literal["fedconformal/group-plan"] = "fedconformal/group-plan"
    version: Literal[1] = 1
    plans: tuple[LabelledPlan, ...] = Field(min_length=1, description="by label")
    keys: tuple[SiteKey, ...] | None = Field(
        description="then only messages signed as a whole with these keys count"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _check_labels([part.label for part in self.plans])
        plans = [part.plan for part in self.plans]
        if len({tuple(level.confidence_level for level in plan.levels) for plan in plans}) > 1:
            raise ValueError("all groups must have the same confidence levels")
        if len({plan.score for plan in plans}) > 1:
            raise ValueError("all groups must have the same score")
        if len({plan.privacy is None for plan in plans}) > 1:
            raise ValueError("either all groups are private or none")
        if any(plan.privacy is not None and plan.privacy.one_hot for plan in plans):
            raise ValueError("groups do not go with one-hot vectors")
        if any(plan.target == "each-site" for plan in plans):
            raise ValueError("groups are for the population: a promise to each site is a plan of its own")
        if any(plan.keys is not None for plan in plans):
            raise ValueError("the keys belong to the group plan, not to the plan of one group")
        if self.keys is not None and [key.site for key in self.keys] != sorted(self.site_names or ()):
            raise ValueError("keys must name exactly the sites that the plans name, in alphabetical order")
        return self

    @cached_property
    def by_label(self) -> dict[str, Plan]:
        """The plan of each group."""
        return {part.label: part.plan for part in self.plans}

    @property
    def labels(self) -> tuple[str, ...]:
        """The groups, in alphabetical order."""
        return tuple(self.by_label)

    @cached_property
    def site_names(self) -> frozenset[str] | None:
        """All sites that may answer for some group, where every plan names its sites."""
        names = [part.plan.site_names for part in self.plans]
        return None if None in names else frozenset().union(*(each or () for each in names))

    @property
    def confidence_levels(self) -> tuple[float, ...]:
        """The levels, the same in all groups."""
        return tuple(level.confidence_level for level in self.plans[0].plan.levels)

    @property
    def score(self) -> ScoreRule | None:
        """The score that all sites use, where the plan fixes it."""
        return self.plans[0].plan.score

    @property
    def private(self) -> bool:
        """Whether the answers are private."""
        return self.plans[0].plan.privacy is not None

    @property
    def to_answer(self) -> tuple[str, ...]:
        """The groups that sites answer for: with privacy, only those that their part of epsilon can serve."""
        return tuple(label for label, plan in self.by_label.items() if plan.feasible or not self.private)

    @property
    def epsilon(self) -> Fraction | None:
        """What the answer of a site with points of all groups costs; None if the plan is not private."""
        return self.cost(self.to_answer) if self.private else None

    def cost(self, labels: Iterable[str]) -> Fraction:
        """What an answer for these groups costs: the sum of their epsilons, exactly."""
        rules = [self.by_label[label].privacy for label in labels]
        return sum((Fraction(str(rule.epsilon)) for rule in rules if rule is not None), Fraction(0))

    @property
    def feasible(self) -> bool:
        """Whether every group has a finite threshold at every level."""
        return all(plan.feasible for plan in self.by_label.values())

    @property
    def problems(self) -> tuple[str, ...]:
        """A sentence for each group and level that no ranks reach, and what would be enough."""
        return self._of_groups("problems")

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know of each group."""
        return self._of_groups("notes")

    def _of_groups(self, what: Literal["problems", "notes"]) -> tuple[str, ...]:
        words = ", with its part of epsilon" if self.private else ""
        return tuple(
            f"Group {label!r}{words}: {text}"
            for label, plan in self.by_label.items()
            for text in getattr(plan, what)
        )


class GroupReport(Signed):
    """One site's answer to a group plan: for each group that it has points of, one number per level."""

    kind: ClassVar[str] = "group-report"

    format: Literal["fedconformal/group-report"] = "fedconformal/group-report"
    version: Literal[1] = 1
    plan: Digest = Field(description="digest of the group plan that this answers")
    site: SiteName
    reports: tuple[LabelledReport, ...] = Field(min_length=1, description="by label")
    signature: Signature | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _check_labels([part.label for part in self.reports])
        if any(part.report.site != self.site for part in self.reports):
            raise ValueError("all reports must be of the same site")
        if any(part.report.signature is not None for part in self.reports):
            raise ValueError("the whole is signed, not the report of one group")
        return self

    @cached_property
    def by_label(self) -> dict[str, Report]:
        """The report on each group."""
        return {part.label: part.report for part in self.reports}


class GroupCalibration(Document):
    """The server's result: a new point of a group has the set {y : score(x, y) <= threshold of the group}."""

    kind: ClassVar[str] = "group-calibration"

    format: Literal["fedconformal/group-calibration"] = "fedconformal/group-calibration"
    version: Literal[1] = 1
    plan: GroupPlan
    calibrations: tuple[LabelledCalibration, ...] = Field(description="by label")
    uncalibrated: tuple[Uncalibrated, ...] = Field(description="groups with too few answers, by label")
    answers: tuple[GroupAnswer, ...] = Field(min_length=1, description="sites that answered, by name")
    refused: tuple[Refusal, ...] = Field(description="messages that did not count as a whole")
    authenticated: bool = Field(description="whether every message was signed with its site's key")
    assumptions: tuple[str, ...] = Field(description="what the guarantee rests on")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        found = [part.label for part in self.calibrations]
        rest = [part.label for part in self.uncalibrated]
        _check_labels(found)
        _check_labels(rest)
        if sorted(found + rest) != list(self.plan.labels):
            raise ValueError("every group of the plan must be calibrated or not, and no other")
        if any(part.calibration.plan != self.plan.by_label[part.label] for part in self.calibrations):
            raise ValueError("a group's calibration must be that of the group's plan")
        sites = [answer.site for answer in self.answers]
        if sites != sorted(set(sites)):
            raise ValueError("the sites that answered must be different, in alphabetical order")
        if not set().union(*self.answered.values()) <= set(sites):
            raise ValueError("a site answered for a group without an answer")
        if self.authenticated != (self.plan.keys is not None):
            raise ValueError("messages are authenticated if the plan has keys, and only then")
        return self

    @cached_property
    def by_label(self) -> dict[str, Calibration]:
        """The calibration of each group that has one."""
        return {part.label: part.calibration for part in self.calibrations}

    @cached_property
    def _thresholds(self) -> dict[str, tuple[float, ...]]:
        endless = (math.inf,) * len(self.plan.confidence_levels)
        found = {label: calibration.thresholds for label, calibration in self.by_label.items()}
        return {label: found.get(label, endless) for label in self.plan.labels}

    @property
    def thresholds(self) -> dict[str, Any]:
        """The threshold of each group, or a tuple of them, one per level."""
        return {label: one_or_all(values) for label, values in self._thresholds.items()}

    @property
    def laws(self) -> dict[str, Any]:
        """The law of the coverage in each group that was calibrated, or a tuple of them, one per level."""
        return {label: calibration.law for label, calibration in self.by_label.items()}

    @property
    def missing(self) -> dict[str, tuple[str, ...]]:
        """Sites that did not answer for each group, where its plan names them."""
        named = {label: calibration.missing for label, calibration in self.by_label.items()}
        named |= {part.label: part.missing for part in self.uncalibrated}
        return {label: named[label] for label in self.plan.labels}

    @property
    def n_missing(self) -> dict[str, int]:
        """How many sites did not answer for each group, named or not."""
        counts = {label: calibration.n_missing for label, calibration in self.by_label.items()}
        counts |= {part.label: part.n_missing for part in self.uncalibrated}
        return {label: counts[label] for label in self.plan.labels}

    @property
    def answered(self) -> dict[str, tuple[str, ...]]:
        """Sites that answered for each group."""
        names = {label: tuple(a.site for a in found.answers) for label, found in self.by_label.items()}
        names |= {part.label: part.answered for part in self.uncalibrated}
        return {label: names[label] for label in self.plan.labels}

    @property
    def refused_in(self) -> dict[str, tuple[Refusal, ...]]:
        """Reports on each group that did not count although their message did."""
        refused = {label: calibration.refused for label, calibration in self.by_label.items()}
        refused |= {part.label: part.refused for part in self.uncalibrated}
        return {label: refused[label] for label in self.plan.labels}

    def threshold_of(self, labels: ArrayLike) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The threshold for each new point, by its label; with several levels, a row of them.

        A label that the plan does not have gets an infinite threshold, and a warning names it.
        """
        names, which = unique_labels(labels)
        tell_unknown(names, which, self.plan.labels)
        n_levels = len(self.plan.confidence_levels)
        rows = np.array([self._thresholds.get(name, (math.inf,) * n_levels) for name in names])
        rows = rows.reshape(len(names), n_levels)
        return rows[which, 0] if n_levels == 1 else rows[which]
