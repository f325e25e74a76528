"""What may be asked of the planner: every limit is a sentence."""

import shlex
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from fedconformal.documents import SiteName
from fedconformal.planning import CRITERIA, MOST_NUMBERS, PROMISES, Goal, Promise
from fedconformal.privacy import Bins, Privacy
from fedconformal.scores import SCORES, LabelScore, from_name
from fedconformal.web.planner._choices import NameIn
from fedconformal.web.planner._limits import (
    MOST_BINS,
    MOST_POINTS,
    MOST_PRIVATE_WISH_POINTS,
    MOST_PRIVATE_WISH_SITES,
    MOST_SITES,
    MOST_WISH_NUMBERS,
    check_sizes,
)

Points = Annotated[int, Field(ge=1, le=MOST_POINTS)]
Count = Annotated[int, Field(ge=0, le=MOST_SITES)]
Sizes = Annotated[tuple[Points, ...], Field(min_length=1, max_length=MOST_SITES)]
OneOrList = Annotated[
    Annotated[Points, Tag("one")] | Annotated[Sizes, Tag("list")],
    Discriminator(lambda value: "list" if isinstance(value, (list, tuple)) else "one"),
]
"""One size, or one for each site; told apart first, so that a refusal speaks of the one that was meant."""


SIZES_TABLE = "sites.csv"
"""What a table of names and sizes, with the columns site and n, is called in a command."""


class Message(BaseModel):
    """What is asked or answered: immutable, so that answers can be remembered, and strict."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class PrivacyWish(Message):
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

    @property
    def privacy(self) -> Privacy:
        """The same for `plan`."""
        return Privacy(epsilon=self.epsilon, bins=Bins.uniform(self.low, self.high, self.bins))

    @property
    def options(self) -> str:
        """The same on the command line."""
        bins = f"uniform:{_written(self.low)}:{_written(self.high)}:{self.bins}"
        return f"--epsilon {_written(self.epsilon)} --bins {bins}"


class PlanQuestion(Message):
    """A federation and what is wanted of it."""

    sites: Annotated[int, Field(ge=1, le=MOST_SITES)] | None = Field(
        default=None, description="number of sites; left out when points lists them"
    )
    points: OneOrList = Field(description="calibration cases at each site: one number, or one per site")
    names: Annotated[tuple[SiteName, ...], Field(min_length=1, max_length=MOST_SITES)] | None = Field(
        default=None, description="names of the sites that points lists; left out, any may answer"
    )
    score: Annotated[str, NameIn(SCORES)] | None = Field(
        default=None, description="score that all sites use; left out, each brings scores of its own"
    )
    confidence_level: float = Field(default=0.9, ge=0.01, le=0.9999, description="coverage that is wanted")
    promise: Annotated[str, NameIn(PROMISES)] = Field(
        default="population", description="whose new cases the promise is for"
    )
    criterion: Annotated[str, NameIn(CRITERIA)] | None = Field(
        default=None, description="in which sense they are covered; left out, as is usual for the promise"
    )
    delta: float = Field(default=0.1, ge=0.0001, le=0.5, description="for criteria that take it")
    max_faulty: Count = Field(default=0, description="how many sites may send anything at all")
    numbers: Annotated[int, Field(ge=1, le=MOST_NUMBERS)] | None = Field(
        default=None,
        description="how many numbers a site sends at the most; left out, as is usual for the promise",
    )
    max_missing: Count | None = Field(
        default=None,
        description="how many sites may stay silent, whichever they are, and the threshold be finite; left "
        "out, one, where that costs next to nothing",
    )
    missing: Count = Field(default=0, description="how many sites never answer, the largest ones")
    privacy: PrivacyWish | None = None

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
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
        if (self.max_missing or 0) >= self.n_sites:
            raise ValueError(
                f"max_missing must be below the number of sites, {self.n_sites}, got {self.max_missing}"
            )
        self._check_names()
        self._check_what_is_sent()
        return self

    def _check_names(self) -> None:
        if self.names is None:
            return
        if isinstance(self.points, int) or len(self.names) != len(self.points):
            raise ValueError(
                f"points must list one number for each of the {len(self.names)} names, got "
                f"{'one for all' if isinstance(self.points, int) else len(self.points)}"
            )
        if len(set(self.names)) < len(self.names):
            name, times = Counter(self.names).most_common(1)[0]
            raise ValueError(f"names must be different, got {name!r} {times} times")

    def _check_what_is_sent(self) -> None:
        if self.score is not None:
            from_name(self.score)  # refuses a score whose parameters have no defaults
        private, faulty = self.privacy is not None, self.max_faulty > 0
        if private and self.how_many > 1:
            raise ValueError(f"numbers must be 1 with privacy, got {self.how_many}")
        check_sizes(set(self.sizes), self.n_sites, faulty=faulty, private=private, numbers=self.how_many)
        self.promised.check(self.goal, private=private, is_open=False, numbers=self.how_many)

    @property
    def has_label_score(self) -> bool:
        """Whether sets are of labels, so that nothing has a width."""
        return self.score is not None and isinstance(from_name(self.score), LabelScore)

    @property
    def how_many(self) -> int:
        """How many numbers a site sends at the most."""
        return self.promised.default_numbers if self.numbers is None else self.numbers

    @property
    def sizes(self) -> tuple[int, ...]:
        """The size of each site, or of all."""
        return (self.points,) if isinstance(self.points, int) else self.points

    @property
    def federation(self) -> int | tuple[int, ...] | dict[str, int]:
        """The sizes as `plan` takes them: by name, where sites have names."""
        return self.points if self.names is None else dict(zip(self.names, self.sizes, strict=True))

    @property
    def is_alike(self) -> bool:
        """Whether all sites have one size."""
        return len(set(self.sizes)) == 1

    @property
    def n_sites(self) -> int:
        """How many sites there are."""
        return self.sites or len(self.sizes)

    @property
    def n_points(self) -> int:
        """Calibration cases in all."""
        return self.points * self.n_sites if isinstance(self.points, int) else sum(self.points)

    @property
    def promised(self) -> Promise:
        """The promise itself."""
        return PROMISES[self.promise]()

    @property
    def goal(self) -> Goal:
        """What a design must achieve."""
        return Goal(
            Fraction(str(self.confidence_level)),
            CRITERIA[self.criterion or self.promised.default_criterion](),
            Fraction(str(self.delta)),
            self.max_faulty,
            self.max_missing,
        )

    @property
    def command(self) -> str:
        """The command that makes the same plan."""
        return f"fedconformal plan {' '.join(self._options())} -o plan.json"

    def report_command(self, site: str) -> str | None:
        """Return the command by which a site answers; None while no score is chosen."""
        if self.score is None:
            return None
        columns = from_name(self.score).columns or ("p0", "p1")
        options = [f"--site {shlex.quote(site)}", "--target y", *(f"--prediction {name}" for name in columns)]
        return f"fedconformal report plan.json cases.csv {' '.join(options)} -o report.json"

    def _options(self) -> list[str]:
        """What the command is told, without what it would take anyway."""
        criterion, promise = self.goal.criterion, self.promised
        usual = PROMISES[type(self).model_fields["promise"].default]()
        options = {
            f"--sites {self.n_sites}": self.names is None and len(self.sizes) == 1,
            f"--points {self._listed_sizes()}": True,
            f"--score {self.score}": self.score is not None,
            f"--confidence-level {_written(self.confidence_level)}": True,
            f"--promise {promise.name}": promise != usual,
            f"--criterion {criterion.name}": criterion != CRITERIA[promise.default_criterion](),
            f"--delta {_written(self.delta)}": criterion.takes_delta,
            f"--max-faulty {self.max_faulty}": self.max_faulty > 0,
            f"--numbers {self.how_many}": self.how_many != promise.default_numbers,
            f"--max-missing {self.max_missing}": self.max_missing is not None,
            self.privacy.options if self.privacy else "": self.privacy is not None,
        }
        return [option for option, is_told in options.items() if is_told]

    def _listed_sizes(self) -> str:
        """The sizes on the command line; a table where a name holds what separates names there."""
        if self.names is None:
            return ",".join(map(str, self.sizes))
        if any("," in name for name in self.names):
            return SIZES_TABLE
        pairs = (f"{name}={size}" for name, size in zip(self.names, self.sizes, strict=True))
        return shlex.quote(",".join(pairs))


class PlanRequest(PlanQuestion):
    """A question, and how the answer is to be shown."""

    draft: bool = Field(
        default=False,
        description="a valid plan at once, where the best one takes longer; the answer says which it is",
    )
    compare: bool = Field(
        default=True,
        description="whether a row says what another number of numbers per site would give, which takes "
        "longer; never in a draft",
    )
    width: int = Field(default=720, ge=280, le=1200, description="of the picture, in pixels")

    @property
    def question(self) -> PlanQuestion:
        """What was asked, without the looks."""
        return PlanQuestion.model_validate(self.model_dump(exclude={"draft", "compare", "width"}))


class WishRequest(PlanQuestion):
    """What would be enough to reach a wish."""

    wish: Literal["low", "mean"] = Field(
        description="low: in 19 of 20 calibrations the coverage is at least the value; mean: the coverage to "
        "be expected is at most the value"
    )
    value: float = Field(gt=0, lt=1, description="the coverage that is wished for")

    @model_validator(mode="after")
    def _affordable(self) -> Self:
        if not self.promised.has_law:
            raise ValueError(f"with promise {self.promise!r} there is no law of the coverage to wish from")
        if self.how_many > MOST_WISH_NUMBERS:
            raise ValueError(f"a wish is searched for up to {MOST_WISH_NUMBERS} numbers per site")
        if self.privacy is not None and (
            self.n_sites > MOST_PRIVATE_WISH_SITES or max(self.sizes) > MOST_PRIVATE_WISH_POINTS
        ):
            raise ValueError(
                f"with privacy, a wish is searched for up to {MOST_PRIVATE_WISH_SITES:,} sites of up to "
                f"{MOST_PRIVATE_WISH_POINTS:,} cases"
            )
        return self

    @property
    def question(self) -> PlanQuestion:
        """What was asked, without the wish."""
        return PlanQuestion.model_validate(self.model_dump(exclude={"wish", "value"}))


def _written(value: float) -> str:
    """A number as one would write it."""
    return f"{Decimal(str(value)).normalize():f}"
