"""What a design must achieve."""

from dataclasses import dataclass, field
from fractions import Fraction

from fedconformal.planning.criteria import Criterion, Stable


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
        How often the promise may fail, for criteria that take it.
    max_faulty : int
        How many reports may be arbitrary.
    max_missing : int or None
        How many sites may stay silent, whichever they are, without making the threshold infinite. None: one,
        where that costs next to nothing.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedconformal.planning import Goal
    >>> Goal(Fraction(9, 10)).criterion.name
    'stable'
    """

    level: Fraction
    criterion: Criterion = field(default_factory=Stable)
    delta: Fraction = Fraction(1, 10)
    max_faulty: int = 0
    max_missing: int | None = None
