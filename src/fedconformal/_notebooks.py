"""Who shows documents in notebooks: said by the package itself, as documents know of no pages."""

from collections.abc import Callable
from typing import Any

View = Callable[[Any], str | None]
"""HTML of a document, or None where a line is enough."""

_views: list[View] = []


def show_with(view: View) -> None:
    """Say who shows documents."""
    _views[:] = [view]


def view_of(document: Any) -> str | None:
    """What a notebook shows of a document."""
    return _views[0](document) if _views else None
