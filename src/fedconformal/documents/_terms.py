"""Terms of a question: model, round, expiry, and facts for readers."""

import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StringConstraints, WithJsonSchema

from fedconformal._text import listed
from fedconformal.documents._base import Part
from fedconformal.documents._fields import Digest, printable

_ROUND = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$"


def _id(text: str) -> str:
    if re.fullmatch(_ROUND, text, re.ASCII) is None or text.endswith("\n"):
        raise ValueError(
            "must be 1 to 64 letters, digits, dots, colons, dashes and underscores, a"
            " letter or digit first"
        )
    return text


RoundId = Annotated[
    str, AfterValidator(_id), WithJsonSchema({"type": "string", "pattern": _ROUND})
]
"""Up to 64 letters, digits, dots, colons, dashes and underscores."""


def random_round() -> str:
    """Draw a fresh id that nobody has chosen.

    Returns
    -------
    str
        128 random bits as hexadecimal digits.

    Examples
    --------
    >>> from fedconformal.documents import random_round
    >>> len(random_round())
    32
    """
    return secrets.token_hex(16)


def expiry_text(when: datetime) -> str:
    """Write a time as plans hold it, in UTC and whole seconds.

    Parameters
    ----------
    when : datetime
        With its time zone.

    Returns
    -------
    str
        Such as ``2030-01-31T12:00:00Z``.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> from fedconformal.documents import expiry_text
    >>> expiry_text(datetime(2030, 1, 31, 12, tzinfo=UTC))
    '2030-01-31T12:00:00Z'
    """
    return when.astimezone(UTC).strftime(_FORMAT)


_FORMAT = "%Y-%m-%dT%H:%M:%SZ"


def _read_expiry(text: str) -> datetime:
    return datetime.strptime(text, _FORMAT).replace(tzinfo=UTC)


def _check_expiry(text: str) -> str:
    try:
        _read_expiry(text)
    except ValueError:
        raise ValueError("must be a time in UTC such as 2030-01-31T12:00:00Z") from None
    return text


_TIME = StringConstraints(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z$")
Expiry = Annotated[str, _TIME, AfterValidator(_check_expiry)]
"""A time in UTC, such as ``2030-01-31T12:00:00Z``."""

Fact = Annotated[
    str,
    StringConstraints(min_length=1, max_length=500, strip_whitespace=True),
    AfterValidator(printable),
]
"""A line of text."""


def _fact(title: str, description: str) -> Any:
    return Field(default=None, title=title, description=description)


class Facts(Part):
    """Facts that an ethics board asks for first; all sites see them in the plan."""

    name: Fact | None = _fact("Model", "name of the model")
    version: Fact | None = _fact("Version", "version of the model")
    purpose: Fact | None = _fact("Purpose", "what it is used for")
    population: Fact | None = _fact("Population", "whose cases these are")
    period: Fact | None = _fact(
        "Period of the calibration cases", "when the calibration cases were collected"
    )
    unit: Fact | None = _fact(
        "Unit of what is predicted", "unit of what is predicted, as in mmHg"
    )
    coordinator: Fact | None = _fact("Coordinator", "who answers for the calibration")
    contact: Fact | None = _fact("Contact", "where questions go")
    check_again: Fact | None = _fact(
        "To be checked again", "until when it is to be relied on"
    )
    supersedes: Fact | None = _fact(
        "Superseded certificate", "the certificate that this one replaces"
    )
    plans_tried: Fact | None = _fact(
        "Plans tried before", "how many plans were tried before this one"
    )
    several_cases: Fact | None = _fact(
        "Several cases of one person", "whether several cases may be of one person"
    )
    prevalence: Fact | None = _fact(
        "Prevalence by site",
        "how common the outcome is at each site, where sites agree to tell",
    )
    date: Fact | None = _fact("Date of this document", "of the document")

    @property
    def given(self) -> dict[str, str]:
        """The facts that are there, by name."""
        return {
            name: text
            for name in type(self).model_fields
            if (text := getattr(self, name)) is not None
        }

    def with_more(self, others: Mapping[str, str]) -> "Facts":
        """Return these facts and others, which must not contradict them.

        Parameters
        ----------
        others : mapping from str to str
            By name.

        Returns
        -------
        Facts

        Raises
        ------
        ValueError
            If a name is unknown, or a fact is given twice in different words.
        """
        for name in others:
            if name not in Facts.model_fields:
                raise ValueError(
                    f"fact must be one of {listed(list(Facts.model_fields))}, got"
                    f" {name!r}"
                )
        more = Facts(**others)
        for name, text in more.given.items():
            if self.given.get(name, text) != text:
                raise ValueError(
                    f"fact {name!r}: the plan says {self.given[name]!r}, not {text!r}"
                )
        return Facts(**{**self.given, **more.given})


class Terms(Part):
    """Model, round, expiry and facts of a plan."""

    model: Digest | None = Field(
        default=None, description="of the file of the model whose scores are meant"
    )
    round: RoundId | None = Field(
        default=None, description="distinguishes rounds with the same options"
    )
    expires: Expiry | None = Field(
        default=None, description="time (UTC) after which the plan is refused"
    )
    facts: Facts | None = Field(
        default=None, description="which model, for what, who is responsible"
    )

    def has_expired(self, now: datetime | None = None) -> bool:
        """Return whether the expiry has passed.

        Parameters
        ----------
        now : datetime, optional
            A time with its time zone; the present one if left out.

        Returns
        -------
        bool
            False without an expiry.
        """
        return self.expires is not None and (now or datetime.now(UTC)) >= _read_expiry(
            self.expires
        )
