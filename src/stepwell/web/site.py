"""What every screen and every endpoint is given: the app, its settings, and how to ask the database."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, ParamSpec, TypeVar

import anyio.to_thread
from starlette.requests import Request

from stepwell import __version__
from stepwell.app import Stepwell
from stepwell.look.outline import Censuses
from stepwell.web.background import OperationRunner
from stepwell.web.guard.access import Access
from stepwell.web.visitor import Role, Visitor

P = ParamSpec("P")
T = TypeVar("T")

# How long one statement of a screen or an endpoint may read. A query that needs more is a mistake or a table without
# its index; a page that answers within two seconds is still a page.
READ_SECONDS: Final = 2.0
# Reads at once. The rest waits in order, so that a crowd of tabs takes no more than this from the workers.
MOST_READERS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One web application over one app."""

    app: Stepwell
    access: Access
    read_only: bool = False
    read_seconds: float = READ_SECONDS
    version: str = __version__
    censuses: Censuses = field(default_factory=Censuses)
    operations: OperationRunner = field(default_factory=OperationRunner)
    stopping: threading.Event = field(default_factory=threading.Event)  # streams end when it is set
    _readers: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(MOST_READERS))
    _writers: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(MOST_READERS))

    async def read(self, look: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Call a function that only reads, in a thread; each of its statements has `read_seconds`.

        What takes longer raises `ReadTookTooLong`.
        """
        return await _in_thread(partial(self._bounded, partial(look, *args, **named)), self._readers)

    async def act(self, change: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Call a function that writes, in a thread."""
        return await _in_thread(partial(change, *args, **named), self._writers)

    def _bounded(self, look: Callable[[], T]) -> T:
        with self.app.database.bounded(self.read_seconds):
            return look()

    def may(self, visitor: Visitor, role: Role) -> bool:
        """Whether a screen offers an action that needs this role."""
        return visitor.may(role) and not (self.read_only and role > Role.READ)


async def _in_thread(call: Callable[[], T], limiter: anyio.CapacityLimiter) -> T:
    return await anyio.to_thread.run_sync(call, limiter=limiter)


def visitor_of(request: Request) -> Visitor:
    """Who sends this request: the guard has recognised them."""
    visitor: Visitor = request.state.visitor
    return visitor


def form_of(request: Request) -> dict[str, str]:
    """The fields of a form that was sent, the last value of each; empty for any other request."""
    form: dict[str, str] = getattr(request.state, "form", {})
    return form
