"""Tools for testing code that uses Stepwell: a clock that the test moves, and a job that does as it is told."""

from __future__ import annotations

from stepwell.testing.clock import ManualClock
from stepwell.testing.jobs import behave

__all__ = ["ManualClock", "behave"]
