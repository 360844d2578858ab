"""The loop of everything that runs for ever: a part does one round and says how long it can wait for the next."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Collection
from contextlib import closing
from typing import Final

from stepwell.bell import Stop
from stepwell.store import Database, News
from stepwell.store.ear import EVERYTHING, DeafEar

_LOGGER: Final = logging.getLogger("stepwell.loop")

# A worker in the same process is to hear of new work first: two who ask at once keep each other waiting.
AFTER_WORKERS_SECONDS: Final = 0.002
# After trouble: doubled each time, with jitter, up to the second figure.
OUTAGE_SECONDS: Final = (0.5, 30.0)


def run_loop(
    name: str, database: Database, stop: Stop, one_round: Callable[[Collection[News]], float], *, listens: bool = True
) -> None:
    """Rounds until told to stop, each after the pause that the last one asked for, or at the next news."""
    pause: float = 0.0
    trouble = OUTAGE_SECONDS[0]
    with closing(database.listen() if listens else DeafEar()) as ear:
        ear.alert_seconds = AFTER_WORKERS_SECONDS
        news: Collection[News] = EVERYTHING
        while not stop.is_set():
            try:
                pause = one_round(news)
                trouble = OUTAGE_SECONDS[0]
            except Exception:
                _LOGGER.exception("the %s met trouble; it goes on in about %.1f s", name, trouble)
                stop.wait(trouble * random.uniform(0.5, 1.0))
                trouble = min(2 * trouble, OUTAGE_SECONDS[1])
                news, pause = EVERYTHING, 0.0
                continue
            news = ear.wait([stop], pause) if pause > 0 else ear.heard()
