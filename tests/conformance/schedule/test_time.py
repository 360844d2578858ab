"""Rule 5 and item 9: slots are increasing instants; the clock jumps back and forward; the ledger says what happened."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from stepwell import Stepwell
from stepwell.testing import ManualClock
from tests.conformance.schedule.support import MINUTE, at, create, fired, outcomes, plain_sql, tick


def test_when_the_clock_goes_back_fired_slots_stay_and_skipped_ones_are_decided_again(
    reports: Stepwell, clock: ManualClock
) -> None:
    create(reports, "* * * * *", misfire="skip")
    clock.advance(3600)
    reports.schedules.run_once()
    before = fired(reports)
    assert outcomes(reports)[0] == (at(0, 1), at(0, 58), "skipped", "misfire")
    clock.adjust(-1800)
    reports.schedules.run_once()
    assert outcomes(reports)[0] == (at(0, 1), at(0, 30), "skipped", "misfire")
    for _ in range(40):
        clock.advance(60)
        reports.schedules.run_once()
    times = fired(reports)
    assert len(times) == len(set(times))
    assert sorted(times) == [at(0, 31) + n * MINUTE for n in range(40)]
    assert set(before) <= set(times)
    assert reports.schedules.check_ledger() == []


def test_a_slot_that_an_operator_skipped_stays_decided_when_the_clock_goes_back(
    reports: Stepwell, clock: ManualClock
) -> None:
    create(reports)
    tick(reports, clock, at(0, 5))
    reports.skip(reports.schedules.executions("s")[0].step_id or 0, who="bob", why="no")
    clock.adjust(-120)
    reports.schedules.run_once()
    clock.advance(120)
    reports.schedules.run_once()
    assert outcomes(reports) == [(at(0, 5), at(0, 5), "skipped", "operator")]
    assert fired(reports) == [at(0, 5)]


def test_a_small_difference_between_two_clocks_is_no_jump(reports: Stepwell, clock: ManualClock) -> None:
    create(reports)
    clock.move_to(at(0, 5))
    reports.schedules.run_once()
    clock.adjust(-5)
    reports.schedules.run_once()
    assert reports.schedules.get("s").last_slot == at(0, 5)


def test_an_edit_after_the_clock_went_back_fires_neither_the_past_nor_a_slot_twice(
    reports: Stepwell, clock: ManualClock
) -> None:
    create(reports)
    tick(reports, clock, at(1))
    clock.adjust(-1800)
    reports.schedules.edit("s", expression="*/10 * * * *", who="bob")
    assert reports.schedules.run_once() == 0
    assert reports.schedules.get("s").next_slot == at(0, 40)
    for _ in range(40):
        clock.advance(60)
        reports.schedules.run_once()
    assert fired(reports) == sorted({*fired(reports)}, key=fired(reports).index)
    assert {at(0, 40), at(0, 50), at(1), at(1, 10)} <= set(fired(reports))
    assert reports.schedules.check_ledger() == []


def test_a_clock_that_jumps_forward_by_a_day_fires_by_the_misfire_policy_and_goes_on(
    reports: Stepwell, clock: ManualClock
) -> None:
    create(reports, "0 * * * *")
    tick(reports, clock, at(0, 30, day=2))
    assert fired(reports) == [at(0, day=2)]
    assert outcomes(reports)[0] == (at(1), at(23), "skipped", "misfire")
    assert tick(reports, clock, at(1, day=2)) == 1
    assert reports.schedules.check_ledger() == []


def test_a_local_time_that_does_not_exist_fires_once_and_one_that_exists_twice_fires_once(
    reports: Stepwell, clock: ManualClock
) -> None:
    create(reports, "30 2 * * *", tz="Europe/Berlin", misfire="all", misfire_limit=400)
    clock.move_to(datetime(2026, 12, 31, tzinfo=UTC))
    reports.schedules.run_once()
    slots = fired(reports)
    assert len(slots) == 364
    assert datetime(2026, 3, 29, 1, 0, tzinfo=UTC) in slots  # 02:30 does not exist: at 03:00
    assert [slot for slot in slots if slot.date() == datetime(2026, 10, 25, tzinfo=UTC).date()] == [
        datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    ]
    assert all(later - earlier >= timedelta(hours=22) for earlier, later in pairwise(slots))


def test_a_scheduler_that_was_suspended_does_not_take_its_past_for_a_clock_that_went_back(
    reports: Stepwell, clock: ManualClock
) -> None:
    create(reports, "* * * * *", misfire="skip")
    scheduler = reports.schedules.scheduler()
    survey = scheduler._survey

    def suspended(now: datetime) -> object:
        """Between its look at the clock and its look at the table, another scheduler decides an hour."""
        scheduler._survey = survey  # type: ignore[method-assign]
        clock.advance(3600)
        reports.schedules.run_once()
        return survey(now)

    scheduler._survey = suspended  # type: ignore[method-assign,assignment]
    before = clock.now()
    scheduler.round()
    assert outcomes(reports)[0][:2] == (at(0, 1), at(0, 58))
    assert clock.now() > before
    assert reports.schedules.check_ledger() == []


def test_the_ledger_check_finds_a_slot_without_a_row(reports: Stepwell, clock: ManualClock) -> None:
    create(reports)
    for minute in (5, 10, 15):
        tick(reports, clock, at(0, minute))
    slot = "2026-01-01 00:10:00.000000" + ("" if reports.database.dialect == "sqlite" else "+00")
    plain_sql(reports, f"DELETE FROM steps_schedule_slots WHERE slot = '{slot}'")
    (gap,) = reports.schedules.check_ledger()
    assert (gap.schedule, gap.slot) == ("s", at(0, 10))


def test_a_change_that_the_clock_went_back_behind_counts_from_the_new_time_on(
    reports: Stepwell, clock: ManualClock
) -> None:
    create(reports, "*/3 * * * *")
    tick(reports, clock, at(1, 0))
    reports.schedules.edit("s", expression="*/5 * * * *", who="bob")
    clock.adjust(-3000)  # 00:10
    reports.schedules.run_once()
    changes = [(each.kind, each.actor, each.reason) for each in reports.schedules.changes("s")]
    assert changes[-1] == ("rewound", "scheduler", "the clock went back")
    reports.schedules.disable("s", who="bob")
    clock.move_to(at(0, 26))
    reports.schedules.enable("s", who="bob")
    assert reports.schedules.check_ledger() == []
    assert "disabled" in reports.schedules.explain("s", at(0, 20)).text
    assert reports.schedules.explain("s", at(0, 18)).verdict == "no_slot"


def test_a_slot_before_the_schedule_was_created_is_explained_if_the_clock_went_back_to_it(
    reports: Stepwell, clock: ManualClock
) -> None:
    create(reports)
    clock.adjust(-3600)
    reports.schedules.run_once()
    assert reports.schedules.explain("s", clock.now()).verdict == "not_created_yet"
    tick(reports, clock, clock.now() + 10 * MINUTE)
    first = fired(reports)[0]
    assert reports.schedules.explain("s", first).verdict == "fired"
