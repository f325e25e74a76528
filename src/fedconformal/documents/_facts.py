"""Facts about a calibration that no number tells: which model, for what, whose cases, who answers for it."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from fedconformal._text import listed
from fedconformal.documents._base import Part, printable

Fact = Annotated[
    str, StringConstraints(min_length=1, max_length=500, strip_whitespace=True), AfterValidator(printable)
]
"""A line of text."""


class Facts(Part):
    """What an ethics board asks first; kept in the plan, so that all sites see it."""

    model: Fact | None = Field(default=None, title="Model", description="name of the model")
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
    def told(self) -> dict[str, str]:
        """What is there, by name."""
        return {name: text for name in type(self).model_fields if (text := getattr(self, name)) is not None}

    def with_more(self, others: Mapping[str, str]) -> "Facts":
        """These facts and others; none may say something else.

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
            If a name is unknown, or a fact is told twice in different words.
        """
        _check_names(others)
        more = Facts(**others)
        for name, text in more.told.items():
            if self.told.get(name, text) != text:
                raise ValueError(f"fact {name!r}: the plan says {self.told[name]!r}, not {text!r}")
        return Facts(**{**self.told, **more.told})


def _check_names(facts: Mapping[str, str]) -> None:
    for name in facts:
        if name not in Facts.model_fields:
            raise ValueError(f"no fact {name!r}: there are {listed(list(Facts.model_fields))}")
