"""Site side of a round: the wire format, and the answer to a question: a report, a
check or a fixed code.
"""

import contextlib
import enum
import json
import logging
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict

from fedconformal import protocol
from fedconformal._text import count, quoted
from fedconformal._util import Bools, plain_array
from fedconformal.documents import (
    Calibration,
    CalibrationView,
    Check,
    CheckQuestion,
    DocumentError,
    Plan,
    Report,
    ScoreRule,
    SigningKey,
    SiteKey,
    unique_labels,
)
from fedconformal.privacy import Ledger, LedgerError
from fedconformal.protocol import SitePolicy
from fedconformal.scores import LabelScore, from_name

T = TypeVar("T")

_LENGTH_OF_A_LEVEL, _LENGTH_OF_A_COUNT = 2**10, 2**5
"""Characters that a report may take for each level of a group, and for each count of a
curve.
"""


class Failure(enum.IntEnum):
    """Reasons for sending no answer. Only the number travels; the detail stays in the
    site's own log.
    """

    SITE = 100, " failed"
    PLAN = 101, " could not read the plan"
    SCORES = 102, " could not compute its scores"
    REPORT = 103, " could not answer this plan"
    BUDGET = 104, "'s privacy ledger refused an answer"
    POLICY = 105, "'s policy does not allow this answer"
    CALIBRATION = 106, " could not read the calibration"

    meaning: str
    """Description of the code, the same for every site and every error."""

    def __new__(cls, code: int, problem: str) -> Self:
        """Make a number with a description."""
        failure = int.__new__(cls, code)
        failure._value_ = code
        failure.meaning = f"the site{problem}; its own log says why"
        return failure


# -- the wire format: every message is checked when it is read -------------------------


def extract_field(
    content: Mapping[str, Any], name: str, others: Iterable[object] = ()
) -> object:
    """Return a field of a message, of any type; an error in its place if the message
    carries anything else.

    Parameters
    ----------
    content : mapping
        The part of the message that holds the field.
    name : str
        Name of the field.
    others : iterable
        Names of the message's other parts.

    Returns
    -------
    object
        For the functions that read the content of a message; None if there is no such
        field.
    """
    unexpected = [str(key) for key in (*content, *others) if key != name]
    if unexpected:
        return DocumentError(
            f"the message carries {quoted(unexpected)} beside the {name}"
        )
    return content.get(name)


def _check_type(packed: object, kind: type[T], otherwise: str) -> T:
    """Return the content of a message, or refuse it with a reason if it has another
    type.
    """
    if isinstance(packed, DocumentError):
        raise packed
    if not isinstance(packed, kind):
        raise DocumentError(otherwise)
    return packed


def pack_plan(plan: Plan) -> bytes:
    """Turn a plan into bytes for the wire."""
    return zlib.compress(plan.to_json(indent=None).encode(), 9)


@lru_cache(maxsize=4)  # simulated sites share a process, and get the same plan
def unpack_plan(packed: object) -> Plan:
    """Read the plan that a site is asked to answer, or raise a DocumentError."""
    compressed = _check_type(packed, bytes, "the message carries no plan")
    return Plan.from_json(_decompress(compressed, "plan", Plan.limit.largest))


def _decompress(packed: bytes, kind: str, largest: int) -> bytes:
    """Return the text of a document, refusing what is too large or something else."""
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(packed, largest)
    except zlib.error:
        raise DocumentError(
            f"the {kind} in the message is not compressed as {kind}s are"
        ) from None
    if not unpacking.eof or unpacking.unused_data:
        raise DocumentError(
            f"the {kind} in the message is cut short, too large, or not alone"
        )
    return text


def pack_calibration(
    calibration: Calibration | CalibrationView,
    *,
    key: SigningKey | None = None,
    period: str | None = None,
    keys: tuple[SiteKey, ...] | None = None,
) -> bytes:
    """Turn a calibration, or one group of it with all levels, into bytes for the wire,
    for sites to check.

    The thresholds travel, signed with ``key`` if it is given. Without it a signed
    calibration travels as a whole, as sites may want to see its signature; with the
    period of the cases, or for masked counts, it cannot.
    """
    whole, group = calibration.whole, calibration.group
    protocol.refuse_answers(whole.sets)
    if calibration != (whole if group is None else whole[group]) or (
        group is None and whole.plan.is_grouped
    ):
        example = (
            f", as in calibration[{whole.plan.groups[0]!r}]"
            if whole.plan.is_grouped
            else ""
        )
        raise ValueError(
            f"calibration must be one without groups, or one group of it{example}, with"
            " all its levels"
        )
    if key is None and whole.signature is not None:
        if period is not None or keys is not None:
            name = "period" if keys is None else "masked"
            raise ValueError(
                f"{name} needs the coordinator's key, as the calibration is signed"
            )
        text = f"{json.dumps(group)}\n{whole.to_json(indent=None)}"
    else:
        question = CheckQuestion.of(calibration, period, keys)
        text = (question if key is None else key.sign(question)).to_json(indent=None)
    return zlib.compress(text.encode(), 9)


def unpack_calibration(packed: object) -> Calibration | CalibrationView | CheckQuestion:
    """Read what a site is asked to check, a whole calibration or its thresholds, or
    raise a DocumentError.
    """
    compressed = _check_type(packed, bytes, "the message carries no calibration")
    content = _decompress(compressed, "calibration", Calibration.limit.largest)
    if content.startswith(b"{"):
        return CheckQuestion.from_json(content)
    first, _, text = content.partition(b"\n")
    whole = Calibration.from_json(text)
    try:
        group = json.loads(first)
    except (ValueError, RecursionError):
        group = ""
    if group not in whole.plan.groups and (group is not None or whole.plan.is_grouped):
        raise DocumentError("the message asks about no group of the calibration")
    return whole if group is None else whole[group]


def unpack_check(packed: object) -> Check:
    """Read the check that a reply carries, not yet compared with any calibration."""
    return Check.from_json(_check_type(packed, str, "the reply carries no check"))


def unpack_report(packed: object, *, longest: int = Report.limit.size) -> Report:
    """Read the report that a reply carries, not yet compared with any plan.

    Parameters
    ----------
    packed : object
        Content of the reply.
    longest : int
        Largest number of characters.

    Returns
    -------
    Report
        The report.

    Raises
    ------
    DocumentError
        If there is none in the reply, or it is too long.

    Examples
    --------
    >>> import fedconformal as fc
    >>> report = fc.report(fc.plan(n_sites=3, n_points=40), range(40), site="A")
    >>> fc.rounds.unpack_report(report.to_json(indent=None)) == report
    True
    """
    text = _check_type(packed, str, "the reply carries no report")
    if len(text) > longest:
        raise DocumentError(f"a report of {len(text)} characters, more than {longest}")
    return Report.from_json(text)


def longest_report(plan: Plan) -> int:
    """Return the length up to which a report on a plan is read; a longer one is refused
    unread.
    """
    needed = sum(
        _LENGTH_OF_A_LEVEL * len(design.levels)
        + _LENGTH_OF_A_COUNT * getattr(design.message, "n_cells", 0)
        for design in plan.designs
    )
    return min(max(Report.limit.size, needed), Report.limit.largest)


# -- the site that answers -------------------------------------------------------------


@dataclass(frozen=True)
class Site:
    """Name, key, account and limits of the site that answers.

    Parameters
    ----------
    name : str
        The site's name.
    key : SigningKey, optional
        Signs the report.
    ledger, dataset : Ledger and str, optional
        For private plans, the site's account and the name of its data in it.
    policy : SitePolicy, optional
        Limits on what the site discloses, regardless of the plan; safe defaults if left
        out.
    check_epsilon : float, optional
        Privacy loss of the answer to a calibration, which is the site's choice; exact
        counts if left out.

    Examples
    --------
    >>> import fedconformal as fc
    >>> fc.rounds.Site("north").name
    'north'
    """

    name: str
    key: SigningKey | None = None
    ledger: Ledger | None = None
    dataset: str | None = None
    policy: SitePolicy = field(default_factory=SitePolicy)
    check_epsilon: float | None = None

    @property
    def has_ledger(self) -> bool:
        """True if a ledger or a data set in it was given."""
        return self.ledger is not None or self.dataset is not None

    def draw_source(
        self, *, of_check: bool = False, period: str | None = None
    ) -> Callable[..., np.random.Generator | None]:
        """Return the function that gives the random numbers of randomized scores."""
        own: dict[str, Any] = {
            "policy": self.policy,
            "ledger": self.ledger,
            "dataset": self.dataset,
        }
        return partial(
            protocol.draw_source,
            site=self.name,
            of_check=of_check,
            period=period,
            **own,
        )


class Settings(BaseModel):
    """A site's own settings, which no server can change; everything may be left out."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    signing_key: str | None = None
    ledger: str | None = None
    dataset: str | None = None
    check_dataset: str | None = None
    check_epsilon: float | None = None
    policy: str | None = None

    def make_site(self, name: str, folder: Path, *, of_checks: bool) -> Site:
        """Return the site that answers, with its files, whose paths are relative to a
        folder.
        """

        def read(path: str | None, reader: Callable[[Path], T]) -> T | None:
            return None if path is None else reader(folder / path)

        return Site(
            name,
            read(self.signing_key, SigningKey.read),
            read(self.ledger, Ledger),
            self.check_dataset if of_checks else self.dataset,
            read(self.policy, SitePolicy.read) or SitePolicy(),
            self.check_epsilon,
        )


@dataclass(frozen=True)
class Question:
    """Kind of question to a site.

    Parameters
    ----------
    name : str
        By which the engine routes it.
    asked, answered : str
        The fields of the question and of its answer.
    unreadable : Failure
        Code for a question that cannot be read.
    read : callable
        Reads the question.

    Examples
    --------
    >>> import logging
    >>> import fedconformal as fc
    >>> packed = fc.rounds.pack_plan(fc.plan(n_sites=3, n_points=40))
    >>> site, log = fc.rounds.Site("north"), logging.getLogger("north")
    >>> text = fc.rounds.CALIBRATE.answer(
    ...     packed, lambda plan: range(40), lambda plan: site, log=log
    ... )
    >>> fc.rounds.unpack_report(text).site
    'north'
    """

    name: str
    asked: str
    answered: str
    unreadable: Failure
    read: Callable[[object], "ReportRequest | CheckRequest"]

    def answer(
        self,
        packed: object,
        scores: Callable[[Any], Any],
        site: Callable[[Any], Site],
        *,
        model: str | None = None,
        settings: Mapping[str, Any] | None = None,
        log: logging.Logger,
        log_level: int = logging.INFO,
    ) -> str | Failure:
        """Answer a question that came over the wire; an exception becomes a fixed code.

        Parameters
        ----------
        packed : object
            The question, as `pack_plan` or `pack_calibration` made it.
        scores : callable
            Returns the site's cases for a plan, as `read_cases` takes them. A check
            passes its question in the place of the plan, which has ``score``,
            ``classes``, ``terms`` and ``confidence_levels``.
        site : callable
            Returns the `Site` that answers a plan; for a check its data set is that of
            the new cases.
        model : str, optional
            Digest of the model that came with the question. It must be the one that the
            plan names, if it names one. Otherwise scores under a new model are new data
            to the ledger, charged to the same budget.
        settings : mapping, optional
            Everything else that the server sent and that ``scores`` can read: masks
            cancel only if all sites were sent the same.
        log : logging.Logger
            The site's own log: it shows what leaves, and keeps the text of exceptions.
        log_level : int
            Level at which it shows what leaves.

        Returns
        -------
        str or Failure
            For `unpack_report` or `unpack_check`, or the fixed code that is sent
            instead if anything failed.
        """
        stage, show = self.unreadable, partial(log.log, log_level)
        try:
            request = self.read(packed)
            stage = Failure.REPORT
            who = site(request.plan)
            request.admit(who, model)
            stage = Failure.SCORES
            cases = request.read_cases(who, scores(request.plan))
            cases.refuse_few(who.policy.min_group)
            stage = Failure.REPORT
            sent = Sent(model, settings or {})
            sentence, make = request.prepare(who, sent, cases)
            if cases.left_out:
                sentence += (
                    f" {count(cases.left_out, 'case')} left out: of no class of the"
                    " plan."
                )
            show("%s", sentence)
            text = make().to_json(indent=None)
            show("this is everything that leaves the site: %s", text)
            return text
        except protocol.PolicyError:
            return log_and_mask(Failure.POLICY, log)
        except LedgerError:
            return log_and_mask(Failure.BUDGET, log)
        except BaseException:
            return log_and_mask(stage, log)


@dataclass(frozen=True)
class Sent:
    """Model and settings that came with a question, as a site's function can read them.

    Attributes
    ----------
    model : str or None
        Digest of the model that came with the question.
    settings : mapping
        Everything else: numbers and texts by name, empty ones left out.
    """

    model: str | None
    settings: Mapping[str, Any]

    @property
    def digest(self) -> str | None:
        """Digest of all of it, the same at all sites that were sent the same; None if
        nothing came, as with files.
        """
        content: dict[str, Any] = dict(self.settings)
        if self.model is not None:
            content["model"] = self.model
        return protocol.model_digest(content) if content else None


Prepared = tuple[str, Callable[[], Report | Check]]
"""A sentence that says what the answer discloses, and a function that makes it."""


@dataclass(frozen=True)
class Cases:
    """Scores or losses of a site's cases, labels where the plan has groups by label,
    the score if known, what tells each case from all others, and how many cases were
    left out as the plan does not have their class.
    """

    scores: Any
    labels: Any = None
    score: ScoreRule | None = None
    losses: Any = None
    identifiers: Any = None
    left_out: int = 0

    def refuse_few(self, fewest: int) -> None:
        """Refuse an answer about a few cases, or none, that a plan has singled out by
        its classes.
        """
        kept = (
            len(self.losses if self.scores is None else self.scores)
            if self.left_out
            else fewest
        )
        if kept < fewest:
            raise protocol.PolicyError(
                f"{count(kept, 'case')} of the classes of the plan, and the site's"
                f" policy has min_group = {fewest}"
            )


def read_cases(
    plan: Plan | CheckQuestion,
    computed: Any,
    *,
    private: bool = False,
    draw: Callable[..., Any] = lambda *cases: None,
    edges: Sequence[float] | None = None,
) -> Cases:
    """Read what a site's own function computed.

    Parameters
    ----------
    plan : Plan or CheckQuestion
        What is answered.
    computed : array, pair or mapping
        A mapping with ``truth`` and ``prediction``, of which the plan's score is
        computed here, or with ``scores`` and the ``score`` that they are, a name or an
        object; and perhaps ``groups``: the group, or the true class, of each case; and
        ``identifiers``, as for `fedconformal.report`. For a plan that fixes no score
        also an array of scores, or a pair of scores and groups. A plan of sums of
        losses takes ``losses`` instead of ``scores``, one of
        answers both; see `fedconformal.report`. Groups are needed, and used, only for a
        plan with groups by label; true classes are taken from ``truth``. Cases of a
        class that the plan does not have are left out.
    private : bool
        True if no case may be refused, as the answer is private.
    draw : callable, optional
        Takes score, truth and prediction, and returns the random numbers of a
        randomized score.
    edges : sequence of float, optional
        Of a report with losses: where they are computed of truth and prediction.

    Returns
    -------
    Cases

    Raises
    ------
    TypeError, ValueError
        If it is something else, or the scores are not known to be those that the plan
        fixes.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(score="absolute")
    >>> read_cases(plan, {"truth": [3, 5], "prediction": [4, 3]}).scores
    array([1., 2.])
    """
    if not isinstance(computed, Mapping):
        paired = (
            isinstance(computed, tuple)
            and len(computed) == 2
            and plain_array(computed[0]).ndim > 0
        )
        computed = dict(
            zip(("scores", "groups"), computed if paired else (computed,), strict=False)
        )
    keys, named, truth = computed.keys(), computed.get("score"), computed.get("truth")
    is_known = None
    beside = {"score", "groups", "identifiers"}
    if {"truth", "prediction"} <= keys <= {"truth", "prediction", *beside}:
        rule = protocol.score_of(
            plan.score, from_name(named) if isinstance(named, str) else named
        )
        if isinstance(rule, LabelScore) and plan.classes is not None and not private:
            places = protocol.class_numbers(truth, plan.classes)
            is_known = ~np.isnan(places)
            # Scored as cases of some class: errors and draws must not depend on the
            # classes of the plan.
            truth = [plan.classes[int(place)] for place in np.nan_to_num(places)]
        options: dict[str, Any] = {
            "classes": plan.classes,
            "private": private,
            "draw": draw,
        }
        options |= {"edges": edges, "plan": plan}
        values = protocol.score_cases(rule, truth, computed["prediction"], **options)
        named = rule
        computed = {**computed, "scores" if edges is None else "losses": values}
    elif keys & {"scores", "losses"} and keys <= {"scores", "losses", *beside}:
        if plan.score is not None and named is None:
            raise TypeError(
                f"the plan fixes the score {plan.score}, and nothing says that these"
                ' scores are it: return {"truth": ..., "prediction": ...}, and it is'
                ' computed here, or {"scores": ..., "score": ...}'
            )
    else:
        raise TypeError(
            "the site's function must return scores, or a mapping with truth and"
            " prediction, or with scores or losses and score, and perhaps groups; got"
            f" {quoted([str(key) for key in keys])}"
        )
    score = None if named is None else protocol.check_score(plan.score, named)
    labels = computed.get("groups")
    cases = Cases(
        scores=computed.get("scores"),
        score=score,
        losses=computed.get("losses"),
        identifiers=computed.get("identifiers"),
    )
    if not plan.grouping.has_labels:
        return _leave_out(cases, is_known)
    if labels is None and plan.grouping.by_class and truth is not None:
        names = (
            *(plan.classes or ()),
            "",
        )  # the last for a case of no class, which is left out
        labels = [
            names[int(place)]
            for place in np.nan_to_num(
                protocol.class_numbers(truth, names[:-1]), nan=-1
            )
        ]
    if labels is None:
        raise TypeError(
            "for a plan with groups the scores must come as a pair (scores, labels), or"
            " with groups"
        )
    return _leave_out(replace(cases, labels=labels), is_known)


def _leave_out(cases: Cases, is_known: Bools | None) -> Cases:
    """Return the cases of classes that the plan has: an error would tell that there are
    others.
    """
    if is_known is None or is_known.all():
        return cases
    kept: dict[str, Any] = {
        name: plain_array(values, dtype=None if hasattr(values, "dtype") else object)[
            is_known
        ]
        for name in ("scores", "labels", "losses", "identifiers")
        if (values := getattr(cases, name)) is not None
    }
    return replace(cases, **kept, left_out=int((~is_known).sum()))


class ReportRequest:
    """A plan, which is answered with a report."""

    def __init__(self, packed: object) -> None:
        self.plan = unpack_plan(packed)

    def admit(self, who: Site, model: str | None) -> None:
        """Refuse what the site does not answer, before any score is computed."""
        protocol.admit(self.plan, policy=who.policy, has_ledger=who.has_ledger)

    def read_cases(self, who: Site, computed: Any) -> Cases:
        """Read what the site computed."""
        curve = protocol.loss_curve(self.plan)
        edges = None if curve is None else curve.edges
        private = protocol.is_private(self.plan)
        return read_cases(
            self.plan, computed, private=private, draw=who.draw_source(), edges=edges
        )

    def prepare(self, who: Site, sent: Sent, cases: Cases) -> Prepared:
        """Prepare the answer: nothing is drawn, charged or written yet."""
        model = sent.model
        # Scores under a model that the plan does not name may differ from those that
        # the ledger has seen.
        named = self.plan.terms.model is not None
        prepared = protocol.prepare(
            self.plan,
            cases.scores,
            losses=cases.losses,
            groups=cases.labels,
            score=cases.score,
            site=who.name,
            key=who.key,
            policy=who.policy,
            ledger=who.ledger,
            dataset=who.dataset,
            model=model if named else None,
            accept=(
                None if named or model is None else f"scores under the model {model}"
            ),
            identifiers=cases.identifiers,
            received=sent.digest if self.plan.is_masked else None,
            leave_out=True,
        )
        return prepared.sentence, prepared.report


class CheckRequest:
    """Thresholds of a calibration, which are answered with the number of new cases that
    they cover.

    Whoever asks may have chosen them: the site's policy and its ledger, if it has one,
    limit what can be learned from the counts. A whole calibration is verified first.
    """

    def __init__(self, packed: object) -> None:
        self.calibration = unpack_calibration(packed)
        self.plan = self.calibration.whole.plan

    def admit(self, who: Site, model: str | None) -> None:
        """Refuse what the site does not answer, before any score is computed."""
        named = self.plan.terms.model
        if named is not None and model not in (None, named):
            raise ValueError(
                f"the calibration is for the model {named}, and {model} came with it"
            )
        is_exact = who.check_epsilon is None
        who.policy.check_document(
            self.calibration.whole,
            self.plan,
            is_exact=is_exact,
            has_ledger=who.has_ledger,
        )

    def read_cases(self, who: Site, computed: Any) -> Cases:
        """Read what the site computed."""
        period = getattr(self.calibration, "period", None)
        draw = who.draw_source(of_check=True, period=period)
        return read_cases(
            self.plan, computed, private=who.check_epsilon is not None, draw=draw
        )

    def prepare(self, who: Site, sent: Sent, cases: Cases) -> Prepared:
        """Prepare the answer: nothing is drawn, charged or written yet."""
        # Most messages ask for no check, and each may be a new process.
        from fedconformal import monitoring

        model, question = sent.model or self.plan.terms.model, self.calibration
        asked = question if isinstance(question, CheckQuestion) else None
        prepared = monitoring.prepare_answer(
            self.calibration,
            self._select_cases(cases.scores, cases.labels, who.name),
            site=who.name,
            epsilon=who.check_epsilon,
            policy=who.policy,
            ledger=who.ledger,
            dataset=who.dataset,
            period=None if asked is None else asked.period,
            masked=asked is not None and asked.keys is not None,
            among=None if self.calibration.group is None else cases.scores,
            accept=None if model is None else f"scores under the model {model}",
        )
        return prepared.sentence, prepared.make

    def _select_cases(self, scores: Any, labels: Any, site: str) -> Any:
        """Return the scores of the new cases that are asked about: all, or those of one
        group.
        """
        group, grouping = self.calibration.group, self.plan.grouping
        if group is None:
            return scores
        values = plain_array(scores)
        if labels is None:
            return values if grouping.group_of_site(site) == group else values[:0]
        names, which = unique_labels(labels)
        groups = grouping.groups_of(names, site)
        return values[
            np.isin(which, [i for i, label in enumerate(groups) if label == group])
        ]


CALIBRATE = Question("conformal", "plan", "report", Failure.PLAN, ReportRequest)
CHECK = Question(
    "conformal_check", "calibration", "check", Failure.CALIBRATION, CheckRequest
)


def log_and_mask(failure: Failure, log: logging.Logger) -> Failure:
    """Write the current exception to the site's own log, and return the code that is
    sent in its place.
    """
    with contextlib.suppress(
        BaseException
    ):  # an exception of a log handler must not travel either
        log.exception("the server receives only: %s", failure.meaning)
    return failure
