"""The Plan: everything that is agreed before any score is looked at, with its terms and
groups.
"""

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, StringConstraints, WithJsonSchema

from fedconformal._extras import call_higher
from fedconformal._text import count, listed, quoted
from fedconformal.documents import _fields as limits
from fedconformal.documents._base import Part, SizeLimit
from fedconformal.documents._design import Design
from fedconformal.documents._fields import (
    Digest,
    Label,
    Many,
    Name,
    SiteName,
    check_labels,
    check_looks,
    printable,
)
from fedconformal.documents._messages import Cases
from fedconformal.documents._signing import AuthoredDocument, PublicKey, exchange_point
from fedconformal.documents._views import PlanAttributes, PlanView

# -- terms: model, round, expiry, and facts for readers --------------------------------

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


# -- groups of cases: by a label that each case has, its true class, its site ----------

GroupBy = Literal["site", "class", "label"]
"""Property by which cases are grouped."""

GROUPED_BY: tuple[tuple[GroupBy, ...], ...] = (
    ("class",),
    ("site",),
    ("site", "class"),
    ("site", "label"),
)
"""Properties by which cases are grouped, other than the label alone."""


def pair_label(site: str, label: str) -> str:
    """Return the group of the cases of one label at one site.

    Parameters
    ----------
    site, label : str
        The two.

    Returns
    -------
    str
        Both of them, the site first.

    Examples
    --------
    >>> from fedconformal.documents import pair_label
    >>> pair_label("north", "child")
    'north: child'
    """
    return f"{site}: {label}"


@dataclass(frozen=True)
class Grouping:
    """Map from the label and the site of a case to its group.

    Parameters
    ----------
    by : tuple of str
        What groups are made of.
    sites : mapping
        The only site of each group; empty where groups are not made of sites.
    groups : tuple of str
        The groups of the plan.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(
    ...     groups={"child": {"A": 40}, "adult": {"A": 90, "B": 60}},
    ...     group_by=("site", "label"),
    ... )
    >>> plan.grouping.groups_of(["child", "adult"], "A")
    ['A: child', 'A: adult']
    """

    by: tuple[GroupBy, ...]
    sites: Mapping[str, str]
    groups: tuple[str, ...]

    @property
    def by_site(self) -> bool:
        """True if every group has one site, whose own threshold it is."""
        return "site" in self.by

    @property
    def by_class(self) -> bool:
        """True if the label of a point is its true class."""
        return "class" in self.by

    @property
    def by_label(self) -> bool:
        """True if points have a label that is known before the truth is."""
        return "label" in self.by

    @property
    def has_labels(self) -> bool:
        """True if a point's group depends on more than its site."""
        return self.by_class or self.by_label

    def counted(self, number: int) -> str:
        """Write a number of these groups with the word for them, as in "2 classes".

        Parameters
        ----------
        number : int
            The number.

        Returns
        -------
        str
        """
        if self.by_site:
            return count(number, "group" if self.has_labels else "site")
        return (
            count(number, "class", "classes")
            if self.by_class
            else count(number, "group")
        )

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels that points may have, in alphabetical order."""
        if not self.has_labels:
            return ()
        return tuple(sorted({self._without_site(group) for group in self.groups}))

    @property
    def absent(self) -> tuple[tuple[str, str], ...]:
        """Sites and labels that have no group together though both have others."""
        if not (self.by_site and self.has_labels):
            return ()
        there = {
            (self.sites[group], self._without_site(group)) for group in self.groups
        }
        sites, labels = ({pair[i] for pair in there} for i in (0, 1))
        return tuple(
            sorted({(site, label) for site in sites for label in labels} - there)
        )

    def parts_of(self, group: str) -> tuple[str | None, str | None]:
        """Return the site and the label of a group; None where it has none.

        Parameters
        ----------
        group : str
            A group of the plan.

        Returns
        -------
        site : str or None
        label : str or None
        """
        return self.sites.get(group), (
            self._without_site(group) if self.has_labels else None
        )

    def _without_site(self, group: str) -> str:
        return (
            group.removeprefix(pair_label(self.sites[group], ""))
            if self.by_site
            else group
        )

    def groups_of(self, labels: Sequence[str], site: str | None) -> list[str | None]:
        """Return the group of the cases of each label, all of one site.

        Parameters
        ----------
        labels : sequence of str
            The labels.
        site : str or None
            The site, where groups are made of sites.

        Returns
        -------
        list of str or None
            None where the plan has no such group.
        """
        if self.by_site:
            own = self.group_of_site(site)
            # "A: B" may be site A and label "B", or a site of that name: the plan says
            # whose it is.
            known, names = (
                {g for g in self.groups if self.sites[g] == own},
                [pair_label(own, l) for l in labels],
            )
        else:
            known, names = set(self.groups), list(labels)
        return [name if name in known else None for name in names]

    def group_of_site(self, site: str | None) -> str:
        """Return the group of a site, where groups are sites; refuse a site that has
        none.
        """
        known = sorted(set(self.sites.values()))
        if site is None:
            raise ValueError(
                "site must be given: every site has its own threshold, here"
                f" {quoted(known)}"
            )
        if site not in known:
            raise ValueError(
                f"site must be one of the plan's, {quoted(known)}, got {site!r}"
            )
        return site


# -- the plan --------------------------------------------------------------------------

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


class SiteKey(Part):
    """Public key of a site."""

    site: SiteName
    public_key: PublicKey


class Plan(PlanAttributes, AuthoredDocument):
    """Agreement made before any score is looked at: a design for each group of cases.

    ``local_ranks``, ``server_rank``, ``law`` and so on are those of one group and
    level; of several, ``plan["child"]``, ``plan[0.9]`` and ``plan["child", 0.9]`` have
    the same attributes.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_sites=10, n_points=79)
    >>> plan
    <Plan: 10 sites, 79 points each, level 0.9, promise population, criterion stable>
    >>> plan.local_ranks[0], plan.server_rank, round(plan.law.mean(), 4)
    (71, 7, 0.9029)
    >>> fc.Plan.from_json(plan.to_json()) == plan
    True
    """

    limit: ClassVar[SizeLimit] = SizeLimit(
        2 * 2**20, 750_000, ("names", "edges"), 24 * 2**20
    )

    format: Literal["fedconformal/plan"] = "fedconformal/plan"
    version: Literal[1] = 1
    designs: Many[Design] = Field(
        min_length=1, max_length=limits.MOST_GROUPS, description="by group"
    )
    group_by: Many[GroupBy] | None = Field(
        default=None, description="what makes groups, if not a label"
    )
    classes: (
        Annotated[Many[Label], Field(min_length=2, max_length=limits.MOST_CLASSES)]
        | None
    ) = Field(
        default=None,
        description=(
            "names of the classes, in the order of the columns of probabilities"
        ),
    )
    score: ScoreRule | None = Field(
        default=None, description="of all sites, where the plan fixes it"
    )
    keys: Many[SiteKey] | None = Field(
        default=None, min_length=1, description="which sign the reports"
    )
    terms: Terms = Field(default=Terms(), description="model, round, expiry and facts")

    def check(self) -> None:
        """Refuse content that does not fit together, whoever wrote it.

        Whether a design keeps its promise is checked by its message when it is
        answered, and by the audit.
        """
        check_labels([design.group for design in self.designs])
        check_looks(
            {name for design in self.designs for name in design.site_names or ()}
        )
        check_looks(self.groups, "groups", with_case=True)
        check_looks(self.classes or (), "classes", with_case=True)
        levels = sum(len(design.levels) for design in self.designs)
        if levels > limits.MOST_LEVELS_OF_GROUPS:
            most = f"{limits.MOST_LEVELS_OF_GROUPS:,}"
            raise ValueError(
                f"levels times groups must be at most {most}, got {levels:,}"
            )
        cells = sum(
            design.message.count_cells(len(design.levels)) for design in self.designs
        )
        if cells > limits.MOST_CELLS:
            most = f"{limits.MOST_CELLS:,}"
            raise ValueError(
                f"cells of all groups and levels must be at most {most}, got {cells:,}"
            )
        if self.classes is not None and len(set(self.classes)) < len(self.classes):
            raise ValueError("classes must be different")
        if self.is_grouped:
            self._check_groups()
        elif self.group_by is not None:
            raise ValueError("group_by was given, but there are no groups")
        if self.keys is not None and sorted(key.site for key in self.keys) != sorted(
            self.site_names or ()
        ):
            raise ValueError("keys must name exactly the sites that the plan names")
        if self.is_masked:
            self._check_masks()
        for design in self.designs:
            design.check()
            if isinstance(design.message, Cases) and not re.fullmatch(
                r"[0-9a-f]{32}", self.terms.round or ""
            ):
                raise ValueError(
                    "a plan for random cases needs a random round of 32 hexadecimal"
                    " digits"
                )

    def _check_masks(self) -> None:
        """Refuse masks that could be read, or that need not cancel."""
        points = [exchange_point(key.public_key) for key in self.keys or ()]
        if not points or len(set(points)) < len(points):
            raise ValueError(
                "a masked plan needs keys: one of its own for every named site"
            )
        if not re.fullmatch(r"[0-9a-f]{32}", self.terms.round or ""):
            raise ValueError(
                "a masked plan needs a random round of 32 hexadecimal digits"
            )
        for design in self.designs:
            if len(design.asked_names or ()) < 2 or not design.message.is_masked:
                raise ValueError("masks need two or more named sites, in every group")
            if design.max_faulty or design.max_missing:
                raise ValueError("a masked sum tolerates no missing and no faulty site")
        is_exact = getattr(self.designs[0].message, "epsilon", None) is None
        if (
            is_exact
            and len({frozenset(design.asked_names or ()) for design in self.designs})
            > 1
        ):
            raise ValueError(
                "without noise, masked sums of all groups must be over the same sites"
            )

    def _check_groups(self) -> None:
        """Refuse groups that are not made of what they say, or that differ in more than
        their sites.
        """
        grouping, messages = self.grouping, [design.message for design in self.designs]
        if self.group_by is not None and self.group_by not in GROUPED_BY:
            known = " or ".join(" and ".join(kind) for kind in GROUPED_BY)
            raise ValueError(f"groups must be made of a label, or of {known}")
        if grouping.by_site and any(
            len(design.site_names or ()) != 1 for design in self.designs
        ):
            raise ValueError(
                "where groups are made of sites, each has one site, with a name"
            )
        for group, site in grouping.sites.items():
            label = group.removeprefix(pair_label(site, ""))
            if (label == group if grouping.has_labels else group != site) or not label:
                raise ValueError(
                    f"group {group!r} must be named after its site, {site!r}"
                )
        if grouping.by_class and (
            self.classes is None or set(grouping.labels) != set(self.classes)
        ):
            raise ValueError(
                "groups by class are those of the classes, each in one of them"
            )
        if len({design.confidence_levels for design in self.designs}) > 1:
            raise ValueError("all groups must have the same confidence levels")
        if len({message.kind for message in messages}) > 1:
            raise ValueError("all groups must ask for the same kind of message")
        shared = ("edges", "bounded", "epsilon", "masked")
        if (
            len(
                {
                    tuple(getattr(message, name, None) for name in shared)
                    for message in messages
                }
            )
            > 1
        ):
            raise ValueError("all groups must have the same grid and epsilon")

    @property
    def selected_designs(self) -> Sequence[Design]:
        """All designs."""
        return self.designs

    @property
    def selected_levels(self) -> Sequence[int]:
        """Places of all levels."""
        return range(len(self.designs[0].levels))

    def __getitem__(self, key: Any) -> PlanView:
        """Select a group by its label, a level by its number, or both."""
        places, levels = self._select(key)
        return PlanView(self, tuple(self.designs[i] for i in places), levels)

    @property
    def is_grouped(self) -> bool:
        """True if there is a threshold for each group of cases."""
        return self.designs[0].group is not None

    @property
    def groups(self) -> tuple[str, ...]:
        """Labels of the groups, in alphabetical order; none if there are no groups."""
        return tuple(
            design.group for design in self.designs if design.group is not None
        )

    @cached_property
    def by_group(self) -> dict[str | None, Design]:
        """The design of each group, under None where there are no groups."""
        return {design.group: design for design in self.designs}

    @cached_property
    def grouping(self) -> Grouping:
        """Rule that assigns a case to its group by its label and site."""
        by = self.group_by or (("label",) if self.is_grouped else ())
        sites = {
            design.group or "": (design.site_names or ("",))[0]
            for design in self.designs
        }
        return Grouping(by, sites if "site" in by else {}, self.groups)

    @property
    def is_masked(self) -> bool:
        """True if nothing but sums over all sites can be read."""
        return self.designs[0].message.is_masked  # the same in all groups

    @property
    def is_open(self) -> bool:
        """True if sizes come with the reports, in any group."""
        return any(design.is_open for design in self.designs)

    @cached_property
    def site_names(self) -> tuple[str, ...] | None:
        """Names of the sites, where the plan names them; with groups, of all groups in
        alphabetical order.
        """
        names = [design.site_names for design in self.designs]
        if None in names:
            return None
        if not self.is_grouped:
            return names[0]
        return tuple(sorted({name for each in names for name in each or ()}))

    @property
    def n_sites(self) -> int | None:
        """Number of sites; None if anybody may answer."""
        if not self.is_grouped:
            return self.designs[0].n_sites
        if self.site_names is not None:
            return len(self.site_names)
        expected = [design.n_sites for design in self.designs]
        return None if None in expected else max(each or 0 for each in expected)

    @property
    def confidence_levels(self) -> tuple[float, ...]:
        """The confidence levels, the same in all groups."""
        return self.designs[0].confidence_levels

    @property
    def max_faulty(self) -> int:
        """Number of reports that may be arbitrary, in any group."""
        return max(design.max_faulty for design in self.designs)

    @property
    def choices(self) -> dict[str, tuple[str | None, ...]]:
        """Names of the score, the promises and the messages, by the field of a site's
        policy.
        """
        return {
            "scores": (None if self.score is None else self.score.name,),
            "promises": tuple(design.promise for design in self.designs),
            "messages": tuple(design.message.kind for design in self.designs),
        }

    @property
    def problems(self) -> tuple[str, ...]:
        """A sentence for each level that cannot be reached, with what would suffice."""
        found: tuple[str, ...] = call_higher("protocol.describe_problems", self)
        return found

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for a reader: problems, sites that are too small or not asked, missing
        sites.
        """
        found: tuple[str, ...] = call_higher("protocol.describe_notes", self)
        return found

    def _line(self) -> str:
        sites = (
            "any number of sites"
            if self.n_sites is None
            else count(self.n_sites, "site")
        )
        by_site = self.grouping.by_site and not self.grouping.has_labels
        groups = (
            [self.grouping.counted(len(self.groups))]
            if self.groups and not by_site
            else []
        )
        levels = "level " + ", ".join(f"{level:g}" for level in self.confidence_levels)
        losses = {
            getattr(design.message, "epsilon", None) or 0 for design in self.designs
        } - {0}
        promises = dict.fromkeys(design.promise for design in self.designs)
        criteria = dict.fromkeys(design.criterion for design in self.designs)
        terms = [
            f"promise {' or '.join(promises)}",
            f"criterion {' or '.join(criteria)}",
            *(f"epsilon {float(epsilon):g}" for epsilon in sorted(losses)),
            *([] if self.feasible else ["infinite threshold"]),
        ]
        return ", ".join([sites, *groups, self._points(), levels, *terms])

    def _points(self) -> str:
        if self.is_open:
            return "open sizes"
        sizes = [kind.n for design in self.designs for kind in design.kinds]
        low, high = min(sizes, default=0), max(sizes, default=0)
        return (
            f"{count(low, 'point')} each"
            if low == high
            else f"{low:,} to {high:,} points each"
        )
