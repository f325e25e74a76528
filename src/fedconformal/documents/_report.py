"""The Report: everything that leaves a site."""

import math
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from fedconformal.documents._base import LARGEST_N, Digest, Document, Extended, SiteName

Signature = Annotated[str, StringConstraints(pattern=r"^ed25519:[0-9a-f]{128}$")]


class Signed(Document):
    """A document with a field ``signature``."""

    def signed_content(self) -> bytes:
        """What a signature is made of: the canonical form without the signature."""
        return self.model_copy(update={"signature": None}).canonical()


class Report(Signed):
    """One site's answer to a plan: one number per confidence level."""

    kind: ClassVar[str] = "report"

    format: Literal["fedconformal/report"] = "fedconformal/report"
    version: Literal[1] = 1
    plan: Digest = Field(description="digest of the plan that this answers")
    site: SiteName
    n: int = Field(ge=1, le=LARGEST_N, description="how many scores the site has")
    ranks: tuple[int, ...] = Field(min_length=1, description="rank that was sent, for each level")
    values: tuple[Extended, ...] = Field(description="the score of that rank, for each level")
    signature: Signature | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(self.values) != len(self.ranks):
            raise ValueError("ranks and values must have the same length")
        for rank, value in zip(self.ranks, self.values, strict=True):
            if not 1 <= rank <= self.n + 1:
                raise ValueError(f"a rank must lie between 1 and n + 1 = {self.n + 1}")
            if rank > self.n and value != math.inf:
                raise ValueError("a rank above n has the value Infinity")
        return self

    @property
    def value(self) -> Any:
        """The number that was sent, or a tuple of them."""
        return self.values[0] if len(self.values) == 1 else self.values
