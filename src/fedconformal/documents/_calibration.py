"""The Calibration: the threshold, and everything needed to believe in it."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, StringConstraints, model_validator

from fedconformal._text import count
from fedconformal._typing import Bools, Floats
from fedconformal.documents._calibration_parts import (
    Answer,
    CalibrationPart,
    Received,
    Refusal,
    Threshold,
    check_answered,
)
from fedconformal.documents._ceilings import CALIBRATION, MOST_GROUPS, Ceiling
from fedconformal.documents._names import check_labels, unique_labels, warn_of_unknown
from fedconformal.documents._plan import Plan
from fedconformal.documents._report import signed_text
from fedconformal.documents._sets import label_sets, labels_in, prediction_sets, score_of
from fedconformal.documents._signing import AuthoredDocument, is_signature
from fedconformal.documents._views import Many, one_or_all
from fedconformal.laws import CoverageLaw
from fedconformal.planning import Advice, Block, Design, Guarantee, merged
from fedconformal.scores import IntervalScore, LabelScore, Score

Code = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,59}$")]


class Calibration(AuthoredDocument):
    """The server's result: prediction sets are {y : score(x, y) <= threshold}.

    With groups of points ``threshold``, ``law``, ``missing`` and so on are dictionaries by label, and
    ``calibration["child"]`` is the calibration of one group.

    Examples
    --------
    >>> import fedconformal as fc
    >>> calibration = fc.conformalize({"A": range(40), "B": range(60)}, score="absolute")
    >>> calibration
    <Calibration: threshold 53 at level 0.9, 2 of 2 sites answered>
    >>> calibration.predict_interval([100.0])
    array([[ 47., 153.]])
    >>> fc.Calibration.from_json(calibration.to_json()) == calibration
    True
    """

    kind: ClassVar[str] = "calibration"
    ceiling: ClassVar[Ceiling] = CALIBRATION

    format: Literal["fedconformal/calibration"] = "fedconformal/calibration"
    version: Literal[1] = 1
    plan: Plan
    parts: Many[CalibrationPart] = Field(
        min_length=1, max_length=MOST_GROUPS, description="in the order of the plan's parts"
    )
    reports: Many[Received] = Field(default=(), description="reports that counted, by site")
    refused: Many[Refusal] = Field(default=(), description="reports that did not count")
    assumptions: Many[Code] = Field(max_length=20, description="codes of what the guarantee rests on")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_labels([part.label for part in self.parts])
        if [part.label for part in self.parts] != [part.label for part in self.plan.parts]:
            raise ValueError("the parts must be those of the plan")
        sites = [received.site for received in self.reports]
        if sites != sorted(set(sites)):
            raise ValueError("the sites that answered must be different, in alphabetical order")
        if not {answer.site for part in self.parts for answer in part.answers} <= set(sites):
            raise ValueError("a site answered without a report")
        for part in self.parts:
            check_answered(self.plan if part.label is None else self.plan[part.label], part)
        return self

    @classmethod
    def check_format(cls, fields: dict[str, Any]) -> None:
        """Refuse another kind of document, here or in the place of the plan.

        Parameters
        ----------
        fields : dict
            The fields of what claims to be a calibration.
        """
        super().check_format(fields)
        if isinstance(fields.get("plan"), dict):
            Plan.check_format(fields["plan"])

    # -- groups ----------------------------------------------------------------------------------------

    @cached_property
    def by_label(self) -> dict[str, "Calibration"]:
        """The calibration of each group."""
        return {label: self._alone(i, label) for i, label in enumerate(self.plan.labels)}

    @cached_property
    def _received(self) -> dict[str, Received]:
        return {received.site: received for received in self.reports}

    def _alone(self, i: int, label: str) -> "Calibration":
        """One group as a calibration of its own; one that nobody answered for is no whole document."""
        part, there = self.parts[i], {answer.site for answer in self.parts[i].answers}
        alone = Calibration.model_construct(
            format=self.format,
            version=self.version,
            plan=self.plan[label],
            parts=(part.model_copy(update={"label": None, "refused": ()}),),
            reports=tuple(self._received[site] for site in sorted(there)),
            refused=part.refused,
            assumptions=self.assumptions,
        )
        alone.__dict__.update(label=label, published=self)
        return alone

    def __getitem__(self, label: str) -> "Calibration":
        """The calibration of one group, as a calibration of its own."""
        self.plan[label]
        return self.by_label[label]

    @cached_property
    def label(self) -> str | None:
        """The group that this is the calibration of, where it was taken out of one with groups."""
        return None

    @cached_property
    def published(self) -> "Calibration":
        """The document that was published: for one group, the whole calibration."""
        return self

    @property
    def published_digest(self) -> str:
        """The digest of the document that was published: for one group, that of the whole calibration."""
        return self.published.digest

    def to_json(self, *, indent: int | None = 2) -> str:
        """JSON for people and machines, with the digest; only of the whole, not of one group of it.

        Parameters
        ----------
        indent : int or None
            Spaces by which nested content is indented; None for one line.

        Returns
        -------
        str
            What ``from_json`` reads.

        Raises
        ------
        ValueError
            For the calibration of one group, which is no document of its own.
        """
        if self.label is not None:
            raise ValueError(f"this is group {self.label!r} of a calibration: write the whole calibration")
        return super().to_json(indent=indent)

    @property
    def part(self) -> CalibrationPart:
        """The only part of a calibration without groups."""
        if self.plan.is_grouped:
            label = self.plan.labels[0]
            raise ValueError(f"this calibration has groups: ask one of them, as in calibration[{label!r}]")
        return self.parts[0]

    def _each(self, read: Callable[["Calibration"], Any]) -> Any:
        """What a calibration without groups says, or what each group's says, by label."""
        if not self.plan.is_grouped:
            return read(self)
        return {label: read(found) for label, found in self.by_label.items()}

    def _line(self) -> str:
        asked = self.plan.n_sites
        sites = count(self.n_answers if asked is None else asked, "site")
        answered = f"{'' if asked is None else f'{self.n_answers:,} of '}{sites} answered"
        levels = [f"{level:g}" for level in self.plan.confidence_levels]
        if self.plan.is_grouped:
            found = f"thresholds for {self.plan.grouping.counted(len(self.plan.labels))}"
            return f"{found} at level {', '.join(levels)}, {answered}"
        pairs = zip(self.thresholds, levels, strict=True)
        found = ", ".join(f"{threshold:.6g} at level {level}" for threshold, level in pairs)
        return f"threshold {found}, {answered}"

    # -- who answered ----------------------------------------------------------------------------------

    @property
    def answers(self) -> tuple[Answer, ...]:
        """Sites whose numbers counted."""
        return self.part.answers

    @property
    def n_answers(self) -> int:
        """How many sites answered."""
        if self.plan.is_grouped:
            return len(self.reports)
        return sum(self.part.kinds.values())

    @property
    def missing(self) -> Any:
        """Sites of the plan that did not answer, by name; with groups, by label."""
        return self._each(lambda found: found.part.missing)

    @property
    def n_missing(self) -> Any:
        """How many sites did not answer, named or not; with groups, by label."""
        return self._each(lambda found: found.part.n_missing)

    @cached_property
    def authenticated(self) -> bool:
        """Whether every report that counted carries a valid signature of the key that the plan lists."""
        if self.published is not self:
            return self.published.authenticated
        keys = {key.site: key.public_key for key in self.plan.keys or ()}
        return (
            bool(keys)
            and bool(self.reports)
            and all(
                received.site in keys
                and is_signature(
                    received.signature, signed_text(self.plan.digest, received.report), keys[received.site]
                )
                for received in self.reports
            )
        )

    # -- thresholds and laws ---------------------------------------------------------------------------

    @property
    def levels(self) -> tuple[Threshold, ...]:
        """What was found for each confidence level."""
        return self.part.levels

    @property
    def thresholds(self) -> tuple[float, ...]:
        """The thresholds, one per level in the plan's order."""
        return tuple(found.threshold for found in self.levels)

    @property
    def threshold(self) -> Any:
        """The threshold, or a tuple of them, one per level; with groups, by label."""
        return self._each(lambda found: one_or_all(found.thresholds))

    @property
    def server_rank(self) -> Any:
        """The votes that were needed, or a tuple of them; with groups, by label."""
        return self._each(lambda found: one_or_all([level.server_rank for level in found.levels]))

    @cached_property
    def designs(self) -> tuple[Design, ...]:
        """The design of each level, for the sites that answered."""
        return tuple(
            replace(
                planned,
                blocks=self._blocks(i),
                server_rank=found.server_rank,
                advice=None if found.advice is None else Advice(**found.advice.model_dump()),
            )
            for i, (planned, found) in enumerate(zip(self.plan.designs, self.levels, strict=True))
        )

    def _blocks(self, level: int) -> tuple[Block, ...]:
        """The sites that answered, with their shares of a mixture where the plan has them."""
        if not self.plan.promise_object().takes_mixture:
            return self.part.blocks(level)
        shares = [self.plan.part.share_for(answer.n, site=answer.site) for answer in self.answers]
        return merged(
            Block(1, answer.n, answer.ranks[level], answer.votes[level], share)
            for answer, share in zip(self.answers, shares, strict=True)
        )

    @property
    def is_calibrated(self) -> bool:
        """Whether enough sites answered, in any group."""
        return any(found.server_rank is not None for part in self.parts for found in part.levels)

    @property
    def has_law(self) -> bool:
        """Whether the coverage has a law for the sites that answered; else see ``guarantee``."""
        return self.is_calibrated and self.plan.promise_object().has_law

    @cached_property
    def laws(self) -> tuple[CoverageLaw, ...]:
        """The law of the coverage for each level, for the sites that answered."""
        return tuple(design.law() for design in self.designs)

    @property
    def law(self) -> Any:
        """The law of the coverage for the sites that answered, or a tuple; None where there is none."""
        return self._each(lambda found: one_or_all(found.laws) if found.has_law else None)

    @property
    def guarantee(self) -> Any:
        """What is guaranteed for the sites that answered, or a tuple; None where too few did."""
        return self._each(lambda found: one_or_all(found._guarantees()) if found.is_calibrated else None)

    def _guarantees(self) -> tuple[Guarantee, ...]:
        return tuple(design.guarantee() for design in self.designs)

    def threshold_of(self, labels: ArrayLike, *, site: str | None = None) -> Floats:
        """The threshold for each point, by its label.

        Parameters
        ----------
        labels : array-like
            The group of each point, as text or whole numbers: its label, its site where groups are made of
            sites alone, its true class where they are made of classes (known of points that are checked).
        site : str, optional
            The site that all points are from, where groups are made of sites and labels.

        Returns
        -------
        array of shape (n,), or (n, n_levels) for several levels
            Infinite for a label that the plan does not have, and a warning names it; infinite, too, for a
            label that the plan has, but not at this site.
        """
        if not self.plan.is_grouped:
            raise ValueError("this calibration has one threshold for all points: it has no groups")
        names, which = unique_labels(labels)
        grouping = self.plan.grouping
        warn_of_unknown(names, which, grouping.labels or grouping.groups)
        groups = grouping.groups_of(names, site) if grouping.has_labels else names
        n_levels = len(self.plan.confidence_levels)
        endless = (math.inf,) * n_levels
        known: dict[str | None, tuple[float, ...]] = {
            label: found.thresholds for label, found in self.by_label.items()
        }
        rows = np.array([known.get(group, endless) for group in groups]).reshape(len(names), n_levels)
        return rows[which, 0] if n_levels == 1 else rows[which]

    # -- prediction ------------------------------------------------------------------------------------

    def predict_interval(
        self,
        prediction: ArrayLike,
        *,
        groups: ArrayLike | None = None,
        site: str | None = None,
        score: Score | None = None,
    ) -> Floats:
        """The intervals of new points, straight from their predictions.

        Parameters
        ----------
        prediction : array-like of shape (n,) or (n, n_columns)
            As the plan's score takes it.
        groups : array-like of shape (n,), optional
            With groups, the group of each point.
        site : str, optional
            The site that the points are from, where each site has thresholds of its own.
        score : Score, optional
            Where the plan fixes none.

        Returns
        -------
        array of shape (n, 2), or (n, 2, n_levels) for several levels
            Lower and upper ends.
        """
        rule = score_of(self.plan.score, score)
        if not isinstance(rule, IntervalScore):
            raise ValueError(f"score {rule.name!r} is of classes: predict_set gives its sets")
        sets = prediction_sets(self, rule, prediction, groups=groups, site=site)
        return np.asarray(sets[:, :, 0] if sets.shape[2] == 1 else sets)

    @overload
    def predict_set(
        self,
        probabilities: Any,
        *,
        classes: Any = ...,
        groups: ArrayLike | None = ...,
        site: str | None = ...,
        score: Score | None = ...,
        u: Any = ...,
        as_labels: Literal[False] = ...,
    ) -> Bools: ...

    @overload
    def predict_set(
        self,
        probabilities: Any,
        *,
        classes: Any = ...,
        groups: ArrayLike | None = ...,
        site: str | None = ...,
        score: Score | None = ...,
        u: Any = ...,
        as_labels: bool,
    ) -> Bools | list[Any]: ...

    def predict_set(
        self,
        probabilities: Any,
        *,
        classes: Any = None,
        groups: ArrayLike | None = None,
        site: str | None = None,
        score: Score | None = None,
        u: Any = None,
        as_labels: bool = False,
    ) -> Bools | list[Any]:
        """The label sets of new points, straight from class probabilities.

        Parameters
        ----------
        probabilities : array-like of shape (n, n_classes), or data frame
            A column for each class, in the order of the plan's classes unless they are named.
        classes : iterable, optional
            The class of each column, where the plan names its classes; by default the names of a data frame's
            columns. Columns in another order than the plan's are found by name.
        groups : array-like of shape (n,), optional
            With groups by label, the group of each point.
        site : str, optional
            The site that the points are from, where each site has thresholds of its own.
        score : Score, optional
            Where the plan fixes none.
        u : array of shape (n,), or numpy Generator, optional
            Where a randomized score takes its uniform numbers from.
        as_labels : bool
            Whether each set is a list of its classes: their names where the plan, ``classes`` or a data frame
            has them, else the numbers of their columns.

        Returns
        -------
        bool array of shape (n, n_classes), or (n, n_classes, n_levels) for several levels
            Columns in the order of ``probabilities``. With ``as_labels`` a list of n lists; with several
            levels each of these has a list for each level.

        Examples
        --------
        >>> import fedconformal as fc
        >>> sizes = {"sick": {"A": 20, "B": 15}, "well": {"A": 30, "B": 12}}
        >>> chosen = fc.plan(groups=sizes, group_by="class", score="lac", confidence_level=0.8)
        >>> scores = {"A": [0.3] * 20 + [0.5] * 30, "B": [0.4] * 15 + [0.6] * 12}
        >>> labels = {"A": ["sick"] * 20 + ["well"] * 30, "B": ["sick"] * 15 + ["well"] * 12}
        >>> reports = [fc.report(chosen, scores[site], groups=labels[site], site=site) for site in "AB"]
        >>> found = fc.calibrate(chosen, reports)
        >>> found.threshold
        {'sick': 0.4, 'well': 0.5}
        >>> found.predict_set([[0.6, 0.4], [0.3, 0.7]], classes=["well", "sick"])
        array([[ True, False],
               [False,  True]])
        >>> found.predict_set([[0.6, 0.4], [0.3, 0.7]], classes=["well", "sick"], as_labels=True)
        [['well'], ['sick']]
        """
        rule = score_of(self.plan.score, score)
        if not isinstance(rule, LabelScore):
            raise ValueError(f"score {rule.name!r} is of numbers: predict_interval gives its intervals")
        given, names = label_sets(self, rule, probabilities, classes=classes, groups=groups, site=site, u=u)
        if as_labels:
            return labels_in(given, names)
        return given[:, :, 0] if given.shape[2] == 1 else given
