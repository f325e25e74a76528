"""Base of all documents: strict content, one canonical form, a digest, a reader that
trusts nothing.

A reader looks at the bytes first: their number, and the items they can hold. So reading
any file costs about a second and some hundred megabytes at most.
"""

import gc
import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from fedconformal._extras import call_higher
from fedconformal._text import one_line
from fedconformal._util import read_regular
from fedconformal.documents._fields import MOST_FIELDS

_NOT_OURS = frozenset(name for name in dir(BaseModel) if not name.startswith("_"))
_DOCUMENT = re.compile(r"fedconformal/(plan|report|calibration|check)")
_ASTRAL = (
    b"\xf0",
    b"\xf1",
    b"\xf2",
    b"\xf3",
    b"\xf4",
    b"\\ud",
    b"\\uD",
)  # begin characters beyond U+FFFF
_TABLES = (b"PAR1", b"PK\x03\x04", b"\x93NUMPY")  # how Parquet, Excel and .npy begin


@contextmanager
def paused_collector() -> Iterator[None]:
    """Pause the collector of cycles, which large documents without any would keep busy
    half of the time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class DocumentError(ValueError):
    """A document that cannot be accepted, and why, in one line."""


@dataclass(frozen=True)
class SizeLimit:
    """Largest size of one kind of document.

    Parameters
    ----------
    size : int
        Bytes of an ordinary document.
    items : int
        Values, lists, objects and fields.
    listing : tuple of str
        Fields that only larger documents have, because they list sites, groups or
        counts.
    listing_size : int
        Bytes of a document with one of these fields.

    Examples
    --------
    >>> from fedconformal.documents import SizeLimit
    >>> SizeLimit(size=1024, items=3).problem("[1, 2, 3, 4, 5]")
    'more than 3 items in it'
    """

    size: int
    items: int
    listing: tuple[str, ...] = ()
    listing_size: int = 0

    @property
    def largest(self) -> int:
        """Bytes that any document of this kind may have."""
        return max(self.size, self.listing_size)

    def problem(self, text: str | bytes, *, room: int = 0) -> str | None:
        """Return the reason why a text is too large to be parsed, if it is.

        Parameters
        ----------
        text : str or bytes
            The text of a document.
        room : int
            Bytes that are to follow, such as the end of a line.

        Returns
        -------
        str or None
            The reason.
        """
        if len(text) + room > self.largest:
            return f"larger than {self._text(self.largest)}"
        raw = _to_bytes(text)
        listing = any(f'"{field}"'.encode() in raw for field in self.listing)
        size = self.largest if listing else self.size
        if len(raw) > self.size and any(
            start in raw for start in _ASTRAL
        ):  # which make a text take four bytes a character
            size = max(self.size, size // 2)
        if len(raw) + room > size:
            without = (
                ""
                if listing or not self.listing
                else " or ".join(map(repr, self.listing))
            )
            return f"larger than {self._text(size)}" + (
                f", without {without} in it" if without else ""
            )
        if count_items(raw) > self.items:
            return f"more than {self.items:,} items in it"
        return None

    @staticmethod
    def _text(size: int) -> str:
        return f"{size // 2**20} MB" if size >= 2**20 else f"{size // 2**10} KB"


class Part(BaseModel):
    """Part of a document: immutable, without unknown fields."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False
    )

    def model_copy(
        self, *, update: Mapping[str, Any] | None = None, deep: bool = False
    ) -> Self:
        """Return a copy with changes, without cached values of the original such as its
        digest.
        """
        copy = super().model_copy(update=update, deep=deep)
        for name in copy.__dict__.keys() - type(self).model_fields.keys():
            del copy.__dict__[name]
        return copy


class Document(Part):
    """A Plan, a Report, a Calibration or a Check.

    A field that has its default is not written and not part of the digest. So a later
    version may add fields, if their defaults mean what this version does, and documents
    of this version keep their digests. A default must never change.
    """

    kind: ClassVar[str]
    limit: ClassVar[SizeLimit]
    set_by_signing: ClassVar[frozenset[str]] = frozenset()
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

    __str__ = __repr__

    def _repr_html_(self) -> Any:
        """Return the HTML that notebooks show, if pages can be made."""
        return call_higher("pages.notebook_view", self)

    def __dir__(self) -> Iterable[str]:
        """List the attributes without those of the library that reads and writes
        JSON.
        """
        return sorted(set(super().__dir__()) - _NOT_OURS)

    def content(self) -> dict[str, Any]:
        """Return the content as JSON has it, without fields that have their default."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def canonical(self) -> bytes:
        """Return the content in its one canonical form, of which the digest is taken,
        without signatures.
        """
        signed = self.set_by_signing & self.model_fields_set
        return _canonical(
            (
                self.model_copy(update=dict.fromkeys(signed)) if signed else self
            ).content()
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical form."""
        return "sha256:" + hashlib.sha256(self.canonical()).hexdigest()

    def to_json(self, *, indent: int | None = 2) -> str:
        """Write the document as JSON, with its digest.

        Parameters
        ----------
        indent : int or None
            Spaces by which nested content is indented; None for one line, as large
            documents always are.

        Returns
        -------
        str
            The text that ``from_json`` reads.

        Raises
        ------
        DocumentError
            If it would be larger than what ``from_json`` reads.
        """
        whole = {**self.content(), "digest": self.digest}
        text = json.dumps(whole, ensure_ascii=False, allow_nan=False)
        if (too_large := self.limit.problem(text, room=1)) is not None:
            raise DocumentError(f"this {self.kind} cannot be written: {too_large}")
        if indent is None or len(text) > self.limit.size:
            return text
        indented = json.dumps(whole, indent=indent, ensure_ascii=False, allow_nan=False)
        return text if self.limit.problem(indented, room=1) else indented

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
        with paused_collector():
            return cls._from_json(text)

    @classmethod
    def _from_json(cls, text: str | bytes) -> Self:
        fields = _load(cls.kind, text, cls.limit)
        digest = fields.pop("digest", None)
        cls.check_format(fields)
        try:
            parsed = _canonical(fields)
            del (
                fields
            )  # for whatever follows there is one copy of the content at a time
            document = cls.model_validate_json(parsed)
            del parsed
        except ValidationError as error:
            raise DocumentError(f"not a {cls.kind}: {first_problem(error)}") from None
        except (
            ValueError,
            RecursionError,
        ) as error:  # of fields that nobody has checked yet
            raise DocumentError(f"not a {cls.kind}: {_problem(error)}") from None
        if digest != document.digest:
            stated = "has no digest" if digest is None else "does not match its digest"
            raise DocumentError(
                f"this {cls.kind} {stated}: it was changed after it was made, or cut"
                " short"
            )
        try:
            document.check()
        except ValueError as error:
            raise DocumentError(f"not a {cls.kind}: {_short(str(error))}") from None
        return document

    def check(self) -> None:
        """Refuse content that does not fit together, whoever wrote it; reading a
        document calls this.

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
        wanted = {
            name: cls.model_fields[name].default for name in ("format", "version")
        }
        for name, value in wanted.items():
            given = fields.get(name)
            if name not in fields:
                raise DocumentError(f"not a {cls.kind}: {name}: is missing")
            other = _DOCUMENT.fullmatch(given) if isinstance(given, str) else None
            if name == "format" and other is not None and other[1] != cls.kind:
                raise DocumentError(f"this is a {other[1]}, not a {cls.kind}")
            if type(given) is not type(value) or given != value:
                shown = (
                    type(given).__name__
                    if isinstance(given, list | dict)
                    else repr(given)
                )
                raise DocumentError(
                    f"not a {cls.kind}: {name}: must be {value!r}, got {_short(shown)}"
                )

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
            content = read_regular(path, cls.limit.largest + 1)
        except ValueError as error:
            raise DocumentError(str(error)) from None
        try:
            return cls.from_json(content)
        except DocumentError as error:
            raise DocumentError(f"{path}: {error}") from None


_CANONICAL = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)


def count_items(raw: bytes) -> int:
    """Return a bound on the number of values, lists, objects and fields of a text."""
    return sum(raw.count(mark) for mark in (b",", b":", b"[", b"{"))


def _canonical(content: Any) -> bytes:
    return _CANONICAL.encode(content).encode()


def _to_bytes(text: str | bytes) -> bytes:
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text


def _load(kind: str, text: str | bytes, limit: SizeLimit) -> dict[str, Any]:
    """Parse strict JSON: not too large, no NaN, no overflowing numbers, no field
    twice.
    """
    if (too_large := limit.problem(text)) is not None:
        raise DocumentError(f"not a {kind}: {too_large}")
    try:
        content = _STRICT.decode(
            text.decode("utf-8") if isinstance(text, bytes) else text
        )
    except (ValueError, RecursionError) as error:
        if _looks_like_a_table(text):
            raise DocumentError(
                f"this is a table, not a {kind}, which is JSON"
            ) from None
        raise DocumentError(f"not a {kind}: {_problem(error)}") from None
    if not isinstance(content, dict):
        raise DocumentError(
            f"not a {kind}: a JSON object was expected, got {type(content).__name__}"
        )
    return content


def _looks_like_a_table(text: str | bytes) -> bool:
    """Return whether this is a CSV file, a spreadsheet or another table instead of a
    document.
    """
    start = _to_bytes(text[:2000])
    if start.startswith(_TABLES):
        return True
    lines = [
        line
        for line in start.replace(b"\x00", b"").decode("latin-1").splitlines()
        if line.strip()
    ]
    if len(lines) < 2 or lines[0].lstrip().startswith(("{", "[")):
        return False
    widths = {max(line.count(separator) for separator in ",;\t") for line in lines[:-1]}
    return len(widths) == 1 and any(char.isdigit() for char in lines[1])


def _problem(error: Exception) -> str:
    return (
        "nested too deeply" if isinstance(error, RecursionError) else _short(str(error))
    )


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not allowed")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {_short(text)} is too large")
    return value


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MOST_FIELDS:
        raise ValueError(
            f"an object has {len(pairs):,} fields, more than {MOST_FIELDS}"
        )
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a field occurs twice")
    return fields


_STRICT = json.JSONDecoder(
    parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_no_duplicates
)


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
