"""The loop of everything that runs for ever: a part does one round and says how long it can wait for the next."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Collection
from contextlib import closing
from typing import Final

from stepwell.service.wakeup import StopSignal
from stepwell.store import Database, Wake
from stepwell.store.wake import ANY_WAKE, NoListener

_LOGGER: Final = logging.getLogger("stepwell.service.loop")

# A worker in the same process is to hear of new work first: two who ask at once keep each other waiting.
AFTER_WORKERS_SECONDS: Final = 0.002
# After trouble: doubled each time, with jitter, up to the second figure.
OUTAGE_SECONDS: Final = (0.5, 30.0)


def run_loop(
    name: str,
    database: Database,
    stop: StopSignal,
    one_round: Callable[[Collection[Wake]], float],
    *,
    listens: bool = True,
) -> None:
    """Rounds until told to stop, each after the pause that the last one asked for, or at the next news."""
    pause: float = 0.0
    trouble = OUTAGE_SECONDS[0]
    with closing(database.listen() if listens else NoListener()) as listener:
        listener.alert_seconds = AFTER_WORKERS_SECONDS
        news: Collection[Wake] = ANY_WAKE
        while not stop.is_set():
            try:
                pause = one_round(news)
                trouble = OUTAGE_SECONDS[0]
            except Exception:
                _LOGGER.exception("the %s met trouble; it goes on in about %.1f s", name, trouble)
                stop.wait(trouble * random.uniform(0.5, 1.0))
                trouble = min(2 * trouble, OUTAGE_SECONDS[1])
                news, pause = ANY_WAKE, 0.0
                continue
            news = listener.wait([stop], pause) if pause > 0 else listener.poll_wakes()
