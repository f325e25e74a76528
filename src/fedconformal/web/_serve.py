"""The planner on a port of this machine."""

import socket
import threading
import webbrowser
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette

from fedconformal._validation import integer
from fedconformal.web._app import LOOPBACK, create_app

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
        Whether to open the page in a browser.
    announce : callable
        Gets the address of the page as soon as it can be asked for.

    Raises
    ------
    ValueError
        If the port is no number of a port, or the address or the port cannot be had.

    Examples
    --------
    It waits for questions until Ctrl-C; `background` does not wait. A port that cannot be had is refused:

    >>> from fedconformal.web import serve
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
    >>> from fedconformal.web import background
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
