"""Connections whose requests arrive too slowly are closed: a few hundred half-sent ones must not lock others out.

h11 refuses request lines and headers of more than 64 KiB; the guard limits the time of a body.
"""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

# From a connection, or the first byte of its next request, to the end of the headers.
HEADER_SECONDS: Final = 10.0


class PromptRequests(H11Protocol):
    """Closes a connection on which the headers of a request do not arrive in time."""

    header_seconds = HEADER_SECONDS
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_watching()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if not self._is_waiting():
            self._stop_watching()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.header_seconds, self._close_if_waiting)

    def _is_waiting(self) -> bool:
        """Whether no request is being answered."""
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        return cycle is None or cycle.response_complete

    def _close_if_waiting(self) -> None:
        self._deadline = None
        if self._is_waiting():
            self.transport.close()

    def _stop_watching(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
