"""The one loop: runs any part, round after round, until it is asked to stop and the part is done.

It waits for whatever comes first: the time that the last round asked for, a wake-up from the database, one of the
part's files, or the request to stop. Waiting is real time, whatever clock the part goes by: others bring it to an end.
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
        """Let the part come to an end. Safe in any thread and in signal handlers."""
        self.part.stop(at_once=at_once)
        self._is_stopping = True
        self._stop_requests.wake()

    def run(self) -> None:
        """Rounds until stopped. A round that fails is repeated after a delay; only `open` and `close` may end this."""
        part, delay = self.part, RetryDelay()
        with closing(part.listen()) as listener:
            part.open()
            try:
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
    """An error of ours says itself what is wrong; any other comes with its traceback."""
    is_ours = isinstance(error, StepwellError)
    level = logging.WARNING if is_ours else logging.ERROR
    logger.log(level, "%s failed; retrying in %.1f s: %s", name, seconds, error, exc_info=not is_ours)
