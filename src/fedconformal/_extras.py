"""Optional dependencies: asking for what is not installed names the extra to install."""

from importlib import import_module
from typing import Any


class MissingExtraError(ImportError):
    """An optional dependency that is not installed."""


def need(module: str, *, extra: str) -> Any:
    """Import a module that comes with an extra."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module.partition(".")[0]:
            raise
        raise MissingExtraError(
            f"{module.partition('.')[0]} is not installed: pip install 'fedconformal[{extra}]'"
        ) from None
