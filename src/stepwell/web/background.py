"""Where the web application hands over operations that continue after their request was answered."""

from __future__ import annotations

import threading

from stepwell.operate.operations.operation_part import OperationPart
from stepwell.operate.operations.operations import Operation
from stepwell.service.crew import Crew
from stepwell.service.part import Part


class OperationRunner:
    """Runs operations in a part: beside the server, or, in a program that mounts the application, in its own crew.

    That crew lasts as long as there is something to do. An operation that is stopped can be continued, in any process.
    """

    def __init__(self) -> None:
        self._part = OperationPart(self._end_own_crew)
        self._lock = threading.Lock()
        self._crew: Crew | None = None
        self._thread: threading.Thread | None = None
        self._is_beside_server = False

    def beside_server(self) -> Part:
        """The part, for a crew that runs it from now on."""
        self._is_beside_server = True
        return self._part

    def run(self, operation: Operation) -> None:
        """Run it, unless it runs here already."""
        with self._lock:
            self._part.add(operation)
            # After a fork, the thread of the parent is not alive here.
            if not self._is_beside_server and (
                self._crew is None or self._thread is None or not self._thread.is_alive()
            ):
                self._crew = Crew([self._part])
                self._thread = threading.Thread(target=self._crew.run, name="stepwell-operations", daemon=True)
                self._thread.start()

    def _end_own_crew(self) -> None:
        with self._lock:
            if self._crew is not None and self._part.is_idle():
                self._crew.finish()
                self._crew = None

    def wait(self) -> None:
        """Until those that run have ended."""
        self._part.wait_until_idle()

    def close(self) -> None:
        """Stop its own crew after the current batch."""
        with self._lock:
            crew, thread = self._crew, self._thread
        if crew is not None and thread is not None:
            crew.finish()
            thread.join()
