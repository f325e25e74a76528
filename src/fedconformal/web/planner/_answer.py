"""What the planner answers: sentences, a table, a picture."""

from collections.abc import Iterator
from functools import lru_cache

from pydantic import Field

from fedconformal import baselines
from fedconformal._text import ceiling_percent, count, floor_percent, listed, nearest_percent, percent
from fedconformal.laws import Summary
from fedconformal.planning import Block, Cases
from fedconformal.web._picture import law_picture
from fedconformal.web._privacy_loss import factor_sentence
from fedconformal.web._spread import equivalent_pool, low_sentence, spread_ratio
from fedconformal.web._width import width_sentence
from fedconformal.web.planner._choices import criterion_words
from fedconformal.web.planner._question import Message, PlanQuestion, PlanRequest
from fedconformal.web.planner._solution import Solution, other_criteria, other_numbers, solve
from fedconformal.web.planner._words import in_page_words

_MOST_RANKS = 6


class Row(Message):
    """One way to calibrate, and the law of its coverage."""

    name: str
    mean: float = Field(description="mean coverage")
    std: float = Field(description="standard deviation of the coverage")
    low: float = Field(description="coverage that is missed in 1 of 20 calibrations")
    reached: float = Field(description="probability that the coverage is at least the level")
    shown: tuple[str, str, str, str] = Field(
        description="the four figures, lower bounds rounded down; dashes where sets hold everything, dots "
        "where the best plan is still being searched"
    )
    chosen: bool = Field(default=False, description="whether this is the plan that was asked for")


class PlanAnswer(Message):
    """A plan in words, in numbers and as a picture."""

    feasible: bool = Field(description="whether the threshold is finite")
    draft: bool = Field(description="valid, but a better plan may be found without draft")
    more: bool = Field(description="whether there would be a row more without draft, and with compare")
    headline: str = Field(description="what is promised")
    promise: tuple[str, ...] = Field(description="what the promise means")
    cost: tuple[str, ...] = Field(description="what it costs")
    notes: tuple[str, ...] = Field(description="what stands in the way, and what would help")
    steps: tuple[str, ...] = Field(description="what each site and the server do")
    rows: tuple[Row, ...] = Field(description="this plan beside what one would do instead")
    picture: str | None = Field(description="SVG of the law of the coverage; null if nothing is random")
    caption: str = Field(description="what the picture shows")
    asked: str = Field(description="the level, in words")
    summary: str = Field(description="the plan in one short line")
    command: str = Field(description="the command that makes this plan")
    report_command: str | None = Field(
        description="the command by which a site answers from its predictions; null while no score is chosen"
    )


@lru_cache(maxsize=512)
def answer_plan(request: PlanRequest) -> PlanAnswer:
    """Return everything the page shows of a plan.

    Parameters
    ----------
    request : PlanRequest
        What is wanted, and how it is to be shown.

    Returns
    -------
    PlanAnswer
        The best plan, or a draft, in words, in numbers and as a picture.

    Examples
    --------
    >>> from fedconformal.web import PlanRequest, answer_plan
    >>> print(answer_plan(PlanRequest(sites=10, points=79)).steps[0])
    Each site sorts its 79 scores and sends number 71 from the smallest.
    """
    solution = solve(request.question, draft=request.draft)
    question, pooled = solution.question, _pooled(solution.question)
    compares = request.compare and not request.draft
    return PlanAnswer(
        feasible=solution.is_feasible,
        draft=solution.is_draft,
        more=not compares and other_numbers(question) is not None,
        headline=_headline(solution),
        promise=tuple(map(in_page_words, _promise(solution))),
        cost=tuple(_cost(solution, pooled)),
        notes=tuple(map(in_page_words, _notes(solution))),
        steps=tuple(_steps(solution)),
        rows=tuple(_rows(solution, pooled, with_other=compares)),
        picture=_picture(solution, pooled, request.width),
        caption=_caption(solution, pooled),
        asked=percent(question.confidence_level),
        summary=_summary(solution),
        command=question.command,
        report_command=question.report_command(_answering_site(solution)),
    )


def _pooled(question: PlanQuestion) -> Summary | None:
    """What all cases in one place would give, where that would keep the same promise."""
    return _alone(question.n_points, question) if question.promised.pools else None


def _alone(n_points: int, question: PlanQuestion) -> Summary:
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
    if solution.is_draft:
        return "A first draft; looking for a better one …"
    if solution.law is None:
        return _guaranteed(solution)
    least = "at least " if solution.answered.is_bound else ""
    mean, low = floor_percent(solution.law.mean), floor_percent(solution.law.low)
    return f"{least}{mean} on average; 19 of 20 reach {low}"


def _guaranteed(solution: Solution) -> str:
    """What holds where there is no law."""
    found = solution.answered.guarantee()
    if found.mean is not None:
        return f"at least {floor_percent(found.mean)} on average"
    sites = floor_percent(found.probability or 0)
    return f"at least {floor_percent(found.coverage or 0)} at {sites} of new sites"


# -- the promise -------------------------------------------------------------------------------------------


def _promise(solution: Solution) -> Iterator[str]:
    question = solution.question
    if not solution.is_feasible:
        yield "Every prediction set would hold everything: never wrong, and of no use."
        return
    if solution.is_draft:
        yield (
            "This first draft keeps the promise, but its sets may be larger than need be, or vary more: the "
            "best plan is being searched."
        )
    elif solution.law is None:
        yield f"Whatever the sites are like, the share covered is {_guaranteed(solution)}."
    else:
        yield low_sentence(solution.law, question.promised.among)
    yield question.promised.runs_over(question.goal.criterion)
    yield from _allowances(question)
    yield from _conditions(question)
    yield from filter(None, [question.promised.law_note])


def _allowances(question: PlanQuestion) -> Iterator[str]:
    """What may go wrong without harm."""
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


def _conditions(question: PlanQuestion) -> Iterator[str]:
    honest = "The other sites report" if question.max_faulty else "Every site reports"
    yield f"It rests on the following. {question.promised.assumed()} {honest} as the plan says."


# -- the cost ----------------------------------------------------------------------------------------------


def _cost(solution: Solution, pooled: Summary | None) -> Iterator[str]:
    question = solution.question
    numbers = f"{_how_many(solution)} {'numbers' if _sends_several(solution) else 'number'}"
    yield f"Each site sends {numbers}, once: {_what_is_sent(solution)}."
    if question.privacy is not None:
        yield factor_sentence(question.privacy.epsilon)
    if not solution.is_feasible:
        return
    if question.privacy is not None:
        expected = solution.expected_mean
        yield (
            f"Privacy makes the sets larger: expect them to cover about {ceiling_percent(expected)} if "
            "scores lie evenly over the bins."
        )
        if not question.has_label_score:
            yield width_sentence(expected, question.confidence_level)
    if pooled is not None and solution.law is not None and not solution.is_draft:
        yield from _compared_with_pooling(solution, solution.law, pooled)


def _how_many(solution: Solution) -> str:
    """How many numbers a site sends: one, 3, or up to 3."""
    counts = {len(block.ranks) for block in solution.planned.asked}
    most = max(counts, default=1)
    return "one" if most == 1 else f"{'' if len(counts) == 1 else 'up to '}{most}"


def _sends_several(solution: Solution) -> bool:
    return any(len(block.ranks) > 1 for block in solution.planned.asked)


def _what_is_sent(solution: Solution) -> str:
    release = solution.planned.sending.release
    if release is None:
        scores = "scores" if _sends_several(solution) else "score"
        return f"the {scores} of {_how_many(solution)} of its cases, and how many cases it has"
    return (
        f"one of {release.n_bins:,} public bins, drawn at random around a score by "
        f"{release.mechanism.words}, and how many cases it has"
    )


def _compared_with_pooling(solution: Solution, law: Summary, pooled: Summary) -> Iterator[str]:
    pool = equivalent_pool(law)
    if pool is not None:
        bound = "The bound on the coverage" if solution.answered.is_bound else "The coverage"
        yield (
            f"{bound} varies as much as that of about {count(pool, 'case')} in one place would. All sites "
            f"together have {solution.question.n_points:,}."
        )
    ratio = spread_ratio(law, pooled)
    if ratio is not None:
        asked = percent(solution.question.confidence_level)
        yield f"It spreads {ratio:.2f} times as much round {asked} as pooling all cases would."
    if pooled.is_certain:
        yield "Even all cases in one place would be too few for a finite threshold."


# -- what stands in the way, and how it works --------------------------------------------------------------


def _notes(solution: Solution) -> Iterator[str]:
    question = solution.question
    if not solution.planned.is_finite and not solution.is_draft:
        yield from _what_can_be_promised(question)
    yield from solution.notes
    if solution.planned.is_finite and not solution.is_feasible:
        yield (
            f"With all {question.n_sites:,} sites there is a finite threshold; with {question.missing:,} "
            "silent there is none."
        )
    if solution.is_draft and not solution.is_feasible:
        yield "Searching for what would be enough."


def _what_can_be_promised(question: PlanQuestion) -> Iterator[str]:
    """What costs no more cases: criteria for which these sites are enough."""
    ways = [
        f"“{criterion_words(other.goal.criterion, question.delta)}”"
        for other in other_criteria(question)
        if solve(other).is_feasible
    ]
    if ways:
        yield f"With the same cases, this can be promised: {', or '.join(ways)}."


def _steps(solution: Solution) -> Iterator[str]:
    if not solution.planned.is_finite:
        return
    yield _site_step(solution)
    yield from _votes_step(solution)
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


def _votes_step(solution: Solution) -> Iterator[str]:
    """How much a site counts, where that depends on its size."""
    blocks = sorted(solution.planned.asked, key=lambda block: block.n)
    small, large = blocks[0], blocks[-1]
    if small.votes < large.votes:
        each = "" if len(large.ranks) == 1 else ", all its numbers together"
        yield (
            f"A larger site counts more: the smallest has {count(small.votes, 'vote')}, the largest "
            f"{large.votes:,}{each}."
        )


# -- the comparison ----------------------------------------------------------------------------------------


def _rows(solution: Solution, pooled: Summary | None, *, with_other: bool) -> Iterator[Row]:
    question = solution.question
    if solution.law is None or solution.planned_law is None:
        return  # what others do has a law, and this has none to put beside it
    plan = "This plan, at least" if solution.answered.is_bound else "This plan"
    silent = f"{plan}, {question.missing:,} silent" if question.missing else plan
    yield _row(silent, solution.law, chosen=True, is_draft=solution.is_draft)
    if question.missing:
        yield _row(f"{plan}, all answer", solution.planned_law, is_draft=solution.is_draft)
    if with_other:
        yield from _with_other_numbers(solution)
    if pooled is not None:
        yield _row("All cases in one place", pooled)
    largest = max(question.sizes)
    name = "One site alone" if question.is_alike else f"The largest site alone ({largest:,})"
    yield _row(name, _alone(largest, question))


def _with_other_numbers(solution: Solution) -> Iterator[Row]:
    """The same with more numbers from each site, or with one."""
    question, numbers = solution.question, other_numbers(solution.question)
    if numbers is None or not solution.is_feasible:
        return
    other = solve(question.model_copy(update={"numbers": numbers}))
    silent = f", {question.missing:,} silent" if question.missing else ""
    if other.law is not None:
        yield _row(f"With {count(numbers, 'number')} per site{silent}", other.law)


def _row(name: str, law: Summary, *, chosen: bool = False, is_draft: bool = False) -> Row:
    return Row(
        name=f"{name} (sets hold everything)" if law.is_certain else name,
        mean=law.mean,
        std=law.std,
        low=law.low,
        reached=law.reached,
        shown=_figures(law, is_draft=is_draft),
        chosen=chosen,
    )


def _figures(law: Summary, *, is_draft: bool) -> tuple[str, str, str, str]:
    """What a law promises.

    Nothing that looks like success where sets hold everything, and of a draft nothing that the best plan may
    have less of.
    """
    if law.is_certain:
        return ("–", "–", "–", "–")
    if is_draft:
        return ("…", "…", "…", "…")
    mean, std = floor_percent(law.mean, digits=2), nearest_percent(law.std, digits=2)
    return mean, std, floor_percent(law.low), floor_percent(law.reached)


def _picture(solution: Solution, pooled: Summary | None, width: int) -> str | None:
    if not solution.is_feasible or solution.law is None:
        return None
    bound, final = solution.answered.is_bound, not solution.is_draft
    return law_picture(solution.law, pooled=pooled, is_bound=bound, with_figures=final, width=width)


def _caption(solution: Solution, pooled: Summary | None) -> str:
    shade = "" if solution.is_draft else "the deeper shade is the lowest twentieth"
    is_dashed = pooled is not None and not pooled.is_certain
    dashed = "the dashed line is what all cases in one place would give" if is_dashed else ""
    parts = "; ".join(filter(None, [shade, dashed]))
    varies = "How the share covered varies from one calibration to the next."
    return f"{varies} {parts[:1].upper()}{parts[1:]}." if parts else varies
