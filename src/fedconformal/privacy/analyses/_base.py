"""What every analysis knows."""

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import ClassVar

from fedconformal._registry import Registry
from fedconformal.privacy._aims import Aim
from fedconformal.privacy.analyses._search import PrivateChoice, PrivateSearch
from fedconformal.privacy.mechanisms import Mechanism

ANALYSES: "Registry[Analysis]" = Registry("analysis", "fedconformal.analyses")
"""All analyses by name."""


class Analysis(ABC):
    """An argument why private reports cover: how much noise it wants, and which plan it allows.

    It has no parameters, so that its name says all of it.

    Examples
    --------
    >>> from fedconformal.privacy import ANALYSES
    >>> "tight" in ANALYSES
    True
    """

    name: ClassVar[str]
    """What plans call it."""
    default_mechanism: ClassVar[str]
    """The name of the mechanism that is used unless another is asked for."""
    default_criterion: ClassVar[str | None] = None
    """The name of the criterion that is used unless another is asked for; None for the promise's own."""

    allows_each_site: ClassVar[bool] = True
    """Whether it can serve a promise to every site by itself."""

    def __eq__(self, other: object) -> bool:
        """Two analyses of one class are the same."""
        return type(self) is type(other)

    def __hash__(self) -> int:
        """By class."""
        return hash(type(self))

    def __repr__(self) -> str:
        """As it is made."""
        return f"{type(self).__name__}()"

    @abstractmethod
    def aim(self, quantile: Fraction, slope: Fraction | None = None) -> Aim:
        """The errors of bins that miss a quantile.

        Parameters
        ----------
        quantile : Fraction
            The quantile at which sites aim.
        slope : Fraction or None
            How the errors rise below it, where that is free to choose.

        Returns
        -------
        Aim
            For `PrivateRelease`.

        Raises
        ------
        ValueError
            If the quantile is out of range, or a slope is missing or not wanted.
        """

    @abstractmethod
    def usual_aim(self, quantile: Fraction) -> Aim:
        """A good aim at a quantile before any search.

        Parameters
        ----------
        quantile : Fraction
            The quantile at which sites aim, in [1/2, 1).

        Returns
        -------
        Aim
            With a slope of its own choice.
        """

    @abstractmethod
    def width(self, aim: Aim) -> int:
        """The scale of the noise times epsilon.

        Parameters
        ----------
        aim : Aim
            Where a site aims.

        Returns
        -------
        int
            At least ``aim.change``; a release with less noise would not be private, and is refused.
        """

    @abstractmethod
    def check(
        self,
        *,
        mechanism: Mechanism,
        n_sizes: int = 1,
        criterion: str | None = None,
        max_faulty: int = 0,
    ) -> None:
        """Refuse what does not go together with this analysis.

        Parameters
        ----------
        mechanism : Mechanism
            How a bin is drawn.
        n_sizes : int
            How many different sizes the sites have.
        criterion : str or None
            The name of the criterion; None for the default one.
        max_faulty : int
            How many reports may be arbitrary.

        Raises
        ------
        ValueError
            Names the argument, its value and what is allowed.
        """

    @abstractmethod
    def choose(self, search: PrivateSearch) -> PrivateChoice | None:
        """The best aim and server rank.

        Parameters
        ----------
        search : PrivateSearch
            The federation, the goal and the release.

        Returns
        -------
        PrivateChoice or None
            None where no choice keeps the promise.
        """

    @abstractmethod
    def has_plan(self, search: PrivateSearch) -> bool:
        """Whether ``choose`` would find anything, faster where that can be told without it.

        Parameters
        ----------
        search : PrivateSearch
            The federation, the goal and the release.

        Returns
        -------
        bool
            True if some choice keeps the promise.
        """
