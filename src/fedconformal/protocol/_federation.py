"""Sites and groups of a plan: read from what a coordinator gives, and notes on what
follows for them.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby
from numbers import Integral, Real
from typing import Any, Self, get_args

import numpy as np
from pydantic import ValidationError

from fedconformal import _util, scores
from fedconformal._text import count, percent, plain_spaces, quoted
from fedconformal._util import Ints
from fedconformal.documents import (
    GROUPED_BY,
    LARGEST_N,
    MOST_SITES,
    Advice,
    Calibration,
    CalibrationPart,
    Design,
    Gridded,
    GroupBy,
    Level,
    Plan,
    SiteKind,
    check_site_name,
    first_problem,
    label_text,
    pair_label,
)
from fedconformal.messages import of
from fedconformal.planning import CRITERIA, PROMISES
from fedconformal.planning._choosing import smallest
from fedconformal.planning._mixture import with_shares
from fedconformal.privacy import exact_text

_MOST_RUNS = 10_000  # beyond that, sites without names are kept by size, not in order
_LARGEST_SHARE = 10**9
_MOST_LISTED = 10  # sentences of one kind

Sizes = int | Iterable[int] | Mapping[str, int] | None
"""Scores per site, as `plan` takes them."""


@dataclass(frozen=True, eq=False)
class SiteSpec:
    """The sites of a design, each field None where it is unknown."""

    names: tuple[str, ...] | None
    sizes: Ints | None
    n_sites: int | None
    shares: tuple[Fraction, ...] | None = None

    @classmethod
    def read(cls, n_sites: Any, n_points: Any) -> Self:
        """Read the arguments of `plan`: a number of sites or their names, and their
        sizes.
        """
        names = None
        if n_sites is not None and isinstance(n_sites, Iterable):
            names, n_sites = _names(n_sites), None
        if isinstance(n_points, Mapping):
            if not n_points:
                raise ValueError(
                    "n_points must hold the scores of at least one site, got {}"
                )
            if names is not None and set(names) != set(n_points):
                raise ValueError("n_sites and n_points must name the same sites")
            names = names or _names(n_points)
            n_points = [n_points[name] for name in names]
        m = (
            None
            if n_sites is None
            else _util.integer("n_sites", n_sites, low=1, high=MOST_SITES)
        )
        if m is not None and names is not None and m != len(names):
            raise ValueError(
                f"n_sites must be the number of site names, {len(names)}, got {m}"
            )
        m = m if names is None else len(names)
        if n_points is None:
            return cls(names, None, m)
        if not isinstance(n_points, Iterable) or isinstance(n_points, (str, bytes)):
            size = _util.integer("n_points", n_points, low=1, high=LARGEST_N)
            if m is None:
                raise TypeError("n_sites is needed when n_points is one number")
            return cls(names, np.array([size]), m)
        sizes = _util.integers("n_points", n_points, low=1, high=LARGEST_N)
        if m is not None and m != sizes.size:
            raise ValueError(
                f"n_sites must be the length of n_points, {sizes.size}, got {m}"
            )
        return cls(names, sizes, sizes.size)

    def mixed(self, mixture: Mapping[str, float] | None) -> "SiteSpec":
        """Return the same sites with the share of new cases that come from each, where
        it is given.
        """
        return (
            self
            if mixture is None
            else replace(self, shares=_shares(mixture, self.names))
        )

    @property
    def n_points(self) -> int:
        """Number of all scores; 0 where sizes are unknown."""
        if self.sizes is None:
            return 0
        return (
            int(self.sizes.sum())
            if self.sizes.size > 1
            else int(self.sizes[0]) * (self.n_sites or 1)
        )

    def kinds(self, *, has_shares: bool) -> tuple[SiteKind, ...] | None:
        """Return runs of equal sites in their order, by size where there would be too
        many; None if open.
        """
        if self.sizes is None or self.n_sites is None:
            return None
        kinds, start = [], 0
        for (n, share), number in self._runs():
            names = () if self.names is None else self.names[start : start + number]
            kinds.append(SiteKind(count=number, n=n, names=names, share=share))
            start += number
        return with_shares(kinds) if has_shares else tuple(kinds)

    def _runs(self) -> list[tuple[tuple[int, Fraction | None], int]]:
        """Sizes and shares with the lengths of their runs."""
        assert self.sizes is not None
        assert self.n_sites is not None
        if self.shares is not None:
            pairs = zip(
                np.broadcast_to(self.sizes, len(self.shares)).tolist(),
                self.shares,
                strict=True,
            )
            return [(pair, len(list(run))) for pair, run in groupby(pairs)]
        if self.sizes.size == 1:
            return [((int(self.sizes[0]), None), self.n_sites)]
        runs: list[tuple[tuple[int, Fraction | None], int]] = [
            ((n, None), len(list(run))) for n, run in groupby(self.sizes.tolist())
        ]
        if len(runs) <= _MOST_RUNS or self.names is not None:
            return runs
        sizes, counts = np.unique(self.sizes, return_counts=True)
        return [
            ((n, None), number)
            for n, number in zip(sizes.tolist(), counts.tolist(), strict=True)
        ]


def _shares(mixture: Any, names: tuple[str, ...] | None) -> tuple[Fraction, ...]:
    """Return the share of each site, in their order; together 1."""
    if not isinstance(mixture, Mapping):
        raise TypeError(f"mixture must map site names to shares, got {mixture!r}")
    if names is None:
        raise ValueError("mixture needs the names of the sites: give n_points by name")
    if unknown := [name for name in mixture if name not in names]:
        raise ValueError(
            "mixture must name sites of the plan, got"
            f" {quoted([str(name) for name in unknown])}"
        )
    if left_out := [name for name in names if name not in mixture]:
        raise ValueError(
            "mixture must have a share for every site, 0 for one that no new cases"
            f" come from; there is none for {quoted(left_out)}"
        )
    shares = [_share(name, mixture[name]) for name in names]
    if not any(shares):
        raise ValueError("mixture must hold at least one share above 0, got none")
    whole = sum(shares)
    return tuple(share / whole for share in shares)


def _share(name: str, share: Any) -> Fraction:
    if isinstance(share, bool) or not isinstance(share, Real):
        raise TypeError(
            f"mixture[{name!r}] must be a number of at least 0, got {share!r}"
        )
    if not (share == 0 or 1 / _LARGEST_SHARE <= float(share) <= _LARGEST_SHARE):
        raise ValueError(
            f"mixture[{name!r}] must be 0, or between 1e-9 and 1e9, got {share}"
        )
    exact = share if isinstance(share, Fraction) else Fraction(str(share))
    return Fraction(round(exact * _LARGEST_SHARE), _LARGEST_SHARE)


def _names(sites: Iterable[str]) -> tuple[str, ...]:
    names = tuple(sites)
    if (
        isinstance(sites, (str, bytes))
        or not names
        or not all(isinstance(name, str) and name for name in names)
    ):
        raise ValueError(f"n_sites must be a number or a list of names, got {sites!r}")
    if len(set(names)) < len(names):
        raise ValueError("names of sites must be different, got one twice")
    for name in names:
        check_site_name(name)
    return names


# -- groups of cases in a plan: what they are made of, and their sites -----------------


def group_specs(
    groups: Any,
    n_sites: Any,
    n_points: Any,
    by: tuple[GroupBy, ...] | None,
    classes: Any,
    min_group: int,
) -> tuple[dict[str | None, SiteSpec], tuple[str, ...] | None]:
    """Return the sites of each group in alphabetical order, and the names of the
    classes.

    Parameters
    ----------
    groups, n_sites, n_points, classes : see `plan`
        As they were given.
    by : tuple of str or None
        What groups are made of, as `read_group_by` returns it.
    min_group : int
        A site with fewer cases of a group is left out of it.
    """
    names = (
        list(n_sites)
        if isinstance(n_sites, Iterable) and not isinstance(n_sites, str)
        else None
    )
    if by == ("site",):
        if groups is not None:
            raise ValueError(
                "groups must be left out with group_by 'site': each site is a group"
            )
        specs = _by_site(SiteSpec.read(n_sites, n_points))
        named = class_names(classes)
    else:
        by_label = _by_text(groups, n_points)
        named = _classes(by, classes, by_label)
        specs = {}
        for label, sizes in by_label.items():
            with naming_errors("groups", label):
                own = {label: _group_sites(sizes, n_sites, names, min_group)}
                if "site" in (by or ()):
                    own = {
                        pair_label(site, label): spec
                        for site, spec in _by_site(own[label]).items()
                    }
            if twice := specs.keys() & own.keys():
                raise ValueError(
                    f"two pairs of a site and a label would be called {min(twice)!r}:"
                    " rename one"
                )
            specs |= own
    return {group: specs[group] for group in sorted(specs)}, named


def read_group_by(group_by: Any) -> tuple[GroupBy, ...] | None:
    """Return what groups are made of, in the one order; None for a label alone.

    Parameters
    ----------
    group_by : str or iterable of str, optional
        ``"label"``, ``"class"``, ``"site"``, or a pair of the site and one of the
        others.

    Returns
    -------
    tuple of str, or None

    Examples
    --------
    >>> from fedconformal.protocol import read_group_by
    >>> read_group_by("class"), read_group_by(["label", "site"])
    (('class',), ('site', 'label'))
    """
    if group_by is None:
        return None
    given = [group_by] if isinstance(group_by, str) else list(group_by)
    for each in given:
        _util.choice("group_by", each, get_args(GroupBy))
    ordered = tuple(each for each in get_args(GroupBy) if each in given)
    if len(ordered) == len(given) and ordered in (*GROUPED_BY, ("label",)):
        return None if ordered == ("label",) else ordered
    known = ", ".join(str(each if len(each) > 1 else each[0]) for each in GROUPED_BY)
    raise ValueError(f"group_by must be one of label, {known}, got {group_by!r}")


def class_names(classes: Any) -> tuple[str, ...] | None:
    """Return the names of classes as documents hold them, in the order of their
    columns.
    """
    if classes is None:
        return None
    if isinstance(classes, (str, bytes)) or not isinstance(classes, Iterable):
        raise TypeError(f"classes must be a list of names, got {classes!r}")
    return tuple(
        label_text(name) for name in np.asarray(list(classes), dtype=object).tolist()
    )


def _by_text(groups: Any, n_points: Any) -> dict[str, Any]:
    """Sizes by label, with the labels as documents hold them."""
    if groups is None:
        raise ValueError(
            "groups must map labels to sizes unless group_by is 'site', got None"
        )
    if n_points is not None:
        raise ValueError(
            "n_points must be left out with groups: each group has its own sizes"
        )
    if not isinstance(groups, Mapping) or not groups:
        raise ValueError(f"groups must map labels to sizes, got {groups!r}")
    by_text = {label_text(label): sizes for label, sizes in groups.items()}
    if len(by_text) < len(groups):
        raise ValueError(
            "groups must hold each label once, got a number and its digits as text"
        )
    return by_text


def _classes(
    by: tuple[GroupBy, ...] | None, classes: Any, by_label: Mapping[str, Any]
) -> tuple[str, ...] | None:
    """Names of the classes in the order of their columns: that of the groups, unless it
    is given.
    """
    named = class_names(classes)
    if by is None or "class" not in by:
        return named
    if named is None:
        return tuple(by_label)
    if lost := sorted(set(named) - set(by_label)):
        raise ValueError(
            "classes must each have cases at some site; groups has none of"
            f" {quoted(lost)}"
        )
    if set(named) != set(by_label):
        raise ValueError(
            f"classes must be the labels of groups, {quoted(sorted(by_label))}, got"
            f" {quoted(named)}"
        )
    return named


@contextmanager
def naming_errors(argument: str, group: str | None = None) -> Iterator[None]:
    """Name the group in errors, and turn a validation error into one line that names
    the argument.
    """
    where = "" if group is None else f"group {quoted([group])}: "
    try:
        yield
    except ValidationError as error:
        raise ValueError(
            f"{where}{argument}: {first_problem(error).removeprefix('content: ')}"
        ) from None
    except (ValueError, TypeError) as error:
        if group is None:
            raise
        raise type(error)(f"{where}{error}") from None


def _by_site(spec: SiteSpec) -> dict[str, SiteSpec]:
    """Each site individually."""
    if spec.names is None:
        raise ValueError(
            "group_by 'site' needs the names of the sites, as in n_points={'A': 40,"
            " 'B': 25}"
        )
    m = len(spec.names)
    sizes = (
        [None] * m if spec.sizes is None else np.broadcast_to(spec.sizes, m).tolist()
    )
    return {
        name: SiteSpec((name,), None if n is None else np.array([n]), 1)
        for name, n in zip(spec.names, sizes, strict=True)
    }


def _group_sites(
    sizes: Any, n_sites: Any, names: list[str] | None, fewest: int
) -> SiteSpec:
    """Sites of one group, without those that have too few of its cases to send
    anything.
    """
    wanted = "" if fewest == 1 else f"{fewest} "
    none_left = f"no site has {wanted}cases of it (min_group = {fewest})"
    if not isinstance(sizes, Iterable) or isinstance(sizes, (str, bytes)):
        if _is_below(sizes, fewest):
            raise ValueError(none_left)
        return SiteSpec.read(n_sites if names is None else names, sizes)
    if names is not None and not isinstance(sizes, Mapping):
        listing = list(sizes)
        if len(listing) != len(names):
            raise ValueError(
                f"there must be one size for each of the {len(names)} sites, got"
                f" {len(listing)}"
            )
        sizes = dict(zip(names, listing, strict=True))
    if isinstance(sizes, Mapping):
        if names is not None and (
            unknown := [name for name in sizes if name not in names]
        ):
            raise ValueError(
                f"its sizes name {unknown[0]!r}, which is not one of the sites"
            )
        sizes = {site: n for site, n in sizes.items() if not _is_below(n, fewest)}
    else:
        sizes = [n for n in sizes if not _is_below(n, fewest)]
    if not sizes:
        raise ValueError(none_left)
    return SiteSpec.read(None, sizes)


def _is_below(n: Any, fewest: int) -> bool:
    return isinstance(n, Integral) and n is not True and 0 <= int(n) < fewest


# -- notes for readers of a plan -------------------------------------------------------


def describe_problems(plan: Plan) -> tuple[str, ...]:
    """Describe each level that cannot be reached, and what would suffice; an attribute
    of a plan.
    """
    return tuple(
        _in_groups(
            plan, lambda design: _problems(design, one_site=plan.grouping.by_site)
        )
    )


_MASKED = (
    "Every site must answer: of masked reports there is no sum, and no threshold, if"
    " one is missing."
)


def describe_notes(plan: Plan) -> tuple[str, ...]:
    """Describe problems, sites that are too small or not asked, and missing sites; an
    attribute of a plan.
    """
    return (
        *describe_problems(plan),
        *_in_groups(plan, _unusual_ranks),
        *absent_sentences(plan),
        *_in_groups(plan, _not_asked),
        *([_MASKED] if plan.is_masked else _in_groups(plan, _missing)),
        *score_cautions(plan),
    )


def _in_groups(
    plan: Plan, describe: Callable[[Design], Iterator[str]]
) -> Iterator[str]:
    for design in plan.designs:
        for sentence in describe(design):
            yield (
                sentence
                if design.group is None
                else f"Group {design.group!r}: {sentence}"
            )


def _problems(design: Design, *, one_site: bool) -> Iterator[str]:
    for level in design.levels:
        if level.advice is not None and design.kinds:
            yield _problem(design, level, one_site=one_site)


def _problem(design: Design, level: Level, *, one_site: bool) -> str:
    """Describe a level that no plan reaches with these sites."""
    private = ""
    epsilon = of(design.message).epsilon(design)
    if epsilon is not None:
        private = f" and epsilon {exact_text(epsilon)}"
    ways = _ways(level.advice or Advice(), design, one_site=one_site)
    remedy = "No number that was tried would suffice."
    if ways:
        remedy = f"You need {', or '.join(ways)}."
    elif isinstance(design.message, Gridded):
        remedy += " A grid with more cells, or one that reaches further, may."
    return (
        f"{_coverage(design, level)} cannot be guaranteed with {_sites(design)}"
        f"{_tolerated(design)}{private}, so the threshold is infinite. {remedy}"
    )


def describe_unreached(calibration: Calibration) -> tuple[str, ...]:
    """Describe each level that the answers do not reach, and what would suffice.

    A level that the plan reaches with all sites is one that this plan cannot guarantee
    with those that answered. Another plan may, as it can ask them for other ranks.

    Parameters
    ----------
    calibration : Calibration
        With groups or without.

    Returns
    -------
    tuple of str
        A few sentences for each level of each group.
    """
    plan, by_group = calibration.plan, calibration.by_group
    one_site = plan.grouping.by_site

    def describe(planned: Design) -> Iterator[str]:
        part = by_group[planned.group]
        levels = zip(planned.levels, part.design.levels, strict=True)
        for goal, level in levels if part.design.kinds else ():
            if level.advice is None:
                continue
            if goal.advice is None:
                yield _unreached(part, level, one_site=one_site)
            else:
                yield _problem(part.design, level, one_site=one_site)

    return tuple(_in_groups(plan, describe))


def _unreached(part: CalibrationPart, level: Level, *, one_site: bool) -> str:
    """Describe a level that the plan reaches with all sites, but not with the answers
    that came.
    """
    design = part.design
    ways = _ways(level.advice or Advice(), design, one_site=one_site)
    if part.n_missing:
        ways.append("answers of missing sites")
    ways.append("a new plan for the sites that answered")
    return (
        f"This plan cannot guarantee {_coverage(design, level)} with {_sites(design)}"
        f"{_tolerated(design)}, so the threshold is infinite. What may help:"
        f" {', or '.join(ways)}."
    )


def _coverage(design: Design, level: Level) -> str:
    """Name what a level asks for: "90 % coverage on average"."""
    delta = None if design.delta is None else float(design.delta)
    sure = plain_spaces(CRITERIA[design.criterion]().surety(delta))
    return f"{_level(level)} coverage {sure}"


def _sites(design: Design) -> str:
    """Name the sites of a design: "3 sites of 40 to 120 cases"."""
    sizes = [kind.n for kind in design.kinds]
    cases = count(sizes[0], "case")
    if len(set(sizes)) > 1:
        cases = f"{min(sizes):,} to {max(sizes):,} cases"
    return f"{count(design.n_sites or 0, 'site')} of {cases}"


def _unusual_ranks(design: Design) -> Iterator[str]:
    for place, level in enumerate(design.levels):
        ranks = of(design.message).local_ranks(design, place) or ()
        most = max(map(len, ranks), default=0)
        pairs = list(zip(design.kinds, ranks, strict=False))
        if small := [kind for kind, own in pairs if own and own[0] > kind.n]:
            number, listed = _listed(small)
            few = "has too few cases" if number == 1 else "have too few cases"
            yield (
                f"At {_level(level)}, {count(number, 'site')} {few} for the rank "
                f"asked for, which counts as infinite: {listed}."
            )
        whole = [kind for kind, own in pairs if len(own) == kind.n]
        if most > 1 and whole:
            number, listed = _listed(whole)
            has, sends = ("has", "sends") if number == 1 else ("have", "send")
            yield (
                f"At {_level(level)}, {count(number, 'site')} {has} no more cases than"
                f" numbers are asked for, up to {most}, and {sends} all scores:"
                f" {listed}."
            )


def _not_asked(design: Design) -> Iterator[str]:
    idle = [kind for kind in design.kinds if not kind.asked]
    if idle:
        number, listed = _listed(idle)
        whose = (
            "is not asked, as its answer"
            if number == 1
            else "are not asked, as their answers"
        )
        yield (
            f"{count(number, 'site')} {whose} could not change any threshold: {listed}."
        )


def _missing(design: Design) -> Iterator[str]:
    message = of(design.message)
    for place, level in enumerate(design.levels):
        is_open = (
            design.is_open or level.advice is not None or (design.n_sites or 0) < 2
        )
        if not is_open and not message.tolerates(design, place, 1):
            yield (
                f"At {_level(level)}, one missing site could make the threshold "
                f"infinite; {PROMISES[design.promise].missing_remedy}."
            )


def absent_sentences(plan: Plan) -> Iterator[str]:
    """Yield sentences about sites that have no part in a group, although the plan has
    both.

    Parameters
    ----------
    plan : Plan
        With groups or without.

    Yields
    ------
    str
    """
    grouping = plan.grouping
    for site, label in grouping.absent[:_MOST_LISTED]:
        consequence = "their threshold is infinite"
        if grouping.by_class:
            consequence = f"every set contains {label!r}"
        yield (
            f"Site {site!r} has too few cases of {label!r}, or none, for a threshold of"
            f" its own: there, {consequence}."
        )
    more = len(grouping.absent) - _MOST_LISTED
    if more > 0:
        yield f"The same holds for {more} more pairs of a site and a label."
    yield from shorten(_not_planned(plan), "groups")


def _not_planned(plan: Plan) -> Iterator[str]:
    for group, sites in sites_left_out(plan).items():
        verb = "is not asked, as it has" if len(sites) == 1 else "are not asked, having"
        yield (
            f"Group {group!r}: {count(len(sites), 'site')} {verb} too few cases of it,"
            f" or none: {quoted(sites)}."
        )


def sites_left_out(plan: Plan) -> dict[str, list[str]]:
    """Return, for each group of several sites, the sites of the plan that are no part
    of it.
    """
    if plan.site_names is None or not plan.is_grouped or plan.grouping.by_site:
        return {}
    left_out = {}
    for design in plan.designs:
        others = sorted(set(plan.site_names) - set(design.site_names or ()))
        if others:
            left_out[design.group or ""] = others
    return left_out


def shorten(sentences: Iterable[str], what: str) -> Iterator[str]:
    """Yield the first sentences, and how many others there are."""
    more = 0
    for number, sentence in enumerate(sentences):
        if number < _MOST_LISTED:
            yield sentence
        else:
            more += 1
    if more:
        yield f"The same holds for {more:,} more {what}."


def _listed(kinds: Sequence[SiteKind]) -> tuple[int, str]:
    """Return the number of sites of some kinds, and a few of them by name, or by
    size.
    """
    names = [name for kind in kinds for name in kind.names]
    shown = names or [f"n = {n}" for n in sorted({kind.n for kind in kinds})]
    return sum(kind.count for kind in kinds), ", ".join(shown[:10]) + ", ..." * (
        len(shown) > 10
    )


def _level(level: Level) -> str:
    return plain_spaces(percent(float(level.confidence_level)))


def _tolerated(design: Design) -> str:
    missing = (
        f", any {design.max_missing:,} of which may be missing"
        if design.max_missing
        else ""
    )
    faulty = (
        f"{' and' if missing else ', of which'} {design.max_faulty:,} may be faulty"
    )
    return missing + (faulty if design.max_faulty else "")


def _ways(advice: Advice, design: Design, *, one_site: bool) -> list[str]:
    ways = []
    least = min(kind.n for kind in design.kinds)
    if advice.n_points is not None:
        ways.append(f"{count(advice.n_points, 'case')} per site")
        small = [kind for kind in design.kinds if kind.n < advice.n_points]
        if PROMISES[design.promise].smallest_decides and len(small) < len(design.kinds):
            is_named = design.site_names is not None
            left_out = (
                _listed(small)[1]
                if is_named
                else f"sites with fewer than {advice.n_points:,}"
            )
            ways.append(f"to leave out {left_out}")
    if advice.n_sites is not None and not one_site:
        ways.append(f"{count(advice.n_sites, 'site')} of {count(least, 'case')}")
    if advice.epsilon is not None:
        ways.append(f"an epsilon of {float(advice.epsilon):g}")
    return ways


def score_cautions(plan: Plan) -> list[str]:
    """Return a warning about a score that does not suit this many classes, if there is
    one.
    """
    rule, classes = plan.score, plan.classes
    if rule is None or classes is None or rule.name not in scores.SCORES:
        return []
    score = scores.from_name(rule.name, **rule.parameters)
    caution = (
        score.caution(len(classes)) if isinstance(score, scores.LabelScore) else None
    )
    return [caution] if caution else []


# -- sites that must be there ----------------------------------------------------------

_PLENTY = (
    10**6
)  # cases of a site whose size is not known: enough if there are sites enough


def suffices(plan: Plan, present: Collection[str] | int) -> bool:
    """Return whether some sites, by name or number, leave a finite threshold at each
    level that has one.

    Where each site has its own threshold, any site suffices. An open plan needs all
    sites that it expects, except those that may be missing.

    Parameters
    ----------
    plan : Plan
        The plan.
    present : collection of str, or int
        The names of the sites, or how many there are, whichever they may be.

    Returns
    -------
    bool

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_points={"A": 40, "B": 40, "C": 10}, confidence_level=0.95)
    >>> suffices(plan, 2), suffices(plan, ["A", "B"]), suffices(plan, ["B", "C"])
    (False, False, True)
    """
    number = present if isinstance(present, int) else len(present)
    if plan.grouping.by_site:
        return number > 0
    for design in plan.designs:
        if design.is_open:
            if number < _needed_while_open(design):
                return False
        elif isinstance(present, int):
            if not _tolerates(design, max(0, (design.n_asked or 0) - number)):
                return False
        elif not _has_thresholds(design, present):
            return False
    return True


def sites_needed(plan: Plan) -> int:
    """Return the smallest number of sites that suffice, whichever they are.

    Examples
    --------
    >>> import fedconformal as fc
    >>> sites_needed(fc.plan(n_sites=10, n_points=79)), sites_needed(
    ...     fc.plan(promise="new-site")
    ... )
    (2, 9)
    """
    expected = max(
        design.n_asked or _needed_while_open(design) for design in plan.designs
    )
    return 1 + bisect_left(
        range(1, expected), True, key=lambda number: suffices(plan, number)
    )


def _needed_while_open(design: Design) -> int:
    """Return the number of sites that an open design expects, or else that can have any
    finite threshold.
    """
    if design.n_sites is not None:
        return max(design.fewest_answers, design.n_sites - (design.max_missing or 0))

    def has_levels(m: int) -> bool:
        solved = of(design.message).solve(
            design, (SiteKind(count=m, n=_PLENTY),), [None]
        )
        return all(level.advice is None for level in solved.levels)

    return smallest(has_levels, start=1, stop=MOST_SITES) or 1


def _tolerates(design: Design, n_missing: int) -> bool:
    """Return whether each level that can be reached is, whichever sites are missing;
    False if in doubt.
    """
    left, message = (design.n_asked or 0) - n_missing, of(design.message)
    if n_missing == 0 or left < design.fewest_answers or design.message.is_masked:
        return n_missing == 0
    levels = [
        place for place, level in enumerate(design.levels) if level.advice is None
    ]
    if all(message.tolerates(design, place, n_missing) for place in levels):
        return True
    (place, kind), *others = (
        (place, kind) for place, kind in enumerate(design.kinds) if kind.asked
    )
    return not others and _reaches(
        design, {place: kind.model_copy(update={"count": left, "names": ()})}
    )


def _has_thresholds(design: Design, present: Collection[str]) -> bool:
    """Return whether each level that can be reached is by sites that are known by
    name.
    """
    there = {}
    for place, kind in enumerate(design.kinds):
        names = tuple(name for name in kind.names if kind.asked and name in present)
        if names:
            there[place] = kind.model_copy(update={"names": names, "count": len(names)})
    n_there = sum(kind.count for kind in there.values())
    return _tolerates(design, (design.n_asked or 0) - n_there) or (
        n_there >= design.fewest_answers and _reaches(design, there)
    )


def _reaches(design: Design, sites: Mapping[int, SiteKind]) -> bool:
    """Return whether sites, by the place of their kind, reach every level that all
    sites can reach.
    """
    solved = of(design.message).solve(design, tuple(sites.values()), list(sites))
    pairs = zip(design.levels, solved.levels, strict=True)
    return all(
        found.advice is None for planned, found in pairs if planned.advice is None
    )
