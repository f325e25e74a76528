"""What an analysis searches: the federation as it sees it, and what it finds."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from fedconformal._typing import Ints
from fedconformal.privacy._aims import Aim


@dataclass(frozen=True)
class PrivateChoice:
    """An aim for the sites, a rank for the server, and the coverage to expect.

    Parameters
    ----------
    aim : Aim
        Where every site aims.
    server_rank : int
        The rank that the server keeps.
    expected_coverage : float
        Mean coverage to expect if scores lie evenly over the bins.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedconformal.privacy import Balanced, PrivateChoice
    >>> choice = PrivateChoice(Balanced(Fraction(9, 10)), server_rank=7, expected_coverage=0.93)
    >>> choice.aim.rank(100), choice.server_rank
    (90, 7)
    """

    aim: Aim
    server_rank: int
    expected_coverage: float


class Noise(Protocol):
    """The private release that is planned, as far as an analysis looks at it."""

    @property
    def epsilon(self) -> Fraction:
        """Privacy loss of one release."""
        ...

    @property
    def n_bins(self) -> int:
        """How many bins there are."""
        ...


class PrivateSearch(Protocol):
    """A federation, a goal and a private release: what can be asked of them while a plan is sought."""

    @property
    def n_sites(self) -> int:
        """How many sites there are."""
        ...

    @property
    def sizes(self) -> Ints:
        """The different numbers of scores that sites have."""
        ...

    @property
    def level(self) -> Fraction:
        """The coverage that was asked for."""
        ...

    @property
    def release(self) -> Noise:
        """What each site does, but for the aim."""
        ...

    @property
    def ranks(self) -> range:
        """Server ranks that are allowed."""
        ...

    @property
    def judged(self) -> range:
        """Those among them of which it can be told what to expect."""
        ...

    @property
    def finest(self) -> int:
        """Quantiles are odd multiples of one over twice this."""
        ...

    def seems_valid(self, aim: Aim, k: int) -> bool:
        """What ``is_valid`` says, but for choices on the edge: much faster."""
        ...

    def is_valid(self, aim: Aim, k: int) -> bool:
        """Whether the promise holds for every distribution if sites aim there and the server keeps rank k."""
        ...

    def expected(self, aim: Aim, k: int) -> tuple[float, float]:
        """Mean coverage to expect, and the cost under the criterion."""
        ...

    def exact_ranks(self, level: Fraction) -> tuple[int, int] | None:
        """Local and server rank of the plan without privacy at a level, under the marginal criterion."""
        ...

    def exact_mean(self, local_rank: int, server_rank: int) -> float:
        """Mean coverage without privacy."""
        ...
