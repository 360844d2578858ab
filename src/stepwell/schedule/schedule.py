"""A schedule as people see it, and what an edit changes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from stepwell.model.errors import CronParseError
from stepwell.schedule.definition import Definition, decoded, recorded, seed_of, timetable, timetable_of
from stepwell.schedule.editing import Override, overrides_of
from stepwell.schedule.errors import InvalidSchedule
from stepwell.store.engine.schedules import CronRow


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as it is now."""

    id: int
    name: str
    definition: Definition
    revision: int
    next_slot: datetime | None
    last_slot: datetime | None  # slots up to this moment have been decided
    last_success: datetime | None  # the newest slot that succeeded
    disabled_by: str | None
    disabled_at: datetime | None
    disabled_reason: str | None
    app: str | None  # whose code declares it
    declared: Definition | None
    overrides: dict[str, Override]
    seed: str  # of `H`
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, row: CronRow) -> Schedule:
        return cls(
            id=row.id,
            name=row.name,
            definition=recorded(row),
            revision=row.revision,
            next_slot=row.next_slot,
            last_slot=row.last_slot,
            last_success=row.last_success,
            disabled_by=row.disabled_by,
            disabled_at=row.disabled_at,
            disabled_reason=row.disabled_reason,
            app=row.app,
            declared=None if row.declared is None else decoded(row.declared),
            overrides=overrides_of(row),
            seed=seed_of(row),
            created_at=row.created_at,
            updated_at=row.updated_at,
        )

    def text(self) -> str:
        """When it fires, in plain English; the problem if its expression cannot be used."""
        try:
            return timetable(self.definition.expression, self.definition.zone, self.seed).describe()
        except CronParseError as error:
            return str(error)


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """What an edit changes: fields, and the next slots, with their zone, before and after it."""

    changed: list[str]
    before: list[datetime]
    after: list[datetime]
    zone_before: str
    zone_after: str
    schedule: Schedule


def defined(name: str, values: dict[str, Any]) -> Definition:
    """A definition of the right types; raises `InvalidSchedule`."""
    try:
        return msgspec.convert(values, Definition)
    except msgspec.ValidationError as error:
        raise InvalidSchedule(f"schedule {name!r}: {error}; nothing was written") from error


def upcoming(row: CronRow, definition: Definition, after: datetime, count: int) -> list[datetime]:
    """The next slots, as if the schedule were enabled; none if its expression cannot be used."""
    try:
        times = timetable_of(row, definition)
    except CronParseError:
        return []
    found: list[datetime] = []
    while len(found) < count and (slot := times.after(after)) is not None:
        found.append(slot)
        after = slot
    return found
