"""What all documents share: strict content, one canonical form, a digest, a reader that trusts nothing."""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, NoReturn, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    model_serializer,
)

from fedconformal._notebooks import view_of
from fedconformal._text import one_line
from fedconformal.documents._ceilings import LONGEST_REASON, MOST_FIELDS, Ceiling
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


def _proper(name: str) -> str:
    form = proper_form(name)
    if name != form:
        would = f": {form!r} would do" if form else ""
        raise ValueError(
            f"a site's name must be visible, in one line, composed (NFC), no spaces around{would}"
        )
    return name


SiteName = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_proper)]
"""What a site is called: visible, on one line, in Unicode's composed form, without spaces around it."""

_SITE_NAME: TypeAdapter[str] = TypeAdapter(SiteName)


def check_site_name(name: Any) -> None:
    """Refuse what cannot be a site's name.

    Parameters
    ----------
    name : object
        What is to be used as one.

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
            f"{_short(repr(name))}" + (f": {form!r} would do" if form else "")
        ) from None


def _told(value: Any, info: ValidationInfo) -> Any:
    """Where it is made, a sentence is put into the form in which it may be read."""
    return one_line(value, LONGEST_REASON) if info.mode == "python" and isinstance(value, str) else value


def printable(text: str) -> str:
    """Refuse what cannot be shown on one line."""
    if not text.isprintable():
        raise ValueError("must be printable, on one line")
    return text


Sentence = Annotated[
    str, StringConstraints(max_length=LONGEST_REASON), BeforeValidator(_told), AfterValidator(printable)
]
"""Words for people, about what somebody else sent: printable, on one line, and not long."""

Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]


class Part(BaseModel):
    """A piece of a document: immutable, and nothing in it that was not announced."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with changes, and without what was remembered of the original, such as its digest."""
        copy = super().model_copy(update=update, deep=deep)
        for name in copy.__dict__.keys() - type(self).model_fields.keys():
            del copy.__dict__[name]
        return copy


class Document(Part):
    """A Plan, a Report, a Calibration or a Check.

    A field that has its default is not written and not part of the digest: what a document does not say has
    its default. So a later version may add fields, if their defaults mean what this version does, and the
    documents of this version keep their digests. A default must never change.
    """

    kind: ClassVar[str]
    ceiling: ClassVar[Ceiling]
    format: str
    version: int

    def __hash__(self) -> int:
        """By content, which may hold dictionaries."""
        return hash(self.digest)

    @model_serializer(mode="wrap")
    def _named(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Say what this is, although both fields have their default."""
        return {"format": self.format, "version": self.version, **handler(self)}

    def _line(self) -> str:
        """What there is to say on one line."""
        return self.digest

    def __repr__(self) -> str:
        """A short line; ``to_json`` has everything."""
        return f"<{type(self).__name__}: {self._line()}>"

    def __str__(self) -> str:
        """The same line."""
        return repr(self)

    def _repr_html_(self) -> str | None:
        """What notebooks show."""
        return view_of(self)

    def __dir__(self) -> Iterable[str]:
        """Without the names of the library that reads and writes JSON."""
        return sorted(set(super().__dir__()) - _NOT_OURS)

    def content(self) -> dict[str, Any]:
        """The content as JSON has it, without what has its default."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def canonical(self) -> bytes:
        """The content in its one canonical form, which the digest is taken of."""
        return _canonical(self.content())

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical form."""
        return "sha256:" + hashlib.sha256(self.canonical()).hexdigest()

    def to_json(self, *, indent: int | None = 2) -> str:
        """JSON for people and machines, with the digest.

        Parameters
        ----------
        indent : int or None
            Spaces by which nested content is indented; None for one line.

        Returns
        -------
        str
            What ``from_json`` reads.
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
            What ``to_json`` wrote.

        Returns
        -------
        Document
            Checked field by field, and against its digest.

        Raises
        ------
        DocumentError
            With the reason in one line.
        """
        fields = _load(cls.kind, text, cls.ceiling)
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
        return document

    @classmethod
    def check_format(cls, fields: dict[str, Any]) -> None:
        """Refuse another kind of document, or another version, in words.

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
            What ``from_json`` makes of it.

        Raises
        ------
        DocumentError
            With the name of the file and the reason in one line.
        """
        try:
            with Path(path).open("rb") as file:
                content = file.read(cls.ceiling.largest + 1)
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


def _load(kind: str, text: str | bytes, ceiling: Ceiling) -> dict[str, Any]:
    """Parse strict JSON: not too large, no NaN, no overflowing numbers, no field twice."""
    too_large = ceiling.problem(text)
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
    """Whether this is a CSV, a spreadsheet or another table, given in the place of a document."""
    start = text[:2000] if isinstance(text, bytes) else text[:2000].encode()
    if start.startswith(_TABLES):
        return True
    lines = [line for line in start.replace(b"\x00", b"").decode("latin-1").splitlines() if line.strip()]
    if len(lines) < 2 or lines[0].lstrip().startswith(("{", "[")):
        return False
    widths = {max(line.count(separator) for separator in ",;\t") for line in lines[:-1]}
    return len(widths) == 1 and any(char.isdigit() for char in lines[1])


def _rewritten(kind: str, fields: dict[str, Any]) -> bytes:
    """The canonical form of fields that nobody has checked yet."""
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
    """The first thing that is wrong, in one line that names the field.

    Parameters
    ----------
    error : ValidationError
        What reading a document raised.

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
