"""From wishes to a GroupPlan."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import ROUND_DOWN, Context, Decimal
from fractions import Fraction
from numbers import Integral
from typing import Any, Literal

from pydantic import ValidationError

from fedconformal import _checks, planning
from fedconformal.documents import GroupPlan, LabelledPlan, Plan, SiteKey
from fedconformal.documents._base import first_problem
from fedconformal.documents._labels import label_text, listed
from fedconformal.planning._plan import tell
from fedconformal.privacy import Privacy

Sizes = int | Iterable[int] | Mapping[str, int] | Plan | None
_DIGITS = 12  # of a group's part of epsilon


def plan(
    groups: Mapping[Any, Sizes],
    *,
    n_sites: int | None = None,
    sites: Iterable[str] | None = None,
    keys: Mapping[str, str] | None = None,
    privacy: Privacy | None = None,
    shares: Mapping[Any, float] | None = None,
    on_infeasible: Literal["warn", "raise", "ignore"] = "warn",
    **arguments: Any,
) -> GroupPlan:
    """Choose the ranks of every group.

    Parameters
    ----------
    groups : for each label (text, or a whole number, which stands for its digits) how many points of the
        group the sites have: one number for all, a list, or a mapping from site names, where 0 means that
        the site is left out of the group. None: an open plan, sizes come with the reports. Or a Plan that
        `fedconformal.plan` made, where a group needs arguments of its own.
    n_sites, sites : number or names of the sites, where ``groups`` does not list them.
    keys : Ed25519 public key of each named site; then only messages that are signed as a whole count.
    privacy : makes the answers differentially private. Its epsilon is that of a site's whole answer and is
        split over the groups.
    shares : how epsilon is split: a positive weight for each label. Evenly if left out.
    on_infeasible : what to do when no finite threshold reaches a level in some group: ``"warn"``,
        ``"raise"`` a ValueError, or ``"ignore"``.
    **arguments : as for `fedconformal.plan`, the same for all groups: ``confidence_level``, ``criterion``,
        ``delta``, ``max_faulty``, ``local_ranks``, ``score``.

    Examples
    --------
    >>> chosen = plan({"young": {"A": 90, "B": 60}, "old": {"A": 40, "B": 200}}, confidence_level=0.9)
    >>> {label: round(each.law.mean(), 4) for label, each in chosen.by_label.items()}
    {'old': 0.9012, 'young': 0.903}
    """
    _checks.choice("on_infeasible", on_infeasible, ("warn", "raise", "ignore"))
    if not isinstance(groups, Mapping) or not groups:
        raise ValueError(f"groups must map labels to sizes, got {groups!r}")
    sizes = _by_text("groups", groups)
    if privacy is None and shares is not None:
        raise ValueError("shares go with privacy: they split its epsilon")
    parts = {} if privacy is None else split(privacy, sizes, shares)
    names = None if sites is None else list(sites)
    plans = []
    for label in sorted(sizes):
        try:
            made = _one(sizes[label], n_sites, names, {**arguments, "privacy": parts.get(label)})
            plans.append(LabelledPlan(label=label, plan=made))
        except ValidationError as error:
            raise ValueError(f"groups: {first_problem(error)}, got {listed([label])}") from None
        except ValueError as error:
            raise ValueError(f"group {listed([label])}: {error}") from None
    try:
        listing = None if keys is None else [SiteKey(site=s, public_key=keys[s]) for s in sorted(keys)]
        result = GroupPlan(plans=tuple(plans), keys=None if listing is None else tuple(listing))
    except ValidationError as error:
        raise ValueError(f"group plan: {first_problem(error)}") from None
    tell(result, on_infeasible)
    return result


def _by_text(name: str, values: Mapping[Any, Any]) -> dict[str, Any]:
    found = {label_text(label): value for label, value in values.items()}
    if len(found) < len(values):
        raise ValueError(f"{name} must hold each label once, got a number and its digits as text")
    return found


def _one(sizes: Any, n_sites: int | None, names: list[str] | None, arguments: dict[str, Any]) -> Plan:
    """The plan of one group, without the sites that have none of its points."""
    if isinstance(sizes, Plan):
        if arguments["privacy"] is not None:
            raise ValueError("privacy is split over groups given by their sizes, not over ready plans")
        return sizes
    several = isinstance(sizes, Iterable) and not isinstance(sizes, (str, bytes))
    if not several:
        return planning.plan(n_sites, sizes, sites=names, on_infeasible="ignore", **arguments)
    if names is not None and not isinstance(sizes, Mapping):
        listing = list(sizes)
        if len(listing) != len(names):
            raise ValueError(f"there must be one size for each of the {len(names)} sites, got {len(listing)}")
        sizes = dict(zip(names, listing, strict=True))
    if isinstance(sizes, Mapping):
        if names is not None and (strange := [name for name in sizes if name not in names]):
            raise ValueError(f"its sizes name {strange[0]!r}, which is none of the sites")
        sizes = {site: n for site, n in sizes.items() if not _is_zero(n)}
    else:
        sizes = [n for n in sizes if not _is_zero(n)]
    if not sizes:
        raise ValueError("no site has points of it")
    return planning.plan(n_points=sizes, on_infeasible="ignore", **arguments)


def _is_zero(n: Any) -> bool:
    return isinstance(n, Integral) and n == 0


def split(privacy: Privacy, labels: Iterable[str], shares: Mapping[Any, float] | None) -> dict[str, Privacy]:
    """Each group's part of epsilon, rounded down, so that the parts never add up to more than the whole."""
    labels = list(labels)
    weights = dict.fromkeys(labels, Fraction(1))
    if shares is not None:
        given = _by_text("shares", shares)
        if set(given) != set(labels):
            raise ValueError(f"shares must hold a weight for each label, got {listed(sorted(given))}")
        weights = {
            label: _checks.fraction("shares", share, high=1e6, closed=True) for label, share in given.items()
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
