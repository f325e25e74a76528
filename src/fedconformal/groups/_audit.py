"""An auditor's job for groups: every group's claim recounted, and the messages behind it."""

from collections.abc import Sequence
from dataclasses import replace

from fedconformal import audit, server
from fedconformal.audit import Check
from fedconformal.documents import GroupCalibration, GroupReport
from fedconformal.documents._labels import listed


def verify(calibration: GroupCalibration, reports: Sequence[GroupReport] | None = None) -> list[Check]:
    """Check every group as `fedconformal.audit.verify` does, and that the messages are those that counted.

    With the sites' messages at hand, their digests and signatures are checked, and every threshold is
    recomputed from the reports in them.
    """
    checks, counted = ([], None) if reports is None else _messages(calibration, reports)
    for label, found in calibration.by_label.items():
        inside = (
            None if counted is None else [sent.by_label[label] for sent in counted if label in sent.by_label]
        )
        checks += [
            replace(check, name=f"{listed([label])}: {check.name}") for check in audit.verify(found, inside)
        ]
    for part in calibration.uncalibrated:
        fewest = calibration.plan.by_label[part.label].fewest_answers
        checks.append(
            Check(
                f"{listed([part.label])}: too few answers, so the whole space",
                f"{len(part.answered)} answered, {fewest} needed",
                len(part.answered) < fewest,
            )
        )
    return checks


def _messages(
    calibration: GroupCalibration, reports: Sequence[GroupReport]
) -> tuple[list[Check], list[GroupReport]]:
    """Whether the messages are those that were calibrated, whole, from these sites, for this plan, signed."""
    by_digest = {sent.digest: sent for sent in reports}
    there = [(answer, by_digest.get(answer.report)) for answer in calibration.answers]
    found = [(answer, sent) for answer, sent in there if sent is not None]
    plan, keys = calibration.plan, server.public_keys(calibration.plan)
    fitting = [sent for answer, sent in found if (sent.site, sent.plan) == (answer.site, plan.digest)]
    refused = calibration.refused_in
    accounted = {
        label: {*names, *(refusal.source for refusal in refused[label])}
        for label, names in calibration.answered.items()
    }
    dropped = [
        f"{sent.site} in {listed([label])}"
        for sent in fitting
        for label in sent.by_label
        if sent.site not in accounted.get(label, ())
    ]
    checks = [
        Check(
            "the messages are those that counted", f"{len(found)} of {len(there)}", len(found) == len(there)
        ),
        Check(
            "every message is of its site and for this plan",
            f"{len(fitting)} of {len(found)}",
            len(fitting) == len(found),
        ),
        Check(
            "every number in them was counted or refused",
            f"not {', '.join(dropped[:5])}" if dropped else "all of them",
            not dropped,
        ),
    ]
    if keys:
        signed = [s for s in fitting if s.site in keys and server.signature_problem(keys, s) is None]
        checks.append(
            Check(
                "every message is signed with its site's key",
                f"{len(signed)} of {len(found)}",
                len(signed) == len(found),
            )
        )
    return checks, [sent for _, sent in found]
