"""Taking note of what plain SQL changed: as an edit, by comparing with the recorded definition."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Final

from msgspec import structs

from stepwell.model.actors import SCHEDULER
from stepwell.schedule.definition import Definition, changed_fields, of_row, recorded, seed_of
from stepwell.schedule.editing import PLAIN_SQL, Author, Override, overrides_after
from stepwell.schedule.engine import ScheduleEngine
from stepwell.store import Transaction
from stepwell.store.engine.schedules import CronRow

_LOGGER: Final = logging.getLogger("stepwell.scheduler")


class Noticing:
    def __init__(self, engine: ScheduleEngine) -> None:
        self._engine = engine

    def notice(self, tx: Transaction, row: CronRow, now: datetime) -> None:
        """Record the change of a locked row; a definition that cannot be used disables its schedule."""
        definition = of_row(row)
        found = self._engine.problems(tx, definition, seed_of(row)) if definition.enabled else []
        why = f"disabled: {'; '.join(found)}" if found else None
        if found:
            _LOGGER.error("schedule %r is disabled: %s", row.name, "; ".join(found))
            definition = structs.replace(definition, enabled=False)
        self._engine.editor.write(
            tx,
            row,
            definition,
            Author(PLAIN_SQL, why, now),
            "noticed" if row.recorded is not None else "created",
            at=_moment(row, now),
            overrides=_overrides(row, of_row(row), now),
            disabled_reason="; ".join(found) or None,
        )

    def disable(self, tx: Transaction, row: CronRow, reason: str, now: datetime) -> None:
        """Disable a schedule whose expression cannot be used."""
        _LOGGER.error("schedule %r is disabled: %s", row.name, reason)
        definition = structs.replace(recorded(row), enabled=False)
        self._engine.editor.write(
            tx, row, definition, Author(SCHEDULER, reason, now), "disabled", disabled_reason=reason
        )


def _moment(row: CronRow, now: datetime) -> datetime:
    """When plain SQL wrote it: by the clock of the database, which may not be the one that slots are decided by."""
    edited = min(row.edited_at or now, now)
    return edited if row.last_slot is None else max(edited, min(row.last_slot, now))


def _overrides(row: CronRow, after: Definition, now: datetime) -> dict[str, Override]:
    """What plain SQL changed of a schedule that code declares is an override like any other."""
    changed = changed_fields(recorded(row), after)
    return overrides_after(row, after, changed, Author(PLAIN_SQL, None, now))
