"""`app.schedules`: registering, changing, running and inspecting schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import structs

from stepwell.model.actors import actor_of, storable
from stepwell.model.errors import ActionRefused
from stepwell.model.suggest import hint, refuse_unknown
from stepwell.schedule.alarms import Missed, missed
from stepwell.schedule.backfilling import Backfill, backfill, plan_backfill, run_now
from stepwell.schedule.checks import problem_of_name, refuse
from stepwell.schedule.definition import FIELDS, OF_OPERATORS, Definition, decoded, recorded, timetable_of
from stepwell.schedule.editing import Author, Override, overrides_of
from stepwell.schedule.engine import ScheduleEngine
from stepwell.schedule.errors import InvalidSchedule, ScheduleNotFound
from stepwell.schedule.ledger import LedgerGap, ledger_gaps
from stepwell.schedule.options import Options
from stepwell.schedule.scheduler import Scheduler
from stepwell.schedule.targets import target_of
from stepwell.store import Transaction
from stepwell.store.engine import executions, operator, schedules, slots
from stepwell.store.engine.executions import ExecutionRow
from stepwell.store.engine.schedules import ChangeRow, CronRow
from stepwell.store.engine.slots import SlotRow

if TYPE_CHECKING:
    from stepwell.app import Stepwell

T = TypeVar("T")
# Inside of the class, `list` is its method.
Moments: TypeAlias = list[datetime]
ExecutionRows: TypeAlias = list[ExecutionRow]
SlotRows: TypeAlias = list[SlotRow]
ChangeRows: TypeAlias = list[ChangeRow]
AllMissed: TypeAlias = list[Missed]
LedgerGaps: TypeAlias = list[LedgerGap]

PREVIEWED: Final = 5
_PAGE: Final = 500
_NEWEST: Final = 2**63 - 1


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as it is now."""

    id: int
    name: str
    definition: Definition
    revision: int
    next_slot: datetime | None
    last_slot: datetime | None
    last_success: datetime | None
    disabled_by: str | None
    disabled_at: datetime | None
    disabled_reason: str | None
    app: str | None  # whose code declares it
    declared: Definition | None
    overrides: dict[str, Override]
    created_at: datetime
    updated_at: datetime


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """What an edit changes: fields, and the next slots before and after it."""

    changed: list[str]
    before: list[datetime]
    after: list[datetime]
    schedule: Schedule


class Schedules:
    """The schedules of an app's database.

    >>> from stepwell import Stepwell
    >>> app = Stepwell("sqlite://")
    >>> @app.job()
    ... def report(day: str = "today") -> str:
    ...     return day
    >>> nightly = app.schedules.create("nightly", "30 2 * * *", report, tz="Europe/Berlin", who="alice")
    >>> nightly.definition.handler
    'report'
    >>> len(app.schedules.next("nightly", 3))
    3
    """

    def __init__(self, app: Stepwell) -> None:
        self._app = app
        self.options = Options()

    @property
    def _engine(self) -> ScheduleEngine:
        return self._app.schedule_engine

    # look -------------------------------------------------------------------------------------------------

    def get(self, name: str) -> Schedule:
        """A schedule by its name."""
        return _schedule(self._app.database.read(lambda tx: self._row(tx, name)))

    def list(self) -> list[Schedule]:
        """All schedules, in the order in which they were created."""
        return [_schedule(row) for row in self._rows()]

    def next(self, name: str, count: int = PREVIEWED) -> Moments:
        """The next slots; also of a disabled schedule, as if it were enabled."""
        now = self._app.database.now()
        row = self._app.database.read(lambda tx: self._row(tx, name))
        return _upcoming(row, recorded(row), now, count)

    def executions(
        self, name: str, *, status: str | None = None, before: int | None = None, limit: int = 20
    ) -> ExecutionRows:
        """The newest executions, with an id below `before`."""
        at = _NEWEST if before is None else before
        return self._read(
            name, lambda tx, row: executions.newest_executions(
                tx, job_id=row.id, status=status, before=at, limit=limit
            )
        )  # fmt: skip

    def slots(
        self, name: str, *, first: datetime | None = None, last: datetime | None = None, limit: int = 20
    ) -> SlotRows:
        """The newest rows of the slot ledger, or those of a period, oldest first."""
        if first is None and last is None:
            found = self._read(name, lambda tx, row: slots.newest_slots(tx, job_id=row.id, limit=limit))
            return found[::-1]
        now = self._app.database.now()
        since, until = first or now - timedelta(days=36_500), last or now
        return self._read(
            name, lambda tx, row: slots.slots_between(tx, job_id=row.id, first=since, last=until, limit=limit)
        )

    def changes(self, name: str) -> ChangeRows:
        """Every change of its definition: who, when, why, before and after."""
        return self._read(name, lambda tx, row: schedules.changes_of(tx, job_id=row.id))

    def overdue(self) -> AllMissed:
        """Slots that have not succeeded within their `expect_within`; needs no scheduler."""
        now = self._app.database.now()
        rows = self._app.database.read(lambda tx: slots.overdue(tx, now=now))
        return [found for row in rows if (found := missed(row, now)[0]) is not None]

    def check_ledger(self) -> LedgerGaps:
        """Every slot between two decided ones that the ledger does not have; normally an empty list."""
        return self._app.database.read(lambda tx: [gap for row in self._rows(tx) for gap in ledger_gaps(tx, row)])

    # change -----------------------------------------------------------------------------------------------

    def create(
        self,
        name: str,
        expression: str,
        handler: Any,
        params: dict[str, Any] | None = None,
        *,
        who: str,
        why: str | None = None,
        tz: str = "UTC",
        **settings: Any,
    ) -> Schedule:
        """Register a schedule of a job (or its name) or a workflow; its first slot lies ahead.

        `settings` are fields of `Definition`: max_retry, timeout_seconds, misfire, start_deadline, allow_overlap, ….
        """
        target, handler_name = target_of(handler)
        refuse_unknown(f"schedule {name!r}", settings, FIELDS)
        definition = _defined(
            name,
            {"target": target, **settings, "expression": expression, "handler": handler_name, "zone": tz,
             "params": params or {}},
        )  # fmt: skip

        def work(tx: Transaction) -> CronRow:
            refuse(name, [*problem_of_name(name), *self._engine.problems(tx, definition, name)])
            made = self._engine.editor.create(tx, name, definition, self._by(who, why))
            if made is None:
                raise InvalidSchedule(f"schedule {name!r} exists already; nothing was written")
            return made

        return _schedule(self._app.database.transact(work))

    def edit(self, name: str, *, who: str, why: str | None = None, preview: bool = False, **changes: Any) -> Edit:
        """Change fields of `Definition` (or `tz`); due slots are settled first, and the past never fires.

        Returns the next slots before and after; with `preview`, nothing is written. Of a schedule that code declares,
        the changed fields become overrides, which `reset` removes.
        """
        given = {("zone" if field == "tz" else field): value for field, value in changes.items()}
        refuse_unknown(f"schedule {name!r}", given, FIELDS)

        def work(tx: Transaction) -> Edit:
            by = self._by(who, why)
            row = self._row(tx, name) if preview else self._locked(tx, name)
            before = recorded(row)
            after = _defined(name, {**structs.asdict(before), **given})
            refuse(name, self._engine.problems(tx, after, row.hash_seed or row.name))
            changed = [field for field in FIELDS if getattr(before, field) != getattr(after, field)]
            new = row
            if changed and not preview:
                new = self._engine.editor.write(tx, row, after, by, "edited", overrides=_overridden(row, changed, by))
            return Edit(
                changed=changed,
                before=_upcoming(row, before, by.now, PREVIEWED),
                after=_upcoming(row, after, by.now, PREVIEWED),
                schedule=_schedule(new),
            )

        return self._app.database.transact(work, write=not preview)

    def enable(self, name: str, *, who: str, why: str | None = None) -> Schedule:
        """Enable a schedule; slots that passed while it was disabled do not fire."""
        return self._switch(name, True, who, why)

    def disable(self, name: str, *, who: str, why: str | None = None) -> Schedule:
        """Disable a schedule; executions that exist are not affected."""
        return self._switch(name, False, who, why)

    def reset(self, name: str, *fields: str, who: str, why: str | None = None) -> Schedule:
        """Give overridden fields (all of them, if none is named) back to the code that declares the schedule."""
        refuse_unknown(f"schedule {name!r}", fields, FIELDS)

        def work(tx: Transaction) -> CronRow:
            row = self._locked(tx, name)
            if row.declared is None:
                raise ActionRefused(f"schedule {name!r} is not declared by code; nothing changed")
            kept = overrides_of(row)
            names = [field for field in fields or tuple(kept) if field in kept]
            declared = decoded(row.declared)
            definition = structs.replace(recorded(row), **{field: getattr(declared, field) for field in names})
            rest = {field: value for field, value in kept.items() if field not in names}
            return self._engine.editor.write(tx, row, definition, self._by(who, why), "reset", overrides=rest)

        return _schedule(self._app.database.transact(work))

    def delete(self, name: str, *, who: str, why: str | None = None, force: bool = False) -> None:
        """Delete a schedule with its executions and its ledger. With `force`, live executions are cancelled."""

        def work(tx: Transaction) -> None:
            row, by = self._locked(tx, name), self._by(who, why)
            live = executions.live_executions_of(tx, job_id=row.id)
            if live and not force:
                raise ActionRefused(
                    f"schedule {name!r} has {len(live)} live execution{'s' if len(live) > 1 else ''} (the first is "
                    f"{live[0].id}): wait, or force it, which cancels them; nothing changed"
                )
            for execution in live:
                self._cancel(tx, execution, by)
            self._engine.editor.delete(tx, row, by)

        self._app.database.transact(work)

    def _cancel(self, tx: Transaction, execution: ExecutionRow, by: Author) -> None:
        reason = "operator: its schedule was deleted"
        if execution.step_id is not None:
            operator.cancel_by_hand(tx, id=execution.step_id, actor=by.actor, reason=reason, now=by.now)
        elif execution.workflow_id is not None:
            from stepwell.model.actors import By
            from stepwell.workflow.by_hand.actions import cancel

            cancel(tx, execution.workflow_id, By(by.actor, "its schedule was deleted", by.now))

    def _switch(self, name: str, enabled: bool, who: str, why: str | None) -> Schedule:
        def work(tx: Transaction) -> CronRow:
            row = self._locked(tx, name)
            before = recorded(row)
            if before.enabled == enabled:
                return row
            after = structs.replace(before, enabled=enabled)
            if enabled:
                refuse(name, self._engine.problems(tx, after, row.hash_seed or row.name))
            kind = "enabled" if enabled else "disabled"
            return self._engine.editor.write(tx, row, after, self._by(who, why), kind)  # type: ignore[arg-type]

        return _schedule(self._app.database.transact(work))

    # run --------------------------------------------------------------------------------------------------

    def run_now(self, name: str, *, who: str, why: str | None = None) -> ExecutionRow:
        """Create an execution beside the slots, also of a disabled schedule."""
        return self._app.database.transact(
            lambda tx: run_now(tx, self._engine, self._locked(tx, name), self._by(who, why))
        )

    def backfill(
        self,
        name: str,
        first: datetime,
        last: datetime,
        *,
        who: str,
        why: str | None = None,
        preview: bool = False,
    ) -> Backfill:
        """Run the slots of a period (both ends included) that have neither succeeded nor are about to run.

        Uses the definition of today. With `preview`, nothing is written.
        """
        if preview:
            return self._read(name, lambda tx, row: plan_backfill(tx, row, first, last))
        return self._app.database.transact(
            lambda tx: backfill(tx, self._engine, self._locked(tx, name), first, last, self._by(who, why))
        )

    def scheduler(self) -> Scheduler:
        """A scheduler, which a part of a crew runs."""
        return Scheduler(self._app.database, self._engine, self._app.events, self.options)

    def run_once(self) -> int:
        """Decide everything that is due now; returns how many executions were created."""
        return self.scheduler().round().fired

    # ------------------------------------------------------------------------------------------------------

    def _by(self, who: str, why: str | None) -> Author:
        return Author(actor_of(who), storable(why), self._app.database.now())

    def _read(self, name: str, look: Callable[[Transaction, CronRow], T]) -> T:
        return self._app.database.read(lambda tx: look(tx, self._row(tx, name)))

    def _row(self, tx: Transaction, name: str) -> CronRow:
        row = schedules.cron_by_name(tx, name=name)
        if row is None:
            names = schedules.cron_names(tx)
            rest = f"; {hint(name, names, 'schedules')}" if names else "; there are none"
            raise ScheduleNotFound(f"no schedule {name!r}{rest}")
        return row

    def _locked(self, tx: Transaction, name: str) -> CronRow:
        """The row, locked; what plain SQL changed in it is taken note of first."""
        from stepwell.schedule.noticing import Noticing

        row = schedules.lock_cron(tx, id=self._row(tx, name).id)
        if row is None:
            raise ScheduleNotFound(f"schedule {name!r} was deleted a moment ago")
        if row.edited_at is not None:
            Noticing(self._engine).notice(tx, row, self._app.database.now())
            return self._row(tx, name)
        return row

    def _rows(self, tx: Transaction | None = None) -> Iterator[CronRow]:
        after = 0
        while True:
            page = (
                schedules.all_crons(tx, after=after, limit=_PAGE)
                if tx is not None
                else self._app.database.read(lambda tx, after=after: schedules.all_crons(tx, after=after, limit=_PAGE))  # type: ignore[misc]
            )
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1].id


def _defined(name: str, values: dict[str, Any]) -> Definition:
    try:
        return msgspec.convert(values, Definition)
    except msgspec.ValidationError as error:
        raise InvalidSchedule(f"schedule {name!r}: {error}; nothing was written") from error


def _overridden(row: CronRow, changed: list[str], by: Author) -> dict[str, Override]:
    if row.declared is None:
        return overrides_of(row)
    new = {field: Override(by.actor, by.now, by.why) for field in changed if field not in OF_OPERATORS}
    return overrides_of(row) | new


def _upcoming(row: CronRow, definition: Definition, after: datetime, count: int) -> list[datetime]:
    times = timetable_of(row, definition)
    found: list[datetime] = []
    while len(found) < count and (slot := times.after(after)) is not None:
        found.append(slot)
        after = slot
    return found


def _schedule(row: CronRow) -> Schedule:
    return Schedule(
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
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
