"""Data of the messages that sites send: what a design asks for, and what a report
holds.

A kind of message is a pair of classes, registered under one name;
`fedconformal.messages` has its behaviour.
"""

import base64
import json
import math
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

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

from fedconformal.documents import _fields as limits
from fedconformal.documents._base import Part, first_problem
from fedconformal.documents._fields import (
    Extended,
    Many,
    Rank,
    Ratio,
    Share,
    SiteName,
    check_epsilon,
)

if TYPE_CHECKING:
    from fedconformal.documents._design import Design, SiteKind


class Variant(Part):
    """Part of a document whose class is found by the name of its kind."""

    kind: ClassVar[str]

    @model_serializer(mode="wrap")
    def _name_kind(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {"kind": self.kind, **handler(self)}


class MessageData(Variant):
    """Message that a design asks of its sites."""

    @property
    def is_masked(self) -> bool:
        """True if nothing but the sum over all sites can be read."""
        return False

    @property
    def of_answers(self) -> bool:
        """True if thresholds are of confidences, from which on cases are answered."""
        return False

    def vector_length(self, n_levels: int) -> int:
        """Return how many numbers of a site add up."""
        return 0

    def check(self, design: "Design") -> None:
        """Refuse data that do not fit the sites and levels of their design."""
        check_epsilon(getattr(self, "epsilon", None))

    def count_cells(self, n_levels: int) -> int:
        """Return the number of cells that a site works through for all levels."""
        return 0


class Payload(Variant):
    """Numbers that a site sends for one group of cases."""

    @property
    def n_numbers(self) -> int:
        """Number of numbers that leave."""
        return _count_numbers(self.model_dump())

    def check(self, n: int) -> None:
        """Refuse data that a site of n scores cannot have."""


def _count_numbers(value: Any) -> int:
    if isinstance(value, (dict, list, tuple)):
        return sum(
            map(_count_numbers, value.values() if isinstance(value, dict) else value)
        )
    return int(isinstance(value, (int, float)))


MaskedNumbers = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9+/]+={0,2}$",
        max_length=limits.MOST_MASKED,
        description="base64 of little-endian unsigned 64-bit numbers",
    ),
]


class MaskedPayload(Payload):
    """Whole numbers modulo 2^64 that hide what a site sends; masks cancel in the sum
    over all sites.
    """

    kind: ClassVar[str] = "masked"
    values: MaskedNumbers

    @property
    def n_numbers(self) -> int:
        """Number of numbers that leave."""
        return len(base64.b64decode(self.values)) // 8

    def check(self, n: int) -> None:
        """Refuse text that is not the one way to write whole numbers of 64 bits."""
        raw = base64.b64decode(self.values, validate=True)
        if len(raw) % 8 or base64.b64encode(raw).decode() != self.values:
            raise ValueError("masked values must be base64 of whole 64-bit numbers")


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


def payload_class(message: MessageData) -> type[Payload]:
    """Return the class of what sites send for a message, masked or not."""
    return MaskedPayload if message.is_masked else _KINDS[message.kind][1]


def variants(place: int) -> dict[str, type[Variant]]:
    """Return all kinds of data (place 0) or of payloads (place 1) by name."""
    masked = {MaskedPayload.kind: MaskedPayload} if place else {}
    return {**{kind: pair[place] for kind, pair in _KINDS.items()}, **masked}


def _reader(base: type[Variant], place: int) -> Any:
    def read(value: Any, info: ValidationInfo) -> Variant:
        if isinstance(value, base):
            return value
        if not isinstance(value, dict) or info.mode != "json":
            raise ValueError("must be an object with a kind")
        fields = dict(value)
        kind = fields.pop("kind", None)
        known = variants(place)
        if not isinstance(kind, str) or kind not in known:
            raise ValueError(
                f"kind must be one of {', '.join(map(repr, known))}, got {kind!r}"
            )
        try:
            return known[kind].model_validate_json(json.dumps(fields))
        except ValidationError as error:
            raise ValueError(first_problem(error)) from None

    return PlainValidator(read)


AnyMessage = Annotated[SerializeAsAny[MessageData], _reader(MessageData, 0)]
"""The data of any registered message."""
AnyPayload = Annotated[SerializeAsAny[Payload], _reader(Payload, 1)]
"""The payload of any registered message."""


# -- ranks -----------------------------------------------------------------------------


def _increasing(values: tuple[float, ...]) -> tuple[float, ...]:
    if any(left >= right for left, right in pairwise(values)):
        raise ValueError("must be different, in increasing order")
    return values


RankList = Annotated[
    Many[Rank], Field(max_length=limits.MOST_NUMBERS), AfterValidator(_increasing)
]
"""Ranks of one site at one level, in increasing order."""
VoteList = Annotated[
    Many[Annotated[int, Field(ge=1, le=limits.MOST_VOTES)]],
    Field(max_length=limits.MOST_NUMBERS),
]
"""Votes of the numbers of one site: one entry for all of them, or one for each."""


class RankRule(Part):
    """Rule by which sites of unknown size find their ranks, and which fixed ranks
    follow.
    """

    share: Share | None = Field(
        default=None, description="the middle rank is ceil(share * (n + 1))"
    )
    numbers: int = Field(
        default=1, ge=1, le=limits.MOST_NUMBERS, description="numbers that a site sends"
    )
    spacing: Ratio | None = Field(
        default=None, description="between ranks, in standard deviations"
    )
    eta: Share | None = Field(
        default=None, description="probability of a rank above the quantile"
    )

    def check(self) -> None:
        """Refuse a rule that leaves the ranks open, or fixes them twice."""
        if (self.share is None) == (self.eta is None):
            raise ValueError("a rule has a share or an eta")
        if (self.spacing is None) != (self.numbers == 1):
            raise ValueError(
                "spacing must be given with several numbers, and only with them"
            )


class RankLevel(Part):
    """Ranks and votes at one confidence level."""

    ranks: Many[RankList] = Field(
        default=(), description="for each kind of sites; n + 1 means +inf"
    )
    votes: Many[VoteList] = Field(
        default=(), description="for each kind of sites; left out for 1 each"
    )
    rule: RankRule | None = Field(
        default=None, description="for open plans, and ranks that follow a share"
    )

    @classmethod
    def of(
        cls,
        ranks: tuple[tuple[int, ...], ...],
        votes: tuple[tuple[int, ...], ...],
        rule: RankRule | None = None,
    ) -> Self:
        """Make a level from the votes of every number, which are written in their
        shortest form.
        """
        if all(vote == 1 for each in votes for vote in each):
            return cls(ranks=ranks, rule=rule)
        short = tuple(each[:1] if len(set(each)) == 1 else each for each in votes)
        return cls(ranks=ranks, votes=short, rule=rule)

    def all_votes(self) -> tuple[tuple[int, ...], ...]:
        """Return the votes of every number, for each kind of sites."""
        if not self.votes:
            return tuple((1,) * len(each) for each in self.ranks)
        pairs = zip(self.votes, self.ranks, strict=True)
        return tuple(
            votes if len(votes) == len(ranks) else votes * len(ranks)
            for votes, ranks in pairs
        )

    def check(self, kinds: "tuple[SiteKind, ...]") -> None:
        """Refuse ranks that sites do not have, and votes that are not those of the
        ranks.
        """
        if len(self.ranks) != len(kinds) or len(self.votes) not in (0, len(kinds)):
            raise ValueError("ranks and votes must be given for each kind of sites")
        for kind, ranks in zip(kinds, self.ranks, strict=True):
            if ranks and (ranks[-1] > kind.n + 1 or not kind.asked):
                raise ValueError(
                    "a rank must lie between 1 and n + 1, and a site that is not asked"
                    " has none"
                )
        pairs = zip(self.votes, self.ranks, strict=bool(self.votes))
        if any(
            len(votes) not in ({1, len(ranks)} if ranks else {0})
            for votes, ranks in pairs
        ):
            raise ValueError(
                "votes must be one for all numbers of a site, or one for each"
            )
        if self != RankLevel.of(self.ranks, self.all_votes(), self.rule):
            raise ValueError("votes must be written in their shortest form")


class Ranks(MessageData):
    """Scores of fixed ranks: one or a few of each site's scores, for each level."""

    kind: ClassVar[str] = "ranks"
    levels: Many[RankLevel] = Field(min_length=1, max_length=limits.MOST_LEVELS)

    def check(self, design: "Design") -> None:
        """Refuse ranks that sites do not have, or by which nobody could tell sites
        apart.
        """
        if len(self.levels) != len(design.levels):
            raise ValueError("ranks must be given for each level")
        if design.is_open:
            if any(
                level.rule is None or level.ranks or level.votes
                for level in self.levels
            ):
                raise ValueError(
                    "an open plan has a rule for every level, and no ranks"
                )
            rules = [level.rule for level in self.levels if level.rule is not None]
            for rule in rules:
                rule.check()
            most = sum(rule.numbers for rule in rules)
        else:
            for level in self.levels:
                level.check(design.kinds)
            columns = zip(*(level.ranks for level in self.levels), strict=True)
            most = max(sum(map(len, ranks)) for ranks in columns)
        if most > limits.MOST_SENT:
            raise ValueError(
                f"a site sends at most {limits.MOST_SENT} numbers over all levels, got"
                f" {most:,}"
            )
        if design.site_names is None and not design.is_open:
            rows = (
                zip(level.ranks, level.all_votes(), strict=True)
                for level in self.levels
            )
            pairs = zip(design.kinds, zip(*rows, strict=True), strict=True)
            different = {(kind.n, column) for kind, column in pairs}
            if len({kind.n for kind in design.kinds}) < len(different):
                raise ValueError(
                    "sites without names must have the same ranks if they have the same"
                    " size"
                )


class Sent(Part):
    """Scores that a site sends for one confidence level."""

    ranks: RankList = Field(
        description="ranks that were sent; none where none was asked for"
    )
    values: Many[Extended] = Field(
        max_length=limits.MOST_NUMBERS, description="the scores of these ranks"
    )


class RanksPayload(Payload):
    """Scores of some ranks, for each level."""

    kind: ClassVar[str] = "ranks"
    levels: Many[Sent] = Field(min_length=1, max_length=limits.MOST_LEVELS)

    @property
    def n_numbers(self) -> int:
        """Number of scores that leave."""
        return sum(len(sent.values) for sent in self.levels)

    def check(self, n: int) -> None:
        """Refuse ranks that a site of n scores does not have."""
        for sent in self.levels:
            if len(sent.values) != len(sent.ranks):
                raise ValueError("ranks and values must have the same length")
            for rank, value in zip(sent.ranks, sent.values, strict=True):
                if rank > n + 1:
                    raise ValueError(f"a rank must lie between 1 and n + 1 = {n + 1}")
                if rank > n and value != math.inf:
                    raise ValueError("a rank above n has the value Infinity")


# -- random cases ----------------------------------------------------------------------


class Cases(MessageData):
    """Scores of cases drawn at random, the same for all levels."""

    kind: ClassVar[str] = "cases"
    numbers: int = Field(
        ge=1, le=limits.MOST_NUMBERS, description="how many of its cases a site draws"
    )


class CasesPayload(Payload):
    """Scores of the cases that were drawn."""

    kind: ClassVar[str] = "cases"
    values: Many[Extended] = Field(
        min_length=1, max_length=limits.MOST_NUMBERS, description="increasing"
    )


# -- grids -----------------------------------------------------------------------------


class Gridded(MessageData):
    """Message that places scores on a public grid; the last cell means +inf."""

    edges: Annotated[Many[float], AfterValidator(_increasing)] = Field(
        min_length=2,
        max_length=limits.MOST_EDGES,
        description="right edges of the cells",
    )
    bounded: bool = Field(
        default=False, description="one more cell, after the last edge, means Infinity"
    )
    masked: bool = Field(
        default=False,
        description="sites send masked numbers: only their sum can be read",
    )

    @property
    def is_masked(self) -> bool:
        """True if nothing but the sum over all sites can be read."""
        return self.masked

    def vector_length(self, n_levels: int) -> int:
        """Return how many numbers of a site add up."""
        return self.n_cells * n_levels

    @property
    def n_cells(self) -> int:
        """Number of cells, the last of which means +inf."""
        return len(self.edges) + self.bounded

    def edge(self, cell: int) -> float:
        """Return the right edge of a cell as a threshold."""
        return self.edges[cell] if cell < self.n_cells - 1 else math.inf

    def count_cells(self, n_levels: int) -> int:
        """Return the number of cells of all levels."""
        return self.n_cells * n_levels


_FEWEST_BEARERS = 2


class Curve(Gridded):
    """Counts of scores in the cells of a grid, one release for all levels; noisy where
    epsilon is given.
    """

    kind: ClassVar[str] = "curve"
    epsilon: Ratio | None = Field(
        default=None, description="privacy loss of a site; exact if left out"
    )
    offsets: Annotated[
        Many[Many[Annotated[int, Field(ge=0, le=limits.LARGEST_N)]]],
        Field(max_length=limits.MOST_LEVELS),
    ] = Field(
        default=(),
        description=(
            "by level, what is added to the votes needed at each edge but the last"
        ),
    )
    unit: int | None = Field(
        default=None, ge=1, le=limits.LARGEST_UNIT, description="votes of a mixture"
    )
    parts: int | None = Field(
        default=None,
        ge=1,
        le=limits.MOST_PARTS,
        description=(
            "sums of losses in parts of the largest loss, instead of counts of scores"
        ),
    )
    starts: int | None = Field(
        default=None,
        ge=1,
        le=limits.MOST_STARTS,
        description=(
            "tests from this many edges on: counts of cases that are answered, then of"
            " wrong answers"
        ),
    )
    own: Annotated[Many[Many[Rank]], Field(max_length=limits.MOST_LEVELS)] = Field(
        default=(),
        description=(
            "by level and kind of sites, the count needed at a site's own threshold"
        ),
    )
    bearers: Annotated[Many[SiteName], Field(max_length=limits.MOST_BEARERS)] = Field(
        default=(),
        description=(
            "of a masked sum, the sites that add the noise; all of them if left out"
        ),
    )

    def vector_length(self, n_levels: int) -> int:
        """Return the number of counts, which serve all levels."""
        return self.n_counts

    @property
    def of_answers(self) -> bool:
        """True if thresholds are of confidences, from which on cases are answered."""
        return self.starts is not None

    @property
    def n_counts(self) -> int:
        """Number of counts that a site sends."""
        return self.n_cells if self.starts is None else 2 * len(self.edges)

    def count_cells(self, n_levels: int) -> int:
        """Return the number of cells, which serve all levels unless these differ."""
        return self.n_cells * (n_levels if self.offsets else 1)

    def check(self, design: "Design") -> None:
        """Refuse offsets and own counts that are not those of the levels, edges and
        sites.
        """
        super().check(design)
        offsets, own, n_levels = self.offsets, self.own, len(design.levels)
        if self.parts is not None and (self.epsilon is not None or own):
            raise ValueError("sums of losses have neither noise nor own counts")
        if self.starts is not None:
            if (
                self.epsilon is not None
                or own
                or self.parts is not None
                or not self.bounded
            ):
                raise ValueError(
                    "counts of answers have neither noise, own counts nor parts, and"
                    " bounded edges"
                )
            if 2 * len(self.edges) > limits.MOST_EDGES:
                raise ValueError(
                    f"counts of answers must have at most {limits.MOST_EDGES // 2:,}"
                    " edges"
                )
        self._check_bearers(design)
        if bool(offsets) != (self.epsilon is not None and not design.is_open):
            raise ValueError("offsets must be given with noise, and only with it")
        lengths = {len(each) for each in offsets}
        if offsets and (
            len(offsets) != n_levels or not lengths <= {0, self.n_cells - 1}
        ):
            raise ValueError(
                "offsets must be given for each level and each edge but the last"
            )
        if own and (
            len(own) != n_levels or {len(each) for each in own} != {len(design.kinds)}
        ):
            raise ValueError(
                "own counts must be given for each level and each kind of sites"
            )

    def _check_bearers(self, design: "Design") -> None:
        """Refuse noise that too few sites add, or counts without noise that could be
        read.
        """
        if self.bearers and (self.epsilon is None or not self.masked):
            raise ValueError("bearers go with noise in a masked sum alone")
        others = set(self.bearers) - set(design.asked_names or ())
        if self.bearers and (
            others or not _FEWEST_BEARERS <= len(set(self.bearers)) == len(self.bearers)
        ):
            raise ValueError("bearers must be two or more different sites of the plan")


class CurvePayload(Payload):
    """Counts of a site's scores in each cell, of its answers, or by how many parts its
    losses fall there.
    """

    kind: ClassVar[str] = "curve"
    counts: Many[Annotated[int, Field(ge=-(2**62), le=2**62)]] = Field(
        min_length=2, max_length=limits.MOST_EDGES + 1
    )


class BinLevel(Part):
    """Ranks of the paper's private algorithm at one level."""

    gamma: Share = Field(
        description="share of the error probability that is spent on the noise"
    )
    local_rank: Rank = Field(description="rank without noise, l_gamma")
    correction: int = Field(
        ge=0, le=limits.LARGEST_N, description="what the noise adds to it, l_cor"
    )


class Bin(Gridded):
    """One cell for each level, drawn by the exponential mechanism (paper, Algorithms 2
    and 3).
    """

    kind: ClassVar[str] = "bin"
    epsilon: Ratio = Field(
        description="privacy loss of a site's whole answer, shared evenly by the levels"
    )
    levels: Many[BinLevel] = Field(min_length=1, max_length=limits.MOST_LEVELS)

    def check(self, design: "Design") -> None:
        """Refuse another number of levels."""
        super().check(design)
        if len(self.levels) != len(design.levels):
            raise ValueError("a bin has ranks for each level")


class BinPayload(Payload):
    """The cell that was drawn for each level."""

    kind: ClassVar[str] = "bin"
    cells: Many[Annotated[int, Field(ge=0, le=limits.MOST_EDGES)]] = Field(
        min_length=1, max_length=limits.MOST_LEVELS
    )


register_message(Ranks, RanksPayload)
register_message(Cases, CasesPayload)
register_message(Curve, CurvePayload)
register_message(Bin, BinPayload)
