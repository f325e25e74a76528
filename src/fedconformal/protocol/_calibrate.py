"""Server side: reports are validated, and combined into thresholds, with the
assumptions of the guarantee.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from fedconformal import _util
from fedconformal._text import (
    count,
    floor_percent,
    plain_spaces,
    quoted,
    threshold_text,
)
from fedconformal.documents import (
    MOST_CLASSES,
    Calibration,
    CalibrationPart,
    CalibrationView,
    Design,
    Level,
    MaskedPayload,
    Plan,
    Received,
    Refusal,
    Report,
    SiteKind,
    is_signed_by,
    payload_class,
)
from fedconformal.documents._base import paused_collector
from fedconformal.documents._fields import MOST_REFUSALS
from fedconformal.messages import Answer, largest_so_far, of
from fedconformal.planning import PROMISES, PromiseScope
from fedconformal.protocol._masking import add_up
from fedconformal.protocol._report import check_current, is_private, loss_curve
from fedconformal.scores import SCORES, LabelScore, LossScore, from_name

Answers = dict[str, Answer]
"""Answer of each site for one group, by site."""

_MOST_LISTED = 100


class RefusedReportsError(ValueError):
    """Reports that do not answer the plan.

    Attributes
    ----------
    refused : tuple of Refusal
        All of them, with their reasons.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_points={"A": 40, "B": 50})
    >>> other = fc.report(fc.plan(n_points={"A": 40}), range(40), site="A")
    >>> try:
    ...     fc.calibrate(plan, [other])
    ... except fc.RefusedReportsError as error:
    ...     print(len(error.refused))
    1
    """

    def __init__(self, refused: Sequence[Refusal]) -> None:
        self.refused = tuple(refused)
        listed = "; ".join(
            f"{refusal.source}: {refusal.reason}" for refusal in refused[:_MOST_LISTED]
        )
        more = (
            f"; and {len(refused) - _MOST_LISTED:,} more"
            if len(refused) > _MOST_LISTED
            else ""
        )
        super().__init__(
            f"nothing was calibrated, {len(refused)} refused: {listed}{more}"
        )


def calibrate(
    plan: Plan,
    reports: Iterable[Report],
    *,
    on_refused: Literal["raise", "skip"] = "raise",
    unreadable: Iterable[Refusal] = (),
) -> Calibration:
    """Combine reports into a threshold with its guarantee, for all cases or for each
    group.

    Every report is checked against the plan: its digest, the site and its signature, no
    second report of a site, the payload as planned, one score. The votes are then
    solved again for the sites that answered. The order of the reports does not matter.

    Parameters
    ----------
    plan : Plan
        The plan that was answered.
    reports : iterable of Report
        One per site; sites that are not there count as missing.
    on_refused : {"raise", "skip"}
        Raise a RefusedReportsError that names every refused report, or skip it: the
        site then counts as missing, and the calibration lists the refusal.
    unreadable : iterable of Refusal
        Refusals from before, of reports that could not even be read.

    Returns
    -------
    Calibration
        Thresholds, who answered, and the assumptions of the guarantee.

    Raises
    ------
    RefusedReportsError
        If reports were refused and ``on_refused="raise"``.
    ValueError
        If too few sites answered for any threshold.

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> rng = np.random.default_rng(0)
    >>> plan = fc.plan(n_sites=5, n_points=50, confidence_level=0.9)
    >>> reports = [fc.report(plan, rng.random(50), site=name) for name in "ABCDE"]
    >>> round(fc.calibrate(plan, reports).threshold, 2)
    0.92
    """
    _util.choice("on_refused", on_refused, ("raise", "skip"))
    check_current(plan, "calibrated")
    with paused_collector():
        return _calibrate(plan, reports, on_refused, unreadable)


def _calibrate(
    plan: Plan,
    reports: Iterable[Report],
    on_refused: str,
    unreadable: Iterable[Refusal],
) -> Calibration:
    intake = validate_reports(plan, reports, unreadable=unreadable)
    if on_refused == "raise" and intake.all_refused:
        raise RefusedReportsError(intake.all_refused)
    needed = (
        1 if plan.is_grouped else plan.designs[0].fewest_answers
    )  # with groups, for any of them
    if len(intake.reports) < needed:
        verb = "is" if needed == 1 else "are"
        faulty = (
            ""
            if plan.is_grouped or not plan.max_faulty
            else f" with max_faulty = {plan.max_faulty}"
        )
        raise ValueError(
            f"{count(len(intake.reports), 'site')} answered: at least {needed} {verb}"
            f" needed{faulty}"
        )
    parts = tuple(
        _solve(
            plan.by_group[group],
            answers,
            _drop_reasons(intake.refused_in[group], len(plan.designs)),
        )
        for group, answers in intake.answers.items()
    )
    received = [
        Received(
            site=report.site,
            report=report.digest,
            signature=report.signature if plan.keys else None,
        )
        for report in intake.reports
    ]
    return Calibration(
        plan=plan,
        parts=parts,
        reports=tuple(received),
        refused=_shorten(intake.refused),
        assumptions=assumption_codes(plan, max(part.n_missing for part in parts)),
    )


def _shorten(refused: tuple[Refusal, ...]) -> tuple[Refusal, ...]:
    """Return the first refusals, and one more that counts the others."""
    if len(refused) <= MOST_REFUSALS:
        return refused
    others = count(len(refused) - MOST_REFUSALS + 1, "other report")
    return (*refused[: MOST_REFUSALS - 1], Refusal(source=others, reason="refused"))


def _drop_reasons(refused: tuple[Refusal, ...], n_groups: int) -> tuple[Refusal, ...]:
    """Return the refusals of a group, only the first of them with their reasons."""
    first = MOST_REFUSALS // n_groups
    others = [
        Refusal(source=each.source, reason="does not fit the plan")
        for each in refused[first:]
    ]
    return (*refused[:first], *others)


def _solve(
    design: Design, answers: Answers, refused: tuple[Refusal, ...]
) -> CalibrationPart:
    """Solve the votes of one design for the sites that answered, and find the
    thresholds.
    """
    names: dict[tuple[int, int], list[str]] = defaultdict(list)
    for site in sorted(answers):
        place = design.find_kind(answers[site].n, site=site)
        names[-1 if place is None else place, answers[site].n].append(site)
    order = sorted(names)  # by the plan's order of its kinds
    places = tuple(None if place < 0 else place for place, _ in order)
    sites = tuple(
        SiteKind(
            count=len(names[place, n]),
            n=n,
            names=tuple(names[place, n]),
            share=None if place < 0 else design.kinds[place].share,
        )
        for place, n in order
    )
    message = of(design.message)
    sums: tuple[int, ...] = ()
    solved = message.solve(design, sites, places) if sites else design
    if len(answers) < design.fewest_answers:
        levels = tuple(
            Level(confidence_level=level.confidence_level) for level in design.levels
        )
        solved, thresholds = (
            solved.answered_by(sites, levels=levels),
            (math.inf,) * len(levels),
        )
    elif design.message.is_masked:
        sums = _unmask(design, solved, answers)
        thresholds = largest_so_far(solved, message.combine_sum(solved, sums))
    else:
        thresholds = largest_so_far(solved, message.combine(solved, answers))
    missing = tuple(sorted(set(design.asked_names or ()) - answers.keys()))
    unnamed = max(0, (design.n_asked or 0) - len(answers))
    return CalibrationPart(
        design=solved,
        thresholds=thresholds,
        missing=missing,
        n_missing=unnamed if design.site_names is None else len(missing),
        refused=refused,
        sums=sums,
    )


def _unmask(design: Design, solved: Design, answers: Answers) -> tuple[int, ...]:
    """Add up the masked numbers of all sites that a design asks; refuse a sum that is
    none.
    """
    where = "" if design.group is None else f"group {design.group!r}: "
    if missing := sorted(set(design.asked_names or ()) - answers.keys()):
        way = "a new plan" if of(design.message).epsilon(design) else "a private plan"
        raise ValueError(
            f"{where}a masked sum needs every site, and {quoted(missing)} did not"
            f" answer. There is no sum of the others: make {way} without the missing,"
            " which sites charge again"
        )
    sums = add_up(answer.payload for answer in answers.values())
    if (reason := of(solved.message).sum_problem(solved, sums)) is not None:
        raise ValueError(where + reason)
    return sums


# -- validation of reports: those that count, and why the others do not ----------------


@dataclass(frozen=True)
class Intake:
    """Reports that count as a whole, by site, and refusals; for each group, under None
    where there are none, what each site sent that counts, and payloads that do not
    count although their report does.
    """

    reports: tuple[Report, ...]
    refused: tuple[Refusal, ...]
    answers: Mapping[str | None, Answers]
    refused_in: Mapping[str | None, tuple[Refusal, ...]]

    @property
    def all_refused(self) -> tuple[Refusal, ...]:
        """Every refusal, with the group in its source."""
        inside = [
            Refusal(
                source=f"{refusal.source}, group {quoted([group or ''])}",
                reason=refusal.reason,
            )
            for group, refusals in self.refused_in.items()
            for refusal in refusals
        ]
        return (*self.refused, *inside)


def validate_reports(
    plan: Plan, reports: Iterable[Report], *, unreadable: Iterable[Refusal] = ()
) -> Intake:
    """Check every report against the plan; ``unreadable`` are refusals from before.

    Of several reports from one site, equal ones count once, and contradictory ones do
    not count; nor do those with another score than more than half of the reports that
    name one.
    """
    keys = {key.site: key.public_key for key in plan.keys or ()}
    refused = list(unreadable)
    by_site: dict[str, list[Report]] = defaultdict(list)
    for report in reports:
        if (reason := _problem(plan, keys, report)) is None:
            by_site[report.site].append(report)
        else:
            refused.append(Refusal(source=report.site, reason=reason))
    accepted = []
    for site in sorted(by_site):
        first, *others = by_site[site]
        if all(other == first for other in others):
            accepted.append(first)
            refused += [
                Refusal(source=site, reason="the same report a second time")
                for _ in others
            ]
        else:
            reason = (
                f"{len(others) + 1} different reports from this site: none of them"
                " counts"
            )
            refused.append(Refusal(source=site, reason=reason))
    odd = _find_odd_scores(accepted)
    refused += [Refusal(source=site, reason=reason) for site, reason in odd.items()]
    accepted = [report for report in accepted if report.site not in odd]
    answers: dict[str | None, Answers] = {}
    refused_in: dict[str | None, tuple[Refusal, ...]] = {}
    for design in plan.designs:
        answers[design.group], refused_in[design.group] = _read_group(design, accepted)
    if not plan.is_grouped:  # a report counts as a whole or not at all
        accepted = [report for report in accepted if report.site in answers[None]]
        refused += refused_in[None]
        refused_in = {None: ()}
    return Intake(tuple(accepted), tuple(refused), answers, refused_in)


def _find_odd_scores(reports: Sequence[Report]) -> dict[str, str]:
    """Return the sites that name another score than most do, where any differ, each
    with the reason.
    """
    named = {
        report.site: report.score for report in reports if report.score is not None
    }
    kinds = {
        site: (score.name, frozenset(score.parameters.items()))
        for site, score in named.items()
    }
    texts = {kinds[site]: str(score) for site, score in named.items()}
    usual = next(
        (
            kind
            for kind, times in Counter(kinds.values()).items()
            if 2 * times > len(kinds)
        ),
        None,
    )
    if usual is None:
        several = (
            f"most reports have none of {' and '.join(sorted(texts.values())[:2])}, so"
            " none counts"
        )
    else:
        several = f"most reports {texts[usual]}"
    return {
        site: f"has the score {texts[kind]}, and {several}"
        for site, kind in kinds.items()
        if kind != usual
    }


def _problem(plan: Plan, keys: Mapping[str, str], report: Report) -> str | None:
    """Return the reason why a report does not count as a whole, if it does not."""
    if report.plan != plan.digest:
        return (
            f"answers another plan ({report.plan[:19]}..., not {plan.digest[:19]}...)"
        )
    if plan.score is not None and report.score not in (None, plan.score):
        return f"has the score {report.score}, and the plan {plan.score}"
    try:
        report.check()
    except ValueError as error:
        return str(error)
    if plan.is_grouped == (None in report.by_group):
        return (
            "has no groups, as the plan has"
            if plan.is_grouped
            else "has groups, and the plan has none"
        )
    if plan.is_grouped:
        if unknown := [
            group for group in report.by_group if group and group not in plan.by_group
        ]:
            return f"a payload for {quoted(unknown)}, which is not a group of the plan"
        if plan.site_names is not None and report.site not in plan.site_names:
            return (
                f"site must be one of the plan's, {quoted(plan.site_names)}, got"
                f" {report.site!r}"
            )
    elif (
        reason := _payload_problem(plan.designs[0], _answer(report, None))
    ) is not None:
        return reason
    if keys and not is_signed_by(report, keys[report.site]):
        unsigned = "not signed, but the plan asks for signatures"
        return (
            unsigned
            if report.signature is None
            else "the signature is not that of the site's key"
        )
    return None


def _answer(report: Report, group: str | None) -> Answer:
    part = report.by_group[group]
    return Answer(report.site, part.n, part.payload)


def _payload_problem(design: Design, answer: Answer) -> str | None:
    """Return the reason why a payload does not count, if it does not."""
    try:
        place = design.find_kind(answer.n, site=answer.site)
    except ValueError as error:
        return str(error)
    if place is not None and not design.kinds[place].asked:
        return "the plan does not ask this site"
    wanted = payload_class(design.message)
    if not isinstance(answer.payload, wanted):
        return f"a payload of kind {answer.payload.kind!r} instead of {wanted.kind!r}"
    if isinstance(answer.payload, MaskedPayload):
        length = design.message.vector_length(len(design.levels))
        came = answer.payload.n_numbers
        return (
            None
            if came == length
            else f"{count(came, 'masked number')} instead of {length:,}"
        )
    return of(design.message).problem(design, answer)


def _read_group(
    design: Design, reports: list[Report]
) -> tuple[Answers, tuple[Refusal, ...]]:
    """Return the answers that count for one group, of reports that count as a whole,
    and why others do not.

    Of unnamed sites no more may answer than planned, of each size if it is known:
    nobody can tell which of too many are honest, so none of that size counts.
    """
    answers: Answers = {}
    reasons: dict[str, str] = {}
    for report in reports:
        if design.group in report.by_group:
            answer = _answer(report, design.group)
            # without groups this was part of validating the report
            reason = None if design.group is None else _payload_problem(design, answer)
            if reason is None:
                answers[report.site] = answer
            else:
                reasons[report.site] = reason
    if design.site_names is None and design.n_sites is not None:
        room: Counter[int | None] = Counter(
            {None: design.n_sites} if design.is_open else {}
        )
        for kind in design.kinds:
            room[kind.n] += kind.count
        sizes = {
            site: None if design.is_open else answer.n
            for site, answer in answers.items()
        }
        came = Counter(sizes.values())
        for site, size in sizes.items():
            if came[size] > room[size]:
                of_size = "" if size is None else f" with {count(size, 'score')}"
                reasons[site] = (
                    f"{count(came[size], 'report')} from sites{of_size}, and the plan"
                    f" expects {room[size]}: nobody knows which are honest, so none"
                    " counts"
                )
                del answers[site]
    return answers, tuple(
        Refusal(source=site, reason=reason) for site, reason in reasons.items()
    )


# -- what a guarantee rests on: codes in the document, sentences for people ------------

# A calibration holds the codes, so that rewording a sentence changes no digest.


def assumption_codes(plan: Plan, n_missing: int) -> tuple[str, ...]:
    """Return the codes of the assumptions of a calibration.

    Parameters
    ----------
    plan : Plan
        The plan that was answered.
    n_missing : int
        How many sites did not answer, in any group.

    Returns
    -------
    tuple of str
        In the order in which they are read.

    Examples
    --------
    >>> import fedconformal as fc
    >>> from fedconformal.protocol import assumption_codes
    >>> assumption_codes(fc.plan(n_sites=3, n_points=40), n_missing=0)[0]
    'alike'
    """
    bearers = _bearers(plan)
    applies = {
        **{PROMISES[design.promise].assumption: True for design in plan.designs},
        "labels-first": plan.grouping.by_label,
        "true-classes": plan.grouping.by_class,
        "own-site": plan.grouping.by_site,
        "ties": loss_curve(plan) is None,
        "silence": n_missing > 0 or plan.is_grouped,
        "faulty": plan.max_faulty > 0,
        "as-planned": plan.max_faulty == 0,
        "private": is_private(plan) and not bearers,
        "private-sum": bool(bearers),
        "masked": plan.is_masked,
        "signed-whole": plan.is_grouped and plan.keys is not None,
        "not-authenticated": plan.keys is None,
        "several-levels": len(plan.confidence_levels) > 1,
    }
    return tuple(code for code, here in applies.items() if here)


def _bearers(plan: Plan) -> int:
    """Return how many sites add the noise of a sum; 0 where every site adds its own."""
    return max(len(getattr(design.message, "bearers", ())) for design in plan.designs)


class AssumptionKind(Enum):
    """Relation of a sentence to a promise."""

    CONDITION = "the promise holds if this is true"
    CAVEAT = "true whatever happens, and good to know"
    UNCHECKED = "nobody has checked it"


def assumption_sentences(
    calibration: Calibration, kind: AssumptionKind | None = None
) -> tuple[str, ...]:
    """Return the assumptions of a calibration as sentences.

    Parameters
    ----------
    calibration : Calibration
        Whose codes are to be read.
    kind : AssumptionKind, optional
        Only sentences of this kind; all if left out.

    Returns
    -------
    tuple of str
        A sentence, or a few, for each code.

    Examples
    --------
    >>> import fedconformal as fc
    >>> from fedconformal.protocol import assumption_sentences
    >>> assumption_sentences(fc.conformalize({"A": range(40)}))[1]
    'With ties among scores the coverage can only be larger than stated.'
    """
    plan, missing = calibration.plan, calibration.n_missing
    whether = "Whether a site answers"
    if plan.is_grouped:
        whether += " for a group"
    elif missing:
        whether = f"{count(missing, 'site')} did not answer; whether a site answers"
    faulty = f"At most {plan.max_faulty} of the reports"
    if plan.is_grouped:
        faulty = (
            "In each group at most as many reports as its plan allows (up to"
            f" {plan.max_faulty})"
        )
    facts = {
        "whether": whether,
        "faulty": faulty,
        "epsilon": float(
            max(of(design.message).epsilon(design) or 0 for design in plan.designs)
        ),
        "sizes": _PUBLIC_SIZES if plan.is_grouped else "",
        "colluding": count(_bearers(plan) - 1, "site"),
    }
    known = {code: text.format(**facts) for code, text in _SENTENCES.items()}
    for name in PROMISES:
        scope = PromiseScope(PROMISES[name](), plan.grouping)
        known[scope.promise.assumption] = scope.assumed()
    return tuple(
        known.get(code, f"An assumption that this version does not know: {code}.")
        for code in calibration.assumptions
        if kind in (None, _KINDS.get(code, AssumptionKind.CONDITION))
    )


_KINDS = {
    "ties": AssumptionKind.CAVEAT,
    "private": AssumptionKind.CAVEAT,
    "private-sum": AssumptionKind.CAVEAT,
    "masked": AssumptionKind.CAVEAT,
    "signed-whole": AssumptionKind.CAVEAT,
    "several-levels": AssumptionKind.CAVEAT,
    "not-authenticated": AssumptionKind.UNCHECKED,
}
"""Of codes that are no conditions."""

_SENTENCES = {
    "labels-first": (
        "New cases get their labels in the same way as calibration cases, before their"
        " truth is known."
    ),
    "true-classes": (
        "Each class is covered individually: how common the classes are may differ"
        " between sites and between these and new cases in any way, but new cases of a"
        " class are like its calibration cases."
    ),
    "own-site": "A threshold is used for new cases of its own site alone.",
    "ties": "With ties among scores the coverage can only be larger than stated.",
    "silence": "{whether} does not depend on any site's scores.",
    "faulty": (
        "{faulty} are wrong, in whatever way; which sites these are does not depend on"
        " the scores of the others."
    ),
    "as-planned": "Every report was made as the plan says.",
    "private": (
        "Each report is {epsilon:g}-differentially private for every record behind it,"
        " if the site kept its ledger; the guarantee allows for the noise and holds for"
        " every data set.{sizes}"
    ),
    "private-sum": (
        "The sum of the reports is {epsilon:g}-differentially private for every record"
        " behind it, against the server together with any {colluding}, if the sites"
        " that add the noise did so and all kept their ledgers; the guarantee allows"
        " for the noise and holds for every data set.{sizes}"
    ),
    "masked": (
        "The reports were masked: of their counts only the sum over all sites could be"
        " read, or over the others, where some sites shared theirs."
    ),
    "signed-whole": "Every message was signed as a whole with its site's key.",
    "not-authenticated": (
        "The reports were not authenticated: whoever could deliver a file could pose as"
        " a site."
    ),
    "several-levels": (
        "Each level's guarantee holds individually; a level whose threshold was below"
        " that of a lower level got the larger one, which can only add coverage."
    ),
}
_PUBLIC_SIZES = (
    " The number of cases of each group is public; a person with cases in several"
    " groups pays for each."
)


def describe_coverage(view: CalibrationView) -> str:
    """Describe the threshold of one group and level, and the coverage that it has, in
    one line.

    Examples
    --------
    >>> import fedconformal as fc
    >>> calibration = fc.conformalize({"A": range(40), "B": range(60)})
    >>> describe_coverage(calibration[0.9]).partition(", if ")[0]
    'level 0.9: threshold 53.0, coverage at least 90.7 % on average'
    """
    group = "" if view.group is None else f"group {view.group!r}, "
    start = (
        f"{group}level {view.confidence_level:g}: threshold"
        f" {threshold_text(view.threshold)}"
    )
    if view.threshold == math.inf:
        return f"{start}: every set contains everything"
    guarantee = view.guarantee
    scope = PromiseScope.of(view.whole.plan, view.selected_designs[0])
    condition = scope.condition or "if the assumptions of the calibration hold"
    coverage = f", coverage{scope.promise.among} at least"
    if guarantee.mean is not None:
        least = floor_percent(guarantee.mean)
        promised = f"{coverage} {least} on average, {condition}"
    elif guarantee.coverage is not None and guarantee.probability is not None:
        least, chance = (
            floor_percent(guarantee.coverage),
            floor_percent(guarantee.probability),
        )
        promised = f"{coverage} {least} with probability {chance}, {condition}"
    else:
        promised = ""  # of a promise that gives no number
    return plain_spaces(start + promised)


def everything_sentences(calibration: Calibration) -> tuple[str, ...]:
    """Describe finite thresholds that put a label into every set, where the plan fixes
    a score of labels.

    Examples
    --------
    >>> import fedconformal as fc
    >>> from fedconformal.protocol import everything_sentences
    >>> calibration = fc.conformalize({"A": [1.0] * 40}, score="lac")
    >>> len(everything_sentences(calibration))
    1
    """
    plan = calibration.plan
    if plan.score is None or plan.score.name not in SCORES:
        return ()
    rule = from_name(plan.score.name, **plan.score.parameters)
    if not isinstance(rule, LabelScore | LossScore):
        return ()
    n_classes = MOST_CLASSES if plan.classes is None else len(plan.classes)
    sentences = []
    for part in calibration.parts:
        group = part.design.group
        for level, threshold in zip(
            plan.confidence_levels, part.thresholds, strict=True
        ):
            if threshold < math.inf and rule.admits_all(threshold, n_classes):
                where = "" if group is None else f", group {group!r}"
                by_class = group is not None and plan.grouping.by_class
                every = "pixel" if rule.takes_images else "label"
                what = (
                    f"label {group!r} is in every set"
                    if by_class
                    else f"every {every} is in every set"
                )
                sentences.append(
                    f"Level {level:g}{where}: the threshold, {threshold:g}, is as large"
                    f" as a score can be, so {what}."
                )
    return tuple(sentences)
