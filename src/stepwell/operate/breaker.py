"""The circuit breaker: a switch that stops the dispatch of Pending steps, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from stepwell.model.actors import By, actor_of, storable
from stepwell.operate.audit import record_operation
from stepwell.store import Database, Transaction
from stepwell.store.engine import settings

# How often a drain polls: often enough for a person who waits, rarely enough to cost nothing.
DRAIN_POLL_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class BreakerState:
    """Whether steps are dispatched; who set this, why and when."""

    dispatching: bool
    changed_by: str | None
    reason: str | None
    changed_at: datetime | None


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
        return BreakerState(row.is_on, row.changed_by, row.reason, row.changed_at)

    def pause(self, who: str, why: str | None = None) -> None:
        self._set("pause", "false", who, why)

    def resume(self, who: str, why: str | None = None) -> None:
        self._set("resume", "true", who, why)

    def _set(self, kind: str, value: str, who: str, why: str | None) -> None:
        by = By(actor_of(who), why, self._database.now())

        def work(tx: Transaction) -> None:
            settings.set_breaker(tx, value=value, actor=by.actor, reason=storable(why), now=by.now)
            record_operation(tx, kind, by)

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
        timeout: float | None = None,
        watch: Callable[[RestartSafety], None] | None = None,
        stop: threading.Event | None = None,
    ) -> RestartSafety:
        """Pause, then wait until a restart is safe or `timeout` is over. Dispatchers and workers must keep running."""
        if self.state().dispatching:
            self.pause(who, why)
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
