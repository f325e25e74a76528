"""A plan in words, as a table and as a picture."""

import math
from collections.abc import Iterator

from fedconformal import baselines
from fedconformal._text import ceiling_percent, count, floor_percent, listed, nearest_percent, percent
from fedconformal.laws import Summary
from fedconformal.planning import Block, Cases
from fedconformal.web._picture import law_picture
from fedconformal.web._words import (
    equivalent_pool,
    factor_sentence,
    in_page_words,
    low_sentence,
    width_sentence,
)
from fedconformal.web.planner._choices import criterion_words
from fedconformal.web.planner._question import Message, PlanQuestion
from fedconformal.web.planner._solution import Solution, other_criteria, other_numbers, solve

_MOST_RANKS = 6


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
        Whether a row says what another number of numbers per site would give, which takes longer.
    width : int
        Width of the picture, in pixels.

    Examples
    --------
    >>> print(answer_plan(PlanQuestion(sites=10, points=79)).steps[0])
    Each site sorts its 79 scores and sends number 71 from the smallest.
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
    """Return the law of cases in one place."""
    level = question.confidence_level
    return Summary(baselines.coverage_law(n_points, level), level)


def _headline(solution: Solution) -> str:
    question = solution.question
    if not solution.is_feasible:
        return "No finite threshold can keep this promise."
    return question.promised.sentence(question.goal.criterion, question.confidence_level, question.delta)


def _summary(solution: Solution) -> str:
    if not solution.is_feasible:
        return "No finite threshold."
    if solution.law is None:
        return _guaranteed(solution)
    least = "at least " if solution.answered.is_bound else ""
    mean, low = floor_percent(solution.law.mean), floor_percent(solution.law.low)
    return f"{least}{mean} on average; 19 of 20 reach {low}"


def _guaranteed(solution: Solution) -> str:
    """Return the guarantee where there is no law."""
    guarantee = solution.answered.guarantee()
    if guarantee.mean is not None:
        return f"at least {floor_percent(guarantee.mean)} on average"
    sites = floor_percent(guarantee.probability or 0)
    return f"at least {floor_percent(guarantee.coverage or 0)} at {sites} of new sites"


def _promise(solution: Solution) -> Iterator[str]:
    question = solution.question
    if not solution.is_feasible:
        yield "Every prediction set would hold everything: never wrong, and of no use."
        return
    if solution.law is None:
        yield f"Whatever the sites are like, the share covered is {_guaranteed(solution)}."
    else:
        yield low_sentence(solution.law, question.promised.among)
    yield question.promised.runs_over(question.goal.criterion)
    if question.max_faulty:
        wrong = "1 site sends" if question.max_faulty == 1 else f"{question.max_faulty:,} sites send"
        yield (
            f"It holds even if {wrong} anything at all, if which sites these are does not depend on the "
            "scores of the others."
        )
    if question.missing:
        which = "" if question.is_alike else ", the largest,"
        silent = count(question.missing, "site")
        yield f"It holds with {silent}{which} silent, if silence does not depend on the scores."
    if question.privacy is not None:
        yield "It holds with the noise of the private reports counted in."
    honest = "The other sites report" if question.max_faulty else "Every site reports"
    yield f"It rests on the following. {question.promised.assumed()} {honest} as the plan says."
    if question.promised.law_note:
        yield question.promised.law_note


# -- the cost ----------------------------------------------------------------------------------------------


def _cost(solution: Solution, pooled: Summary | None) -> Iterator[str]:
    question = solution.question
    several = any(len(block.ranks) > 1 for block in solution.planned.asked)
    numbers, release = _how_many(solution), solution.planned.sending.release
    if release is None:
        sent = f"the {'scores' if several else 'score'} of {numbers} of its cases, and how many cases it has"
    else:
        sent = (
            f"one of {release.n_bins:,} public bins, drawn at random around a score by "
            f"{release.mechanism.words}, and how many cases it has"
        )
    yield f"Each site sends {numbers} {'numbers' if several else 'number'}, once: {sent}."
    if question.privacy is not None:
        yield factor_sentence(question.privacy.epsilon)
    if not solution.is_feasible:
        return
    if question.privacy is not None:
        expected = solution.answered.expected_law().mean()
        yield (
            f"Privacy makes the sets larger: expect them to cover about {ceiling_percent(expected)} if "
            "scores lie evenly over the bins."
        )
        if not question.has_label_score:
            yield width_sentence(expected, question.confidence_level)
    if pooled is not None and solution.law is not None:
        yield from _compared_with_pooling(solution, solution.law, pooled)


def _how_many(solution: Solution) -> str:
    """Return the count of numbers that a site sends: "one", "3", "up to 3"."""
    counts = {len(block.ranks) for block in solution.planned.asked}
    most = max(counts, default=1)
    return "one" if most == 1 else f"{'' if len(counts) == 1 else 'up to '}{most}"


def _compared_with_pooling(solution: Solution, law: Summary, pooled: Summary) -> Iterator[str]:
    pool = equivalent_pool(law)
    if pool is not None:
        bound = "The bound on the coverage" if solution.answered.is_bound else "The coverage"
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
    question = solution.question
    if not solution.planned.is_finite:
        ways = [
            f"“{criterion_words(other.goal.criterion, question.delta)}”"
            for other in other_criteria(question)
            if solve(other).is_feasible
        ]
        if ways:
            yield f"With the same cases, this can be promised: {', or '.join(ways)}."
    yield from solution.notes
    if solution.planned.is_finite and not solution.is_feasible:
        yield (
            f"With all {question.n_sites:,} sites there is a finite threshold; with {question.missing:,} "
            "silent there is none."
        )


def _steps(solution: Solution) -> Iterator[str]:
    if not solution.planned.is_finite:
        return
    yield _site_step(solution)
    blocks = sorted(solution.planned.asked, key=lambda block: block.n)
    small, large = blocks[0], blocks[-1]
    if small.votes < large.votes:
        each = "" if len(large.ranks) == 1 else ", all its numbers together"
        yield (
            f"A larger site counts more: the smallest has {count(small.votes, 'vote')}, the largest "
            f"{large.votes:,}{each}."
        )
    answered = solution.answered
    received = sum(block.count * len(block.ranks) for block in answered.asked)
    if not solution.is_feasible:
        yield f"The server would need more than the {count(received, 'number')} it receives."
    elif received == 1:
        yield "The server keeps the only number it receives: that is the threshold."
    elif answered.total_votes == received:
        yield (
            f"The server keeps number {answered.server_rank:,} of the {received:,} it receives, counted "
            "from the smallest: that is the threshold."
        )
    else:
        yield (
            f"The server adds up the votes of the {received:,} numbers it receives, from the smallest: where "
            f"they reach {answered.server_rank:,} of {answered.total_votes:,}, that is the threshold."
        )


def _answering_site(solution: Solution) -> str:
    """The first site that is asked."""
    question, asked = solution.question, {block.n for block in solution.planned.asked}
    names = question.names or ("A",)
    return next((name for name, n in zip(names, question.sizes, strict=False) if n in asked), names[0])


def _site_step(solution: Solution) -> str:
    release = solution.planned.sending.release
    if release is not None and release.quantile is not None:
        share = percent(round(float(release.quantile), 4))
        return f"Each site draws a bin near the score that {share} of its scores lie below."
    if isinstance(solution.planned.sending, Cases):
        return f"Each site draws {count(solution.planned.sending.numbers, 'score')} of its own at random."
    blocks = sorted(solution.planned.asked, key=lambda block: block.n)
    small, large = blocks[0], blocks[-1]
    who = "Each site" if len(blocks) == len(solution.planned.blocks) else "Each site that is asked"
    if small.n == large.n:
        return f"{who} sorts its {small.n:,} scores and sends {_ranks(small)} from the smallest."
    sends = f"{who} sorts its scores and sends {_how_many(solution)}"
    if small.ranks[0] <= small.n:
        return (
            f"{sends}: {_ranks(small)} of {small.n:,} at the smallest site, {_ranks(large)} of {large.n:,} "
            "at the largest."
        )
    return (
        f"{sends}: {_ranks(large)} of {large.n:,} at the largest site; sites with too few scores for their "
        "rank send “infinite”."
    )


def _ranks(block: Block) -> str:
    """The ranks of a site, as in "numbers 106, 109 and 112"; of many the first and the last."""
    ranks = [f"{rank:,}" for rank in block.ranks]
    if len(ranks) == 1:
        return f"number {ranks[0]}"
    if len(ranks) <= _MOST_RANKS:
        return f"numbers {listed(ranks)}"
    return f"{len(ranks)} numbers from {ranks[0]} to {ranks[-1]}"


# -- the comparison ----------------------------------------------------------------------------------------


def _rows(solution: Solution, pooled: Summary | None, *, with_other: bool) -> Iterator[Row]:
    question = solution.question
    if solution.law is None or solution.planned_law is None:
        return  # what others do has a law, and this has none to put beside it
    plan = "This plan, at least" if solution.answered.is_bound else "This plan"
    silent = f", {question.missing:,} silent" if question.missing else ""
    yield _row(f"{plan}{silent}", solution.law, chosen=True)
    if question.missing:
        yield _row(f"{plan}, all answer", solution.planned_law)
    numbers = other_numbers(question) if with_other and solution.is_feasible else None
    if numbers is not None:
        other = solve(question.model_copy(update={"numbers": numbers}))
        if other.law is not None:
            yield _row(f"With {count(numbers, 'number')} per site{silent}", other.law)
    if pooled is not None:
        yield _row("All cases in one place", pooled)
    largest = max(question.sizes)
    name = "One site alone" if question.is_alike else f"The largest site alone ({largest:,})"
    yield _row(name, _alone(largest, question))


def _row(name: str, law: Summary, *, chosen: bool = False) -> Row:
    if law.is_certain:  # nothing that looks like success
        return Row(name=f"{name} (sets hold everything)", shown=("–", "–", "–", "–"), chosen=chosen)
    mean, std = floor_percent(law.mean, digits=2), nearest_percent(law.std, digits=2)
    shown = (mean, std, floor_percent(law.low), floor_percent(law.reached))
    return Row(name=name, shown=shown, chosen=chosen)


def _picture(solution: Solution, pooled: Summary | None, width: int) -> str | None:
    if not solution.is_feasible or solution.law is None:
        return None
    return law_picture(solution.law, pooled=pooled, is_bound=solution.answered.is_bound, width=width)


def _caption(pooled: Summary | None) -> str:
    dashed = "; the dashed line is what all cases in one place would give"
    return (
        "How the share covered varies from one calibration to the next. The deeper shade is the lowest "
        f"twentieth{dashed if pooled is not None and not pooled.is_certain else ''}."
    )
