"""The grace period: how long runs may continue after a worker was asked to stop."""

from __future__ import annotations

import math
import time
from typing import Final

# What deployments wait by default: Kubernetes kills after 30 s, systemd after 90 s, Docker after 10 s.
GRACE_SECONDS: Final = 30.0


class GracePeriod:
    """Starts with the first request to stop, in real time. Safe in signal handlers."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.ends_at = math.inf

    def start(self, *, at_once: bool = False) -> None:
        """Start it; if it is already running, `at_once` ends it."""
        self.ends_at = min(self.ends_at, time.monotonic() + (0.0 if at_once else self._seconds))

    @property
    def has_started(self) -> bool:
        return self.ends_at < math.inf

    def is_over(self) -> bool:
        return time.monotonic() >= self.ends_at
