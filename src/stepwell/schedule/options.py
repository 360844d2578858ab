"""What can be set about schedulers; the defaults are those of the cron dispatcher that people may come from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

POLL_INTERVAL_SECONDS: Final = 60.0
MAX_SLEEP_SECONDS: Final = 300.0
MIN_CRON_INTERVAL_SECONDS: Final = 60.0
# Two machines never have exactly the same time, and a round that was delayed has an old one. Slots are whole minutes.
CLOCK_TOLERANCE: Final = timedelta(seconds=10)
GRACE_POLLS: Final = 2  # a slot that is decided two polls late is still on time


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """See the section `[scheduler]` of docs/configuration.md."""

    poll_interval_seconds: float = POLL_INTERVAL_SECONDS
    max_sleep_seconds: float = MAX_SLEEP_SECONDS
    min_cron_interval_seconds: float = MIN_CRON_INTERVAL_SECONDS
    misfire_grace_seconds: float | None = None

    @property
    def grace(self) -> timedelta:
        """Slots older than this are subject to the misfire policy."""
        if self.misfire_grace_seconds is not None:
            return timedelta(seconds=self.misfire_grace_seconds)
        return timedelta(seconds=GRACE_POLLS * self.poll_interval_seconds)

    @property
    def min_interval(self) -> timedelta:
        return timedelta(seconds=self.min_cron_interval_seconds)
