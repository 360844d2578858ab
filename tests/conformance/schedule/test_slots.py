"""Slots become executions with steps, once each and with the exact time; none is lost (issue items 1 to 3)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from stepwell import Stepwell
from stepwell.testing import ManualClock
from tests.conformance.schedule.support import (
    MINUTE,
    SECOND,
    at,
    create,
    fired,
    only,
    outcomes,
    plain_sql,
    statuses,
    tick,
)


def test_a_due_slot_becomes_a_pending_execution_with_the_exact_time_and_its_step(
    reports: Stepwell, clock: ManualClock
) -> None:
    create(reports)
    assert reports.schedules.run_once() == 0
    assert tick(reports, clock, at(0, 5) + 3 * SECOND) == 1
    assert reports.schedules.run_once() == 0
    assert statuses(reports) == [(at(0, 5), "PENDING")]
    assert outcomes(reports) == [(at(0, 5), at(0, 5), "fired", None)]
    step = reports.step(only(reports).step_id or 0)
    assert (step.action, step.label, step.arguments) == ("report", "s", {})


@pytest.mark.parametrize("late", [timedelta(0), timedelta(microseconds=1), 59 * SECOND, 120 * SECOND])
def test_a_poll_exactly_on_the_slot_or_up_to_the_grace_later_fires_it(
    reports: Stepwell, clock: ManualClock, late: timedelta
) -> None:
    create(reports, misfire="skip")
    assert tick(reports, clock, at(0, 5) - timedelta(microseconds=1)) == 0
    assert tick(reports, clock, at(0, 5) + late) == 1
    assert fired(reports) == [at(0, 5)]


def test_polls_that_drift_lose_no_slot_and_fire_none_twice(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, "* * * * *")
    for _ in range(60):
        clock.advance(61.7)
        reports.schedules.run_once()
    assert fired(reports) == [at(0, 1) + n * MINUTE for n in range(len(fired(reports)))]
    assert len(fired(reports)) == 62
    assert reports.schedules.check_ledger() == []


def test_a_restart_goes_on_where_the_last_scheduler_stopped(reports: Stepwell, clock: ManualClock) -> None:
    create(reports)
    first = reports.schedules.scheduler()
    clock.move_to(at(0, 5))
    assert first.round().fired == 1
    clock.move_to(at(0, 15))
    second = reports.schedules.scheduler()
    assert second.round().fired == 2  # 00:10 is older than the grace: fired once; 00:15 is due
    assert fired(reports) == [at(0, 5), at(0, 10), at(0, 15)]


def test_the_same_job_and_time_cannot_have_two_executions(reports: Stepwell, clock: ManualClock) -> None:
    create(reports)
    tick(reports, clock, at(0, 5))
    before = len(reports.steps())
    # As if the last slot had been lost, as after a restore of an old backup of one table.
    plain_sql(reports, "DELETE FROM steps_schedule_slots")
    old = "2026-01-01 00:00:30.000000" + ("" if reports.database.dialect == "sqlite" else "+00")
    plain_sql(reports, f"UPDATE cron_jobs SET last_slot = '{old}', next_slot = '{old}'")
    assert reports.schedules.run_once() == 0
    assert fired(reports) == [at(0, 5)]
    assert len(reports.steps()) == before


def test_a_disabled_schedule_creates_no_execution(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, enabled=False)
    assert tick(reports, clock, at(3)) == 0
    assert statuses(reports) == []


def test_handler_and_parameters_are_those_at_creation(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, params={"fails": False})
    tick(reports, clock, at(0, 5))
    reports.schedules.edit("s", params={"fails": True}, who="bob")
    reports.run_until_idle()
    assert only(reports).status == "SUCCESS"


def test_jitter_delays_the_step_and_never_the_slot(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, jitter=600.0)
    tick(reports, clock, at(0, 5))
    row = only(reports)
    assert row.scheduled_time == at(0, 5)
    due = reports.step(row.step_id or 0).dispatch_after
    assert due is not None
    assert at(0, 5) < due <= at(0, 15)
    assert reports.run_until_idle() == 0
    clock.move_to(due)
    assert reports.run_until_idle() == 1


def test_many_schedules_of_one_minute_are_written_in_few_transactions(reports: Stepwell, clock: ManualClock) -> None:
    for number in range(30):
        create(reports, name=f"s{number}")
    clock.move_to(at(0, 5))
    commits = 0

    def count(moment: str, _: object) -> None:
        nonlocal commits
        commits += moment == "after"

    reports.database.watch = count
    assert reports.schedules.run_once() == 30
    reports.database.watch = None
    assert commits <= 3
    assert all(fired(reports, f"s{number}") == [at(0, 5)] for number in range(30))


def test_a_job_with_an_idempotency_key_runs_at_every_slot(shared_database_url: str) -> None:
    clock = ManualClock(at(0))
    with Stepwell(shared_database_url, clock=clock) as coded, Stepwell(shared_database_url, clock=clock) as bare:

        @coded.job(key="once")
        def report() -> None: ...

        coded.record_jobs()
        create(coded)
        for app, minute in ((coded, 5), (coded, 10), (bare, 15), (bare, 20)):
            assert tick(app, clock, at(0, minute)) == 1
        assert coded.run_until_idle() == 4
