"""Modules that are loaded when first needed: extras, and packages above; versions of
what is there.
"""

import platform
import re
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any


class MissingExtraError(ImportError):
    """An optional dependency that is not installed."""


def explain_missing(package: str, extra: str) -> str:
    """Return the message that names the command to run; nothing is on a package index
    yet.
    """
    return (
        f"{package} is not installed: run pip install '.[{extra}]' in your clone of"
        " fedconformal"
    )


def need(module: str, *, extra: str) -> Any:
    """Import a module that comes with an extra."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module.partition(".")[0]:
            raise
        raise MissingExtraError(
            explain_missing(module.partition(".")[0], extra)
        ) from None


def call_higher(name: str, *arguments: Any, **options: Any) -> Any:
    """Call a function of a higher package, which documents offer as a method:
    ``"messages.law"``.
    """
    package, _, function = name.partition(".")
    return getattr(import_module(f"fedconformal.{package}"), function)(
        *arguments, **options
    )


def show_versions() -> None:
    """Print the versions of Python, of fedconformal and of everything it can use.

    To be pasted into a report of a problem; nothing about the data or the user is in
    it.

    Examples
    --------
    >>> import fedconformal as fc
    >>> fc.show_versions()
    fedconformal ...
    Python       ...
    """
    lines = [line.replace('"', "'") for line in requires("fedconformal") or ()]
    used = [
        line
        for line in lines
        if not line.endswith(("extra == 'dev'", "extra == 'docs'"))
    ]
    names = {re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in used} - {
        "fedconformal"
    }
    rows = [
        ("fedconformal", _installed("fedconformal")),
        ("Python", sys.version.split()[0]),
        ("system", platform.platform()),
        *((name, _installed(name)) for name in sorted(names)),
    ]
    width = max(len(name) for name, _ in rows)
    for name, installed in rows:
        print(f"{name:<{width}} {installed}")


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
