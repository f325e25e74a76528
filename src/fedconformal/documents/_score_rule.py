"""The score that all sites use, as documents name it."""

from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from fedconformal.documents import _fields as limits
from fedconformal.documents._base import Part
from fedconformal.documents._fields import Name, printable

Word = Annotated[str, StringConstraints(max_length=200), AfterValidator(printable)]


class ScoreRule(Part):
    """The score that all sites use, with all its parameters."""

    name: Name
    parameters: Annotated[
        dict[Word, bool | int | float | Word],
        AfterValidator(lambda given: dict(sorted(given.items()))),
    ] = Field(default={}, max_length=limits.MOST_FIELDS)

    def __str__(self) -> str:
        """Return the score as code writes it: raps(k_reg=5, penalty=0.01)."""
        shown = [f"{name}={value}" for name, value in self.parameters.items()]
        return f"{self.name}({', '.join(shown)})"
