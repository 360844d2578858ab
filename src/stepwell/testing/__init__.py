"""Tools for testing code that uses Stepwell: a manual clock, and a job whose arguments choose its outcome."""

from __future__ import annotations

from stepwell.testing.clock import ManualClock
from stepwell.testing.jobs import behave

__all__ = ["ManualClock", "behave"]
