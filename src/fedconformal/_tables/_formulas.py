"""Formulas of a workbook whose value nobody has computed.

Excel stores beside each formula the value that it had last. Programs that write
workbooks store none, or a 0 and the wish that all formulas be computed again. Readers
take the first for an empty cell, which at the end of a sheet ends it earlier, and the
second for a number.
"""

import posixpath
import re
from collections.abc import Iterator
from typing import IO, Any
from xml.etree import ElementTree
from xml.parsers import expat
from zipfile import ZipFile

_CHUNK = 2**20
_FORMULA = re.compile(rb"<(?:[\w.-]+:)?f[\s/>]")
_BARE = re.compile(  # a formula that no value follows
    rb"(?:</(?:[\w.-]+:)?f>|<(?:[\w.-]+:)?f(?:\s[^<>]*)?/>)(?!<(?:[\w.-]+:)?v>[^<\s])"
)
_OVERLAP = 1000  # bytes that are looked at in both of two chunks
_WORKBOOK = "xl/workbook.xml"
_RELATIONS = "xl/_rels/workbook.xml.rels"
_ID = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"


def find_uncomputed(source: Any) -> str | None:
    """Return the first cell of the first sheet with a formula without a stored value.

    Parameters
    ----------
    source : path-like or file
        The workbook.

    Returns
    -------
    str or None
        Such as ``"A101"``.
    """
    with ZipFile(source) as archive:
        parts = {name.lower(): name for name in archive.namelist()}
        is_stale = _asks_for_computation(archive, parts)
        for name in _sheets(archive, parts):
            with archive.open(name) as part:
                if not _occurs(_FORMULA if is_stale else _BARE, part):
                    continue
            with archive.open(name) as part:
                cell = _find_cell(part, is_stale=is_stale)
            if cell is not None:
                return cell
    return None


def _elements(archive: ZipFile, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the elements of a part, by their names without namespaces."""
    for element in ElementTree.fromstring(archive.read(name)).iter():
        yield element.tag.rpartition("}")[2], element


def _asks_for_computation(archive: ZipFile, parts: dict[str, str]) -> bool:
    """Return whether all formulas are to be computed again when the workbook is
    opened.
    """
    if _WORKBOOK not in parts:
        return False
    for tag, element in _elements(archive, parts[_WORKBOOK]):
        if tag == "calcPr" and element.get("fullCalcOnLoad") in ("1", "true"):
            return True
    return False


def _sheets(archive: ZipFile, parts: dict[str, str]) -> list[str]:
    """Return the part of the first sheet; all sheets where it is not said."""
    target = _first_target(archive, parts)
    if target in parts:
        return [parts[target]]
    return [name for lower, name in parts.items() if "worksheets/sheet" in lower]


def _first_target(archive: ZipFile, parts: dict[str, str]) -> str:
    if _WORKBOOK not in parts or _RELATIONS not in parts:
        return ""
    sheets = []
    for tag, element in _elements(archive, parts[_WORKBOOK]):
        if tag == "sheet":
            sheets.append(element.get(_ID))
    for tag, element in _elements(archive, parts[_RELATIONS]):
        if tag == "Relationship" and sheets[:1] == [element.get("Id")]:
            target = posixpath.join("/xl", element.get("Target", ""))
            return posixpath.normpath(target).removeprefix("/").lower()
    return ""


def _occurs(pattern: re.Pattern[bytes], part: IO[bytes]) -> bool:
    """Return whether a sheet may have what is looked for, which is much faster than to
    parse it.
    """
    text = part.read(_CHUNK)
    if b"\0" in text[:4]:  # in UTF-16, where tags look otherwise
        return True
    while chunk := part.read(_CHUNK):
        if any(match.end() < len(text) - 100 for match in pattern.finditer(text)):
            return True
        text = text[-_OVERLAP:] + chunk
    return pattern.search(text) is not None


class _CellFound(Exception):  # noqa: N818  (it ends the parser, and is no error)
    """The cell that was looked for."""


class _Cells:
    """Events of a sheet: a cell, its formula and its value."""

    def __init__(self, *, is_stale: bool) -> None:
        self.is_stale = is_stale
        self.place = ""
        self.has_formula = False
        self.has_value = False
        self.is_in_value = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(" ")[2]
        if name == "c":
            self.place = attributes.get("r", "?")
            self.has_formula = False
            self.has_value = attributes.get("t") == "str"  # which may be empty
        elif name == "f":
            self.has_formula = True
        elif name == "v":
            self.is_in_value = True

    def text(self, data: str) -> None:
        if self.is_in_value and data.strip():
            self.has_value = True

    def end(self, tag: str) -> None:
        name = tag.rpartition(" ")[2]
        if name == "v":
            self.is_in_value = False
        elif name == "c":
            is_computed = self.has_value and not self.is_stale
            if self.has_formula and not is_computed:
                raise _CellFound(self.place)


def _find_cell(part: IO[bytes], *, is_stale: bool) -> str | None:
    cells = _Cells(is_stale=is_stale)
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler = cells.start
    parser.CharacterDataHandler = cells.text
    parser.EndElementHandler = cells.end
    try:
        while chunk := part.read(_CHUNK):
            parser.Parse(chunk)
        parser.Parse(b"", True)
    except _CellFound as found:
        return str(found)
    return None
