"""What a design must achieve at one level."""

from dataclasses import dataclass, field
from fractions import Fraction

from fedconformal.documents import Design
from fedconformal.planning.criteria import CRITERIA, Criterion, Stable

USUAL_DELTA = Fraction(1, 10)


@dataclass(frozen=True)
class Goal:
    """A level, and the criterion under which it is to be reached.

    Parameters
    ----------
    level : Fraction
        The coverage that was asked for.
    criterion : Criterion
        Which choices are valid, and which is best.
    delta : Fraction
        Probability of failure that is allowed, for criteria that take it.
    max_faulty : int
        Number of reports that may be arbitrary.
    max_missing : int or None
        Number of sites that may be missing, in any combination, without making the threshold infinite. None:
        one, where that costs next to nothing.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedconformal.planning import Goal
    >>> Goal(Fraction(9, 10)).criterion.name
    'stable'
    """

    level: Fraction
    criterion: Criterion = field(default_factory=Stable)
    delta: Fraction = USUAL_DELTA
    max_faulty: int = 0
    max_missing: int | None = None

    @classmethod
    def of(cls, design: Design, place: int) -> "Goal":
        """Return the goal of one level of a design."""
        return cls(
            design.levels[place].confidence_level,
            CRITERIA[design.criterion](),
            design.delta or USUAL_DELTA,
            design.max_faulty,
            design.max_missing,
        )
