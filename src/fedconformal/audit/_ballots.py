"""Who answered at a level with which ranks, and how many votes each number has."""

from collections import Counter
from typing import NamedTuple

from fedconformal.documents import Calibration


class Ballot(NamedTuple):
    """What a site sent at one level."""

    n: int
    ranks: tuple[int, ...]
    votes: tuple[int, ...]

    @property
    def is_single(self) -> bool:
        """Whether it is one number with one vote."""
        return self.votes == (1,)

    @property
    def finite_votes(self) -> int:
        """The votes of its finite numbers: a rank above the size stands for infinity."""
        return sum(vote for rank, vote in zip(self.ranks, self.votes, strict=True) if rank <= self.n)


def ballots(calibration: Calibration, level: int) -> Counter[Ballot]:
    """How many sites sent what; those that were not asked at this level do not occur.

    Parameters
    ----------
    calibration : Calibration
        Without groups.
    level : int
        Place of the confidence level.

    Returns
    -------
    Counter
    """
    part = calibration.part
    asked = [answer for answer in part.answers if answer.ranks[level]]
    found = Counter(Ballot(answer.n, answer.ranks[level], answer.votes[level]) for answer in asked)
    for together in part.aggregated or ():
        ranks = together.ranks[level]
        found[Ballot(together.n, ranks, (1,) * len(ranks))] += together.count
    return found
