"""Groups of points in a plan: the sites that have some of each, and their parts of epsilon."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import ROUND_DOWN, Context, Decimal
from numbers import Integral
from typing import Any

from fedconformal.documents import label_text
from fedconformal.privacy import Privacy
from fedconformal.protocol._federation import Asked

_DIGITS = 12  # of a group's part of epsilon


def by_text(name: str, values: Mapping[Any, Any]) -> dict[str, Any]:
    """A mapping from labels as people hold them, with the labels as documents do."""
    found = {label_text(label): value for label, value in values.items()}
    if len(found) < len(values):
        raise ValueError(f"{name} must hold each label once, got a number and its digits as text")
    return found


def asked_in_group(sizes: Any, n_sites: int | None, names: list[str] | None, fewest: int) -> Asked:
    """The sites of one group, without those that have too few of its points to send anything."""
    if isinstance(sizes, Asked):
        return sizes
    several = isinstance(sizes, Iterable) and not isinstance(sizes, (str, bytes))
    if not several:
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


def share_epsilon(privacy: Privacy, n_labels: int) -> Privacy:
    """Each label's even part of epsilon, rounded down, so that the parts never add up to more than it."""
    down = Context(prec=_DIGITS, rounding=ROUND_DOWN)
    return replace(privacy, epsilon=float(down.divide(Decimal(str(privacy.epsilon)), Decimal(n_labels))))
