"""The planner as a web application: one page, its assets, and a small JSON API."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TypeVar

import anyio
from anyio import to_thread
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fedconformal.documents import first_problem
from fedconformal.web.planner import (
    MOST_BYTES,
    AbandonedError,
    Message,
    PlanQuestion,
    PlanRequest,
    WishRequest,
    answer_plan,
    answer_promises,
    answer_wish,
    is_quick,
    make_plan,
)
from fedconformal.web.server._guard import Guard, refused
from fedconformal.web.server._hosts import LOOPBACK
from fedconformal.web.server._openapi import openapi
from fedconformal.web.server._page import page_files

_QUICK, _SLOW = 2, 1
"""Computations that run at a time: drafts and plans of equal sites, and everything that may take seconds."""

_SECONDS_TO_SEND = 10
_GONE, _STOPPED = 499, 503  # nobody reads them

Asked = TypeVar("Asked", bound=Message)


def create_app(hosts: Iterable[str] = LOOPBACK) -> Starlette:
    """Return the planner as an ASGI application.

    Parameters
    ----------
    hosts : iterable of str
        Names that requests may call it by; others are refused.

    Returns
    -------
    Starlette
        The page, its files and the API.

    Examples
    --------
    >>> import fedconformal as fc
    >>> type(fc.web.create_app()).__name__
    'Starlette'
    """
    api = _Api()
    routes = [
        *(Route(path, partial(_file, *file), methods=["GET"]) for path, file in page_files().items()),
        Route("/openapi.json", _schema, methods=["GET"]),
        Route("/api/plan", api.plan, methods=["POST"]),
        Route("/api/promises", api.promises, methods=["POST"]),
        Route("/api/wish", api.wish, methods=["POST"]),
        Route("/api/document", api.document, methods=["POST"]),
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(Guard, hosts=tuple(hosts))],
        exception_handlers={HTTPException: _http_error},
    )


async def _file(content: bytes, kind: str, request: Request) -> Response:
    return Response(content, media_type=kind)


async def _schema(request: Request) -> Response:
    return JSONResponse(openapi())


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    response = refused(error.status_code, error.detail)
    response.headers.update(error.headers or {})
    return response


class _Api:
    """Computations, a few at a time, off the event loop."""

    def __init__(self) -> None:
        self._quick, self._slow = anyio.Semaphore(_QUICK), anyio.Semaphore(_SLOW)
        self._wishes = anyio.Semaphore(_SLOW)

    async def plan(self, request: Request) -> Response:
        """Words, numbers and a picture."""
        question = await _read(request, PlanRequest)
        is_slow = question.compare or not is_quick(question)
        lane = self._slow if is_slow and not question.draft else self._quick
        return await _compute(request, lane, lambda: _json(answer_plan(question)))

    async def promises(self, request: Request) -> Response:
        """All promises side by side."""
        question = await _read(request, PlanQuestion)
        return await _compute(request, self._wishes, lambda: _json(answer_promises(question)))

    async def wish(self, request: Request) -> Response:
        """What would be enough."""
        question = await _read(request, WishRequest)
        gone = threading.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(_watch, request, gone)
            response = await _compute(
                request, self._wishes, lambda: _json(answer_wish(question, gone.is_set))
            )
            group.cancel_scope.cancel()
        return response

    async def document(self, request: Request) -> Response:
        """The plan as a document."""
        question = await _read(request, PlanQuestion)

        def write() -> Response:
            headers = {"Content-Disposition": 'attachment; filename="plan.json"'}
            return Response(
                make_plan(question).to_json() + "\n", media_type="application/json", headers=headers
            )

        return await _compute(request, self._slow, write)


def _json(content: Message) -> Response:
    return Response(content.model_dump_json(), media_type="application/json")


async def _watch(request: Request, gone: threading.Event) -> None:
    """Notice when nobody waits any more."""
    while not await request.is_disconnected():
        await anyio.sleep(0.1)
    gone.set()


async def _compute(request: Request, lane: anyio.Semaphore, work: Callable[[], Response]) -> Response:
    """Wait for a place, then work in a thread, unless nobody waits for the answer any more."""
    async with lane:
        if await request.is_disconnected():
            return Response(status_code=_GONE)
        try:
            return await to_thread.run_sync(work, abandon_on_cancel=True)
        except AbandonedError:
            return Response(status_code=_GONE)
        except asyncio.CancelledError:  # the server is being stopped, and a search waits for nobody
            return Response(status_code=_STOPPED)
        except ValueError as error:
            return refused(422, str(error))


async def _read(request: Request, kind: type[Asked]) -> Asked:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "the body must be JSON, with the content type application/json")
    body = await _within_time(_body(request))
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise HTTPException(422, first_problem(error).removeprefix("content: ")) from None


async def _within_time(reading: Awaitable[bytes]) -> bytes:
    try:
        with anyio.fail_after(_SECONDS_TO_SEND):
            return await reading
    except TimeoutError:
        raise HTTPException(408, f"the body must arrive within {_SECONDS_TO_SEND} seconds") from None
    except ClientDisconnect:
        raise HTTPException(400, "the request was cut short") from None


async def _body(request: Request) -> bytes:
    chunks = bytearray()
    async for chunk in request.stream():
        chunks += chunk
        if len(chunks) > MOST_BYTES:
            raise HTTPException(422, f"the body may have up to {MOST_BYTES // 1024} KB")
    return bytes(chunks)
