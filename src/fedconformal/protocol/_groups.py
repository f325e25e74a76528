"""Groups of points in a plan: what they are made of, their sites, and their part of epsilon."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from decimal import ROUND_DOWN, Context, Decimal
from numbers import Integral
from typing import Any, get_args

import numpy as np
from pydantic import ValidationError

from fedconformal import _validation
from fedconformal._text import quoted
from fedconformal.documents import (
    GROUPED_BY,
    MadeOf,
    PlanPart,
    check_work,
    first_problem,
    label_text,
    pair_label,
)
from fedconformal.privacy import Privacy
from fedconformal.protocol._federation import Asked
from fedconformal.protocol._parts import planned_part
from fedconformal.protocol._wishes import Wishes

_DIGITS = 12  # of a group's part of epsilon


def group_parts(
    groups: Any,
    n_sites: int | None,
    n_points: Any,
    sites: Iterable[str] | None,
    by: tuple[MadeOf, ...] | None,
    classes: Any,
    wishes: Wishes,
    privacy: Privacy | None,
    fewest: int,
) -> tuple[list[PlanPart], tuple[str, ...] | None]:
    """The part of each group in alphabetical order, and the names of the classes, as `plan` takes them.

    Parameters
    ----------
    groups, n_sites, n_points, sites, classes : see `plan`
        As they were given.
    by : tuple of str or None
        What groups are made of, as `made_of` says it.
    wishes : Wishes
        What is wanted of every group.
    privacy : Privacy or None
        Of a site's whole message.
    fewest : int
        A site with fewer points of a group is left out of it.
    """
    names = None if sites is None else list(sites)
    if by == ("site",):
        if groups is not None:
            raise ValueError("groups does not go with group_by site alone: each site is a group")
        asked, n_labels = _by_site(Asked.of(n_sites, n_points, names)), 1
        named = class_names(classes)
    else:
        by_label = _by_text(groups, n_points)
        named = _classes(by, classes, by_label)
        asked, n_labels = (
            _by_label(by_label, n_sites, names, fewest, crossed="site" in (by or ())),
            len(by_label),
        )
    check_work(len(asked) * len(wishes.levels), 0 if privacy is None else privacy.bins.n_bins)
    share = None if privacy is None else share_epsilon(privacy, n_labels)
    parts = []
    for group in sorted(asked):
        with _naming(group):
            parts.append(planned_part(asked[group], wishes, share, group))
    return parts, named


def made_of(group_by: Any) -> tuple[MadeOf, ...] | None:
    """What groups are made of, in the one order; None for a label alone.

    Parameters
    ----------
    group_by : str or iterable of str, optional
        ``"label"``, ``"class"``, ``"site"``, or a pair of the site and one of the others.

    Returns
    -------
    tuple of str, or None

    Examples
    --------
    >>> from fedconformal.protocol import made_of
    >>> made_of("class"), made_of(["label", "site"])
    (('class',), ('site', 'label'))
    """
    if group_by is None:
        return None
    given = [group_by] if isinstance(group_by, str) else list(group_by)
    for each in given:
        _validation.choice("group_by", each, get_args(MadeOf))
    found = tuple(each for each in get_args(MadeOf) if each in given)
    if len(found) == len(given) and found in (*GROUPED_BY, ("label",)):
        return None if found == ("label",) else found
    known = ", ".join(str(each if len(each) > 1 else each[0]) for each in GROUPED_BY)
    raise ValueError(f"group_by must be one of label, {known}, got {group_by!r}")


def class_names(classes: Any) -> tuple[str, ...] | None:
    """The names of classes as documents hold them, in the order of their columns."""
    if classes is None:
        return None
    if isinstance(classes, (str, bytes)) or not isinstance(classes, Iterable):
        raise TypeError(f"classes must be a list of names, got {classes!r}")
    return tuple(label_text(name) for name in np.asarray(list(classes), dtype=object).tolist())


def share_epsilon(privacy: Privacy, n_labels: int) -> Privacy:
    """Each label's even part of epsilon, rounded down, so that the parts never add up to more than it."""
    down = Context(prec=_DIGITS, rounding=ROUND_DOWN)
    return replace(privacy, epsilon=float(down.divide(Decimal(str(privacy.epsilon)), Decimal(n_labels))))


def _by_text(groups: Any, n_points: Any) -> dict[str, Any]:
    """Sizes by label, with the labels as documents hold them."""
    if groups is None:
        raise ValueError("groups must map labels to sizes where group_by is not site alone, got None")
    if n_points is not None:
        raise ValueError("n_points does not go with groups: each group has its own sizes")
    if not isinstance(groups, Mapping) or not groups:
        raise ValueError(f"groups must map labels to sizes, got {groups!r}")
    found = {label_text(label): sizes for label, sizes in groups.items()}
    if len(found) < len(groups):
        raise ValueError("groups must hold each label once, got a number and its digits as text")
    return found


def _classes(
    by: tuple[MadeOf, ...] | None, classes: Any, by_label: Mapping[str, Any]
) -> tuple[str, ...] | None:
    """The names of the classes in the order of their columns: that of the groups, unless it is given."""
    named = class_names(classes)
    if by is None or "class" not in by:
        return named
    if named is None:
        return tuple(by_label)
    if lost := sorted(set(named) - set(by_label)):
        raise ValueError(f"classes must each have points at some site, and groups has none of {quoted(lost)}")
    if set(named) != set(by_label):
        raise ValueError(
            f"classes must be the labels of groups, {quoted(sorted(by_label))}, got {quoted(named)}"
        )
    return named


@contextmanager
def _naming(group: str) -> Iterator[None]:
    """Say with its name what is wrong with a group."""
    try:
        yield
    except ValidationError as error:
        raise ValueError(f"groups: {first_problem(error)}, got {quoted([group])}") from None
    except (ValueError, TypeError) as error:
        raise type(error)(f"group {quoted([group])}: {error}") from None


# -- the sites of each group -------------------------------------------------------------------------------


def _by_label(
    by_label: Mapping[str, Any], n_sites: int | None, names: list[str] | None, fewest: int, *, crossed: bool
) -> dict[str, Asked]:
    """The sites of each label; or each of them by itself, where groups are made of sites and labels."""
    found: dict[str, Asked] = {}
    for label, sizes in by_label.items():
        with _naming(label):
            asked = _asked(sizes, n_sites, names, fewest)
            if not crossed:
                found[label] = asked
                continue
            alone = {pair_label(site, label): there for site, there in _by_site(asked).items()}
        if twice := found.keys() & alone.keys():
            raise ValueError(f"two pairs of a site and a label would be called {min(twice)!r}: rename one")
        found |= alone
    return found


def _by_site(asked: Asked) -> dict[str, Asked]:
    """Each site by itself."""
    if asked.names is None:
        raise ValueError("group_by site needs the names of the sites, as in {'A': 40, 'B': 25}, or in sites")
    m = len(asked.names)
    sizes = [None] * m if asked.sizes is None else np.broadcast_to(asked.sizes, m).tolist()
    return {
        name: Asked((name,), None if n is None else np.array([n]), 1)
        for name, n in zip(asked.names, sizes, strict=True)
    }


def _asked(sizes: Any, n_sites: int | None, names: list[str] | None, fewest: int) -> Asked:
    """The sites of one group, without those that have too few of its points to send anything."""
    if not isinstance(sizes, Iterable) or isinstance(sizes, (str, bytes)):
        if _is_below(sizes, fewest):
            raise ValueError(f"no site has {fewest} points of it (min_group = {fewest})")
        return Asked.of(n_sites, sizes, names)
    if names is not None and not isinstance(sizes, Mapping):
        listing = list(sizes)
        if len(listing) != len(names):
            raise ValueError(f"there must be one size for each of the {len(names)} sites, got {len(listing)}")
        sizes = dict(zip(names, listing, strict=True))
    if isinstance(sizes, Mapping):
        if names is not None and (strange := [name for name in sizes if name not in names]):
            raise ValueError(f"its sizes name {strange[0]!r}, which is none of the sites")
        sizes = {site: n for site, n in sizes.items() if not _is_below(n, fewest)}
    else:
        sizes = [n for n in sizes if not _is_below(n, fewest)]
    if not sizes:
        wanted = "" if fewest == 1 else f"{fewest} "
        raise ValueError(f"no site has {wanted}points of it (min_group = {fewest})")
    return Asked.of(None, sizes, None)


def _is_below(n: Any, fewest: int) -> bool:
    return isinstance(n, Integral) and n is not True and 0 <= int(n) < fewest
