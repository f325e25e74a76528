"""What may be asked of the planner, and how much: every limit is a sentence."""

from decimal import Decimal
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

MOST_SITES = 10_000
MOST_POINTS = 1_000_000
MOST_SIZES = 40
MOST_SITES_BY_SIZES = 4_000
MOST_PRIVATE_POINTS = 10_000
MOST_FAULTY_SIZES = 5
MOST_FAULTY_SITES_BY_SIZES = 400
MOST_PRIVATE_SIZES = 12
MOST_BINS = 1_000
MOST_PRIVATE_WISH_SITES = 1_000
MOST_PRIVATE_WISH_POINTS = 2_000
MOST_BYTES = 128 * 1024

Points = Annotated[int, Field(ge=1, le=MOST_POINTS)]
Count = Annotated[int, Field(ge=0, le=MOST_SITES)]
Sizes = Annotated[tuple[Points, ...], Field(min_length=1, max_length=MOST_SITES)]
OneOrList = Annotated[
    Annotated[Points, Tag("one")] | Annotated[Sizes, Tag("list")],
    Discriminator(lambda value: "list" if isinstance(value, (list, tuple)) else "one"),
]
"""One size, or one for each site; told apart first, so that a refusal speaks of the one that was meant."""


class Part(BaseModel):
    """Immutable, so that answers can be remembered; nothing in it that was not announced."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class PrivacyWish(Part):
    """Differentially private reports: the privacy loss of each, and the public bins it may name."""

    epsilon: float = Field(ge=0.001, le=100, description="privacy loss of a site's report")
    bins: int = Field(default=100, ge=2, le=MOST_BINS, description="how many bins")
    low: float = Field(default=0.0, ge=-1e12, le=1e12, description="where the scores' range begins")
    high: float = Field(default=1.0, ge=-1e12, le=1e12, description="where the scores' range ends")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low < self.high:
            raise ValueError(f"the range of scores must go up, got {self.low:g} to {self.high:g}")
        if self.high - self.low < 1e-9 * max(abs(self.low), abs(self.high)):
            raise ValueError("the range of scores is too narrow for its bins")
        return self


class PlanQuestion(Part):
    """A federation and what is wanted of it."""

    sites: Annotated[int, Field(ge=1, le=MOST_SITES)] | None = Field(
        default=None, description="number of sites; left out when points lists them"
    )
    points: OneOrList = Field(description="calibration cases at each site: one number, or one per site")
    confidence_level: float = Field(default=0.9, ge=0.01, le=0.9999, description="coverage that is wanted")
    criterion: Literal["marginal", "stable", "conditional"] = "marginal"
    delta: float = Field(default=0.1, ge=0.0001, le=0.5, description="for the conditional criterion")
    max_faulty: Count = Field(default=0, description="how many sites may send anything at all")
    missing: Count = Field(default=0, description="how many sites never answer, the largest ones")
    privacy: PrivacyWish | None = None

    @model_validator(mode="after")
    def _within_limits(self) -> Self:
        if isinstance(self.points, int) and self.sites is None:
            raise ValueError("sites is needed when points is one number")
        if isinstance(self.points, tuple) and self.sites not in (None, len(self.points)):
            raise ValueError(f"points lists {len(self.points)} sites, but sites is {self.sites}")
        if self.missing >= self.n_sites:
            raise ValueError(f"missing must be below the number of sites, {self.n_sites}, got {self.missing}")
        if 2 * self.max_faulty >= self.n_sites - self.missing:
            raise ValueError(
                "max_faulty must be below half the number of sites that answer, "
                f"{self.n_sites - self.missing} / 2, got {self.max_faulty}"
            )
        self._affordable_sizes()
        return self

    def _affordable_sizes(self) -> None:
        different, here = set(self.sizes), "here; the command line takes any"
        if len(different) > MOST_SIZES:
            raise ValueError(f"points may hold up to {MOST_SIZES} different sizes {here}")
        if len(different) > 1 and len(different) * self.n_sites > MOST_SITES_BY_SIZES:
            most = MOST_SITES_BY_SIZES // len(different)
            raise ValueError(
                f"with {len(different)} different sizes there may be up to {most:,} sites {here}"
            )
        faulty = len(different) > 1 and self.max_faulty > 0
        if faulty and len(different) > MOST_FAULTY_SIZES:
            raise ValueError(
                f"with sites that lie, points may hold up to {MOST_FAULTY_SIZES} different sizes {here}"
            )
        if faulty and len(different) * self.n_sites > MOST_FAULTY_SITES_BY_SIZES:
            most = MOST_FAULTY_SITES_BY_SIZES // len(different)
            raise ValueError(
                f"with sites that lie and {len(different)} different sizes there may be up to {most:,} "
                f"sites {here}"
            )
        if self.privacy is not None and len(different) > MOST_PRIVATE_SIZES:
            raise ValueError(
                f"with privacy, points may hold up to {MOST_PRIVATE_SIZES} different sizes {here}"
            )
        if self.privacy is not None and sum(different) > MOST_PRIVATE_POINTS:
            raise ValueError(
                f"with privacy, the different sizes may add up to {MOST_PRIVATE_POINTS:,} points {here}"
            )

    @property
    def sizes(self) -> tuple[int, ...]:
        """The size of each site, or of all."""
        return (self.points,) if isinstance(self.points, int) else self.points

    @property
    def n_sites(self) -> int:
        """How many sites there are."""
        return self.sites or len(self.sizes)

    @property
    def n_points(self) -> int:
        """Calibration cases in all."""
        return self.points * self.n_sites if isinstance(self.points, int) else sum(self.points)

    @property
    def is_bound(self) -> bool:
        """Whether the law is a lower bound and not the exact law."""
        return self.privacy is not None or self.max_faulty > 0

    @property
    def command(self) -> str:
        """The command that makes the same plan."""
        sizes = [str(size) for size in self.sizes]
        sites = [f"--sites {self.n_sites}"] if len(sizes) == 1 else []
        options = [
            *sites,
            f"--points {','.join(sizes)}",
            f"--confidence-level {_plain(self.confidence_level)}",
        ]
        if self.criterion != "marginal":
            options.append(f"--criterion {self.criterion}")
        if self.criterion == "conditional":
            options.append(f"--delta {_plain(self.delta)}")
        if self.max_faulty:
            options.append(f"--max-faulty {self.max_faulty}")
        if self.privacy is not None:
            rule = self.privacy
            options.append(
                f"--epsilon {_plain(rule.epsilon)} "
                f"--bins uniform:{_plain(rule.low)}:{_plain(rule.high)}:{rule.bins}"
            )
        return f"fedconformal plan {' '.join(options)} -o plan.json"


class PlanRequest(PlanQuestion):
    """A question, and how the answer is to be shown."""

    draft: bool = Field(
        default=False,
        description="a valid plan at once, where the best one takes longer; the answer says which it is",
    )
    width: int = Field(default=720, ge=280, le=1200, description="of the picture, in pixels")

    @property
    def question(self) -> PlanQuestion:
        """What was asked, without the looks."""
        return PlanQuestion.model_validate(self.model_dump(exclude={"draft", "width"}))


class WishRequest(PlanQuestion):
    """What would be enough to reach a wish."""

    wish: Literal["unlucky", "mean"] = Field(
        description="unlucky: in 19 of 20 calibrations the coverage is at least the value; mean: the "
        "coverage to be expected is at most the value"
    )
    value: float = Field(gt=0, lt=1, description="the coverage that is wished for")

    @model_validator(mode="after")
    def _affordable(self) -> Self:
        if self.privacy is not None and (
            self.n_sites > MOST_PRIVATE_WISH_SITES or max(self.sizes) > MOST_PRIVATE_WISH_POINTS
        ):
            raise ValueError(
                f"with privacy, a wish is searched for up to {MOST_PRIVATE_WISH_SITES:,} sites of up to "
                f"{MOST_PRIVATE_WISH_POINTS:,} points"
            )
        return self

    @property
    def question(self) -> PlanQuestion:
        """What was asked, without the wish."""
        return PlanQuestion.model_validate(self.model_dump(exclude={"wish", "value"}))


def _plain(value: float) -> str:
    """A number as one would write it."""
    return f"{Decimal(str(value)):f}"
