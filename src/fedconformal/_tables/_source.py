"""Where a table comes from: a file, or standard input."""

import re
import sys
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path

STDIN = Path("-")
"""Stands for standard input."""

_DOCUMENT = re.compile(rb"^\s*\{.{0,200}?\"format\"\s*:\s*\"fedconformal/([a-z]+)\"", re.DOTALL)
_MAGIC = {b"PAR1": ".parquet", b"\x93NUMPY": ".npy", b"PK\x03\x04": ".xlsx"}


@dataclass(frozen=True)
class Source:
    """A file that exists and is not empty, or standard input; its kind is how its name ends.

    Parameters
    ----------
    path : Path
        The file, or `STDIN`.
    suffixes : tuple of str
        How names of files may end.

    Raises
    ------
    ValueError
        If it is no such file.
    """

    path: Path
    suffixes: tuple[str, ...]

    def __post_init__(self) -> None:
        """Refuse what cannot be a table."""
        if self.is_stdin:
            if not self.data:
                raise ValueError(f"{self.name}: is empty")
            return
        if self.path.is_dir():
            raise ValueError(f"{self.path}: is a directory, a file is needed")
        if not self.path.exists():
            raise ValueError(f"{self.path}: no such file")
        if self.path.suffix.lower() not in self.suffixes:
            self.refuse_document()
            raise ValueError(f"{self.path}: the name must end with one of {', '.join(self.suffixes)}")
        if self.path.stat().st_size == 0:
            raise ValueError(f"{self.path}: is empty")

    def refuse_document(self) -> None:
        """Refuse a plan, or another document, in the place of a table."""
        with BytesIO(self.data) if self.is_stdin else self.path.open("rb") as file:
            found = _DOCUMENT.match(file.read(1000))
        if found:
            raise ValueError(f"{self.name}: this is a {found[1].decode()}, not a table")

    @property
    def is_stdin(self) -> bool:
        """Whether it is standard input."""
        return self.path == STDIN

    @property
    def name(self) -> str:
        """What messages call it."""
        return "standard input" if self.is_stdin else str(self.path)

    @cached_property
    def data(self) -> bytes:
        """The whole content."""
        return sys.stdin.buffer.read() if self.is_stdin else self.path.read_bytes()

    @property
    def kind(self) -> str:
        """How the name ends, in small letters; of standard input, what its first bytes show."""
        if not self.is_stdin:
            return self.path.suffix.lower()
        return next((kind for magic, kind in _MAGIC.items() if self.data.startswith(magic)), ".csv")

    def opened(self) -> Path | BytesIO:
        """What readers of other libraries take."""
        return BytesIO(self.data) if self.is_stdin else self.path
