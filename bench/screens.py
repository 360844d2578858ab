"""Every screen of the dashboard and every list of the API, as questions of `bench.million`.

A request is answered in the thread that asks, so that what the database reads for it can be counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from typing import Any, Final
from unittest.mock import patch

from stepwell import Stepwell
from stepwell.web import Application, Role, Visitor, application

SCREENS: Final = (
    "/", "/steps", "/steps?state=Completed", "/steps?state=Failed", "/steps?args.customer.id=7", "/steps/1000",
    "/failures", "/operations", "/workflows", "/schedules", "/workers", "/groups", "/groups/alpha", "/ticks", "/shares",
    "/deploy", "/api",
)  # fmt: skip
LISTS: Final = (
    "totals", "hosts", "classes", "queues", "minutes", "estimate", "failures", "groups", "workers", "unserved", "ticks",
    "steps", "steps?state=Completed", "steps?state=Failed", "workflows", "schedules", "operations",
)  # fmt: skip


def asks(path: str) -> Callable[[Stepwell], int]:
    def ask(app: Stepwell) -> int:
        made = application(app, recognise=lambda scope: Visitor("ann", Role.ADMIN))
        with _in_this_thread():
            return asyncio.run(_size_of(made, path))

    return ask


async def _size_of(made: Application, path: str) -> int:
    """The bytes of an answer, which must be a page or a list."""
    place, _, query = path.partition("?")
    scope = {
        "type": "http", "method": "GET", "path": place, "raw_path": place.encode(), "query_string": query.encode(),
        "root_path": "", "scheme": "http", "http_version": "1.1", "headers": [(b"host", b"localhost")],
        "server": ("localhost", 80), "client": ("127.0.0.1", 1),
    }  # fmt: skip
    messages: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        messages.append(message)

    await made(scope, receive, send)
    if messages[0]["status"] != 200:
        raise RuntimeError(f"{path}: status {messages[0]['status']}")
    return sum(len(message.get("body", b"")) for message in messages)


@contextmanager
def _in_this_thread() -> Any:
    async def call_here(call: Callable[[], Any], limiter: Any) -> Any:
        return call()

    # The limit of a read counts instructions as well: SQLite calls one function only.
    with (
        patch("stepwell.web.site._in_thread", call_here),
        patch("stepwell.store.database.Database.bounded", lambda database, seconds: nullcontext()),
        # It must be the first statement of its transaction, which is the one that counts.
        patch("stepwell.store.engine.sweep.use_one_snapshot", lambda tx: None),
    ):
        yield


PAGES: Final = {
    **{f"screen {path}": asks(f"/step-dispatcher{path}") for path in SCREENS},
    **{f"API {name}": asks(f"/api/v1/{name}") for name in LISTS},
}
