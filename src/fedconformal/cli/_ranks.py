"""Ranks and votes, as a table shows them."""

from collections.abc import Sequence

from fedconformal._text import count
from fedconformal.planning import Cases, Design

_MOST_RANKS = 6


def ranks_text(ranks: Sequence[int]) -> str:
    """The ranks of one site: 106, 109, 112; of many the first and the last."""
    if not ranks:
        return "not asked"
    if len(ranks) <= _MOST_RANKS:
        return ", ".join(map(str, ranks))
    return f"{ranks[0]}, {ranks[1]}, ..., {ranks[-1]} ({len(ranks)} numbers)"


def drawn_text(how_many: int) -> str:
    """Cases that are drawn, in the place of ranks."""
    return f"{count(how_many, 'random case')} of each site"


def all_ranks_text(design: Design) -> str:
    """The ranks of all sites: the same for all of them, or from where to where."""
    if isinstance(design.sending, Cases):
        return drawn_text(design.sending.numbers)
    different = sorted({block.ranks for block in design.asked})
    if len(different) == 1:
        return ranks_text(different[0])
    low, high = min(ranks[0] for ranks in different), max(ranks[-1] for ranks in different)
    fewest, most = min(map(len, different)), max(map(len, different))
    each = f", {'' if fewest == most else 'up to '}{most} each" if most > 1 else ""
    return f"{low} to {high}{each}"


def votes_text(votes: Sequence[int]) -> str:
    """The votes of one site, and of each number where it sends several."""
    if len(votes) < 2:
        return str(sum(votes))
    each = f"{votes[0]} each" if len(set(votes)) == 1 else " + ".join(map(str, votes))
    return f"{sum(votes)} ({each})"


def votes_needed(design: Design) -> str:
    """The votes that the threshold needs, of all there are."""
    return f"{design.server_rank} of {design.total_votes}" if design.is_finite else "infinite"
