"""Reference scores of a typical site, as people type them."""

from pathlib import Path

from fedconformal._inputs import STANDARD
from fedconformal._tables import Dialect, read_column
from fedconformal._typing import Floats


def reference_from(text: str, column: str | None = None, *, options: tuple[str, ...] = ()) -> str | Floats:
    """The name of a distribution, or the scores in a file."""
    if Path(text).suffix or Path(text) == STANDARD:
        return read_column(Path(text), column, dialect=Dialect(options=options))
    if column is not None:
        raise ValueError(f"--column goes with a file of reference scores, got --reference {text}")
    return text
