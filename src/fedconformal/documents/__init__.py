"""Plan, Report, Calibration and Check: plain, immutable data that pass between people
and machines.
"""

from typing import Any

from fedconformal.documents._base import (
    Document,
    DocumentError,
    Part,
    SizeLimit,
    first_problem,
)
from fedconformal.documents._calibration import (
    Calibration,
    CalibrationPart,
    CalibrationView,
    CheckQuestion,
    Received,
    Refusal,
)
from fedconformal.documents._design import (
    Advice,
    Design,
    Level,
    PerSite,
    SiteKind,
    merge_kinds,
    total_sites,
)
from fedconformal.documents._fields import (
    LARGEST_EPSILON,
    LARGEST_N,
    MOST_BEARERS,
    MOST_CHECKED,
    MOST_CLASSES,
    MOST_COLUMNS,
    MOST_LEVELS,
    MOST_NUMBERS,
    MOST_PARTS,
    MOST_SITES,
    MOST_STARTS,
    MOST_VOTES,
    SMALLEST_EPSILON,
    Label,
    SiteName,
    UnknownGroupWarning,
    check_site_name,
    label_text,
    period_text,
    ratio_text,
    read_period,
    unique_labels,
)
from fedconformal.documents._grouping import (
    GROUPED_BY,
    GroupBy,
    Grouping,
    pair_label,
)
from fedconformal.documents._messages import (
    Bin,
    BinLevel,
    BinPayload,
    Cases,
    CasesPayload,
    Curve,
    CurvePayload,
    Gridded,
    MaskedPayload,
    MessageData,
    Payload,
    RankLevel,
    RankRule,
    Ranks,
    RanksPayload,
    Sent,
    message_kinds,
    payload_class,
    register_message,
    unregister_message,
    variants,
)
from fedconformal.documents._plan import Plan, SiteKey
from fedconformal.documents._report import (
    Check,
    CheckedGroup,
    Report,
    ReportPart,
    group_name,
    signed_text,
)
from fedconformal.documents._score_rule import ScoreRule
from fedconformal.documents._signing import (
    SigningKey,
    check_public_key,
    is_signature,
    is_signed_by,
)
from fedconformal.documents._terms import Facts, Terms, expiry_text, random_round
from fedconformal.documents._thresholds import GroupThresholds, Thresholds
from fedconformal.documents._views import PlanView

_KINDS: dict[str, type[Document]] = {
    kind.kind: kind for kind in (Plan, Report, Calibration, Check)
}


def kinds() -> tuple[str, ...]:
    """Return the kinds of document.

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
    """Return the JSON Schema of a document.

    Parameters
    ----------
    kind : str
        ``"plan"``, ``"report"``, ``"calibration"`` or ``"check"``.

    Returns
    -------
    dict
        A schema in the 2020-12 dialect; fields that are not required have their default
        if left out.

    Examples
    --------
    >>> from fedconformal.documents import schema
    >>> schema("plan")["title"]
    'Plan'
    """
    if kind not in _KINDS:
        raise ValueError(
            f"kind must be one of {', '.join(map(repr, _KINDS))}, got {kind!r}"
        )
    content = _KINDS[kind].model_json_schema(mode="validation")
    definitions = content.get("$defs", {})
    for place, (part, field) in enumerate(
        (("Design", "message"), ("ReportPart", "payload"))
    ):
        if part in definitions:
            known = variants(place)
            choices = [
                {"$ref": f"#/$defs/{variant.__name__}"} for variant in known.values()
            ]
            definitions[part]["properties"][field] = {"oneOf": choices}
            for name, variant in known.items():
                own = variant.model_json_schema(mode="validation")
                definitions.update(own.pop("$defs", {}))
                own["properties"] = {"kind": {"const": name}, **own["properties"]}
                own["required"] = ["kind", *own.get("required", [])]
                definitions[variant.__name__] = own
    content["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    content["properties"]["digest"] = {
        "type": "string",
        "pattern": "^sha256:[0-9a-f]{64}$",
    }
    content["required"] = sorted(
        {*content.get("required", []), "format", "version", "digest"}
    )
    return content
