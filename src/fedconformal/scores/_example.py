"""Numbers for an example of an interval: round ones, with as many digits as show how wide it is."""

import math
from dataclasses import dataclass

_SMALLEST, _LARGEST = 1e-9, 1e12  # of a margin of an example
_USUAL = (0.05, 50.0)  # margins that a prediction of 100 shows well


@dataclass(frozen=True)
class Example:
    """Round numbers of a size with a margin, and as many digits as show it.

    Parameters
    ----------
    margin : float
        What is added on either side.
    unit : str
        Of the numbers, where there is one.
    """

    margin: float
    unit: str = ""

    @property
    def is_readable(self) -> bool:
        """Whether an example can be written out, or has no margin at all."""
        return self.margin == 0 or _SMALLEST <= abs(self.margin) <= _LARGEST

    @property
    def center(self) -> float:
        """A prediction: 100, or a power of ten that is larger than the margin, but not much."""
        if self.margin == 0 or _USUAL[0] <= abs(self.margin) <= _USUAL[1]:
            return 100.0
        return float(10.0 ** (math.floor(math.log10(abs(self.margin))) + 2))

    def about(self, low: float, high: float) -> str:
        """An interval, rounded to three digits of the margin: "96.06 to 103.94 days"."""
        digits = 2 if self.margin == 0 else max(0, 2 - math.floor(math.log10(abs(self.margin))))
        return self.told(f"{low:,.{digits}f} to {high:,.{digits}f}")

    def exact(self, number: float) -> str:
        """A round number with its unit."""
        return self.told(f"{number:,.12f}".rstrip("0").rstrip("."))

    def told(self, text: str) -> str:
        """Text with the unit, where there is one."""
        return f"{text} {self.unit}" if self.unit else text


NO_NUMBER = "No number has a score below 0: with this threshold every set is empty."
