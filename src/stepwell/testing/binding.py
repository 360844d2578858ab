"""Binding an app to another database for one test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stepwell.testing.clock import ManualClock

if TYPE_CHECKING:
    from stepwell.app import Stepwell
    from stepwell.model.clock import Clock


@contextmanager
def bound(app: Stepwell, url: str = "sqlite://", *, clock: Clock | None = None) -> Iterator[Stepwell]:
    """Bind an app to another database inside a `with` block; by default to a fresh one in memory, with a manual clock.

    The app is the same object with the same jobs, workflows and subscribers, so code that enqueues with it needs no
    change.

    >>> from stepwell import Stepwell
    >>> app = Stepwell("postgresql://production/orders")
    >>> @app.job
    ... def double(number: int) -> int:
    ...     return 2 * number
    >>> with bound(app):
    ...     handle = double.enqueue(21)
    ...     _ = app.run_until_idle()
    ...     print(handle.result())
    42
    """
    with app.bound_to(url, clock or ManualClock()):
        yield app
