"""The rules that all sites follow, as a plan holds them: score, keys, round, model, expiry, privacy."""

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from fedconformal import scores
from fedconformal.documents import (
    Plan,
    PlanPart,
    PrivacyRule,
    ScoreRule,
    SiteKey,
    expiry_text,
    first_problem,
    random_round,
)
from fedconformal.privacy import Privacy

T = TypeVar("T")


def score_rule(score: Any) -> ScoreRule | None:
    """The score with all its parameters, so that no site depends on its own version's defaults."""
    if score is None:
        return None
    if isinstance(score, scores.Score):
        made = score
    elif isinstance(score, (str, Mapping)):
        fields = {"name": score} if isinstance(score, str) else dict(score)
        made = scores.from_name(fields.pop("name", None), **fields)
    else:
        raise TypeError(
            f"score must be a name, a mapping with a name, or a Score, got {score!r}"
            f"{scores.what_lacks(score)}"
        )
    return checked("score", lambda: ScoreRule(name=made.name, parameters=made.parameters()))


def check_classes(by: tuple[str, ...] | None, classes: Any, rule: ScoreRule | None) -> None:
    """Refuse classes where the score is of numbers."""
    if rule is None or (classes is None and "class" not in (by or ())):
        return
    made = scores.from_name(rule.name, **rule.parameters)
    if not isinstance(made, scores.LabelScore):
        able = ", ".join(scores.names_of(scores.LabelScore))
        raise ValueError(f"score must be one of classes ({able}) where there are classes, got {rule.name!r}")


def site_keys(keys: Mapping[str, str] | None, parts: list[PlanPart]) -> tuple[SiteKey, ...] | None:
    """The public key of each named site; with groups, of the sites of all groups together."""
    if keys is None:
        return None
    named = [part.site_names for part in parts]
    names = None if None in named else named[0]
    if names is not None and parts[0].label is not None:
        names = tuple(sorted({name for each in named for name in each or ()}))
    if names is None or set(keys) != set(names):
        raise ValueError("keys must hold one public key for each named site, and no other")
    return checked("keys", lambda: tuple(SiteKey(site=name, public_key=keys[name]) for name in names))


def round_id(given: str | None, *, is_needed: bool, parts: list[PlanPart]) -> str | None:
    """The id of the round: one that nobody chose where it decides which cases are drawn."""
    drawn = any(part.cases is not None for part in parts)
    if drawn and given is not None:
        raise ValueError(
            f"round must be left out where sites draw cases: it is drawn at random, got {given!r}"
        )
    return random_round() if drawn or (given is None and is_needed) else given


def expiry(expires: Any) -> str | None:
    """The moment after which nobody honours the plan, in the words of plans."""
    if not isinstance(expires, datetime):
        return None if expires is None else str(expires)
    if expires.tzinfo is None:
        raise ValueError(f"expires must have a time zone, got {expires!r}")
    return expiry_text(expires)


def privacy_rule(privacy: Any) -> PrivacyRule | None:
    """How reports are made private, as the plan will hold it."""
    if privacy is None:
        return None
    if not isinstance(privacy, Privacy):
        raise TypeError(f"privacy must be a Privacy, got {privacy!r}")
    return checked("privacy", lambda: PrivacyRule(**privacy.fields()))


def checked(name: str, make: Callable[[], T]) -> T:
    """A document or a part of it from an argument, or one line that names the argument."""
    try:
        return make()
    except ValidationError as error:
        raise ValueError(f"{name}: {first_problem(error).removeprefix('content: ')}") from None


# -- the model ---------------------------------------------------------------------------------------------

Model = str | os.PathLike[str]
"""The digest of a model, ``sha256:...``, or the path of its file."""

_DIGEST = re.compile("sha256:[0-9a-f]{64}")


def model_digest(model: Model) -> str:
    """The digest by which plans name a model.

    Parameters
    ----------
    model : str or path-like
        The path of the model's file; or a digest, which is taken as it is.

    Returns
    -------
    str
        SHA-256 of the file's bytes.

    Raises
    ------
    ValueError
        If the file cannot be read.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from fedconformal.protocol import model_digest
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model.bin"
    ...     _ = path.write_bytes(b"weights")
    ...     print(model_digest(path)[:14])
    sha256:9a12903
    """
    if isinstance(model, str) and _DIGEST.fullmatch(model):
        return model
    try:
        with Path(model).open("rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    except OSError as error:
        raise ValueError(f"{model}: {error.strerror or error}") from None


def check_model(plan: Plan, model: Model | None) -> None:
    """Refuse scores of another model than the plan's; a plan that names none cannot be compared."""
    if model is None:
        return
    if plan.model is None:
        raise ValueError("model cannot be compared: this plan does not say which model it is for")
    found = model_digest(model)
    if found != plan.model:
        raise ValueError(f"this plan is for another model, {plan.model[:19]}..., than {found[:19]}...")
