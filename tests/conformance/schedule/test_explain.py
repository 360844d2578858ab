"""`explain` tells the truth about a time, for each kind of slot and expression."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from stepwell import Stepwell
from stepwell.schedule.errors import ScheduleNotFound
from stepwell.schedule.explaining import SlotExplanation
from stepwell.testing import ManualClock
from tests.conformance.schedule.support import SECOND, at, create, only, plain_sql, tick


def told(found: SlotExplanation) -> str:
    return " ".join([found.text, *found.facts])


def test_a_slot_that_ran_names_its_execution_and_how_it_ended(reports: Stepwell, clock: ManualClock) -> None:
    create(reports)
    tick(reports, clock, at(0, 5))
    assert "waits to run" in reports.schedules.explain("s", at(0, 5)).text
    reports.run_until_idle()
    found = reports.schedules.explain("s", at(0, 5))
    assert (found.verdict, found.execution) == ("fired", only(reports))
    assert "ended as SUCCESS" in found.text


def test_a_failed_one_says_why(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, params={"fails": True}, max_retry=1)
    tick(reports, clock, at(0, 5))
    reports.run_until_idle()
    assert "no data" in reports.schedules.explain("s", at(0, 5)).text


def test_overlap_names_the_execution_that_was_live(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, allow_overlap=False)
    tick(reports, clock, at(0, 5))
    tick(reports, clock, at(0, 10))
    found = reports.schedules.explain("s", at(0, 10))
    assert found.verdict == "skipped"
    assert "overlaps with execution 1" in found.text


def test_disabled_says_by_whom_and_why_also_before_anything_is_decided(reports: Stepwell, clock: ManualClock) -> None:
    create(reports)
    reports.schedules.disable("s", who="bob", why="holiday")
    clock.move_to(at(1))
    assert "disabled, by operator:bob" in reports.schedules.explain("s", at(0, 30)).text
    assert "will not run" in reports.schedules.explain("s", at(2)).text
    reports.schedules.enable("s", who="carol")
    found = reports.schedules.explain("s", at(0, 30))
    assert found.verdict == "skipped"
    assert "disabled by operator:bob" in found.text
    assert "holiday" in found.text


def test_missed_says_that_no_scheduler_ran_and_from_when_to_when(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, misfire="skip")
    first = reports.schedules.scheduler()
    clock.move_to(at(0, 58))
    first.round()
    first.presence.end(clock.now())
    clock.move_to(at(2, 2) + 10 * SECOND)
    reports.schedules.run_once()
    found = reports.schedules.explain("s", at(1, 30))
    assert found.verdict == "skipped"
    assert "misfire policy skip" in found.text
    assert "No scheduler ran from 2026-01-01 00:58:00 UTC to 2026-01-01 02:02:10 UTC" in told(found)
    assert "one of 13 slots" in told(found)


def test_a_slot_that_fired_late_says_so(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, "0 1 * * *")
    scheduler = reports.schedules.scheduler()
    scheduler.round()
    scheduler.presence.end(clock.now())
    tick(reports, clock, at(3))
    found = told(reports.schedules.explain("s", at(1)))
    assert "It was decided at 2026-01-01 03:00 UTC" in found
    assert "No scheduler ran from 2026-01-01 00:00:30 UTC" in found


def test_start_deadline_says_how_late(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, start_deadline=30.0)
    tick(reports, clock, at(0, 6))
    assert "60 s late, start_deadline is 30 s" in reports.schedules.explain("s", at(0, 5)).text


def test_due_and_undecided_says_whether_a_scheduler_runs(reports: Stepwell, clock: ManualClock) -> None:
    create(reports)
    clock.move_to(at(0, 6))
    found = reports.schedules.explain("s", at(0, 5))
    assert found.verdict == "undecided"
    assert "No scheduler ran yet." in told(found)


def test_a_changed_expression_is_named_with_who_changed_it_and_when(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, "30 2 * * *")
    clock.move_to(at(1))
    reports.schedules.edit("s", expression="30 3 * * *", who="bob", why="later is better")
    tick(reports, clock, at(4))
    found = reports.schedules.explain("s", at(2, 30))
    assert found.verdict == "no_slot"
    assert "'30 3 * * *'" in found.text
    assert "'30 2 * * *'" in told(found)
    assert "changed by operator:bob at 2026-01-01 01:00 UTC (later is better)" in told(found)


def test_a_time_that_is_no_slot_names_the_nearest(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, "0 * * * *", tz="Asia/Tokyo")
    clock.move_to(at(5))
    found = reports.schedules.explain("s", at(3, 7))
    assert found.verdict == "no_slot"
    assert "03:00 UTC (12:00 Asia/Tokyo)" in told(found)
    assert "04:00 UTC (13:00 Asia/Tokyo)" in told(found)


def test_before_it_existed_and_ahead(reports: Stepwell, clock: ManualClock) -> None:
    create(reports)
    assert reports.schedules.explain("s", at(0)).verdict == "not_created_yet"
    assert "created by operator:alice" in reports.schedules.explain("s", at(0)).text
    assert reports.schedules.explain("s", at(9)).verdict == "ahead"


def test_a_deleted_schedule_says_by_whom_and_an_unknown_name_is_an_error(reports: Stepwell) -> None:
    create(reports)
    reports.schedules.delete("s", who="bob", why="obsolete")
    found = reports.schedules.explain("s", at(0, 5))
    assert "deleted by operator:bob" in found.text
    with pytest.raises(ScheduleNotFound):
        reports.schedules.explain("t", at(0, 5))


def test_daylight_saving_is_explained_without_rows(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, "30 2 * * *", tz="Europe/Berlin")
    clock.move_to(datetime(2026, 3, 29, 1, tzinfo=UTC))
    reports.schedules.run_once()
    found = reports.schedules.explain("s", datetime(2026, 3, 29, 2, 30))
    assert found.verdict == "fired"
    assert "02:30 does not exist on 2026-03-29 in Europe/Berlin" in told(found)


def test_a_backfilled_slot_is_named_beside_its_own_outcome(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, misfire="skip")
    tick(reports, clock, at(1))
    reports.schedules.backfill("s", at(0, 30), at(0, 30), who="bob")
    found = reports.schedules.explain("s", at(0, 30))
    assert found.verdict == "skipped"
    assert "backfilled by operator:bob" in told(found)


def test_an_expression_of_plain_sql_that_cannot_be_used_is_named(reports: Stepwell, clock: ManualClock) -> None:
    create(reports)
    plain_sql(reports, "UPDATE cron_jobs SET cron_expression = 'noon' WHERE name = 's'")
    reports.schedules.run_once()
    clock.move_to(at(1))
    found = reports.schedules.explain("s", at(0, 30))
    assert found.verdict == "no_slot"
    assert "noon" in told(found)


def test_a_backfilled_time_before_the_schedule_was_created_names_its_execution(
    reports: Stepwell, clock: ManualClock
) -> None:
    create(reports)
    reports.schedules.backfill("s", at(0), at(0), who="bob")
    answer = reports.schedules.explain("s", at(0))
    assert answer.verdict == "not_created_yet"
    assert "backfilled by operator:bob" in answer.facts[0]
