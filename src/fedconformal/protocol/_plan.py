"""From wishes to a Plan."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, TypeVar

import numpy as np
from pydantic import ValidationError

from fedconformal import _validation, scores
from fedconformal._text import quoted
from fedconformal.documents import (
    MOST_LEVELS,
    Advice,
    Facts,
    Level,
    Plan,
    PlanPart,
    PrivacyRule,
    ScoreRule,
    SiteKey,
    check_work,
    expiry_text,
    first_problem,
    fraction_text,
    random_round,
)
from fedconformal.planning import (
    CRITERIA,
    MOST_NUMBERS,
    PROMISES,
    Cases,
    Criterion,
    Design,
    Goal,
    Private,
    Promise,
    Sending,
    Sites,
    usual_spacing,
)
from fedconformal.privacy import ANALYSES, Privacy
from fedconformal.protocol._federation import Asked, Sizes
from fedconformal.protocol._grouping import Arranged, arranged, class_names, made_of
from fedconformal.protocol._groups import asked_in_group, split_epsilon
from fedconformal.protocol._models import Model, model_digest
from fedconformal.protocol._policy import SitePolicy

T = TypeVar("T")

_SEARCHED, _PAPER = "common", "paper"
_REMEMBERED = 1000  # different sizes up to which a choice is remembered
_SMALLEST_DELTA, _SMALLEST_DELTA_IF_FAULTY = Fraction("1e-300"), Fraction("1e-6")


class InfeasibleWarning(UserWarning):
    """A level that no ranks reach: the threshold will be infinite."""


def plan(
    n_sites: int | None = None,
    n_points: Sizes = None,
    *,
    confidence_level: float | Iterable[float] = 0.9,
    criterion: str | None = None,
    delta: float = 0.1,
    max_faulty: int = 0,
    promise: str = "population",
    mixture: Mapping[str, float] | None = None,
    local_ranks: str | float = _SEARCHED,
    numbers: int | None = None,
    max_missing: int | None = None,
    sites: Iterable[str] | None = None,
    groups: Mapping[Any, Any] | None = None,
    group_by: str | Iterable[str] | None = None,
    merge_rare: int | None = None,
    classes: Iterable[Any] | None = None,
    score: str | Mapping[str, Any] | scores.Score | None = None,
    keys: Mapping[str, str] | None = None,
    privacy: Privacy | None = None,
    split: Mapping[Any, float] | None = None,
    min_group: int = SitePolicy.min_group,
    round: str | None = None,
    model: Model | None = None,
    expires: str | datetime | None = None,
    facts: Mapping[str, str] | None = None,
    on_infeasible: Literal["warn", "raise", "ignore"] = "warn",
) -> Plan:
    """Choose the ranks of a federation.

    Parameters
    ----------
    n_sites : int, optional
        Number of sites; not needed when ``n_points`` lists them.
    n_points : int, iterable of int, or mapping from str to int, optional
        Calibration scores per site: one number, one per site, or a mapping from site names. Left out, the
        plan is open: sites apply the rank rule to whatever they have, and the server solves its votes when
        the reports are in.
    confidence_level : float or iterable of float
        Coverage wanted, or several; each site then sends one number for each. 0.9 means nine tenths exactly.
    criterion : {"stable", "marginal", "conditional"}, optional
        ``"stable"``: mean coverage at least the level, and coverage given the data as close to it as can be.
        ``"marginal"`` (the paper's): smallest mean coverage that is at least the level. ``"conditional"``:
        coverage given the data at least the level with probability 1 - ``delta``. Left out, the promise's own
        default: stable for the population, marginal otherwise and for the paper's private analysis.
    delta : float
        For the conditional criterion, from 1e-300 (with ``max_faulty`` from 1e-6) to 0.5: smaller
        probabilities are not computed precisely enough to promise anything.
    max_faulty : int
        The promise holds even if this many sites send anything at all; below half of the sites. Which sites
        these are must not depend on the scores of the others.
    promise : {"population", "mixture", "each-site", "new-site"}
        Whose new points the promise is for. ``"population"``: all sites and the new points are alike.
        ``"mixture"``: sites may differ in any way, and the promise holds on average for new points that come
        from them with the shares of ``mixture``; a site that stays silent counts zero.
        ``"each-site"``: sites may differ in any way, and the promise holds for new points of each of them,
        and so for every mixture of them. The server then keeps the largest report: wider sets. With the
        conditional criterion all sites are covered at once with probability 1 - ``delta``.
        ``"new-site"``: for a site that was not there, drawn from the same population of sites. Each site then
        sends ``numbers`` of its cases, drawn at random, and the promise is on average over new sites; with
        the conditional criterion each sends a rank, and at least 1 - ``delta`` of new sites are covered at
        the level.
    mixture : mapping from str to float, optional
        For ``promise="mixture"``: the share of new points that come from each named site, on any scale, as
        they are divided by their sum. In proportion to their numbers of scores plus 1 if left out.
    local_ranks : {"common", "paper"} or float
        ``"common"``: site j sends rank ceil(b (n_j + 1)), b searched together with the votes. ``"paper"``:
        b = confidence level, as in the paper's appendix A.1, one vote each. A number: that b. Where ranks are
        searched for sites of different sizes, larger sites have more votes.
    numbers : int, optional
        How many numbers a site sends for each level and group at the most, from 1 to 20. Two or three take
        away most of what is lost against pooling all scores. Left out: 5 for a mixture, else 1.
    max_missing : int, optional
        The threshold stays finite if this many sites stay silent, whichever they are. Left out, a plan that
        bears one silent site is preferred where that costs next to nothing, except under the marginal
        criterion.
    sites : iterable of str, optional
        Names of the sites, if only these may answer.
    groups : mapping, optional
        For one threshold for each group of points: for each label (text, or a whole number, which stands for
        its digits) how many points of the group the sites have, in the forms of ``n_points``, where 0 means
        that a site is left out of the group. None: sizes come with the reports. Or a Plan, where a group
        needs arguments of its own.
    group_by : {"label", "class", "site"} or a pair of the site and one of the others, optional
        What the labels of ``groups`` are. ``"label"``, as if left out: something that is known of a point
        before its truth is. ``"class"``: its true class; a prediction set then holds each class whose score
        is at most the threshold of that class, and every class is covered at the level, whatever the mix of
        classes. ``"site"``: each site has a threshold of its own; sizes are then given by ``n_points`` or
        ``sites``, with names, and there are no ``groups``. ``("site", "class")`` and ``("site", "label")``:
        one threshold for each label at each site.
    merge_rare : int, optional
        Labels with fewer points than this, over all sites, are one group. The plan records which.
    classes : iterable of str or int, optional
        Names of the classes in the order of the columns of probabilities; with ``group_by="class"`` the order
        of ``groups`` if left out.
    score : str, mapping or Score, optional
        Score that all sites use: its name, a mapping with its name and parameters, or the score itself.
    keys : mapping from str to str, optional
        Ed25519 public key of each named site; then only signed reports count.
    privacy : Privacy, optional
        Makes every report differentially private; the sizes of the sites must be known. Its epsilon is that
        of a site's whole answer: levels share it evenly, groups as ``split`` says.
    split : mapping, optional
        How epsilon is split over the groups: a positive weight for each label. Evenly if left out.
    min_group : int
        A site that has fewer points of a group counts as absent from it: by their policy, sites send nothing
        for such a group unless they say otherwise.
    round : str, optional
        An id that tells this round from others with the same wishes, so that no report of one counts in
        another. Random if left out and ``keys`` are given, and always where sites draw cases at random; else
        there is none, and equal wishes give equal plans.
    model : str or path-like, optional
        The file of the model whose scores are meant, or its digest; sites can compare theirs.
    expires : str or datetime, optional
        When sites and server stop to honour the plan: a moment in UTC such as ``"2030-01-31T12:00:00Z"``, or
        a datetime with its time zone.
    facts : mapping from str to str, optional
        What people should read on the certificate, and all sites see: ``model``, ``version``, ``purpose``,
        ``population``, ``period``, ``unit``, ``coordinator``, ``contact``, ``check_again``.
    on_infeasible : {"warn", "raise", "ignore"}
        What to do when no finite threshold reaches a level: warn (the plan then says so and has an infinite
        threshold), raise a ValueError, or ignore it.

    Returns
    -------
    Plan
        What every site is asked to answer.

    Raises
    ------
    ValueError
        If wishes do not go together, or no ranks reach a level and ``on_infeasible="raise"``.

    Examples
    --------
    >>> import fedconformal as fc
    >>> chosen = fc.plan(n_sites=10, n_points=100, confidence_level=0.9)
    >>> chosen.local_ranks[0], chosen.server_rank, round(chosen.law.mean(), 4)
    (92, 4, 0.9023)
    >>> chosen = fc.plan(groups={"young": {"A": 90, "B": 60}, "old": {"A": 40, "B": 200}})
    >>> {label: round(law.mean(), 4) for label, law in chosen.law.items()}
    {'old': 0.9005, 'young': 0.9083}
    """
    _validation.choice("on_infeasible", on_infeasible, ("warn", "raise", "ignore"))
    rule = _score(score) if groups is None else _common_score(_score(score), groups)
    by = made_of(group_by)
    _check_classes(by, classes, rule)
    secret = _privacy_rule(privacy, rule)
    wishes = _Wishes.of(
        confidence_level, criterion, delta, max_faulty, promise, local_ranks, privacy, numbers, max_missing
    )
    if mixture is not None and (groups is not None or by is not None or not wishes.promise.takes_mixture):
        raise ValueError(f"mixture goes with promise 'mixture' and without groups, got {mixture!r}")
    found: Arranged | None = None
    if groups is None and by is None:
        if split is not None:
            raise ValueError("split goes with groups: it says how epsilon is split over them")
        if merge_rare is not None:
            raise ValueError("merge_rare goes with groups: it says which of them are one")
        asked = Asked.of(n_sites, n_points, sites).mixed(mixture)
        _check_work(wishes, privacy)
        parts, names = [_checked("plan", lambda: _part(asked, wishes, privacy))], asked.names
    else:
        fewest = _validation.integer("min_group", min_group, low=1)
        listed = None if sites is None else list(sites)
        found = _checked(
            "groups",
            lambda: arranged(
                groups,
                _sites_alone(by, groups, n_sites, n_points, listed),
                n_sites,
                listed,
                by=by,
                classes=classes,
                merge_rare=merge_rare,
                fewest=fewest,
            ),
        )
        _check_work(wishes, privacy, sum(not isinstance(sizes, Plan) for sizes in found.sizes.values()))
        parts, names = _group_parts(found, n_sites, listed, wishes, privacy, split, fewest), None
    result = _checked(
        "plan",
        lambda: Plan(
            parts=tuple(parts),
            score=rule,
            group_by=None if found is None else found.group_by,
            merged=None if found is None else found.merged,
            classes=class_names(classes) if found is None else found.classes,
            keys=_keys(keys, names if found is None else _all_names(parts)),
            privacy=secret,
            round=_round(round, is_needed=keys is not None, parts=parts),
            model=None if model is None else model_digest(model),
            expires=_expiry(expires),
            facts=Facts().with_more(facts) if facts else None,
        ),
    )
    _warn(result, on_infeasible)
    return result


@dataclass(frozen=True)
class _Wishes:
    """What is wanted of every group alike."""

    levels: tuple[Fraction, ...]
    criterion: Criterion
    delta: Fraction
    max_faulty: int
    promise: Promise
    shares: tuple[Fraction | None, ...]
    numbers: int
    max_missing: int | None

    @classmethod
    def of(
        cls,
        confidence_level: Any,
        criterion: str | None,
        delta: Any,
        max_faulty: Any,
        promise: str,
        local_ranks: Any,
        privacy: Privacy | None,
        numbers: Any,
        max_missing: Any,
    ) -> "_Wishes":
        levels, promised = _levels(confidence_level), PROMISES[promise]()
        usual = None if privacy is None else ANALYSES[privacy.analysis].default_criterion
        usual_numbers = promised.default_numbers if privacy is None else 1
        return cls(
            levels,
            CRITERIA[(usual or promised.default_criterion) if criterion is None else criterion](),
            _delta(delta, max_faulty),
            _validation.integer("max_faulty", max_faulty, low=0),
            promised,
            tuple(_share(local_ranks, level) for level in levels),
            _numbers(usual_numbers if numbers is None else numbers, local_ranks, privacy),
            None if max_missing is None else _validation.integer("max_missing", max_missing, low=0),
        )

    def goal(self, level: Fraction) -> Goal:
        """What is to be reached at one level."""
        return Goal(level, self.criterion, self.delta, self.max_faulty, self.max_missing)


def _part(asked: Asked, wishes: _Wishes, privacy: Privacy | None, label: str | None = None) -> PlanPart:
    """What is planned for all points together, or for one group."""
    m = asked.n_sites
    if m is not None and 2 * wishes.max_faulty >= m:
        raise ValueError(
            f"max_faulty must be below half the number of sites, {m} / 2, got {wishes.max_faulty}"
        )
    if m is None and wishes.max_faulty:
        raise ValueError(
            f"max_faulty must be 0 while anybody may answer, got {wishes.max_faulty}: name the sites, or say "
            "how many there are"
        )
    if privacy is not None:
        _check_private_sites(privacy, asked, wishes)
    for level, share in zip(wishes.levels, wishes.shares, strict=True):
        wishes.promise.check(
            wishes.goal(level),
            private=privacy is not None,
            is_open=asked.is_open,
            searched=share is None,
            numbers=wishes.numbers,
        )
    designs = [
        _design(asked, wishes, level, share, privacy)
        for level, share in zip(wishes.levels, wishes.shares, strict=True)
    ]
    named = asked.names if asked.is_open else None
    sendings = [design.sending for design in designs]
    return PlanPart(
        label=label,
        promise=wishes.promise.name,
        criterion=wishes.criterion.name,
        delta=float(wishes.delta) if wishes.criterion.takes_delta else None,
        max_faulty=wishes.max_faulty,
        max_missing=wishes.max_missing,
        epsilon=None if privacy is None or label is None else privacy.epsilon,
        cases=next((sending.numbers for sending in sendings if isinstance(sending, Cases)), None),
        levels=tuple(_level(design, wishes.numbers) for design in designs),
        blocks=None if asked.is_open else asked.blocks(designs),
        names=named,
        expected=m if asked.is_open and named is None else None,
    )


def _design(
    asked: Asked, wishes: _Wishes, level: Fraction, share: Fraction | None, privacy: Privacy | None
) -> Design:
    goal, promise = wishes.goal(level), wishes.promise
    sending: Sending = promise.sending(goal, wishes.numbers)
    if privacy is not None:
        sending = Private(privacy.release(len(wishes.levels)), len(wishes.levels))
    if asked.is_open:
        return promise.open_design(goal, sending, share, asked.n_sites)
    sites = asked.by_size
    if privacy is not None or sites.n_points.size > _REMEMBERED:
        return promise.choose(sites, goal, sending, share)
    kinds = tuple(sites.n_points.tolist()), tuple(sites.counts.tolist()), sites.shares
    return _chosen(promise, *kinds, goal, sending, share)


@lru_cache(maxsize=64)
def _chosen(
    promise: Promise,
    sizes: tuple[int, ...],
    counts: tuple[int, ...],
    shares: tuple[Fraction, ...] | None,
    goal: Goal,
    sending: Sending,
    share: Fraction | None,
) -> Design:
    """What a promise chooses, remembered: simulations and cross-validation ask for the same sizes again."""
    return promise.choose(Sites(np.array(sizes), np.array(counts), shares), goal, sending, share)


def _level(design: Design, numbers: int) -> Level:
    release = design.sending.release
    quantile, slope = (None, None) if release is None else (release.quantile, release.slope)
    by_rule = design.is_open and design.share is not None
    spacing = usual_spacing(numbers) if by_rule else None
    return Level(
        confidence_level=float(design.goal.level),
        share=None if design.share is None else fraction_text(design.share),
        server_rank=design.server_rank,
        advice=None if design.advice is None else Advice(**vars(design.advice)),
        quantile=None if quantile is None else fraction_text(quantile),
        slope=None if slope is None else fraction_text(slope),
        numbers=numbers if by_rule else 1,
        spacing=None if spacing is None else fraction_text(spacing),
        eta=None if design.eta is None else fraction_text(design.eta),
    )


# -- groups ------------------------------------------------------------------------------------------------


def _sites_alone(
    by: tuple[str, ...] | None, groups: Any, n_sites: Any, n_points: Any, sites: list[str] | None
) -> Asked | None:
    """The sites, where groups are made of them alone; None where they are made of labels."""
    if by is None or len(by) > 1 or "site" not in by:
        if groups is None:
            raise ValueError("groups must map labels to sizes where group_by is not site alone, got None")
        if n_points is not None:
            raise ValueError("n_points does not go with groups: each group has its own sizes")
        return None
    if groups is not None:
        raise ValueError("groups does not go with group_by site alone: each site is a group")
    return Asked.of(n_sites, n_points, sites)


def _group_parts(
    found: Arranged,
    n_sites: int | None,
    names: list[str] | None,
    wishes: _Wishes,
    privacy: Privacy | None,
    split: Mapping[Any, float] | None,
    fewest: int,
) -> list[PlanPart]:
    parts_of_epsilon = split_epsilon(privacy, dict.fromkeys(found.labels.values()), split)
    parts = []
    for group in sorted(found.sizes):
        sizes, epsilon = found.sizes[group], parts_of_epsilon[found.labels[group]]
        try:
            if isinstance(sizes, Plan):
                parts.append(_part_of(sizes, group, privacy, fewest))
                continue
            parts.append(_part(asked_in_group(sizes, n_sites, names, fewest), wishes, epsilon, group))
        except ValidationError as error:
            raise ValueError(f"groups: {first_problem(error)}, got {quoted([group])}") from None
        except (ValueError, TypeError) as error:
            raise type(error)(f"group {quoted([group])}: {error}") from None
    return parts


def _common_score(rule: ScoreRule | None, groups: Any) -> ScoreRule | None:
    """The score of the whole plan and of every ready plan of one group, which must be the same."""
    ready = groups.values() if isinstance(groups, Mapping) else ()
    rules = [rule, *(plan.score for plan in ready if isinstance(plan, Plan))]
    given = [each for each in rules if each is not None]
    if any(each != given[0] for each in given):
        raise ValueError(
            f"all groups must have the same score, got {' and '.join(each.name for each in given)}"
        )
    return given[0] if given else None


def _part_of(ready: Plan, label: str, privacy: Privacy | None, fewest: int) -> PlanPart:
    """The plan that somebody made for one group, as a part of the whole."""
    if privacy is not None or ready.privacy is not None:
        raise ValueError("privacy is split over groups given by their sizes, not over ready plans")
    if ready.keys is not None:
        raise ValueError("the keys belong to the whole plan, not to the plan of one group")
    if (ready.round, ready.model, ready.expires) != (None, None, None):
        raise ValueError("round, model and expires belong to the whole plan, not to the plan of one group")
    if any(block.n < fewest for block in ready.part.blocks or ()):
        raise ValueError(f"every site needs {fewest} points of it (min_group = {fewest})")
    fields = {name: getattr(ready.part, name) for name in PlanPart.model_fields}
    return PlanPart(**{**fields, "label": label})


def _all_names(parts: list[PlanPart]) -> tuple[str, ...] | None:
    names = [part.site_names for part in parts]
    return None if None in names else tuple(sorted({name for each in names for name in each or ()}))


# -- single wishes -----------------------------------------------------------------------------------------


def _levels(confidence_level: Any) -> tuple[Fraction, ...]:
    if isinstance(confidence_level, Iterable) and not isinstance(confidence_level, (str, bytes)):
        given = list(confidence_level)
        if len(given) > MOST_LEVELS:
            raise ValueError(f"confidence_level must hold at most {MOST_LEVELS} levels, got {len(given)}")
        levels = tuple(_validation.fraction("confidence_level", level) for level in given)
        if not levels or len(set(levels)) < len(levels):
            raise ValueError(f"confidence_level must hold different levels, got {given!r}")
        return levels
    return (_validation.fraction("confidence_level", confidence_level),)


def _share(local_ranks: Any, level: Fraction) -> Fraction | None:
    """The share that fixes the local ranks; None if it is to be searched."""
    if isinstance(local_ranks, str):
        words: dict[str, Fraction | None] = {_SEARCHED: None, _PAPER: level}
        return words[_validation.choice("local_ranks", local_ranks, words)]
    return _validation.fraction("local_ranks", local_ranks)


def _delta(delta: Any, max_faulty: Any) -> Fraction:
    """A probability that the laws tell precisely; those of the worst faulty sites have fewer digits."""
    value = _validation.fraction("delta", delta, high=0.5, closed=True)
    least = _SMALLEST_DELTA_IF_FAULTY if max_faulty else _SMALLEST_DELTA
    if value < least:
        where = " with max_faulty" if max_faulty else ""
        raise ValueError(f"delta must be between {float(least):g} and 0.5{where}, got {delta}")
    return value


def _numbers(numbers: Any, local_ranks: Any, privacy: Privacy | None) -> int:
    """How many numbers a site sends."""
    found = _validation.integer("numbers", numbers, low=1, high=MOST_NUMBERS)
    if found > 1 and privacy is not None:
        raise ValueError(
            f"numbers must be 1 with privacy, got {found}: epsilon would be split over the numbers of a site"
        )
    if found > 1 and local_ranks != _SEARCHED:
        raise ValueError(
            f"numbers must be 1 with local_ranks, which fixes one rank for each site, got {found}"
        )
    return found


def _score(score: Any) -> ScoreRule | None:
    """The score with all its parameters, so that no site depends on its own version's defaults."""
    if score is None:
        return None
    if isinstance(score, scores.Score):
        made = score
    elif isinstance(score, (str, Mapping)):
        fields = {"name": score} if isinstance(score, str) else dict(score)
        made = scores.from_name(fields.pop("name", None), **fields)
    else:
        raise TypeError(
            f"score must be a name, a mapping with a name, or a Score, got {score!r}"
            f"{scores.what_lacks(score)}"
        )
    return _checked("score", lambda: ScoreRule(name=made.name, parameters=made.parameters()))


def _check_classes(by: tuple[str, ...] | None, classes: Any, rule: ScoreRule | None) -> None:
    """Refuse classes where the score is of numbers."""
    if rule is None or (classes is None and "class" not in (by or ())):
        return
    made = scores.from_name(rule.name, **rule.parameters)
    if not isinstance(made, scores.LabelScore):
        able = ", ".join(scores.names_of(scores.LabelScore))
        raise ValueError(f"score must be one of classes ({able}) where there are classes, got {rule.name!r}")


def _keys(keys: Mapping[str, str] | None, names: tuple[str, ...] | None) -> tuple[SiteKey, ...] | None:
    if keys is None:
        return None
    if names is None or set(keys) != set(names):
        raise ValueError("keys must hold one public key for each named site, and no other")
    return _checked("keys", lambda: tuple(SiteKey(site=name, public_key=keys[name]) for name in names))


def _round(given: str | None, *, is_needed: bool, parts: list[PlanPart]) -> str | None:
    """The id of the round: one that nobody chose where it decides which cases are drawn."""
    drawn = any(part.cases is not None for part in parts)
    if drawn and given is not None:
        raise ValueError(
            f"round must be left out where sites draw cases: it is drawn at random, got {given!r}"
        )
    return random_round() if drawn or (given is None and is_needed) else given


def _expiry(expires: Any) -> str | None:
    if not isinstance(expires, datetime):
        return None if expires is None else str(expires)
    if expires.tzinfo is None:
        raise ValueError(f"expires must have a time zone, got {expires!r}")
    return expiry_text(expires)


def _privacy_rule(privacy: Any, score: ScoreRule | None) -> PrivacyRule | None:
    """How reports are made private, as the plan will hold it; refuses bins that cannot hold the scores."""
    if privacy is None:
        return None
    if not isinstance(privacy, Privacy):
        raise TypeError(f"privacy must be a Privacy, got {privacy!r}")
    rule = _checked("privacy", lambda: PrivacyRule(**privacy.fields()))
    rule.check_score(score)
    return rule


def _check_work(wishes: _Wishes, privacy: Privacy | None, n_groups: int = 1) -> None:
    """Refuse at once what the finished plan would be refused for."""
    check_work(n_groups * len(wishes.levels), 0 if privacy is None else len(privacy.bins.edges))


def _check_private_sites(privacy: Privacy, asked: Asked, wishes: _Wishes) -> None:
    """Refuse what does not go together with privacy."""
    if asked.is_open:
        raise ValueError("privacy needs n_points: the noise depends on how many scores each site has")
    if any(share is not None for share in wishes.shares):
        raise ValueError("local_ranks does not go with privacy: private sites aim at one common quantile")
    if privacy.one_hot and wishes.max_faulty:
        raise ValueError(
            f"max_faulty must be 0 with one-hot sums, where one site could cast every vote, got "
            f"{wishes.max_faulty}"
        )
    release = privacy.release()
    release.analysis.check(
        mechanism=release.mechanism,
        n_sizes=asked.by_size.n_points.size,
        criterion=wishes.criterion.name,
        max_faulty=wishes.max_faulty,
    )


def _checked(name: str, make: Callable[[], T]) -> T:
    """A document or a part of it from an argument, or one line that names the argument."""
    try:
        return make()
    except ValidationError as error:
        raise ValueError(f"{name}: {first_problem(error).removeprefix('content: ')}") from None


def _warn(result: Plan, on_infeasible: str) -> None:
    """Say which levels no ranks reach, as the user wants to hear it."""
    if result.feasible:
        return
    message = " ".join(result.problems)
    if on_infeasible == "raise":
        raise ValueError(message)
    if on_infeasible == "warn":
        warnings.warn(message, InfeasibleWarning, stacklevel=3)
