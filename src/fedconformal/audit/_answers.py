"""Who answered: ranks and votes as planned, who is missing, who was refused."""

from collections import Counter
from collections.abc import Iterable, Sequence

from fedconformal._text import count
from fedconformal.audit._finding import Finding
from fedconformal.audit._planned import planned_ranks
from fedconformal.documents import Answer, Calibration, Plan


def named(names: Iterable[str]) -> str:
    """A few names for a line of findings.

    Parameters
    ----------
    names : iterable of str
        Of sites, perhaps many.

    Returns
    -------
    str
        The first five.
    """
    listing = list(names)
    return ", ".join(listing[:5]) + (", ..." if len(listing) > 5 else "")


def of_answers(calibration: Calibration) -> list[Finding]:
    """Whether the answers of a calibration without groups are those that its plan asks for.

    Parameters
    ----------
    calibration : Calibration
        Without groups, or of one group.

    Returns
    -------
    list of Finding
    """
    return [_ranks(calibration), _missing(calibration), _refused(calibration)]


def _ranks(calibration: Calibration) -> Finding:
    plan, wrong = calibration.plan, []
    for answer in calibration.answers:
        try:
            expected = planned_ranks(plan, answer.n, answer.site)
        except ValueError as error:
            wrong.append(str(error))
            continue
        votes = _votes(plan, answer, expected)
        if not any(expected):
            wrong.append(f"{answer.site}: the plan does not ask this site")
        elif expected != answer.ranks:
            wrong.append(f"{answer.site}: ranks {_few(answer.ranks)} instead of {_few(expected)}")
        elif votes != answer.votes:
            wrong.append(f"{answer.site}: votes {_few(answer.votes)} instead of {_few(votes)}")
    found = wrong[0] if wrong else count(calibration.n_answers, "answer")
    return Finding("every answer has the plan's ranks for its size", found, not wrong)


def _votes(plan: Plan, answer: Answer, ranks: Sequence[Sequence[int]]) -> Sequence[tuple[int, ...]]:
    """The votes of a site's numbers: one each in an open plan."""
    if plan.blocks is None:
        return tuple((1,) * len(each) for each in ranks)
    return plan.part.votes_for(answer.n, site=answer.site)


def _few(each: Sequence[Sequence[int]]) -> str:
    """Whole numbers for a line of findings, not all of a million."""
    text = str(list(map(tuple, each[:8])))
    return text if len(each) <= 8 and len(text) <= 200 else text[:200] + "..."


def _missing(calibration: Calibration) -> Finding:
    part, plan = calibration.part, calibration.plan
    there = [answer.site for answer in part.answers]
    missing, n_missing = who_is_missing(plan, there, calibration.n_answers)
    whole = (part.missing, part.n_missing) == (missing, n_missing) and there == sorted(there)
    found = f"{calibration.n_answers} answered, {part.n_missing} missing"
    if surplus := _surplus(calibration):
        found = f"{found}; {surplus}"
    elif not whole:
        found = f"{found}, and it should be {n_missing}" + (f": {named(missing)}" if missing else "")
    return Finding("answers and missing sites make up the plan", found, whole and not surplus)


def who_is_missing(plan: Plan, there: Iterable[str], n_answers: int) -> tuple[tuple[str, ...], int]:
    """Who was asked and did not answer.

    Parameters
    ----------
    plan : Plan
        Without groups.
    there : iterable of str
        The sites that answered, by name; none where they answered together.
    n_answers : int
        How many sites answered.

    Returns
    -------
    missing : tuple of str
        By name, where the plan names its sites and they answered by name.
    n_missing : int
        How many there are.
    """
    names, answered = plan.part.asked_names, set(there)
    together = plan.privacy is not None and (plan.privacy.one_hot or (n_answers > 0 and not answered))
    if names is not None and not together:
        left = tuple(sorted(set(names) - answered))
        return left, len(left)
    return (), max(0, (plan.part.n_asked or 0) - n_answers)


def _surplus(calibration: Calibration) -> str:
    """Of which sites without names there are more than the plan has, if there are."""
    plan = calibration.plan
    if plan.site_names is not None or plan.n_sites is None:
        return ""
    if plan.blocks is None:
        return "" if calibration.n_answers <= plan.n_sites else f"the plan expects {plan.n_sites}"
    room, came = Counter[int](), Counter[int]()
    for block in plan.blocks:
        room[block.n] += block.count
    for (n, _), number in calibration.part.kinds.items():
        came[n] += number
    over = [n for n in came if came[n] > room[n]]
    return f"the plan has {room[over[0]]:,} of {over[0]:,} points, and {came[over[0]]:,} came" if over else ""


def _refused(calibration: Calibration) -> Finding:
    """Whether a number counted and was refused: of one message, it cannot be both."""
    part = calibration.part
    refusals = part.refused if calibration.label is None else calibration.refused
    there = {answer.site for answer in part.answers}
    both = sorted({refusal.source for refusal in refusals} & there)
    found = f"both: {named(both)}" if both else f"{len(refusals)} refused"
    return Finding("no number was both counted and refused", found, not both)


def of_received(calibration: Calibration) -> Finding:
    """Whether the reports that counted are those of the sites that answered.

    Parameters
    ----------
    calibration : Calibration
        The whole.

    Returns
    -------
    Finding
    """
    received = {each.site for each in calibration.reports}
    answered = {answer.site for part in calibration.parts for answer in part.answers}
    partly = {refusal.source for part in calibration.parts for refusal in part.refused}
    allowed = calibration.plan.is_grouped and partly <= received
    strange = sorted(answered ^ received if not allowed else (answered | partly) ^ received)
    if not calibration.plan.is_grouped and partly:
        strange = sorted(partly)
    found = f"not {named(strange)}" if strange else count(len(received), "report")
    return Finding("the reports that counted are of the sites that answered", found, not strange)
