"""What free slopes replaced: the paper's errors with no more noise than they need, searched as ours is."""

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import ClassVar

from fedconformal.privacy import ANALYSES, Aim, Balanced
from fedconformal.privacy.analyses import Tight


class Tied(Tight):
    """Slopes that follow from the quantile."""

    name: ClassVar[str] = "tied"
    slopes: ClassVar[tuple[Fraction | None, ...]] = (None,)

    def aim(self, quantile: Fraction, slope: Fraction | None = None) -> Aim:
        """The errors of Algorithm 2, which need a half at least."""
        return Balanced(max(quantile, Fraction(1, 2)))


@contextmanager
def tied() -> Iterator[str]:
    """The name of this analysis, while it can be used."""
    ANALYSES.register(Tied)
    try:
        yield Tied.name
    finally:
        ANALYSES.unregister(Tied.name)
