"""What people read in a browser: the planner, and the certificate of a calibration.

Both can be used without the extra ``web``; only serving the planner as a page needs it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedconformal._extras import need
from fedconformal.web._notebook import notebook_view
from fedconformal.web.certificates import NotVerifiedError, certificate
from fedconformal.web.planner import (
    PlanAnswer,
    PlanQuestion,
    PlanRequest,
    PrivacyWish,
    Solution,
    WishAnswer,
    WishRequest,
    answer_plan,
    answer_wish,
    make_plan,
    solve,
)
from fedconformal.web.server._hosts import is_loopback
from fedconformal.web.server._openapi import openapi
from fedconformal.web.server._page import ASSETS

if TYPE_CHECKING:
    from fedconformal.web.server._app import create_app
    from fedconformal.web.server._serve import background, serve

__all__ = [
    "ASSETS",
    "NotVerifiedError",
    "PlanAnswer",
    "PlanQuestion",
    "PlanRequest",
    "PrivacyWish",
    "Solution",
    "WishAnswer",
    "WishRequest",
    "answer_plan",
    "answer_wish",
    "background",
    "certificate",
    "create_app",
    "is_loopback",
    "make_plan",
    "notebook_view",
    "openapi",
    "serve",
    "solve",
]

_SERVING = {"background": "_serve", "create_app": "_app", "serve": "_serve"}
_NEEDED = ("anyio", "starlette", "uvicorn")


def __getattr__(name: str) -> Any:
    """Load what serves a page only when it is asked for, and name the extra that it needs."""
    if name not in _SERVING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for module in _NEEDED:
        need(module, extra="web")
    return getattr(import_module(f"{__name__}.server.{_SERVING[name]}"), name)


def __dir__() -> list[str]:
    """Everything that can be asked for."""
    return sorted(__all__)
