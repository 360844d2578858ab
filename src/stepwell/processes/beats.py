"""The heartbeats: each is a part of a crew, and runs for a limited time so that cron can keep it alive."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from stepwell.model.error_text import describe
from stepwell.model.errors import DatabaseUnavailable
from stepwell.operate.reaper_part import ReaperPart
from stepwell.processes.errors import QueueingError
from stepwell.processes.failures import FailedQueueings
from stepwell.processes.main_process import MainProcess, Queuer
from stepwell.processes.queueing import Queueing
from stepwell.processes.reschedule import Rescheduler
from stepwell.service.crew import Crew
from stepwell.service.part import Part
from stepwell.store import Database, Wake

LOGGER: Final = logging.getLogger("stepwell.processes")


class QueueBeat(Part):
    """QUEUE: asks the queuer which main processes to queue, and queues each in a transaction of its own."""

    name = "queue"

    def __init__(
        self,
        queueing: Queueing,
        failures: FailedQueueings,
        queuer: Queuer,
        sleep_time_seconds: float,
        logger: logging.Logger = LOGGER,
    ) -> None:
        self._queueing = queueing
        self._failures = failures
        self._queuer = queuer
        self._sleep_time_seconds = sleep_time_seconds
        self._logger = logger
        self._queued = 0

    def round(self, wakes: Collection[Wake]) -> float:
        outage: DatabaseUnavailable | None = None
        try:
            for process in self._queuer.get_next_main_processes():
                if outage is None:
                    outage = self._queue(process)
                else:  # the queuer may not return it again: notify it
                    self._notify_failed(process, outage)
        except DatabaseUnavailable as error:
            outage = error
        except Exception:
            self._logger.exception("get_next_main_processes raised; the next beat calls it again")
        if outage is not None:
            raise outage  # the loop waits longer and longer
        return self._sleep_time_seconds

    def report(self) -> str:
        return f"{self._queued:,} main processes queued" if self._queued else ""

    def _queue(self, process: Any) -> DatabaseUnavailable | None:
        """Queue one; the queuer is notified of any failure. Returns the outage if the database cannot be reached."""
        try:
            if not isinstance(process, MainProcess):
                raise QueueingError(
                    f"get_next_main_processes returned {process!r}: make main processes with MainProcess.create"
                )
            if self._queuer.queueing_start(process) is False:
                self._logger.info("main process %s: queueing_start returned False; it is not queued", process.name)
                return None
            self._queueing.queue(process)
        except Exception as error:
            return self._fail(process, error)
        self._queued += 1
        try:
            if self._queuer.queueing_stop(process) is False:
                self._logger.warning("main process %s: queueing_stop returned False; it stays queued", process.name)
        except Exception:
            self._logger.exception("main process %s: queueing_stop raised; it stays queued", process.name)
        return None

    def _fail(self, process: Any, error: Exception) -> DatabaseUnavailable | None:
        self._notify_failed(process, error)
        if isinstance(error, DatabaseUnavailable):
            return error
        try:
            self._failures.record(str(getattr(process, "key", "?")), error)
        except DatabaseUnavailable as outage:
            return outage
        return None

    def _notify_failed(self, process: Any, error: Exception) -> None:
        name = getattr(process, "name", process)
        self._logger.warning("main process %s is not queued: %s", name, describe(error))
        try:
            self._queuer.queueing_failed(process, error)
        except Exception:
            self._logger.exception("main process %s: queueing_failed raised", name)


class RescheduleBeat(ReaperPart):
    """RESCHEDULE: makes dead and not_completed tasks new. After a gap it waits for heartbeats, as the reaper does."""

    name = "reschedule"

    def __init__(self, rescheduler: Rescheduler, database: Database) -> None:
        super().__init__(rescheduler, database)
        self._rescheduler = rescheduler

    def report(self) -> str:
        return f"{self._rescheduler.rescheduled:,} tasks rescheduled" if self._rescheduler.rescheduled else ""


class HeartbeatRun:
    """One kind of heartbeat, run by a program that cron starts."""

    def __init__(self, parts: Callable[[], Sequence[Part]], run_time_seconds: float) -> None:
        self._parts = parts
        self._run_time_seconds = run_time_seconds
        self._crew: Crew | None = None

    def heartbeat(self, on_signal: Callable[[], None] | None = None) -> str:
        """Beat for the configured time, then start nothing new and wait until all tasks have ended.

        The first SIGINT or SIGTERM ends the time early, the second hands running tasks back. Returns a summary.
        """
        with Crew(self._parts(), on_signal=on_signal) as crew:
            self._crew = crew
            timer = threading.Timer(self._run_time_seconds, crew.finish)
            timer.daemon = True
            timer.start()
            try:
                crew.run()
            finally:
                timer.cancel()
                self._crew = None
        return crew.report()

    def stop(self) -> None:
        """End the time now. Safe in any thread."""
        if self._crew is not None:
            self._crew.finish()
