"""Validation of reports: those that count, and why the others do not."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fedconformal._text import count, quoted
from fedconformal.documents import Design, Plan, Refusal, Report, is_signed_by, message_kinds
from fedconformal.messages import Answer, of

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
        listed = "; ".join(f"{refusal.source}: {refusal.reason}" for refusal in refused[:_MOST_LISTED])
        more = f"; and {len(refused) - _MOST_LISTED:,} more" if len(refused) > _MOST_LISTED else ""
        super().__init__(f"nothing was calibrated, {len(refused)} refused: {listed}{more}")


@dataclass(frozen=True)
class Intake:
    """Reports sorted into those that count and those that do not.

    Attributes
    ----------
    reports : tuple of Report
        Reports that count as a whole, by site.
    refused : tuple of Refusal
        Reports that do not.
    answers : mapping
        For each group (under None where there are none) what each site sent that counts.
    refused_in : mapping
        For each group the payloads that do not count although their report does.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_points={"A": 40, "B": 50})
    >>> twice = [fc.report(plan, range(40), site="A"), fc.report(plan, range(1, 41), site="A")]
    >>> [refusal.reason for refusal in fc.protocol.validate_reports(plan, twice).refused][:1]
    ['2 different reports from this site: none of them counts']
    """

    reports: tuple[Report, ...]
    refused: tuple[Refusal, ...]
    answers: Mapping[str | None, Answers]
    refused_in: Mapping[str | None, tuple[Refusal, ...]]

    @property
    def all_refused(self) -> tuple[Refusal, ...]:
        """Every refusal, with the group in its source."""
        inside = [
            Refusal(source=f"{refusal.source}, group {quoted([group])}", reason=refusal.reason)
            for group, refusals in self.refused_in.items()
            for refusal in refusals
            if group is not None
        ]
        return (*self.refused, *inside)


def validate_reports(plan: Plan, reports: Iterable[Report], *, unreadable: Iterable[Refusal] = ()) -> Intake:
    """Check every report against the plan.

    Parameters
    ----------
    plan : Plan
        The plan that was answered.
    reports : iterable of Report
        In any order.
    unreadable : iterable of Refusal
        Refusals from before, of reports that could not even be read.

    Returns
    -------
    Intake
        The reports that count, and those that do not.

    Examples
    --------
    >>> import fedconformal as fc
    >>> from fedconformal.protocol import validate_reports
    >>> plan = fc.plan(n_points={"A": 40, "B": 50})
    >>> intake = validate_reports(plan, [fc.report(plan, range(40), site="A")])
    >>> [report.site for report in intake.reports], intake.refused
    (['A'], ())
    """
    keys = {key.site: key.public_key for key in plan.keys or ()}
    accepted, refused = _one_per_site(reports, lambda report: _problem(plan, keys, report))
    if plan.is_grouped:
        sorted_out = {design.group: _within_group(design, accepted) for design in plan.designs}
        answers = {group: found for group, (found, _) in sorted_out.items()}
        refused_in = {group: tuple(wrong) for group, (_, wrong) in sorted_out.items()}
        return Intake(tuple(accepted), (*unreadable, *refused), answers, refused_in)
    kept, surplus = _without_surplus(plan.designs[0], {report.site: _answer(report) for report in accepted})
    counted = tuple(report for report in accepted if report.site in kept)
    return Intake(counted, (*unreadable, *refused, *surplus), {None: kept}, {None: ()})


def _answer(report: Report, group: str | None = None) -> Answer:
    part = report.by_group[group]
    return Answer(report.site, part.n, part.payload)


def _one_per_site(
    reports: Iterable[Report], problem: Callable[[Report], str | None]
) -> tuple[list[Report], list[Refusal]]:
    """Return one report of each site, and the refusals; contradictory reports do not count."""
    refused: list[Refusal] = []
    by_site: dict[str, list[Report]] = defaultdict(list)
    for report in reports:
        reason = problem(report)
        if reason is None:
            by_site[report.site].append(report)
        else:
            refused.append(Refusal(source=report.site, reason=reason))
    accepted = []
    for site in sorted(by_site):
        first, *others = by_site[site]
        if all(other == first for other in others):
            accepted.append(first)
            refused += [Refusal(source=site, reason="the same report a second time") for _ in others]
        else:
            reason = f"{len(others) + 1} different reports from this site: none of them counts"
            refused.append(Refusal(source=site, reason=reason))
    return accepted, refused


def _problem(plan: Plan, keys: Mapping[str, str], report: Report) -> str | None:
    """Return the reason why a report does not count as a whole, if it does not."""
    if report.plan != plan.digest:
        return f"answers another plan ({report.plan[:19]}..., not {plan.digest[:19]}...)"
    try:
        report.check()
    except ValueError as error:
        return str(error)
    if plan.is_grouped != (None not in report.by_group):
        return (
            "has groups, and the plan has none" if not plan.is_grouped else "has no groups, as the plan has"
        )
    if plan.is_grouped:
        if unknown := [group for group in report.by_group if group and group not in plan.by_group]:
            return f"a payload for {quoted(unknown)}, which is not a group of the plan"
        names = plan.site_names
        if names is not None and report.site not in names:
            return f"site must be one of the plan's, {quoted(names)}, got {report.site!r}"
    elif (reason := _payload_problem(plan.designs[0], _answer(report))) is not None:
        return reason
    return signature_problem(keys, report) if keys else None


def _payload_problem(design: Design, answer: Answer) -> str | None:
    """Return the reason why a payload does not count, if it does not."""
    try:
        place = design.find_kind(answer.n, site=answer.site)
    except ValueError as error:
        return str(error)
    if place is not None and not design.kinds[place].asked:
        return "the plan does not ask this site"
    if not isinstance(answer.payload, message_kinds()[design.message.kind][1]):
        return f"a payload of kind {answer.payload.kind!r} instead of {design.message.kind!r}"
    return of(design.message).problem(design, answer)


def signature_problem(keys: Mapping[str, str], report: Report) -> str | None:
    """Return the reason why the signature of a site that has a key is not valid, if it is not.

    Parameters
    ----------
    keys : mapping from str to str
        The public key of each site.
    report : Report
        A report of one of these sites.

    Returns
    -------
    str or None
        The reason.

    Examples
    --------
    >>> import fedconformal as fc
    >>> from fedconformal.protocol import signature_problem
    >>> key = fc.SigningKey.new()
    >>> report = fc.report(fc.plan(n_points={"A": 40}), range(40), site="A")
    >>> signature_problem({"A": key.public_key}, key.sign(report)) is None
    True
    >>> signature_problem({"A": key.public_key}, report)
    'not signed, but the plan asks for signatures'
    """
    if report.signature is None:
        return "not signed, but the plan asks for signatures"
    if not is_signed_by(report, keys[report.site]):
        return "the signature is not that of the site's key"
    return None


def _within_group(design: Design, reports: list[Report]) -> tuple[Answers, list[Refusal]]:
    """Return what counts for one group of the reports that count as a whole."""
    there = [_answer(report, design.group) for report in reports if design.group in report.by_group]
    problems = [(answer, _payload_problem(design, answer)) for answer in there]
    refused = [
        Refusal(source=answer.site, reason=reason) for answer, reason in problems if reason is not None
    ]
    fine = {answer.site: answer for answer, reason in problems if reason is None}
    kept, surplus = _without_surplus(design, fine)
    return kept, refused + surplus


def _without_surplus(design: Design, answers: Answers) -> tuple[Answers, list[Refusal]]:
    """Leave out answers of unnamed sites of which more came than planned, of each size if it is known.

    Nobody can tell which of too many are honest, so none of that size counts.
    """
    if design.site_names is not None or design.n_sites is None:
        return answers, []
    room: Counter[int | None] = Counter()
    for kind in design.kinds:
        room[kind.n] += kind.count
    if design.is_open:
        room[None] = design.n_sites
    sizes = {site: None if design.is_open else answer.n for site, answer in answers.items()}
    came = Counter(sizes.values())
    surplus = {size for size, number in came.items() if number > room[size]}
    refused = []
    for site, size in sizes.items():
        if size in surplus:
            of_size = "" if size is None else f" with {count(size, 'score')}"
            reason = (
                f"{count(came[size], 'report')} from sites{of_size}, and the plan expects {room[size]}: "
                "nobody knows which are honest, so none counts"
            )
            refused.append(Refusal(source=site, reason=reason))
    return {site: answer for site, answer in answers.items() if sizes[site] not in surplus}, refused
