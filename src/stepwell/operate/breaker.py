"""The circuit breaker: a switch that stops the dispatch of Pending steps, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from stepwell.model.actors import By, actor_of, storable
from stepwell.model.errors import ActionRefused
from stepwell.model.times import MAX_SECONDS, seconds_of
from stepwell.store import Database, Transaction
from stepwell.store.audit import record_with_parameters
from stepwell.store.engine import settings

# How often a drain polls: often enough for a person who waits, rarely enough to cost nothing.
DRAIN_POLL_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class BreakerState:
    """Whether steps are dispatched; who set this, why and when, and until when a pause is planned."""

    dispatching: bool
    changed_by: str | None
    reason: str | None
    changed_at: datetime | None
    planned_end: datetime | None = None

    @property
    def planned(self) -> timedelta | None:
        """How long the pause was planned to last."""
        if self.planned_end is None or self.changed_at is None:
            return None
        return self.planned_end - self.changed_at

    def late(self, now: datetime) -> timedelta | None:
        """For how long a pause has outlasted its planned end; None: it has not, or it has none."""
        if self.dispatching or self.planned_end is None or now < self.planned_end:
            return None
        return now - self.planned_end


@dataclass(frozen=True, slots=True)
class RestartSafety:
    """Whether workers can be restarted now, and what prevents it."""

    dispatching: bool
    dispatched: int
    running: int

    @property
    def safe(self) -> bool:
        return not self.dispatching and self.dispatched == 0 and self.running == 0

    def __str__(self) -> str:
        if self.safe:
            return "safe to restart: dispatching is paused, no step is dispatched or running"
        reasons = [
            "dispatching is not paused" if self.dispatching else "",
            f"{self.dispatched} dispatched" if self.dispatched else "",
            f"{self.running} running their own code" if self.running else "",
        ]
        return f"not safe to restart: {', '.join(reason for reason in reasons if reason)}"


class Breaker:
    def __init__(self, database: Database) -> None:
        self._database = database

    def state(self) -> BreakerState:
        """A missing row counts as off."""
        row = self._database.read(settings.breaker_state)
        if row is None:
            return BreakerState(False, None, "the setting can_dispatch_steps is missing", None)
        planned_end = None if row.is_on else row.planned_end
        return BreakerState(row.is_on, row.changed_by, row.reason, row.changed_at, planned_end)

    def pause(self, who: str, why: str | None = None, *, planned: timedelta | float | None = None) -> None:
        """With `planned` (a timedelta, or seconds), the pause has a planned end, which is reported once it has passed.
        Only `resume` ends a pause."""
        self._set("pause", "false", who, why, _planned(planned))

    def resume(self, who: str, why: str | None = None) -> None:
        self._set("resume", "true", who, why)

    def _set(self, kind: str, value: str, who: str, why: str | None, planned: timedelta | None = None) -> None:
        """Who paused first, and why, stays until a resume; a later pause may move the planned end."""
        by = By(actor_of(who), why, self._database.now())
        end = None if planned is None else by.now + planned

        def work(tx: Transaction) -> None:
            if settings.set_breaker(tx, value=value, actor=by.actor, reason=storable(why), now=by.now, planned_end=end):
                record_with_parameters(tx, kind, by, {} if end is None else {"planned_end": end.isoformat()})

        self._database.transact(work)

    def safe_to_restart(self, group: str | None = None) -> RestartSafety:
        """Parents that only wait for their children do not count as running."""
        dispatching = self.state().dispatching
        counts = {"dispatched": 0, "running": 0}
        for row in self._database.read(settings.in_flight):
            if group is None or row.group == group:
                counts[row.status] += row.steps
        return RestartSafety(dispatching, counts["dispatched"], counts["running"])

    def drain(
        self,
        who: str,
        why: str | None = None,
        *,
        planned: timedelta | float | None = None,
        timeout: float | None = None,
        watch: Callable[[RestartSafety], None] | None = None,
        stop: threading.Event | None = None,
    ) -> RestartSafety:
        """Pause, then wait until a restart is safe or `timeout` is over. Dispatchers and workers must keep running."""
        if planned is not None or self.state().dispatching:
            self.pause(who, why, planned=planned)
        clock = self._database.clock
        deadline = None if timeout is None else clock.monotonic() + timeout
        while True:
            safety = self.safe_to_restart()
            if watch is not None:
                watch(safety)
            over = deadline is not None and clock.monotonic() >= deadline
            if safety.safe or over or (stop is not None and stop.is_set()):
                return safety
            clock.sleep(DRAIN_POLL_SECONDS)


def _planned(given: timedelta | float | None) -> timedelta | None:
    if given is None:
        return None
    seconds = seconds_of(given)
    if seconds is None or not 0 < seconds <= MAX_SECONDS:
        raise ActionRefused(f"`planned` is {str(given)[:80]!r}, not a duration above 0; nothing changed")
    return timedelta(seconds=seconds)
