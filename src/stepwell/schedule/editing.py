"""Writing definitions: due slots are decided under the old one first, and every change is recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

import msgspec

from stepwell.model.actors import By, is_operator
from stepwell.model.errors import ActionRefused, CronParseError
from stepwell.schedule.alarms import next_check
from stepwell.schedule.deciding import Decider
from stepwell.schedule.definition import (
    OF_OPERATORS,
    Definition,
    changed_fields,
    columns_of,
    decoded,
    recorded,
    seed_of,
    timetable,
    timetable_of,
)
from stepwell.schedule.executing import Executions
from stepwell.store import Transaction
from stepwell.store.audit import record_with_parameters
from stepwell.store.engine import schedules
from stepwell.store.engine.schedules import CronRow

Kind: TypeAlias = Literal["created", "edited", "enabled", "disabled", "deleted", "noticed", "rewound"]

CODE: Final = "code:"
PLAIN_SQL: Final = "plain SQL"
# The operation that a change by an operator is recorded as.
_OPERATIONS: Final = {
    "created": "create_schedule",
    "edited": "edit_schedule",
    "enabled": "enable_schedule",
    "disabled": "disable_schedule",
    "deleted": "delete_schedule",
}


class Override(msgspec.Struct, frozen=True):
    """A setting of the code that an operator overrode."""

    who: str
    at: datetime
    why: str | None = None


class _Kept:
    """Marks a column that an edit leaves as it is."""


_KEPT: Final = _Kept()


@dataclass(frozen=True, slots=True)
class Author:
    """Who changes a schedule, why, and when by the database's clock."""

    actor: str
    why: str | None
    now: datetime

    @property
    def operator(self) -> By | None:
        """None: not a person, but code, a scheduler or plain SQL."""
        return By(self.actor, self.why, self.now) if is_operator(self.actor) else None


def overrides_of(row: CronRow) -> dict[str, Override]:
    return msgspec.json.decode(row.overrides, type=dict[str, Override])


def overrides_after(row: CronRow, after: Definition, changed: Sequence[str], by: Author) -> dict[str, Override]:
    """The overrides of a schedule that code declares, after an edit. A field with the value of the code is none."""
    kept = overrides_of(row)
    if row.declared is None:
        return kept
    declared = decoded(row.declared)
    made = {name: Override(by.actor, by.now, by.why) for name in changed if name not in OF_OPERATORS}
    return {name: each for name, each in (kept | made).items() if getattr(after, name) != getattr(declared, name)}


class Editor:
    def __init__(self, decider: Decider, executions: Executions) -> None:
        self._decider = decider
        self._executions = executions

    def create(
        self,
        tx: Transaction,
        name: str,
        definition: Definition,
        by: Author,
        *,
        app: str | None = None,
        declared: Definition | None = None,
    ) -> CronRow | None:
        """A new schedule, whose first slot is in the future; None if the name is taken."""
        times = timetable(definition.expression, definition.zone, name)
        upcoming = times.after(by.now) if definition.enabled else None
        is_off = not definition.enabled
        cron_id = schedules.insert_cron(
            tx,
            name=name,
            **columns_of(definition),
            app=app,
            declared=None if declared is None else declared.encoded(),
            overrides="{}",
            disabled_by=by.actor if is_off else None,
            disabled_at=by.now if is_off else None,
            disabled_reason=(by.why or "created disabled") if is_off else None,
            hash_seed=name,
            recorded=definition.encoded(),
            last_slot=by.now,
            next_slot=upcoming,
            expect_at=None
            if definition.expect_within is None or upcoming is None
            else upcoming + timedelta(seconds=definition.expect_within),
            now=by.now,
        )
        if cron_id is None:
            return None
        made = _read(tx, cron_id)
        record(tx, made, "created", by, None, definition)
        return made

    def write(
        self,
        tx: Transaction,
        row: CronRow,
        definition: Definition,
        by: Author,
        kind: Kind,
        *,
        at: datetime | None = None,
        app: str | _Kept | None = _KEPT,
        declared: Definition | _Kept | None = _KEPT,
        overrides: Mapping[str, Override] | None = None,
        disabled_reason: str | None = None,
        operation: str | None = None,
    ) -> CronRow:
        """Change a locked schedule; `at` is the moment of the edit, if that was before now.

        `operation` is what an operator's change is recorded as, if not by its kind.
        """
        moment = at or by.now
        last_slot = self._decide(tx, row, by.now, moment)
        before = None if row.recorded is None else recorded(row)
        is_retimed = before is None or before.timing() != definition.timing()
        if is_retimed:
            last_slot = max(last_slot, moment)
        upcoming = _upcoming(row, definition, max(last_slot, moment))
        schedules.write_definition(
            tx,
            id=row.id,
            revision=row.revision,
            **columns_of(definition),
            app=row.app if isinstance(app, _Kept) else app,
            declared=row.declared if isinstance(declared, _Kept) else None if declared is None else declared.encoded(),
            overrides=row.overrides if overrides is None else msgspec.json.encode(overrides).decode(),
            **_disabled(row, before, definition, by, disabled_reason),
            hash_seed=seed_of(row),
            recorded=definition.encoded(),
            last_slot=last_slot,
            next_slot=upcoming,
            ledger_from=row.ledger_from or moment,
            **_expectation(row, None if is_retimed else before, definition, moment),
            now=by.now,
        )
        changed = _read(tx, row.id)
        record(tx, changed, kind, by, before, definition, moment, operation=operation)
        return changed

    def delete(self, tx: Transaction, row: CronRow, by: Author) -> None:
        record(tx, row, "deleted", by, recorded(row), None)
        schedules.delete_cron(tx, id=row.id)

    def _decide(self, tx: Transaction, row: CronRow, now: datetime, until: datetime) -> datetime:
        """Decide what is due under the old definition, as a scheduler would; returns the last slot."""
        if row.last_slot is None or row.recorded is None or row.last_slot >= until:
            return row.last_slot or until
        if not self._executions.can_start(row, recorded(row)) and row.next_slot is not None and row.next_slot <= until:
            raise ActionRefused(
                f"a slot of schedule {row.name!r} is due, and this program does not have the code of the workflow "
                f"{recorded(row).handler!r}: try again when a scheduler has started it; nothing changed"
            )
        done = self._decider.decide(tx, [row], now, until=until)
        if (error := done.failed.get(row.id)) is not None:
            if isinstance(error, CronParseError):
                return row.last_slot  # it had no slots
            return self._decider.give_up(tx, row, until, now, str(error))
        return done.last_slots[row.id]


def record(
    tx: Transaction,
    cron: CronRow,
    kind: Kind,
    by: Author,
    before: Definition | None,
    after: Definition | None,
    at: datetime | None = None,
    *,
    operation: str | None = None,
) -> None:
    """Add a change to the history, and to the audit trail if an operator made it.

    `at` is the moment from which the new definition is in force, if that is not now.
    """
    schedules.record_change(
        tx,
        job_id=cron.id,
        name=cron.name,
        kind=kind,
        actor=by.actor,
        reason=by.why,
        revision=cron.revision,
        before=None if before is None else before.encoded(),
        after=None if after is None else after.encoded(),
        at=at or by.now,
    )
    if by.operator is not None:
        what: dict[str, Any] = {"schedule": cron.name}
        if kind == "edited" and before is not None and after is not None:
            what["changed"] = changed_fields(before, after)
        record_with_parameters(tx, operation or _OPERATIONS[kind], by.operator, what)


def _read(tx: Transaction, cron_id: int) -> CronRow:
    found = schedules.cron_by_id(tx, id=cron_id)
    assert found is not None
    return found


def _upcoming(row: CronRow, definition: Definition, after: datetime) -> datetime | None:
    if not definition.enabled:
        return None
    return timetable_of(row, definition).after(after)


def _expectation(row: CronRow, before: Definition | None, definition: Definition, moment: datetime) -> dict[str, Any]:
    """From when `expect_within` counts, and when it is checked next; `before` is None if the slots are others now."""
    if before is not None and before.expect_within == definition.expect_within:
        return {"expected_from": row.expected_from, "expect_at": row.expect_at}
    starts_anew = before is None or before.expect_within is None or row.expected_from is None
    since = moment if starts_anew else row.expected_from
    newest = max(filter(None, (since, row.last_success)))
    return {"expected_from": since, "expect_at": next_check(row, definition, newest)}


def _disabled(
    row: CronRow, before: Definition | None, definition: Definition, by: Author, reason: str | None
) -> dict[str, Any]:
    if definition.enabled:
        return {"disabled_by": None, "disabled_at": None, "disabled_reason": None}
    if before is not None and not before.enabled and reason is None:
        return {
            "disabled_by": row.disabled_by,
            "disabled_at": row.disabled_at,
            "disabled_reason": row.disabled_reason,
        }
    return {"disabled_by": by.actor, "disabled_at": by.now, "disabled_reason": reason or by.why}
