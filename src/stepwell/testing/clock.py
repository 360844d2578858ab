"""A manual clock: time passes only when the test advances it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class ManualClock:
    """A clock for tests; `sleep` advances it and returns at once.

    >>> clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    >>> clock.advance(90)
    >>> clock.now().isoformat()
    '2026-01-01T00:01:30+00:00'
    """

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start
        self._elapsed = 0.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._elapsed

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, by: float | timedelta) -> None:
        """Advance the clock by this many seconds, or by a timedelta."""
        delta = by if isinstance(by, timedelta) else timedelta(seconds=by)
        if delta < timedelta(0):
            raise ValueError(f"a clock cannot be moved back: advance({by!r})")
        self._now += delta
        self._elapsed += delta.total_seconds()

    def move_to(self, moment: datetime) -> None:
        """Advance the clock to a point in time."""
        self.advance(moment - self._now)

    def adjust(self, seconds: float) -> None:
        """Set the wall clock forward, or back (a negative number), as a correction of a machine's clock does."""
        self._now += timedelta(seconds=seconds)
