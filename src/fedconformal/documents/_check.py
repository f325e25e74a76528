"""The Check: how many new cases a site finds inside the published sets."""

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from fedconformal.documents._base import Digest, Document, SiteName
from fedconformal.documents._ceilings import CHECK, MOST_LEVELS, Ceiling
from fedconformal.documents._labels import Label
from fedconformal.documents._views import Many

LARGEST_CHECK = 10**7
"""No site checks more new cases than this."""


class Check(Document):
    """One site's answer to a calibration: of n new cases, how many are covered at each level.

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> scores = np.random.default_rng(0).random((2, 200))
    >>> calibration = fc.conformalize({"A": scores[0]})
    >>> fc.heterogeneity.answer(calibration, scores[1], site="A")
    <Check: 188 of 200 new cases covered, site 'A'>
    """

    kind: ClassVar[str] = "check"
    ceiling: ClassVar[Ceiling] = CHECK

    format: Literal["fedconformal/check"] = "fedconformal/check"
    version: Literal[1] = 1
    calibration: Digest = Field(description="digest of the calibration that was checked")
    label: Label | None = Field(default=None, description="the group that was checked, where there are some")
    site: SiteName
    n: int = Field(ge=1, le=LARGEST_CHECK, description="how many new cases the site has")
    epsilon: float | None = Field(
        ge=1e-6,
        le=100,
        description="privacy loss, shared evenly by the levels with a finite threshold; null if exact",
    )
    covered: Many[int] = Field(
        min_length=1,
        max_length=MOST_LEVELS,
        description="covered cases for each level; with noise if epsilon is not null",
    )

    def _line(self) -> str:
        covered = " and ".join(f"{each:,}" for each in self.covered)
        noise = "" if self.epsilon is None else f", with noise of epsilon {self.epsilon:g}"
        return f"{covered} of {self.n:,} new cases covered{noise}, site {self.site!r}"

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if any(not 0 <= count <= self.n for count in self.covered):
            raise ValueError(f"a number of covered cases must lie between 0 and n = {self.n}")
        return self
