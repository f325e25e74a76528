"""How a CSV is written: its encoding, what stands between columns, what its numbers look like.

Excel writes other files in Paris than in London, and nobody who saves one knows which. What the file itself
shows is used, and said; what it leaves open is refused, with the option that decides it.
"""

import codecs
import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

SEPARATORS = (";", "\t", ",", "|")
_NAMES = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";", "point": "."}
_WORDS = {"\t": "tabs", " ": "spaces"}
_BOMS = {  # that of UTF-32 begins as that of UTF-16 does
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_ENCODING_WORDS = {
    "utf-16": "UTF-16",
    "utf-16-le": "UTF-16",
    "utf-16-be": "UTF-16",
    "utf-32": "UTF-32",
    "cp1252": "Latin-1",
}
_SAMPLE = 100  # lines that a separator must fit
_NUMBER = re.compile(
    r"[+-]?(?:[0-9]+[.,]?[0-9]*|[.,][0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:inf|infinity|nan)", re.I
)


@dataclass(frozen=True)
class Dialect:
    r"""How a table is written; what is None is found out from the file.

    Parameters
    ----------
    separator : str
        What stands between columns: one character, or a word such as "tab".
    decimal : str
        "." or ",", or their names.
    encoding : str
        An encoding that Python knows, such as "utf-16" or "latin-1".
    options : tuple of str
        The options by which somebody could say so; messages name no others.

    Examples
    --------
    >>> Dialect(separator="tab", decimal=",").separator
    '\t'
    """

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    options: tuple[str, ...] = ("--separator", "--decimal", "--encoding", "--column")

    def __post_init__(self) -> None:
        """Words become characters; what cannot be used is refused."""
        for name in ("separator", "decimal"):
            given = getattr(self, name)
            object.__setattr__(self, name, None if given is None else _NAMES.get(given, given))
        separator, decimal = self.separator, self.decimal
        if separator is not None and (len(separator.encode()) != 1 or separator in '"\r\n'):
            raise ValueError(f"separator must be one character, or tab or space, got {separator!r}")
        if decimal not in (None, ".", ","):
            raise ValueError(f"decimal must be a point or a comma, got {decimal!r}")
        if decimal is not None and decimal == separator:
            raise ValueError(f"separator and decimal must differ, got {decimal!r} for both")
        _check_encoding(self.encoding)

    def advice(self, option: str, text: str) -> str:
        """A piece of advice that names an option, or nothing where there is no such option."""
        return text if option in self.options else ""


def _check_encoding(encoding: str | None) -> None:
    try:
        "".encode(encoding or "utf-8")
    except LookupError:
        raise ValueError(
            f"encoding must be one that Python knows, such as utf-8, utf-16 or latin-1, got {encoding!r}"
        ) from None


@dataclass(frozen=True)
class Text:
    """The content of a CSV in UTF-8, the dialect it has, and what of that was found out."""

    content: bytes
    dialect: Dialect
    names: tuple[str, ...] | None
    first_line: int
    """The line of the file at which the content begins, behind the names."""
    noticed: tuple[str, ...] = ()

    def line(self, row: int) -> int:
        """The file's line at which a row begins; a cell in quotes may hold several lines."""
        if b'"' not in self.content:
            return self.first_line + row
        reader = csv.reader(
            self.content.decode("utf-8").splitlines(keepends=True), delimiter=self.dialect.separator or ","
        )
        ends = 0
        for _, _cells in zip(range(row), reader, strict=False):
            ends = reader.line_num
        return self.first_line + ends


def decoded(name: str, data: bytes, wish: Dialect, *, by_first_line: bool, tabs: bool) -> Text:
    """Find out how a CSV is written.

    Parameters
    ----------
    name : str
        What the file is called in messages.
    data : bytes
        Its content.
    wish : Dialect
        What somebody said about it, which is not questioned.
    by_first_line : bool
        Whether nothing but the first line may decide, since no single case may: for private answers.
    tabs : bool
        Whether the file's name says that there are tabs between columns.

    Returns
    -------
    Text

    Raises
    ------
    ValueError
        If the encoding cannot be told, or the names cannot be used.
    """
    encoding = wish.encoding or _encoding(name, data, wish, by_first_line=by_first_line)
    content = _in_utf8(name, data, encoding, lossy=by_first_line)
    noticed = []
    if wish.encoding is None and encoding in _ENCODING_WORDS:
        noticed.append(f"in {_ENCODING_WORDS[encoding]}")
    lines = [line.decode("utf-8", "replace") for line in content[:1_000_000].split(b"\n", _SAMPLE)[:_SAMPLE]]
    skipped, announced = _announced(lines[0])
    if by_first_line:
        lines = lines[: skipped + 1]
    separator = wish.separator or announced or ("\t" if tabs else _separator(lines[skipped:]))
    if wish.separator is None and separator != ("\t" if tabs else ",") and separator in "".join(lines):
        noticed.append(f"with {_WORDS.get(separator, separator)} between columns")
    reader = csv.reader((f"{line}\n" for line in lines[skipped:]), delimiter=separator)
    cells = next(reader, [])
    named = not are_numbers(cells)
    names = _names(name, cells) if named else None
    if names is not None and any(cell != cell.strip() for cell in cells):
        noticed.append("without the spaces around column names")
    before = skipped + (reader.line_num if named else 0)
    rest = content.split(b"\n", before)
    return Text(
        rest[-1] if len(rest) > before else b"",
        replace(wish, separator=separator, encoding=encoding),
        names,
        1 + before,
        tuple(noticed),
    )


def are_numbers(cells: Sequence[str]) -> bool:
    """Whether a line holds numbers alone, so that it has no names."""
    return bool(cells) and all(_NUMBER.fullmatch(cell.strip()) for cell in cells)


def _names(name: str, cells: Sequence[str]) -> tuple[str, ...]:
    """The names of the columns, without spaces around them; an empty one at the end is no column."""
    names = [" ".join(cell.split()) if "\n" in cell else cell.strip() for cell in cells]
    if not any(names):
        raise ValueError(f"{name}: the first line is empty, it should hold the names of the columns")
    while len(names) > 1 and not names[-1]:
        names.pop()
    found = tuple(each or f"column_{i + 1}" for i, each in enumerate(names))
    twice = next((each for i, each in enumerate(found) if each in found[:i]), None)
    if twice is not None:
        raise ValueError(f"{name}: two columns are called {twice!r}; each needs a name of its own")
    return found


def _announced(line: str) -> tuple[int, str | None]:
    """Excel's own line before the names, sep=;, and what it announces."""
    match = re.fullmatch(r"\"?sep=(.)\"?\s*", line, re.I)
    return (1, match[1]) if match else (0, None)


# -- encoding ----------------------------------------------------------------------------------------------


def _encoding(name: str, data: bytes, wish: Dialect, *, by_first_line: bool) -> str:
    for bom, encoding in _BOMS.items():
        if data.startswith(bom):
            return encoding
    start = data[:2000].split(b"\n")[0] if by_first_line else data[:2000]
    if b"\x00" in start:
        return _without_bom(name, start, wish)
    try:
        (start if by_first_line else data).decode("utf-8")
    except UnicodeDecodeError:
        return _western(name, start if by_first_line else data, wish)
    return "utf-8"


def _without_bom(name: str, start: bytes, wish: Dialect) -> str:
    """UTF-16 without a mark: Western text has a zero in every second byte."""
    for encoding, zeros in (("utf-16-le", start[1::2]), ("utf-16-be", start[::2])):
        if zeros and zeros.count(0) > 0.7 * len(zeros):
            return encoding
    rare = wish.advice("--encoding", "; a CSV in a rare encoding can be read with --encoding")
    raise ValueError(f"{name}: is not text{rare}")


def _western(name: str, data: bytes, wish: Dialect) -> str:
    """What Windows writes in Western Europe, which has all of Latin-1."""
    try:
        data.decode("cp1252")
    except UnicodeDecodeError:
        which = wish.advice("--encoding", ": say which with --encoding")
        raise ValueError(f"{name}: is not text in UTF-8, UTF-16 or Latin-1{which}") from None
    return "cp1252"


def _in_utf8(name: str, data: bytes, encoding: str, *, lossy: bool) -> bytes:
    if codecs.lookup(encoding).name == "utf-8" and not lossy:
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise _not_text(name, encoding, error) from None
        return _one_kind_of_line_end(data)
    try:
        text = data.decode(encoding, "replace" if lossy else "strict")
    except UnicodeDecodeError as error:
        raise _not_text(name, encoding, error) from None
    return _one_kind_of_line_end(text.encode("utf-8", "replace"))


def _not_text(name: str, encoding: str, error: UnicodeDecodeError) -> ValueError:
    line = error.object[: error.start].count(b"\n") + 1
    return ValueError(f"{name}: is not text in {encoding}, first in line {line}")


def _one_kind_of_line_end(data: bytes) -> bytes:
    return data.replace(b"\r", b"\n") if b"\r" in data and b"\n" not in data else data


# -- separator ---------------------------------------------------------------------------------------------


def _separator(lines: Sequence[str]) -> str:
    """What is in the first line; of several, what splits the lines most evenly.

    A single column may hold decimal commas: then it is not split at commas.
    """
    candidates = [each for each in SEPARATORS if len(_cells(lines, each)[0]) > 1]
    if not candidates:
        return ";" if any("," in line for line in lines) else ","
    rows = [line for line in lines if line.strip()]
    return min(candidates, key=lambda each: _misfit(_cells(rows, each), each))


def _misfit(rows: Sequence[Sequence[str]], separator: str) -> tuple[int, int]:
    return sum(len(row) != len(rows[0]) for row in rows), SEPARATORS.index(separator)


def _cells(lines: Sequence[str], separator: str) -> list[list[str]]:
    try:
        return list(csv.reader((f"{line}\n" for line in lines), delimiter=separator)) or [[]]
    except csv.Error:
        return [[]]
