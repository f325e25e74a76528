"""The planner as a web application, and on a port of this machine."""

import asyncio
import math
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import anyio
import uvicorn
from anyio import to_thread
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fedconformal._util import integer
from fedconformal.documents import first_problem
from fedconformal.pages._planner import AbandonedError, answer_cases, answer_plan, make_plan
from fedconformal.pages._promises import answer_promises, page_choices
from fedconformal.pages._question import PlanQuestion
from fedconformal.pages._render import read_asset, render

# -- the planner as a web application: one page, its assets, and the answers that the page asks for --------


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
    >>> type(fc.pages.create_app()).__name__
    'Starlette'
    """
    names = list(hosts)
    if wild := [name for name in names if "*" in name]:
        raise ValueError(f"hosts must be names without *, got {wild[0]!r}")
    plans, searches = anyio.CapacityLimiter(_MOST_PLANS), anyio.CapacityLimiter(_MOST_SEARCHES)

    async def plan(request: Request) -> Response:
        question, compare = await _question(request), request.query_params.get("compare") == "yes"
        width = int(min(max(_number(request, "width", "720"), 280), 1200))
        return await _compute(
            request,
            searches if compare else plans,
            lambda _: HTMLResponse(answer_plan(question, compare=compare, width=width)),
        )

    async def promises(request: Request) -> Response:
        question = await _question(request)
        return await _compute(request, searches, lambda _: HTMLResponse(answer_promises(question)))

    async def cases(request: Request) -> Response:
        question, coverage = await _question(request), _number(request, "coverage")
        return await _compute(
            request, searches, lambda gone: PlainTextResponse(answer_cases(question, coverage, gone))
        )

    async def document(request: Request) -> Response:
        question = await _question(request)
        return await _compute(
            request,
            plans,
            lambda _: Response(make_plan(question).to_json() + "\n", media_type="application/json"),
        )

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


# -- the planner on a port of this machine -----------------------------------------------------------------


_MOST_CONNECTIONS = 1024


def serve(
    *,
    host: str = "127.0.0.1",
    port: int = 8484,
    allow_hosts: Iterable[str] = (),
    browse: bool = True,
    announce: Callable[[str], None] = print,
) -> None:
    """Serve the planner until it is stopped.

    Parameters
    ----------
    host : str
        Address to listen at; the default is this machine alone.
    port : int
        Port; 0 takes any that is free.
    allow_hosts : iterable of str
        Further names that requests may call this server by.
    browse : bool
        True to open the page in a browser.
    announce : callable
        Gets the address of the page as soon as it can be asked for.

    Raises
    ------
    ValueError
        If the port is no number of a port, or the address or the port cannot be had.

    Examples
    --------
    It waits for questions until Ctrl-C; `background` does not wait. A port that cannot be had is refused:

    >>> from fedconformal.pages import serve
    >>> serve(port=84840)
    Traceback (most recent call last):
    ValueError: port must be between 0 and 65535, got 84840
    """
    listening = _listen(host, integer("port", port, low=0, high=65535))
    address = _address(host, listening)
    announce(address)
    if browse:
        webbrowser.open(address)
    try:
        _server(create_app({*LOOPBACK, host, *allow_hosts})).run(sockets=[listening])
    except KeyboardInterrupt:  # how a person stops it
        pass
    finally:
        listening.close()


@contextmanager
def background() -> Iterator[str]:
    """Serve the planner in a thread of this process, on a free port of this machine.

    Yields
    ------
    str
        The address of the page.

    Examples
    --------
    >>> from urllib.request import urlopen
    >>> from fedconformal.pages._server import background
    >>> with background() as address, urlopen(address) as page:
    ...     print(page.status)
    200
    """
    listening = _listen("127.0.0.1", 0)
    server = _server(create_app())
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield _address("127.0.0.1", listening)
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def _server(app: Starlette) -> uvicorn.Server:
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        log_level="warning",
        limit_concurrency=_MOST_CONNECTIONS,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config)


def _address(host: str, listening: socket.socket) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listening.getsockname()[1]}/"


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ValueError(f"host {host!r}: {error.strerror or error}") from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_MOST_CONNECTIONS)
    except OSError as error:
        listening.close()
        raise ValueError(
            f"port {port} of {host}: {error.strerror or error}; --port 0 takes any free port"
        ) from None
    return listening
