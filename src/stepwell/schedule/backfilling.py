"""Executions outside of the ledger: a manual run, and backfilled slots. They take no slot's place."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

import msgspec

from stepwell.model.errors import ActionRefused
from stepwell.model.times import in_utc, problem_of_moment
from stepwell.schedule.definition import recorded, timetable_of
from stepwell.schedule.editing import Author
from stepwell.schedule.engine import ScheduleEngine
from stepwell.schedule.executing import Wanted
from stepwell.store import Transaction
from stepwell.store.audit import record_with_parameters
from stepwell.store.engine import executions, slots
from stepwell.store.engine.executions import ExecutionRow
from stepwell.store.engine.schedules import CronRow

MAX_SLOTS: Final = 10_000  # a week of minutes; more is probably a mistake in the dates
_MICROSECOND: Final = timedelta(microseconds=1)
_PASSED_OVER: Final = ("SUCCESS", "PENDING", "RUNNING")


class Backfill(msgspec.Struct, frozen=True, kw_only=True):
    """The slots that a backfill runs, those that it passes over with their status, and what it created."""

    slots: list[datetime]
    passed_over: dict[datetime, str]
    executions: list[int] = []


def run_now(tx: Transaction, engine: ScheduleEngine, cron: CronRow, by: Author) -> ExecutionRow:
    definition = recorded(cron)
    _refuse_overlap(tx, cron, 1)
    (moment,) = _times(tx, cron, by.now, 1)
    work = engine.executions.work_of(cron, definition, None, by.now)
    wanted = Wanted(cron, definition, moment, None, work, kind="manual", requested_by=by.actor, reason=by.why)
    (made,) = engine.executions.create(tx, [wanted], by.now).values()
    found = executions.execution(tx, id=made)
    assert found is not None
    if by.operator is not None:
        what = {"schedule": cron.name, "execution": found.id}
        record_with_parameters(
            tx, "run_schedule", by.operator, what, step_id=found.step_id, workflow_id=found.workflow_id
        )
    return found


def plan_backfill(tx: Transaction, cron: CronRow, first: datetime, last: datetime, now: datetime) -> Backfill:
    """Which slots a backfill runs. Those that a scheduler is still to decide about are left to it."""
    times = timetable_of(cron)
    first, last = (each if each.tzinfo else each.replace(tzinfo=times.zone_info) for each in (first, last))
    for moment in (first, last):
        if (problem := problem_of_moment(moment)) is not None:
            raise ActionRefused(f"the period {problem}; nothing was created")
    if first > last:
        raise ActionRefused(f"the period ends ({last}) before it begins ({first}); nothing was created")
    decided = cron.last_slot if cron.next_slot is not None and cron.last_slot is not None else now
    first, last = in_utc(first), min(in_utc(last), decided, now)
    taken: dict[datetime, str] = {}
    for row in executions.executions_of_slots(tx, job_id=cron.id, first=first, last=last):
        if row.status in _PASSED_OVER:
            taken[row.slot] = row.status
    found = []
    for slot in times.slots(first - _MICROSECOND, last):
        if slot not in taken:
            found.append(slot)
        if len(found) > MAX_SLOTS:
            raise ActionRefused(
                f"there are more than {MAX_SLOTS:,} slots between {first} and {last}; choose a shorter period; "
                "nothing was created"
            )
    return Backfill(slots=found, passed_over=taken)


def backfill(
    tx: Transaction, engine: ScheduleEngine, cron: CronRow, first: datetime, last: datetime, by: Author
) -> Backfill:
    plan = plan_backfill(tx, cron, first, last, by.now)
    if not plan.slots:
        return plan
    definition = recorded(cron)
    _refuse_overlap(tx, cron, len(plan.slots))
    wanted = [
        Wanted(
            cron,
            definition,
            moment,
            slot,
            engine.executions.work_of(cron, definition, None, by.now),
            kind="backfill",
            requested_by=by.actor,
            reason=by.why,
        )
        for slot, moment in zip(plan.slots, _times(tx, cron, by.now, len(plan.slots)), strict=True)
    ]
    made = engine.executions.create(tx, wanted, by.now)
    if by.operator is not None:
        period = {"first": first.isoformat(), "last": last.isoformat()}
        what = {"schedule": cron.name, **period, "executions": len(made)}
        record_with_parameters(tx, "backfill_schedule", by.operator, what)
    return Backfill(slots=plan.slots, passed_over=plan.passed_over, executions=sorted(made.values()))


def _times(tx: Transaction, cron: CronRow, now: datetime, count: int) -> Iterator[datetime]:
    """Distinct times that no slot can have: slots are whole seconds."""
    newest = slots.newest_time_without_slot(tx, job_id=cron.id)
    moment = now if newest is None else max(now, newest + _MICROSECOND)
    for _ in range(count):
        if moment.microsecond == 0:
            moment += _MICROSECOND
        yield moment
        moment += _MICROSECOND


def _refuse_overlap(tx: Transaction, cron: CronRow, count: int) -> None:
    """Steps wait for each other by their concurrency key; workflows have none."""
    definition = recorded(cron)
    if definition.allow_overlap or definition.target == "job":
        return
    live = executions.live_executions_of(tx, job_id=cron.id)
    if live or count > 1:
        what = f"execution {live[0].id} is live" if live else f"{count} workflows would run at once"
        raise ActionRefused(f"schedule {cron.name!r} does not allow overlap and {what}; nothing was created")
