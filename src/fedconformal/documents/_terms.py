"""Terms of a plan: model, round, expiry, and facts for readers."""

import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints, WithJsonSchema

from fedconformal._text import listed
from fedconformal.documents._base import Digest, Part, printable

_ROUND = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$"


def _id(text: str) -> str:
    if re.fullmatch(_ROUND, text, re.ASCII) is None or text.endswith("\n"):
        raise ValueError(
            "must be 1 to 64 letters, digits, dots, colons, dashes and underscores, a letter or digit first"
        )
    return text


RoundId = Annotated[str, AfterValidator(_id), WithJsonSchema({"type": "string", "pattern": _ROUND})]
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


def is_random(text: str) -> bool:
    """Return whether an id looks like one that was drawn."""
    return re.fullmatch(r"[0-9a-f]{32}", text) is not None


def moment(text: str) -> datetime:
    """Return the time that an expiry names."""
    return datetime.strptime(text, _FORMAT).replace(tzinfo=UTC)


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


def _real(text: str) -> str:
    try:
        moment(text)
    except ValueError:
        raise ValueError("must be a time in UTC such as 2030-01-31T12:00:00Z") from None
    return text


Expiry = Annotated[
    str, StringConstraints(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z$"), AfterValidator(_real)
]
"""A time in UTC, such as ``2030-01-31T12:00:00Z``."""

Fact = Annotated[
    str, StringConstraints(min_length=1, max_length=500, strip_whitespace=True), AfterValidator(printable)
]
"""A line of text."""


class Facts(Part):
    """Facts that an ethics board asks for first; all sites see them in the plan."""

    name: Fact | None = Field(default=None, title="Model", description="name of the model")
    version: Fact | None = Field(default=None, title="Version", description="version of the model")
    purpose: Fact | None = Field(default=None, title="Purpose", description="what it is used for")
    population: Fact | None = Field(default=None, title="Population", description="whose cases these are")
    period: Fact | None = Field(
        default=None,
        title="Period of the calibration cases",
        description="when the calibration cases were collected",
    )
    unit: Fact | None = Field(
        default=None, title="Unit of what is predicted", description="unit of what is predicted, as in mmHg"
    )
    coordinator: Fact | None = Field(
        default=None, title="Coordinator", description="who answers for the calibration"
    )
    contact: Fact | None = Field(default=None, title="Contact", description="where questions go")
    check_again: Fact | None = Field(
        default=None, title="To be checked again", description="until when it is to be relied on"
    )
    date: Fact | None = Field(default=None, title="Date of this document", description="of the document")

    @property
    def given(self) -> dict[str, str]:
        """The facts that are there, by name."""
        return {name: text for name in type(self).model_fields if (text := getattr(self, name)) is not None}

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
                raise ValueError(f"fact must be one of {listed(list(Facts.model_fields))}, got {name!r}")
        more = Facts(**others)
        for name, text in more.given.items():
            if self.given.get(name, text) != text:
                raise ValueError(f"fact {name!r}: the plan says {self.given[name]!r}, not {text!r}")
        return Facts(**{**self.given, **more.given})


class Terms(Part):
    """Model, round, expiry and facts of a plan."""

    model: Digest | None = Field(default=None, description="of the file of the model whose scores are meant")
    round: RoundId | None = Field(
        default=None,
        description="distinguishes this round from others with the same options; random if signed",
    )
    expires: Expiry | None = Field(
        default=None, description="time (UTC) after which sites and the server refuse the plan"
    )
    facts: Facts | None = Field(
        default=None, description="which model, for what, whose cases, who is responsible"
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
        return self.expires is not None and (now or datetime.now(UTC)) >= moment(self.expires)
