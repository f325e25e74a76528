"""Which reports count, and why the others do not."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fedconformal._text import count, quoted
from fedconformal.documents import Plan, Refusal, Report, ReportPart, is_signed_by

Numbers = dict[str, ReportPart]
"""What each site sent for one group, by site."""


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
    numbers : mapping
        For each group (under None where there are none) what each site sent that counts.
    refused_in : mapping
        For each group the numbers that do not count although their report does.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_points={"A": 40, "B": 50})
    >>> twice = [fc.report(plan, range(40), site="A"), fc.report(plan, range(1, 41), site="A")]
    >>> [refusal.reason for refusal in fc.protocol.take_in(plan, twice).refused][:1]
    ['2 different reports from this site: none of them counts']
    """

    reports: tuple[Report, ...]
    refused: tuple[Refusal, ...]
    numbers: Mapping[str | None, Numbers]
    refused_in: Mapping[str | None, tuple[Refusal, ...]]

    @property
    def all_refused(self) -> tuple[Refusal, ...]:
        """Every refusal, with the group in its source."""
        inside = [
            Refusal(source=f"{refusal.source}, group {quoted([label])}", reason=refusal.reason)
            for label, refusals in self.refused_in.items()
            for refusal in refusals
            if label is not None
        ]
        return (*self.refused, *inside)


def take_in(plan: Plan, reports: Iterable[Report], *, unreadable: Iterable[Refusal] = ()) -> Intake:
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
        What counts and what does not.

    Examples
    --------
    >>> import fedconformal as fc
    >>> from fedconformal.protocol import take_in
    >>> plan = fc.plan(n_points={"A": 40, "B": 50})
    >>> intake = take_in(plan, [fc.report(plan, range(40), site="A")])
    >>> [report.site for report in intake.reports], intake.refused
    (['A'], ())
    """
    keys = {key.site: key.public_key for key in plan.keys or ()}
    accepted, refused = _one_per_site(reports, lambda report: _problem(plan, keys, report))
    if plan.is_grouped:
        sorted_out = {label: _within_group(plan, label, accepted) for label in plan.labels}
        numbers: dict[str | None, Numbers] = {label: found for label, (found, _) in sorted_out.items()}
        refused_in: dict[str | None, tuple[Refusal, ...]] = {
            label: tuple(wrong) for label, (_, wrong) in sorted_out.items()
        }
        return Intake(tuple(accepted), (*unreadable, *refused), numbers, refused_in)
    kept, surplus = _without_surplus(plan, [(report.site, report.parts[0]) for report in accepted])
    alone = dict(kept)
    counted = tuple(report for report in accepted if report.site in alone)
    return Intake(counted, (*unreadable, *refused, *surplus), {None: alone}, {None: ()})


def _one_per_site(
    reports: Iterable[Report], problem: Callable[[Report], str | None]
) -> tuple[list[Report], list[Refusal]]:
    """One report of each site that sent one without fault, and the refusals; contradictions do not count."""
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
    """Why a report does not count as a whole, if it does not."""
    if report.plan != plan.digest:
        return f"answers another plan ({report.plan[:19]}..., not {plan.digest[:19]}...)"
    if plan.is_grouped != (None not in report.by_label):
        return (
            "has groups, and the plan has none" if not plan.is_grouped else "has no groups, as the plan has"
        )
    if plan.is_grouped:
        if strange := [label for label in report.by_label if label and label not in plan.labels]:
            return f"a number for {quoted(strange)}, which is no group of the plan"
        names = plan.site_names
        if names is not None and report.site not in names:
            return f"site must be one of the plan's, {quoted(names)}, got {report.site!r}"
    elif (reason := _part_problem(plan, report.site, report.parts[0])) is not None:
        return reason
    return signature_problem(keys, report) if keys else None


def _part_problem(plan: Plan, site: str, part: ReportPart) -> str | None:
    """Why the numbers for a plan without groups do not count, if they do not."""
    try:
        ranks = plan.ranks_for(part.n, site=site)
    except ValueError as error:
        return str(error)
    if not any(ranks):
        return "the plan does not ask this site"
    if part.ranks != ranks:
        return f"ranks {_few(part.ranks)} instead of {_few(ranks)}"
    if plan.bins is not None:
        releases = {plan.bins.value(b) for b in range(plan.bins.n_bins)}
        if not {value for values in part.values for value in values} <= releases:
            return "a value that is no edge of the plan's bins"
    return None


def signature_problem(keys: Mapping[str, str], report: Report) -> str | None:
    """Why the signature of a site that has a key does not do, if it does not.

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


def _few(ranks: Sequence[Sequence[int]]) -> str:
    """Ranks for a message: whoever sends a million of them gets no long answer."""
    flat = [rank for each in ranks for rank in each]
    return f"[{', '.join(str(rank)[:20] for rank in flat[:8])}{', ...' if len(flat) > 8 else ''}]"


def _within_group(plan: Plan, label: str, reports: list[Report]) -> tuple[Numbers, list[Refusal]]:
    """What counts for one group of the reports that count as a whole."""
    alone = plan[label]
    parts = [(report.site, report.by_label[label]) for report in reports if label in report.by_label]
    problems = [(site, part, _part_problem(alone, site, part)) for site, part in parts]
    refused = [Refusal(source=site, reason=reason) for site, _, reason in problems if reason is not None]
    fine = [(site, part) for site, part, reason in problems if reason is None]
    kept, surplus = _without_surplus(alone, fine)
    return dict(kept), refused + surplus


def _without_surplus(
    plan: Plan, parts: list[tuple[str, ReportPart]]
) -> tuple[list[tuple[str, ReportPart]], list[Refusal]]:
    """Without names, no more sites count than the plan has, of each size if it knows the sizes.

    Nobody can tell which of too many are honest, so none of that size counts.
    """
    if plan.site_names is not None or plan.n_sites is None:
        return parts, []
    room: Counter[int | None] = Counter()
    for block in plan.blocks or ():
        room[block.n] += block.count
    if plan.blocks is None:
        room[None] = plan.n_sites
    kinds = [None if plan.blocks is None else part.n for _, part in parts]
    came = Counter(kinds)
    surplus = {kind for kind, number in came.items() if number > room[kind]}
    refused = []
    for (site, _), kind in zip(parts, kinds, strict=True):
        if kind in surplus:
            of_size = "" if kind is None else f" with {count(kind, 'score')}"
            reason = (
                f"{count(came[kind], 'report')} from sites{of_size}, and the plan expects {room[kind]}: "
                "nobody knows which are honest, so none counts"
            )
            refused.append(Refusal(source=site, reason=reason))
    return [part for part, kind in zip(parts, kinds, strict=True) if kind not in surplus], refused
