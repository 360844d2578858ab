"""Operations that continue after their request was answered: one batch of each per round, at its own pace."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from stepwell.model.errors import DatabaseUnavailable, StepwellError
from stepwell.operate.operations.operations import Operation
from stepwell.service.part import Part
from stepwell.service.wakeup import WakePipe
from stepwell.store import Wake

_LOGGER: Final = logging.getLogger("stepwell.operations")

# Nothing is due: `add` ends this wait.
IDLE_SECONDS: Final = 3_600.0


@dataclass(slots=True)
class _Running:
    operation: Operation
    due: float = 0.0  # by the monotonic clock of the system, because the loop waits in real time


class OperationPart(Part):
    """Executes the operations that it is given; what another process has started, `add` continues.

    The loop handles an outage of the database: every batch is a transaction, so the round is repeated. Any other
    error ends that operation here. It can be continued, like one whose process was killed.
    """

    name = "operations"

    def __init__(self, on_idle: Callable[[], None] = lambda: None) -> None:
        self._on_idle = on_idle
        self._changed = threading.Condition()
        self._running: dict[int, _Running] = {}
        self._added: WakePipe | None = None  # made by `open`: a process that is forked before has one of its own
        self._is_stopping = False
        self._ended = 0

    def add(self, operation: Operation) -> None:
        """Execute a started operation, unless this part does already. May be called from any thread."""
        with self._changed:
            self._running.setdefault(operation.id, _Running(operation))
            if self._added is not None:
                self._added.wake()

    def is_idle(self) -> bool:
        return not self._running

    def wait_until_idle(self) -> None:
        with self._changed:
            self._changed.wait_for(self.is_idle)

    def open(self) -> None:
        with self._changed:
            self._added, self._is_stopping = WakePipe(), False

    def files(self) -> Sequence[Any]:
        return [] if self._added is None else [self._added]

    def round(self, wakes: Collection[Wake]) -> float:
        if self._added is not None:
            self._added.clear()
        with self._changed:
            all_running = list(self._running.values())
        outages = [
            outage
            for running in all_running
            if not self._is_stopping and running.due <= time.monotonic()
            if (outage := self._execute_batch(running)) is not None
        ]
        if outages:  # after each had its turn: one may only wait for locks that the others do not need
            raise outages[0]
        with self._changed:
            due = min((running.due for running in self._running.values()), default=math.inf)
        if due == math.inf:
            self._on_idle()
        return min(max(0.0, due - time.monotonic()), IDLE_SECONDS)

    def _execute_batch(self, running: _Running) -> DatabaseUnavailable | None:
        """Returns why it has to be repeated, if it has."""
        id = running.operation.id
        try:
            pause = running.operation.round()
        except DatabaseUnavailable as outage:
            return outage
        except Exception as error:
            is_ours = isinstance(error, StepwellError)
            level = logging.WARNING if is_ours else logging.ERROR
            _LOGGER.log(level, "operation %d stopped; it can be continued: %s", id, error, exc_info=not is_ours)
            self._forget(id)
            return None
        if pause is None:
            self._ended += 1
            self._forget(id)
        else:
            running.due = time.monotonic() + pause
        return None

    def _forget(self, id: int) -> None:
        with self._changed:
            del self._running[id]
            self._changed.notify_all()

    def stop(self, *, at_once: bool = False) -> None:
        self._is_stopping = True

    def report(self) -> str:
        return f"{self._ended} operation{'' if self._ended == 1 else 's'} executed" if self._ended else ""
