"""Data of the messages that sites send: what a design asks for, and what a report holds.

A kind of message is a pair of classes, registered under one name; `fedconformal.messages` has its behaviour.
"""

import json
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    Field,
    PlainValidator,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    ValidationError,
    ValidationInfo,
    model_serializer,
)

from fedconformal.documents._base import Extended, Many, Part, Ratio, Share, first_problem
from fedconformal.documents._limits import (
    LARGEST_N,
    LARGEST_UNIT,
    MOST_EDGES,
    MOST_LEVELS,
    MOST_NUMBERS,
    MOST_VOTES,
)


class Variant(Part):
    """Part of a document whose class is found by the name of its kind."""

    kind: ClassVar[str]

    @model_serializer(mode="wrap")
    def _name_kind(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {"kind": self.kind, **handler(self)}


class MessageData(Variant):
    """Message that a design asks of its sites."""


class Payload(Variant):
    """Numbers that a site sends for one group of cases."""

    @property
    def n_numbers(self) -> int:
        """Number of numbers that leave."""
        return _count_numbers(self.model_dump())


def _count_numbers(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(_count_numbers, value.values()))
    if isinstance(value, (list, tuple)):
        return sum(map(_count_numbers, value))
    return int(isinstance(value, (int, float)))


_KINDS: dict[str, tuple[type[MessageData], type[Payload]]] = {}


def register_message(data: type[MessageData], payload: type[Payload]) -> None:
    """Make a kind of message known, so that documents can hold it.

    Parameters
    ----------
    data : type
        A subclass of `MessageData` with a class attribute ``kind``.
    payload : type
        A subclass of `Payload` of the same kind.

    Examples
    --------
    >>> from fedconformal.documents import Ranks, RanksPayload, register_message
    >>> register_message(Ranks, RanksPayload)  # which is known already
    """
    known = _KINDS.setdefault(data.kind, (data, payload))
    if known != (data, payload) or payload.kind != data.kind:
        raise ValueError(f"message {data.kind!r} is already registered")


def unregister_message(kind: str) -> None:
    """Remove a kind of message, for tests that bring their own."""
    _KINDS.pop(kind, None)


def message_kinds() -> dict[str, tuple[type[MessageData], type[Payload]]]:
    """Return the classes of every kind of message."""
    return dict(_KINDS)


def _reader(base: type[Variant], place: int) -> Any:
    def read(value: Any, info: ValidationInfo) -> Variant:
        if isinstance(value, base):
            return value
        if not isinstance(value, dict) or info.mode != "json":
            raise ValueError("must be an object with a kind")
        fields = dict(value)
        kind = fields.pop("kind", None)
        if not isinstance(kind, str) or kind not in _KINDS:
            raise ValueError(f"kind must be one of {', '.join(map(repr, _KINDS))}, got {kind!r}")
        try:
            return _KINDS[kind][place].model_validate_json(json.dumps(fields))
        except ValidationError as error:
            raise ValueError(first_problem(error)) from None

    return PlainValidator(read)


AnyMessage = Annotated[SerializeAsAny[MessageData], _reader(MessageData, 0)]
"""The data of any registered message."""
AnyPayload = Annotated[SerializeAsAny[Payload], _reader(Payload, 1)]
"""The payload of any registered message."""


# -- ranks ---------------------------------------------------------------------------------------------


def _increasing(ranks: tuple[int, ...]) -> tuple[int, ...]:
    if any(left >= right for left, right in pairwise(ranks)):
        raise ValueError("ranks must be different, in increasing order")
    return ranks


RankList = Annotated[
    Many[Annotated[int, Field(ge=1, le=LARGEST_N + 1)]],
    Field(max_length=MOST_NUMBERS),
    AfterValidator(_increasing),
]
"""Ranks of one site at one level, in increasing order."""
VoteList = Annotated[Many[Annotated[int, Field(ge=1, le=MOST_VOTES)]], Field(max_length=MOST_NUMBERS)]
"""Votes of the numbers of one site: one entry for all of them, or one for each."""


class RankRule(Part):
    """Rule by which sites of unknown size find their ranks, and which fixed ranks follow."""

    share: Share | None = Field(default=None, description="the middle rank is ceil(share * (n + 1))")
    numbers: int = Field(default=1, ge=1, le=MOST_NUMBERS, description="how many numbers a site sends")
    spacing: Ratio | None = Field(
        default=None, description="distance of neighbouring ranks in standard deviations of a site's count"
    )
    eta: Share | None = Field(
        default=None,
        description="the rank is the smallest whose score lies above the level-quantile of the site's own "
        "scores with at least this probability",
    )


class RankLevel(Part):
    """Ranks and votes at one confidence level."""

    ranks: Many[RankList] = Field(
        default=(), description="for each kind of sites; n + 1 means +inf, none where sites are not asked"
    )
    votes: Many[VoteList] = Field(
        default=(), description="for each kind of sites; left out for one vote each"
    )
    rule: RankRule | None = Field(default=None, description="for open plans, and ranks that follow a share")

    @classmethod
    def of(
        cls,
        ranks: tuple[tuple[int, ...], ...],
        votes: tuple[tuple[int, ...], ...],
        rule: RankRule | None = None,
    ) -> Self:
        """Make a level from the votes of every number, which are written in their shortest form."""
        if all(vote == 1 for each in votes for vote in each):
            return cls(ranks=ranks, rule=rule)
        short = tuple(each[:1] if len(set(each)) == 1 else each for each in votes)
        return cls(ranks=ranks, votes=short, rule=rule)

    def all_votes(self) -> tuple[tuple[int, ...], ...]:
        """Return the votes of every number, for each kind of sites."""
        if not self.votes:
            return tuple((1,) * len(each) for each in self.ranks)
        pairs = zip(self.votes, self.ranks, strict=True)
        return tuple(votes if len(votes) == len(ranks) else votes * len(ranks) for votes, ranks in pairs)


class Ranks(MessageData):
    """Scores of fixed ranks: one or a few of each site's scores, for each level."""

    kind: ClassVar[str] = "ranks"
    levels: Many[RankLevel] = Field(min_length=1, max_length=MOST_LEVELS)


class Sent(Part):
    """Scores that a site sends for one confidence level."""

    ranks: RankList = Field(description="ranks that were sent; none where none was asked for")
    values: Many[Extended] = Field(max_length=MOST_NUMBERS, description="the scores of these ranks")


class RanksPayload(Payload):
    """Scores of some ranks, for each level."""

    kind: ClassVar[str] = "ranks"
    levels: Many[Sent] = Field(min_length=1, max_length=MOST_LEVELS)

    @property
    def n_numbers(self) -> int:
        """Number of scores that leave."""
        return sum(len(sent.values) for sent in self.levels)


# -- random cases --------------------------------------------------------------------------------------


class Cases(MessageData):
    """Scores of cases drawn at random, the same for all levels."""

    kind: ClassVar[str] = "cases"
    numbers: int = Field(ge=1, le=MOST_NUMBERS, description="how many of its cases a site draws")


class CasesPayload(Payload):
    """Scores of the cases that were drawn."""

    kind: ClassVar[str] = "cases"
    values: Many[Extended] = Field(min_length=1, max_length=MOST_NUMBERS, description="in increasing order")


# -- grids ---------------------------------------------------------------------------------------------


def _is_grid(edges: tuple[float, ...]) -> tuple[float, ...]:
    if any(left >= right for left, right in pairwise(edges)):
        raise ValueError("edges must increase strictly")
    return edges


Edges = Annotated[Many[float], Field(min_length=2, max_length=MOST_EDGES), AfterValidator(_is_grid)]
"""Right edges of the cells of a grid."""


class Gridded(MessageData):
    """Message that places scores on a public grid; the last cell means +inf."""

    edges: Edges = Field(description="right edges of the cells")
    bounded: bool = Field(
        default=False,
        description="scores up to the last edge have a cell of their own, and one more cell means Infinity; "
        "else the last cell means Infinity",
    )

    @property
    def n_cells(self) -> int:
        """Number of cells, the last of which means +inf."""
        return len(self.edges) + self.bounded

    def edge(self, cell: int) -> float:
        """Return the right edge of a cell as a threshold."""
        return self.edges[cell] if cell < self.n_cells - 1 else float("inf")


class Curve(Gridded):
    """Counts of scores in the cells of a grid, one release for all levels; noisy where epsilon is given."""

    kind: ClassVar[str] = "curve"
    epsilon: Ratio | None = Field(
        default=None, description="privacy loss of a site's counts; exact if left out"
    )
    offsets: Many[Many[Annotated[int, Field(ge=0, le=LARGEST_N)]]] = Field(
        default=(),
        max_length=MOST_LEVELS,
        description="for each level, what is added to the votes needed at each edge but the last",
    )
    unit: int | None = Field(
        default=None,
        ge=1,
        le=LARGEST_UNIT,
        description="votes of a whole mixture, which sites share by their shares",
    )
    own: Many[Many[Annotated[int, Field(ge=1, le=LARGEST_N + 1)]]] = Field(
        default=(),
        max_length=MOST_LEVELS,
        description="for each level and kind of sites, the count that a site needs at its own threshold",
    )


class CurvePayload(Payload):
    """Counts of a site's scores in each cell."""

    kind: ClassVar[str] = "curve"
    counts: Many[Annotated[int, Field(ge=-(2**62), le=2**62)]] = Field(
        min_length=2, max_length=MOST_EDGES + 1
    )


class BinLevel(Part):
    """Ranks of the paper's private algorithm at one level."""

    gamma: Share = Field(description="share of the error probability that is spent on the noise")
    local_rank: int = Field(ge=1, le=LARGEST_N + 1, description="rank without noise, l_gamma")
    correction: int = Field(ge=0, le=LARGEST_N, description="what the noise adds to it, l_cor")


class Bin(Gridded):
    """One cell for each level, drawn by the exponential mechanism (paper, Algorithms 2 and 3)."""

    kind: ClassVar[str] = "bin"
    epsilon: Ratio = Field(description="privacy loss of a site's whole answer, shared evenly by the levels")
    levels: Many[BinLevel] = Field(min_length=1, max_length=MOST_LEVELS)


class BinPayload(Payload):
    """The cell that was drawn for each level."""

    kind: ClassVar[str] = "bin"
    cells: Many[Annotated[int, Field(ge=0, le=MOST_EDGES)]] = Field(min_length=1, max_length=MOST_LEVELS)


for _data, _payload in (
    (Ranks, RanksPayload),
    (Cases, CasesPayload),
    (Curve, CurvePayload),
    (Bin, BinPayload),
):
    register_message(_data, _payload)
