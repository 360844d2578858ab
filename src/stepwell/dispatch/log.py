"""The log of the dispatcher: what each tick did, written to the logger `stepwell.dispatcher`.

The tick calls the methods below; the dispatch logic itself contains no log calls.
"""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Final

from stepwell.dispatch.phases import PhaseResult

LOGGER: Final = logging.getLogger("stepwell.dispatcher")


class TickLog:
    """Writes the log lines of a tick."""

    def start(self, group: str, now: datetime) -> None:
        LOGGER.info("[TICK START] Group: %s | Time: %s", group, now.strftime("%H:%M:%S.%f"))
        LOGGER.info("[LOCK ACQUIRED] Starting dispatch cycle")

    def breaker_off(self) -> None:
        LOGGER.warning("CIRCUIT BREAKER: Step dispatching is DISABLED globally")
        LOGGER.info("All state management phases completed successfully")
        LOGGER.info("Skipping pending step dispatch phase (circuit breaker active)")
        LOGGER.info("[TICK SKIPPED] Circuit breaker active - can_dispatch_steps = false")

    def phase(self, ran: PhaseResult) -> None:
        phase, outcome = ran.phase, ran.phase.outcome(ran.count)
        LOGGER.info("[Phase %d] %s: %s | Duration: %.2fms", phase.number, phase.name, outcome, ran.milliseconds)

    def error(self, where: str, error: BaseException) -> None:
        LOGGER.error("[TICK ERROR] %s: %s", where, error, exc_info=error)

    def end(self, milliseconds: float, dispatched: int) -> None:
        LOGGER.info("[TICK END] Total: %.2fms | Dispatched: %d", milliseconds, dispatched)
