"""Queueings that failed: a row for each, so that people can see why a main process does not run."""

from __future__ import annotations

from typing import Final

from stepwell.model import codec
from stepwell.model.error_text import MAX_ERROR, describe
from stepwell.processes.errors import QueueingError, TaskStateError
from stepwell.store import Database, Transaction
from stepwell.store.engine import processes
from stepwell.store.engine.processes import FailedQueueing
from stepwell.store.filters import check_page

KEPT: Final = 100  # of each main process
_LONGEST_KEY: Final = 200


class FailedQueueings:
    """Those of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def record(self, main_process: str, error: Exception) -> None:
        """Keep a failure. The next queueing of the main process that succeeds resolves it."""
        self._database.transact(lambda tx: self._record(tx, codec.clean_text(main_process, _LONGEST_KEY), error))

    def newest(self, main_process: str = "", limit: int = 20) -> list[FailedQueueing]:
        """The newest ones, of one main process (by its key) or of all."""
        check_page(limit)
        return self._database.read(lambda tx: processes.failed_queueings(tx, main_process=main_process, limit=limit))

    def _record(self, tx: Transaction, main_process: str, error: Exception) -> None:
        task = error if isinstance(error, TaskStateError) else None
        processes.add_failed_queueing(
            tx,
            main_process=main_process,
            error=type(error).__name__,
            message=codec.clean_text(str(error), MAX_ERROR) if isinstance(error, QueueingError) else describe(error),
            task_class=None if task is None else task.task_class,
            task_state=None if task is None else task.state,
            step_id=None if task is None else task.step_id,
            now=self._database.now(),
        )
        processes.delete_old_failed_queueings(tx, main_process=main_process, kept=KEPT)
