"""Our own analysis: free slopes, the law of the private threshold itself, and no more noise than it takes."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import ClassVar

import numpy as np

from fedconformal.privacy._aims import Aim, Slopes
from fedconformal.privacy.analyses._base import ANALYSES, Analysis
from fedconformal.privacy.analyses._search import PrivateChoice, PrivateSearch
from fedconformal.privacy.mechanisms import Mechanism

_USUAL = Fraction(7, 10)
_RANKS = 8  # server ranks that are tried first


@ANALYSES.register
class Tight(Analysis):
    """The promise follows from a bound on the rank of every release, with no union bound over the sites.

    Sites aim at a rank, and bins that miss it are worse by a slope of their own on either side (see
    `Slopes`). The noise is as small as the mechanism's privacy allows: neighbours change the errors by
    amounts in an interval of width u + v, and so the scale is (u + v) / epsilon.

    Examples
    --------
    >>> import fedconformal as fc
    >>> fc.Privacy(1.0, fc.Bins.uniform(0, 1, 10)).release().analysis.name
    'tight'
    """

    name: ClassVar[str] = "tight"
    default_mechanism: ClassVar[str] = "permute-and-flip"
    slopes: ClassVar[tuple[Fraction | None, ...]] = tuple(Fraction(i, 20) for i in range(7, 20))
    """Slopes that are tried, the steepest below last."""

    def aim(self, quantile: Fraction, slope: Fraction | None = None) -> Aim:
        """A rank with a slope on either side."""
        if slope is None:
            raise ValueError(f"slope must be a fraction in (0, 1) with the {self.name} analysis, got None")
        return Slopes(quantile, slope)

    def usual_aim(self, quantile: Fraction) -> Aim:
        """A bin below is worse than one above as 7 to 3."""
        return self.aim(quantile, _USUAL)

    def width(self, aim: Aim) -> int:
        """No more than the errors change."""
        return aim.change

    def check(
        self,
        *,
        mechanism: Mechanism,
        n_sizes: int = 1,
        criterion: str | None = None,
        max_faulty: int = 0,
    ) -> None:
        """Everything goes together."""

    def choose(self, search: PrivateSearch) -> PrivateChoice | None:
        """The choice whose expected coverage costs least among those whose promise holds for all data.

        For each slope and server rank the smallest valid quantile is found; first for a few of them spread
        over all, then around the best.
        """
        tried, ranks = _Tried(self, search), search.judged
        quarters = {i * len(self.slopes) // 4 for i in (1, 2, 3)}
        tried.add(product(sorted(quarters), _spread(ranks, _RANKS)))
        step = max(1, len(ranks) // _RANKS)
        while tried.found:
            slope, k = tried.best
            around = product((slope - 1, slope, slope + 1), (k - step, k, k + step))
            if not tried.add(around) or tried.best == (slope, k):
                if step == 1:
                    break
                step //= 2
        return tried.confirmed()

    def has_plan(self, search: PrivateSearch) -> bool:
        """Whether the largest threshold of all keeps the promise."""
        return search.is_valid(self._last(search), search.ranks.stop - 1)

    def _last(self, search: PrivateSearch) -> Aim:
        """The aim with the largest threshold: the steeper below, the less can go wrong there."""
        return self.aim(_quantile(search, search.finest), self.slopes[-1])


@dataclass
class _Tried:
    """Slopes and server ranks that were tried: the step of the smallest valid quantile, and what it costs."""

    analysis: Tight
    search: PrivateSearch
    found: dict[tuple[int, int], tuple[float, int]] = field(default_factory=dict)
    asked: set[tuple[int, int]] = field(default_factory=set)

    @property
    def best(self) -> tuple[int, int]:
        return min(self.found, key=lambda place: (self.found[place][0], place))

    def add(self, places: Iterable[tuple[int, int]]) -> bool:
        """Try those that are new; whether there were any."""
        new = [
            (slope, k)
            for slope, k in places
            if (slope, k) not in self.asked
            and slope in range(len(self.analysis.slopes))
            and k in self.search.judged
        ]
        self.asked.update(new)
        for place in new:
            step = self._smallest_step(*place)
            if step is not None:
                self.found[place] = self._cost(step, *place), step
        return bool(new)

    def confirmed(self) -> PrivateChoice | None:
        """The cheapest choice that is valid beyond doubt."""
        for slope, k in sorted(self.found, key=lambda place: (self.found[place][0], place)):
            for step in range(self.found[slope, k][1], self.search.finest + 1):
                aim = self._aim(step, slope)
                if self.search.is_valid(aim, k):
                    return PrivateChoice(aim, k, self.search.expected(aim, k)[0])
        last, k = self.analysis._last(self.search), self.search.ranks.stop - 1
        if self.search.ranks and self.search.is_valid(last, k):
            return PrivateChoice(last, k, self.search.expected(last, k)[0])
        return None

    def _aim(self, step: int, slope: int) -> Aim:
        return self.analysis.aim(_quantile(self.search, step), self.analysis.slopes[slope])

    def _cost(self, step: int, slope: int, k: int) -> float:
        return self.search.expected(self._aim(step, slope), k)[1]

    def _smallest_step(self, slope: int, k: int) -> int | None:
        """The smallest quantile that seems valid, looked for around that of the nearest place."""
        low, high = 0, self.search.finest + 1
        at, reach = self._near(slope, k), 1
        while high - low > 1:
            if self.search.seems_valid(self._aim(at, slope), k):
                high, at = at, max(at - reach, low + 1) if low == 0 else (low + at) // 2
            else:
                low, at = at, min(at + reach, high - 1) if high > self.search.finest else (at + high) // 2
            reach *= 2
        return high if high <= self.search.finest else None

    def _near(self, slope: int, k: int) -> int:
        """Where to look first."""
        m = self.search.n_sites
        near = min(
            self.found, key=lambda place: abs(place[0] - slope) / 10 + abs(place[1] - k) / m, default=None
        )
        guess = float(self.search.level) * self.search.finest if near is None else self.found[near][1]
        return min(max(round(guess), 1), self.search.finest)


def _quantile(search: PrivateSearch, step: int) -> Fraction:
    """The middle of a step, so that sites of as many scores as there are steps aim at its rank."""
    return Fraction(2 * step - 1, 2 * search.finest)


def _spread(ranks: range, most: int) -> list[int]:
    """All of these whole numbers, or an even choice of them."""
    if not ranks:
        return []
    chosen = np.linspace(ranks.start, ranks.stop - 1, min(most, len(ranks)))
    return sorted(set(chosen.round().astype(int).tolist()))
