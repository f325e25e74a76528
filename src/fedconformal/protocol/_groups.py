"""Groups of cases in a plan: what they are made of, and their sites."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral
from typing import Any, get_args

import numpy as np
from pydantic import ValidationError

from fedconformal import _validation
from fedconformal._text import quoted
from fedconformal.documents import GROUPED_BY, GroupBy, first_problem, label_text, pair_label
from fedconformal.protocol._federation import SiteSpec


def group_specs(
    groups: Any,
    n_sites: Any,
    n_points: Any,
    by: tuple[GroupBy, ...] | None,
    classes: Any,
    min_group: int,
) -> tuple[dict[str | None, SiteSpec], tuple[str, ...] | None]:
    """Return the sites of each group in alphabetical order, and the names of the classes.

    Parameters
    ----------
    groups, n_sites, n_points, classes : see `plan`
        As they were given.
    by : tuple of str or None
        What groups are made of, as `read_group_by` returns it.
    min_group : int
        A site with fewer cases of a group is left out of it.
    """
    names = list(n_sites) if isinstance(n_sites, Iterable) and not isinstance(n_sites, str) else None
    if by == ("site",):
        if groups is not None:
            raise ValueError("groups must be left out with group_by 'site': each site is a group")
        specs: Mapping[str, SiteSpec] = _by_site(SiteSpec.read(n_sites, n_points))
        named = class_names(classes)
    else:
        by_label = _by_text(groups, n_points)
        named = _classes(by, classes, by_label)
        specs = _by_label(by_label, n_sites, names, min_group, crossed="site" in (by or ()))
    return {group: specs[group] for group in sorted(specs)}, named


def read_group_by(group_by: Any) -> tuple[GroupBy, ...] | None:
    """Return what groups are made of, in the one order; None for a label alone.

    Parameters
    ----------
    group_by : str or iterable of str, optional
        ``"label"``, ``"class"``, ``"site"``, or a pair of the site and one of the others.

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
        _validation.choice("group_by", each, get_args(GroupBy))
    ordered = tuple(each for each in get_args(GroupBy) if each in given)
    if len(ordered) == len(given) and ordered in (*GROUPED_BY, ("label",)):
        return None if ordered == ("label",) else ordered
    known = ", ".join(str(each if len(each) > 1 else each[0]) for each in GROUPED_BY)
    raise ValueError(f"group_by must be one of label, {known}, got {group_by!r}")


def class_names(classes: Any) -> tuple[str, ...] | None:
    """Return the names of classes as documents hold them, in the order of their columns."""
    if classes is None:
        return None
    if isinstance(classes, (str, bytes)) or not isinstance(classes, Iterable):
        raise TypeError(f"classes must be a list of names, got {classes!r}")
    return tuple(label_text(name) for name in np.asarray(list(classes), dtype=object).tolist())


def _by_text(groups: Any, n_points: Any) -> dict[str, Any]:
    """Sizes by label, with the labels as documents hold them."""
    if groups is None:
        raise ValueError("groups must map labels to sizes unless group_by is 'site', got None")
    if n_points is not None:
        raise ValueError("n_points must be left out with groups: each group has its own sizes")
    if not isinstance(groups, Mapping) or not groups:
        raise ValueError(f"groups must map labels to sizes, got {groups!r}")
    by_text = {label_text(label): sizes for label, sizes in groups.items()}
    if len(by_text) < len(groups):
        raise ValueError("groups must hold each label once, got a number and its digits as text")
    return by_text


def _classes(
    by: tuple[GroupBy, ...] | None, classes: Any, by_label: Mapping[str, Any]
) -> tuple[str, ...] | None:
    """Names of the classes in the order of their columns: that of the groups, unless it is given."""
    named = class_names(classes)
    if by is None or "class" not in by:
        return named
    if named is None:
        return tuple(by_label)
    if lost := sorted(set(named) - set(by_label)):
        raise ValueError(f"classes must each have cases at some site; groups has none of {quoted(lost)}")
    if set(named) != set(by_label):
        raise ValueError(
            f"classes must be the labels of groups, {quoted(sorted(by_label))}, got {quoted(named)}"
        )
    return named


@contextmanager
def naming(group: str) -> Iterator[None]:
    """Name the group in errors."""
    try:
        yield
    except ValidationError as error:
        raise ValueError(f"groups: {first_problem(error)}, got {quoted([group])}") from None
    except (ValueError, TypeError) as error:
        raise type(error)(f"group {quoted([group])}: {error}") from None


def _by_label(
    by_label: Mapping[str, Any], n_sites: Any, names: list[str] | None, fewest: int, *, crossed: bool
) -> dict[str, SiteSpec]:
    """Sites of each label; or each of them individually, where groups are made of sites and labels."""
    specs: dict[str, SiteSpec] = {}
    for label, sizes in by_label.items():
        with naming(label):
            spec = _group_sites(sizes, n_sites, names, fewest)
            if not crossed:
                specs[label] = spec
                continue
            alone = {pair_label(site, label): there for site, there in _by_site(spec).items()}
        if twice := specs.keys() & alone.keys():
            raise ValueError(f"two pairs of a site and a label would be called {min(twice)!r}: rename one")
        specs |= alone
    return specs


def _by_site(spec: SiteSpec) -> dict[str, SiteSpec]:
    """Each site individually."""
    if spec.names is None:
        raise ValueError("group_by 'site' needs the names of the sites, as in n_points={'A': 40, 'B': 25}")
    m = len(spec.names)
    sizes = [None] * m if spec.sizes is None else np.broadcast_to(spec.sizes, m).tolist()
    return {
        name: SiteSpec((name,), None if n is None else np.array([n]), 1)
        for name, n in zip(spec.names, sizes, strict=True)
    }


def _group_sites(sizes: Any, n_sites: Any, names: list[str] | None, fewest: int) -> SiteSpec:
    """Sites of one group, without those that have too few of its cases to send anything."""
    if not isinstance(sizes, Iterable) or isinstance(sizes, (str, bytes)):
        if _is_below(sizes, fewest):
            raise ValueError(f"no site has {fewest} cases of it (min_group = {fewest})")
        return SiteSpec.read(n_sites if names is None else names, sizes)
    if names is not None and not isinstance(sizes, Mapping):
        listing = list(sizes)
        if len(listing) != len(names):
            raise ValueError(f"there must be one size for each of the {len(names)} sites, got {len(listing)}")
        sizes = dict(zip(names, listing, strict=True))
    if isinstance(sizes, Mapping):
        if names is not None and (unknown := [name for name in sizes if name not in names]):
            raise ValueError(f"its sizes name {unknown[0]!r}, which is not one of the sites")
        sizes = {site: n for site, n in sizes.items() if not _is_below(n, fewest)}
    else:
        sizes = [n for n in sizes if not _is_below(n, fewest)]
    if not sizes:
        wanted = "" if fewest == 1 else f"{fewest} "
        raise ValueError(f"no site has {wanted}cases of it (min_group = {fewest})")
    return SiteSpec.read(None, sizes)


def _is_below(n: Any, fewest: int) -> bool:
    return isinstance(n, Integral) and n is not True and 0 <= int(n) < fewest
