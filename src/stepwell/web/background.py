"""Operations that continue after their request was answered, each in a thread of its own."""

from __future__ import annotations

import logging
import threading
from typing import Final

from stepwell.model.errors import StepwellError
from stepwell.operate.operations.operations import Operation

_LOGGER: Final = logging.getLogger("stepwell.web")
STOP_SECONDS: Final = 5.0


class OperationRunner:
    """Runs operations batch by batch. One that is stopped can be continued, in any process."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads: dict[int, threading.Thread] = {}

    def run(self, operation: Operation) -> None:
        """Run it, unless it runs here already."""
        with self._lock:
            running = self._threads.get(operation.id)
            if running is not None and running.is_alive():
                return
            name = f"stepwell-operation-{operation.id}"
            self._threads[operation.id] = thread = threading.Thread(
                target=self._run, args=(operation,), name=name, daemon=True
            )
            thread.start()

    def _run(self, operation: Operation) -> None:
        try:
            while not self._stop.is_set():
                pause = operation.round()
                if pause is None:
                    return
                self._stop.wait(pause)
        except StepwellError as error:
            _LOGGER.warning("operation %d stopped; it can be continued: %s", operation.id, error)
        except Exception:
            _LOGGER.exception("operation %d stopped; it can be continued", operation.id)

    def wait(self) -> None:
        """Until those that run have ended."""
        for thread in self._alive():
            thread.join()

    def close(self) -> None:
        """Stop after the current batch."""
        self._stop.set()
        for thread in self._alive():
            thread.join(STOP_SECONDS)

    def _alive(self) -> list[threading.Thread]:
        with self._lock:
            return list(self._threads.values())
