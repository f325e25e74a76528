"""Which of a document's confidence levels is meant."""

from fedconformal._validation import fraction
from fedconformal.documents import Calibration, Plan


def level_index(document: Plan | Calibration, confidence_level: float | None) -> int:
    """The place of a confidence level in a document; the first by default."""
    if confidence_level is None:
        return 0
    levels = [level.confidence_level for level in document.levels]
    wanted = fraction("confidence_level", confidence_level)
    for i, level in enumerate(levels):
        if fraction("confidence_level", level) == wanted:
            return i
    allowed = ", ".join(map(str, levels))
    raise ValueError(
        f"confidence_level must be one of the {document.kind}'s, {allowed}, got {confidence_level}"
    )
