"""Claims of a calibration or a plan, level by level, for all cases or for one group of
them.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fedconformal import baselines, messages
from fedconformal._util import Floats
from fedconformal.documents import Calibration, CalibrationPart, Design, Gridded, Plan
from fedconformal.laws import Summary
from fedconformal.monitoring import shifted_law
from fedconformal.pages._render import disclosure, expected_mean, has_law
from fedconformal.planning import CRITERIA, PROMISES, Guarantee, PromiseScope

_MOST_OPERATIONS = 10_000  # of all distributions of a page
_MOST_NUMBERS = 2000  # of one distribution
_CALL = 25  # operations of any distribution that is not of one kind of site
_VOTES = 200  # that take as long as one number
_LARGE = 10**8  # points from which on the numbers of uneven sites take longer
_BOUNDED = 5  # how much longer the worst of many distributions takes
_ROOTS = (
    5  # square root of the points that take as long as one number, where there is noise
)
_CELLS = 50  # cells of a grid that take as long as one number
_MOST_CELLS = 1000  # cells of a grid on which the coverage is simulated


class Budget:
    """Operations for the distributions of a page, which a hostile calibration must not
    exceed.

    They are estimated from sizes and counted, not timed: the same calibration has the
    same page on any machine.
    """

    def __init__(self) -> None:
        self._remaining = _MOST_OPERATIONS
        self.has_sufficed = True

    def allows(self, n_numbers: int, n_votes: int = 0) -> bool:
        """Spend what a distribution of this many different numbers and votes takes;
        return whether that much was left.
        """
        operations = 1 + n_numbers
        if n_votes > 0:
            operations += _CALL + n_votes // _VOTES
        is_allowed = n_numbers <= _MOST_NUMBERS and operations <= self._remaining
        if is_allowed:
            self._remaining -= operations
        self.has_sufficed = self.has_sufficed and is_allowed
        return is_allowed


def count_law_numbers(design: Design, place: int) -> int:
    """Return how many numbers a distribution is of, times what makes each take
    longer.
    """
    message, promise = messages.of(design.message), PROMISES[design.promise]()
    sizes = {kind.n for kind in design.kinds}
    noisy = 0
    if (
        message.epsilon(design) is not None
    ):  # of many points, and of many sites where each draws a cell
        n_points = sum(kind.count * kind.n for kind in design.kinds)
        roots = max(math.isqrt(n_points), sum(map(math.isqrt, sizes))) // _ROOTS
        noisy = roots if message.adds_up else roots + (design.n_sites or 0)
    if not has_law(promise):
        return noisy
    ranks = message.local_ranks(design, place)
    if ranks is None:
        n_sizes = len(sizes) if message.is_bound(design) else 1
        return noisy + n_sizes * getattr(design.message, "n_cells", _CELLS) // _CELLS
    rows = {(kind.n, own) for kind, own in zip(design.kinds, ranks, strict=True)}
    if len(rows) == 1 and all(len(own) == 1 for _, own in rows):
        return noisy + 1
    numbers = sum(len(own) ** 2 * (1 + n // _LARGE) for n, own in rows)
    return noisy + numbers * (1 + design.max_faulty) ** 2 * (
        _BOUNDED if message.is_bound(design) else 1
    )


class Claim:
    """Claim for all cases, or for one group of them, with a claim for each level.

    Parameters
    ----------
    plan : Plan
        The plan.
    design : Design
        Of the group: as it is planned, or as it was solved for the sites that answered.
    budget : Budget
        Operations for all claims of a page.
    calibration : Calibration, optional
        What is claimed, with ``part`` of the group; left out, a plan is shown.
    part : CalibrationPart, optional
        The group's part of the calibration.
    """

    def __init__(
        self,
        plan: Plan,
        design: Design,
        budget: Budget,
        calibration: Calibration | None = None,
        part: CalibrationPart | None = None,
    ) -> None:
        self.design, self.budget, self.calibration, self.part = (
            design,
            budget,
            calibration,
            part,
        )
        self.planned = plan.by_group[design.group]
        self.label = design.group or ""
        self.message = messages.of(design.message)
        self.criterion = CRITERIA[design.criterion]()
        self.scope = PromiseScope.of(plan, design)
        self.promise = self.scope.promise
        self.delta = None if design.delta is None else float(design.delta)
        self.is_bound = self.message.is_bound(design)
        self.words = messages.claim(design, plan.score)
        self.n_points = sum(kind.count * kind.n for kind in design.kinds)
        self.n_answers = design.n_sites or 0
        self.group = ""  # to be read after "the": "class “sick” at the site “north”"
        if self.label:
            site, label = plan.grouping.parts_of(self.label)
            kind = "class" if plan.grouping.by_class else "group"
            parts = [f"{kind} “{label}”"] * (label is not None) + [f"site “{site}”"] * (
                site is not None
            )
            self.group = " at the ".join(parts)
        self.levels = [LevelClaim(self, place) for place in range(len(design.levels))]
        self.has_votes = any(
            votes not in ((), (1,)) for level in self.levels for votes in level.votes
        )

    @cached_property
    def answers(self) -> list[Answered]:
        """Numbers of each site, by name."""
        rows = sorted(
            (name, i) for i, kind in enumerate(self.design.kinds) for name in kind.names
        )
        sizes = [kind.n for kind in self.design.kinds]
        return [
            Answered(self, site, sizes[i], disclosure(self.design, sizes[i], site), i)
            for site, i in rows
        ]


class Answered(NamedTuple):
    """A site's answer for a group, described by its message; ``place`` is that of its
    kind in the design.
    """

    claim: Claim
    site: str
    n: int
    sent: str
    place: int


def _twice_the_misses(c: Floats) -> Floats:
    return np.maximum(0.0, 2 * c - 1)


class LevelClaim:
    """Claim at one confidence level: the level ``place`` of a claim."""

    def __init__(self, claim: Claim, place: int) -> None:
        self.claim, self.place = claim, place
        self.solved = claim.design.levels[place]
        self.level = float(self.solved.confidence_level)
        self.threshold = (
            math.inf if claim.part is None else claim.part.thresholds[place]
        )
        self.is_finite = self.threshold < math.inf
        self.is_answered = (
            self.solved.votes is not None
        )  # by sites enough for any threshold, be it infinite
        self.votes = claim.message.votes(claim.design, place) or ()
        kinds = zip(claim.design.kinds, self.votes, strict=False)
        self.n_votes = sum(kind.count * sum(own) for kind, own in kinds)
        group = f" of the {claim.group}" if claim.group else ""
        self.promised = claim.scope.sentence(
            claim.criterion, self.level, claim.delta, group=group, claim=claim.words
        )

    @cached_property
    def _law(self) -> tuple[Summary | None, bool]:
        """Distribution of the coverage, and whether there is one that takes too
        long.
        """
        if not self.is_answered or not self._can_afford():
            return None, self.is_answered
        law = messages.law(self.claim.design, self.place)
        if law is None:
            return None, False
        summary = Summary(law, self.level)
        try:
            is_valid = summary.is_certain or summary.low <= 1
        except ValueError:  # more votes than can be counted
            is_valid = False
        return summary if is_valid else None, not is_valid

    @property
    def law(self) -> Summary | None:
        """Distribution of the coverage, or a bound of it; None if there is none, or it
        takes too long.
        """
        return self._law[0]

    @property
    def is_left_out(self) -> bool:
        """True if there is a distribution that takes too long."""
        return self._law[1]

    @property
    def guarantee(self) -> Guarantee | None:
        """Guarantee; None if too few sites answered, or the distribution takes too
        long.
        """
        if self.is_left_out:
            return None
        guarantee: Guarantee | None = messages.guarantee(self.claim.design, self.place)
        return guarantee

    @cached_property
    def _n_numbers(self) -> int:
        return count_law_numbers(self.claim.design, self.place)

    @property
    def _counted_votes(self) -> int:
        """Votes that are added up; 0 where a formula takes their place, as of sites of
        one kind that send one number.
        """
        return self.n_votes if self._n_numbers > 1 else 0

    def _can_afford(self, times: int = 1) -> bool:
        """Return whether operations are left for this many distributions."""
        budget, votes = self.claim.budget, self._counted_votes
        return budget.allows(times * self._n_numbers, times * votes)

    @cached_property
    def sensitivity(self) -> tuple[float, float, float] | None:
        """Mean coverages if one site differs, where the promise assumes that none does
        and there is time.

        The first two are at that site and elsewhere, whichever it is, if every
        threshold misses twice the share of its cases that it misses at the others; the
        last is a lower bound elsewhere, whatever the scores of the one site are.
        """
        claim, design = self.claim, self.claim.design
        is_shown = (
            self.has_picture
            and claim.n_answers > 1
            and not claim.scope.allows_differing_sites
        )
        has_ranks = claim.message.local_ranks(design, self.place) is not None and all(
            kind.names for kind in design.kinds
        )
        if not (
            self.is_finite
            and is_shown
            and has_ranks
            and self._can_afford(len(design.kinds) + 4)
        ):
            return None
        assert claim.calibration is not None
        selected = claim.calibration[claim.label] if claim.label else claim.calibration
        laws = [
            shifted_law(
                selected,
                {kind.names[0]: _twice_the_misses},
                confidence_level=self.level,
            )
            for kind in design.kinds
        ]
        elsewhere = min(law.mean() for law in laws)
        wrong = messages.law(
            design.model_copy(update={"max_faulty": design.max_faulty + 1}), self.place
        )
        return max(0.0, 2 * elsewhere - 1), elsewhere, wrong.mean()

    @cached_property
    def expected_mean(self) -> float | None:
        """Expected coverage of private sets for evenly spread scores, where there is
        time to compute it.
        """
        design = self.claim.design
        is_small = getattr(design.message, "n_cells", 0) <= _MOST_CELLS
        if not self.is_finite or not is_small or not self._can_afford():
            return None
        return expected_mean(design, self.place)

    @property
    def cell_width(self) -> float | None:
        """Width of the cell that the threshold ends; None without a grid, or if it has
        no beginning.
        """
        message = self.claim.design.message
        edges = message.edges if isinstance(message, Gridded) else ()
        place = bisect_left(edges, self.threshold)
        width = edges[place] - edges[place - 1] if 0 < place < len(edges) else math.inf
        return width if width < math.inf else None

    @property
    def last_edge(self) -> float | None:
        """Score above which scores count as infinite, where they are placed on a
        grid.
        """
        message = self.claim.design.message
        return (
            message.edges[message.n_cells - 2] if isinstance(message, Gridded) else None
        )

    @cached_property
    def needed_every_site(self) -> bool:
        """True if one site less could have made the threshold infinite, where there is
        time to tell.
        """
        claim, design = self.claim, self.claim.design
        if not self.is_finite or claim.n_answers < 2 or not self._can_afford():
            return False
        return claim.design.message.is_masked or not claim.message.tolerates(
            design, self.place, 1
        )

    @cached_property
    def pooled(self) -> Summary | None:
        """Distribution with all cases in one place, where that would satisfy the same
        promise.
        """
        if not self.claim.promise.pools or self.claim.n_points == 0:
            return None
        return Summary(
            baselines.coverage_law(self.claim.n_points, self.level), self.level
        )

    @property
    def has_picture(self) -> bool:
        """True if there is a distribution to draw that is not certain."""
        return self.law is not None and not self.law.is_certain
