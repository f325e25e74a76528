"""Which cases a site draws: the same for everybody who knows the round, and chosen by nobody.

The places are uniform over a site's sorted scores, given by SHA-256 of the plan's random round id and the
site's name, so a site that answers twice sends the same cases, and a new round draws new ones.
"""

import hashlib
from collections.abc import Iterator

_PURPOSE = "fedconformal/cases"
_WHOLE = 2**256


def drawn_ranks(round_id: str, site: str, n: int, how_many: int) -> tuple[int, ...]:
    """Ranks of the cases that a site draws without replacement.

    Parameters
    ----------
    round_id, site : str
        The plan's round, and the site's name.
    n, how_many : int
        How many scores the site has, and how many of them it draws.

    Returns
    -------
    tuple of int
        In increasing order, from 1 to n.
    """
    moved: dict[int, int] = {}  # the places of a shuffled deck that are not where they were
    drawn, numbers = [], _numbers(round_id, site)
    for i in range(min(how_many, n)):
        j = i + _below(n - i, numbers)
        drawn.append(moved.get(j, j) + 1)
        moved[j] = moved.get(i, i)
    return tuple(sorted(drawn))


def _numbers(round_id: str, site: str) -> Iterator[int]:
    """Endless random numbers of 256 bits."""
    key = hashlib.sha256("\0".join((_PURPOSE, round_id, site)).encode()).digest()
    counter = 0
    while True:
        yield int.from_bytes(hashlib.sha256(key + counter.to_bytes(8, "big")).digest(), "big")
        counter += 1


def _below(limit: int, numbers: Iterator[int]) -> int:
    """A uniform number below a limit; a draw from the incomplete last stretch is repeated."""
    fair = _WHOLE - _WHOLE % limit
    return next(number for number in numbers if number < fair) % limit
