"""The loop: runs a part, round after round, until it is asked to stop and the part is done.

Between rounds it waits for whichever comes first: the time that the last round returned, a wake-up from the database,
one of the part's files, or the request to stop. It waits in real time, because others end the wait.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from contextlib import closing
from typing import Final

from stepwell.model.errors import StepwellError
from stepwell.service.part import Part
from stepwell.service.retry_delay import RetryDelay
from stepwell.service.wakeup import WakePipe
from stepwell.store import Wake
from stepwell.store.wake import ANY_WAKE

_LOGGER: Final = logging.getLogger("stepwell.service")


class Loop:
    """Runs one part in the thread that calls `run`."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self._stop_requests = WakePipe()
        self._is_stopping = False

    def stop(self, *, at_once: bool = False) -> None:
        """Ask the part to stop. Safe in any thread and in signal handlers."""
        self.part.stop(at_once=at_once)
        self._is_stopping = True
        self._stop_requests.wake()

    def run(self) -> None:
        """Run rounds until stopped. A failed round is retried after a delay; errors of `open` and `close` raise."""
        part, delay = self.part, RetryDelay()
        with closing(part.listen()) as listener:
            part.open()
            try:
                if part.first_round_after:
                    self._stop_requests.wait(part.first_round_after)
                wakes: Collection[Wake] = ANY_WAKE
                while not (self._is_stopping and part.is_done()):
                    try:
                        pause = part.round(wakes)
                        delay.reset()
                    except Exception as error:
                        seconds = delay.next()
                        log_failure(_LOGGER, part.name, error, seconds)
                        self._stop_requests.wait(seconds)
                        wakes = ANY_WAKE
                    else:
                        if pause > 0:
                            wakes = listener.wait([self._stop_requests, *part.files()], pause)
                        else:
                            wakes = listener.poll_wakes()
                    self._stop_requests.clear()
            finally:
                part.close()


def log_failure(logger: logging.Logger, name: str, error: Exception, seconds: float) -> None:
    """A StepwellError explains itself; any other error is logged with its traceback."""
    is_ours = isinstance(error, StepwellError)
    level = logging.WARNING if is_ours else logging.ERROR
    logger.log(level, "%s failed; retrying in %.1f s: %s", name, seconds, error, exc_info=not is_ours)
