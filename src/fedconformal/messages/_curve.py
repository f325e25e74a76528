"""Curves: every site sends counts of its scores in the cells of a public grid, exact or
with noise.

Curves of sites add up, so one round gives the pooled order statistic, rounded up to the
grid. One curve serves every level. With noise the threshold is the last passage of the
pooled curve, which is valid for every distribution of the scores (theory, section 13).
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate
from operator import sub
from typing import Any, ClassVar

import numpy as np
from scipy import special

from fedconformal._text import count, quoted
from fedconformal._util import Floats, Ints, integer
from fedconformal.documents import (
    LARGEST_N,
    MOST_PARTS,
    MOST_SITES,
    MOST_STARTS,
    Advice,
    Curve,
    CurvePayload,
    Design,
    Level,
    Payload,
    ScoreRule,
    SiteKind,
    total_sites,
)
from fedconformal.laws import CoverageLaw, EachSiteLaw
from fedconformal.laws._curves import (
    _MOST_EXACT as MOST_EXACT,
)
from fedconformal.laws._curves import (
    _TIE as TIE,
)
from fedconformal.laws._curves import (
    CurveNoise,
    NoisyCurve,
    choose_curve,
    compute_references,
    fewest_answers,
    first_answered,
    last_passage,
    simulate_coverage,
    solve_sum,
    solve_votes,
    total_reach,
)
from fedconformal.laws._votes import heaviest
from fedconformal.messages._base import (
    MESSAGES,
    MOST_OWN_WORK,
    Answer,
    Choice,
    DesignRequest,
    Message,
    two_digits,
)
from fedconformal.planning import PROMISES, Goal, Guarantee, smallest
from fedconformal.planning._mixture import (
    advise_mixture,
    check_shares,
    common_denominator,
    floor_votes,
)
from fedconformal.planning.promises import EachSiteGuarantee, own_goal
from fedconformal.privacy import (
    Bins,
    exact_text,
    prepare_noisy_counts,
    scale_noise,
    simulate_noisy_counts,
)

_LARGEST_UNIT = 10**18  # votes of a whole mixture, beyond which they are rounded
_RUNS = 4000  # simulated calibrations for an expectation
_ROUNDING = 1e-9  # of a part, so that 0.07 is seven parts of a hundred
_NEVER = LARGEST_N + 1  # count of a site that is too small for a threshold of its own
_MOST_VOTES = 2**62  # parts of all cases together


@MESSAGES.register
class CurveMessage(Message):
    """Counts of scores in the cells of a grid, one release for all levels.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_sites=5, n_points=100, curve=fc.Bins.uniform(0, 1, 50))
    >>> fc.messages.of(plan.message).discloses(plan.designs[0], 100, "A")
    'the counts of your 100 scores in 50 cells, which show every score up to the width
    of a cell'
    """

    name: ClassVar[str] = "curve"
    promises: ClassVar[tuple[str, ...]] = ("population", "mixture", "each-site")
    adds_up: ClassVar[bool] = True
    can_be_masked: ClassVar[bool] = True

    def choose(self, request: DesignRequest) -> Choice:
        """Solve the votes, and search offsets where there is noise."""
        bins = request.curve if request.privacy is None else request.privacy.bins
        assert bins is not None
        epsilon = None if request.privacy is None else request.privacy.exact_epsilon
        if request.numbers is not None and request.numbers > 1:
            raise ValueError(
                f"numbers must be left out with curves, got {request.numbers}: a curve"
                " serves all levels"
            )
        if request.uses_paper_ranks:
            raise ValueError(
                "local_ranks must be left out with curves: sites send counts, not ranks"
            )
        if request.parts is not None:
            integer("parts", request.parts, low=1, high=MOST_PARTS)
        if request.starts is not None:
            integer("starts", request.starts, low=1, high=MOST_STARTS)
        message = Curve(
            edges=bins.edges,
            bounded=bins.bounded or request.starts is not None,
            epsilon=epsilon,
            parts=request.parts,
            starts=request.starts,
            masked=request.masked,
            bearers=_choose_bearers(request),
        )
        for goal in request.goals:
            self._check_goal(goal, request.promise.name, request.sites is None, message)
        if request.sites is None:
            return Choice(
                message, tuple(goal.make_level(None) for goal in request.goals), None
            )
        sites = tuple(
            kind.model_copy(update={"asked": False}) if kind.share == 0 else kind
            for kind in request.sites
        )
        rules = _rule_class(request.promise.name, message)(
            sites, message, request.goals
        )
        rules.check_sites()
        rules = replace(rules, message=rules.completed())
        levels = [rules.solve(place) for place in range(len(request.goals))]
        for place, goal in enumerate(request.goals):
            if levels[place].advice is None and not rules.tolerates(
                place, goal.max_missing or 0
            ):
                levels[place] = goal.make_level(
                    rules.hopeless, rules.advise(place, goal.max_missing or 0)
                )
        return Choice(rules.message, tuple(levels), sites)

    def _check_goal(
        self, goal: Goal, promise: str, is_open: bool, message: Curve
    ) -> None:
        PROMISES[promise]().check_goal(goal, is_open=is_open)
        epsilon = message.epsilon
        able = [
            name
            for name, rules in _RULES.items()
            if message.parts is None or not rules.has_own
        ]
        if message.starts is not None and not (
            _RULES.get(promise) is _Rules and goal.criterion.takes_delta
        ):
            raise ValueError(
                "starts goes with promise 'population' and criterion 'conditional'"
                " alone"
            )
        if promise not in able:
            what = (
                "curves"
                if message.parts is None and message.starts is None
                else "sums of losses"
            )
            raise ValueError(
                f"promise must be one of {', '.join(map(repr, able))} with {what}, got"
                f" {promise!r}"
            )
        if not (goal.criterion.is_mean or goal.criterion.takes_delta):
            raise ValueError(
                f"criterion {goal.criterion.name!r} does not go with curves"
            )
        if goal.max_faulty:
            raise ValueError(
                f"max_faulty must be 0 with curves, got {goal.max_faulty}: one site can"
                " claim every count"
            )
        if message.masked and _RULES[promise] is not _Rules:
            # Votes of a mixture are counts times weights that everybody knows: their
            # sum can be taken apart.
            raise ValueError(
                f"masked goes with promise 'population' alone, got {promise!r}"
            )
        if epsilon is not None and is_open:
            raise ValueError(
                "privacy needs n_points: the noise counts for more where there are few"
                " scores"
            )
        if epsilon is not None and _RULES[promise].has_unit:
            raise ValueError("privacy does not go with promise 'mixture'")

    def check(self, design: Design) -> None:
        """Refuse votes below those that the promise needs."""
        message = _data(design)
        for goal in Goal.all_of(design):
            self._check_goal(goal, design.promise, design.is_open, message)
        rules = _rules(design)
        if (
            bool(message.own) > rules.has_own
            or (message.unit is not None) != rules.has_unit
        ):
            raise ValueError(
                "own counts go with promise 'each-site' alone, and a unit with"
                " 'mixture' alone"
            )
        if design.is_open:
            return
        if rules.has_own and not message.own:
            raise ValueError(
                "own counts must be given for each level and each kind of sites"
            )
        rules.check_sites()
        for place, level in enumerate(design.levels):
            if level.advice is not None and level.votes != rules.hopeless:
                raise ValueError(
                    "votes must be out of reach where the level is not reached"
                )
            if level.advice is None:
                rules.check(place, level)

    def work(self, design: Design) -> int:
        """Return how many numbers the search of the votes computes."""
        rules = _rules(design)
        places = []
        for place, level in enumerate(design.levels):
            if level.advice is None:
                places.append(place)
        work = rules.tail_work(places) + sum(map(rules.search_work, places))
        if work <= MOST_OWN_WORK:
            work += sum(map(rules.tie_work, places))
        return work

    def shared_work(self, design: Design) -> Mapping[CurveNoise, int]:
        """Return the size of the convolution of the noise."""
        rules = _rules(design)
        if rules.message.epsilon is None:
            return {}
        noise = rules.noise(rules.n_sites)
        return {noise: noise.work}

    def memory(self, design: Design) -> int:
        """Return the numbers of the convolution, and of a binomial distribution."""
        rules = _rules(design)
        return 0 if rules.message.epsilon is None else rules.memory()

    def epsilon(self, design: Design) -> Fraction | None:
        """Return the privacy loss of the counts."""
        return _data(design).epsilon

    def count_numbers(self, design: Design, n: int, site: str) -> int:
        """Count the cells."""
        design.find_kind(n, site=site)
        return _data(design).n_counts

    def discloses(self, design: Design, n: int, site: str) -> str:
        """Name the cells, and the noise."""
        message = _data(design)
        if message.starts is not None:
            settings = (
                f"at {len(message.edges):,} settings, and how many of the answers are"
                " wrong"
            )
            shown = (
                ""
                if message.masked
                else ", which show every confidence up to the step between settings"
            )
            return f"how many of your {count(n, 'case')} are answered {settings}{shown}"
        if message.parts is not None:
            return (
                f"the sums of the losses of your {count(n, 'case')} at"
                f" {message.n_cells - 1:,} settings"
            )
        if message.epsilon is None:
            shown = (
                ""
                if message.masked
                else ", which show every score up to the width of a cell"
            )
            return (
                f"the counts of your {count(n, 'score')} in {message.n_cells:,}"
                f" cells{shown}"
            )
        noise = f"with noise of epsilon {exact_text(message.epsilon)}"
        if message.bearers:
            others = [name for name in message.bearers if name != site]
            noise += (
                f", which {quoted(others)} {'add' if len(others) > 1 else 'adds'} to"
                " the sum"
            )
            noise += " as you do" if len(others) < len(message.bearers) else ""
        return f"{message.n_cells:,} counts of your {count(n, 'score')}, {noise}"

    def summarize(self, design: Design, place: int) -> str:
        """Name the number of counts."""
        message = _data(design)
        if message.starts is not None:
            return f"2 x {len(message.edges):,} counts"
        if message.parts is not None:
            return f"{message.n_cells - 1:,} sums of losses"
        return (
            f"{message.n_cells:,} {'' if message.epsilon is None else 'noisy '}counts"
        )

    def prepare(
        self,
        design: Design,
        scores: Any,
        *,
        site: str,
        round_id: str | None,
        options: Mapping[str, Any],
    ) -> Callable[[], Payload]:
        """Count the scores in each cell; small counts may be left out, as that only
        raises the threshold.
        """
        message = _data(design)
        self.count_numbers(design, scores.size, site)
        if message.starts is not None:
            if options.get("round_down_to", 0) > 1:
                raise ValueError(
                    "round_down_to must be 0 in the site's policy: wrong answers must"
                    " all count"
                )
            counts = _count_answers(message, *scores["losses"].T)
        elif message.parts is None:
            counts = self.count_cells(design, scores)
        else:
            counts = _count_parts(message, scores["losses"])
        if message.epsilon is not None and site in (message.bearers or (site,)):
            draw = prepare_noisy_counts(counts, message.epsilon)
            return lambda: CurvePayload(counts=tuple(draw()))
        kept = np.where(counts >= options.get("round_down_to", 0), counts, 0)
        return lambda: CurvePayload(counts=tuple(kept.tolist()))

    def count_cells(self, design: Design, scores: Any) -> Ints:
        """Count the scores in each cell."""
        message = _data(design)
        return Bins(message.edges, bounded=message.bounded).place(scores)

    def simulate(
        self, design: Design, scores: Any, rng: np.random.Generator
    ) -> Payload:
        """Add seeded noise to the counts."""
        message = _data(design)
        assert message.epsilon is not None
        counts = self.count_cells(design, scores)
        noisy = simulate_noisy_counts(counts, message.epsilon, rng=rng)
        return CurvePayload(counts=tuple(noisy.tolist()))

    def problem(self, design: Design, answer: Answer) -> str | None:
        """Check the number of counts, and that exact ones can be counts."""
        design.find_kind(answer.n, site=answer.site)
        counts, message = answer.payload.counts, _data(design)
        if len(counts) != message.n_counts:
            return f"{count(len(counts), 'count')} instead of {message.n_counts}"
        if message.starts is not None:
            cells = len(message.edges)
            if (
                min(counts) < 0
                or sum(counts[:cells]) > answer.n
                or min(map(sub, counts, counts[cells:])) < 0
            ):
                return (
                    f"counts must be those of at most {answer.n:,} answers, and no more"
                    " of them wrong"
                )
            return None
        most = answer.n * (message.parts or 1)
        if message.epsilon is None and (min(counts) < 0 or sum(counts) > most):
            return f"counts must be at least 0 and add up to at most {most:,}"
        if message.epsilon is not None:
            noise = scale_noise(message.n_cells, 1, message.epsilon)
            if abs(sum(counts) - answer.n) > total_reach(noise.cells, noise.scale):
                return (
                    f"counts add up to {sum(counts):,}, which noise cannot make of"
                    f" {answer.n:,} scores"
                )
        return None

    def solve(
        self, design: Design, sites: tuple[SiteKind, ...], places: Sequence[int | None]
    ) -> Design:
        """Solve the votes for the sites that answered, with the planned offsets."""
        message = _data(design)
        if message.own:
            own = tuple(tuple(each[i or 0] for i in places) for each in message.own)
            message = message.model_copy(update={"own": own})
        answered = design.answered_by(sites, message=message)
        rules = _rules(answered)
        levels = [
            rules.solve(place, planned) for place, planned in enumerate(design.levels)
        ]
        if not design.is_open and total_sites(sites) == design.n_asked:
            # The plan may ask for more votes than needed.
            pairs = zip(design.levels, levels, strict=True)
            levels = [max(pair, key=lambda level: level.votes or 0) for pair in pairs]
        return answered.model_copy(update={"levels": tuple(levels)})

    def combine(
        self, design: Design, answers: Mapping[str, Answer]
    ) -> tuple[float, ...]:
        """Add up the curves, or take each site's own threshold, and round up to the
        grid.
        """
        counts = {name: answer.payload.counts for name, answer in answers.items()}
        rules, message = _rules(design), _data(design)
        return tuple(
            (
                math.inf
                if level.advice is not None
                else message.edge(rules.threshold_cell(place, level, counts))
            )
            for place, level in enumerate(design.levels)
        )

    def vector(self, design: Design, answer: Answer) -> Sequence[int]:
        """Return the counts."""
        counts: Sequence[int] = answer.payload.counts
        return counts

    def sum_problem(self, design: Design, sums: Sequence[int]) -> str | None:
        """Check that sums are at least 0 and as large as the sizes of the sites say, up
        to noise.
        """
        rules, message = _rules(design), _data(design)
        if message.starts is not None:
            cells, most, least = len(message.edges), rules.n_points, 0
            total, reach = sum(sums[:cells]), 0
            fits = min(map(sub, sums, sums[cells:])) >= 0
        else:
            total, most, fits = sum(sums), rules.parts * rules.n_points, True
            noise = message.n_cells * rules.n_bearers, rules.noise(1).scale
            least, reach = most, 0 if message.epsilon is None else total_reach(*noise)
        if (
            not fits
            or min(sums) < -reach
            or not least - reach <= total <= most + reach
            or max(sums) > most + reach
        ):
            return (
                f"the sum over all sites cannot be one of {rules.n_points:,} cases: a"
                " report is wrong"
            )
        return None

    def combine_sum(self, design: Design, sums: Sequence[int]) -> tuple[float, ...]:
        """Round the pooled curve up to the grid."""
        rules, message = _rules(design), _data(design)
        return tuple(
            (
                math.inf
                if level.advice is not None
                else message.edge(rules.pooled_cell(place, level, sums))
            )
            for place, level in enumerate(design.levels)
        )

    def law(self, design: Design, place: int) -> CoverageLaw | None:
        """Return the distribution of the pooled score, which bounds the coverage."""
        return _rules(design).law(place, design.levels[place])

    def guarantee(self, design: Design, place: int) -> Guarantee:
        """Return the bound of the mean, and the chance to reach the level."""
        return _rules(design).guarantee(place, design.levels[place])

    def is_bound(self, design: Design) -> bool:
        """Return True: rounding up to the grid adds coverage."""
        return True

    def tolerates(self, design: Design, place: int, n_missing: int) -> bool:
        """Return whether the votes can be reached without the largest sites."""
        return design.levels[place].advice is None and _rules(design).tolerates(
            place, n_missing
        )

    def quantity(self, design: Design) -> str:
        """Name the answers, or the losses."""
        message = _data(design)
        if message.starts is not None:
            return "right answers"
        return super().quantity(design) if message.parts is None else "1 - risk"

    def why_infinite(self, design: Design) -> str:
        """Name the tests of answers, or the losses."""
        message = _data(design)
        if message.starts is not None:
            return "no setting passes the tests: no case is answered"
        return (
            super().why_infinite(design)
            if message.parts is None
            else "the losses are too large"
        )

    def claim(self, design: Design, score: ScoreRule | None) -> str | None:
        """Return the promise of answers, or of losses without a name, which are not
        about sets.
        """
        message = _data(design)
        if message.starts is not None:
            return "at least {share} of the answers are right, among {whose}"
        unnamed = message.parts is not None and score is None
        return (
            "at least {share} of the largest loss is avoided{mean} for {whose}"
            if unnamed
            else None
        )

    def expected(
        self,
        design: Design,
        place: int,
        masses: Floats | None = None,
        *,
        runs: int = _RUNS,
        rng: int = 1,
    ) -> tuple[float, float]:
        """Simulate mean and standard deviation of the coverage.

        Parameters
        ----------
        design : Design
            Of known sizes.
        place : int
            Place of the level.
        masses : array of float, optional
            Share of scores in each cell; the same in all if left out.
        runs, rng : int
            Number of simulated calibrations, and the seed.

        Returns
        -------
        mean, std : float
        """
        if design.levels[place].advice is not None:
            return 1.0, 0.0
        message = _data(design)
        spread = compute_references(message.n_cells)[0] if masses is None else masses
        curve = _rules(design).deciding(place, design.levels[place])
        simulated = simulate_coverage(
            curve, spread, runs=runs, rng=np.random.default_rng(rng)
        )
        return simulated.mean, simulated.std


def _count_parts(message: Curve, losses: Floats) -> Ints:
    """Return by how many parts all losses together fall up to each edge, losses rounded
    up to parts.
    """
    kept = losses[:, : message.n_cells - 1]  # at the last edge everything is selected
    missed = (
        np.ceil((message.parts or 1) * kept - _ROUNDING).astype(np.int64).sum(axis=0)
    )
    whole = (message.parts or 1) * len(losses)
    return np.asarray(np.diff(whole - missed, prepend=0, append=whole))


def _count_answers(message: Curve, confidence: Floats, wrong: Floats) -> Ints:
    """Count the cases from each edge up to the next, then how many of these are
    wrong.
    """
    cell, cells = (
        np.searchsorted(message.edges, confidence, side="right") - 1,
        len(message.edges),
    )
    counts = [
        np.bincount(own[own >= 0], minlength=cells) for own in (cell, cell[wrong == 1])
    ]
    return np.concatenate(counts)


def _choose_bearers(request: DesignRequest) -> tuple[str, ...]:
    """Return the sites that add the noise of a sum: those with the most scores, the
    first by name.
    """
    wanted = None if request.privacy is None else request.privacy.bearers
    if wanted is None:
        return ()
    kinds = [kind for kind in request.sites or () if kind.share != 0]
    names = [
        name for kind in sorted(kinds, key=lambda kind: -kind.n) for name in kind.names
    ]
    if len(names) < wanted:
        raise ValueError(
            f"bearers must be at most the number of named sites, {len(names)}, got"
            f" {wanted}"
        )
    return tuple(names[:wanted])


def _data(design: Design) -> Curve:
    assert isinstance(design.message, Curve)
    return design.message


def _rules(design: Design) -> "_Rules":
    if design.promise not in _RULES:
        raise ValueError(f"promise {design.promise!r} does not go with curves")
    message = _data(design)
    return _rule_class(design.promise, message)(
        design.kinds, message, Goal.all_of(design)
    )


def _rule_class(promise: str, message: Curve) -> "type[_Rules]":
    return _RULES[promise] if message.starts is None else _AnswerRules


# -- what it takes to check votes, in numbers that are computed, about 15 ns each ------

_STEP = 256  # of a bisection, whatever it computes
_SUMMED = 4  # of each number that is added up exactly
_COUNT = 3  # of each count of a binomial distribution
_ARRAYS = 8  # that are held for each count
_POINT = 16  # numbers that are held for each point of a Fourier transform


@lru_cache(maxsize=64)  # a site asks for the same noise again and again
def _noise_of(cells: int, n_sites: int, epsilon: Fraction | None) -> CurveNoise:
    if epsilon is None:
        return CurveNoise(cells, n_sites, 0.0)
    return scale_noise(cells, n_sites, epsilon)


def _count_binomial(n: int, p: float) -> int:
    """Return a bound of how many counts of Binomial(n, p) matter."""
    return 60 + math.ceil(2 * math.sqrt(90 * n * p * (1 - p)))


def _tie_work(n: int, level: Fraction, delta: Fraction) -> int:
    """Return the work of deciding a tie with delta in whole numbers; 0 if there is
    none.
    """
    if n > MOST_EXACT:
        return 0
    limit = float(delta)

    def tail(votes: int) -> float:
        return float(special.betainc(votes, n - votes + 1, float(level)))

    candidates = range(1, n + 1)
    place = bisect_left(
        candidates, True, key=lambda votes: tail(votes) <= limit * (1 + TIE)
    )
    if place == n or tail(candidates[place]) < limit * (1 - TIE):
        return 0
    terms = n - place
    digits = n * level.denominator.bit_length()
    binomial = terms * n / 1000
    powers = math.pow(digits, 1.6) / 750
    return round(terms * (binomial + powers))


@dataclass(frozen=True)
class _Rules:
    """Rule by which counts become thresholds where all sites are alike: the pooled
    curve decides.

    Other promises are subclasses.
    """

    sites: tuple[SiteKind, ...]
    message: Curve
    goals: tuple[Goal, ...]

    has_own: ClassVar[bool] = False
    has_unit: ClassVar[bool] = False

    @cached_property
    def n_sites(self) -> int:
        """Number of sites."""
        return total_sites(self.sites)

    @cached_property
    def n_points(self) -> int:
        """Number of all scores."""
        return sum(kind.count * kind.n for kind in self.sites)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Different numbers of scores of which a curve decides."""
        return (self.n_points,)

    @property
    def n_bearers(self) -> int:
        """Number of sites that add noise."""
        return len(self.message.bearers) or self.n_sites

    @property
    def parts(self) -> int:
        """Votes of a case."""
        return self.message.parts or 1

    @property
    def hopeless(self) -> int:
        """Votes that cannot be reached."""
        return self.parts * self.n_points + 1

    def noise(self, n_sites: int) -> CurveNoise:
        """Return the distribution of the noise in the sum of this many curves."""
        bearers = len(self.message.bearers) or n_sites
        return _noise_of(self.message.n_cells, bearers, self.message.epsilon)

    @property
    def last_mass(self) -> float | None:
        """Share of the scores in the last cell: none of a bounded score, else that of
        evenly spread ones.
        """
        return 0.0 if self.message.bounded else None

    def delta(self, place: int) -> Fraction | None:
        """Return the probability with which one curve may fail, where the criterion
        takes one.
        """
        goal = self.goals[place]
        return goal.delta if goal.criterion.takes_delta else None

    def offsets(self, place: int) -> tuple[int, ...]:
        """Return the offsets of one level."""
        return self.message.offsets[place] if self.message.offsets else ()

    def curve(self, place: int, n_points: int, votes: int) -> NoisyCurve:
        """Return the curve that decides, of this many scores."""
        return NoisyCurve(
            n_points, votes, self.noise(self.n_sites), self.offsets(place)
        )

    # -- what it takes to check them ---------------------------------------------------

    def search_work(self, place: int) -> int:
        """Return how many numbers the search of the votes of one level computes."""
        if self.message.parts is not None:
            return _STEP
        if self.message.epsilon is None:
            return sum(n.bit_length() * _STEP for n in self.sizes)
        return sum(self._noisy_work(place, n) for n in self.sizes)

    def tie_work(self, place: int) -> int:
        """Return the work of ties with delta, which are decided in whole numbers."""
        delta = self.delta(place)
        is_exact = self.message.epsilon is None and self.message.parts is None
        if delta is None or not is_exact:
            return 0
        level = self.goals[place].level
        return sum(_tie_work(n, level, delta) for n in self.sizes)

    def tail_work(self, places: Sequence[int]) -> int:
        """Return the work of the largest tails over the edges, which are kept."""
        if self.message.epsilon is None:
            return 0
        rows = self.noise(self.n_sites).rows.tolist()
        work = 0
        for offsets in {self.offsets(place) for place in places}:
            n_edges = len(rows) // 2 + 1
            if offsets:
                n_edges = len(set(zip(rows, offsets, strict=True)))
            work += n_edges * self._tail_length(offsets) // 2
        return work

    def _tail_length(self, offsets: tuple[int, ...]) -> int:
        reach = self.noise(self.n_sites).reach
        spread = max(offsets, default=0) - min(offsets, default=0)
        return 2 * reach + 2 + min(spread, 2 * reach + 2)

    def _noisy_work(self, place: int, n_points: int) -> int:
        noise = self.noise(self.n_sites)
        steps = (n_points + noise.reach + 1).bit_length()
        if self.delta(place) is None:
            a_step = _SUMMED * self._tail_length(self.offsets(place))
        else:
            level = float(self.goals[place].level)
            a_step = _COUNT * _count_binomial(n_points, level)
        infinite = _COUNT * _count_binomial(n_points, self._last_share)
        return steps * (_STEP + a_step) + infinite

    @property
    def _last_share(self) -> float:
        return 1 / self.message.n_cells if self.last_mass is None else self.last_mass

    def memory(self) -> int:
        """Return how many numbers of 8 bytes the noise and the search of votes hold."""
        noise = self.noise(self.n_sites)
        points = (2 * noise.reach + 2) * noise.denominator
        tails = (noise.cells // 2) * (2 * noise.reach + 2)
        shares = {self._last_share}
        worst = 0
        for place, goal in enumerate(self.goals):
            worst += self._tail_length(self.offsets(place))
            if self.delta(place) is not None:
                shares.add(float(goal.level))
        largest = max(self.sizes, default=0)
        counts = max(_count_binomial(largest, share) for share in shares)
        return tails + worst + max(_POINT * points, _ARRAYS * counts)

    # -- votes -------------------------------------------------------------------------

    def completed(self) -> Curve:
        """Return the message with what a plan adds to it."""
        return self.choose_offsets(self.n_points)

    def choose_offsets(self, n_points: int) -> Curve:
        """Search offsets for this many scores, where there is noise."""
        if self.message.epsilon is None:
            return self.message
        noise, mass = self.noise(self.n_sites), self.last_mass
        chosen = [
            choose_curve(
                n_points, noise, goal.level, delta=self.delta(place), last_mass=mass
            )
            for place, goal in enumerate(self.goals)
        ]
        offsets = tuple(() if curve is None else curve.offsets for curve in chosen)
        return self.message.model_copy(update={"offsets": offsets})

    def fewest(self, place: int, n_points: int, n_sites: int) -> int | None:
        """Return the smallest count that satisfies a goal with this many scores and
        sites; None if none.
        """
        if n_points < 1:
            return None
        if self.message.parts is not None:
            return solve_sum(
                n_points, self.parts, self.goals[place].level, self.delta(place)
            )
        votes = solve_votes(
            n_points,
            self.noise(n_sites),
            self.goals[place].level,
            offsets=self.offsets(place),
            delta=self.delta(place),
            last_mass=self.last_mass,
        )
        return None if votes is None else max(votes, 1)

    def needed(self, place: int) -> int | None:
        """Return the votes for these sites; None if none suffice."""
        return self.fewest(place, self.n_points, self.n_sites)

    def solve(self, place: int, planned: Level | None = None) -> Level:
        """Return the level with its votes, or with advice."""
        votes = self.needed(place)
        if votes is not None:
            return self.goals[place].make_level(votes)
        advice = None if planned is None else planned.advice
        return self.goals[place].make_level(self.hopeless, advice or self.advise(place))

    def check_sites(self) -> None:
        """Refuse more parts of cases than can be counted."""
        total = self.parts * self.n_points
        if total > _MOST_VOTES:
            raise ValueError(
                f"parts times the scores of all sites must be at most {_MOST_VOTES:,},"
                f" got {total:,}"
            )

    def check(self, place: int, level: Level) -> None:
        """Refuse too few votes."""
        needed = self.needed(place)
        if needed is None or (level.votes or 0) < needed:
            raise ValueError("the votes needed are too few for this promise")
        if (
            self.message.epsilon is None
            and (level.votes or 0) > self.parts * self.n_points
        ):
            raise ValueError("the votes needed are more than there are scores")

    def tolerates(self, place: int, n_missing: int) -> bool:
        """Return whether the votes can be reached without the largest sites."""
        sizes, counts = zip(*((kind.n, kind.count) for kind in self.sites), strict=True)
        left, n_points = (
            self.n_sites - n_missing,
            self.n_points - heaviest(sizes, counts, n_missing),
        )
        return left > 0 and self.fewest(place, n_points, left) is not None

    def advise(self, place: int, n_missing: int = 0) -> Advice:
        """Return what would suffice: a size, and more sites or a larger epsilon."""
        m, n = self.n_sites, min(kind.n for kind in self.sites)

        def suffices(m: int, n: int) -> bool:
            left = m - n_missing
            return (
                left > 0
                and left * n <= LARGEST_N
                and self.fewest(place, left * n, left) is not None
            )

        def is_private_enough(step: int) -> bool:
            tried = replace(
                self,
                message=self.message.model_copy(update={"epsilon": two_digits(step)}),
            )
            try:
                return tried.tolerates(place, n_missing)
            except ValueError:  # the noise is too wide to be computed
                return False

        points = smallest(
            lambda n: suffices(m, n), start=1, stop=max(1, LARGEST_N // m)
        )
        if self.message.epsilon is None:
            more = smallest(
                lambda m: suffices(m, n), start=1, stop=min(MOST_SITES, LARGEST_N // n)
            )
            return Advice(n_points=points, n_sites=more)
        step = smallest(
            is_private_enough, start=1, stop=4 * 90
        )  # steps of 10 %, up to 100
        return Advice(
            n_points=points, epsilon=None if step is None else two_digits(step)
        )

    # -- thresholds, and what they promise ---------------------------------------------

    def threshold_cell(
        self, place: int, level: Level, counts: Mapping[str, Sequence[int]]
    ) -> int:
        """Return the cell whose edge is the threshold."""
        return self.pooled_cell(place, level, _add(counts.values()))

    def pooled_cell(self, place: int, level: Level, sums: Sequence[int]) -> int:
        """Return the cell whose edge is the threshold, from the sum over all sites."""
        return self.pass_cell(place, sums, self.n_points, level.votes or 1)

    def pass_cell(
        self, place: int, counts: Sequence[int], n_points: int, votes: int
    ) -> int:
        """Return the cell of the last passage of one curve."""
        # An exact curve may be understated, and has no noise that its total could
        # remove.
        total = sum(counts) if self.message.epsilon is None else n_points
        return last_passage(counts, total, votes, self.offsets(place))

    def curve_law(self, place: int, n_points: int, votes: int) -> CoverageLaw:
        """Return the distribution of the coverage of one curve."""
        if self.message.epsilon is None:
            return CoverageLaw(1, n_points, votes, 1)
        return CoverageLaw.of_sites(
            self.curve(place, n_points, votes), np.array([1]), server_rank=1
        )

    def law(self, place: int, level: Level) -> CoverageLaw | None:
        """Return the distribution of the coverage, or a bound of it; none is known for
        losses and answers.
        """
        if self.message.parts is not None or self.message.starts is not None:
            return None
        if level.advice is not None:
            return CoverageLaw(1, self.n_points, level.votes, 1)
        return self.curve_law(place, self.n_points, level.votes or 1)

    def guarantee(self, place: int, level: Level) -> Guarantee:
        """Return the guarantee."""
        law, wanted, delta = (
            self.law(place, level),
            float(self.goals[place].level),
            self.delta(place),
        )
        if law is None and delta is not None:
            return Guarantee(None, wanted, float(1 - delta))
        if law is None:
            return Guarantee(
                min((level.votes or 0) / (self.parts * (self.n_points + 1)), 1.0)
            )
        is_noisy = self.message.epsilon is not None and level.advice is None
        mean = self.deciding(place, level).mean_bound if is_noisy else law.mean()
        return Guarantee(mean, wanted, float(law.sf(wanted)))

    def deciding(self, place: int, level: Level) -> NoisyCurve:
        """Return the curve whose threshold varies most."""
        return self.curve(place, self.n_points, level.votes or 1)


class _AnswerRules(_Rules):
    """Of the cases that are answered few are wrong: tests of settings, from several
    starts.
    """

    def search_work(self, place: int) -> int:
        return 0

    def tie_work(self, place: int) -> int:
        return 0

    def fewest(self, place: int, n_points: int, n_sites: int) -> int | None:
        goal, starts = self.goals[place], self.message.starts or 1
        needed = fewest_answers(goal.level, goal.delta / starts)
        return needed if needed <= n_points else None

    def pooled_cell(self, place: int, level: Level, sums: Sequence[int]) -> int:
        cells = len(self.message.edges)
        goal, starts = self.goals[place], self.message.starts or 1
        lowest = first_answered(
            sums[:cells], sums[cells:], 1 - goal.level, goal.delta, starts
        )
        return self.message.n_cells - 1 if lowest is None else lowest


class _EachSiteRules(_Rules):
    """Sites may differ in any way: each has its own threshold, and the largest is
    kept.
    """

    has_own: ClassVar[bool] = True

    @property
    def hopeless(self) -> int:
        return self.n_sites + 1

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple({kind.n for kind in self.sites})

    def noise(self, n_sites: int) -> CurveNoise:
        return super().noise(1)

    def delta(self, place: int) -> Fraction | None:
        goal = self.goals[place]
        return (
            own_goal(goal, self.n_sites).delta if goal.criterion.takes_delta else None
        )

    def completed(self) -> Curve:
        """Solve the counts that sites need individually, with offsets for a site of
        middle size.
        """
        middle = sorted(kind.n for kind in self.sites)[len(self.sites) // 2]
        rules = replace(self, message=self.choose_offsets(middle))
        own = (
            tuple(rules.fewest(place, kind.n, 1) or _NEVER for kind in self.sites)
            for place in range(len(self.goals))
        )
        return rules.message.model_copy(update={"own": tuple(own)})

    def own(self, place: int) -> list[tuple[SiteKind, int]]:
        """Return the sites with the counts that they need; those of an open plan follow
        from their sizes.
        """
        message = self.message if self.message.own else self.completed()
        return list(zip(self.sites, message.own[place], strict=True))

    def needed(self, place: int) -> int | None:
        return (
            self.n_sites
            if all(votes < _NEVER for _, votes in self.own(place))
            else None
        )

    def check(self, place: int, level: Level) -> None:
        if level.votes != self.needed(place):
            raise ValueError(
                "for a promise to each site the server keeps the largest threshold"
            )
        fewest = {n: self.fewest(place, n, 1) for n in self.sizes}
        for kind, votes in self.own(place):
            needed = fewest[kind.n]
            if needed is None or votes < needed:
                raise ValueError(
                    "a site's own count is too small for a promise to each site"
                )

    def tolerates(self, place: int, n_missing: int) -> bool:
        return n_missing < self.n_sites

    def advise(self, place: int, n_missing: int = 0) -> Advice:
        points = smallest(
            lambda n: self.fewest(place, n, 1) is not None, start=1, stop=2**24
        )
        return Advice(n_points=points)

    def threshold_cell(
        self, place: int, level: Level, counts: Mapping[str, Sequence[int]]
    ) -> int:
        return max(
            self.pass_cell(place, counts[name], kind.n, votes)
            for kind, votes in self.own(place)
            for name in kind.names
        )

    def law(self, place: int, level: Level) -> CoverageLaw:
        if level.advice is not None:
            return EachSiteLaw((kind.n, kind.n + 1) for kind in self.sites)
        own = self.own(place)
        laws = [self.curve_law(place, kind.n, votes) for kind, votes in own]
        return EachSiteLaw(((kind.n, min(votes, kind.n)) for kind, votes in own), laws)

    def guarantee(self, place: int, level: Level) -> Guarantee:
        wanted = float(self.goals[place].level)
        misses = []
        if level.advice is None:
            for kind, votes in self.own(place):
                law = self.curve_law(place, kind.n, votes)
                misses.append((kind.count, float(law.cdf(wanted))))
        return EachSiteGuarantee.from_law(self.law(place, level), wanted, misses)

    def deciding(self, place: int, level: Level) -> NoisyCurve:
        """Return the curve of the smallest site, whose threshold varies most."""
        kind, votes = min(self.own(place), key=lambda pair: pair[0].n)
        return self.curve(place, kind.n, votes)


class _MixtureRules(_Rules):
    """New cases come from the sites with known shares: counts are weighted by these."""

    has_unit: ClassVar[bool] = True

    def completed(self) -> Curve:
        """Choose the votes of the whole mixture."""
        shares = [
            (kind.share or Fraction(0)) / (kind.n + 1) / self.parts
            for kind in self.sites
        ]
        unit = common_denominator(shares, _LARGEST_UNIT) or _LARGEST_UNIT
        return self.message.model_copy(update={"unit": unit})

    @property
    def _unit(self) -> int:
        return self.message.unit or 1

    def search_work(self, place: int) -> int:
        return 0

    def check_sites(self) -> None:
        super().check_sites()
        check_shares(self.sites)

    @property
    def hopeless(self) -> int:
        return self._unit + 1

    def _votes(self, place: int) -> int:
        return math.ceil(self._unit * self.goals[place].level)

    def needed(self, place: int) -> int | None:
        return self._votes(place) if self.tolerates(place, 0) else None

    def solve(self, place: int, planned: Level | None = None) -> Level:
        """Advise the sites that answered: more cases at these do not make up for a
        missing share.
        """
        return super().solve(place)

    def check(self, place: int, level: Level) -> None:
        if not self._votes(place) <= (level.votes or 0) <= self._unit:
            raise ValueError(
                "the votes needed are too few for a promise to this mixture"
            )

    def tolerates(self, place: int, n_missing: int) -> bool:
        own = [
            floor_votes(self._unit, kind, kind.n * self.parts, self.parts)
            for kind in self.sites
        ]
        counts = [kind.count for kind in self.sites]
        left = heaviest(own, counts, self.n_sites) - heaviest(own, counts, n_missing)
        return left >= self._votes(place)

    def advise(self, place: int, n_missing: int = 0) -> Advice:
        return advise_mixture(self.sites, self.goals[place], n_missing)

    def threshold_cell(
        self, place: int, level: Level, counts: Mapping[str, Sequence[int]]
    ) -> int:
        curves = [
            [
                floor_votes(self._unit, kind, total, self.parts)
                for total in accumulate(map(int, counts[name]))
            ]
            for kind in self.sites
            for name in kind.names
        ]
        reached = (
            cell
            for cell, total in enumerate(_add(curves))
            if total >= (level.votes or 1)
        )
        return next(reached, self.message.n_cells - 1)

    def law(self, place: int, level: Level) -> None:
        return None

    def guarantee(self, place: int, level: Level) -> Guarantee:
        return Guarantee(
            1.0 if level.advice is not None else (level.votes or 0) / self._unit
        )


def _add(vectors: Iterable[Sequence[int]]) -> list[int]:
    return [sum(column) for column in zip(*vectors, strict=True)]


_RULES: dict[str, type[_Rules]] = {
    "population": _Rules,
    "each-site": _EachSiteRules,
    "mixture": _MixtureRules,
}
