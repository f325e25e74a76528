"""The planner as a web application, and on a port of this machine."""

import asyncio
import socket
import threading
import webbrowser
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from fedconformal._util import integer
from fedconformal.documents import Report
from fedconformal.pages._answer import answer_page
from fedconformal.pages._desk import DESK, FILES
from fedconformal.pages._promises import page_choices
from fedconformal.pages._render import read_asset, render
from fedconformal.pages._worker import ANSWERS, Reply, Workers, refuse
from fedconformal.rounds import PLAN_FILE

# -- the planner as a web application: one page, its assets, and the answers that the pa


LOOPBACK = ("localhost", "127.0.0.1", "[")
"""Names of this machine alone; of an IPv6 address, the middleware compares what stands
before a colon.
"""

MOST_BYTES = 128 * 1024
"""Size of the body of a request."""

_LARGE = {"receive": Report.limit.largest}  # the same where it is more
_SEARCHES = ("promises", "cases")

TOO_MUCH = (
    "the answer takes more time or memory than there is for one question here; the"
    " command line has no limit"
)
_MOST_PLANS, _MOST_SEARCHES = 2, 1  # that run at a time
_PATIENCE = 10.0  # seconds for a client to send a request, and to read the answer
_GRACE = (
    0.5  # seconds for an answer that nobody waits for: a new worker would take as long
)
# how much longer an answer may take on a busy machine, or where time cannot be limited
_TIMES_BUSY = 6
_GONE, _STOPPED = 499, 503  # nobody reads them
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
        " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors"
        " 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_FILE_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; sandbox allow-downloads;"
    " frame-ancestors 'none'"
)
_TO_BE_SAVED = {
    "Content-Disposition": 'attachment; filename="answer.html"'
}  # it does not run here
_ASSETS = {
    "common.css": "text/css",
    "planner.css": "text/css",
    "planner.js": "text/javascript",
    "desk.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}


def create_app(
    hosts: Iterable[str] = LOOPBACK,
    *,
    folder: str | Path | None = None,
    seconds: float = 10.0,
) -> Starlette:
    """Return the planner as an ASGI application.

    Parameters
    ----------
    hosts : iterable of str
        Names that requests may call it by; others are refused.
    folder : str or Path, optional
        Where the documents of a calibration are kept: with a plan there, the page goes
        on from it. Left out, nothing is kept, and the page plans only.
    seconds : float
        Time on the processor for one answer; a question that takes longer is refused.

    Returns
    -------
    Starlette
        The page, its files and its answers, which are computed in processes of their
        own.

    Raises
    ------
    ValueError
        If a name holds a wildcard, or ``folder`` is a file.

    Examples
    --------
    >>> import fedconformal as fc
    >>> type(fc.pages.create_app()).__name__
    'Starlette'
    """
    names = list(hosts)
    if wild := [name for name in names if "*" in name]:
        raise ValueError(f"hosts must be names without *, got {wild[0]!r}")
    plans, searches = (
        anyio.CapacityLimiter(_MOST_PLANS),
        anyio.CapacityLimiter(_MOST_SEARCHES),
    )
    kept = None if folder is None else Path(folder).resolve()
    if kept is not None and kept.exists() and not kept.is_dir():
        raise ValueError(f"folder must be a folder, got {folder}")
    workers = Workers(seconds, kept)
    planner = _content(render("planner.html", **page_choices(kept)))
    desk = _content(render("desk.html", folder=kept, most=_LARGE["receive"]))

    def page(request: Request) -> Response:
        is_planned = kept is not None and (kept / PLAN_FILE).exists()
        return (desk if is_planned else planner)(request)

    @asynccontextmanager
    async def keep_workers(app: Starlette) -> AsyncIterator[None]:
        for _ in range(_MOST_PLANS):
            await workers.start()
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await workers.stop()

    def route(name: str) -> Route:
        async def answer(request: Request) -> Response:
            body = await _body(request, _LARGE.get(name, MOST_BYTES))
            is_search = (
                name in _SEARCHES or request.query_params.get("compare") == "yes"
            )
            return await _compute(
                request, name, body, searches if is_search else plans, workers
            )

        return Route(f"/api/{name}", answer, methods=["POST"])

    return Starlette(
        routes=[
            Route("/", page),
            Route("/planner", planner),
            *(
                Route(f"/assets/{name}", _content(read_asset(name), kind))
                for name, kind in _ASSETS.items()
            ),
            *map(route, ANSWERS if kept is None else (*ANSWERS, *DESK)),
            Route("/files/answer.html", _content(answer_page(), headers=_TO_BE_SAVED)),
            *(
                _file(kept / name, kind)
                for name, kind in FILES.items()
                if kept is not None
            ),
        ],
        middleware=[
            Middleware(_with_headers),
            Middleware(TrustedHostMiddleware, allowed_hosts=names, www_redirect=False),
        ],
        exception_handlers={HTTPException: _refuse},
        lifespan=keep_workers,
    )


def _content(
    text: str, kind: str = "text/html", headers: dict[str, str] | None = None
) -> Callable[[Request], Response]:
    return lambda request: Response(text, media_type=kind, headers=headers)


def _refuse(request: Request, error: Exception) -> Response:
    """Return a refusal with its reason in one sentence, under ``error``."""
    assert isinstance(error, HTTPException)
    return JSONResponse(
        {"error": error.detail}, status_code=error.status_code, headers=error.headers
    )


def _with_headers(app: ASGIApp) -> ASGIApp:
    """Add the headers that every answer carries."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await app(scope, receive, send_with_headers)

    return call


def _file(path: Path, kind: str) -> Route:
    """Return the route of a file of the desk, which may run no script, whoever wrote
    it.
    """

    def answer(request: Request) -> Response:
        if not path.is_file() or path.is_symlink():
            raise HTTPException(404, f"{path.name} is not there")
        return FileResponse(
            path, media_type=kind, headers={"Content-Security-Policy": _FILE_POLICY}
        )

    return Route(f"/files/{path.name}", answer)


async def _body(request: Request, most: int) -> bytes:
    """Read a question; only JSON is taken, which no page of another origin can send."""
    host = request.headers.get("origin", "").partition("://")[2]
    if "origin" in request.headers and host != request.headers.get("host"):
        raise HTTPException(403, "a page of another origin may not ask")
    if (
        request.headers.get("content-type", "").partition(";")[0].strip().lower()
        != "application/json"
    ):
        raise HTTPException(
            415, "the body must be JSON, with the content type application/json"
        )
    body = bytearray()
    try:
        with anyio.fail_after(_PATIENCE):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    raise HTTPException(
                        422, f"the body may have up to {most // 1024} KB"
                    )
    except ClientDisconnect:
        raise HTTPException(400, "the request was cut short") from None
    except TimeoutError:
        raise HTTPException(
            408, f"the body must arrive within {_PATIENCE} seconds"
        ) from None
    return bytes(body)


async def _compute(
    request: Request,
    name: str,
    body: bytes,
    lane: anyio.CapacityLimiter,
    workers: Workers,
) -> Response:
    """Let a worker answer, a few at a time, until it takes too long or nobody waits any
    more.
    """
    reply = Reply(_GONE, "text/plain", "")

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        limit(_GRACE)

    def limit(seconds: float) -> None:
        group.cancel_scope.deadline = min(
            group.cancel_scope.deadline, anyio.current_time() + seconds
        )

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            async with lane:
                limit(_TIMES_BUSY * workers.seconds)
                reply = refuse(TOO_MUCH)
                reply = await workers.ask(name, body, request.query_params) or reply
            group.cancel_scope.cancel()
    except (
        asyncio.CancelledError
    ):  # the server is being stopped, and waits for no answer
        return Response(status_code=_STOPPED)
    return Response(reply.text, reply.status, media_type=reply.kind)


# -- the planner on a port of this machine ---------------------------------------------


_MOST_CONNECTIONS = 256


class Connection(H11Protocol):
    """Connection that is cut when its client is slow to send the head of a request or
    to read an answer.
    """

    patience = _PATIENCE
    _deadline: asyncio.TimerHandle | None = None

    def _limit(self, *, waits_for_client: bool) -> None:
        """Begin to wait for the client, unless that has begun already, or end it."""
        if not waits_for_client and self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        elif waits_for_client and self._deadline is None:
            self._deadline = self.loop.call_later(self.patience, self.transport.abort)

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Refuse one connection too many without a word, as words would need it."""
        super().connection_made(transport)
        if len(self.connections) > _MOST_CONNECTIONS:
            transport.abort()
        else:
            self._limit(waits_for_client=True)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline."""
        super().connection_lost(exc)
        self._limit(waits_for_client=False)

    def handle_events(self) -> None:
        """Stop to wait as soon as there is a request."""
        super().handle_events()
        if self._is_answering and not self.flow.write_paused:
            self._limit(waits_for_client=False)

    def on_response_complete(self) -> None:
        """Wait for the answer to be read, and for the next request."""
        self._limit(waits_for_client=False)
        self._limit(waits_for_client=True)
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        self._limit(waits_for_client=True)

    def resume_writing(self) -> None:
        """Stop to wait, unless there is nothing but the client to wait for."""
        super().resume_writing()
        if self._is_answering:
            self._limit(waits_for_client=False)


def serve(
    *,
    host: str = "127.0.0.1",
    port: int = 8484,
    allow_hosts: Iterable[str] = (),
    folder: str | Path | None = None,
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
    folder : str or Path, optional
        Where the documents of a calibration are kept, from the plan to later checks.
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
    It waits for questions until Ctrl-C; `background` does not wait. A port that cannot
    be had is refused:

    >>> from fedconformal.pages import serve
    >>> serve(port=84840)
    Traceback (most recent call last):
    ValueError: port must be between 0 and 65535, got 84840
    """
    number = integer("port", port, low=0, high=65535)
    app = create_app({*LOOPBACK, host, *allow_hosts}, folder=folder)
    listening = _listen(host, number)
    address = _address(host, listening)
    announce(address)
    if browse:
        webbrowser.open(address)
    try:
        _server(app).run(sockets=[listening])
    except KeyboardInterrupt:  # how a person stops it
        pass
    finally:
        listening.close()


@contextmanager
def background(app: Starlette | None = None) -> Iterator[str]:
    """Serve the planner in a thread of this process, on a free port of this machine.

    Parameters
    ----------
    app : Starlette, optional
        What `create_app` returned, for other than its usual options.

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
    server = _server(app or create_app())
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listening]}, daemon=True
    )
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
        http=Connection,
        ws="none",
        log_level="warning",
        server_header=False,
        lifespan="on",
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
            f"port {port} of {host}: {error.strerror or error}; --port 0 takes any free"
            " port"
        ) from None
    return listening
