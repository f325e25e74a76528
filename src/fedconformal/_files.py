"""Files that appear whole or not at all, and standard input, which can stand for one
file.
"""

import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from fedconformal._text import one_line, warn

# -- standard input, which can stand for one file --------------------------------------


STANDARD = Path("-")
"""Stands for standard input, or output."""


def standard_input(most: int = -1) -> bytes:
    """Read standard input.

    Parameters
    ----------
    most : int
        How many bytes at the most; all of them if negative.

    Returns
    -------
    bytes

    Raises
    ------
    ValueError
        If there is nothing, as when it was read for another file.
    """
    data = sys.stdin.buffer.read(most)
    if not data:
        raise ValueError("standard input: is empty; - can stand for one file only")
    return data


# -- files that appear whole or not at all, and those that nobody else should read -----


def open_new(path: Path, mode: int) -> int:
    """Make a file for writing; what is there already, a symbolic link too, is an error.

    Parameters
    ----------
    path : Path
        Where to make it.
    mode : int
        Permissions of the file, as far as the umask allows them.

    Returns
    -------
    int
        Its descriptor.
    """
    follows_no_link = getattr(os, "O_NOFOLLOW", 0)
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | follows_no_link, mode)


def open_to_append(path: Path) -> TextIO:
    """Open a text file, in UTF-8, to write at its end; a symbolic link is an error.

    Parameters
    ----------
    path : Path
        The file, which is made if it does not exist.

    Returns
    -------
    file
    """
    follows_no_link = getattr(os, "O_NOFOLLOW", 0)
    flags = os.O_CREAT | os.O_APPEND | os.O_WRONLY | follows_no_link
    return open(os.open(path, flags, 0o644), "a", encoding="utf-8")


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
        If something else than a regular file is there, a file that may not be
        overwritten, or no directory.
    """
    if path.is_dir():
        raise ValueError(f"{path}: is a directory")
    if os.path.lexists(path) and not path.is_file():
        raise ValueError(f"{path}: is not a regular file and is left alone")
    if path.exists() and not force:
        raise ValueError(f"{path}: exists already; --force overwrites it")
    if not path.parent.is_dir():
        raise ValueError(f"{path}: the directory {path.parent} does not exist")


def write_atomically(
    path: Path, write: Callable[[Path], object], *, force: bool, mode: int = 0o644
) -> None:
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
        Permissions of the file, as far as the umask allows them.

    Raises
    ------
    ValueError
        If the output may not be written there; nothing is left behind.
    """
    check_free(path, force=force)
    temporary = path.with_name(f".{path.stem[:40]}.{secrets.token_hex(8)}{path.suffix}")
    try:
        # The operating system takes off what the umask forbids, as for any other new
        # file.
        os.close(open_new(temporary, mode))
        write(temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        _publish(temporary, path, force=force)
    except (ValueError, TypeError):
        raise
    except Exception as error:  # every library has an error of its own for a full disk
        raise ValueError(f"{path}: cannot be written: {_words(error)}") from None
    finally:
        temporary.unlink(missing_ok=True)


def _words(error: Exception) -> str:
    said = (
        error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    )
    return one_line(said or type(error).__name__, 200)


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
        Permissions of the file, as far as the umask allows them.

    Raises
    ------
    ValueError
        If the output may not be written there; nothing is left behind.
    """
    write_atomically(
        path,
        lambda temporary: temporary.write_text(text, encoding="utf-8"),
        force=force,
        mode=mode,
    )


def warn_if_shared(path: Path, what: str = "private key") -> None:
    """Say so if others may read a file that is its owner's alone, such as a private key
    or a policy's secret.

    Parameters
    ----------
    path : Path
        The file.
    what : str
        What others may read.

    Warns
    -----
    UserWarning
        With what to do about it.
    """
    if os.name == "posix" and path.stat().st_mode & 0o077:
        warn(f"{path}: others may read this {what}; chmod 600 keeps it yours")
