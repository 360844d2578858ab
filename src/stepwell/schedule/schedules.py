"""`app.schedules`: registering, changing, running and inspecting schedules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from msgspec import structs

from stepwell.model.actors import actor_of, storable
from stepwell.model.errors import ActionRefused
from stepwell.model.ids import LARGEST_ID
from stepwell.model.suggest import refuse_unknown
from stepwell.schedule.alarms import Missed, missed
from stepwell.schedule.backfilling import Backfill, backfill, plan_backfill, run_now
from stepwell.schedule.checks import problem_of_name, refuse
from stepwell.schedule.declaring import Declared
from stepwell.schedule.definition import FIELDS, changed_fields, decoded, recorded, seed_of
from stepwell.schedule.deleting import delete
from stepwell.schedule.due import DueWork
from stepwell.schedule.editing import Author, Kind, overrides_after, overrides_of
from stepwell.schedule.engine import ScheduleEngine
from stepwell.schedule.errors import InvalidSchedule
from stepwell.schedule.explaining import SlotExplanation, explain_slot
from stepwell.schedule.finding import all_rows, find, find_and_lock
from stepwell.schedule.ledger import LedgerGap, ledger_gaps
from stepwell.schedule.options import Options
from stepwell.schedule.reconciling import Reconciled, ScheduleReconciler
from stepwell.schedule.schedule import Edit, Schedule, defined, upcoming
from stepwell.schedule.scheduler import Scheduler
from stepwell.schedule.targets import target_of
from stepwell.store import Database, Transaction
from stepwell.store.engine import executions, schedules, slots
from stepwell.store.engine.executions import ExecutionRow
from stepwell.store.engine.schedules import ChangeRow, CronRow
from stepwell.store.engine.slots import SlotRow
from stepwell.store.filters import check_page

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
        self.declared = Declared()  # by `@app.cron`
        self._reconciled: Database | None = None

    @property
    def options(self) -> Options:
        """What is set about schedulers: section `[scheduler]` of stepwell.toml."""
        return self._app.scheduler_options

    @options.setter
    def options(self, options: Options) -> None:
        self._app.scheduler_options = options

    @property
    def _engine(self) -> ScheduleEngine:
        return self._app.schedule_engine

    # look -------------------------------------------------------------------------------------------------

    def get(self, name: str) -> Schedule:
        """A schedule by its name."""
        return self._read(name, lambda _, row: Schedule.of(row))

    def list(self) -> list[Schedule]:
        """All schedules, in the order in which they were created."""
        return self._app.database.read(lambda tx: [Schedule.of(row) for row in all_rows(tx)])

    def next(self, name: str, count: int = PREVIEWED) -> Moments:
        """The next slots; also of a disabled schedule, as if it were enabled."""
        now = self._app.database.now()
        return self._read(name, lambda _, row: upcoming(row, recorded(row), now, count))

    def executions(
        self, name: str, *, status: str | None = None, before: int | None = None, limit: int = 20
    ) -> ExecutionRows:
        """The newest executions, with an id below `before`."""
        check_page(limit, before)
        at = LARGEST_ID if before is None else before
        return self._read(
            name, lambda tx, row: executions.newest_executions(
                tx, job_id=row.id, status=status, before=at, limit=limit
            )
        )  # fmt: skip

    def slots(
        self, name: str, *, first: datetime | None = None, last: datetime | None = None, limit: int = 20
    ) -> SlotRows:
        """The newest rows of the slot ledger, or those of a period, oldest first."""
        check_page(limit)
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

    def explain(self, name: str, at: datetime) -> SlotExplanation:
        """Why it ran, or did not run, at a time: one of the schedule's own zone, unless it has one."""
        now = self._app.database.now()
        return self._app.database.read(lambda tx: explain_slot(tx, name, at, now))

    def overdue(self) -> AllMissed:
        """Schedules without a success within their `expect_within`, until they succeed again; needs no scheduler."""
        now = self._app.database.now()
        rows = self._app.database.read(slots.expecting)
        return [found for row in rows if (found := missed(row, now)) is not None]

    def check_ledger(self) -> LedgerGaps:
        """Every slot between two decided ones that the ledger does not have; normally an empty list."""
        return self._app.database.read(lambda tx: [gap for row in all_rows(tx) for gap in ledger_gaps(tx, row)])

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
        """Register a schedule of a job (or its name) or a workflow; its first slot is in the future.

        `settings` are fields of `Definition`: max_retry, timeout_seconds, misfire, start_deadline, allow_overlap, ….
        """
        target, handler_name = target_of(handler)
        refuse_unknown(f"schedule {name!r}", settings, FIELDS)
        definition = defined(
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

        return Schedule.of(self._app.database.transact(work))

    def edit(self, name: str, *, who: str, why: str | None = None, preview: bool = False, **changes: Any) -> Edit:
        """Change fields of `Definition` (or `tz`); due slots are decided first, and past slots never fire.

        Returns the next slots before and after; with `preview`, nothing is written. Of a schedule that code declares,
        the changed fields become overrides, which `reset` removes.
        """
        given = {("zone" if field == "tz" else field): value for field, value in changes.items()}
        refuse_unknown(f"schedule {name!r}", given, FIELDS)
        return self._edit(name, given, who, why, preview=preview)

    def _edit(
        self,
        name: str,
        given: dict[str, Any],
        who: str,
        why: str | None,
        *,
        preview: bool,
        operation: str | None = None,
    ) -> Edit:
        def work(tx: Transaction) -> Edit:
            row = find(tx, name) if preview else self._locked(tx, name)
            by = self._by(who, why)
            before = recorded(row)
            after = defined(name, {**structs.asdict(before), **given})
            refuse(name, self._engine.problems(tx, after, seed_of(row)))
            changed = changed_fields(before, after)
            new = row
            if changed and not preview:
                kept = overrides_after(row, after, changed, by)
                new = self._engine.editor.write(tx, row, after, by, "edited", overrides=kept, operation=operation)
            return Edit(
                changed=changed,
                before=upcoming(row, before, by.now, PREVIEWED),
                after=upcoming(row, after, by.now, PREVIEWED),
                zone_before=before.zone,
                zone_after=after.zone,
                schedule=Schedule.of(new),
            )

        return self._app.database.transact(work, write=not preview)

    def enable(self, name: str, *, who: str, why: str | None = None) -> Schedule:
        """Enable a schedule; slots that passed while it was disabled do not fire."""
        return self._switch(name, True, who, why)

    def disable(self, name: str, *, who: str, why: str | None = None) -> Schedule:
        """Disable a schedule; executions that exist are not affected."""
        return self._switch(name, False, who, why)

    def declared_values(self, name: str, fields: Sequence[str] = ()) -> dict[str, Any]:
        """What the code declares about overridden fields, or about some of them; "all" stands for all."""
        refuse_unknown(f"schedule {name!r}", fields, [*FIELDS, "all"])
        row = self._app.database.read(lambda tx: find(tx, name))
        if row.declared is None:
            raise ActionRefused(f"schedule {name!r} is not declared by code; nothing changed")
        declared = decoded(row.declared)
        overridden = overrides_of(row)
        return {
            field: getattr(declared, field) for field in overridden if not fields or field in fields or "all" in fields
        }

    def reset(self, name: str, *fields: str, who: str, why: str | None = None) -> Schedule:
        """Remove overrides (all of them, if no field is named): the values that the code declares apply again."""
        given = self.declared_values(name, fields)
        return self._edit(name, given, who, why, preview=False, operation="reset_schedule").schedule

    def delete(self, name: str, *, who: str, why: str | None = None, force: bool = False) -> None:
        """Delete a schedule with its executions and its ledger.

        With `force`, live executions are cancelled, and it does not matter whether code declares it.
        """
        self._app.database.transact(
            lambda tx: delete(tx, self._engine, self._locked(tx, name), self._by(who, why), force=force)
        )

    def reconcile(self, *, force: bool = False) -> Reconciled:
        """Write the schedules that `@app.cron` declares; workers and schedulers do it when they start.

        Code that is older than what another process has written changes nothing, unless `force` is given, as after a
        rollback.
        """
        reconciler = ScheduleReconciler(self._app.database, self._engine, self._app.name)
        done = reconciler.run(self.declared.definitions, force=force)
        self._reconciled = self._app.database
        return done

    def reconcile_once(self) -> None:
        """The same at the start of a part. An app without a name has no schedules of its own."""
        if self._reconciled is not self._app.database and (self.declared.definitions or self._app.has_name()):
            self.reconcile()

    def _switch(self, name: str, enabled: bool, who: str, why: str | None) -> Schedule:
        def work(tx: Transaction) -> CronRow:
            row = self._locked(tx, name)
            before = recorded(row)
            if before.enabled == enabled:
                return row
            after = structs.replace(before, enabled=enabled)
            if enabled:
                refuse(name, self._engine.problems(tx, after, seed_of(row)))
            kind: Kind = "enabled" if enabled else "disabled"
            return self._engine.editor.write(tx, row, after, self._by(who, why), kind)

        return Schedule.of(self._app.database.transact(work))

    # run --------------------------------------------------------------------------------------------------

    def run_now(self, name: str, *, who: str, why: str | None = None) -> ExecutionRow:
        """Create an execution independent of the slots, also of a disabled schedule."""
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

        Uses the current definition; times without a zone are in the zone of the schedule. With `preview`, nothing is
        written.
        """
        if preview:
            now = self._app.database.now()
            return self._read(name, lambda tx, row: plan_backfill(tx, row, first, last, now))
        return self._app.database.transact(
            lambda tx: backfill(tx, self._engine, self._locked(tx, name), first, last, self._by(who, why))
        )

    def scheduler(self) -> Scheduler:
        """A scheduler, which a part of a crew runs."""
        return Scheduler(self._app.database, self.due_work, self.options)

    def due_work(self) -> DueWork:
        """What a scheduler does when something is due."""
        return DueWork(self._app.database, self._engine, self._app.events, self.options)

    def run_once(self) -> int:
        """Decide everything that is due now; returns how many executions were created."""
        return self.scheduler().round().fired

    # ------------------------------------------------------------------------------------------------------

    def _by(self, who: str, why: str | None) -> Author:
        return Author(actor_of(who), storable(why), self._app.database.now())

    def _read(self, name: str, look: Callable[[Transaction, CronRow], T]) -> T:
        return self._app.database.read(lambda tx: look(tx, find(tx, name)))

    def _locked(self, tx: Transaction, name: str) -> CronRow:
        return find_and_lock(tx, self._app.database, self._engine, name)
