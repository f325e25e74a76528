"""Groups of points in a plan: the sites that have some of each, and their parts of epsilon."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import ROUND_DOWN, Context, Decimal
from fractions import Fraction
from numbers import Integral
from typing import Any

from fedconformal import _validation
from fedconformal._text import quoted
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


def split_epsilon(
    privacy: Privacy | None, labels: Iterable[str], split: Mapping[Any, float] | None
) -> dict[str, Privacy | None]:
    """Each group's part of epsilon, rounded down, so that the parts never add up to more than the whole."""
    labels = list(labels)
    if privacy is None:
        if split is not None:
            raise ValueError("split goes with privacy: it says how epsilon is split over the groups")
        return dict.fromkeys(labels)
    weights = dict.fromkeys(labels, Fraction(1))
    if split is not None:
        given = by_text("split", split)
        if set(given) != set(labels):
            raise ValueError(f"split must hold a weight for each label, got {quoted(sorted(given))}")
        weights = {
            label: _validation.fraction("split", weight, high=1e6, closed=True)
            for label, weight in given.items()
        }
    whole, down = Fraction(str(privacy.epsilon)), Context(prec=_DIGITS, rounding=ROUND_DOWN)
    total = sum(weights.values(), Fraction(0))
    exact = {label: whole * weights[label] / total for label in labels}
    return {
        label: replace(
            privacy, epsilon=float(down.divide(Decimal(part.numerator), Decimal(part.denominator)))
        )
        for label, part in exact.items()
    }
