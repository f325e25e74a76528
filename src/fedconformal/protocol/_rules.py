"""The rules that all sites follow, as a plan holds them: score, keys, round, expiry, privacy."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from pydantic import ValidationError

from fedconformal import scores
from fedconformal.documents import (
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


def site_keys(keys: Mapping[str, str] | None, names: tuple[str, ...] | None) -> tuple[SiteKey, ...] | None:
    """The public key of each named site."""
    if keys is None:
        return None
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
