"""Documents in files: where they are read from, and where results go."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from fedconformal._outputs import check_free, warn_if_shared, write_text
from fedconformal.cli._show import say
from fedconformal.documents import (
    Calibration,
    Document,
    Plan,
    SigningKey,
)


def check_output(output: Path | None, *, force: bool) -> None:
    """Refuse an output that exists, before any work is done."""
    if output is not None:
        check_free(output, force=force)


def save(document: Document, output: Path | None, *, force: bool, as_json: bool) -> None:
    """Write a result where it was asked for."""
    if output is not None:
        write_text(output, document.to_json() + "\n", force=force)
        say(f"wrote {output}")
    if as_json:
        print(document.to_json())


Authored = TypeVar("Authored", Plan, Calibration)


def signed(document: Authored, key: Path | None) -> Authored:
    """The same document, signed if a key was given."""
    return document if key is None else read_key(key).sign(document)


def read_key(path: Path) -> SigningKey:
    """A private key from its file."""
    try:
        key = SigningKey.from_pem(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    warn_if_shared(path)
    return key


def expand(files: Iterable[Path]) -> list[Path]:
    """Directories stand for the .json files in them."""
    paths: list[Path] = []
    for path in files:
        paths += sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not paths:
        raise ValueError("no .json files there")
    return paths


def report_files(files: Sequence[Path], plan_file: Path) -> list[Path]:
    """The files, without the plan where it lies in the same directory."""
    return [path for path in expand(files) if path in files or path.resolve() != plan_file.resolve()]
