"""A plan in words, as a table and as a picture."""

import math
from collections.abc import Iterator

from fedconformal import baselines, messages
from fedconformal._text import count, floor_percent, nearest_percent, percent
from fedconformal.documents import SiteKind
from fedconformal.laws import Summary
from fedconformal.web._picture import law_picture
from fedconformal.web._render import (
    disclosure,
    equivalent_pool,
    expected_mean,
    expected_sentence,
    factor_sentence,
    in_page_words,
    low_sentence,
    render,
    width_sentence,
)
from fedconformal.web.planner._promises import criterion_words
from fedconformal.web.planner._question import Message, PlanQuestion
from fedconformal.web.planner._solution import Solution, criteria_for, other_numbers, solve


class Row(Message):
    """A way to calibrate: mean, spread, 5 % quantile and chance to reach the level of its coverage."""

    name: str
    shown: tuple[str, str, str, str]
    chosen: bool = False


class PlanAnswer(Message):
    """View of a plan on the page."""

    feasible: bool
    headline: str
    promise: tuple[str, ...]
    cost: tuple[str, ...]
    notes: tuple[str, ...]
    steps: tuple[str, ...]
    rows: tuple[Row, ...]
    picture: str | None
    caption: str
    asked: str
    summary: str
    command: str
    report_command: str | None


def answer_plan(question: PlanQuestion, *, compare: bool = True, width: int = 720) -> PlanAnswer:
    """Return what the page shows of a plan.

    Parameters
    ----------
    question : PlanQuestion
        What is wanted.
    compare : bool
        True for a row with what another number of numbers per site would give, which takes longer.
    width : int
        Width of the picture, in pixels.

    Examples
    --------
    >>> print(answer_plan(PlanQuestion(sites=10, points=79)).steps[0])
    Each site sends 1 of its 79 scores (the 71st smallest).
    """
    solution = solve(question)
    pooled = _alone(question.n_points, question) if question.promised.pools else None
    return PlanAnswer(
        feasible=solution.is_feasible,
        headline=_headline(solution),
        promise=tuple(map(in_page_words, _promise(solution))),
        cost=tuple(_cost(solution, pooled)),
        notes=tuple(map(in_page_words, _notes(solution))),
        steps=tuple(_steps(solution)),
        rows=tuple(_rows(solution, pooled, with_other=compare)),
        picture=_picture(solution, pooled, width),
        caption=_caption(pooled),
        asked=percent(question.confidence_level),
        summary=_summary(solution),
        command=question.command,
        report_command=question.report_command(_answering_site(solution)),
    )


def _alone(n_points: int, question: PlanQuestion) -> Summary:
    """Return the distribution of the coverage with cases in one place."""
    level = question.confidence_level
    return Summary(baselines.coverage_law(n_points, level), level)


def _headline(solution: Solution) -> str:
    question = solution.question
    if not solution.is_feasible:
        return "No finite threshold can satisfy this promise."
    return question.promised.sentence(question.chosen_criterion, question.confidence_level, question.delta)


def _summary(solution: Solution) -> str:
    if not solution.is_feasible:
        return "No finite threshold."
    if solution.law is None:
        return _guaranteed(solution)
    least = "at least " if solution.is_bound else ""
    mean, low = floor_percent(solution.law.mean), floor_percent(solution.law.low)
    return f"{least}{mean} on average; 19 of 20 reach {low}"


def _guaranteed(solution: Solution) -> str:
    """Return the guarantee where there is no distribution."""
    assert solution.answered is not None
    guarantee = messages.guarantee(solution.answered, 0)
    if guarantee.mean is not None:
        return f"at least {floor_percent(guarantee.mean)} on average"
    sites = floor_percent(guarantee.probability or 0)
    return f"at least {floor_percent(guarantee.coverage or 0)} at {sites} of new sites"


def _promise(solution: Solution) -> Iterator[str]:
    question = solution.question
    if not solution.is_feasible:
        yield "Every prediction set would hold everything: never wrong, and uninformative."
        return
    if solution.law is None:
        whatever = "Whatever the sites are like, the" if question.promised.bears_differing_sites else "The"
        yield f"{whatever} share covered is {_guaranteed(solution)}."
    else:
        yield low_sentence(solution.law, question.promised.among)
    yield render("_meaning.html", promise=question.promised, criterion=question.chosen_criterion).strip()
    if question.max_faulty:
        wrong = "1 site sends" if question.max_faulty == 1 else f"{question.max_faulty:,} sites send"
        yield (
            f"It holds even if {wrong} anything at all, if which sites these are does not depend on the "
            "scores of the others."
        )
    if question.missing:
        which = "" if question.is_alike else ", the largest,"
        missing = count(question.missing, "site")
        yield f"It holds with {missing}{which} missing, if who is missing does not depend on the scores."
    if question.privacy is not None:
        yield "It allows for the noise of the private reports."
    honest = "The other sites report" if question.max_faulty else "Every site reports"
    yield f"It rests on the following. {question.promised.assumed()} {honest} as the plan says."
    if question.promised.law_note:
        yield question.promised.law_note


# -- the cost ----------------------------------------------------------------------------------------------


def _cost(solution: Solution, pooled: Summary | None) -> Iterator[str]:
    question, design = solution.question, solution.planned
    counts = {solution.message.count_numbers(design, kind.n, _name(kind)) for kind in _asked(solution)}
    numbers = f"{'up to ' * (len(counts) > 1)}{count(max(counts, default=1), 'number')}"
    yield f"Each site sends {numbers}, once, and how many cases it has."
    epsilon = solution.message.epsilon(design)
    if epsilon is not None:
        yield factor_sentence(float(epsilon))
    if solution.answered is None or not solution.is_feasible:
        return
    expected = expected_mean(solution.answered, 0)
    if expected is not None:
        yield expected_sentence(expected, question.confidence_level, question.promised)
        if not question.has_label_score:
            yield width_sentence(expected, question.confidence_level)
    if pooled is not None and solution.law is not None:
        yield from _compared_with_pooling(solution, solution.law, pooled)


def _asked(solution: Solution) -> list[SiteKind]:
    """Return the sites that are asked, the smallest first."""
    return sorted((kind for kind in solution.planned.kinds if kind.asked), key=lambda kind: kind.n)


def _name(kind: SiteKind) -> str:
    """Return the name of a site of this kind, where it has one."""
    return kind.names[0] if kind.names else "A"


def _compared_with_pooling(solution: Solution, law: Summary, pooled: Summary) -> Iterator[str]:
    pool = equivalent_pool(law)
    if pool is not None:
        bound = "The bound on the coverage" if solution.is_bound else "The coverage"
        yield (
            f"{bound} varies as much as that of about {count(pool, 'case')} in one place would. All sites "
            f"together have {solution.question.n_points:,}."
        )
    if pooled.is_certain:
        yield "Even all cases in one place would be too few for a finite threshold."
    elif not law.is_certain:
        ours, theirs = (math.hypot(each.std, each.mean - each.confidence_level) for each in (law, pooled))
        asked = percent(solution.question.confidence_level)
        yield f"It spreads {ours / theirs:.2f} times as much round {asked} as pooling all cases would."


# -- what stands in the way, and how it works --------------------------------------------------------------


def _notes(solution: Solution) -> Iterator[str]:
    question, is_feasible = solution.question, solution.planned.is_feasible
    if not is_feasible:
        ways = [
            f"“{criterion_words(criterion, question.delta)}”"
            for criterion in criteria_for(question)
            if criterion != question.chosen_criterion
            and solve(question.model_copy(update={"criterion": criterion.name})).is_feasible
        ]
        if ways:
            yield f"With the same cases, this can be promised: {', or '.join(ways)}."
    yield from solution.notes
    if is_feasible and not solution.is_feasible:
        yield (
            f"With all {question.n_sites:,} sites there is a finite threshold; with {question.missing:,} "
            "missing there is none."
        )


def _steps(solution: Solution) -> Iterator[str]:
    if not solution.planned.is_feasible:
        return
    yield from _site_steps(solution)
    answered = solution.answered
    if answered is None or not solution.is_feasible:
        yield "The server would need more than it receives."
        return
    needed = answered.levels[0].votes or 0
    if solution.message.adds_up:
        yield from _sum_steps(solution, needed)
        return
    votes = messages.votes(answered, 0) or ()
    rows = [(kind.count, own) for kind, own in zip(answered.kinds, votes, strict=True) if own]
    received, total = (sum(number * size(own) for number, own in rows) for size in (len, sum))
    if received == 1:
        yield "The server keeps the only number it receives: that is the threshold."
    elif total == received:
        yield (
            f"The server keeps number {needed:,} of the {received:,} it receives, counted from the smallest: "
            "that is the threshold."
        )
    else:
        yield (
            f"The server adds up the votes of the {received:,} numbers it receives, from the smallest: where "
            f"they reach {needed:,} of {total:,}, that is the threshold."
        )


def _site_steps(solution: Solution) -> Iterator[str]:
    """Say what sites send, as their message describes it, and how their votes differ."""
    design, asked = solution.planned, _asked(solution)
    small, large = asked[0], asked[-1]
    sent = [disclosure(design, kind.n, _name(kind)) for kind in (small, large)]
    if small.n == large.n:
        who = "Each site" if len(asked) == len(design.kinds) else "Each site that is asked"
        yield f"{who} sends {sent[0]}."
    else:
        yield f"The smallest site that is asked sends {sent[0]}, the largest {sent[1]}."
    votes = dict(zip(design.kinds, messages.votes(design, 0) or (), strict=False))
    fewest, most = (sum(votes.get(kind, ())) for kind in (small, large))
    if fewest < most:
        each = "" if len(votes[large]) == 1 else ", all its numbers together"
        smallest = count(fewest, "vote")
        yield f"A larger site counts more: the smallest has {smallest}, the largest {most:,}{each}."


def _sum_steps(solution: Solution, needed: int) -> Iterator[str]:
    """Say how counts become a threshold."""
    margin = "" if solution.message.epsilon(solution.planned) is None else ", with a margin for the noise"
    if solution.question.promised.pools:
        assert solution.answered is not None
        cases = sum(kind.count * kind.n for kind in solution.answered.kinds)
        yield (
            "The server adds up the counts of all sites. The threshold is the end of the cell up to which "
            f"they show {needed:,} of {cases:,} cases{margin}."
        )
    else:
        yield f"The server finds the threshold from these counts: the end of one of the cells{margin}."


def _answering_site(solution: Solution) -> str:
    """Return the first site that is asked."""
    return next((_name(kind) for kind in solution.planned.kinds if kind.asked), "A")


# -- the comparison ----------------------------------------------------------------------------------------


def _rows(solution: Solution, pooled: Summary | None, *, with_other: bool) -> Iterator[Row]:
    question = solution.question
    if solution.planned_law is None:
        return  # other ways have a distribution, and this has none to put beside it
    plan = "This plan, at least" if solution.is_bound else "This plan"
    missing = f", {question.missing:,} missing" if question.missing else ""
    yield _row(f"{plan}{missing}", solution.law, chosen=True)
    if question.missing:
        yield _row(f"{plan}, all answer", solution.planned_law)
    numbers = other_numbers(question) if with_other and solution.is_feasible else None
    if numbers is not None:
        other = solve(question.model_copy(update={"numbers": numbers}))
        if other.law is not None:
            yield _row(f"With {count(numbers, 'number')} per site{missing}", other.law)
    if pooled is not None:
        yield _row("All cases in one place", pooled)
    largest = max(question.sizes)
    name = "One site alone" if question.is_alike else f"The largest site alone ({largest:,})"
    yield _row(name, _alone(largest, question))


def _row(name: str, law: Summary | None, *, chosen: bool = False) -> Row:
    if law is None or law.is_certain:  # nothing that looks like success
        return Row(name=f"{name} (sets hold everything)", shown=("–", "–", "–", "–"), chosen=chosen)
    mean, std = floor_percent(law.mean, digits=2), nearest_percent(law.std, digits=2)
    shown = (mean, std, floor_percent(law.low), floor_percent(law.reached))
    return Row(name=name, shown=shown, chosen=chosen)


def _picture(solution: Solution, pooled: Summary | None, width: int) -> str | None:
    if not solution.is_feasible or solution.law is None:
        return None
    return law_picture(solution.law, pooled=pooled, is_bound=solution.is_bound, width=width)


def _caption(pooled: Summary | None) -> str:
    dashed = "; the dashed line is what all cases in one place would give"
    return (
        "How the share covered varies from one calibration to the next. The deeper shade is the lowest "
        f"twentieth{dashed if pooled is not None and not pooled.is_certain else ''}."
    )
