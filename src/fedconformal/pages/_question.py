"""Questions to the planner; every limit is refused with a sentence."""

import shlex
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from fedconformal.documents import (
    MOST_NUMBERS,
    Facts,
    Label,
    SiteName,
    check_public_key,
)
from fedconformal.planning import (
    CRITERIA,
    PROMISES,
    Criterion,
    Promise,
    PromiseScope,
)
from fedconformal.privacy import Bins, Privacy
from fedconformal.scores import SCORES, LabelScore, LossScore, claim_of, from_name

# What a page can wait for; the command line and the library have no such limits.
MOST_SITES = 10_000
MOST_POINTS = 1_000_000
MOST_BINS = 1_000
MOST_CLASSES = 1_000
MOST_NUMBERS_BY_SIZES = 120  # where sizes differ
MOST_SIZES, MOST_SITES_BY_SIZES = 40, 4_000
MOST_FAULTY_SIZES, MOST_FAULTY_SITES_BY_SIZES = 5, 400
_HERE = "here; the command line takes any"

USUAL_PROMISE = "population"
"""The promise that is meant where none is chosen."""

SIZES_TABLE = "sites.csv"
"""Name, in a command, of a table of names and sizes with the columns site and n."""


def _name_in(registry: Mapping[str, object]) -> AfterValidator:
    return AfterValidator(
        lambda name: registry[name] and name
    )  # an unknown name is refused


Points = Annotated[int, Field(ge=1, le=MOST_POINTS)]
Count = Annotated[int, Field(ge=0, le=MOST_SITES)]
Sizes = Annotated[tuple[Points, ...], Field(min_length=1, max_length=MOST_SITES)]
OneOrList = Annotated[
    Annotated[Points, Tag("one")] | Annotated[Sizes, Tag("list")],
    Discriminator(lambda value: "list" if isinstance(value, (list, tuple)) else "one"),
]
"""One size, or one for each site; distinguished first, so that a refusal names the one
that was meant.
"""


class StrictModel(BaseModel):
    """Part of a question: strict, and immutable, so that answers can be remembered."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False
    )


class Grid(StrictModel):
    """Public grid in whose cells scores are counted."""

    bins: int = Field(default=100, ge=2, le=MOST_BINS)
    low: float = Field(default=0.0, ge=-1e12, le=1e12)
    high: float = Field(default=1.0, ge=-1e12, le=1e12)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low < self.high:
            raise ValueError(
                f"the range of scores must go up, got {self.low:g} to {self.high:g}"
            )
        if self.high - self.low < 1e-9 * max(abs(self.low), abs(self.high)):
            raise ValueError("the range of scores is too narrow for its bins")
        return self

    @property
    def grid(self) -> Bins:
        """The same for `plan`."""
        return Bins.uniform(self.low, self.high, self.bins)

    @property
    def grid_text(self) -> str:
        """The same on the command line."""
        return f"uniform:{_written(self.low)}:{_written(self.high)}:{self.bins}"


class PrivacyOptions(Grid):
    """Differentially private reports: privacy loss, grid and analysis, as `Privacy` has
    them.
    """

    epsilon: float = Field(ge=0.001, le=100)
    analysis: str = Privacy.analysis

    @model_validator(mode="after")
    def _known(self) -> Self:
        Privacy(self.epsilon, analysis=self.analysis)  # refuses an unknown name
        return self

    @property
    def privacy(self) -> Privacy:
        """The same for `plan`."""
        return Privacy(epsilon=self.epsilon, bins=self.grid, analysis=self.analysis)

    @property
    def options(self) -> str:
        """The same on the command line."""
        paper = " --paper" if self.analysis == "paper" else ""
        return f"--epsilon {_written(self.epsilon)} --bins {self.grid_text}{paper}"


class PlanQuestion(StrictModel):
    """A federation and what is wanted of it, as `plan` takes it.

    ``points`` is one number for all sites, or one for each. ``keys`` has a line with
    the public key of each site. ``missing`` says how many sites never answer, the
    largest ones, which is no part of a plan.
    """

    sites: Annotated[int, Field(ge=1, le=MOST_SITES)] | None = None
    points: OneOrList
    names: (
        Annotated[tuple[SiteName, ...], Field(min_length=1, max_length=MOST_SITES)]
        | None
    ) = None
    score: Annotated[str, _name_in(SCORES)] | None = None
    classes: (
        Annotated[tuple[Label, ...], Field(min_length=2, max_length=MOST_CLASSES)]
        | None
    ) = None
    facts: Facts | None = None
    keys: str | None = None
    confidence_level: float = Field(default=0.9, ge=0.01, le=0.9999)
    promise: Annotated[str, _name_in(PROMISES)] = USUAL_PROMISE
    criterion: Annotated[str, _name_in(CRITERIA)] | None = None
    delta: float = Field(default=0.1, ge=0.0001, le=0.5)
    max_faulty: Count = 0
    numbers: Annotated[int, Field(ge=1, le=MOST_NUMBERS)] | None = None
    max_missing: Count | None = None
    missing: Count = 0
    curve: Grid | None = None
    privacy: PrivacyOptions | None = None

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if isinstance(self.points, int) and self.sites is None:
            raise ValueError("sites is needed when points is one number")
        if isinstance(self.points, tuple) and self.sites not in (
            None,
            len(self.points),
        ):
            raise ValueError(
                f"points lists {len(self.points)} sites, but sites is {self.sites}"
            )
        for name, most in (
            ("missing", self.missing),
            ("max_missing", self.max_missing or 0),
        ):
            if most >= self.n_sites:
                raise ValueError(
                    f"{name} must be below the number of sites, {self.n_sites}, got"
                    f" {most}"
                )
        if 2 * self.max_faulty >= self.n_sites - self.missing:
            raise ValueError(
                "max_faulty must be below half the number of sites that answer, "
                f"{self.n_sites - self.missing} / 2, got {self.max_faulty}"
            )
        self._check_names()
        self._check_sizes()
        if self.public_keys is not None and set(self.public_keys) != set(
            self.names or ()
        ):
            raise ValueError(
                "keys must hold one public key for each named site, and no other"
            )
        if self.score is not None:
            from_name(self.score)  # refuses a score whose parameters have no defaults
        if self.classes is not None and not self.has_label_score:
            raise ValueError("classes were given, but the score is not one of labels")
        if any("," in name for name in self.classes or ()):
            raise ValueError("names of classes may not contain a comma here")
        return self

    def _check_names(self) -> None:
        if self.names is None:
            return
        if isinstance(self.points, int) or len(self.names) != len(self.points):
            raise ValueError(
                f"points must list one number for each of the {len(self.names)} names,"
                " got "
                f"{'one for all' if isinstance(self.points, int) else len(self.points)}"
            )
        if len(set(self.names)) < len(self.names):
            name, times = Counter(self.names).most_common(1)[0]
            raise ValueError(f"names must be different, got {name!r} {times} times")

    def _check_sizes(self) -> None:
        """Refuse a federation whose plan would take too long while somebody waits."""
        sizes = set(self.sizes)
        limits = [("", MOST_SIZES, MOST_SITES_BY_SIZES)]
        if self.max_faulty:
            limits.append(
                (
                    "if sites may be wrong, ",
                    MOST_FAULTY_SIZES,
                    MOST_FAULTY_SITES_BY_SIZES,
                )
            )
        for condition, most_sizes, most_product in limits if len(sizes) > 1 else []:
            if len(sizes) > most_sizes:
                raise ValueError(
                    f"{condition}sites may have up to {most_sizes} different sizes"
                    f" {_HERE}"
                )
            if len(sizes) * self.n_sites > most_product:
                most = f"there may be up to {most_product // len(sizes):,} sites"
                raise ValueError(
                    f"{condition}with {len(sizes)} different sizes {most} {_HERE}"
                )
        if len(sizes) > 1 and self.how_many * len(sizes) > MOST_NUMBERS_BY_SIZES:
            most = f"numbers may be up to {max(1, MOST_NUMBERS_BY_SIZES // len(sizes))}"
            raise ValueError(f"with {len(sizes)} different sizes, {most} {_HERE}")

    @property
    def has_label_score(self) -> bool:
        """True if sets are of labels or pixels, so that nothing has a width."""
        return self.score is not None and isinstance(
            from_name(self.score), LabelScore | LossScore
        )

    @property
    def claim(self) -> str:
        """Promise of the score, for a sentence."""
        return claim_of(self.score)

    @property
    def how_many(self) -> int:
        """Largest count of numbers that a site sends."""
        return self.promised.default_numbers if self.numbers is None else self.numbers

    @property
    def sizes(self) -> tuple[int, ...]:
        """The size of each site, or of all."""
        return (self.points,) if isinstance(self.points, int) else self.points

    @property
    def is_alike(self) -> bool:
        """True if all sites have one size."""
        return len(set(self.sizes)) == 1

    @property
    def n_sites(self) -> int:
        """Number of sites."""
        return self.sites or len(self.sizes)

    @property
    def n_points(self) -> int:
        """Calibration cases in all."""
        return (
            self.points * self.n_sites
            if isinstance(self.points, int)
            else sum(self.points)
        )

    @property
    def promised(self) -> Promise:
        """The promise itself."""
        return PROMISES[self.promise]()

    @property
    def scope(self) -> PromiseScope:
        """The promise with one threshold for all cases, as the planner has it."""
        return PromiseScope(self.promised)

    @property
    def public_keys(self) -> dict[str, str] | None:
        """Public keys by site; None without keys."""
        if self.keys is None:
            return None
        lines = [line.strip() for line in self.keys.splitlines() if line.strip()]
        pairs = [
            (name.strip(), key.strip())
            for name, _, key in (line.rpartition("=") for line in lines)
        ]
        for name, key in pairs:
            check_public_key(f"the key of {name!r}", key)
        if len(dict(pairs)) < len(pairs):
            raise ValueError("keys must have one line for each site")
        return dict(pairs)

    @property
    def chosen_criterion(self) -> Criterion:
        """The criterion itself, which is the promise's own if left out."""
        usual = None if self.privacy is None else self.privacy.privacy.default_criterion
        return CRITERIA[self.criterion or usual or self.promised.default_criterion]()

    @property
    def command(self) -> str:
        """The command that makes the same plan, without what it would take anyway."""
        criterion, promise = self.chosen_criterion, self.promised
        usual, default = (
            PROMISES[USUAL_PROMISE](),
            self.model_copy(update={"criterion": None}).chosen_criterion,
        )
        delta = f":{_written(self.delta)}" if criterion.takes_delta else ""
        options = {
            f"--sites {self.n_sites}": self.names is None and len(self.sizes) == 1,
            f"--points {self._listed_sizes()}": True,
            f"--score {self.score}": self.score is not None,
            f"--confidence-level {_written(self.confidence_level)}": True,
            f"--promise {promise.name}": promise != usual,
            f"--criterion {criterion.name}{delta}": criterion != default,
            f"--max-faulty {self.max_faulty}": self.max_faulty > 0,
            f"--numbers {self.how_many}": self.how_many != promise.default_numbers,
            f"--max-missing {self.max_missing}": self.max_missing is not None,
            f"--curve {self.curve.grid_text if self.curve else ''}": (
                self.curve is not None
            ),
            self.privacy.options if self.privacy else "": self.privacy is not None,
            f"--term {shlex.quote('classes=' + ','.join(self.classes or ()))}": (
                self.classes is not None
            ),
        }
        facts = {} if self.facts is None else self.facts.given
        options |= {
            f"--term {shlex.quote(f'{name}={text}')}": True
            for name, text in facts.items()
        }
        keys = (self.public_keys or {}).items()
        options |= {f"--key {shlex.quote(f'{name}={key}')}": True for name, key in keys}
        chosen = " ".join(option for option, is_told in options.items() if is_told)
        return f"fedconformal plan {chosen} -o plan.json"

    def report_command(self, site: str) -> str:
        """Return the command by which a site answers: from scores, or from cases where
        a score is chosen.
        """
        options, table = [f"--site {shlex.quote(site)}"], "scores.csv"
        if self.score is not None:
            score = from_name(self.score)
            table = "cases.npz" if score.takes_images else "cases.csv"
            target = "y0,y1" if isinstance(score, LossScore) else "y"
            columns = score.columns or self.classes or ("p0", "p1")
            if score.takes_images:
                target, columns = "truth", ("probability",)
            options += [
                f"--target {target}",
                *(f"--prediction {shlex.quote(name)}" for name in columns),
            ]
        if self.privacy is not None:
            options.append("--ledger ledger.db --dataset cases")
        if self.curve is not None:
            options.append("--policy policy.toml")
        if self.keys is not None:
            options.append("--sign-with site.key")
        return (
            f"fedconformal report plan.json {table} {' '.join(options)} -o report.json"
        )

    @property
    def ledger_commands(self) -> list[str]:
        """Commands by which a site sets up its privacy budget; empty without
        privacy.
        """
        if self.privacy is None:
            return []
        budget = (
            "fedconformal ledger budget ledger.db cases"
            f" {_written(self.privacy.epsilon)}"
        )
        return ["fedconformal ledger new ledger.db", budget]

    @property
    def without_terms(self) -> Self:
        """The same question without what no solution depends on: facts, keys and names
        of classes.
        """
        return self.model_copy(update={"facts": None, "keys": None, "classes": None})

    def _listed_sizes(self) -> str:
        """Return the sizes on the command line; a table where a name holds what
        separates names there.
        """
        if self.names is None:
            return ",".join(map(str, self.sizes))
        if any("," in name for name in self.names):
            return SIZES_TABLE
        pairs = (
            f"{name}={size}" for name, size in zip(self.names, self.sizes, strict=True)
        )
        return shlex.quote(",".join(pairs))


def _written(value: float) -> str:
    """Return a number as one would write it."""
    return f"{Decimal(str(value)).normalize():f}"
