"""The parts of a plan: levels, blocks of sites, and the rules that all sites follow."""

from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from fedconformal._text import count as counted
from fedconformal._text import quoted
from fedconformal._validation import rank_of
from fedconformal.documents._base import Part, SiteName, printable
from fedconformal.documents._ceilings import (
    LARGEST_ADVICE,
    LARGEST_N,
    MOST_EDGES,
    MOST_FIELDS,
    MOST_LEVELS,
    MOST_NAMED,
    MOST_SENT,
    MOST_SITES,
)
from fedconformal.documents._names import Label
from fedconformal.documents._signing import PublicKey
from fedconformal.documents._views import Many, Ranks, Weights, canonical_weights, votes_of
from fedconformal.planning import CRITERIA, MOST_NUMBERS, PROMISES, Cases, RankRule, rank_above
from fedconformal.privacy import ANALYSES, LARGEST_EPSILON, MECHANISMS, SMALLEST_EPSILON
from fedconformal.scores import SCORES, from_name

Probability = Annotated[float, Field(gt=0, lt=1)]
Share = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,39}/[1-9][0-9]{0,39}$")]
MixtureShare = Annotated[str, StringConstraints(pattern=r"^(0|[1-9][0-9]{0,39})/[1-9][0-9]{0,39}$")]
Word = Annotated[str, StringConstraints(max_length=200), AfterValidator(printable)]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,59}$")]
Epsilon = Annotated[float, Field(ge=SMALLEST_EPSILON, le=LARGEST_EPSILON)]


class Advice(Part):
    """What would make an infeasible level feasible."""

    n_points: int | None = Field(
        default=None, ge=1, le=LARGEST_ADVICE, description="smallest size that would do if every site had it"
    )
    n_sites: int | None = Field(
        default=None,
        ge=1,
        le=LARGEST_ADVICE,
        description="smallest number of sites of the present (smallest) size that would do",
    )
    epsilon: float | None = Field(default=None, gt=0, description="smallest privacy loss that would do")


class Level(Part):
    """One confidence level of a plan."""

    confidence_level: Probability
    share: Share | None = Field(
        default=None,
        description="sites send rank ceil(share * (n + 1)); left out where ranks follow no common share",
    )
    server_rank: int | None = Field(
        default=None,
        ge=1,
        description="votes that a reported value needs; more than there are for +inf; left out while open",
    )
    advice: Advice | None = Field(default=None, description="present when no ranks reach the level")
    quantile: Share | None = Field(default=None, description="quantile that private sites aim at")
    slope: Share | None = Field(
        default=None,
        description="how fast errors of private sites rise below their aim, as a share of both sides "
        "together; left out where it follows from the quantile",
    )
    numbers: int = Field(
        default=1, ge=1, le=MOST_NUMBERS, description="how many numbers a site of an open plan sends"
    )
    spacing: Share | None = Field(
        default=None,
        description="several numbers of an open plan lie so many standard deviations of a site's count apart",
    )
    eta: Share | None = Field(
        default=None,
        description="for new sites one by one: the chance, at least, that a site's number lies above the "
        "level-quantile of its own scores",
    )

    @model_validator(mode="after")
    def _proper_fractions(self) -> Self:
        for text in (self.share, self.quantile, self.slope, self.eta):
            if text is not None and (Fraction(text) >= 1 or text != fraction_text(Fraction(text))):
                raise ValueError("share, quantile, slope and eta must be fractions below 1 in lowest terms")
        if self.spacing is not None and self.spacing != fraction_text(Fraction(self.spacing)):
            raise ValueError("spacing must be a fraction in lowest terms")
        if (self.spacing is None) != (self.numbers == 1):
            raise ValueError("spacing goes with several numbers, and only with them")
        for exact in (self.exact_quantile, self.exact_slope):
            if exact is not None and exact.denominator > 2 * LARGEST_ADVICE:
                raise ValueError("quantile and slope must have a denominator of at most 2^41")
        if self.slope is not None and self.quantile is None:
            raise ValueError("a slope goes with a quantile")
        return self

    @property
    def exact_share(self) -> Fraction | None:
        """The share as a fraction."""
        return None if self.share is None else Fraction(self.share)

    @property
    def rule(self) -> RankRule | None:
        """How sites of unknown size find their ranks; None where ranks follow no common share."""
        if self.exact_share is None:
            return None
        spacing = None if self.spacing is None else Fraction(self.spacing)
        level = Fraction(str(self.confidence_level))
        return RankRule(self.exact_share, level, self.numbers, spacing)

    @property
    def exact_eta(self) -> Fraction | None:
        """The chance that a site's number lies above its own quantile, as a fraction."""
        return None if self.eta is None else Fraction(self.eta)

    def ranks_for(self, n: int) -> Ranks:
        """The ranks that a site of n scores sends under an open plan."""
        if self.exact_eta is not None:
            return (rank_above(n, Fraction(str(self.confidence_level)), self.exact_eta),)
        return () if self.rule is None else self.rule.ranks(n)

    @property
    def exact_quantile(self) -> Fraction | None:
        """The quantile as a fraction."""
        return None if self.quantile is None else Fraction(self.quantile)

    @property
    def exact_slope(self) -> Fraction | None:
        """The slope as a fraction."""
        return None if self.slope is None else Fraction(self.slope)


class ScoreRule(Part):
    """The score that all sites use, with all its parameters."""

    name: Name
    parameters: Annotated[
        dict[Word, bool | int | float | Word], AfterValidator(lambda given: dict(sorted(given.items())))
    ] = Field(default={}, max_length=MOST_FIELDS)

    @model_validator(mode="after")
    def _known_parameters(self) -> Self:
        """The parameters of a score that is known here must be its own; another's are not looked at."""
        if self.name in SCORES:
            from_name(self.name, **self.parameters)
        return self


class PrivacyRule(Part):
    """How sites make their reports differentially private; neighbours replace one record."""

    epsilon: Epsilon = Field(description="privacy loss of a site's whole answer, shared by groups and levels")
    mechanism: Name
    analysis: Name
    edges: Many[float] = Field(min_length=2, max_length=MOST_EDGES, description="right edges of the bins")
    bounded: bool = Field(
        default=False,
        description="scores up to the last edge have a bin of their own, and one more bin means Infinity; "
        "else the last bin means Infinity",
    )
    one_hot: bool = Field(
        default=False, description="only the sum of all sites' one-hot vectors may be calibrated"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if any(left >= right for left, right in pairwise(self.edges)):
            raise ValueError("edges must increase strictly")
        MECHANISMS[self.mechanism], ANALYSES[self.analysis]
        return self

    @property
    def n_bins(self) -> int:
        """Number of bins, the last of which means Infinity."""
        return len(self.edges) + self.bounded


class SiteKey(Part):
    """A site's Ed25519 public key."""

    site: SiteName
    public_key: PublicKey


class PlanBlock(Part):
    """Consecutive sites of one size."""

    count: int = Field(ge=1, le=MOST_SITES)
    n: int = Field(ge=1, le=LARGEST_N, description="calibration scores at each site")
    ranks: Many[Ranks] = Field(
        max_length=MOST_LEVELS,
        description="ranks to send, for each level; n + 1 for +inf, none where the sites are not asked",
    )
    weights: Weights = Field(
        default=None, description="votes, for each level: of every number, or of each; left out for one each"
    )
    names: Many[SiteName] | None = Field(default=None, max_length=MOST_NAMED)
    share: MixtureShare | None = Field(
        default=None, description="share of new points that come from each of these sites, for a mixture"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.names is not None and len(self.names) != self.count:
            raise ValueError("count and the number of names differ")
        if self.share is not None and self.share != fraction_text(Fraction(self.share)):
            raise ValueError("share must be a fraction in lowest terms")
        if any(not 1 <= rank <= self.n + 1 for ranks in self.ranks for rank in ranks):
            raise ValueError(f"a rank must lie between 1 and n + 1 = {self.n + 1}")
        if sum(map(len, self.ranks)) > MOST_SENT:
            raise ValueError(f"a site sends at most {MOST_SENT} numbers over all levels")
        self.__dict__["weights"] = canonical_weights(self.ranks, self.weights)
        return self

    @cached_property
    def votes(self) -> tuple[Ranks, ...]:
        """The votes of each number, for each level."""
        return votes_of(self.ranks, self.weights)

    @property
    def exact_share(self) -> Fraction | None:
        """The share as a fraction."""
        return None if self.share is None else Fraction(self.share)


class PlanPart(Part):
    """What is planned for all points together, or for one group of them."""

    label: Label | None = Field(default=None, description="the group; left out where there are none")
    promise: Name = Field(description="whose new points the promise is for")
    criterion: Name
    delta: Annotated[float, Field(gt=0, le=0.5)] | None = Field(
        default=None, description="for criteria that take it"
    )
    max_faulty: int = Field(default=0, ge=0, le=MOST_SITES, description="how many reports may be arbitrary")
    max_missing: int | None = Field(
        default=None,
        ge=0,
        le=MOST_SITES,
        description="how many sites may stay silent without an infinite threshold",
    )
    epsilon: Epsilon | None = Field(default=None, description="this group's part of the privacy loss")
    cases: int | None = Field(
        default=None,
        ge=1,
        le=MOST_NUMBERS,
        description="how many of its cases a site draws at random, for all levels alike; ranks are then "
        "those among the drawn ones",
    )
    levels: Many[Level] = Field(min_length=1, max_length=MOST_LEVELS)
    blocks: Many[PlanBlock] | None = Field(
        default=None, description="sites in order; left out while sizes are unknown"
    )
    names: Many[SiteName] | None = Field(
        default=None, max_length=MOST_NAMED, description="the only sites that an open plan expects"
    )
    expected: int | None = Field(
        default=None, ge=1, le=MOST_SITES, description="how many sites an open plan without names expects"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        PROMISES[self.promise]
        if (self.delta is not None) != CRITERIA[self.criterion].takes_delta:
            raise ValueError(f"delta does not fit the criterion {self.criterion!r}")
        levels = [level.confidence_level for level in self.levels]
        if len(set(levels)) != len(levels):
            raise ValueError("a confidence level occurs twice")
        names = self.site_names
        if names is not None and len(set(names)) != len(names):
            raise ValueError("a site occurs twice")
        if self.n_sites is not None and self.blocks != () and 2 * self.max_faulty >= self.n_sites:
            raise ValueError("max_faulty must be below half the number of sites")
        if (self.n_sites or 0) > MOST_SITES:
            raise ValueError(f"a plan has at most {MOST_SITES:,} sites")
        if self.blocks is None:
            self._check_open()
        else:
            self._check_closed(self.blocks)
        return self

    def _check_open(self) -> None:
        if any(level.server_rank is not None for level in self.levels):
            raise ValueError("an open plan has no server_rank")
        if any([level.share, level.eta, self.cases].count(None) != 2 for level in self.levels):
            raise ValueError("an open plan has a share for every level, or an eta, or cases that are drawn")
        if any(level.advice is not None for level in self.levels):
            raise ValueError("an open plan has no advice: nobody knows yet what would be enough")
        if self.names is not None and self.expected is not None:
            raise ValueError("an open plan has names or an expected number of sites, not both")
        if sum(level.numbers for level in self.levels) > MOST_SENT:
            raise ValueError(f"a site sends at most {MOST_SENT} numbers over all levels")

    def _check_closed(self, blocks: tuple[PlanBlock, ...]) -> None:
        if not blocks or self.names is not None or self.expected is not None:
            raise ValueError("a closed plan has blocks, with names and numbers of sites inside them")
        if len({block.names is None for block in blocks}) > 1:
            raise ValueError("either all sites have names or none")
        if any(len(block.ranks) != len(self.levels) for block in blocks):
            raise ValueError("every block needs ranks for each level")
        kinds = {(block.n, block.ranks, block.votes, block.share) for block in blocks}
        if blocks[0].names is None and len({block.n for block in blocks}) < len(kinds):
            raise ValueError("sites without names must have the same ranks if they have the same size")
        for i, level in enumerate(self.levels):
            m = sum(block.count * sum(block.votes[i]) for block in blocks)
            if level.server_rank is None or level.server_rank > m + 1:
                raise ValueError("server_rank must lie between 1 and the number of votes plus 1")
            if level.numbers > 1:
                raise ValueError("the numbers of a closed plan are in its blocks")
            if (level.server_rank > m) != (level.advice is not None) or level.server_rank <= self.max_faulty:
                raise ValueError("server_rank, advice and max_faulty do not fit together")
            share = level.exact_share
            if share is not None and any(block.ranks[i] != (rank_of(share, block.n),) for block in blocks):
                raise ValueError("the ranks do not follow from the share")

    @cached_property
    def site_names(self) -> tuple[str, ...] | None:
        """The sites' names in order, where the plan names them."""
        if self.blocks is None:
            return self.names
        if self.blocks and self.blocks[0].names is None:
            return None
        return tuple(name for block in self.blocks for name in block.names or ())

    @property
    def n_sites(self) -> int | None:
        """How many sites are expected; None if that is open too."""
        if self.blocks is None:
            return self.expected if self.names is None else len(self.names)
        return sum(block.count for block in self.blocks)

    @cached_property
    def asked_names(self) -> tuple[str, ...] | None:
        """The names of the sites that are asked for anything, where the plan names sites."""
        if self.blocks is None or self.site_names is None:
            return self.site_names
        return tuple(name for block in self.blocks if any(block.ranks) for name in block.names or ())

    @property
    def n_asked(self) -> int | None:
        """How many sites are asked for anything; None if that is open."""
        if self.blocks is None:
            return self.n_sites
        return sum(block.count for block in self.blocks if any(block.ranks))

    @cached_property
    def _by_name(self) -> dict[str, int]:
        """The block of each named site; of an open plan, just the names."""
        if self.blocks is None:
            return dict.fromkeys(self.names or (), 0)
        return {name: i for i, block in enumerate(self.blocks) for name in block.names or ()}

    @cached_property
    def _by_size(self) -> dict[int, PlanBlock]:
        """The first block of each size."""
        return {block.n: block for block in reversed(self.blocks or ())}

    def ranks_for(self, n: int, *, site: str | None = None) -> tuple[Ranks, ...]:
        """Ranks that a site with n scores sends, for each level; n + 1 stands for +inf."""
        block = self._block_of(n, site)
        if block is not None:
            return block.ranks
        if self.cases is not None:
            return (Cases(self.cases).block(1, n).ranks,) * len(self.levels)
        return tuple(level.ranks_for(n) for level in self.levels)

    def votes_for(self, n: int, *, site: str | None = None) -> tuple[Ranks, ...]:
        """Votes of the numbers that a site with n scores sends, for each level."""
        block = self._block_of(n, site)
        if block is not None:
            return block.votes
        if self.cases is not None:
            return (Cases(self.cases).block(1, n).weights,) * len(self.levels)
        return votes_of(self.ranks_for(n, site=site), None)

    def share_for(self, n: int, *, site: str | None = None) -> Fraction | None:
        """Share of new points that come from a site with n scores, for a mixture."""
        block = self._block_of(n, site)
        return None if block is None else block.exact_share

    def n_drawn(self, n: int) -> int:
        """Of how many scores a site's ranks are those: all n, or the cases that it draws."""
        return n if self.cases is None else min(self.cases, n)

    def _block_of(self, n: int, site: str | None) -> PlanBlock | None:
        """The block of a site, None while the plan is open; a site that is not expected is refused."""
        names = self.site_names
        if names is not None and site not in self._by_name:
            raise ValueError(f"site must be one of the plan's, {quoted(names)}, got {site!r}")
        if self.blocks is None:
            return None
        if names is not None and site is not None:
            block = self.blocks[self._by_name[site]]
            if block.n != n:
                raise ValueError(
                    f"the plan expects {counted(block.n, 'score')} from site {site!r}, got {n:,}"
                )
            return block
        if n in self._by_size:
            return self._by_size[n]
        sizes = sorted(self._by_size)
        listed = ", ".join(map(str, sizes[:8])) + (", ..." if len(sizes) > 8 else "")
        raise ValueError(f"the plan expects sites with {listed} scores, got {n}")


def fraction_text(share: Fraction) -> str:
    """A fraction as documents hold it.

    Parameters
    ----------
    share : Fraction
        In lowest terms, as fractions are.

    Returns
    -------
    str
        Numerator, slash, denominator.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedconformal.documents import fraction_text
    >>> fraction_text(Fraction(9, 10))
    '9/10'
    """
    return f"{share.numerator}/{share.denominator}"
