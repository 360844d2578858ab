"""Rule 7: `expect_within` alarms once per slot or gap, and the health stays red until a success."""

from __future__ import annotations

import pytest

from stepwell import Stepwell
from stepwell.events import ScheduleSlotMissed
from stepwell.testing import ManualClock
from tests.conformance.schedule.support import at, create, plain_sql, tick


@pytest.fixture
def alarms(app: Stepwell) -> list[ScheduleSlotMissed]:
    found: list[ScheduleSlotMissed] = []
    app.events.on(ScheduleSlotMissed)(found.append)
    return found


def test_a_slot_without_success_in_time_alarms_once(
    reports: Stepwell, clock: ManualClock, alarms: list[ScheduleSlotMissed]
) -> None:
    create(reports, "0 * * * *", expect_within=600.0)
    tick(reports, clock, at(1))
    tick(reports, clock, at(1, 9))
    assert (alarms, reports.schedules.overdue()) == ([], [])
    for minute in (10, 11, 30):
        tick(reports, clock, at(1, minute))
        assert [missed.slot for missed in reports.schedules.overdue()] == [at(1)]
    assert [(each.schedule, each.slot) for each in alarms] == [("s", at(1))]


def test_it_alarms_again_for_the_next_slot_and_ends_with_a_success(
    reports: Stepwell, clock: ManualClock, alarms: list[ScheduleSlotMissed]
) -> None:
    create(reports, "0 * * * *", expect_within=600.0)
    for moment in (at(1), at(1, 10), at(2), at(2, 10)):
        tick(reports, clock, moment)
    assert [(each.slot, each.first_slot) for each in alarms] == [(at(1), at(1)), (at(2), at(1))]
    reports.run_until_idle()
    assert reports.schedules.overdue() == []
    tick(reports, clock, at(3))
    reports.run_until_idle()
    tick(reports, clock, at(3, 30))
    assert len(alarms) == 2


def test_a_gap_of_many_slots_is_one_alarm(
    reports: Stepwell, clock: ManualClock, alarms: list[ScheduleSlotMissed]
) -> None:
    create(reports, "* * * * *", expect_within=60.0)
    tick(reports, clock, at(5))
    assert [(each.slot, each.first_slot) for each in alarms] == [(at(4, 59), at(0, 1))]


def test_a_success_in_time_raises_nothing(
    reports: Stepwell, clock: ManualClock, alarms: list[ScheduleSlotMissed]
) -> None:
    create(reports, "0 * * * *", expect_within=600.0)
    for hour in range(1, 5):
        tick(reports, clock, at(hour))
        reports.run_until_idle()
        tick(reports, clock, at(hour, 10))
    assert (alarms, reports.schedules.overdue()) == ([], [])


def test_a_disabled_schedule_raises_nothing(
    reports: Stepwell, clock: ManualClock, alarms: list[ScheduleSlotMissed]
) -> None:
    create(reports, "0 * * * *", expect_within=600.0)
    reports.schedules.disable("s", who="bob")
    tick(reports, clock, at(5))
    assert (alarms, reports.schedules.overdue()) == ([], [])
    reports.schedules.enable("s", who="bob")
    tick(reports, clock, at(5, 30))
    assert alarms == []


def test_health_needs_no_scheduler(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, "0 * * * *", expect_within=600.0)
    clock.move_to(at(3, 30))
    (missed,) = reports.schedules.overdue()
    assert (missed.slot, missed.first_slot) == (at(3), at(1))


def test_an_edit_of_something_else_does_not_postpone_the_alarm(
    reports: Stepwell, clock: ManualClock, alarms: list[ScheduleSlotMissed]
) -> None:
    create(reports, "0 * * * *", expect_within=600.0)
    tick(reports, clock, at(1))
    clock.move_to(at(1, 5))
    reports.schedules.edit("s", description="new", who="bob")
    tick(reports, clock, at(1, 10))
    assert [each.slot for each in alarms] == [at(1)]


def test_an_expectation_that_is_added_later_is_about_later_slots(
    reports: Stepwell, clock: ManualClock, alarms: list[ScheduleSlotMissed]
) -> None:
    create(reports, "0 * * * *")
    tick(reports, clock, at(4))
    reports.schedules.edit("s", expect_within=600.0, who="bob")
    tick(reports, clock, at(4, 30))
    assert alarms == []
    tick(reports, clock, at(5, 10))
    assert [each.slot for each in alarms] == [at(5)]


def test_an_edit_of_the_expectation_does_not_repeat_the_alarm_about_a_slot(
    reports: Stepwell, clock: ManualClock, alarms: list[ScheduleSlotMissed]
) -> None:
    create(reports, "0 * * * *", expect_within=600.0)
    tick(reports, clock, at(1, 10))
    reports.schedules.edit("s", expect_within=300.0, who="bob")
    tick(reports, clock, at(1, 30))
    assert [each.slot for each in alarms] == [at(1)]
    assert [missed.slot for missed in reports.schedules.overdue()] == [at(1)]


def test_health_has_an_answer_for_a_schedule_whose_zone_was_removed(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, expect_within=60.0, tz="Europe/Berlin")
    create(reports, expect_within=60.0, name="other")
    plain_sql(reports, "UPDATE cron_jobs SET recorded = replace(recorded, 'Europe/Berlin', 'Mars/Base')")
    clock.move_to(at(0, 10))
    assert [each.schedule for each in reports.schedules.overdue()] == ["other"]
