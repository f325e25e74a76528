"""A site's whole job: scores in, a few numbers out."""

import json
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._text import quoted
from fedconformal.documents import (
    Plan,
    Report,
    ReportPart,
    Sent,
    SigningKey,
    check_site_name,
    unique_labels,
)
from fedconformal.privacy import Ledger, fingerprint
from fedconformal.protocol._scores import Scores, flat_numbers, flat_scores

Parts = Mapping[str | None, Scores]
"""The scores of each group by label; under None where there are no groups."""


def report(
    plan: Plan,
    scores: ArrayLike,
    *,
    site: str,
    groups: ArrayLike | None = None,
    key: SigningKey | None = None,
    in_place: bool = False,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    accept: str | None = None,
) -> Report:
    """Answer a plan: find the ranks for this site's number of scores and send the scores of these ranks.

    The returned Report is everything that leaves the site: its name, and for all points, or for each group
    that it has points of, their number, the ranks, and for each confidence level the scores of these ranks
    (Infinity where a rank is above the number of scores). For a group without points nothing is sent, and the
    site counts as missing there; nor for one that the plan does not ask it for, as no answer of it could
    change the threshold.

    Parameters
    ----------
    plan : Plan
        The plan to answer.
    scores : array-like
        The site's calibration scores, any order. Integers are taken as they are, +inf is allowed, NaN is
        refused.
    site : str
        The site's name.
    groups : array-like, optional
        For a plan with groups, the group of each score, as text or whole numbers; all of them groups of the
        plan.
    key : SigningKey, optional
        Signs the report as a whole, where the plan asks for it.
    in_place : bool
        Select inside ``scores`` itself, leaving it shuffled; saves a copy of a very large array.
    ledger, dataset : Ledger and str, optional
        For a private plan, the account that the answer is charged to and what the data are called in it. It
        is charged once, for all groups that are answered for. NaN and scores outside the bins are then
        clipped, never refused.
    accept : str, optional
        For a private plan, the reason for which scores that have changed are accepted under the old name, in
        the same step as the charge; without it they are refused.

    Returns
    -------
    Report
        Everything that leaves the site.

    Raises
    ------
    ValueError
        If the scores do not fit the plan; nothing has been charged then.

    Examples
    --------
    >>> import fedconformal as fc
    >>> chosen = fc.plan(n_sites=5, n_points=4, confidence_level=0.8, criterion="marginal")
    >>> fc.report(chosen, [0.3, 0.1, 0.9, 0.5], site="A").value
    0.5
    """
    if key is not None and not isinstance(key, SigningKey):
        raise TypeError(f"key must be a SigningKey, got {key!r}")
    check_site_name(site)  # a report that could not be made must not have been charged
    if plan.privacy is not None:
        if plan.privacy.one_hot:
            raise ValueError(
                "this plan is to be answered only as one-hot vectors, to be summed: see private_bins"
            )
        parts = _by_group(plan, flat_numbers(scores), groups)
        drawn = _drawn(plan, parts, site=site, ledger=ledger, dataset=dataset, accept=accept)
        made = [_private_part(plan, label, parts[label].size, bins, site) for label, bins in drawn.items()]
    else:
        parts = _asked_for(plan, _by_group(plan, flat_scores(scores), groups), site)
        asked = {
            label: values for label, values in parts.items() if any(_ranks(plan, label, values.size, site))
        }
        if not asked:
            raise ValueError(
                f"the plan does not ask site {site!r}: no answer of it could change the threshold"
            )
        made = [_part(plan, label, values, site, in_place=in_place) for label, values in asked.items()]
    answer = Report(plan=plan.digest, site=site, parts=tuple(made))
    return answer if key is None else key.sign(answer)


def private_bins(
    plan: Plan, scores: ArrayLike, *, site: str, ledger: Ledger | None, dataset: str | None
) -> tuple[int, ...]:
    """The bins that a site releases under a private plan without groups, charged to its ledger.

    Parameters
    ----------
    plan : Plan
        The plan to answer.
    scores : array-like
        The site's calibration scores.
    site : str
        The site's name.
    ledger, dataset : Ledger and str
        The account that the answer is charged to and what the data are called in it.

    Returns
    -------
    tuple of int
        A bin for each level, 0 the first.
    """
    if plan.privacy is None:
        raise ValueError("this plan is not private: there are no bins to release")
    parts: Parts = {None: flat_numbers(scores)}
    return tuple(_drawn(plan, parts, site=site, ledger=ledger, dataset=dataset)[None])


def _of_group(plan: Plan, label: str | None) -> Plan:
    return plan if label is None else plan[label]


def _by_group(plan: Plan, scores: Scores, groups: ArrayLike | None) -> Parts:
    """The scores of each group that is there, by label in order."""
    if not plan.is_grouped:
        if groups is not None:
            raise ValueError("groups go with a plan that has groups: this one has a single threshold")
        return {None: scores}
    if groups is None:
        raise ValueError(f"groups must give the group of each score: the plan has {quoted(plan.labels)}")
    names, which = unique_labels(groups)
    if which.size != scores.size:
        raise ValueError(f"groups must be one label for each of the {scores.size} scores, got {which.size}")
    if strange := [name for name in names if name not in plan.labels]:
        count = int(np.isin(which, [names.index(name) for name in strange]).sum())
        raise ValueError(
            f"groups must be groups of the plan, got {quoted(strange)} in {count} of {scores.size} rows: "
            "correct these, or leave them out"
        )
    return {name: scores[which == i] for i, name in sorted(enumerate(names), key=lambda pair: pair[1])}


def _ranks(plan: Plan, label: str | None, n: int, site: str) -> tuple[tuple[int, ...], ...]:
    """The plan's ranks for this site; refuses a site or a size that the plan does not expect."""
    try:
        return _of_group(plan, label).ranks_for(n, site=site)
    except ValueError as error:
        if label is None:
            raise
        raise ValueError(f"group {quoted([label])}: {error}") from None


# -- exact answers -----------------------------------------------------------------------------------------


def _asked_for(plan: Plan, parts: Parts, site: str) -> Parts:
    """The groups that the plan asks this site for; it is not asked where no answer could matter."""
    asked = {label: values for label, values in parts.items() if any(_ranks(plan, label, values.size, site))}
    if not asked:
        raise ValueError(f"the plan does not ask site {site!r}: no answer of it could change the threshold")
    return asked


def _part(plan: Plan, label: str | None, values: Scores, site: str, *, in_place: bool) -> ReportPart:
    ranks = _ranks(plan, label, values.size, site)
    selected = _selected(values, ranks, in_place=in_place)
    sent = [Sent(ranks=each, values=tuple(selected.get(rank, math.inf) for rank in each)) for each in ranks]
    return ReportPart(label=label, n=values.size, levels=tuple(sent))


def _selected(values: Scores, ranks: Sequence[Sequence[int]], *, in_place: bool) -> dict[int, float]:
    """The scores of these ranks, in one linear-time selection; ranks above their number are left out."""
    wanted = sorted({rank for each in ranks for rank in each if rank <= values.size})
    places = [rank - 1 for rank in wanted]
    if places:
        # Floats are ordered after selection only at these places, which is all that is needed.
        if in_place:
            values.partition(places)
        else:
            values = np.partition(values, places)
    return {rank: float(values[rank - 1]) for rank in wanted}


# -- private answers ---------------------------------------------------------------------------------------


def _drawn(
    plan: Plan,
    parts: Parts,
    *,
    site: str,
    ledger: Ledger | None,
    dataset: str | None,
    accept: str | None = None,
) -> dict[str | None, list[int]]:
    """The bins of all groups, one per level, from one charge, and so one stored answer.

    Scores are clipped into the end bins, NaN into the last one, and never raise: whether an error was raised
    would be a release of its own.
    """
    if ledger is None or dataset is None:
        raise ValueError(
            "this plan is private: ledger and dataset are needed, so that no budget is overspent"
        )
    answered = _answered(plan, parts)
    for label in answered:
        _ranks(plan, label, parts[label].size, site)  # a wrong size or site is refused before it is charged
    draws = {label: _prepared(_of_group(plan, label), parts[label]) for label in answered}
    text = ledger.answer(
        dataset,
        plan_digest=plan.digest,
        site=site,
        epsilon=plan.cost(label for label in answered if label) if plan.is_grouped else plan.epsilon or 0,
        data_fingerprint=fingerprint(np.concatenate(list(parts.values()))),
        sample=lambda: json.dumps([[label, draw()] for label, draw in draws.items()]),
        accept=accept,
    )
    bins = dict(json.loads(text))
    if bins.keys() != draws.keys():
        raise ValueError(f"the ledger's answer to this plan is for other groups: {quoted(sorted(bins))}")
    return bins


def _answered(plan: Plan, parts: Parts) -> list[str | None]:
    """The groups that are answered for: an infinite threshold is not worth any epsilon."""
    if plan.is_grouped:
        labels: list[str | None] = [label for label in plan.to_answer if label in parts]
        if labels:
            return labels
        raise ValueError(
            "no group of this site has a finite threshold: answering would spend epsilon for nothing"
        )
    if not plan.feasible:
        raise ValueError(
            "this private plan has an infinite threshold: answering it would spend epsilon for nothing"
        )
    return [None]


def _prepared(plan: Plan, scores: Scores) -> Callable[[], list[int]]:
    """Everything short of the draw: calling it draws the bins, one per level, and must be paid for first."""
    assert plan.bins is not None
    assert plan.releases is not None
    counts = plan.bins.place(scores)
    draws = [release.prepare(counts) for release in plan.releases]
    return lambda: [draw() for draw in draws]


def _private_part(plan: Plan, label: str | None, n: int, bins: Sequence[int], site: str) -> ReportPart:
    """The part of a report of a site that has drawn these bins."""
    assert plan.bins is not None
    ranks = _ranks(plan, label, n, site)
    sent = [
        Sent(ranks=each, values=(plan.bins.value(chosen),)) for each, chosen in zip(ranks, bins, strict=True)
    ]
    return ReportPart(label=label, n=n, levels=tuple(sent))
