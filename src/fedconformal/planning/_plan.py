"""From wishes to a Plan."""

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from itertools import groupby
from typing import Any, Literal, TypeVar

import numpy as np
from pydantic import ValidationError

from fedconformal import _checks
from fedconformal.documents import Advice, Group, GroupPlan, Level, Plan, PrivacyRule, ScoreRule, SiteKey
from fedconformal.documents._base import LARGEST_N, first_problem
from fedconformal.laws._sites import Ints
from fedconformal.planning._advice import smallest_n_points, smallest_n_sites
from fedconformal.planning._each_site import each_site, own_ranks
from fedconformal.planning._family import common_shares, fixed, with_share
from fedconformal.planning._private import (
    search_private,
    smallest_epsilon,
    smallest_private_n,
)
from fedconformal.planning._search import Goal, search
from fedconformal.privacy._rule import Privacy
from fedconformal.privacy._terms import Terms

_MOST_RUNS = 10_000  # beyond that, sites without names are kept by size, not in order

CRITERIA = ("marginal", "stable", "conditional")


T = TypeVar("T")


class InfeasibleWarning(UserWarning):
    """A level that no ranks reach: the threshold will be infinite."""


def plan(
    n_sites: int | None = None,
    n_points: int | Iterable[int] | Mapping[str, int] | None = None,
    *,
    confidence_level: float | Iterable[float] = 0.9,
    criterion: Literal["marginal", "stable", "conditional"] = "marginal",
    delta: float = 0.1,
    max_faulty: int = 0,
    target: Literal["population", "each-site"] = "population",
    local_ranks: str | float = "common",
    sites: Iterable[str] | None = None,
    score: str | Mapping[str, Any] | None = None,
    keys: Mapping[str, str] | None = None,
    privacy: Privacy | None = None,
    on_infeasible: Literal["warn", "raise", "ignore"] = "warn",
) -> Plan:
    """Choose the ranks of a federation.

    Parameters
    ----------
    n_sites : number of sites; not needed when ``n_points`` lists them.
    n_points : calibration scores per site: one number, one per site, or a mapping from site names. Left out,
        the plan is open: sites apply the rank rule to whatever they have, and the server solves its rank when
        the reports are in.
    confidence_level : coverage wanted, or several; each site then sends one number for each. 0.9 means nine
        tenths exactly.
    criterion : ``"marginal"`` (the paper's): smallest mean coverage that is at least the level.
        ``"stable"``: mean coverage at least the level, and coverage given the data as close to it as can be.
        ``"conditional"``: coverage given the data at least the level with probability 1 - ``delta``.
    delta : for the conditional criterion, in (0, 0.5].
    max_faulty : the promise holds even if this many sites send anything at all; below half of the sites.
        Which sites these are must not depend on the scores of the others.
    target : whose new points the promise is for. ``"population"``: all sites and the new points are alike.
        ``"each-site"``: sites may differ in any way, and the promise holds for new points of each of them,
        and so for every mixture of them. The server then keeps the largest report: wider sets. With the
        conditional criterion all sites are covered at once with probability 1 - ``delta``.
    local_ranks : ``"common"``: site j sends rank ceil(b (n_j + 1)), b searched together with the server rank.
        ``"paper"``: b = confidence level, as in the paper's appendix A.1. A number: that b.
    sites : names of the sites, if only these may answer.
    score : name of the score that all sites use, or a mapping with its name and parameters.
    keys : Ed25519 public key of each named site; then only signed reports count.
    privacy : makes every report differentially private; the sizes of the sites must be known.
    on_infeasible : what to do when no finite threshold reaches a level: ``"warn"`` (the plan then says so and
        has an infinite threshold), ``"raise"`` a ValueError, or ``"ignore"``.

    Examples
    --------
    >>> chosen = plan(n_sites=10, n_points=100, confidence_level=0.9, criterion="stable")
    >>> chosen.local_ranks[0], chosen.server_rank, round(chosen.law.mean(), 4)
    (92, 4, 0.9023)
    """
    levels = _levels(confidence_level)
    _checks.choice("criterion", criterion, CRITERIA)
    _checks.choice("on_infeasible", on_infeasible, ("warn", "raise", "ignore"))
    _checks.choice("target", target, ("population", "each-site"))
    share = _checks.fraction("delta", delta, high=0.5, closed=True)
    names, sizes, m = _federation(n_sites, n_points, sites)
    faulty = _faulty(max_faulty, m)
    common: dict[str, Any] = {
        "criterion": criterion,
        "delta": float(delta) if criterion == "conditional" else None,
        "max_faulty": faulty,
        "score": _score(score),
        "keys": _keys(keys, names),
        "privacy": _privacy(privacy, sizes, criterion, faulty),
        "target": target,
    }
    if target == "each-site":
        _check_each_site(criterion, faulty, local_ranks, privacy, sizes)
    if privacy is not None:
        _check_private(privacy, local_ranks, common["score"])
    rules = [_rule(local_ranks, level) for level in levels]
    if sizes is None:
        shares = [rule or level for rule, level in zip(rules, levels, strict=True)]
        open_levels = tuple(_level(level, share=b) for level, b in zip(levels, shares, strict=True))
        return Plan(levels=open_levels, groups=None, names=names, expected=None if names else m, **common)
    goals = [Goal(level, criterion, share, faulty) for level in levels]
    distinct, counts, where = _distinct(sizes, m or 1)
    if target == "each-site":
        solved = [_solve_each_site(distinct, counts, goal) for goal in goals]
    elif privacy is not None:
        solved = [_solve_private(distinct, counts, goal, privacy, len(goals)) for goal in goals]
    else:
        solved = [_solve(distinct, counts, goal, rule) for goal, rule in zip(goals, rules, strict=True)]
    result = Plan(
        levels=tuple(level for level, _ in solved),
        groups=_groups(distinct, where, m or 1, [ranks for _, ranks in solved], names),
        names=None,
        expected=None,
        **common,
    )
    tell(result, on_infeasible)
    return result


def _levels(confidence_level: Any) -> list[Fraction]:
    if isinstance(confidence_level, Iterable) and not isinstance(confidence_level, (str, bytes)):
        levels = [_checks.fraction("confidence_level", level) for level in confidence_level]
        if not levels or len(set(levels)) < len(levels):
            raise ValueError(f"confidence_level must hold different levels, got {list(confidence_level)!r}")
        return levels
    return [_checks.fraction("confidence_level", confidence_level)]


def _federation(
    n_sites: Any, n_points: Any, sites: Iterable[str] | None
) -> tuple[tuple[str, ...] | None, Ints | None, int | None]:
    """Names, sizes (one, or one per site) and number of sites, each None where unknown."""
    names = None if sites is None else _names(sites)
    if isinstance(n_points, Mapping):
        if names is not None and set(names) != set(n_points):
            raise ValueError("sites and the names in n_points must be the same")
        names = names or _names(n_points)
        n_points = [n_points[name] for name in names]
    m = None if n_sites is None else _checks.integer("n_sites", n_sites, low=1)
    if m is not None and names is not None and m != len(names):
        raise ValueError(f"n_sites must be the number of site names, {len(names)}, got {m}")
    m = m if names is None else len(names)
    if n_points is None:
        return names, None, m
    if not isinstance(n_points, Iterable) or isinstance(n_points, (str, bytes)):
        size = _checks.integer("n_points", n_points, low=1, high=LARGEST_N)
        if m is None:
            raise TypeError("n_sites is needed when n_points is one number")
        return names, np.array([size]), m
    sizes = _checks.integers("n_points", n_points, low=1, high=LARGEST_N)
    if m is not None and m != sizes.size:
        raise ValueError(f"n_sites must be the length of n_points, {sizes.size}, got {m}")
    return names, sizes, sizes.size


def _names(sites: Iterable[str]) -> tuple[str, ...]:
    names = tuple(sites)
    if isinstance(sites, str) or not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"sites must be a list of names, got {sites!r}")
    if len(set(names)) < len(names):
        raise ValueError("sites must be different, got one twice")
    if wrong := [name for name in names if not name.isprintable() or len(name) > 200]:
        raise ValueError(f"sites must be printable names of up to 200 characters, got {wrong[0]!r}")
    return names


def _validated(name: str, make: Callable[[], T]) -> T:
    """Part of a document from an argument, or one line that names it."""
    try:
        return make()
    except ValidationError as error:
        raise ValueError(f"{name}: {first_problem(error)}") from None


def _faulty(max_faulty: Any, m: int | None) -> int:
    faulty = _checks.integer("max_faulty", max_faulty, low=0)
    if m is not None and 2 * faulty >= m:
        raise ValueError(f"max_faulty must be below half the number of sites, {m} / 2, got {faulty}")
    return faulty


def _rule(local_ranks: Any, level: Fraction) -> Fraction | None:
    """The share that fixes the local ranks; None if it is to be searched."""
    if isinstance(local_ranks, str):
        return level if _checks.choice("local_ranks", local_ranks, ("common", "paper")) == "paper" else None
    return _checks.fraction("local_ranks", local_ranks)


def _score(score: Any) -> ScoreRule | None:
    if score is None:
        return None
    fields = {"name": score} if isinstance(score, str) else dict(score)
    rule = _validated("score", lambda: ScoreRule.model_validate(fields))
    from fedconformal.scores import from_name

    # All parameters go into the plan, so that no site depends on its own version's defaults.
    full = from_name(rule.name, **rule.parameters()).parameters()
    return ScoreRule.model_validate({"name": rule.name, **full})


def _keys(keys: Mapping[str, str] | None, names: tuple[str, ...] | None) -> tuple[SiteKey, ...] | None:
    if keys is None:
        return None
    if names is None or set(keys) != set(names):
        raise ValueError("keys must hold one public key for each named site, and no other")
    return _validated("keys", lambda: tuple(SiteKey(site=name, public_key=keys[name]) for name in names))


def _distinct(sizes: Ints, m: int) -> tuple[Ints, Ints, Ints]:
    """Distinct sizes, how many sites have each, and which one each site has (one entry if all are alike)."""
    if sizes.size == 1:
        return sizes, np.array([m]), np.array([0])
    distinct, places, counts = np.unique(sizes, return_inverse=True, return_counts=True)
    return distinct, counts, places


def _solve(n_points: Ints, counts: Ints, goal: Goal, rule: Fraction | None) -> tuple[Level, Ints]:
    """One level: its entry in the plan, and the rank of each distinct size."""
    if rule is None:
        miss = float(goal.delta) if goal.criterion == "conditional" else 1.0
        family = common_shares(n_points, counts, goal.level, miss=miss)
    else:
        family = with_share(n_points, counts, rule)
    best = search(family, goal)
    if best is None:
        rank, advice = _infeasible(n_points, counts, goal, rule)
        return _level(goal.level, share=rule, server_rank=rank, advice=advice), family.ranks[-1]
    share = family.shares[best.vector]
    return _level(goal.level, share=share, server_rank=best.server_rank), family.ranks[best.vector]


def _solve_each_site(n_points: Ints, counts: Ints, goal: Goal) -> tuple[Level, Ints]:
    """One level of a promise to each site."""
    ranks = own_ranks(n_points, goal, int(counts.sum()))
    rank, advice = each_site(n_points, counts, ranks, goal)
    share = goal.level if goal.criterion == "marginal" else None
    return _level(goal.level, share=share, server_rank=rank, advice=advice), ranks


def _check_each_site(
    criterion: str, max_faulty: int, local_ranks: Any, privacy: Privacy | None, sizes: Ints | None
) -> None:
    """What does not go together with a promise to each site."""
    if criterion == "stable":
        raise ValueError("criterion must be marginal or conditional with target 'each-site', got 'stable'")
    if max_faulty:
        raise ValueError(
            "max_faulty does not go with target 'each-site': a site that lies harms the promise "
            "to itself alone, or makes the sets larger"
        )
    if local_ranks != "common":
        raise ValueError("local_ranks does not go with target 'each-site': every site sends its own rank")
    if privacy is not None:
        raise ValueError("privacy does not go with target 'each-site'")
    if sizes is None and criterion == "conditional":
        raise ValueError("the conditional criterion with target 'each-site' needs n_points")


def solve_server_rank(
    n_points: Ints, counts: Ints, ranks: Ints, goal: Goal, share: Fraction | None
) -> tuple[int, Advice | None]:
    """The server's rank when the sites' ranks are given; one more than there are sites where none will do.

    ``share`` is the rule that the ranks follow, if they follow one; advice keeps to it.
    """
    best = search(fixed(n_points, counts, ranks), goal)
    return _infeasible(n_points, counts, goal, share) if best is None else (best.server_rank, None)


def _infeasible(n_points: Ints, counts: Ints, goal: Goal, share: Fraction | None) -> tuple[int, Advice]:
    m, n = int(counts.sum()), int(n_points.min())
    points, sites = smallest_n_points(m, goal, share), smallest_n_sites(n, goal, share)
    return m + 1, Advice(
        n_points=points if points is None or points > n else None,
        n_sites=sites if sites is None or sites > m else None,
    )


def _solve_private(
    n_points: Ints, counts: Ints, goal: Goal, privacy: Privacy, n_levels: int
) -> tuple[Level, Ints]:
    """One private level: its entry in the plan, and the rank that each distinct size aims at."""
    rule = PrivacyRule(**privacy.fields())
    epsilon = Fraction(str(rule.epsilon)) / n_levels
    terms = Terms(epsilon, len(rule.edges), rule.mechanism, rule.analysis)
    best = search_private(n_points, counts, goal, terms)
    if best is None:
        quantile, rank = Fraction(999, 1000), int(counts.sum()) + 1
        advice = Advice(
            n_points=smallest_private_n(n_points, counts, goal, terms),
            n_sites=None,
            epsilon=smallest_epsilon(n_points, counts, goal, terms, n_levels),
        )
    else:
        quantile, rank, advice = best.quantile, best.server_rank, None
    aim = np.array([max(1, math.ceil(quantile * int(n))) for n in n_points])
    return _level(goal.level, share=None, server_rank=rank, advice=advice, quantile=quantile), aim


def _privacy(privacy: Any, sizes: Ints | None, criterion: str, max_faulty: int) -> PrivacyRule | None:
    if privacy is None:
        return None
    if not isinstance(privacy, Privacy):
        raise TypeError(f"privacy must be a Privacy, got {privacy!r}")
    if sizes is None:
        raise ValueError("privacy needs n_points: the noise depends on how many scores each site has")
    if privacy.analysis == "paper" and (np.unique(sizes).size > 1 or criterion != "marginal" or max_faulty):
        raise ValueError(
            "the paper's analysis is for sites of one size, the marginal criterion, and no liars"
        )
    return PrivacyRule(**privacy.fields())


def _check_private(privacy: Privacy, local_ranks: Any, score: ScoreRule | None) -> None:
    """What does not go together with privacy."""
    if local_ranks != "common":
        raise ValueError("local_ranks does not go with privacy: private sites aim at one common quantile")
    if not privacy.bins.bounded or score is None:
        return
    if score.name not in ("lac", "aps") or privacy.bins.edges[-1] < 1:
        raise ValueError(
            f"bounded bins must hold every score: {score.name} scores may be above the last edge"
        )


def _level(
    level: Fraction,
    *,
    share: Fraction | None,
    server_rank: int | None = None,
    advice: Advice | None = None,
    quantile: Fraction | None = None,
) -> Level:
    return Level(
        confidence_level=float(level),
        share=_text(share),
        server_rank=server_rank,
        advice=advice,
        quantile=_text(quantile),
    )


def _text(share: Fraction | None) -> str | None:
    return None if share is None else f"{share.numerator}/{share.denominator}"


def _groups(
    n_points: Ints, where: Ints, m: int, ranks: list[Ints], names: tuple[str, ...] | None
) -> tuple[Group, ...]:
    """Runs of equal sites, in the order of the sites; by size where that would be too many runs."""
    runs = [(where[0], m)] if where.size == 1 else [(g, len(list(run))) for g, run in groupby(where.tolist())]
    if len(runs) > _MOST_RUNS and names is None:
        runs = list(enumerate(np.bincount(where).tolist()))
    groups, start = [], 0
    for g, count in runs:
        groups.append(
            Group(
                count=count,
                n=int(n_points[g]),
                ranks=tuple(int(column[g]) for column in ranks),
                names=None if names is None else names[start : start + count],
            )
        )
        start += count
    return tuple(groups)


def tell(result: Plan | GroupPlan, on_infeasible: str) -> None:
    """Say aloud which levels no ranks reach, as the user wants to hear it."""
    if result.feasible or on_infeasible == "ignore":
        return
    message = " ".join(result.problems)
    if on_infeasible == "raise":
        raise ValueError(message)
    warnings.warn(message, InfeasibleWarning, stacklevel=3)
