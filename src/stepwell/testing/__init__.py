"""Tools for testing code that uses Stepwell: docs/testing.md."""

from __future__ import annotations

from stepwell.testing.assertions import assert_enqueued, enqueued, refute_enqueued
from stepwell.testing.binding import bound
from stepwell.testing.clock import ManualClock
from stepwell.testing.crash import CrashFailure, CrashReport, crash_everywhere
from stepwell.testing.crash_point import CrashPoint
from stepwell.testing.inline import run
from stepwell.testing.jobs import behave
from stepwell.testing.settling import settle

__all__ = [
    "CrashFailure",
    "CrashPoint",
    "CrashReport",
    "ManualClock",
    "assert_enqueued",
    "behave",
    "bound",
    "crash_everywhere",
    "enqueued",
    "refute_enqueued",
    "run",
    "settle",
]
