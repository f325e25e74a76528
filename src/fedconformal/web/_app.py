"""The planner as a web application: one page, its assets, and the answers that the page asks for."""

import asyncio
import math
import threading
from collections.abc import Callable, Iterable

import anyio
from anyio import to_thread
from pydantic import TypeAdapter, ValidationError
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fedconformal.documents import first_problem
from fedconformal.web._render import read_asset, render
from fedconformal.web.planner import (
    AbandonedError,
    Card,
    PlanQuestion,
    answer_cases,
    answer_plan,
    answer_promises,
    make_plan,
    page_choices,
)

LOOPBACK = ("localhost", "127.0.0.1", "[")
"""Names of this machine alone; of an IPv6 address, the middleware compares what stands before a colon."""

MOST_BYTES = 128 * 1024
"""Size of the body of a request."""

_MOST_PLANS, _MOST_SEARCHES = 2, 1  # that run at a time
_GONE, _STOPPED = 499, 503  # nobody reads them
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_ASSETS = {
    "common.css": "text/css",
    "planner.css": "text/css",
    "planner.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
_CARDS = TypeAdapter(tuple[Card, ...])


def create_app(hosts: Iterable[str] = LOOPBACK) -> Starlette:
    """Return the planner as an ASGI application.

    Parameters
    ----------
    hosts : iterable of str
        Names that requests may call it by; others are refused.

    Returns
    -------
    Starlette
        The page, its files and its answers.

    Raises
    ------
    ValueError
        If a name holds a wildcard.

    Examples
    --------
    >>> import fedconformal as fc
    >>> type(fc.web.create_app()).__name__
    'Starlette'
    """
    names = list(hosts)
    if wild := [name for name in names if "*" in name]:
        raise ValueError(f"hosts must be names without *, got {wild[0]!r}")
    plans, searches = anyio.CapacityLimiter(_MOST_PLANS), anyio.CapacityLimiter(_MOST_SEARCHES)

    async def plan(request: Request) -> Response:
        question, compare = await _question(request), request.query_params.get("compare") == "yes"
        width = int(min(max(_number(request, "width", "720"), 280), 1200))

        def answer() -> Response:
            return _json(answer_plan(question, compare=compare, width=width).model_dump_json())

        return await _compute(request, searches if compare else plans, lambda _: answer())

    async def promises(request: Request) -> Response:
        question = await _question(request)
        return await _compute(request, searches, lambda _: _json(_CARDS.dump_json(answer_promises(question))))

    async def cases(request: Request) -> Response:
        question, coverage = await _question(request), _number(request, "coverage")
        return await _compute(
            request, searches, lambda gone: _json(answer_cases(question, coverage, gone).model_dump_json())
        )

    async def document(request: Request) -> Response:
        question = await _question(request)
        return await _compute(request, plans, lambda _: _json(make_plan(question).to_json() + "\n"))

    return Starlette(
        routes=[
            Route("/", _content(render("planner.html", **page_choices()), "text/html")),
            *(Route(f"/assets/{name}", _content(read_asset(name), kind)) for name, kind in _ASSETS.items()),
            *(
                Route(f"/api/{answer.__name__}", answer, methods=["POST"])
                for answer in (plan, promises, cases, document)
            ),
        ],
        middleware=[
            Middleware(_with_headers),
            Middleware(TrustedHostMiddleware, allowed_hosts=names, www_redirect=False),
        ],
        exception_handlers={HTTPException: _refuse},
    )


def _content(text: str, kind: str) -> Callable[[Request], Response]:
    return lambda request: Response(text, media_type=kind)


def _json(content: str | bytes) -> Response:
    return Response(content, media_type="application/json")


def _refuse(request: Request, error: Exception) -> Response:
    """Return a refusal with its reason in one sentence, under ``error``."""
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, status_code=error.status_code, headers=error.headers)


def _with_headers(app: ASGIApp) -> ASGIApp:
    """Add the headers that every answer carries."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        await app(scope, receive, send_with_headers)

    return call


def _number(request: Request, name: str, default: str = "nan") -> float:
    try:
        number = float(request.query_params.get(name, default))
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise HTTPException(422, f"{name} must be a number")
    return number


async def _question(request: Request) -> PlanQuestion:
    """Read a question; only JSON is taken, which no page of another origin can send."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "the body must be JSON, with the content type application/json")
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MOST_BYTES:
                raise HTTPException(422, f"the body may have up to {MOST_BYTES // 1024} KB")
        return PlanQuestion.model_validate_json(bytes(body))
    except ClientDisconnect:
        raise HTTPException(400, "the request was cut short") from None
    except ValidationError as error:
        raise HTTPException(422, first_problem(error).removeprefix("content: ")) from None


async def _compute(
    request: Request, lane: anyio.CapacityLimiter, work: Callable[[Callable[[], bool]], Response]
) -> Response:
    """Work in a thread, a few at a time, until nobody waits for the answer any more."""
    gone = threading.Event()

    async def watch() -> None:
        while not await request.is_disconnected():
            await asyncio.sleep(0.1)
        gone.set()

    def unless_gone() -> Response:
        return Response(status_code=_GONE) if gone.is_set() else work(gone.is_set)

    watching = asyncio.ensure_future(watch())
    try:
        return await to_thread.run_sync(unless_gone, limiter=lane, abandon_on_cancel=True)
    except AbandonedError:
        return Response(status_code=_GONE)
    except asyncio.CancelledError:  # the server is being stopped, and a search waits for nobody
        return Response(status_code=_STOPPED)
    except ValueError as error:
        return JSONResponse({"error": str(error)}, status_code=422)
    finally:
        gone.set()
        watching.cancel()
