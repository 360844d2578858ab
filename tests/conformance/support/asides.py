"""A second session on PostgreSQL, for tests in which two transactions meet."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from uuid import uuid4

import psycopg

from stepwell import Stepwell
from stepwell.testing import ManualClock


class Aside:
    """Something that runs in a thread of its own, on connections of its own, until it waits for a lock or ends."""

    def __init__(self, url: str, clock: ManualClock, work: Callable[[Stepwell], Any]) -> None:
        self._name = f"aside {uuid4().hex[:12]}"
        self._url = f"{url}&application_name={self._name.replace(' ', '%20')}"
        self._clock = clock
        self._work = work
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            with Stepwell(self._url, clock=self._clock) as app:
                self._work(app)
        except BaseException as error:
            self._error = error

    def waits(self) -> None:
        """Return when it waits for a lock that somebody else holds."""
        with psycopg.connect(self._url.split("&application_name")[0], autocommit=True) as connection:
            while self._thread.is_alive():
                found = connection.execute(
                    "SELECT 1 FROM pg_stat_activity WHERE application_name = %s AND wait_event_type = 'Lock'",
                    (self._name,),
                ).fetchone()
                if found:
                    return
        self.ends()
        raise AssertionError("it ended without waiting for anybody")

    def waits_or_ends(self) -> None:
        """Return when it waits for a lock, or is over."""
        with suppress(AssertionError):
            self.waits()

    def ends(self) -> None:
        self._thread.join()
        if self._error is not None:
            raise self._error
