"""Where a table comes from: a file, or standard input."""

import re
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path

from fedconformal._inputs import STANDARD, standard_input

_DOCUMENT = re.compile(rb"^\s*\{.{0,200}?\"format\"\s*:\s*\"fedconformal/([a-z]+)\"", re.DOTALL)
_MAGIC = {b"PAR1": ".parquet", b"\x93NUMPY": ".npy", b"PK\x03\x04": ".xlsx"}
_KINDS = {".parquet": "Parquet", ".npy": ".npy", ".xlsx": "Excel"}


@dataclass(frozen=True)
class Source:
    """A file that exists and is not empty, or standard input.

    Parameters
    ----------
    path : Path
        The file, or `STANDARD`.
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
        suffix = self.path.suffix.lower()
        if suffix in _KINDS and suffix != self.kind:
            protected = ", or one that is protected by a password" * (suffix == ".xlsx")
            raise ValueError(
                f"{self.path}: cannot be read as {_KINDS[suffix]}: it is another kind of file{protected}"
            )

    def refuse_document(self) -> None:
        """Refuse a plan, or another document, in the place of a table."""
        found = _DOCUMENT.match(self._start)
        if found:
            raise ValueError(f"{self.name}: this is a {found[1].decode()}, not a table")

    @property
    def is_stdin(self) -> bool:
        """Whether it is standard input."""
        return self.path == STANDARD

    @property
    def name(self) -> str:
        """What messages call it."""
        return "standard input" if self.is_stdin else str(self.path)

    @cached_property
    def data(self) -> bytes:
        """The whole content."""
        return standard_input() if self.is_stdin else self.path.read_bytes()

    @cached_property
    def _start(self) -> bytes:
        if self.is_stdin:
            return self.data[:1000]
        with self.path.open("rb") as file:
            return file.read(1000)

    @property
    def kind(self) -> str:
        """What its first bytes show, whatever it is called; of text, .tsv if its name ends so, else .csv."""
        shown = next((kind for magic, kind in _MAGIC.items() if self._start.startswith(magic)), None)
        return shown or (".tsv" if self.path.suffix.lower() == ".tsv" else ".csv")

    def opened(self) -> Path | BytesIO:
        """What readers of other libraries take."""
        return BytesIO(self.data) if self.is_stdin else self.path
