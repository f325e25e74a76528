"""Plan, Report, Calibration and Check: what passes between people and machines; envelopes for groups."""

from typing import Any

from fedconformal.documents._base import MAX_BYTES, Document, DocumentError
from fedconformal.documents._calibration import Aggregate, Answer, Calibration, Refusal, Threshold
from fedconformal.documents._check import Check
from fedconformal.documents._groups import (
    GroupAnswer,
    GroupCalibration,
    GroupPlan,
    GroupReport,
    Label,
    LabelledCalibration,
    LabelledPlan,
    LabelledReport,
    Uncalibrated,
)
from fedconformal.documents._plan import Advice, Group, Level, Plan, PrivacyRule, ScoreRule, SiteKey
from fedconformal.documents._report import Report
from fedconformal.documents._views import PerSite

__all__ = [
    "MAX_BYTES",
    "Advice",
    "Aggregate",
    "Answer",
    "Calibration",
    "Check",
    "Document",
    "DocumentError",
    "Group",
    "GroupAnswer",
    "GroupCalibration",
    "GroupPlan",
    "GroupReport",
    "Label",
    "LabelledCalibration",
    "LabelledPlan",
    "LabelledReport",
    "Level",
    "PerSite",
    "Plan",
    "PrivacyRule",
    "Refusal",
    "Report",
    "ScoreRule",
    "SiteKey",
    "Threshold",
    "Uncalibrated",
    "schema",
]

_KINDS: dict[str, type[Document]] = {
    kind.kind: kind for kind in (Plan, Report, Calibration, Check, GroupPlan, GroupReport, GroupCalibration)
}


def schema(kind: str) -> dict[str, Any]:
    """JSON Schema of a document, by its kind: ``"plan"``, ``"group-plan"``, ``"report"`` and so on."""
    if kind not in _KINDS:
        raise ValueError(f"kind must be one of {', '.join(map(repr, _KINDS))}, got {kind!r}")
    content = _KINDS[kind].model_json_schema(mode="serialization")
    content["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    content["properties"]["digest"] = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
    content["required"] = [*content.get("required", []), "digest"]
    return content
