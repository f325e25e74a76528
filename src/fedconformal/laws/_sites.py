"""Distributions of what sites send: how likely each number lies below the c-quantile of the scores.

Sites with one distribution form a block; a site law describes all blocks of a federation at once, so that a
thousand sites of different sizes cost one vectorised call.
"""

from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fedconformal import _util
from fedconformal._util import Bools, Floats, Ints

Distortion = Callable[[Floats], ArrayLike]
"""``h(c) = F_site(F^{-1}(c))``: the share of a site's scores below the c-quantile of the test point's."""

_OUTSIDE = 1e-17  # of a step: what is left below its first and above its last point


class SiteLaw(Protocol):
    """Distribution of what the sites of each block send, on the scale of coverage.

    A block's shape is ``(n_blocks,)`` where sites send one number, and ``(n_blocks, numbers)`` where they
    send several, in increasing order.
    """

    @property
    def sends_infinity(self) -> Bools:
        """Numbers that are +inf whatever the scores are: the blocks' shape."""
        ...

    def below(self, c: Floats) -> Floats:
        """Return P(number <= c-quantile): ``c.shape`` followed by the blocks' shape."""
        ...

    def bracket(self, v: float, w: float) -> tuple[float, float]:
        """Return two coverages: finite numbers lie below the first with at most v, above the last with w."""
        ...


@dataclass(frozen=True, eq=False)
class OrderStatistics:
    """Exact sites: a site of block b sends its l_b-th smallest of n_b scores (paper, lemma C.1).

    On the scale of coverage that is the l-th of n uniforms, hence ``p(c) = I_c(l, n - l + 1)``.

    Parameters
    ----------
    n_points : array of shape (blocks,)
        Scores at a site of each block.
    local_ranks : array of shape (blocks,) or (blocks, numbers)
        The rank that a site sends, or several in increasing order. A rank above n is +inf (p = 0), a rank
        of 0 is -inf (p = 1).

    Examples
    --------
    >>> import numpy as np
    >>> from fedconformal.laws import OrderStatistics
    >>> sites = OrderStatistics(np.array([100]), np.array([92]))
    >>> sites.below(np.array([0.9])).round(3)
    array([[0.321]])
    """

    n_points: Ints
    local_ranks: Ints

    @cached_property
    def _sizes(self) -> Ints:
        """The sizes, in the shape of the ranks."""
        return self.n_points if self.local_ranks.ndim == 1 else self.n_points[:, None]

    @property
    def sends_infinity(self) -> Bools:
        """Ranks above the size of the site."""
        return self.local_ranks > self._sizes

    @cached_property
    def shape(self) -> tuple[Floats, Floats, Bools]:
        """Parameters of each number's Beta distribution, and which numbers have one."""
        l, n = self.local_ranks, self._sizes
        proper = (l >= 1) & (l <= n)
        return np.where(proper, l, 1).astype(float), np.where(proper, n - l + 1, 1).astype(float), proper

    def below(self, c: Floats) -> Floats:
        """Return ``I_c(l, n - l + 1)``."""
        x = np.asarray(c, float)
        return self.below_shares(x.reshape(*x.shape, *[1] * self.local_ranks.ndim))

    def below_shares(self, share: Floats) -> Floats:
        """Return the same where ``share`` of the scores lie below, which may differ between blocks."""
        a, b, proper = self.shape
        p = special.betainc(a, b, share)
        return p if proper.all() else np.where(proper, p, (self.local_ranks < 1).astype(float))

    def bracket(self, v: float, w: float) -> tuple[float, float]:
        """Return the extreme quantiles of the finite numbers."""
        a, b, proper = self.shape
        if not proper.any():
            return 0.0, 1.0
        low = special.betaincinv(a[proper], b[proper], v)
        high = 1.0 - special.betaincinv(b[proper], a[proper], w)
        below_surely = bool((self.local_ranks < 1).any())
        return 0.0 if below_surely else float(low.min()), float(high.max())

    def steps(self, narrower: float) -> tuple[Floats, Floats]:
        """Return first and last points of all rises from 0 to 1 that are narrower than this."""
        a, b, proper = self.shape
        narrow = proper & (16 * np.sqrt(a * b / (a + b + 1)) / (a + b) < narrower)
        a, b = a[narrow], b[narrow]
        return special.betaincinv(a, b, _OUTSIDE), 1 - special.betaincinv(b, a, _OUTSIDE)


@dataclass(frozen=True, eq=False)
class Shifted:
    """Sites whose scores are distributed otherwise than the test point's (paper, section 3.5).

    Parameters
    ----------
    base : OrderStatistics
        What the sites send.
    distortions : sequence of callables
        ``distortions[b]`` is ``h(c) = F_b(F^{-1}(c))``: the share of a site's scores that lie below the
        c-quantile of the test point's scores. It must be non-decreasing from [0, 1] to [0, 1] and accept
        arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from fedconformal.laws import OrderStatistics
    >>> from fedconformal.laws import Shifted
    >>> sites = Shifted(OrderStatistics(np.array([100]), np.array([92])), [lambda c: c**2])
    >>> sites.below(np.array([0.9])).round(4)
    array([[0.0018]])
    """

    base: OrderStatistics
    distortions: Sequence[Distortion]

    @property
    def sends_infinity(self) -> Bools:
        """Ranks above the size of the site."""
        return self.base.sends_infinity

    def below(self, c: Floats) -> Floats:
        """Return ``I_{h(c)}(l, n - l + 1)``."""
        x = np.asarray(c, float)
        shares = [np.broadcast_to(np.asarray(h(x), float), x.shape) for h in self.distortions]
        share = np.stack(shares, axis=-1)
        if not np.all((share >= 0) & (share <= 1)):
            raise ValueError("a distortion must map [0, 1] to [0, 1]")
        return self.base.below_shares(share.reshape(*share.shape, *[1] * (self.base.local_ranks.ndim - 1)))

    def bracket(self, v: float, w: float) -> tuple[float, float]:
        """Return the whole range, as a distortion may do anything."""
        return 0.0, 1.0


# -- arguments of a coverage law, read site by site and put into blocks of equal sites ---------------------


Distortions = Distortion | Sequence[Distortion | None] | None

_MOST_VOTES = 2**53
_NONE = -1  # in place of a number that a site does not send


def group_sites(
    n_sites: Any, n_points: Any, local_rank: Any, weights: Any, distortion: Distortions
) -> tuple[SiteLaw, Ints, Ints]:
    """Return equal sites as blocks: their distribution, the number of sites, the votes of their numbers.

    The arguments are those of ``CoverageLaw``.
    """
    sizes = _read_flat("n_points", n_points, low=1)
    ranks, votes = _read_nested("local_rank", local_rank, low=0), _read_nested("weights", weights, low=1)
    shifts = [distortion] if distortion is None or callable(distortion) else list(distortion)
    columns: dict[str, Sized] = {
        "n_points": sizes,
        "local_rank": ranks,
        "weights": votes,
        "distortion": shifts,
    }
    lengths = {name: len(column) for name, column in columns.items() if len(column) > 1}
    if n_sites is not None:
        lengths["n_sites"] = _util.integer("n_sites", n_sites, low=1)
    _check_lengths(lengths, local_rank, flat=ranks.shape[1] == 1)
    _check_nesting(sizes.size, n_points, local_rank)
    falling = (np.diff(ranks, axis=1) <= 0) & (ranks[:, 1:] != _NONE)
    if falling.any():
        j = int(np.argmax(falling.any(axis=1)))
        raise ValueError(f"local_rank[{j}] must be strictly increasing, got {_entries(ranks[j])}")
    m, rows = max(lengths.values(), default=1), max(len(column) for column in columns.values())
    table = _tabulate(rows, sizes, ranks, votes, np.arange(len(shifts)))
    kinds, counts = np.unique(table, axis=0, return_counts=True) if rows > 1 else (table, np.array([m]))
    ranks, weights = np.split(kinds[:, 1:-1], 2, axis=1)
    total = sum(int(count) * sum(row) for count, row in zip(counts, weights.tolist(), strict=True))
    if total > _MOST_VOTES:
        raise ValueError(f"weights must add up to at most {_MOST_VOTES}, got {total}")
    if ranks.shape[1] == 1:
        ranks, weights = ranks[:, 0], weights[:, 0]
    sites = OrderStatistics(kinds[:, 0], ranks)
    if all(shift is None for shift in shifts):
        return sites, counts, weights
    return Shifted(sites, [shifts[i] or np.asarray for i in kinds[:, -1]]), counts, weights


def _read_flat(name: str, value: Any, *, low: int) -> Ints:
    """Read one whole number, or one for each site."""
    if _is_list(value):
        return _util.integers(name, value, low=low)
    return np.array([_util.integer(name, value, low=low)])


def _read_nested(name: str, value: Any, *, low: int) -> Ints:
    """Read the same, or several for each site: a row per site, filled up where it has fewer."""
    items = list(value) if _is_list(value) else [value]
    if not any(_is_list(item) for item in items):
        return _read_flat(name, value, low=low)[:, None]
    rows = [_read_flat(f"{name}[{j}]", item, low=low) for j, item in enumerate(items)]
    table = np.full((len(rows), max(row.size for row in rows)), _NONE)
    for line, row in zip(table, rows, strict=True):
        line[: row.size] = row
    return table


def _is_list(value: Any) -> bool:
    return (
        isinstance(value, Iterable) and not isinstance(value, (str, bytes)) and getattr(value, "ndim", 1) > 0
    )


def _check_lengths(lengths: dict[str, int], local_rank: Any, *, flat: bool) -> None:
    """Refuse lists that do not agree on the number of sites."""
    if len(set(lengths.values())) <= 1:
        return
    others = {length for name, length in lengths.items() if name != "local_rank"}
    if flat and "local_rank" in lengths and len(others) == 1:
        m, ranks = others.pop(), ", ".join(map(str, list(local_rank)[:3])) + ", ..." * (len(local_rank) > 3)
        raise ValueError(
            f"local_rank must agree with the number of sites, {m}, got {len(local_rank)} ranks "
            f"(several ranks at each site are nested: [({ranks})] * {m})"
        )
    listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
    raise ValueError(
        f"n_sites, n_points, local_rank, weights and distortion must agree on the sites, got {listed}"
    )


def _check_nesting(m: int, n_points: Any, local_rank: Any) -> None:
    """Refuse a bare tuple beside a list of sizes: it may mean several ranks of each site, or one of each."""
    bare = isinstance(local_rank, tuple) and len(local_rank) > 1 and not any(map(_is_list, local_rank))
    if bare and _is_list(n_points) and not isinstance(n_points, tuple):
        raise ValueError(
            "local_rank must be a list beside a list of sizes: one rank for each site, or nested, "
            f"[{local_rank}] * {m}; got the tuple {local_rank}"
        )


def _tabulate(rows: int, sizes: Ints, ranks: Ints, votes: Ints, which: Ints) -> Ints:
    """Return size, ranks, weights and distortion of each site; a number not sent is +inf with weight 0."""
    size, ranks = np.broadcast_to(sizes[:, None], (rows, 1)), np.broadcast_to(ranks, (rows, ranks.shape[1]))
    absent = ranks == _NONE
    weights = np.where(absent, 0, _spread_votes(np.broadcast_to(votes, (rows, votes.shape[1])), absent))
    ranks = np.where(absent, size + 1, np.minimum(ranks, size + 1))
    return np.concatenate([size, ranks, weights, np.broadcast_to(which[:, None], (rows, 1))], axis=1)


def _spread_votes(votes: Ints, absent: Bools) -> Ints:
    """Return votes for each number; a single entry of a site counts for all of its numbers."""
    entries, sent = (votes != _NONE).sum(axis=1), (~absent).sum(axis=1)
    wrong = (entries > 1) & (entries != sent)
    if wrong.any():
        j = int(np.argmax(wrong))
        raise ValueError(
            f"weights[{j}] must be one number or one for each of the site's {sent[j]} ranks, "
            f"got {_entries(votes[j])}"
        )
    several = np.full(absent.shape, _NONE)
    several[:, : votes.shape[1]] = votes
    return np.where(entries[:, None] == 1, votes[:, :1], several)


def _entries(row: Ints) -> tuple[int, ...]:
    return tuple(row[row != _NONE].tolist())
