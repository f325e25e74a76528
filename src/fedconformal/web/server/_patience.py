"""Connections that send half a question and then nothing: closed after a while."""

import asyncio
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class Patience(H11Protocol):
    """HTTP as uvicorn speaks it, with a limit on how long the head of a request may take to arrive.

    Uvicorn itself waits for it without end, so that a few hundred idle connections keep everybody else out.
    """

    seconds: ClassVar[float] = 10.0
    """How long the head of a request may take, from the first connection or its first byte on."""

    _alarm: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Go on waiting until the head is whole."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop()
        elif self._alarm is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._alarm = self.loop.call_later(self.seconds, self.transport.close)

    def _stop(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None


def patience(seconds: float) -> type[Patience]:
    """The same with another limit.

    Parameters
    ----------
    seconds : float
        How long the head of a request may take.

    Returns
    -------
    type
        For uvicorn's option ``http``.
    """
    return type("Patience", (Patience,), {"seconds": seconds})
