"""Rule 4: the ledger has every slot; manual runs and backfills take no slot's place; retention keeps what matters."""

from __future__ import annotations

import pytest

from stepwell import Stepwell
from stepwell.model.errors import ActionRefused, CronParseError
from stepwell.testing import ManualClock
from tests.conformance.schedule.support import at, create, fired, only, outcomes, plain_sql, statuses, tick


def test_a_gap_of_a_year_of_minutes_is_one_row_with_its_expression(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, "* * * * *", misfire="skip")
    clock.advance(365 * 86_400)
    reports.schedules.run_once()
    gap = reports.schedules.slots("s")[0]
    assert (gap.expression, gap.zone, gap.reason, gap.detail) == ("* * * * *", "UTC", "misfire", "misfire policy skip")
    assert len(reports.schedules.slots("s", limit=100)) == 1 + len(fired(reports))


def test_slots_of_a_period_are_listed_oldest_first_with_the_gaps_that_touch_it(
    reports: Stepwell, clock: ManualClock
) -> None:
    create(reports, misfire="skip")
    tick(reports, clock, at(1))
    tick(reports, clock, at(1, 5))
    found = reports.schedules.slots("s", first=at(0, 30), last=at(1))
    assert [(row.slot, row.until_slot) for row in found] == [(at(0, 5), at(0, 55)), (at(1), at(1))]


def test_the_ledger_is_complete_through_edits_pauses_and_outages(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, "*/7 * * * *", misfire="all", misfire_limit=3, allow_overlap=False, start_deadline=200.0)
    tick(reports, clock, at(0, 50))
    reports.run_until_idle()
    reports.schedules.edit("s", expression="*/11 * * * *", tz="Asia/Kathmandu", who="bob")
    tick(reports, clock, at(2))
    reports.schedules.disable("s", who="bob")
    clock.move_to(at(4))
    reports.schedules.edit("s", expression="*/4 * * * *", who="bob")
    clock.move_to(at(5))
    reports.schedules.enable("s", who="bob")
    tick(reports, clock, at(6))
    assert reports.schedules.check_ledger() == []
    assert {reason for *_, reason in outcomes(reports)} >= {"misfire", "disabled", "start_deadline"}


def test_retention_keeps_last_slot_and_success_and_the_ledger_is_complete_from_there(
    reports: Stepwell, clock: ManualClock
) -> None:
    create(reports)
    for minute in range(5, 60, 5):
        tick(reports, clock, at(0, minute))
        reports.run_until_idle()
    before = reports.schedules.get("s")
    assert reports.retention.prune(before=at(0, 31)).steps == 6
    assert fired(reports)[0] == outcomes(reports)[0][0] == at(0, 35)
    after = reports.schedules.get("s")
    assert (after.last_slot, after.last_success) == (before.last_slot, before.last_success)
    assert reports.schedules.check_ledger() == []
    assert reports.schedules.explain("s", at(0, 10)).verdict == "pruned"
    clock.move_to(at(0, 59))
    assert reports.retention.prune(before=at(0, 59)).steps == 5  # also if everything goes
    assert outcomes(reports) == []
    tick(reports, clock, at(1, 5))
    reports.run_until_idle()
    assert reports.schedules.check_ledger() == []


def test_retention_removes_nothing_of_a_live_execution_and_what_is_around_it(
    reports: Stepwell, clock: ManualClock
) -> None:
    create(reports)
    for minute in (5, 10, 15):
        tick(reports, clock, at(0, minute))
    live = reports.schedules.executions("s")[1]
    for row in reports.schedules.executions("s"):
        if row.id != live.id:
            reports.complete(row.step_id or 0, who="bob")
    clock.move_to(at(1, day=20))
    reports.retention.prune(before=at(1))
    assert statuses(reports) == [(at(0, 10), "PENDING")]
    assert outcomes(reports) == [(at(0, 10), at(0, 10), "fired", None)]
    assert reports.schedules.check_ledger() == []
    assert reports.schedules.explain("s", at(0, 10)).verdict == "fired"
    assert reports.schedules.explain("s", at(0, 15)).verdict == "pruned"
    reports.run_until_idle()
    assert only(reports).status == "SUCCESS"


def test_retention_keeps_a_gap_that_reaches_into_the_period(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, misfire="skip")
    tick(reports, clock, at(3))
    reports.retention.prune(before=at(1))
    assert outcomes(reports)[0] == (at(0, 5), at(2, 55), "skipped", "misfire")
    reports.retention.prune(before=at(2, 59))
    assert outcomes(reports) == [(at(3), at(3), "fired", None)]
    assert reports.schedules.check_ledger() == []


# manual runs and backfills --------------------------------------------------------------------------------


def test_a_manual_run_takes_no_slots_place(reports: Stepwell, clock: ManualClock) -> None:
    create(reports)
    clock.move_to(at(0, 5))
    manual = [reports.schedules.run_now("s", who="bob", why="now") for _ in range(3)]
    assert {(row.kind, row.slot, row.requested_by, row.reason) for row in manual} == {
        ("manual", None, "operator:bob", "now")
    }
    assert all(row.scheduled_time.microsecond for row in manual)
    assert len({row.scheduled_time for row in manual}) == 3
    assert reports.schedules.run_once() == 1
    assert at(0, 5) in fired(reports)
    assert reports.schedules.get("s").last_success is None


def test_a_disabled_schedule_can_be_run_by_hand(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, enabled=False)
    reports.schedules.run_now("s", who="bob")
    reports.run_until_idle()
    assert only(reports).status == "SUCCESS"


def test_a_backfill_passes_over_what_succeeded_or_is_about_to_run(reports: Stepwell, clock: ManualClock) -> None:
    create(reports)
    for minute in (5, 10, 15):
        tick(reports, clock, at(0, minute))
        if minute == 5:
            reports.run_until_idle()
    reports.cancel(reports.schedules.executions("s")[0].step_id or 0, who="bob")
    plan = reports.schedules.backfill("s", at(0), at(0, 30), who="bob", preview=True)
    assert plan.passed_over == {at(0, 5): "SUCCESS", at(0, 10): "PENDING"}
    assert plan.slots == [at(0), at(0, 15)]  # not those that are still to come
    assert plan.executions == []
    assert len(reports.schedules.executions("s")) == 3
    made = reports.schedules.backfill("s", at(0), at(0, 30), who="bob", why="lost data")
    assert len(made.executions) == 2
    rows = [row for row in reports.schedules.executions("s") if row.kind == "backfill"]
    assert {row.slot for row in rows} == {at(0), at(0, 15)}
    assert all(row.scheduled_time.microsecond for row in rows)
    reports.run_until_idle()
    again = reports.schedules.backfill("s", at(0), at(0, 30), who="bob")
    assert again.slots == []


def test_a_backfill_uses_the_definition_of_today(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, "0 * * * *", misfire="skip")
    tick(reports, clock, at(4, 30))
    reports.schedules.edit("s", expression="*/30 * * * *", who="bob")
    made = reports.schedules.backfill("s", at(1), at(2), who="bob")
    assert made.slots == [at(1), at(1, 30), at(2)]


def test_a_backfill_leaves_a_due_slot_to_the_scheduler(reports: Stepwell, clock: ManualClock) -> None:
    create(reports)
    clock.move_to(at(0, 10))
    assert reports.schedules.backfill("s", at(0), at(0, 10), who="bob").slots == [at(0)]
    assert reports.schedules.run_once() == 2


def test_a_backfill_of_too_many_slots_is_refused(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, "* * * * *", misfire="skip")
    clock.advance(10 * 86_400)
    reports.schedules.run_once()
    with pytest.raises(ActionRefused, match="choose a shorter period"):
        reports.schedules.backfill("s", at(0), at(0, day=11), who="bob")


def test_a_backfill_of_a_period_that_ends_before_it_begins_is_refused(reports: Stepwell, clock: ManualClock) -> None:
    create(reports)
    tick(reports, clock, at(1))
    with pytest.raises(ActionRefused, match="before it begins"):
        reports.schedules.backfill("s", at(1), at(0), who="bob", preview=True)


def test_a_backfill_in_a_zone_that_was_removed_says_so(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, tz="Europe/Berlin")
    plain_sql(reports, "UPDATE cron_jobs SET recorded = replace(recorded, 'Europe/Berlin', 'Mars/Base')")
    with pytest.raises(CronParseError, match="Mars/Base"):
        reports.schedules.backfill("s", at(0), at(0), who="bob")


def test_times_without_a_zone_are_those_of_the_schedule(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, "0 * * * *", tz="Asia/Tokyo", misfire="skip")
    tick(reports, clock, at(4, 30))
    naive = at(10).replace(tzinfo=None)  # 10:00 in Tokyo is 01:00 in UTC
    assert reports.schedules.backfill("s", naive, naive, who="bob", preview=True).slots == [at(1)]


# deletion -------------------------------------------------------------------------------------------------


def test_a_live_execution_keeps_its_schedule_from_being_deleted_unless_forced(
    reports: Stepwell, clock: ManualClock
) -> None:
    create(reports)
    tick(reports, clock, at(0, 5))
    step = only(reports).step_id or 0
    with pytest.raises(ActionRefused, match="live execution"):
        reports.schedules.delete("s", who="bob")
    reports.schedules.delete("s", who="bob", force=True)
    assert reports.step(step).state == "Cancelled"
    assert reports.schedules.list() == []
    assert reports.schedules.explain("s", at(0, 5)).verdict == "deleted"


def test_a_deleted_schedule_takes_its_executions_and_its_ledger_with_it(reports: Stepwell, clock: ManualClock) -> None:
    create(reports)
    tick(reports, clock, at(0, 5))
    reports.run_until_idle()
    reports.schedules.delete("s", who="bob")
    left = "SELECT id FROM job_executions UNION ALL SELECT id FROM steps_schedule_slots"
    assert reports.database.read(lambda tx: tx.fetch(left, {})) == []
    create(reports)
    assert tick(reports, clock, at(0, 10)) == 1
