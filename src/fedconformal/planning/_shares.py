"""The shares that rank vectors follow, as pairs of whole numbers: of thousands, a few become fractions."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fedconformal._typing import Bools, Ints


@dataclass(frozen=True, eq=False)
class Shares:
    """A share for each of several vectors, or none.

    Parameters
    ----------
    tops, bottoms : array of shape (vectors,)
        Numerators and denominators; a denominator of 0 where a vector follows no share.
    """

    tops: Ints
    bottoms: Ints

    @classmethod
    def none(cls, count: int) -> "Shares":
        """So many vectors that follow no share."""
        return cls(np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64))

    @classmethod
    def one(cls, share: Fraction | None) -> "Shares":
        """A single vector."""
        if share is None:
            return cls.none(1)
        kind = np.int64 if share.denominator < 2**62 else object
        return cls(np.array([share.numerator], dtype=kind), np.array([share.denominator], dtype=kind))

    @classmethod
    def joined(cls, parts: list["Shares"]) -> "Shares":
        """Those of several families, one after the other."""
        return cls(
            np.concatenate([part.tops for part in parts]), np.concatenate([part.bottoms for part in parts])
        )

    def __len__(self) -> int:
        """How many vectors."""
        return int(self.bottoms.size)

    def __getitem__(self, vector: int) -> Fraction | None:
        """The share of a vector."""
        top, bottom = int(self.tops[vector]), int(self.bottoms[vector])
        return Fraction(top, bottom) if bottom else None

    def __iter__(self) -> Iterator[Fraction | None]:
        """Of every vector."""
        return (self[vector] for vector in range(len(self)))

    @property
    def known(self) -> list[int]:
        """The vectors that follow a share."""
        found: list[int] = np.flatnonzero(self.bottoms).tolist()
        return found

    def chosen(self, kept: Bools | list[int]) -> "Shares":
        """Those of some vectors."""
        return Shares(self.tops[kept], self.bottoms[kept])
