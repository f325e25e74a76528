"""Files that appear whole or not at all."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def check_free(path: Path, *, force: bool) -> None:
    """Refuse an output that exists, before any work is done.

    Parameters
    ----------
    path : Path
        Where the output is to go.
    force : bool
        Whether a regular file there may be overwritten.

    Raises
    ------
    ValueError
        If something else than a regular file is there, a file that may not be overwritten, or no directory.
    """
    if path.is_dir():
        raise ValueError(f"{path}: is a directory")
    if os.path.lexists(path) and not path.is_file():
        raise ValueError(f"{path}: is not a regular file and is left alone")
    if path.exists() and not force:
        raise ValueError(f"{path}: exists already; --force overwrites it")
    if not path.parent.is_dir():
        raise ValueError(f"{path}: the directory {path.parent} does not exist")


def write_atomically(path: Path, write: Callable[[Path], object], *, force: bool, mode: int = 0o644) -> None:
    """Let ``write`` fill a file beside ``path``, then move it there in one step.

    Parameters
    ----------
    path : Path
        Where the output is to go.
    write : callable
        Takes the path of a temporary file, and writes to it.
    force : bool
        Whether a regular file there may be overwritten.
    mode : int
        Permissions of the file.

    Raises
    ------
    ValueError
        If the output may not be written there; nothing is left behind.
    """
    check_free(path, force=force)
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
    except OSError as error:
        raise ValueError(f"{path}: cannot be written: {error.strerror}") from None
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.chmod(mode)
        _publish(temporary, path, force=force)
    finally:
        temporary.unlink(missing_ok=True)


def _publish(temporary: Path, path: Path, *, force: bool) -> None:
    if force:
        temporary.replace(path)
        return
    try:
        os.link(temporary, path)  # fails if somebody else made the file in the meantime
    except FileExistsError:
        raise ValueError(f"{path}: exists already; --force overwrites it") from None
    except OSError:  # no hard links on this file system
        temporary.replace(path)


def write_text(path: Path, text: str, *, force: bool, mode: int = 0o644) -> None:
    """Write text atomically, in UTF-8.

    Parameters
    ----------
    path : Path
        Where the output is to go.
    text : str
        What to write.
    force : bool
        Whether a regular file there may be overwritten.
    mode : int
        Permissions of the file.

    Raises
    ------
    ValueError
        If the output may not be written there; nothing is left behind.
    """
    write_atomically(
        path, lambda temporary: temporary.write_text(text, encoding="utf-8"), force=force, mode=mode
    )
