"""What tells one round from another: an id, and a moment after which nobody answers any more."""

import re
import secrets
from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, StringConstraints, WithJsonSchema

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
    """A fresh id that nobody has chosen.

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
    """Whether an id looks like one that was drawn."""
    return re.fullmatch(r"[0-9a-f]{32}", text) is not None


def moment(text: str) -> datetime:
    """The moment that an expiry names."""
    return datetime.strptime(text, _FORMAT).replace(tzinfo=UTC)


def expiry_text(when: datetime) -> str:
    """A moment as plans hold it, in UTC and whole seconds.

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
        raise ValueError("must be a moment in UTC such as 2030-01-31T12:00:00Z") from None
    return text


Expiry = Annotated[
    str, StringConstraints(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z$"), AfterValidator(_real)
]
"""A moment in UTC, such as ``2030-01-31T12:00:00Z``."""
