"""Plan, Report, Calibration and Check: plain, immutable data that pass between people and machines."""

from typing import Any

from fedconformal.documents._base import (
    Document,
    DocumentError,
    Many,
    Part,
    Ratio,
    Share,
    SiteName,
    check_site_name,
    first_problem,
    ratio_text,
)
from fedconformal.documents._calibration import (
    Calibration,
    CalibrationPart,
    CalibrationView,
    Received,
    Refusal,
)
from fedconformal.documents._check import Check, CheckedGroup, group_name
from fedconformal.documents._design import Advice, Design, Level, SiteKind, merge_kinds, total_sites
from fedconformal.documents._grouping import KINDS as GROUPED_BY
from fedconformal.documents._grouping import GroupBy, Grouping, pair_label
from fedconformal.documents._limits import (
    LARGEST_EPSILON,
    LARGEST_N,
    MOST_CHECKED,
    MOST_CLASSES,
    MOST_COLUMNS,
    MOST_LEVELS,
    MOST_NUMBERS,
    MOST_SITES,
    MOST_VOTES,
    SMALLEST_EPSILON,
    SizeLimit,
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
    MessageData,
    Payload,
    RankLevel,
    RankRule,
    Ranks,
    RanksPayload,
    Sent,
    message_kinds,
    register_message,
    unregister_message,
)
from fedconformal.documents._names import Label, UnknownGroupWarning, label_text, unique_labels
from fedconformal.documents._plan import Plan, PlanView, ScoreRule, SiteKey
from fedconformal.documents._report import Report, ReportPart, signed_text
from fedconformal.documents._signing import (
    PublicKey,
    SigningKey,
    check_public_key,
    is_signature,
    is_signed_by,
)
from fedconformal.documents._sites import PerSite
from fedconformal.documents._terms import Facts, Terms, expiry_text, random_round

_KINDS: dict[str, type[Document]] = {kind.kind: kind for kind in (Plan, Report, Calibration, Check)}


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
    for place, (part, field) in enumerate((("Design", "message"), ("ReportPart", "payload"))):
        if part in content.get("$defs", {}):
            variants = [_variant_schema(name, pair[place]) for name, pair in message_kinds().items()]
            content["$defs"].update({name: each for variant in variants for name, each in variant.items()})
            choices = [{"$ref": f"#/$defs/{pair[place].__name__}"} for pair in message_kinds().values()]
            content["$defs"][part]["properties"][field] = {"oneOf": choices}
    content["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    content["properties"]["digest"] = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
    content["required"] = sorted({*content.get("required", []), "format", "version", "digest"})
    return content


def _variant_schema(kind: str, variant: type[Part]) -> dict[str, Any]:
    """Return the schemas of one kind of message or payload and of its parts, by name."""
    content = variant.model_json_schema(mode="validation")
    parts: dict[str, Any] = content.pop("$defs", {})
    content["properties"] = {"kind": {"const": kind}, **content["properties"]}
    content["required"] = ["kind", *content.get("required", [])]
    return {**parts, variant.__name__: content}
