"""When a scheduler ran: one row, whose end is moved on now and then."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from stepwell.model.this_process import unique_name
from stepwell.store import Database, Transaction
from stepwell.store.engine import schedules

# One small write per scheduler and minute; a gap that is shorter is none.
PRESENCE_SECONDS: Final = 60.0
_UNNOTICED_SECONDS: Final = 180.0  # a row is up to two periods of its scheduler old
KEPT_DAYS: Final = 400  # longer than a year, so that a yearly slot can be explained


class PresenceLog:
    """The presence of one scheduler."""

    def __init__(self, database: Database, cycle_seconds: float) -> None:
        self._database = database
        self._longest = 2 * max(PRESENCE_SECONDS, cycle_seconds) + PRESENCE_SECONDS
        self.name = unique_name()
        self._row: int | None = None
        self._written: datetime | None = None
        self._forgotten: datetime | None = None

    def keep(self, now: datetime) -> None:
        """Record that the scheduler runs, unless that was done a moment ago."""
        age = None if self._written is None else (now - self._written).total_seconds()
        if age is not None and 0 <= age < PRESENCE_SECONDS:
            return
        # After a gap, or when the clock went back, it is another run.
        self._write(now, anew=age is None or not 0 <= age <= self._longest)

    def end(self, now: datetime) -> None:
        """Record that it stops."""
        if self._row is not None:
            self._write(now, anew=False)

    def _write(self, now: datetime, *, anew: bool) -> None:
        row = self._row
        if anew or row is None:
            self._row = self._database.transact(lambda tx: schedules.begin_presence(tx, name=self.name, now=now))
        else:
            self._database.transact(lambda tx: schedules.extend_presence(tx, id=row, now=now))
        self._written = now
        if self._forgotten is None or now - self._forgotten > timedelta(days=1):
            before = now - timedelta(days=KEPT_DAYS)
            self._database.transact(lambda tx: schedules.forget_presence(tx, before=before))
            self._forgotten = now


def absence(tx: Transaction, slot: datetime, until: datetime, now: datetime) -> str | None:
    """Says between which moments no scheduler ran around a slot; None if one did, as far as is known.

    A scheduler that was killed was last seen up to two minutes before.
    """
    runs = schedules.presence(tx, first=slot, last=max(slot, until))
    seen = max((run.ran_until for run in runs if run.ran_from <= slot), default=None)
    if seen is not None and seen >= slot:
        return None
    resumed = min((run.ran_from for run in runs if run.ran_from > slot), default=None)
    if seen is not None and (resumed or now) - seen <= timedelta(seconds=_UNNOTICED_SECONDS):
        return None
    if seen is None:
        return "No scheduler ran" + (" yet." if resumed is None else f" before {_shown(resumed)}.")
    return f"No scheduler ran from {_shown(seen)} " + ("on." if resumed is None else f"to {_shown(resumed)}.")


def _shown(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
