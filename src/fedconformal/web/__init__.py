"""Pages for people: the planner, and the certificate of a calibration.

The certificate needs Jinja2, of the extras ``cli`` and ``web``; serving the planner needs the extra ``web``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedconformal._extras import need
from fedconformal.web._certificate import NotVerifiedError, certificate
from fedconformal.web._notebook import notebook_view

if TYPE_CHECKING:
    from fedconformal.web._app import create_app
    from fedconformal.web._serve import background, serve

__all__ = ["NotVerifiedError", "background", "certificate", "create_app", "notebook_view", "serve"]

_SERVING = {"background": "_serve", "create_app": "_app", "serve": "_serve"}


def __getattr__(name: str) -> Any:
    """Load what serves a page only when it is asked for, and name the extra that it needs."""
    if name not in _SERVING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for module in ("anyio", "jinja2", "starlette", "uvicorn"):
        need(module, extra="web")
    return getattr(import_module(f"{__name__}.{_SERVING[name]}"), name)


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
