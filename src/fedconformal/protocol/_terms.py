"""Score, keys, round, model, expiry and facts, as a plan holds them."""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fedconformal import scores
from fedconformal.documents import (
    Cases,
    Design,
    Facts,
    Plan,
    ScoreRule,
    SiteKey,
    expiry_text,
    first_problem,
    random_round,
)
from fedconformal.privacy import Bins, Privacy


def read_score(score: Any) -> ScoreRule | None:
    """Return the score with all its parameters, so that no site depends on its own version's defaults."""
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
            f"{scores.explain_no_score(score)}"
        )
    with validation_errors("score"):
        return ScoreRule(name=made.name, parameters=made.parameters())


def check_classes(by: tuple[str, ...] | None, classes: Any, rule: ScoreRule | None) -> None:
    """Refuse classes where the score is of numbers."""
    if rule is None or (classes is None and "class" not in (by or ())):
        return
    made = scores.from_name(rule.name, **rule.parameters)
    if not isinstance(made, scores.LabelScore):
        able = ", ".join(scores.list_scores(scores.LabelScore))
        raise ValueError(f"score must be one of classes ({able}) where there are classes, got {rule.name!r}")


def bounded_bins(privacy: Privacy, rule: ScoreRule | None, classes: Sequence[str] | None, cells: int) -> Bins:
    """Return bins over the range of a bounded score."""
    made = None if rule is None else scores.from_name(rule.name, **rule.parameters)
    largest = None if made is None else made.largest
    if isinstance(made, scores.LabelScore) and classes is not None:
        largest = made.largest_among(len(classes))
    if largest is None:
        what = "the plan names no bounded score" if rule is None else f"score {rule.name!r} is unbounded"
        hint = ", unless the plan names the classes" if isinstance(made, scores.LabelScore) else ""
        raise ValueError(
            f"privacy needs bins, as {what}{hint}: use Privacy({privacy.epsilon:g}, "
            f"Bins.from_reference(public_scores)) or Privacy({privacy.epsilon:g}, Bins.uniform(0, 5, 100)); "
            "on the command line --bins from:FILE or --bins uniform:0:5:100"
        )
    return Bins.uniform(0, largest, cells, bounded=True)


def site_keys(keys: Mapping[str, str] | None, designs: Sequence[Design]) -> tuple[SiteKey, ...] | None:
    """Return the public key of each named site; with groups, of the sites of all groups together."""
    if keys is None:
        return None
    named = [design.site_names for design in designs]
    names = None if None in named else named[0]
    if names is not None and designs[0].group is not None:
        names = tuple(sorted({name for each in named for name in each or ()}))
    if names is None or set(keys) != set(names):
        raise ValueError("keys must hold one public key for each named site, and no other")
    with validation_errors("keys"):
        return tuple(SiteKey(site=name, public_key=keys[name]) for name in names)


def read_terms(terms: Any) -> tuple[dict[str, Any], Any]:
    """Return the fields of a plan's terms, and the names of the classes."""
    if terms is None:
        return {}, None
    if not isinstance(terms, Mapping):
        raise TypeError(f"terms must be a mapping, got {terms!r}")
    given = dict(terms)
    classes, model, expires = (given.pop(name, None) for name in ("classes", "model", "expires"))
    fields: dict[str, Any] = {"round": given.pop("round", None)}
    fields["model"] = None if model is None else model_digest(model)
    fields["expires"] = _expiry(expires)
    facts = {name: text for name, text in given.items() if text is not None}
    with validation_errors("terms"):
        fields["facts"] = Facts().with_more(facts) if facts else None
    return {name: value for name, value in fields.items() if value is not None}, classes


def round_id(given: str | None, is_needed: bool, designs: Sequence[Design]) -> str | None:
    """Return the id of the round: one that nobody chose where it decides which cases are drawn."""
    drawn = any(isinstance(design.message, Cases) for design in designs)
    if drawn and given is not None:
        raise ValueError(
            f"round must be left out where sites draw cases: it is drawn at random, got {given!r}"
        )
    return random_round() if drawn or (given is None and is_needed) else given


def _expiry(expires: Any) -> str | None:
    if not isinstance(expires, datetime):
        return None if expires is None else str(expires)
    if expires.tzinfo is None:
        raise ValueError(f"expires must have a time zone, got {expires!r}")
    return expiry_text(expires)


@contextmanager
def validation_errors(name: str) -> Iterator[None]:
    """Turn a validation error of a document into one line that names the argument."""
    try:
        yield
    except ValidationError as error:
        raise ValueError(f"{name}: {first_problem(error).removeprefix('content: ')}") from None


# -- the model ---------------------------------------------------------------------------------------------

Model = str | os.PathLike[str]
"""The digest of a model, ``sha256:...``, or the path of its file."""

_DIGEST = re.compile("sha256:[0-9a-f]{64}")


def model_digest(model: Model) -> str:
    """Return the digest by which plans name a model.

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


def check_model(plan: Plan, model: Model) -> None:
    """Refuse scores of another model than the plan's."""
    if plan.terms.model is None:
        raise ValueError("model was given, but the plan names none to compare it with")
    found = model_digest(model)
    if found != plan.terms.model:
        raise ValueError(f"this plan is for another model, {plan.terms.model[:19]}..., than {found[:19]}...")
