"""Pages for people: the planner, the answer page of a site, and the certificate of a
calibration.

The certificate needs Jinja2, of the extras ``cli`` and ``web``; serving the planner
needs the extra ``web``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedconformal._extras import need
from fedconformal.pages._certificate import certificate, notebook_view

if TYPE_CHECKING:
    from fedconformal.pages._server import create_app, serve

__all__ = ["certificate", "create_app", "serve"]


def __getattr__(name: str) -> Any:
    """Load what serves a page only when it is asked for, and name the extra that it
    needs.
    """
    if name not in ("create_app", "serve"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for module in ("anyio", "jinja2", "starlette", "uvicorn"):
        need(module, extra="web")
    return getattr(import_module(f"{__name__}._server"), name)


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
