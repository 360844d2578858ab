"""Async connections: the code that creates steps runs in a thread, and each of its statements on the event loop.

`asyncio` is imported where it is used: programs without an event loop start without it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from stepwell.store.callers import driver_connection, is_async

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OnLoop:
    """An async connection of a driver, and the event loop that it belongs to."""

    connection: Any
    loop: asyncio.AbstractEventLoop

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the connection from another thread than that of the loop."""
        import asyncio

        return asyncio.run_coroutine_threadsafe(call, self.loop).result()


async def without_blocking(given: Any, work: Callable[[Any], T]) -> T:
    """Call `work` with the connection behind what the caller gave, or with None, in another thread.

    Only a sync connection is used in the calling thread, because it may belong to it.
    """
    import asyncio

    if given is None:
        return await asyncio.to_thread(work, None)
    connection = await async_driver_connection(given)
    if not is_async(connection):
        return work(given)
    on_loop = OnLoop(connection, asyncio.get_running_loop())
    thread = asyncio.ensure_future(asyncio.to_thread(work, on_loop))
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        # The thread must not go on to write after the caller has rolled back.
        await asyncio.wait([thread])
        raise


async def async_driver_connection(given: Any) -> Any:
    """What `driver_connection` returns, also for the async session and connection of SQLAlchemy."""
    if hasattr(given, "sync_session"):
        given = await given.connection()
    if not hasattr(given, "get_raw_connection"):
        return given if is_async(given) else driver_connection(given)
    if not given.in_transaction():
        await given.begin()
    return (await given.get_raw_connection()).driver_connection
