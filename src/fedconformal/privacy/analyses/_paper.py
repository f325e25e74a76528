"""The paper's own analysis (Algorithm 3)."""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import ClassVar

from fedconformal.privacy._aims import Aim, Balanced
from fedconformal.privacy.analyses._base import ANALYSES, Analysis
from fedconformal.privacy.analyses._search import PrivateChoice, PrivateSearch
from fedconformal.privacy.mechanisms import Mechanism

# The paper's grid search, fine enough not to handicap it: 360 values from .000001 to .96.
_GAMMAS = tuple(Fraction(round(10 ** (9 - i / 60)), 10**9) for i in range(360, 0, -1))
_MARGIN = 1e-9  # by which rounding may mistake a mean coverage


@ANALYSES.register
class Paper(Analysis):
    """A union bound over the sites: with high probability no release is far below the rank it aims at.

    For sites of one size, the marginal criterion, the exponential mechanism and no faulty sites.

    Examples
    --------
    >>> import fedconformal as fc
    >>> fc.Privacy(1.0, fc.Bins.uniform(0, 1, 10), analysis="paper").release().analysis.name
    'paper'
    """

    name: ClassVar[str] = "paper"
    default_mechanism: ClassVar[str] = "exponential"
    default_criterion: ClassVar[str | None] = "marginal"
    allows_each_site: ClassVar[bool] = False

    def aim(self, quantile: Fraction, slope: Fraction | None = None) -> Aim:
        """The errors of Algorithm 2, whose slopes follow from the quantile."""
        if slope is not None:
            raise ValueError(f"slope must be left out with the paper's analysis, got {slope}")
        return Balanced(quantile)

    def usual_aim(self, quantile: Fraction) -> Aim:
        """The only one there is."""
        return self.aim(quantile)

    def width(self, aim: Aim) -> int:
        """``2 max(a, d-a)``, which is more than it takes: the loss is at most epsilon d / (2 max(a, d-a))."""
        a, d = aim.quantile.as_integer_ratio()
        return 2 * max(a, d - a)

    def check(
        self,
        *,
        mechanism: Mechanism,
        n_sizes: int = 1,
        criterion: str | None = None,
        max_faulty: int = 0,
    ) -> None:
        """Refuse what the paper does not cover."""
        if mechanism.name != self.default_mechanism:
            raise ValueError(
                f"mechanism must be {self.default_mechanism!r} with the paper's analysis, "
                f"got {mechanism.name!r}"
            )
        if criterion not in (None, self.default_criterion):
            raise ValueError(
                f"criterion must be {self.default_criterion!r} with the paper's analysis, got {criterion!r}"
            )
        if n_sizes > 1:
            raise ValueError(
                f"n_points must be the same at all sites with the paper's analysis, got {n_sizes} sizes"
            )
        if max_faulty:
            raise ValueError(
                f"max_faulty must be 0 with the paper's analysis, which allows no faulty sites, "
                f"got {max_faulty}"
            )

    def choose(self, search: PrivateSearch) -> PrivateChoice | None:
        """Algorithm 3 to the letter: the gamma for which M at its corrected ranks is smallest."""
        ranks = min(_corrected(search), key=lambda pair: search.exact_mean(*pair), default=None)
        if ranks is None:
            return None
        local_rank, server_rank = ranks
        quantile = max(Fraction(local_rank, int(search.sizes[0])), Fraction(1, 2))
        aim = self.aim(quantile)
        return PrivateChoice(aim, server_rank, search.expected(aim, server_rank)[0])

    def has_plan(self, search: PrivateSearch) -> bool:
        """Whether any gamma leaves a rank that a site has."""
        return next(_corrected(search), None) is not None


def _corrected(search: PrivateSearch) -> Iterator[tuple[int, int]]:
    """For every gamma, ranks of the plan at a raised level, the local one corrected for the noise."""
    alpha, n, ranks, reach = 1 - search.level, int(search.sizes[0]), None, 0.0
    for gamma in _GAMMAS:
        kept = 1 - gamma * alpha
        level, correction = search.level / kept, _correction(search, kept)
        if _least_rank(search, level) + correction >= n:
            continue
        if level >= reach - _MARGIN:  # else the smallest mean above the last level is still above this one
            ranks = search.exact_ranks(level)
            reach = 0.0 if ranks is None else search.exact_mean(*ranks)
        if ranks is not None and ranks[0] + correction < n:
            yield ranks[0] + correction, ranks[1]


def _least_rank(search: PrivateSearch, level: Fraction) -> int:
    """No plan at this level has a local rank below this one, with which even the largest report is needed."""
    low, high = 0, int(search.sizes[0]) + 1
    while high - low > 1:
        middle = (low + high) // 2
        enough = search.exact_mean(middle, search.n_sites) >= float(level) - _MARGIN
        low, high = (low, middle) if enough else (middle, high)
    return high


def _correction(search: PrivateSearch, kept: Fraction) -> int:
    """How far below its aim a release may be: at no site by more, with probability at least ``kept``."""
    miss = 1 - float(kept) ** (1 / search.n_sites)
    return math.ceil(2 / float(search.release.epsilon) * math.log(search.release.n_bins / miss))
