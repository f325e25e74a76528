"""Plan, Report, Calibration and Check: what passes between people and machines."""

from typing import Any

from fedconformal.documents._base import (
    Document,
    DocumentError,
    SiteName,
    check_site_name,
    first_problem,
)
from fedconformal.documents._calibration import Calibration
from fedconformal.documents._calibration_parts import (
    Aggregate,
    Answer,
    CalibrationPart,
    Received,
    Refusal,
    Threshold,
)
from fedconformal.documents._ceilings import (
    LARGEST_N,
    MOST_CHECKED,
    MOST_COLUMNS,
    MOST_LEVELS,
    MOST_SITES,
    Ceiling,
    check_work,
)
from fedconformal.documents._check import Check, CheckedGroup, group_name
from fedconformal.documents._grouping import KINDS as GROUPED_BY
from fedconformal.documents._grouping import Grouping, pair_label
from fedconformal.documents._grouping import Made as MadeOf
from fedconformal.documents._names import Label, UnknownGroupWarning, label_text, unique_labels
from fedconformal.documents._plan import Plan
from fedconformal.documents._plan_parts import (
    Advice,
    Level,
    PlanBlock,
    PlanPart,
    PrivacyRule,
    ScoreRule,
    SiteKey,
    fraction_text,
)
from fedconformal.documents._report import Report, ReportPart, Sent, signed_text
from fedconformal.documents._sets import (
    class_places,
    everything_sentences,
    labels_in,
    prediction_sets,
    score_of,
)
from fedconformal.documents._signing import (
    PublicKey,
    SigningKey,
    check_public_key,
    is_signature,
    is_signed_by,
)
from fedconformal.documents._terms import Facts, expiry_text, random_round
from fedconformal.documents._views import PerSite, one_or_all, weights_of

__all__ = [
    "GROUPED_BY",
    "LARGEST_N",
    "MOST_CHECKED",
    "MOST_COLUMNS",
    "MOST_LEVELS",
    "MOST_SITES",
    "Advice",
    "Aggregate",
    "Answer",
    "Calibration",
    "CalibrationPart",
    "Ceiling",
    "Check",
    "CheckedGroup",
    "Document",
    "DocumentError",
    "Facts",
    "Grouping",
    "Label",
    "Level",
    "MadeOf",
    "PerSite",
    "Plan",
    "PlanBlock",
    "PlanPart",
    "PrivacyRule",
    "PublicKey",
    "Received",
    "Refusal",
    "Report",
    "ReportPart",
    "ScoreRule",
    "Sent",
    "SigningKey",
    "SiteKey",
    "SiteName",
    "Threshold",
    "UnknownGroupWarning",
    "check_public_key",
    "check_site_name",
    "check_work",
    "class_places",
    "everything_sentences",
    "expiry_text",
    "first_problem",
    "fraction_text",
    "group_name",
    "is_signature",
    "is_signed_by",
    "kinds",
    "label_text",
    "labels_in",
    "one_or_all",
    "pair_label",
    "prediction_sets",
    "random_round",
    "schema",
    "score_of",
    "signed_text",
    "unique_labels",
    "weights_of",
]

_KINDS: dict[str, type[Document]] = {kind.kind: kind for kind in (Plan, Report, Calibration, Check)}


def kinds() -> tuple[str, ...]:
    """The kinds of document that there are.

    Returns
    -------
    tuple of str
        For `schema`.

    Examples
    --------
    >>> from fedconformal.documents import kinds
    >>> kinds()[:3]
    ('plan', 'report', 'calibration')
    """
    return tuple(_KINDS)


def schema(kind: str) -> dict[str, Any]:
    """JSON Schema of a document.

    Parameters
    ----------
    kind : str
        ``"plan"``, ``"report"``, ``"calibration"`` or ``"check"``.

    Returns
    -------
    dict
        A schema in the 2020-12 dialect; fields that are not required have their default if left out.

    Examples
    --------
    >>> from fedconformal.documents import schema
    >>> schema("plan")["title"]
    'Plan'
    """
    if kind not in _KINDS:
        raise ValueError(f"kind must be one of {', '.join(map(repr, _KINDS))}, got {kind!r}")
    content = _KINDS[kind].model_json_schema(mode="validation")
    content["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    content["properties"]["digest"] = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
    content["required"] = sorted({*content.get("required", []), "format", "version", "digest"})
    return content
