"""What a coordinator wishes for: levels, criterion, promise, and what every site may send."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

from fedconformal import _validation
from fedconformal.documents import MOST_LEVELS
from fedconformal.planning import CRITERIA, MOST_NUMBERS, PROMISES, Criterion, Goal, Promise
from fedconformal.privacy import ANALYSES, Privacy

SEARCHED, _PAPER = "common", "paper"
_SMALLEST_DELTA, _SMALLEST_DELTA_IF_FAULTY = Fraction("1e-300"), Fraction("1e-6")


@dataclass(frozen=True)
class Wishes:
    """What is wanted of every group alike."""

    levels: tuple[Fraction, ...]
    criterion: Criterion
    delta: Fraction
    max_faulty: int
    promise: Promise
    shares: tuple[Fraction | None, ...]
    numbers: int
    max_missing: int | None

    @classmethod
    def of(
        cls,
        confidence_level: Any,
        criterion: str | None,
        delta: Any,
        max_faulty: Any,
        promise: str,
        local_ranks: Any,
        privacy: Privacy | None,
        numbers: Any,
        max_missing: Any,
    ) -> Self:
        """Read the arguments of `plan`; what is left out is as the promise, or the privacy, has it."""
        levels, promised = _levels(confidence_level), PROMISES[promise]()
        _validation.choice("local_ranks", local_ranks, (SEARCHED, _PAPER))
        usual = None if privacy is None else ANALYSES[privacy.analysis].default_criterion
        usual_numbers = promised.default_numbers if privacy is None else 1
        return cls(
            levels,
            CRITERIA[(usual or promised.default_criterion) if criterion is None else criterion](),
            _delta(delta, max_faulty),
            _validation.integer("max_faulty", max_faulty, low=0),
            promised,
            tuple(level if local_ranks == _PAPER else None for level in levels),
            _numbers(usual_numbers if numbers is None else numbers, local_ranks, privacy),
            None if max_missing is None else _validation.integer("max_missing", max_missing, low=0),
        )

    def goal(self, level: Fraction) -> Goal:
        """What is to be reached at one level."""
        return Goal(level, self.criterion, self.delta, self.max_faulty, self.max_missing)


def _levels(confidence_level: Any) -> tuple[Fraction, ...]:
    if isinstance(confidence_level, Iterable) and not isinstance(confidence_level, (str, bytes)):
        given = list(confidence_level)
        if len(given) > MOST_LEVELS:
            raise ValueError(f"confidence_level must hold at most {MOST_LEVELS} levels, got {len(given)}")
        levels = tuple(_validation.fraction("confidence_level", level) for level in given)
        if not levels or len(set(levels)) < len(levels):
            raise ValueError(f"confidence_level must hold different levels, got {given!r}")
        return levels
    return (_validation.fraction("confidence_level", confidence_level),)


def _delta(delta: Any, max_faulty: Any) -> Fraction:
    """A probability that the laws tell precisely; those of the worst faulty sites have fewer digits."""
    value = _validation.fraction("delta", delta, high=0.5, closed=True)
    least = _SMALLEST_DELTA_IF_FAULTY if max_faulty else _SMALLEST_DELTA
    if value < least:
        where = " with max_faulty" if max_faulty else ""
        raise ValueError(f"delta must be between {float(least):g} and 0.5{where}, got {delta}")
    return value


def _numbers(numbers: Any, local_ranks: Any, privacy: Privacy | None) -> int:
    """How many numbers a site sends."""
    found = _validation.integer("numbers", numbers, low=1, high=MOST_NUMBERS)
    if found > 1 and privacy is not None:
        raise ValueError(
            f"numbers must be 1 with privacy, got {found}: epsilon would be split over the numbers of a site"
        )
    if found > 1 and local_ranks != SEARCHED:
        raise ValueError(
            f"numbers must be 1 with local_ranks, which fixes one rank for each site, got {found}"
        )
    return found
