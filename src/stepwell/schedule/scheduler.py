"""The scheduler: looks what is due, and has it decided. The code that decides is loaded when there is something."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Final

from stepwell.model.errors import DatabaseUnavailable
from stepwell.schedule.errors import classified
from stepwell.schedule.options import CLOCK_TOLERANCE, Options
from stepwell.schedule.presence import PresenceLog
from stepwell.schedule.round import Round
from stepwell.store import Database
from stepwell.store.engine import slots
from stepwell.store.engine.slots import Survey

if TYPE_CHECKING:
    from stepwell.schedule.due import DueWork

BUSY_SECONDS: Final = 0.2  # another scheduler holds the rows that are due


class Scheduler:
    """Any number may run on one database: each slot is decided once."""

    def __init__(self, database: Database, due_work: Callable[[], DueWork], options: Options) -> None:
        self._database = database
        self._make_due_work = due_work
        self._due_work: DueWork | None = None
        self._options = options
        self.presence = PresenceLog(database, options.poll_interval_seconds)

    def round(self) -> Round:
        """Do what is due. If the database is away or locked, it raises; nothing is lost, and the next round does it."""
        try:
            return self._round()
        except DatabaseUnavailable as error:
            raise classified(error) from error

    def _round(self) -> Round:
        now = self._database.now()
        done = Round()
        found = self._survey(now)
        if found.has_work:
            if self._due_work is None:
                self._due_work = self._make_due_work()
            self._due_work.do(found, now, done)
            found = self._survey(now)
        self.presence.keep(now)
        done.pause = self._pause(found, now, done)
        return done

    def _survey(self, now: datetime) -> Survey:
        return self._database.read(lambda tx: slots.survey(tx, now=now, ahead=now + CLOCK_TOLERANCE))

    def _pause(self, found: Survey, now: datetime, done: Round) -> float:
        longest = min(self._options.poll_interval_seconds, self._options.max_sleep_seconds)
        if found.has_work:
            return 0.0 if done.changed else min(1.0, longest) if self._has_left_out() else BUSY_SECONDS
        if found.next_moment is None:
            return longest
        return min(longest, max(0.0, (found.next_moment - now).total_seconds()))

    def _has_left_out(self) -> bool:
        return self._due_work is not None and self._due_work.has_left_out
