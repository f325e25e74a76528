"""From wishes to a Plan."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

from fedconformal import _validation, scores
from fedconformal._warnings import warn
from fedconformal.documents import Facts, Plan, check_work
from fedconformal.privacy import Privacy
from fedconformal.protocol._federation import Asked, Sizes
from fedconformal.protocol._groups import class_names, group_parts, made_of
from fedconformal.protocol._parts import planned_part
from fedconformal.protocol._policy import SitePolicy
from fedconformal.protocol._rules import (
    Model,
    check_classes,
    checked,
    expiry,
    model_digest,
    privacy_rule,
    round_id,
    score_rule,
    site_keys,
)
from fedconformal.protocol._wishes import SEARCHED, Wishes


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
    local_ranks: str = SEARCHED,
    numbers: int | None = None,
    max_missing: int | None = None,
    sites: Iterable[str] | None = None,
    groups: Mapping[Any, Any] | None = None,
    group_by: str | Iterable[str] | None = None,
    classes: Iterable[Any] | None = None,
    score: str | Mapping[str, Any] | scores.Score | None = None,
    keys: Mapping[str, str] | None = None,
    privacy: Privacy | None = None,
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
        ``"mixture"``: sites may differ in any way but must be independent of each other, and the promise
        holds on average for new points that come from them with the shares of ``mixture``; a site that stays
        silent counts zero.
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
    local_ranks : {"common", "paper"}
        ``"common"``: site j sends rank ceil(b (n_j + 1)), b searched together with the votes. ``"paper"``:
        b = confidence level, as in the paper's appendix A.1, one vote each. Where ranks are searched for
        sites of different sizes, larger sites have more votes.
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
        that a site is left out of the group. None: sizes come with the reports.
    group_by : {"label", "class", "site"} or a pair of the site and one of the others, optional
        What the labels of ``groups`` are. ``"label"``, as if left out: something that is known of a point
        before its truth is. ``"class"``: its true class; a prediction set then holds each class whose score
        is at most the threshold of that class, and every class is covered at the level, whatever the mix of
        classes. ``"site"``: each site has a threshold of its own; sizes are then given by ``n_points`` or
        ``sites``, with names, and there are no ``groups``. ``("site", "class")`` and ``("site", "label")``:
        one threshold for each label at each site.
    classes : iterable of str or int, optional
        Names of the classes in the order of the columns of probabilities; with ``group_by="class"`` the order
        of ``groups`` if left out.
    score : str, mapping or Score, optional
        Score that all sites use: its name, a mapping with its name and parameters, or the score itself.
    keys : mapping from str to str, optional
        Ed25519 public key of each named site; then only signed reports count.
    privacy : Privacy, optional
        Makes every report differentially private; the sizes of the sites must be known. Its epsilon is that
        of a site's whole answer: levels and groups share it evenly.
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
    rule = score_rule(score)
    by = made_of(group_by)
    check_classes(by, classes, rule)
    secret = privacy_rule(privacy)
    wishes = Wishes.of(
        confidence_level, criterion, delta, max_faulty, promise, local_ranks, privacy, numbers, max_missing
    )
    if mixture is not None and (groups is not None or by is not None or not wishes.promise.takes_mixture):
        raise ValueError(f"mixture goes with promise 'mixture' and without groups, got {mixture!r}")
    if groups is None and by is None:
        asked = Asked.of(n_sites, n_points, sites).mixed(mixture)
        check_work(len(wishes.levels), 0 if privacy is None else privacy.bins.n_bins)
        parts = [checked("plan", lambda: planned_part(asked, wishes, privacy))]
        named = class_names(classes)
    else:
        fewest = _validation.integer("min_group", min_group, low=1)
        given = (groups, n_sites, n_points, sites, by, classes)
        parts, named = group_parts(*given, wishes, privacy, fewest)
    result = checked(
        "plan",
        lambda: Plan(
            parts=tuple(parts),
            score=rule,
            group_by=by,
            classes=named,
            keys=site_keys(keys, parts),
            privacy=secret,
            round=round_id(round, is_needed=keys is not None, parts=parts),
            model=None if model is None else model_digest(model),
            expires=expiry(expires),
            facts=Facts().with_more(facts) if facts else None,
        ),
    )
    if not result.feasible and on_infeasible != "ignore":
        message = " ".join(result.problems)
        if on_infeasible == "raise":
            raise ValueError(message)
        warn(message, InfeasibleWarning)
    return result
