"""The Plan: which rank each site sends and which rank the server keeps."""

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from fedconformal._checks import rank_of
from fedconformal.documents._base import LARGEST_N, Document, Part, SiteName
from fedconformal.documents._views import PerSite, coverage_laws, one_or_all
from fedconformal.laws import CoverageLaw
from fedconformal.privacy._terms import Terms

Probability = Annotated[float, Field(gt=0, lt=1)]
PublicKey = Annotated[str, StringConstraints(pattern=r"^ed25519:[0-9a-f]{64}$")]
Share = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,39}/[1-9][0-9]{0,39}$")]


class Advice(Part):
    """What would make an infeasible level feasible."""

    n_points: int | None = Field(ge=1, description="smallest size that would do if every site had it")
    n_sites: int | None = Field(
        ge=1, description="smallest number of sites of the present (smallest) size that would do"
    )
    epsilon: float | None = Field(default=None, gt=0, description="smallest privacy loss that would do")


class Level(Part):
    """One confidence level of a plan."""

    confidence_level: Probability
    share: Share | None = Field(
        description="sites send rank ceil(share * (n + 1)); null where ranks follow no common share"
    )
    server_rank: int | None = Field(
        ge=1,
        description="rank that the server keeps; one more than there are sites for +inf; null while open",
    )
    advice: Advice | None = Field(description="present when no ranks reach the level")
    quantile: Share | None = Field(default=None, description="quantile that private sites aim at")

    @property
    def exact_share(self) -> Fraction | None:
        """The share as a fraction."""
        return None if self.share is None else Fraction(self.share)

    @model_validator(mode="after")
    def _proper_fractions(self) -> Self:
        for text in (self.share, self.quantile):
            if text is not None and (Fraction(text) >= 1 or text != _text(Fraction(text))):
                raise ValueError("share and quantile must be fractions below 1 in lowest terms")
        quantile = self.exact_quantile
        if quantile is not None and (2 * quantile < 1 or quantile.denominator > LARGEST_N):
            raise ValueError("a quantile must lie in [1/2, 1), with a denominator of at most 2^40")
        return self

    @property
    def exact_quantile(self) -> Fraction | None:
        """The quantile as a fraction."""
        return None if self.quantile is None else Fraction(self.quantile)


class ScoreRule(Part):
    """The score that all sites use, with its parameters."""

    name: Literal["absolute", "normalized", "cqr", "lac", "aps", "raps"]
    penalty: Annotated[float, Field(ge=0)] | None = None
    k_reg: Annotated[int, Field(ge=0)] | None = None
    randomized: bool | None = None

    def parameters(self) -> dict[str, Any]:
        """The parameters that were fixed."""
        return self.model_dump(exclude={"name"}, exclude_none=True)


class PrivacyRule(Part):
    """How sites make their reports differentially private; neighbours replace one record."""

    epsilon: float = Field(
        ge=1e-6, le=100, description="privacy loss of a site's whole answer, shared by its levels"
    )
    mechanism: Literal["permute-and-flip", "exponential"]
    analysis: Literal["tight", "paper"]
    edges: tuple[float, ...] = Field(min_length=2, description="right edges of the bins")
    bounded: bool = Field(description="no score can be above the last edge; else the last bin means Infinity")
    one_hot: bool = Field(description="only the sum of all sites' one-hot vectors may be calibrated")

    @model_validator(mode="after")
    def _increasing(self) -> Self:
        if any(left >= right for left, right in pairwise(self.edges)):
            raise ValueError("edges must increase strictly")
        return self


class SiteKey(Part):
    """A site's Ed25519 public key."""

    site: SiteName
    public_key: PublicKey


class Group(Part):
    """Consecutive sites of one size."""

    count: int = Field(ge=1)
    n: int = Field(ge=1, le=LARGEST_N, description="calibration scores at each site")
    ranks: tuple[int, ...] = Field(description="rank to send, for each level; n + 1 for +inf")
    names: tuple[SiteName, ...] | None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.names is not None and len(self.names) != self.count:
            raise ValueError("count and the number of names differ")
        if any(not 1 <= rank <= self.n + 1 for rank in self.ranks):
            raise ValueError(f"a rank must lie between 1 and n + 1 = {self.n + 1}")
        return self


class Plan(Document):
    """What everybody agrees on before any score is looked at.

    A plan holds nothing but the user's wishes and whole numbers, so that the same wishes give the same plan
    and the same digest everywhere. With one confidence level ``local_ranks``, ``server_rank`` and ``law``
    are that level's; with several they are tuples, one entry per level.
    """

    kind: ClassVar[str] = "plan"

    format: Literal["fedconformal/plan"] = "fedconformal/plan"
    version: Literal[1] = 1
    criterion: Literal["marginal", "stable", "conditional"]
    delta: Annotated[float, Field(gt=0, le=0.5)] | None = Field(description="for the conditional criterion")
    max_faulty: int = Field(ge=0, description="how many reports may be arbitrary")
    levels: tuple[Level, ...] = Field(min_length=1)
    groups: tuple[Group, ...] | None = Field(description="sites in order; null while sizes are unknown")
    names: tuple[SiteName, ...] | None = Field(description="the only sites an open plan expects")
    expected: int | None = Field(ge=1, description="how many sites an open plan without names expects")
    score: ScoreRule | None = Field(description="how all sites compute their scores, where the plan fixes it")
    keys: tuple[SiteKey, ...] | None = Field(description="then only reports signed with these keys count")
    privacy: PrivacyRule | None = Field(default=None, description="then reports are private")
    target: Literal["population", "each-site"] = Field(
        default="population",
        description="whose new points the promise is for: those of sites that are all alike, or of each site "
        "by itself, whatever the others are like",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.delta is None) != (self.criterion != "conditional"):
            raise ValueError("delta goes with the conditional criterion, and only with it")
        levels = [level.confidence_level for level in self.levels]
        if len(set(levels)) != len(levels):
            raise ValueError("a confidence level stands there twice")
        names = self.site_names
        if names is not None and len(set(names)) != len(names):
            raise ValueError("a site stands there twice")
        if self.keys is not None and sorted(key.site for key in self.keys) != sorted(names or ()):
            raise ValueError("keys must name exactly the sites that the plan names")
        if any((self.privacy is None) != (level.quantile is None) for level in self.levels):
            raise ValueError("every level has a quantile if the plan is private, and none otherwise")
        alone = self.criterion != "stable" and self.max_faulty == 0 and self.privacy is None
        if self.target == "each-site" and not alone:
            raise ValueError("a promise to each site is not stable, not private, and has no max_faulty")
        return self._consistent_open() if self.groups is None else self._consistent_closed(self.groups)

    def _consistent_open(self) -> Self:
        if any(level.server_rank is not None or level.share is None for level in self.levels):
            raise ValueError("an open plan has a share for every level, and no server_rank")
        if self.names is not None and self.expected is not None:
            raise ValueError("an open plan has names or an expected number of sites, not both")
        if self.privacy is not None:
            raise ValueError("a private plan needs the sizes of the sites")
        if self.target == "each-site" and self.criterion == "conditional":
            raise ValueError("a conditional promise to each site needs the sizes of the sites")
        if self.n_sites is not None and 2 * self.max_faulty >= self.n_sites:
            raise ValueError("max_faulty must be below half the number of sites")
        return self

    def _consistent_closed(self, groups: tuple[Group, ...]) -> Self:
        if not groups or self.names is not None or self.expected is not None:
            raise ValueError("a closed plan has groups, with names and numbers of sites inside them")
        if len({group.names is None for group in groups}) > 1:
            raise ValueError("either all sites have names or none")
        if any(len(group.ranks) != len(self.levels) for group in groups):
            raise ValueError("every group needs one rank for each level")
        if groups[0].names is None and len({group.n for group in groups}) < len(
            {(g.n, g.ranks) for g in groups}
        ):
            raise ValueError("sites without names must have the same ranks if they have the same size")
        m = sum(group.count for group in groups)
        if 2 * self.max_faulty >= m:
            raise ValueError("max_faulty must be below half the number of sites")
        for i, level in enumerate(self.levels):
            if level.server_rank is None or level.server_rank > m + 1:
                raise ValueError("server_rank must lie between 1 and the number of sites plus 1")
            if (level.server_rank > m) != (level.advice is not None) or level.server_rank <= self.max_faulty:
                raise ValueError("server_rank, advice and max_faulty do not fit together")
            if self.target == "each-site" and level.server_rank < m:
                raise ValueError("for a promise to each site the server keeps the largest report")
            share = level.exact_share
            if share is not None and any(group.ranks[i] != rank_of(share, group.n) for group in groups):
                raise ValueError("the ranks do not follow from the share")
        return self

    @property
    def is_open(self) -> bool:
        """Whether sizes come with the reports."""
        return self.groups is None

    @cached_property
    def _by_name(self) -> dict[str, int]:
        """The group of each named site; of an open plan, just the names."""
        if self.groups is None:
            return dict.fromkeys(self.names or (), 0)
        return {name: i for i, group in enumerate(self.groups) for name in group.names or ()}

    @cached_property
    def site_names(self) -> tuple[str, ...] | None:
        """The sites' names in order, where the plan names them."""
        if self.groups is None:
            return self.names
        if self.groups and self.groups[0].names is None:
            return None
        return tuple(name for group in self.groups for name in group.names or ())

    @property
    def n_sites(self) -> int | None:
        """How many sites are expected; None if that is open too."""
        if self.groups is None:
            return self.expected if self.names is None else len(self.names)
        return sum(group.count for group in self.groups)

    @property
    def fewest_answers(self) -> int:
        """How many sites must answer for anything to be calibrated: those that may lie must not be half."""
        return 2 * self.max_faulty + 1

    @property
    def n_points(self) -> PerSite | None:
        """Size of each site; None while the plan is open."""
        return self._per_site([group.n for group in self.groups or ()])

    def _per_site(self, values: Sequence[int]) -> PerSite | None:
        return None if self.groups is None else PerSite([group.count for group in self.groups], values)

    @property
    def confidence_level(self) -> Any:
        """The level, or a tuple of them."""
        return one_or_all([level.confidence_level for level in self.levels])

    @property
    def server_rank(self) -> Any:
        """Rank that the server keeps; None while the plan is open."""
        return one_or_all([level.server_rank for level in self.levels])

    @property
    def local_ranks(self) -> Any:
        """Rank that each site sends, in the order of the sites; None while the plan is open."""
        return one_or_all(
            [self._per_site([group.ranks[i] for group in self.groups or ()]) for i in range(len(self.levels))]
        )

    @property
    def terms(self) -> Terms | None:
        """The terms of one private release: a site's epsilon is shared evenly by the levels."""
        rule = self.privacy
        if rule is None:
            return None
        epsilon = Fraction(str(rule.epsilon)) / len(self.levels)
        return Terms(epsilon, len(rule.edges), rule.mechanism, rule.analysis)

    @cached_property
    def laws(self) -> tuple[CoverageLaw, ...] | None:
        """The law of the coverage for each level, if all sites answer; None while the plan is open."""
        if self.groups is None:
            return None
        groups = [(group.count, group.n, group.ranks) for group in self.groups]
        return coverage_laws(groups, [level.server_rank or 1 for level in self.levels], self)

    @property
    def law(self) -> Any:
        """The law of the coverage if all sites answer; None while the plan is open."""
        return None if self.laws is None else one_or_all(list(self.laws))

    @property
    def feasible(self) -> bool:
        """Whether every level has a finite threshold."""
        return all(level.advice is None for level in self.levels)

    @property
    def problems(self) -> tuple[str, ...]:
        """A sentence for each level that no ranks reach, and what would be enough."""
        sizes = [group.n for group in self.groups or ()]
        if self.feasible or not sizes:
            return ()
        points = f"{min(sizes)}" if len(set(sizes)) == 1 else f"{min(sizes)} to {max(sizes)}"
        return tuple(
            f"{self._nothing(level)} the level {level.confidence_level!r} ({self.criterion}) with "
            f"{self.n_sites} sites of {points} points{self._privacy_words()}: the threshold is infinite. "
            f"It would take {_either(self._ways(level.advice, min(sizes)))}."
            for level in self.levels
            if level.advice is not None
        )

    def _nothing(self, level: Level) -> str:
        return "No ranks reach" if level.share is None else "No server rank and these local ranks reach"

    def _privacy_words(self) -> str:
        rule = self.privacy
        return "" if rule is None else f", epsilon {rule.epsilon:g} and {len(rule.edges)} bins"

    def _ways(self, advice: Advice, smallest: int) -> list[str]:
        ways = []
        if advice.n_points is not None:
            ways.append(f"{advice.n_points} points at each of {self.n_sites} sites")
        if advice.n_sites is not None:
            ways.append(f"{advice.n_sites} sites of {smallest} points")
        if advice.epsilon is not None:
            ways.append(f"an epsilon of {advice.epsilon:g}")
        return ways

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know: problems, and sites too small for their rank."""
        silent = []
        for i, level in enumerate(self.levels):
            small = [group for group in self.groups or () if group.ranks[i] > group.n]
            if small:
                who = [name for group in small for name in group.names or ()]
                label = ", ".join(who[:10] or sorted({f"n = {group.n}" for group in small})[:10])
                count = sum(group.count for group in small)
                silent.append(
                    f"At the level {level.confidence_level!r}, {count} sites have too few points for their "
                    f"rank and send Infinity: {label}."
                )
        return (*self.problems, *silent)

    def ranks_for(self, n: int, *, site: str | None = None) -> tuple[int, ...]:
        """Ranks that a site with n scores sends, one per level; n + 1 stands for +inf.

        The site is found by its name where the plan names sites, else by its size.
        """
        names = self.site_names
        if names is not None and site not in self._by_name:
            raise ValueError(f"site must be one of the {len(names)} sites of the plan, got {site!r}")
        if self.groups is None:
            return tuple(rank_of(level.exact_share or Fraction(1), n) for level in self.levels)
        if names is not None and site is not None:
            group = self.groups[self._by_name[site]]
            if group.n != n:
                raise ValueError(f"the plan expects {group.n} scores from site {site!r}, got {n}")
            return group.ranks
        for group in self.groups:
            if group.n == n:
                return group.ranks
        sizes = sorted({group.n for group in self.groups})
        listed = ", ".join(map(str, sizes[:8])) + (", ..." if len(sizes) > 8 else "")
        raise ValueError(f"the plan expects sites with {listed} scores, got {n}")


def _text(share: Fraction) -> str:
    return f"{share.numerator}/{share.denominator}"


def _either(ways: list[str]) -> str:
    return ", or ".join(ways) or "more than this search could find"
