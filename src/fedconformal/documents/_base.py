"""Base of all documents: strict content, one canonical form, a digest, a reader that trusts nothing."""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, NoReturn, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    PlainSerializer,
    PlainValidator,
    SerializerFunctionWrapHandler,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    model_serializer,
)

from fedconformal._extras import call_higher
from fedconformal._text import one_line
from fedconformal.documents._limits import LONGEST_REASON, MOST_FIELDS, SizeLimit
from fedconformal.documents._names import proper_form

_NOT_OURS = frozenset(name for name in dir(BaseModel) if not name.startswith("_"))
_DOCUMENT = re.compile(r"fedconformal/(plan|report|calibration|check)")
_TABLES = (b"PAR1", b"PK\x03\x04", b"\x93NUMPY")  # how Parquet, Excel and .npy begin


class DocumentError(ValueError):
    """A document that cannot be accepted, and why, in one line."""


def _read_extended(value: Any) -> Any:
    if value == "Infinity" and isinstance(value, str):
        return math.inf
    if isinstance(value, float) and value == math.inf:
        return value
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError('must be a finite number or the word "Infinity"')
    try:
        return float(value) + 0.0  # there is one zero
    except OverflowError:
        raise ValueError("must be a number that fits into a float64") from None


Extended = Annotated[
    float,
    Field(allow_inf_nan=True),
    BeforeValidator(_read_extended),
    PlainSerializer(lambda value: "Infinity" if value == math.inf else value, when_used="json"),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"const": "Infinity"}]}),
]
"""A float64 that may be +inf, which JSON spells as the word "Infinity"; never NaN, never -inf."""


_RATIO = r"^(0|[1-9][0-9]{0,39})(\.[0-9]{1,320}|/[1-9][0-9]{0,39})?$"


def ratio_text(value: Fraction) -> str:
    """Write an exact number: as a decimal where it has one, else as numerator and denominator.

    Parameters
    ----------
    value : Fraction
        A number of at least 0.

    Returns
    -------
    str
        The one way in which documents write it.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedconformal.documents import ratio_text
    >>> ratio_text(Fraction(9, 10)), ratio_text(Fraction(1, 3))
    ('0.9', '1/3')
    """
    rest, twos, fives = value.denominator, 0, 0
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    digits = max(twos, fives)
    if rest > 1 or digits > 320:
        return f"{value.numerator}/{value.denominator}"
    whole, part = divmod(value.numerator * 10**digits // value.denominator, 10**digits)
    return f"{whole}.{part:0{digits}}" if digits else str(whole)


def _read_ratio(value: Any) -> Fraction:
    if isinstance(value, Fraction):
        exact = value
    elif isinstance(value, str) and re.fullmatch(_RATIO, value):
        exact = Fraction(value)
    else:
        raise ValueError('must be an exact number such as "0.9" or "1/3"')
    text = ratio_text(abs(exact))
    if exact < 0 or (isinstance(value, str) and text != value):
        raise ValueError(f"must be at least 0, written as {text!r}")
    if not re.fullmatch(_RATIO, text):
        raise ValueError("must have at most 40 digits above and below the line, or 320 decimals")
    return exact


Ratio = Annotated[
    Fraction,
    PlainValidator(_read_ratio),
    PlainSerializer(ratio_text, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": _RATIO}),
]
"""An exact number, which JSON writes as a decimal or a fraction in text."""


def _share(value: Fraction) -> Fraction:
    if not 0 < value < 1:
        raise ValueError("must lie between 0 and 1")
    return value


Share = Annotated[Ratio, AfterValidator(_share)]
"""An exact number strictly between 0 and 1."""


class _FirstWrong(FailFast):
    __hash__ = object.__hash__  # so that it may stand in a union


T = TypeVar("T")
Many = Annotated[tuple[T, ...], _FirstWrong()]
"""A list that is refused at its first wrong entry."""


def _proper(name: str) -> str:
    form = proper_form(name)
    if name != form:
        would = f": use {form!r}" if form else ""
        raise ValueError(
            f"a site's name must be visible, in one line, composed (NFC), no spaces around{would}"
        )
    return name


SiteName = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_proper)]
"""Name of a site: visible, on one line, in Unicode's composed form, without spaces around it."""

_SITE_NAME: TypeAdapter[str] = TypeAdapter(SiteName)


def check_site_name(name: Any) -> None:
    """Refuse an invalid name of a site.

    Parameters
    ----------
    name : object
        The candidate.

    Raises
    ------
    ValueError
        In one line.

    Examples
    --------
    >>> from fedconformal.documents import check_site_name
    >>> check_site_name("St. Mary's")
    """
    try:
        _SITE_NAME.validate_python(name, strict=True)
    except ValidationError:
        form = proper_form(name)[:200] if isinstance(name, str) else ""
        raise ValueError(
            f"site must be a name of 1 to 200 visible characters on one line, composed (NFC), got "
            f"{_short(repr(name))}" + (f": use {form!r}" if form else "")
        ) from None


def _clean_sentence(value: Any, info: ValidationInfo) -> Any:
    """Make a sentence printable and short where it is written; where it is read it must be so."""
    return one_line(value, LONGEST_REASON) if info.mode == "python" and isinstance(value, str) else value


def printable(text: str) -> str:
    """Refuse what cannot be shown on one line."""
    if not text.isprintable():
        raise ValueError("must be printable, on one line")
    return text


Sentence = Annotated[
    str,
    StringConstraints(max_length=LONGEST_REASON),
    BeforeValidator(_clean_sentence),
    AfterValidator(printable),
]
"""A sentence about what somebody else sent: printable, on one line, and not long."""

Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]


class Part(BaseModel):
    """Part of a document: immutable, without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with changes, without cached values of the original such as its digest."""
        copy = super().model_copy(update=update, deep=deep)
        for name in copy.__dict__.keys() - type(self).model_fields.keys():
            del copy.__dict__[name]
        return copy


class Document(Part):
    """A Plan, a Report, a Calibration or a Check.

    A field that has its default is not written and not part of the digest. So a later version may add fields,
    if their defaults mean what this version does, and documents of this version keep their digests. A default
    must never change.
    """

    kind: ClassVar[str]
    limit: ClassVar[SizeLimit]
    format: str
    version: int

    def __hash__(self) -> int:
        """Hash the content, which may hold dictionaries."""
        return hash(self.digest)

    @model_serializer(mode="wrap")
    def _named(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write format and version although both have their default."""
        return {"format": self.format, "version": self.version, **handler(self)}

    def _line(self) -> str:
        """Return a one-line description."""
        return self.digest

    def __repr__(self) -> str:
        """Return a short line; ``to_json`` has everything."""
        return f"<{type(self).__name__}: {self._line()}>"

    def __str__(self) -> str:
        """Return the same line."""
        return repr(self)

    def _repr_html_(self) -> str | None:
        """Return the HTML that notebooks show."""
        found: str | None = call_higher("pages.notebook_view", self)
        return found

    def __dir__(self) -> Iterable[str]:
        """List the attributes without those of the library that reads and writes JSON."""
        return sorted(set(super().__dir__()) - _NOT_OURS)

    def content(self) -> dict[str, Any]:
        """Return the content as JSON has it, without fields that have their default."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def canonical(self) -> bytes:
        """Return the content in its one canonical form, of which the digest is taken."""
        return _canonical(self.content())

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical form."""
        return "sha256:" + hashlib.sha256(self.canonical()).hexdigest()

    def to_json(self, *, indent: int | None = 2) -> str:
        """Write the document as JSON, with its digest.

        Parameters
        ----------
        indent : int or None
            Spaces by which nested content is indented; None for one line.

        Returns
        -------
        str
            The text that ``from_json`` reads.
        """
        return json.dumps(
            {**self.content(), "digest": self.digest}, indent=indent, ensure_ascii=False, allow_nan=False
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read a document.

        Parameters
        ----------
        text : str or bytes
            The text that ``to_json`` wrote.

        Returns
        -------
        Document
            The document, whose fields, structure and digest were checked.

        Raises
        ------
        DocumentError
            With the reason in one line.
        """
        fields = _load(cls.kind, text, cls.limit)
        digest = fields.pop("digest", None)
        cls.check_format(fields)
        text = _rewritten(cls.kind, fields)
        try:
            document = cls.model_validate_json(text)
        except ValidationError as error:
            raise DocumentError(f"not a {cls.kind}: {first_problem(error)}") from None
        if digest != document.digest:
            stated = "has no digest" if digest is None else "does not match its digest"
            raise DocumentError(f"this {cls.kind} {stated}: it was changed after it was made, or cut short")
        try:
            document.check()
        except ValueError as error:
            raise DocumentError(f"not a {cls.kind}: {_short(str(error))}") from None
        return document

    def check(self) -> None:
        """Refuse content that does not fit together, whoever wrote it; reading a document calls this.

        Raises
        ------
        ValueError
            With the reason in one line.
        """

    @classmethod
    def check_format(cls, fields: dict[str, Any]) -> None:
        """Refuse another kind of document, or another version.

        Parameters
        ----------
        fields : dict
            The fields of what claims to be this kind of document.

        Raises
        ------
        DocumentError
            If ``format`` or ``version`` is missing or another.
        """
        wanted = {name: cls.model_fields[name].default for name in ("format", "version")}
        for name, value in wanted.items():
            given = fields.get(name)
            if name not in fields:
                raise DocumentError(f"not a {cls.kind}: {name}: is missing")
            if name == "format" and (other := _DOCUMENT.fullmatch(str(given))) and other[1] != cls.kind:
                raise DocumentError(f"this is a {other[1]}, not a {cls.kind}")
            if type(given) is not type(value) or given != value:
                raise DocumentError(f"not a {cls.kind}: {name}: must be {value!r}, got {_short(repr(given))}")

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a document from a file.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        Document
            The document, checked.

        Raises
        ------
        DocumentError
            With the name of the file and the reason in one line.
        """
        try:
            with Path(path).open("rb") as file:
                content = file.read(cls.limit.largest + 1)
        except OSError as error:
            raise DocumentError(f"{path}: {error.strerror or error}") from None
        try:
            return cls.from_json(content)
        except DocumentError as error:
            raise DocumentError(f"{path}: {error}") from None


def _canonical(content: Any) -> bytes:
    return json.dumps(
        content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def _load(kind: str, text: str | bytes, limit: SizeLimit) -> dict[str, Any]:
    """Parse strict JSON: not too large, no NaN, no overflowing numbers, no field twice."""
    too_large = limit.problem(text)
    if too_large is not None:
        raise DocumentError(f"not a {kind}: {too_large}")
    try:
        decoded = text.decode("utf-8") if isinstance(text, bytes) else text
        content = json.loads(
            decoded, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_no_duplicates
        )
    except (ValueError, RecursionError) as error:
        if _looks_like_a_table(text):
            raise DocumentError(f"this is a table, not a {kind}, which is JSON") from None
        raise DocumentError(f"not a {kind}: {_problem(error)}") from None
    if not isinstance(content, dict):
        raise DocumentError(f"not a {kind}: a JSON object was expected, got {type(content).__name__}")
    return content


def _looks_like_a_table(text: str | bytes) -> bool:
    """Return whether this is a CSV file, a spreadsheet or another table instead of a document."""
    start = text[:2000] if isinstance(text, bytes) else text[:2000].encode()
    if start.startswith(_TABLES):
        return True
    lines = [line for line in start.replace(b"\x00", b"").decode("latin-1").splitlines() if line.strip()]
    if len(lines) < 2 or lines[0].lstrip().startswith(("{", "[")):
        return False
    widths = {max(line.count(separator) for separator in ",;\t") for line in lines[:-1]}
    return len(widths) == 1 and any(char.isdigit() for char in lines[1])


def _rewritten(kind: str, fields: dict[str, Any]) -> bytes:
    """Return the canonical form of fields that nobody has checked yet."""
    try:
        return _canonical(fields)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"not a {kind}: {_problem(error)}") from None


def _problem(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else _short(str(error).splitlines()[0])


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not allowed")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {_short(text)} is too large")
    return value


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MOST_FIELDS:
        raise ValueError(f"an object has {len(pairs):,} fields, more than {MOST_FIELDS}")
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a field occurs twice")
    return fields


def first_problem(error: ValidationError) -> str:
    """Return the first problem in one line that names the field.

    Parameters
    ----------
    error : ValidationError
        The error that reading a document raised.

    Returns
    -------
    str
        The field and the reason, and how many more there are.

    Examples
    --------
    >>> from pydantic import ValidationError
    >>> from fedconformal.documents import Refusal, first_problem
    >>> try:
    ...     Refusal(source="A")
    ... except ValidationError as error:
    ...     print(first_problem(error))
    reason: Field required
    """
    problem = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(map(str, problem["loc"])) or "content"
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return _short(f"{where}: {problem['msg'].removeprefix('Value error, ')}") + more


def _short(text: str) -> str:
    return one_line(text, 200)
