"""The schedule `s` of the job `report`, and what the tables say about it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from stepwell import Stepwell
from stepwell.schedule.schedule import Schedule
from stepwell.store.engine.executions import ExecutionRow
from stepwell.testing import ManualClock

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


def at(hour: int, minute: int = 0, day: int = 1) -> datetime:
    """A time of January 2026."""
    return datetime(2026, 1, day, hour, minute, tzinfo=UTC)


def create(app: Stepwell, expression: str = "*/5 * * * *", name: str = "s", **settings: Any) -> Schedule:
    return app.schedules.create(name, expression, settings.pop("handler", "report"), who="alice", **settings)


def tick(app: Stepwell, clock: ManualClock, moment: datetime) -> int:
    """Move the clock and let a scheduler decide; returns how many fired."""
    clock.move_to(moment)
    return app.schedules.run_once()


def statuses(app: Stepwell, name: str = "s") -> list[tuple[datetime, str]]:
    return [(row.scheduled_time, row.status) for row in reversed(app.schedules.executions(name, limit=500))]


def fired(app: Stepwell, name: str = "s") -> list[datetime]:
    return [slot for slot, _ in statuses(app, name)]


def outcomes(app: Stepwell, name: str = "s") -> list[tuple[datetime, datetime, str, str | None]]:
    return [(row.slot, row.until_slot, row.outcome, row.reason) for row in app.schedules.slots(name, limit=500)]


def only(app: Stepwell, name: str = "s") -> ExecutionRow:
    (row,) = app.schedules.executions(name)
    return row


def plain_sql(app: Stepwell, sql: str) -> None:
    app.database.transact(lambda tx: tx.execute(sql, {}))


def edited_at(app: Stepwell, moment: datetime, name: str = "s") -> None:
    """When plain SQL changed the row: the trigger takes the real time, which the clock of a test knows nothing of."""
    text = moment.strftime("%Y-%m-%d %H:%M:%S.%f")
    zone = "" if app.database.dialect == "sqlite" else "+00"
    plain_sql(app, f"UPDATE cron_jobs SET edited_at = '{text}{zone}' WHERE name = '{name}'")
