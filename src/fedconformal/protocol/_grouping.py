"""From sizes by label to the groups of a plan: crossed with sites, or by class."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from fedconformal import _validation
from fedconformal._text import quoted
from fedconformal.documents import GROUPED_BY, MadeOf, label_text, pair_label
from fedconformal.protocol._federation import Asked
from fedconformal.protocol._groups import asked_in_group, by_text


@dataclass(frozen=True)
class Arranged:
    """The groups of a plan, and what the plan says of them.

    Parameters
    ----------
    sizes : mapping
        What is known of the sites of each group, in the forms that `plan` takes, or as `Asked`.
    n_labels : int
        How many labels share a site's epsilon: 1 where groups are made of sites alone.
    group_by, classes : tuple, each None if not needed
        Fields of the plan.
    """

    sizes: Mapping[str, Any]
    n_labels: int
    group_by: tuple[MadeOf, ...] | None
    classes: tuple[str, ...] | None


def arranged(
    groups: Any,
    asked: Asked | None,
    n_sites: int | None,
    names: list[str] | None,
    *,
    by: tuple[MadeOf, ...] | None,
    classes: Any,
    fewest: int,
) -> Arranged:
    """Read what `plan` is told of groups.

    Parameters
    ----------
    groups : mapping or None
        Sizes by label; None where groups are made of sites alone.
    asked : Asked or None
        The sites, where groups are made of them alone.
    n_sites, names : int and list of str, optional
        What is known of all sites.
    by : tuple of str or None
        What groups are made of, as `made_of` says it.
    classes : see `plan`
        As they were given.
    fewest : int
        A site with fewer points of a group is left out of it.

    Returns
    -------
    Arranged
    """
    if asked is not None:
        return Arranged(_by_site(asked), 1, by, class_names(classes))
    if not isinstance(groups, Mapping) or not groups:
        raise ValueError(f"groups must map labels to sizes, got {groups!r}")
    by_label = by_text("groups", groups)
    named = _classes(by, classes, by_label)
    if by is None or "site" not in by:
        return Arranged(by_label, len(by_label), by, named)
    crossed: dict[str, Any] = {}
    for label, sizes in by_label.items():
        for site, alone_there in _of_label(label, sizes, n_sites, names, fewest).items():
            group = pair_label(site, label)
            if group in crossed:
                raise ValueError(f"two pairs of a site and a label would be called {group!r}: rename one")
            crossed[group] = alone_there
    return Arranged(crossed, len(by_label), by, named)


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


def _classes(
    by: tuple[MadeOf, ...] | None, classes: Any, by_label: Mapping[str, Any]
) -> tuple[str, ...] | None:
    """The names of the classes in the order of their columns: that of the groups, unless it is given."""
    if by is None or "class" not in by:
        return class_names(classes)
    if classes is None:
        return tuple(by_label)
    named = class_names(classes)
    if lost := sorted(set(named or ()) - set(by_label)):
        raise ValueError(f"classes must each have points at some site, and groups has none of {quoted(lost)}")
    if set(named or ()) != set(by_label):
        raise ValueError(
            f"classes must be the labels of groups, {quoted(sorted(by_label))}, got {quoted(named or ())}"
        )
    return named


def class_names(classes: Any) -> tuple[str, ...] | None:
    """The names of classes as documents hold them.

    Parameters
    ----------
    classes : iterable of str or int, optional
        In the order of their columns.

    Returns
    -------
    tuple of str, or None
    """
    if classes is None:
        return None
    if isinstance(classes, (str, bytes)) or not isinstance(classes, Iterable):
        raise TypeError(f"classes must be a list of names, got {classes!r}")
    return tuple(label_text(name) for name in np.asarray(list(classes), dtype=object).tolist())


# -- sites -------------------------------------------------------------------------------------------------


def _of_label(
    label: str, sizes: Any, n_sites: int | None, names: list[str] | None, fewest: int
) -> dict[str, Asked]:
    """Each site of one label by itself."""
    try:
        return _by_site(asked_in_group(sizes, n_sites, names, fewest))
    except (ValueError, TypeError) as error:
        raise type(error)(f"group {quoted([label])}: {error}") from None


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
