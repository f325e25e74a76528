"""Who may ask, and what every answer carries: checks before a request is looked at."""

from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fedconformal.web.server._hosts import host_name

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
"""What every answer carries."""


class Guard:
    """Refuses names that this server does not go by, and requests that other sites' pages send.

    A page from elsewhere can make a browser send requests here: under a name that it lets point to this
    machine, which the Host header shows, or across origins, which the Origin header shows.

    Parameters
    ----------
    app : ASGI application
        What is guarded.
    hosts : iterable of str
        Names that requests may call it by.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        self.app = app
        self.hosts = {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is in order."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refusal(Headers(scope=scope))
        await (refusal or self.app)(scope, receive, send_with_headers)

    def _refusal(self, headers: Headers) -> JSONResponse | None:
        host = headers.get("host", "")
        if host_name(host) not in self.hosts:
            return refused(421, "this server does not go by the name in the Host header; see --allow-host")
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2].lower() != host.lower():
            return refused(403, "requests from other origins are not answered")
        return None


def refused(status: int, sentence: str) -> JSONResponse:
    """Return a refusal, with its reason in one sentence.

    Parameters
    ----------
    status : int
        The HTTP status.
    sentence : str
        The reason.

    Returns
    -------
    JSONResponse
        The sentence under ``error``.
    """
    return JSONResponse({"error": sentence}, status_code=status)
