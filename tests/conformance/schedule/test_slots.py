"""Slots become executions with steps, once each; their status follows the steps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stepwell import Stepwell
from stepwell.model.errors import ActionRefused
from stepwell.schedule.errors import InvalidSchedule
from stepwell.testing import ManualClock

MINUTE = timedelta(minutes=1)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC))


@pytest.fixture
def reports(app: Stepwell) -> Stepwell:
    @app.job(backoff=0)
    def report(fails: bool = False) -> str:
        if fails:
            raise ValueError("no data")
        return "done"

    return app


def at(hour: int, minute: int) -> datetime:
    return datetime(2026, 1, 1, hour, minute, tzinfo=UTC)


def create(app: Stepwell, expression: str = "*/5 * * * *", **settings: Any) -> None:
    app.schedules.create("s", expression, "report", who="alice", **settings)


def statuses(app: Stepwell) -> list[tuple[datetime, str]]:
    return [(row.scheduled_time, row.status) for row in reversed(app.schedules.executions("s", limit=500))]


def outcomes(app: Stepwell) -> list[tuple[datetime, datetime, str, str | None]]:
    return [(row.slot, row.until_slot, row.outcome, row.reason) for row in app.schedules.slots("s", limit=500)]


def test_a_due_slot_becomes_a_pending_execution_with_the_exact_time_and_its_step(
    reports: Stepwell, clock: ManualClock
) -> None:
    create(reports)
    assert reports.schedules.run_once() == 0
    clock.move_to(at(0, 5) + timedelta(seconds=3))
    assert reports.schedules.run_once() == 1
    assert reports.schedules.run_once() == 0
    assert statuses(reports) == [(at(0, 5), "PENDING")]
    assert outcomes(reports) == [(at(0, 5), at(0, 5), "fired", None)]
    assert reports.run_until_idle() == 1
    (row,) = reports.schedules.executions("s")
    assert (row.status, row.result, row.retry_count) == ("SUCCESS", '"done"', 0)
    assert row.started_at is not None
    assert row.finished_at is not None
    assert reports.schedules.get("s").last_success == at(0, 5)


def test_max_retry_is_the_number_of_attempts_in_all_and_a_failure_is_failed(
    reports: Stepwell, clock: ManualClock
) -> None:
    create(reports, params={"fails": True}, max_retry=2)
    clock.move_to(at(0, 5))
    reports.schedules.run_once()
    for _ in range(4):
        reports.run_until_idle()
        clock.advance(60)
    (row,) = reports.schedules.executions("s")
    assert (row.status, row.retry_count) == ("FAILED", 1)
    assert "no data" in (row.error_message or "")
    assert reports.step(row.step_id or 0).attempts == 2
    reports.retry(row.step_id or 0, who="alice")
    assert [status for _, status in statuses(reports)] == ["PENDING"]


def test_a_cut_at_the_timeout_spends_an_attempt_and_the_last_one_is_timeout(app: Stepwell, clock: ManualClock) -> None:
    @app.job()
    def report() -> None:
        clock.advance(100)

    create(app, timeout_seconds=10, max_retry=2)
    clock.move_to(at(0, 5))
    app.schedules.run_once()
    app.run_until_idle()
    (row,) = app.schedules.executions("s")
    assert (row.status, row.retry_count) == ("TIMEOUT", 1)
    assert app.step(row.step_id or 0).attempts == 2


@pytest.mark.parametrize(("misfire", "fired"), [("skip", []), ("once", [at(0, 55)]), ("all", [at(0, 50), at(0, 55)])])
def test_misfire_concerns_slots_older_than_the_grace_and_older_ones_become_one_gap(
    reports: Stepwell, clock: ManualClock, misfire: str, fired: list[datetime]
) -> None:
    create(reports, misfire=misfire, misfire_limit=2)
    clock.move_to(at(1, 0))
    reports.schedules.run_once()
    assert [slot for slot, _ in statuses(reports)] == [*fired, at(1, 0)]
    gap = outcomes(reports)[0]
    assert gap == (at(0, 5), (fired or [at(1, 0)])[0] - 5 * MINUTE, "skipped", "misfire")
    assert reports.schedules.check_ledger() == []


def test_without_overlap_an_on_time_slot_is_skipped_while_another_execution_is_live(
    reports: Stepwell, clock: ManualClock
) -> None:
    create(reports, allow_overlap=False)
    for minute in (5, 10):
        clock.move_to(at(0, minute))
        reports.schedules.run_once()
    assert [(each[2], each[3]) for each in outcomes(reports)] == [("fired", None), ("skipped", "overlap")]
    reports.run_until_idle()
    clock.move_to(at(0, 15))
    reports.schedules.run_once()
    assert [each[2] for each in outcomes(reports)] == ["fired", "skipped", "fired"]


def test_an_edit_settles_due_slots_first_and_never_fires_the_past(reports: Stepwell, clock: ManualClock) -> None:
    create(reports)
    clock.move_to(at(0, 5) + timedelta(seconds=1))
    edit = reports.schedules.edit("s", expression="*/2 * * * *", who="bob", why="busier")
    assert edit.changed == ["expression"]
    assert edit.before[0] == at(0, 10)
    assert edit.after[0] == at(0, 6)
    assert statuses(reports) == [(at(0, 5), "PENDING")]
    reports.schedules.disable("s", who="bob", why="holiday")
    clock.move_to(at(0, 20) + timedelta(seconds=1))
    assert reports.schedules.run_once() == 0
    reports.schedules.enable("s", who="bob")
    assert reports.schedules.run_once() == 0
    assert outcomes(reports)[-1] == (at(0, 6), at(0, 20), "skipped", "disabled")
    assert [change.kind for change in reports.schedules.changes("s")] == ["created", "edited", "disabled", "enabled"]
    assert reports.schedules.check_ledger() == []


def test_plain_sql_is_noticed_as_an_edit_and_a_bad_expression_disables_only_that_schedule(
    reports: Stepwell, clock: ManualClock
) -> None:
    reports.record_jobs()
    create(reports)

    def insert(name: str, expression: str) -> None:
        sql = f"INSERT INTO cron_jobs (name, cron_expression, handler_name) VALUES ('{name}', '{expression}', 'report')"
        reports.database.transact(lambda tx: tx.execute(sql, {}))

    insert("good", "*/5 * * * *")
    insert("bad", "61 * * * *")
    reports.database.transact(
        lambda tx: tx.execute("UPDATE cron_jobs SET cron_expression = '*/10 * * * *' WHERE name = 's'", {})
    )
    reports.schedules.run_once()
    assert not reports.schedules.get("bad").definition.enabled
    assert "61" in (reports.schedules.get("bad").disabled_reason or "")
    assert reports.schedules.get("s").definition.expression == "*/10 * * * *"
    assert reports.schedules.changes("s")[-1].actor == "plain SQL"
    clock.move_to(at(0, 10))
    reports.schedules.run_once()
    assert len(reports.schedules.executions("good")) == 2
    assert [slot for slot, _ in statuses(reports)] == [at(0, 10)]


def test_when_the_clock_goes_back_fired_slots_stay_and_skipped_ones_are_decided_again(
    reports: Stepwell, clock: ManualClock
) -> None:
    create(reports, "* * * * *", misfire="skip")
    clock.advance(3600)
    reports.schedules.run_once()
    fired = statuses(reports)
    clock.adjust(-1800)
    reports.schedules.run_once()
    assert reports.schedules.get("s").last_slot == clock.now()
    for _ in range(40):
        clock.advance(60)
        reports.schedules.run_once()
    times = [slot for slot, _ in statuses(reports)]
    assert len(times) == len(set(times))
    assert {slot for slot, _ in fired} <= set(times)
    assert reports.schedules.check_ledger() == []


def test_manual_runs_and_backfills_take_no_slots_place(reports: Stepwell, clock: ManualClock) -> None:
    create(reports)
    clock.move_to(at(0, 5))
    reports.schedules.run_once()
    reports.run_until_idle()
    manual = reports.schedules.run_now("s", who="bob")
    assert (manual.kind, manual.slot) == ("manual", None)
    assert manual.scheduled_time.microsecond
    plan = reports.schedules.backfill("s", at(0, 0), at(0, 10), who="bob", preview=True)
    assert plan.slots == [at(0, 0), at(0, 10)]
    assert plan.passed_over == {at(0, 5): "SUCCESS"}
    made = reports.schedules.backfill("s", at(0, 0), at(0, 5), who="bob")
    assert len(made.executions) == 1
    assert reports.run_until_idle() == 2


def test_a_live_execution_keeps_its_schedule_from_being_deleted_unless_forced(
    reports: Stepwell, clock: ManualClock
) -> None:
    create(reports)
    clock.move_to(at(0, 5))
    reports.schedules.run_once()
    (row,) = reports.schedules.executions("s")
    with pytest.raises(ActionRefused, match="live execution"):
        reports.schedules.delete("s", who="bob")
    reports.schedules.delete("s", who="bob", force=True)
    assert reports.step(row.step_id or 0).state == "Cancelled"
    assert reports.schedules.list() == []


def test_everything_that_is_wrong_is_said_at_once(reports: Stepwell) -> None:
    with pytest.raises(InvalidSchedule) as error:
        reports.schedules.create("s", "0 25 * * *", "repot", who="alice", max_retry=0)
    assert all(word in str(error.value) for word in ("25", "repot", "max_retry"))
    with pytest.raises(InvalidSchedule, match="parameters"):
        create(reports, params={"unknown": 1})
