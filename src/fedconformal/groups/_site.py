"""A site's whole job for groups: scores and labels in, one number for each group out."""

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal import site as site_room
from fedconformal.documents import GroupPlan, GroupReport, LabelledReport, Report
from fedconformal.documents._labels import listed, unique_labels
from fedconformal.privacy import Ledger
from fedconformal.privacy._ledger import fingerprint
from fedconformal.privacy._release import prepared

if TYPE_CHECKING:
    from fedconformal.signing import SigningKey

Scores = np.ndarray[Any, np.dtype[np.floating[Any]]]


def report(
    group_plan: GroupPlan,
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    site: str,
    key: "SigningKey | None" = None,
    ledger: Ledger | None = None,
    dataset: str | None = None,
) -> GroupReport:
    """Answer a group plan: for each group that this site has points of, the score of the group's rank.

    The returned GroupReport is everything that leaves the site: its name, and for each group that it has
    points of their number, the rank and for each confidence level one score. For a group without points
    nothing is sent, and the site counts as missing there.

    Parameters
    ----------
    group_plan : the plan to answer.
    scores : the site's calibration scores.
    labels : the group of each score, as text or whole numbers; all of them groups of the plan.
    site : the site's name.
    key : signs the whole message, where the plan asks for it.
    ledger, dataset : for a private plan, the account that the answer is charged to and what the data are
        called in it. It is charged once, with the sum of the epsilons of the groups that are answered for.
    """
    parts = _by_group(group_plan, site_room.flat_numbers(scores), labels)
    made = {}
    if group_plan.private:
        made = _private(group_plan, parts, site=site, ledger=ledger, dataset=dataset)
    else:
        for label, values in parts.items():
            try:
                made[label] = site_room.report(group_plan.by_label[label], values, site=site)
            except ValueError as error:
                raise ValueError(f"group {listed([label])}: {error}") from None
    answer = GroupReport(
        plan=group_plan.digest,
        site=site,
        reports=tuple(LabelledReport(label=label, report=made[label]) for label in sorted(made)),
    )
    return answer if key is None else key.sign(answer)


def _by_group(group_plan: GroupPlan, scores: Scores, labels: ArrayLike) -> dict[str, Scores]:
    """The scores of each group that is there."""
    names, which = unique_labels(labels)
    if which.size != scores.size:
        raise ValueError(f"labels must be one for each of the {scores.size} scores, got {which.size}")
    if strange := [name for name in names if name not in group_plan.by_label]:
        count = int(np.isin(which, [names.index(name) for name in strange]).sum())
        raise ValueError(
            f"labels must be groups of the plan, got {listed(strange)} in {count} of {scores.size} rows: "
            "correct these, or leave them out"
        )
    return {name: scores[which == i] for i, name in enumerate(names)}


def _private(
    group_plan: GroupPlan,
    parts: dict[str, Scores],
    *,
    site: str,
    ledger: Ledger | None,
    dataset: str | None,
) -> dict[str, Report]:
    """The bins of all groups from one charge, and so one stored answer."""
    book, name = site_room.account(ledger, dataset)
    plans = {label: group_plan.by_label[label] for label in group_plan.to_answer if label in parts}
    if not plans:
        raise ValueError(
            "no group of this site has a finite threshold: answering would spend epsilon for nothing"
        )
    for label, plan in plans.items():
        try:
            plan.ranks_for(parts[label].size, site=site)  # refuses a wrong size or site before it is charged
        except ValueError as error:
            raise ValueError(f"group {listed([label])}: {error}") from None
    draws = {label: prepared(plan, parts[label]) for label, plan in plans.items()}
    text = book.answer(
        name,
        plan_digest=group_plan.digest,
        site=site,
        epsilon=group_plan.cost(plans),
        data_fingerprint=fingerprint(np.concatenate(list(parts.values()))),
        sample=lambda: json.dumps({label: draw() for label, draw in draws.items()}),
    )
    bins = json.loads(text)
    if bins.keys() != plans.keys():
        raise ValueError(f"the ledger's answer to this plan is for other groups: {listed(sorted(bins))}")
    return {
        label: site_room.private_report(plan, parts[label].size, bins[label], site=site)
        for label, plan in plans.items()
    }
