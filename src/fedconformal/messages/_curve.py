"""Curves: every site sends counts of its scores in the cells of a public grid, exact or with noise.

Curves of sites add up, so one round gives the pooled order statistic, rounded up to the grid. One curve
serves every level. With noise the threshold is the last passage of the pooled curve, which is valid for every
distribution of the scores (theory, section 13).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from fedconformal._text import count
from fedconformal._util import Floats
from fedconformal.documents import (
    LARGEST_N,
    MOST_SITES,
    Advice,
    Curve,
    CurvePayload,
    Design,
    Level,
    Payload,
    SiteKind,
    total_sites,
)
from fedconformal.laws import (
    CoverageLaw,
    CurveNoise,
    EachSiteLaw,
    NoisyCurve,
    choose_curve,
    compute_references,
    last_passage,
    simulate_coverage,
    solve_votes,
    total_reach,
)
from fedconformal.messages._base import (
    MESSAGES,
    Answer,
    Choice,
    DesignRequest,
    Message,
    largest_so_far,
    make_level,
    two_digits,
)
from fedconformal.planning import PROMISES, Goal, Guarantee, smallest
from fedconformal.planning._mixture import check_shares, common_denominator, floor_votes
from fedconformal.planning.promises import own_goal
from fedconformal.privacy import Bins, exact_text, prepare_noisy_counts, scale_noise, simulate_noisy_counts

_LARGEST_UNIT = 10**18  # votes of a whole mixture, beyond which they are rounded
_RUNS = 4000  # simulated calibrations for an expectation
_NEVER = LARGEST_N + 1  # count of a site that is too small for a threshold of its own


@MESSAGES.register
class CurveMessage(Message):
    """Counts of scores in the cells of a grid, one release for all levels.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_sites=5, n_points=100, curve=fc.Bins.uniform(0, 1, 50))
    >>> fc.messages.of(plan.message).discloses(plan.designs[0], 100, "A")
    'the counts of your 100 scores in 50 cells, which show every score up to the width of a cell'
    """

    name: ClassVar[str] = "curve"
    adds_up: ClassVar[bool] = True

    def choose(self, request: DesignRequest) -> Choice:
        """Solve the votes, and search offsets where there is noise."""
        bins = request.curve if request.privacy is None else request.privacy.bins
        assert bins is not None
        epsilon = None if request.privacy is None else request.privacy.exact_epsilon
        if request.numbers is not None and request.numbers > 1:
            raise ValueError(
                f"numbers must be left out with curves, got {request.numbers}: a curve serves all levels"
            )
        if request.uses_paper_ranks:
            raise ValueError("local_ranks must be left out with curves: sites send counts, not ranks")
        message = Curve(edges=bins.edges, bounded=bins.bounded, epsilon=epsilon)
        for goal in request.goals:
            self._check_goal(goal, request.promise.name, is_open=request.sites is None, epsilon=epsilon)
        if request.sites is None:
            return Choice(message, tuple(make_level(goal, None) for goal in request.goals), None)
        sites = tuple(
            kind.model_copy(update={"asked": False}) if kind.share == 0 else kind for kind in request.sites
        )
        rules = _RULES[request.promise.name](sites, message, request.goals)
        rules = replace(rules, message=rules.completed())
        levels = [rules.solve(place) for place in range(len(request.goals))]
        for place, goal in enumerate(request.goals):
            if levels[place].advice is None and not rules.tolerates(place, goal.max_missing or 0):
                levels[place] = make_level(goal, rules.hopeless, rules.advise(place, goal.max_missing or 0))
        return Choice(rules.message, tuple(levels), sites)

    def _check_goal(self, goal: Goal, promise: str, *, is_open: bool, epsilon: Fraction | None) -> None:
        PROMISES[promise]().check_goal(goal, is_open=is_open)
        if promise not in _RULES:
            raise ValueError(
                f"promise must be one of {', '.join(map(repr, _RULES))} with curves, got {promise!r}"
            )
        if not (goal.criterion.is_mean or goal.criterion.takes_delta):
            raise ValueError(f"criterion {goal.criterion.name!r} does not go with curves")
        if goal.max_faulty:
            raise ValueError(
                f"max_faulty must be 0 with curves, got {goal.max_faulty}: one site can claim every count"
            )
        if epsilon is not None and is_open:
            raise ValueError("privacy needs n_points: the noise counts for more where there are few scores")
        if epsilon is not None and promise == _MixtureRules.promise:
            raise ValueError("privacy does not go with promise 'mixture'")

    def check(self, design: Design) -> None:
        """Refuse votes below those that the promise needs."""
        message = _data(design)
        for place in range(len(design.levels)):
            goal = Goal.from_design(design, place)
            self._check_goal(goal, design.promise, is_open=design.is_open, epsilon=message.epsilon)
        rules = _rules(design)
        if bool(message.own) > rules.has_own or (message.unit is not None) != rules.has_unit:
            raise ValueError("own counts go with promise 'each-site' alone, and a unit with 'mixture' alone")
        if design.is_open:
            return
        if rules.has_own and not message.own:
            raise ValueError("own counts must be given for each level and each kind of sites")
        for place, level in enumerate(design.levels):
            if level.advice is not None and level.votes != rules.hopeless:
                raise ValueError("votes must be out of reach where the level is not reached")
            if level.advice is None:
                rules.check(place, level)

    def work(self, design: Design) -> int:
        """Return the size of the convolution of the noise."""
        message = _data(design)
        return 0 if message.epsilon is None else _rules(design).check_noise().work

    def epsilon(self, design: Design) -> Fraction | None:
        """Return the privacy loss of the counts."""
        return _data(design).epsilon

    def count_numbers(self, design: Design, n: int, site: str) -> int:
        """Count the cells."""
        design.find_kind(n, site=site)
        return _data(design).n_cells

    def discloses(self, design: Design, n: int, site: str) -> str:
        """Name the cells, and the noise."""
        message = _data(design)
        if message.epsilon is None:
            shown = "which show every score up to the width of a cell"
            return f"the counts of your {count(n, 'score')} in {message.n_cells:,} cells, {shown}"
        noise = f"with noise of epsilon {exact_text(message.epsilon)}"
        return f"{message.n_cells:,} counts of your {count(n, 'score')}, {noise}"

    def summarize(self, design: Design, place: int) -> str:
        """Name the number of counts."""
        noisy = "" if _data(design).epsilon is None else "noisy "
        return f"{_data(design).n_cells:,} {noisy}counts"

    def prepare(
        self, design: Design, scores: Any, *, site: str, round_id: str | None, options: Mapping[str, Any]
    ) -> Callable[[], Payload]:
        """Count the scores in each cell; small counts may be left out, as that only raises the threshold."""
        message = _data(design)
        self.count_numbers(design, scores.size, site)
        counts = Bins(message.edges, bounded=message.bounded).place(scores)
        if message.epsilon is not None:
            draw = prepare_noisy_counts(counts, message.epsilon)
            return lambda: CurvePayload(counts=tuple(draw()))
        kept = np.where(counts >= options.get("round_down_to", 0), counts, 0)
        return lambda: CurvePayload(counts=tuple(kept.tolist()))

    def simulate(self, design: Design, scores: Any, rng: np.random.Generator) -> Payload:
        """Add seeded noise to the counts."""
        message = _data(design)
        assert message.epsilon is not None
        counts = Bins(message.edges, bounded=message.bounded).place(scores)
        noisy = simulate_noisy_counts(counts, message.epsilon, rng=rng)
        return CurvePayload(counts=tuple(noisy.tolist()))

    def problem(self, design: Design, answer: Answer) -> str | None:
        """Check the number of counts, and that exact ones can be counts."""
        design.find_kind(answer.n, site=answer.site)
        counts, message = answer.payload.counts, _data(design)
        if len(counts) != message.n_cells:
            return f"{count(len(counts), 'count')} instead of {message.n_cells}"
        if message.epsilon is None and (min(counts) < 0 or sum(counts) > answer.n):
            return f"counts must be at least 0 and add up to at most {answer.n:,}"
        if message.epsilon is not None:
            noise = scale_noise(message.n_cells, 1, message.epsilon)
            if abs(sum(counts) - answer.n) > total_reach(noise.cells, noise.scale):
                return f"counts add up to {sum(counts):,}, which noise cannot make of {answer.n:,} scores"
        return None

    def solve(self, design: Design, sites: tuple[SiteKind, ...], places: Sequence[int | None]) -> Design:
        """Solve the votes for the sites that answered, with the planned offsets."""
        message = _data(design)
        if message.own:
            own = tuple(tuple(each[i or 0] for i in places) for each in message.own)
            message = message.model_copy(update={"own": own})
        answered = design.answered_by(sites, message=message)
        rules = _rules(answered)
        levels = [rules.solve(place, planned) for place, planned in enumerate(design.levels)]
        if not design.is_open and total_sites(sites) == design.n_asked:
            # The plan may ask for more votes than needed.
            pairs = zip(design.levels, levels, strict=True)
            levels = [max(pair, key=lambda level: level.votes or 0) for pair in pairs]
        return answered.model_copy(update={"levels": tuple(levels)})

    def combine(self, design: Design, answers: Mapping[str, Answer]) -> tuple[float, ...]:
        """Add up the curves, or take each site's own threshold, and round up to the grid."""
        counts = {name: answer.payload.counts for name, answer in answers.items()}
        rules, message = _rules(design), _data(design)
        found = [
            math.inf if level.advice is not None else message.edge(rules.threshold_cell(place, level, counts))
            for place, level in enumerate(design.levels)
        ]
        return largest_so_far(design, found)

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
        return design.levels[place].advice is None and _rules(design).tolerates(place, n_missing)

    def expected(
        self, design: Design, place: int, masses: Floats | None = None, *, runs: int = _RUNS, rng: int = 1
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
        curve = _rules(design).pooled(place, design.levels[place])
        simulated = simulate_coverage(curve, spread, runs=runs, rng=np.random.default_rng(rng))
        return simulated.mean, simulated.std


def _data(design: Design) -> Curve:
    assert isinstance(design.message, Curve)
    return design.message


def _rules(design: Design) -> "_Rules":
    goals = tuple(Goal.from_design(design, place) for place in range(len(design.levels)))
    if design.promise not in _RULES:
        raise ValueError(f"promise {design.promise!r} does not go with curves")
    return _RULES[design.promise](design.kinds, _data(design), goals)


@dataclass(frozen=True)
class _Rules:
    """Rule by which counts become thresholds under one promise."""

    sites: tuple[SiteKind, ...]
    message: Curve
    goals: tuple[Goal, ...]

    promise: ClassVar[str]
    has_own: ClassVar[bool] = False
    has_unit: ClassVar[bool] = False

    def completed(self) -> Curve:
        """Return the message with what a plan adds to it."""
        return self.message

    @property
    def n_points(self) -> int:
        """Number of all scores."""
        return sum(kind.count * kind.n for kind in self.sites)

    @property
    def hopeless(self) -> int:
        """Votes that cannot be reached."""
        return self.n_points + 1

    def noise(self, n_sites: int) -> CurveNoise:
        """Distribution of the noise in the sum of this many curves."""
        cells, epsilon = self.message.n_cells, self.message.epsilon
        return CurveNoise(cells, n_sites, 0.0) if epsilon is None else scale_noise(cells, n_sites, epsilon)

    def check_noise(self) -> CurveNoise:
        """Return the noise by which votes are checked."""
        return self.noise(total_sites(self.sites))

    @property
    def last_mass(self) -> float | None:
        """Share of the scores in the last cell: none of a bounded score, else that of evenly spread ones."""
        return 0.0 if self.message.bounded else None

    def fewest(
        self, n_points: int, n_sites: int, goal: Goal, offsets: tuple[int, ...], delta: Fraction | None
    ) -> int | None:
        """Return the smallest count that satisfies a goal; None if there is none."""
        noise, mass = self.noise(n_sites), self.last_mass
        votes = solve_votes(n_points, noise, goal.level, offsets=offsets, delta=delta, last_mass=mass)
        return None if votes is None else max(votes, 1)

    def offsets(self, place: int) -> tuple[int, ...]:
        """Offsets of one level."""
        return self.message.offsets[place] if self.message.offsets else ()

    def solve(self, place: int, planned: Level | None = None) -> Level:
        """Return the votes for these sites."""
        raise NotImplementedError

    def check(self, place: int, level: Level) -> None:
        """Refuse too few votes."""
        raise NotImplementedError

    def threshold_cell(self, place: int, level: Level, counts: Mapping[str, Sequence[int]]) -> int:
        """Return the cell whose edge is the threshold."""
        raise NotImplementedError

    def law(self, place: int, level: Level) -> CoverageLaw | None:
        """Return the distribution of the coverage."""
        raise NotImplementedError

    def guarantee(self, place: int, level: Level) -> Guarantee:
        """Return the guarantee."""
        raise NotImplementedError

    def tolerates(self, place: int, n_missing: int) -> bool:
        """Return whether the votes can be reached without the largest sites."""
        raise NotImplementedError

    def advise(self, place: int, n_missing: int = 0) -> Advice:
        """Return what would suffice."""
        raise NotImplementedError

    def pooled(self, place: int, level: Level) -> NoisyCurve:
        """Return the pooled curve at one level."""
        return NoisyCurve(
            self.n_points, level.votes or 1, self.noise(total_sites(self.sites)), self.offsets(place)
        )


def _delta(goal: Goal) -> Fraction | None:
    return goal.delta if goal.criterion.takes_delta else None


class _PopulationRules(_Rules):
    """All sites and new cases are alike: the pooled curve decides."""

    promise: ClassVar[str] = "population"

    def completed(self) -> Curve:
        """Search offsets where there is noise."""
        if self.message.epsilon is None:
            return self.message
        noise = self.noise(total_sites(self.sites))
        chosen = [
            choose_curve(self.n_points, noise, goal.level, delta=_delta(goal), last_mass=self.last_mass)
            for goal in self.goals
        ]
        offsets = tuple(() if curve is None else curve.offsets for curve in chosen)
        return self.message.model_copy(update={"offsets": offsets})

    def _votes(self, place: int, n_points: int, n_sites: int) -> int | None:
        goal = self.goals[place]
        if n_points < 1:
            return None
        return self.fewest(n_points, n_sites, goal, self.offsets(place), _delta(goal))

    def solve(self, place: int, planned: Level | None = None) -> Level:
        votes = self._votes(place, self.n_points, total_sites(self.sites))
        if votes is not None:
            return make_level(self.goals[place], votes)
        advice = None if planned is None else planned.advice
        return make_level(self.goals[place], self.hopeless, advice or self.advise(place))

    def check(self, place: int, level: Level) -> None:
        needed = self._votes(place, self.n_points, total_sites(self.sites))
        if needed is None or (level.votes or 0) < needed:
            raise ValueError("the votes needed are too few for this promise")
        if self.message.epsilon is None and (level.votes or 0) > self.n_points:
            raise ValueError("the votes needed are more than there are scores")

    def threshold_cell(self, place: int, level: Level, counts: Mapping[str, Sequence[int]]) -> int:
        sums = [sum(column) for column in zip(*counts.values(), strict=True)]
        # An exact curve may be understated, and has no noise that its total could remove.
        n_points = sum(sums) if self.message.epsilon is None else self.n_points
        return last_passage(sums, n_points, level.votes or 1, self.offsets(place))

    def law(self, place: int, level: Level) -> CoverageLaw:
        if self.message.epsilon is None or level.advice is not None:
            return CoverageLaw(1, self.n_points, level.votes, 1)
        return CoverageLaw.of_sites(self.pooled(place, level), np.array([1]), server_rank=1)

    def guarantee(self, place: int, level: Level) -> Guarantee:
        goal = self.goals[place]
        if level.advice is not None:
            return Guarantee(1.0, float(goal.level), 1.0)
        law = self.law(place, level)
        mean = law.mean() if self.message.epsilon is None else self.pooled(place, level).mean_bound
        return Guarantee(mean, float(goal.level), float(law.sf(float(goal.level))))

    def tolerates(self, place: int, n_missing: int) -> bool:
        left, n_points = total_sites(self.sites) - n_missing, self.n_points
        for kind in sorted(self.sites, key=lambda kind: -kind.n):
            gone = min(n_missing, kind.count)
            n_points, n_missing = n_points - gone * kind.n, n_missing - gone
        return left > 0 and self._votes(place, n_points, left) is not None

    def advise(self, place: int, n_missing: int = 0) -> Advice:
        m, n = total_sites(self.sites), min(kind.n for kind in self.sites)

        def suffices(m: int, n: int) -> bool:
            left = m - n_missing
            return left > 0 and left * n <= LARGEST_N and self._votes(place, left * n, left) is not None

        points = smallest(lambda n: suffices(m, n), start=1, stop=max(1, LARGEST_N // m))
        if self.message.epsilon is None:
            more = smallest(lambda m: suffices(m, n), start=1, stop=min(MOST_SITES, LARGEST_N // n))
            return Advice(n_points=points, n_sites=more)
        return Advice(n_points=points, epsilon=self._smallest_epsilon(place, n_missing))

    def _smallest_epsilon(self, place: int, n_missing: int) -> Fraction | None:
        """Smallest epsilon that suffices for these sites, in steps of 10 %, to two digits; None above 100."""

        def suffices(step: int) -> bool:
            tried = replace(self, message=self.message.model_copy(update={"epsilon": two_digits(step)}))
            try:
                return tried.tolerates(place, n_missing)
            except ValueError:  # the noise is too wide to be computed
                return False

        found = smallest(suffices, start=1, stop=4 * 90)
        return None if found is None else two_digits(found)


class _EachSiteRules(_Rules):
    """Sites may differ in any way: each has its own threshold, and the largest is kept."""

    promise: ClassVar[str] = "each-site"
    has_own: ClassVar[bool] = True

    def completed(self) -> Curve:
        """Search offsets where there is noise, and solve the counts that sites need individually."""
        offsets: list[tuple[int, ...]] = []
        own: list[tuple[int, ...]] = []
        noise, middle = self.noise(1), sorted(kind.n for kind in self.sites)[len(self.sites) // 2]
        for goal in self.goals:
            each, chosen = own_goal(goal, total_sites(self.sites)), None
            if self.message.epsilon is not None:
                chosen = choose_curve(middle, noise, goal.level, delta=_delta(each), last_mass=self.last_mass)
            offsets.append(() if chosen is None else chosen.offsets)
            votes = (self.fewest(kind.n, 1, goal, offsets[-1], _delta(each)) for kind in self.sites)
            own.append(tuple(count or _NEVER for count in votes))
        update: dict[str, Any] = {"own": tuple(own)}
        if self.message.epsilon is not None:
            update["offsets"] = tuple(offsets)
        return self.message.model_copy(update=update)

    def check_noise(self) -> CurveNoise:
        return self.noise(1)

    def own(self, place: int) -> tuple[int, ...]:
        """Return the counts that sites need; those of an open plan follow from their sizes."""
        message = self.message if self.message.own else self.completed()
        return message.own[place]

    @property
    def hopeless(self) -> int:
        return total_sites(self.sites) + 1

    def solve(self, place: int, planned: Level | None = None) -> Level:
        if max(self.own(place)) < _NEVER:
            return make_level(self.goals[place], total_sites(self.sites))
        advice = None if planned is None else planned.advice
        return make_level(self.goals[place], self.hopeless, advice or self.advise(place))

    def check(self, place: int, level: Level) -> None:
        if level.votes != total_sites(self.sites) or max(self.own(place)) >= _NEVER:
            raise ValueError("for a promise to each site the server keeps the largest threshold")
        goal = self.goals[place]
        delta = _delta(own_goal(goal, total_sites(self.sites)))
        for kind, votes in zip(self.sites, self.own(place), strict=True):
            needed = self.fewest(kind.n, 1, goal, self.offsets(place), delta)
            if needed is None or votes < needed:
                raise ValueError("a site's own count is too small for a promise to each site")

    def threshold_cell(self, place: int, level: Level, counts: Mapping[str, Sequence[int]]) -> int:
        largest = 0
        for kind, votes in zip(self.sites, self.own(place), strict=True):
            for name in kind.names:
                n_points = sum(counts[name]) if self.message.epsilon is None else kind.n
                cell = last_passage(counts[name], n_points, votes, self.offsets(place))
                largest = max(largest, cell)
        return largest

    def _own_laws(self, place: int) -> list[CoverageLaw]:
        laws = []
        for kind, votes in zip(self.sites, self.own(place), strict=True):
            if self.message.epsilon is None:
                laws.append(CoverageLaw(1, kind.n, votes, 1))
            else:
                curve = NoisyCurve(kind.n, votes, self.noise(1), self.offsets(place))
                laws.append(CoverageLaw.of_sites(curve, np.array([1]), server_rank=1))
        return laws

    def law(self, place: int, level: Level) -> CoverageLaw:
        if level.advice is not None:
            return EachSiteLaw((kind.n, kind.n + 1) for kind in self.sites)
        pairs = zip(self.sites, self.own(place), strict=True)
        return EachSiteLaw(((kind.n, min(votes, kind.n)) for kind, votes in pairs), self._own_laws(place))

    def guarantee(self, place: int, level: Level) -> Guarantee:
        law, wanted = self.law(place, level), float(self.goals[place].level)
        return Guarantee(law.mean(), wanted, float(law.sf(wanted)))

    def tolerates(self, place: int, n_missing: int) -> bool:
        return n_missing < total_sites(self.sites)

    def advise(self, place: int, n_missing: int = 0) -> Advice:
        goal = self.goals[place]
        delta = _delta(own_goal(goal, total_sites(self.sites)))

        def suffices(n: int) -> bool:
            return self.fewest(n, 1, goal, self.offsets(place), delta) is not None

        return Advice(n_points=smallest(suffices, start=1, stop=2**24))

    def pooled(self, place: int, level: Level) -> NoisyCurve:
        """Return the curve of the smallest site, whose threshold varies most."""
        kind, votes = min(zip(self.sites, self.own(place), strict=True), key=lambda pair: pair[0].n)
        return NoisyCurve(kind.n, votes, self.noise(1), self.offsets(place))


class _MixtureRules(_Rules):
    """New cases come from the sites with known shares: counts are weighted by these."""

    promise: ClassVar[str] = "mixture"
    has_unit: ClassVar[bool] = True

    def completed(self) -> Curve:
        """Choose the votes of the whole mixture."""
        shares = [(kind.share or Fraction(0)) / (kind.n + 1) for kind in self.sites]
        unit = common_denominator(shares, _LARGEST_UNIT) or _LARGEST_UNIT
        return self.message.model_copy(update={"unit": unit})

    @property
    def hopeless(self) -> int:
        return self._unit + 1

    @property
    def _unit(self) -> int:
        return self.message.unit or 1

    def _needed(self, place: int) -> int:
        return math.ceil(self._unit * self.goals[place].level)

    def _most(self, n_missing: int = 0) -> int:
        """Votes of all scores, if the sites with most votes are missing."""
        own = sorted((floor_votes(self._unit, kind, kind.n), kind.count) for kind in self.sites)
        total = sum(votes * number for votes, number in own)
        for votes, number in reversed(own):
            gone = min(n_missing, number)
            total, n_missing = total - gone * votes, n_missing - gone
        return total

    def solve(self, place: int, planned: Level | None = None) -> Level:
        if self._most() >= self._needed(place):
            return make_level(self.goals[place], self._needed(place))
        return make_level(self.goals[place], self.hopeless, self.advise(place))

    def check(self, place: int, level: Level) -> None:
        check_shares(self.sites)
        if not self._needed(place) <= (level.votes or 0) <= self._unit:
            raise ValueError("the votes needed are too few for a promise to this mixture")

    def threshold_cell(self, place: int, level: Level, counts: Mapping[str, Sequence[int]]) -> int:
        curves = [
            [floor_votes(self._unit, kind, int(total)) for total in np.cumsum(counts[name], dtype=object)]
            for kind in self.sites
            for name in kind.names
        ]
        votes = [sum(column) for column in zip(*curves, strict=True)]
        reached = (cell for cell, total in enumerate(votes) if total >= (level.votes or 1))
        return next(reached, self.message.n_cells - 1)

    def law(self, place: int, level: Level) -> None:
        return None

    def guarantee(self, place: int, level: Level) -> Guarantee:
        return Guarantee(1.0 if level.advice is not None else (level.votes or 0) / self._unit)

    def tolerates(self, place: int, n_missing: int) -> bool:
        return self._most(n_missing) >= self._needed(place)

    def advise(self, place: int, n_missing: int = 0) -> Advice:
        left, out, level = Fraction(0), n_missing, self.goals[place].level
        for kind in sorted(self.sites, key=lambda kind: -(kind.share or 0)):
            left += max(kind.count - out, 0) * (kind.share or 0)
            out = max(out - kind.count, 0)
        return Advice(n_points=math.ceil(level / (left - level)) if left > level else None)


_RULES: dict[str, type[_Rules]] = {
    rules.promise: rules for rules in (_PopulationRules, _EachSiteRules, _MixtureRules)
}
