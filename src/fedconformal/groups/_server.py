"""The server's whole job for groups: messages in, one threshold for each group out."""

from collections.abc import Iterable
from typing import Literal

from fedconformal import _checks, server
from fedconformal.documents import (
    GroupAnswer,
    GroupCalibration,
    GroupPlan,
    GroupReport,
    LabelledCalibration,
    Refusal,
    Report,
    Uncalibrated,
)
from fedconformal.documents._labels import listed
from fedconformal.server import RefusedReportsError


def calibrate(
    group_plan: GroupPlan,
    reports: Iterable[GroupReport],
    *,
    on_refused: Literal["raise", "skip"] = "raise",
    unreadable: Iterable[Refusal] = (),
) -> GroupCalibration:
    """Turn the sites' messages into a threshold with its law for every group.

    Every message is checked as a whole (plan, site, signature, no second one of a site), then every report
    in it as `fedconformal.calibrate` checks it, and each group is calibrated by itself.

    Parameters
    ----------
    group_plan : the plan that was answered.
    reports : one message per site.
    on_refused : ``"raise"`` a RefusedReportsError that names all that was refused, or ``"skip"`` it: a
        message or a report on one group then counts as missing, and the calibration says so.
    unreadable : refusals from before, of messages that could not even be read.
    """
    _checks.choice("on_refused", on_refused, ("raise", "skip"))
    keys = server.public_keys(group_plan)
    accepted, refused = server.one_per_site(reports, lambda sent: _reason_to_refuse(group_plan, keys, sent))
    refused = [*unreadable, *refused]
    sorted_out = {
        label: server.sort_out(plan, [sent.by_label[label] for sent in accepted if label in sent.by_label])
        for label, plan in group_plan.by_label.items()
    }
    if on_refused == "raise" and (everything := refused + _by_group(sorted_out)):
        raise RefusedReportsError(everything)
    if not accepted:
        raise ValueError("0 sites answered: at least 1 is needed")
    calibrations, uncalibrated = [], []
    for label, (counted, not_counted) in sorted_out.items():
        plan = group_plan.by_label[label]
        if len(counted) >= plan.fewest_answers:
            found = server.calibrate(plan, counted, on_refused="skip", unreadable=not_counted)
            calibrations.append(LabelledCalibration(label=label, calibration=found))
            continue
        missing, n_missing = server.missing_sites(plan, counted)
        uncalibrated.append(
            Uncalibrated(
                label=label,
                answered=tuple(report.site for report in counted),
                missing=missing,
                n_missing=n_missing,
                refused=tuple(not_counted),
            )
        )
    return GroupCalibration(
        plan=group_plan,
        calibrations=tuple(calibrations),
        uncalibrated=tuple(uncalibrated),
        answers=tuple(GroupAnswer(site=sent.site, report=sent.digest) for sent in accepted),
        refused=tuple(refused),
        authenticated=bool(keys),
        assumptions=_assumptions(group_plan),
    )


def _reason_to_refuse(group_plan: GroupPlan, keys: dict[str, str], sent: GroupReport) -> str | None:
    """Why a message does not count as a whole, if it does not."""
    if sent.plan != group_plan.digest:
        return server.another_plan(group_plan, sent)
    if strange := [label for label in sent.by_label if label not in group_plan.by_label]:
        return f"a number for {listed(strange)}, which is no group of the plan"
    names = group_plan.site_names
    if names is not None and sent.site not in names:
        return f"site must be one of the {len(names)} sites of the plan, got {sent.site!r}"
    return server.signature_problem(keys, sent) if keys else None


def _by_group(sorted_out: dict[str, tuple[list[Report], list[Refusal]]]) -> list[Refusal]:
    """The refusals of single groups, with the group in the source."""
    return [
        Refusal(source=f"{refusal.source}, group {listed([label])}", reason=refusal.reason)
        for label, (_, refused) in sorted_out.items()
        for refusal in refused
    ]


def _assumptions(group_plan: GroupPlan) -> tuple[str, ...]:
    """What the guarantee rests on, in plain words."""
    says = [
        "In each group by itself, given the model and all labels, the calibration scores of all sites and "
        "the score of a new point are independent and identically distributed; groups may differ in any way, "
        "and sites in how many points of each they have. The model was not trained on the calibration data.",
        "New points get their labels in the same way as calibration points, before their truth is known.",
        "Whether a site answers for a group does not depend on its scores.",
        "With ties among scores the coverage can only be larger than stated.",
    ]
    faulty = max(plan.max_faulty for plan in group_plan.by_label.values())
    if faulty:
        says.append(
            f"In each group at most as many reports as its plan allows (up to {faulty}) are wrong, in "
            "whatever way; which sites these are does not depend on the scores of the others."
        )
    else:
        says.append("Every report was made as the plan says.")
    if group_plan.epsilon is not None:
        says.append(
            f"Each site's message is {float(group_plan.epsilon):g}-differentially private, even for somebody "
            "with one record in every group, if the site kept its ledger; how many points of each group a "
            "site has is public."
        )
    says.append(
        "Every message was signed as a whole with its site's key; the calibrations of single groups inside "
        "do not say so, because no number is signed by itself."
        if group_plan.keys is not None
        else "The messages were not authenticated: whoever could deliver a file could pose as a site."
    )
    return tuple(says)
