"""Limits on what a site discloses, regardless of the plan."""

import dataclasses
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Self

from fedconformal import _util
from fedconformal._files import warn_if_shared
from fedconformal._text import count, one_line, quoted
from fedconformal._util import read_regular
from fedconformal.documents import (
    CheckQuestion,
    Plan,
    SiteKey,
    check_public_key,
    is_signed_by,
)
from fedconformal.messages import of
from fedconformal.privacy import exact_text

_DIGEST = re.compile("sha256:[0-9a-f]{64}")
_MOST_DOTS = 1_000
_USUAL, _MOST_USUAL, _ONE_IN = 10, 100, 20
"""Without a policy: ten numbers in a message, or one in twenty scores if that is more,
at most 100.
"""

_SHORTEST_SECRET = 16
_USUAL_OVER_LIFE, _ONE_IN_OVER_LIFE = 20, 10
"""Without a policy: twenty numbers over the life of a data set, or one in ten scores if
that is more.
"""


_VERBS = {
    "scores": "uses the score",
    "promises": "makes the promise",
    "messages": "asks for the message",
}


class PolicyError(ValueError):
    """An answer that the site's own policy does not allow; the message names the line
    that would.
    """


@dataclass(frozen=True, kw_only=True)
class SitePolicy:
    """Limits on what a site discloses, regardless of the plan. The defaults are safe
    without any file.

    Parameters
    ----------
    max_numbers : int, optional
        Largest number of exact scores in one message, over all levels and groups. Left
        out: 10, or one in twenty of the site's scores if that is more, at most 100.
    max_answers : int
        Largest number of exact answers of one data set over its life. They are counted
        in the ledger; without one each message is judged individually.
    max_disclosed : int, optional
        Largest number of exact numbers in all these answers together, counted likewise.
        Left out: 20, or one in ten of the site's scores if that is more.
    private_only : bool, optional
        True: exact answers never leave. False: they may leave even where a ledger is
        given, which records them. Left out: they may leave where no ledger is given,
        and are an error where one is.
    max_epsilon : float, optional
        The largest epsilon that one answer may cost.
    curves : {"private", "plain"}
        ``"private"``: counts leave only with noise. ``"plain"``: exact counts may
        leave, which are all scores up to the width of a cell.
    sum_with : sequence of str
        Public keys of the other sites with which this one's counts may be added up, in
        masked plans, with noise or without.
    min_sum_with : int
        Smallest number of other sites in a masked sum.
    masked_only : bool, optional
        True: exact numbers leave in masked sums alone, in checks too. False: they may
        also leave in the clear, and whoever asks some sites in the clear, and all of
        them masked, can subtract. Left out: true where ``sum_with`` names keys, else
        false.
    sum_record : str, optional
        File that records masked answers, one for all keys of the site, so that there is
        one answer for each question; in a policy's file relative to its folder. Left
        out: a file beside the key, which sees nothing of what other keys have answered.
        It must last as long as the keys do.
    sum_dataset : str, optional
        Name of the cases that are added up in exact sums, the same at all sites: sites
        that name different ones have no sum. Another name than in earlier sums declares
        that no case was in one of these.
    model : str, optional
        Digest (``sha256:...``) of the model that makes this site's scores, for masked
        plans where the model itself is not given.
    round_down_to : int
        Exact counts below this are sent as 0, which can only raise the threshold.
    min_group : int
        Smallest group for which anything is sent: a group of one reveals that one.
    scores, promises, messages : sequence of str, optional
        The only scores, promises and messages (``"ranks"``, ``"cases"``, ``"curve"``,
        ``"bin"``) that a plan may name. Left out: any.
    coordinator : str or sequence of str, optional
        The only public keys that a plan or a calibration may be signed with; then it
        must be signed.
    revoked : sequence of str
        Public keys whose signatures are refused, also where ``coordinator`` has them.
    report_seal : bool
        True: reports carry number and seal of the ledger's entry, by which an older
        copy is found later.
    secret : str, optional
        At least 16 characters that nobody else knows, from which the random numbers of
        randomized scores are derived where there is no ledger: then repeating a round
        draws nothing new.

    Examples
    --------
    >>> import fedconformal as fc
    >>> policy = fc.SitePolicy(private_only=True, max_epsilon=1)
    >>> fc.SitePolicy().numbers_of(120), fc.SitePolicy().numbers_of(1_000)
    (10, 50)
    """

    max_numbers: int | None = None
    max_answers: int = 20
    max_disclosed: int | None = None
    private_only: bool | None = None
    max_epsilon: float | None = None
    curves: str = "private"
    sum_with: tuple[str, ...] = ()
    min_sum_with: int = 3
    masked_only: bool | None = None
    sum_record: Path | None = None
    sum_dataset: str | None = None
    model: str | None = None
    round_down_to: int = 0
    min_group: int = 5
    scores: tuple[str, ...] | None = None
    promises: tuple[str, ...] | None = None
    messages: tuple[str, ...] | None = None
    coordinator: str | tuple[str, ...] | None = None
    revoked: tuple[str, ...] = ()
    report_seal: bool = False
    secret: str | None = dataclasses.field(default=None, repr=False)

    UNLIMITED: ClassVar[int] = 2**53
    LONGEST: ClassVar[int] = 64 * 2**10  # bytes of its file

    def __post_init__(self) -> None:
        for field in ("max_numbers", "max_disclosed"):
            if getattr(self, field) is not None:
                _util.integer(field, getattr(self, field), low=0)
        _util.integer("max_answers", self.max_answers, low=0)
        _util.integer("min_group", self.min_group, low=1)
        _util.choice("curves", self.curves, ("private", "plain"))
        _util.integer("round_down_to", self.round_down_to, low=0)
        _util.integer("min_sum_with", self.min_sum_with, low=1)
        for field in ("private_only", "masked_only"):
            value = getattr(self, field)
            if not (value is None or isinstance(value, bool)):
                raise TypeError(
                    f"{field} must be true, false or left out, got {value!r}"
                )
        if not isinstance(self.report_seal, bool):
            raise TypeError(
                f"report_seal must be true or false, got {self.report_seal!r}"
            )
        if self.max_epsilon is not None:
            _util.fraction("max_epsilon", self.max_epsilon, high=1e6, closed=True)
        self._check_texts()
        self._check_lists()
        if self.masked_only is None:
            object.__setattr__(self, "masked_only", bool(self.sum_with))

    def _check_texts(self) -> None:
        """Check names, a digest, a secret and the path of the record, which becomes a
        Path.
        """
        if self.sum_record is not None:
            if not isinstance(self.sum_record, str | Path):
                raise TypeError(
                    f"sum_record must be the path of a file, got {self.sum_record!r}"
                )
            if str(self.sum_record).startswith("~"):
                raise ValueError(
                    "sum_record must not depend on who runs a command, got"
                    f" {str(self.sum_record)!r}: sudo and scheduled jobs have other"
                    " home folders"
                )
            object.__setattr__(self, "sum_record", Path(self.sum_record))
        dataset = self.sum_dataset
        if dataset is not None and not (isinstance(dataset, str) and dataset.strip()):
            raise TypeError(f"sum_dataset must be a name, got {dataset!r}")
        model = self.model
        if model is not None and not (
            isinstance(model, str) and _DIGEST.fullmatch(model)
        ):
            raise ValueError(
                f"model must be a digest, sha256: and 64 digits, got {model!r}"
            )
        secret = self.secret
        if secret is not None and (
            not isinstance(secret, str) or len(secret) < _SHORTEST_SECRET
        ):
            raise ValueError(
                f"secret must be text of at least {_SHORTEST_SECRET} characters"
            )

    def _check_lists(self) -> None:
        """Check lists of names and of public keys, which become tuples."""
        for field in (
            "scores",
            "promises",
            "messages",
            "coordinator",
            "revoked",
            "sum_with",
        ):
            names = getattr(self, field)
            if names is None:
                continue
            if field == "coordinator" and isinstance(names, str):
                names = (names,)
            is_list = isinstance(names, Iterable) and not isinstance(names, str)
            if not is_list or not all(isinstance(name, str) for name in names):
                raise TypeError(f"{field} must be a list of names, got {names!r}")
            object.__setattr__(self, field, tuple(names))
        for key in self.coordinator or ():
            check_public_key("coordinator", key)
        for field in ("revoked", "sum_with"):
            for key in getattr(self, field):
                check_public_key(field, key)
        if not self.coordinators and (self.revoked or self.coordinator is not None):
            raise ValueError(
                "coordinator must have a public key that is not revoked, got none"
            )

    @property
    def coordinators(self) -> tuple[str, ...]:
        """Public keys of the coordinators, without those revoked; empty if there are
        none.
        """
        return tuple(key for key in self.coordinator or () if key not in self.revoked)

    @classmethod
    def unlimited(cls) -> Self:
        """Return the policy of somebody who holds all the data anyway, as in a
        simulation of sites.

        Returns
        -------
        SitePolicy
            One that allows every answer.
        """
        most = cls.UNLIMITED
        return cls(
            max_numbers=most,
            max_answers=most,
            max_disclosed=most,
            min_group=1,
            private_only=False,
            curves="plain",
            min_sum_with=1,
        )

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
            The policy; a key that is left out has its default.

        Raises
        ------
        ValueError
            With the name of the file and the reason in one line.
        """
        policy = cls.from_toml(read_regular(path, cls.LONGEST + 1), name=str(path))
        if policy.secret is not None:
            warn_if_shared(Path(path), "policy's secret")
        if (
            policy.sum_record is not None
        ):  # the same file, wherever a command is started
            record = Path(path).absolute().parent / policy.sum_record
            policy = dataclasses.replace(policy, sum_record=record)
        return policy

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
            The policy; a key that is left out has its default.

        Raises
        ------
        ValueError
            With the name and the reason in one line.
        """
        try:
            if len(content) > cls.LONGEST:
                raise ValueError(f"larger than {cls.LONGEST // 2**10} KB")
            if (
                content.count(b".") > _MOST_DOTS
            ):  # a key of many parts takes time by the square of these
                raise ValueError(f"more than {_MOST_DOTS:,} dots in it")
            given = tomllib.loads(content.decode("utf-8"))
            known = [field.name for field in fields(cls)]
            if unknown := sorted(set(given) - set(known)):
                raise ValueError(f"{quoted(unknown[:1])} is none of {', '.join(known)}")
            return cls(**given)
        except RecursionError:
            raise ValueError(f"{name}: not a policy: nested too deeply") from None
        except (
            ValueError,
            TypeError,
        ) as error:  # UnicodeDecodeError and TOMLDecodeError are ValueErrors
            raise ValueError(
                f"{name}: not a policy: {one_line(str(error), 200)}"
            ) from None

    def numbers_of(self, n: int) -> int:
        """Return the largest number of exact scores in a message of a site with n
        scores.

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

    def check_numbers(self, numbers: int, n: int) -> None:
        """Refuse a message that holds too many exact scores of the n that the site
        has.
        """
        if numbers > self.numbers_of(n):
            raise PolicyError(
                f"{numbers:,} of your {n:,} scores would leave, and the site's policy"
                f" allows {self.numbers_of(n):,}: max_numbers = {numbers} would"
                " allow it"
            )

    def check_life(
        self, dataset: str, numbers: int, n: int, answers: int, disclosed: int
    ) -> None:
        """Refuse one exact answer more of a data set of n scores, for what left before
        or would then.
        """
        if answers >= self.max_answers:
            raise PolicyError(
                f"data set {dataset!r} has given {count(answers, 'exact answer')}, and"
                f" the site's policy allows {self.max_answers:,}: max_answers ="
                f" {answers + 1} would allow it"
            )
        most = (
            max(_USUAL_OVER_LIFE, n // _ONE_IN_OVER_LIFE)
            if self.max_disclosed is None
            else self.max_disclosed
        )
        if disclosed + numbers > most:
            raise PolicyError(
                f"{count(disclosed, 'exact number')} of data set {dataset!r} left"
                f" before and {numbers:,} more would leave, and the site's policy"
                f" allows {most:,} over its life: max_disclosed = {disclosed + numbers}"
                " would allow it"
            )

    def check_plan(self, plan: Plan, *, has_ledger: bool) -> None:
        """Refuse a plan that this site does not answer, before any score is looked
        at.
        """
        is_exact = any(
            of(design.message).epsilon(design) is None for design in plan.designs
        )
        self.check_document(plan, plan, is_exact=is_exact, has_ledger=has_ledger)
        is_open = is_exact and not plan.is_masked
        if is_open and self.masked_only:
            self.refuse_open()
        if (
            is_open
            and self.curves != "plain"
            and any(of(each.message).adds_up for each in plan.designs)
        ):
            raise PolicyError(
                "this plan asks for exact counts of all scores, and the site's policy"
                ' allows them with noise only: curves = "plain" would allow it'
            )

    def check_sum(self, keys: Sequence[SiteKey], own: str) -> None:
        """Refuse a masked sum with unknown sites, or with too few others than the owner
        of a public key.
        """
        others = [key for key in keys if key.public_key != own]
        if unknown := [key for key in others if key.public_key not in self.sum_with]:
            first = f"{unknown[0].site!r} with the key {unknown[0].public_key}"
            more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
            raise PolicyError(
                f"your counts would be added up with {first}{more}, and the site's"
                " policy does not name such keys: sum_with must list those of all"
                " other sites, checked with these sites"
            )
        if (number := len(others)) < self.min_sum_with:
            raise PolicyError(
                f"your counts would be added up with {count(number, 'other site')}, and"
                f" the site's policy wants {self.min_sum_with}: min_sum_with = {number}"
                " would allow it"
            )

    def check_document(
        self,
        document: Any,
        plan: Plan | CheckQuestion,
        *,
        is_exact: bool,
        has_ledger: bool,
    ) -> None:
        """Refuse an author, an exact answer, or the score and promise of a plan that
        the site does not allow.

        Parameters
        ----------
        document : Plan, Calibration or CheckQuestion
            The document that is answered; it must be signed where the policy names a
            coordinator.
        plan : Plan or CheckQuestion
            The plan itself, or that of the calibration.
        is_exact : bool
            True if numbers would leave as they are.
        has_ledger : bool
            True if a ledger or a data set was given to charge.
        """
        if revoked := {document.signer, plan.signer} & set(self.revoked):
            raise PolicyError(
                f"the site's policy has revoked the key {min(revoked)[:16]}..."
            )
        if self.coordinator is not None and not any(
            is_signed_by(document, key) for key in self.coordinators
        ):
            keys = ", ".join(f"{key[:16]}..." for key in self.coordinators[:3])
            raise PolicyError(
                f"this {document.kind} is not signed by the coordinator whose key the"
                f" site's policy names, {keys}"
            )
        if is_exact and self.private_only:
            raise PolicyError(
                "exact numbers would leave, and the site's policy says private_only ="
                " true: nothing leaves"
            )
        if is_exact and self.private_only is None and has_ledger:
            raise PolicyError(
                "exact numbers would leave, but a ledger was given: omit ledger and"
                " dataset, or set private_only = false in the site's policy to record"
                " the exact answer"
            )
        for field, name in (
            (field, name) for field, names in plan.choices.items() for name in names
        ):
            allowed = getattr(self, field)
            if allowed is not None and name not in allowed:
                words = "names none" if name is None else f"{_VERBS[field]} {name!r}"
                wanted = [*allowed, *([] if name is None else [name])]
                raise PolicyError(
                    f"this plan {words}, and the site's policy allows {quoted(allowed)}"
                    f" alone: {field} = {wanted} would allow it"
                )

    def refuse_open(self) -> None:
        """Refuse an exact answer that can be read without those of other sites."""
        raise PolicyError(
            "exact numbers would leave that can be read individually, and the site's"
            " policy says masked_only = true: ask for masked counts, or for a private"
            " answer"
        )

    def check_epsilon(self, epsilon: Fraction) -> None:
        """Refuse an answer that costs more than one may."""
        if self.max_epsilon is not None and epsilon > Fraction(str(self.max_epsilon)):
            raise PolicyError(
                f"this answer would cost epsilon {exact_text(epsilon)}, and the site's"
                f" policy allows {self.max_epsilon!r}: max_epsilon ="
                f" {exact_text(epsilon)} would allow it"
            )
