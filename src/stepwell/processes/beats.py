"""The heartbeats: each is a part of a crew, and runs for a limited time so that cron can keep it alive."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from stepwell.model import codec
from stepwell.model.error_text import describe
from stepwell.model.errors import DatabaseUnavailable
from stepwell.operate.reaper_part import ReaperPart
from stepwell.processes.errors import QueueingError, TaskStateError
from stepwell.processes.main_process import MainProcess, Queuer
from stepwell.processes.queueing import Queueing
from stepwell.service.crew import Crew
from stepwell.service.part import Part
from stepwell.store import Database, Transaction, Wake
from stepwell.store.engine import processes

LOGGER: Final = logging.getLogger("stepwell.processes")
# Failed queueings that are kept of each main process.
FAILURES_KEPT: Final = 100


class QueueBeat(Part):
    """QUEUE: asks the queuer which main processes to queue, and queues each in a transaction of its own."""

    name = "queue"

    def __init__(
        self,
        database: Database,
        queueing: Queueing,
        queuer: Queuer,
        sleep_time_seconds: float,
        logger: logging.Logger = LOGGER,
    ) -> None:
        self._database = database
        self._queueing = queueing
        self._queuer = queuer
        self._sleep_time_seconds = sleep_time_seconds
        self._logger = logger
        self._queued = 0

    def round(self, wakes: Collection[Wake]) -> float:
        try:
            for process in self._queuer.get_next_main_processes():
                self._queue(process)
        except DatabaseUnavailable:
            raise
        except Exception:
            self._logger.exception("get_next_main_processes raised; the next beat calls it again")
        return self._sleep_time_seconds

    def report(self) -> str:
        return f"{self._queued:,} main processes queued" if self._queued else ""

    def _queue(self, process: Any) -> None:
        try:
            if not isinstance(process, MainProcess):
                raise QueueingError(
                    f"get_next_main_processes returned {process!r}: make main processes with MainProcess.create"
                )
            if self._queuer.queueing_start(process) is False:
                self._logger.info("main process %s: queueing_start returned False; it is not queued", process.name)
                return
            self._queueing.queue(process)
        except Exception as error:
            self._fail(process, error)
            return
        self._queued += 1
        try:
            if self._queuer.queueing_stop(process) is False:
                self._logger.warning("main process %s: queueing_stop returned False; it stays queued", process.name)
        except Exception:
            self._logger.exception("main process %s: queueing_stop raised; it stays queued", process.name)

    def _fail(self, process: Any, error: Exception) -> None:
        self._logger.warning("main process %s is not queued: %s", getattr(process, "name", process), describe(error))
        try:
            self._queuer.queueing_failed(process, error)
        except Exception:
            self._logger.exception("queueing_failed raised")
        if isinstance(error, DatabaseUnavailable):
            raise error  # there is nowhere to record it
        self._database.transact(lambda tx: self._record(tx, getattr(process, "key", "?"), error))

    def _record(self, tx: Transaction, key: str, error: Exception) -> None:
        task = error if isinstance(error, TaskStateError) else None
        processes.add_failed_queueing(
            tx,
            main_process=codec.clean_text(str(key), 200),
            error=type(error).__name__,
            message=str(error) if isinstance(error, QueueingError) else describe(error),
            task_class=None if task is None else task.task_class,
            task_state=None if task is None else task.state,
            step_id=None if task is None else task.step_id,
            now=self._database.now(),
        )
        processes.delete_old_failed_queueings(tx, main_process=key, kept=FAILURES_KEPT)


class RescheduleBeat(ReaperPart):
    """RESCHEDULE: makes dead and not_completed tasks new. After a gap it waits for heartbeats, as the reaper does."""

    name = "reschedule"


class Heartbeat:
    """One kind of heartbeat, run by a program that cron starts."""

    def __init__(self, parts: Callable[[], Sequence[Part]], run_time_seconds: float) -> None:
        self._parts = parts
        self._run_time_seconds = run_time_seconds
        self._crew: Crew | None = None

    def heartbeat(self, on_signal: Callable[[], None] | None = None) -> str:
        """Beat for the configured time, then take nothing new and stay until all tasks have ended.

        SIGINT and SIGTERM end the time early; a second one hands running tasks back. Returns a summary.
        """
        with Crew(self._parts(), on_signal=on_signal) as crew:
            self._crew = crew
            timer = threading.Timer(self._run_time_seconds, crew.stop)
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
            self._crew.stop()
