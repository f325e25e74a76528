"""What is asked of a plan or a calibration: that it has no groups, and one of its levels."""

from fedconformal._text import quoted
from fedconformal._validation import fraction
from fedconformal.documents import Calibration, Plan


def plan_of(document: Plan | Calibration) -> Plan:
    """The plan itself, or the one that a calibration answers."""
    return document.plan if isinstance(document, Calibration) else document


def refuse_groups(document: Plan | Calibration) -> None:
    """Refuse a document with groups in one line that names them."""
    labels = plan_of(document).labels
    if labels:
        raise ValueError(
            f"this {document.kind} has groups, {quoted(labels)}: ask about one of them, "
            f"as in {document.kind}[{labels[0]!r}]"
        )


def level_index(document: Plan | Calibration, confidence_level: float | None) -> int:
    """The place of a confidence level in a document; the first by default."""
    if confidence_level is None:
        return 0
    levels = plan_of(document).confidence_levels
    wanted = fraction("confidence_level", confidence_level)
    for i, level in enumerate(levels):
        if fraction("confidence_level", level) == wanted:
            return i
    raise ValueError(
        f"confidence_level must be one of the {document.kind}'s, {', '.join(map(str, levels))}, "
        f"got {confidence_level}"
    )
