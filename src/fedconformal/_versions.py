"""Versions of the installed packages, for reports of problems."""

import platform
import sys
from importlib.metadata import PackageNotFoundError, requires, version


def show_versions() -> None:
    """Print the versions of Python, of fedconformal and of everything it can use.

    To be pasted into a report of a problem; nothing about the data or the user is in it.

    Examples
    --------
    >>> import fedconformal as fc
    >>> fc.show_versions()
    fedconformal ...
    Python       ...
    """
    rows = [
        ("fedconformal", _installed("fedconformal")),
        ("Python", sys.version.split()[0]),
        ("system", platform.platform()),
        *((name, _installed(name)) for name in _used()),
    ]
    width = max(len(name) for name, _ in rows)
    for name, found in rows:
        print(f"{name:<{width}} {found}")


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _used() -> list[str]:
    """List the packages that are needed or that an extra brings, without development tools."""
    lines = [line.replace('"', "'") for line in requires("fedconformal") or ()]
    names = {_name(line) for line in lines if not line.endswith(("extra == 'dev'", "extra == 'docs'"))}
    return sorted(names - {"fedconformal"})


def _name(line: str) -> str:
    """Return the name at the beginning of a requirement."""
    end = next((i for i, c in enumerate(line) if not (c.isalnum() or c in "-_.")), len(line))
    return line[:end]
