"""The changes of all steps as server-sent events, for programs.

The history is polled by its ids, so changes of every process are seen. On PostgreSQL a row can become visible after one
with a higher id; ids of the last seconds are therefore read again, and each is sent once. After a reconnect with
`Last-Event-ID`, changes of those seconds can be sent a second time: their ids tell.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Final

import anyio
import msgspec
from msgspec import Meta, Struct, structs
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from stepwell.model.errors import StepwellError
from stepwell.model.ids import LARGEST_ID
from stepwell.model.states import State
from stepwell.store.engine.reading import StepChange
from stepwell.web.api.inputs import Name, Uuid, read_query
from stepwell.web.problems import HttpProblem
from stepwell.web.site import Site, visitor_of

POLL_SECONDS: Final = 0.5
PING_SECONDS: Final = 15.0
# The longest that a transaction which writes history may take and still be seen in order of its ids.
LATE_SECONDS: Final = 10.0
WINDOW: Final = 2_000  # rows that are read again, at most
BATCH: Final = 500  # new rows of one read
MOST_STREAMS: Final = 32


class StreamQuery(Struct):
    """Which changes to send; `after` is the id of a change."""

    after: Annotated[int, Meta(ge=0, le=LARGEST_ID)] | None = None
    action: Name | None = None
    workflow: Uuid | None = None
    state: list[State] = []


class Follower:
    """Reads the history from an id on, each row once."""

    def __init__(self, after: int, late_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.complete_to = after  # everything up to here was read, and nothing can appear before it
        self._seen: dict[int, float] = {}
        self._late_seconds = late_seconds
        self._clock = clock

    def take(self, rows: list[StepChange]) -> list[StepChange]:
        """The rows that are new."""
        now = self._clock()
        new = [row for row in rows if row.id not in self._seen]
        self._seen.update((row.id, now) for row in new)
        old = max((id for id, since in self._seen.items() if now - since >= self._late_seconds), default=0)
        excess = sorted(self._seen)[:-WINDOW]
        self.complete_to = max(self.complete_to, old, *excess[-1:])
        self._seen = {id: since for id, since in self._seen.items() if id > self.complete_to}
        return new


class Streams:
    """All open streams of a site."""

    def __init__(self, site: Site, has_ended: Callable[[str], Awaitable[bool]]) -> None:
        self._site = site
        self._has_ended = has_ended
        self._open = 0

    def route(self) -> Route:
        return Route("/events", self._serve, methods=["GET"], name="events")

    async def _serve(self, request: Request) -> Response:
        query: StreamQuery = read_query(request, StreamQuery)
        if self._open >= MOST_STREAMS:
            raise HttpProblem(
                503, f"{MOST_STREAMS} streams are open, which is the maximum", "close one, or poll instead"
            )
        last = request.headers.get("last-event-id", "")
        after = int(last) if last.isdecimal() and len(last) < 19 else query.after
        if after is None:
            after = await self._site.read(self._newest)
        headers = {"X-Accel-Buffering": "no"}
        if request.method == "HEAD":
            return Response(media_type="text/event-stream", headers=headers)
        return StreamingResponse(self._events(request, query, after), media_type="text/event-stream", headers=headers)

    async def _has_signed_out(self, request: Request) -> bool:
        session = visitor_of(request).session
        try:
            return bool(session) and await self._has_ended(session)
        except HttpProblem:  # the database does not answer: there is nothing to send either
            return False

    def _newest(self) -> int:
        return self._site.app.reader.newest_change()

    async def _events(self, request: Request, query: StreamQuery, after: int) -> AsyncIterator[bytes]:
        late_seconds = 0.0 if self._site.app.database.has_one_writer else LATE_SECONDS
        follower, pinged = Follower(after, late_seconds), time.monotonic()
        self._open += 1
        try:
            yield f": changes after {after}\nretry: 2000\n\n".encode()
            while not self._site.stopping.is_set() and not await request.is_disconnected():
                try:
                    rows = await self._site.read(self._read, follower.complete_to)
                except StepwellError as error:
                    yield f": {_line(str(error))}\n\n".encode()
                    await anyio.sleep(PING_SECONDS)
                    continue
                before, new = follower.complete_to, follower.take(rows)
                for row in new:
                    if _matches(row, query):
                        yield self._event(row, before if late_seconds else row.id)
                if time.monotonic() - pinged > PING_SECONDS:
                    pinged = time.monotonic()
                    if await self._has_signed_out(request):
                        return
                    yield b": ping\n\n"
                if len(new) < BATCH:
                    await anyio.sleep(POLL_SECONDS)
        finally:
            self._open -= 1

    def _read(self, after: int) -> list[StepChange]:
        return self._site.app.reader.changes_after(after, WINDOW + BATCH)

    def _event(self, row: StepChange, resume_after: int) -> bytes:
        """The id is what the client sends after a reconnect: nothing after it may be lost."""
        shown = structs.replace(row, reason=self._site.app.redaction.text(row.reason))
        data = msgspec.json.encode(shown)
        return b"id: %d\nevent: step\ndata: %b\n\n" % (resume_after, data)


def _matches(row: StepChange, query: StreamQuery) -> bool:
    return (
        (query.action is None or row.action == query.action)
        and (query.workflow is None or row.workflow_id == query.workflow.lower())
        and (not query.state or row.to_state in query.state)
    )


def _line(text: str) -> str:
    return " ".join(text.split())
