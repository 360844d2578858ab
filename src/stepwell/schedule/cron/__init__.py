"""Cron expressions: their slots as UTC instants, time zones and daylight saving included. No I/O, no database."""

from __future__ import annotations

from stepwell.schedule.cron.daylight import LocalTime, explain_time
from stepwell.schedule.cron.expression import CronExpression
from stepwell.schedule.cron.interval import check_interval

__all__ = ["CronExpression", "LocalTime", "check_interval", "explain_time"]
