"""Optional dependencies: asking for what is not installed names the extra to install."""

from importlib import import_module
from typing import Any


class MissingExtraError(ImportError):
    """An optional dependency that is not installed."""


def explain_missing(package: str, extra: str) -> str:
    """Return the message that names the command to run; nothing is on a package index yet."""
    return f"{package} is not installed: run pip install '.[{extra}]' in your clone of fedconformal"


def need(module: str, *, extra: str) -> Any:
    """Import a module that comes with an extra."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module.partition(".")[0]:
            raise
        raise MissingExtraError(explain_missing(module.partition(".")[0], extra)) from None
