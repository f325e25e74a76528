"""What the planner answers: sentences, a table, a picture."""

from functools import lru_cache

from pydantic import Field

from fedconformal import baselines
from fedconformal.laws import Summary
from fedconformal.pages import _words as words
from fedconformal.pages._picture import law_picture
from fedconformal.planner._questions import Part, PlanQuestion, PlanRequest
from fedconformal.planner._solve import Solution, expected_mean, solve


class Row(Part):
    """One way to calibrate, and the law of its coverage."""

    name: str
    mean: float = Field(description="mean coverage")
    std: float = Field(description="standard deviation of the coverage")
    unlucky: float = Field(description="coverage that is missed in 1 of 20 calibrations")
    reached: float = Field(description="probability that the coverage is at least the level")
    shown: tuple[str, str, str, str] = Field(description="the four figures, lower bounds rounded down")
    chosen: bool = Field(default=False, description="whether this is the plan that was asked for")


class PlanAnswer(Part):
    """A plan in words, in numbers and as a picture."""

    feasible: bool = Field(description="whether the threshold is finite")
    draft: bool = Field(description="valid, but a better plan may be found without draft")
    headline: str = Field(description="what is promised")
    promise: tuple[str, ...] = Field(description="what the promise means")
    cost: tuple[str, ...] = Field(description="what it costs")
    notes: tuple[str, ...] = Field(description="what stands in the way, and what would help")
    steps: tuple[str, ...] = Field(description="what each site and the server do")
    rows: tuple[Row, ...] = Field(description="this plan beside what one would do instead")
    picture: str | None = Field(description="SVG of the law of the coverage; null if nothing is random")
    asked: str = Field(description="the level, in words")
    summary: str = Field(description="the plan in one short line")
    command: str = Field(description="the command that makes this plan")


@lru_cache(maxsize=512)
def answer(request: PlanRequest) -> PlanAnswer:
    """Everything the page shows of a plan."""
    solution = solve(request.question, draft=request.draft)
    question = solution.question
    pooled = _alone(question.n_points, question)
    picture = None
    if solution.feasible:
        picture = law_picture(solution.left, beside=pooled, bound=question.is_bound, width=request.width)
    return PlanAnswer(
        feasible=solution.feasible,
        draft=solution.is_draft,
        headline=_headline(solution),
        promise=_promise(solution),
        cost=_cost(solution, pooled),
        notes=_notes(solution),
        steps=_steps(solution),
        rows=_rows(solution, pooled),
        picture=picture,
        asked=words.percent(question.confidence_level),
        summary=_summary(solution),
        command=question.command,
    )


def _headline(solution: Solution) -> str:
    question = solution.question
    if not solution.feasible:
        return "No finite threshold can keep this promise."
    return words.promise(question.confidence_level, question.criterion, question.delta)


def _summary(solution: Solution) -> str:
    if not solution.feasible:
        return "No finite threshold."
    law = solution.left
    least = "at least " if solution.question.is_bound else ""
    mean, unlucky = words.floor_percent(law.mean), words.floor_percent(law.unlucky)
    return f"{least}{mean} on average; 19 of 20 reach {unlucky}"


def _promise(solution: Solution) -> tuple[str, ...]:
    if not solution.feasible:
        return ("Every prediction set would hold everything: never wrong, and of no use.",)
    says = [words.luck(solution.left), words.average_of_what(solution.question.criterion)]
    return (*says, *_allowances(solution.question))


def _allowances(question: PlanQuestion) -> list[str]:
    says = []
    if question.max_faulty:
        wrong = "1 site sends" if question.max_faulty == 1 else f"{question.max_faulty:,} sites send"
        says.append(
            f"It holds even if {wrong} anything at all, if which sites these are does not depend on the "
            "scores of the others."
        )
    if question.missing:
        silent = words.count(question.missing, "site")
        which = "" if len(set(question.sizes)) == 1 else ", the largest,"
        says.append(f"It holds with {silent}{which} silent, if silence does not depend on the scores.")
    if question.privacy is not None:
        says.append("It holds with the noise of the private reports counted in.")
    honest = "the other sites do" if question.max_faulty else "the sites do"
    says.append(
        "It rests on this: the calibration cases of all sites and the new cases come independently from one "
        f"and the same source, the model was not trained on them, and {honest} as the plan says."
    )
    return says


def _cost(solution: Solution, pooled: Summary) -> tuple[str, ...]:
    question = solution.question
    says = [f"Each site sends one number, once: {_what_is_sent(question)}."]
    if question.privacy is not None:
        says.append(words.privacy_factor(question.privacy.epsilon))
    if not solution.feasible:
        return tuple(says)
    if question.privacy is not None:
        expected = words.ceiling_percent(expected_mean(solution))
        says.append(
            f"Privacy makes the sets larger: expect them to cover about {expected} if scores lie evenly over "
            "the bins."
        )
    pool = words.equivalent_pool(solution.left)
    if pool is not None:
        bound = "The bound on the coverage" if question.is_bound else "The coverage"
        says.append(
            f"{bound} varies as much as that of about {words.count(pool, 'case')} in one place would. All "
            f"sites together have {question.n_points:,}."
        )
    if pooled.is_certain:
        says.append("Even all cases in one place would be too few for a finite threshold.")
    return tuple(says)


def _what_is_sent(question: PlanQuestion) -> str:
    if question.privacy is None:
        return "the score of one of its cases, and how many cases it has"
    bins = f"{question.privacy.bins:,}"
    return f"one of {bins} public bins, drawn at random around a score, and how many cases it has"


def _notes(solution: Solution) -> tuple[str, ...]:
    question = solution.question
    says = list(solution.problems)
    if solution.server_rank is not None and not solution.feasible:
        says.append(
            f"With all {question.n_sites:,} sites there is a finite threshold; with "
            f"{question.missing:,} silent there is none."
        )
    if solution.is_draft and not solution.feasible:
        says.append("Searching for what would be enough.")
    return tuple(says)


def _steps(solution: Solution) -> tuple[str, ...]:
    if solution.server_rank is None:
        return ()
    question = solution.question
    left = question.n_sites - question.missing
    kept = solution.server_rank_left
    server = (
        f"The server keeps number {kept:,} of the {left:,} it receives, counted from the smallest: that "
        "is the threshold."
        if kept is not None
        else f"The server would need more than the {left:,} numbers it receives."
    )
    return (_site_step(solution), server)


def _site_step(solution: Solution) -> str:
    question, ranks = solution.question, solution.local_ranks
    if question.privacy is not None and solution.quantile is not None:
        share = words.percent(round(float(solution.quantile), 4))
        return f"Each site draws a bin near the score that {share} of its scores lie below."
    sizes = sorted(set(question.sizes))
    if len(sizes) == 1:
        return f"Each site sorts its {sizes[0]:,} scores and sends number {ranks[0]:,} from the smallest."
    return (
        f"Each site sorts its scores and sends one: number {ranks[0]:,} of {sizes[0]:,} at the smallest "
        f"site, number {ranks[-1]:,} of {sizes[-1]:,} at the largest."
        if ranks[0] <= sizes[0]
        else f"Each site sorts its scores and sends one: number {ranks[-1]:,} of {sizes[-1]:,} at the "
        "largest site; sites with too few scores for their rank send “infinite”."
    )


def _rows(solution: Solution, pooled: Summary) -> tuple[Row, ...]:
    question = solution.question
    plan = "This plan, at least" if question.is_bound else "This plan"
    silent = f"{plan}, {question.missing:,} silent" if question.missing else plan
    rows = [_row(silent, solution.left, chosen=True)]
    if question.missing:
        rows.append(_row(f"{plan}, all answer", solution.all))
    rows.append(_row("All cases in one place", pooled))
    largest = max(question.sizes)
    name = "One site alone" if len(set(question.sizes)) == 1 else f"The largest site alone ({largest:,})"
    rows.append(_row(name, _alone(largest, question)))
    return tuple(rows)


def _alone(n_points: int, question: PlanQuestion) -> Summary:
    level = question.confidence_level
    return Summary(baselines.coverage_law(n_points, level), level)


def _row(name: str, law: Summary, *, chosen: bool = False) -> Row:
    return Row(
        name=f"{name} (sets hold everything)" if law.is_certain else name,
        mean=law.mean,
        std=law.std,
        unlucky=law.unlucky,
        reached=law.reached,
        shown=(
            words.floor_percent(law.mean, digits=2),
            words.nearest_percent(law.std, digits=2),
            words.floor_percent(law.unlucky),
            words.floor_percent(law.reached),
        ),
        chosen=chosen,
    )
