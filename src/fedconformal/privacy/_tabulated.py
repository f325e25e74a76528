"""Site laws that are known at a few coverages alone."""

from dataclasses import dataclass

import numpy as np

from fedconformal._typing import Bools, Floats


@dataclass(frozen=True, eq=False)
class Tabulated:
    """Sites of which only a table is known: how likely they lie below, row by row.

    Parameters
    ----------
    below_rows : array of shape (rows, blocks)
        For each row, and each block of sites.

    Examples
    --------
    >>> import numpy as np
    >>> from fedconformal.privacy import Tabulated
    >>> Tabulated(np.array([[0.1, 0.2], [0.6, 0.7]])).n_blocks
    2
    """

    below_rows: Floats

    @property
    def n_blocks(self) -> int:
        """How many blocks of equal sites there are."""
        return int(self.below_rows.shape[1])

    @property
    def sends_infinity(self) -> Bools:
        """No block sends +inf for sure."""
        return np.zeros(self.n_blocks, dtype=bool)

    def below(self, c: Floats) -> Floats:
        """The rows, whatever is asked."""
        return self.below_rows

    def bracket(self, v: float, w: float) -> tuple[float, float]:
        """Nothing is known between the rows."""
        return 0.0, 1.0

    def rvs(self, block: int, size: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """A table cannot be drawn from."""
        raise NotImplementedError
