"""What a site lets out, whoever wrote the plan."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Self

from fedconformal import _validation
from fedconformal._text import quoted
from fedconformal.documents import Plan, check_public_key, is_signed_by
from fedconformal.privacy import exact_text

_USUAL, _MOST_USUAL, _ONE_IN = 10, 100, 20
"""Without a policy: ten numbers in a message, or one in twenty scores if that is more, at most a hundred."""


class PolicyError(ValueError):
    """A site's own policy does not let an answer out; the message says which line would."""


@dataclass(frozen=True, kw_only=True)
class SitePolicy:
    """What a site lets out, whatever a plan asks for. The defaults are safe without any file.

    Parameters
    ----------
    max_numbers : int, optional
        How many numbers one message may hold, over all levels and groups. Left out: 10, or one in twenty of
        the site's scores if that is more, at most 100.
    max_answers : int
        How many exact answers one data set may give over its life. They are counted in the ledger; without
        one each message is judged alone.
    private_only : bool, optional
        True: exact answers never leave. False: they may leave even where a ledger is given, which records
        them. Left out: they may leave where no ledger is given, and are an error where one is.
    max_epsilon : float, optional
        The largest epsilon that one answer may cost.
    min_group : int
        Nothing is sent for a group of fewer points: a group of one reveals that one.
    scores, promises : sequence of str, optional
        The only scores, and the only promises, that a plan may name. Left out: any.
    coordinator : str, optional
        The only public key that a plan or a calibration may be signed with; then it must be signed.

    Examples
    --------
    >>> import fedconformal as fc
    >>> policy = fc.SitePolicy(private_only=True, max_epsilon=1)
    >>> fc.SitePolicy().numbers_of(120), fc.SitePolicy().numbers_of(1_000)
    (10, 50)
    """

    max_numbers: int | None = None
    max_answers: int = 20
    private_only: bool | None = None
    max_epsilon: float | None = None
    min_group: int = 5
    scores: tuple[str, ...] | None = None
    promises: tuple[str, ...] | None = None
    coordinator: str | None = None

    UNLIMITED: ClassVar[int] = 2**53

    def __post_init__(self) -> None:
        if self.max_numbers is not None:
            _validation.integer("max_numbers", self.max_numbers, low=0)
        _validation.integer("max_answers", self.max_answers, low=0)
        _validation.integer("min_group", self.min_group, low=1)
        if not (self.private_only is None or isinstance(self.private_only, bool)):
            raise TypeError(f"private_only must be true, false or left out, got {self.private_only!r}")
        if self.max_epsilon is not None:
            _validation.fraction("max_epsilon", self.max_epsilon, high=1e6, closed=True)
        for name in ("scores", "promises"):
            object.__setattr__(self, name, _names(name, getattr(self, name)))
        if self.coordinator is not None:
            check_public_key("coordinator", self.coordinator)

    @classmethod
    def unlimited(cls) -> Self:
        """The policy of somebody who holds all the data anyway, as in a simulation of sites.

        Returns
        -------
        SitePolicy
            One that lets every answer out.
        """
        return cls(max_numbers=cls.UNLIMITED, max_answers=cls.UNLIMITED, min_group=1, private_only=False)

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a policy from a TOML file, whose keys are this class's parameters.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        SitePolicy
            What it says; a key that is left out has its default.

        Raises
        ------
        ValueError
            With the name of the file and the reason in one line.
        """
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise ValueError(f"{path}: {error.strerror or error}") from None
        return cls.from_toml(content, name=str(path))

    @classmethod
    def from_toml(cls, content: bytes, *, name: str = "policy") -> Self:
        """Read a policy from the content of its file.

        Parameters
        ----------
        content : bytes
            TOML in UTF-8.
        name : str
            What refusals call it.

        Returns
        -------
        SitePolicy
            What it says; a key that is left out has its default.

        Raises
        ------
        ValueError
            With the name and the reason in one line.
        """
        try:
            given = tomllib.loads(content.decode("utf-8"))
            known = [field.name for field in fields(cls)]
            if strange := sorted(set(given) - set(known)):
                raise ValueError(f"{quoted(strange[:1])} is none of {', '.join(known)}")
            return cls(**given)
        except (ValueError, TypeError) as error:  # UnicodeDecodeError and TOMLDecodeError are ValueErrors
            raise ValueError(f"{name}: not a policy: {str(error).splitlines()[0]}") from None

    def numbers_of(self, n: int) -> int:
        """How many numbers a message of a site with n scores may hold.

        Parameters
        ----------
        n : int
            The site's scores, in all groups together.

        Returns
        -------
        int
            The most.
        """
        if self.max_numbers is not None:
            return self.max_numbers
        return min(_MOST_USUAL, max(_USUAL, n // _ONE_IN))

    def check_numbers(self, asked: str, numbers: int, n: int) -> None:
        """Refuse a message that holds too many numbers.

        Parameters
        ----------
        asked : str
            What asks for how many, in words.
        numbers, n : int
            How many numbers, about how many of the site's scores.

        Raises
        ------
        PolicyError
            With the line that would allow it.
        """
        if numbers > self.numbers_of(n):
            raise PolicyError(
                f"{asked}, and the site's policy lets {self.numbers_of(n):,} out: "
                f"max_numbers = {numbers} would allow it"
            )

    def check_plan(self, plan: Plan, *, has_ledger: bool) -> None:
        """Refuse a plan that this site does not answer, before any score is looked at.

        Parameters
        ----------
        plan : Plan
            The plan.
        has_ledger : bool
            Whether a ledger or a data set was given to charge.

        Raises
        ------
        PolicyError
            With the line that would allow it.
        """
        self.check_author("plan", plan)
        self.check_exact(is_exact=plan.privacy is None, has_ledger=has_ledger)
        self.check_names(plan)

    def check_names(self, plan: Plan) -> None:
        """Refuse a plan whose score or promise the site does not take part in.

        Parameters
        ----------
        plan : Plan
            The plan.
        """
        score = None if plan.score is None else plan.score.name
        self._check_named("scores", "scores by", [score])
        self._check_named("promises", "makes the promise", [part.promise for part in plan.parts])

    def check_author(self, kind: str, document: Plan | Any) -> None:
        """Refuse a document that the coordinator has not signed, where the policy names one.

        Parameters
        ----------
        kind : str
            What it is, in words.
        document : Plan or Calibration
            Signed or not.
        """
        if self.coordinator is not None and not is_signed_by(document, self.coordinator):
            raise PolicyError(
                f"this {kind} is not signed by the coordinator whose key the site's policy names, "
                f"{self.coordinator[:16]}..."
            )

    def check_exact(self, *, is_exact: bool, has_ledger: bool) -> None:
        """Refuse an exact answer where only private ones may leave.

        Parameters
        ----------
        is_exact : bool
            Whether numbers would leave as they are.
        has_ledger : bool
            Whether a ledger or a data set was given to charge.
        """
        if not is_exact or self.private_only is False:
            return
        if self.private_only:
            raise PolicyError(
                "this asks for exact numbers, and the site's policy says private_only = true: nothing leaves"
            )
        if has_ledger:
            raise PolicyError(
                "this asks for exact numbers, which no epsilon can pay for, but a ledger or a data set was "
                "given: leave them out, or say private_only = false in the site's policy, and they are "
                "recorded there"
            )

    def check_epsilon(self, epsilon: Fraction) -> None:
        """Refuse an answer that costs more than one may.

        Parameters
        ----------
        epsilon : Fraction
            What it would cost.
        """
        if self.max_epsilon is not None and epsilon > Fraction(str(self.max_epsilon)):
            raise PolicyError(
                f"this answer would cost epsilon {exact_text(epsilon)}, and the site's policy allows "
                f"{self.max_epsilon!r}: max_epsilon = {exact_text(epsilon)} would allow it"
            )

    def _check_named(self, field: str, verb: str, names: list[str | None]) -> None:
        allowed = getattr(self, field)
        if allowed is None:
            return
        for name in names:
            if name not in allowed:
                said = "names none" if name is None else f"{verb} {name!r}"
                wanted = [*allowed, *([] if name is None else [name])]
                raise PolicyError(
                    f"this plan {said}, and the site's policy allows {quoted(allowed)} alone: "
                    f"{field} = {wanted} would allow it"
                )


def _names(field: str, given: Any) -> tuple[str, ...] | None:
    if given is None:
        return None
    if (
        isinstance(given, str)
        or not isinstance(given, Iterable)
        or not all(isinstance(name, str) for name in given)
    ):
        raise TypeError(f"{field} must be a list of names, got {given!r}")
    return tuple(given)
