"""Rule 2: the misfire policy concerns slots that are older than the grace."""

from __future__ import annotations

from datetime import datetime

import pytest

from stepwell import Stepwell
from stepwell.testing import ManualClock
from tests.conformance.schedule.support import MINUTE, at, create, fired, only, outcomes, tick


@pytest.mark.parametrize(("misfire", "missed"), [("skip", []), ("once", [at(0, 55)]), ("all", [at(0, 50), at(0, 55)])])
def test_older_slots_follow_the_policy_and_the_rest_is_one_gap(
    reports: Stepwell, clock: ManualClock, misfire: str, missed: list[datetime]
) -> None:
    create(reports, misfire=misfire, misfire_limit=2)
    tick(reports, clock, at(1, 0))
    assert fired(reports) == [*missed, at(1, 0)]
    assert outcomes(reports)[0] == (at(0, 5), (missed or [at(1, 0)])[0] - 5 * MINUTE, "skipped", "misfire")
    assert reports.schedules.check_ledger() == []


@pytest.mark.parametrize("misfire", ["skip", "once", "all"])
def test_younger_slots_all_fire_whatever_the_policy(reports: Stepwell, clock: ManualClock, misfire: str) -> None:
    create(reports, "* * * * *", misfire=misfire, misfire_limit=1)
    tick(reports, clock, at(0, 3))  # the grace is two minutes
    assert fired(reports) == [at(0, 1), at(0, 2), at(0, 3)]


def test_the_grace_is_twice_the_poll_interval_unless_it_is_set(reports: Stepwell, clock: ManualClock) -> None:
    reports.schedules.options = type(reports.schedules.options)(misfire_grace_seconds=3600.0)
    create(reports, misfire="skip")
    tick(reports, clock, at(1, 0))
    assert len(fired(reports)) == 12


def test_an_on_time_policy_of_once_fires_the_latest_missed_slot_only(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, "0 * * * *")
    tick(reports, clock, at(23, 30))
    assert fired(reports) == [at(23)]


def test_start_deadline_skips_a_slot_that_is_decided_too_late(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, start_deadline=30.0)
    tick(reports, clock, at(0, 6))
    assert fired(reports) == []
    assert outcomes(reports) == [(at(0, 5), at(0, 5), "skipped", "start_deadline")]


def test_start_deadline_skips_a_step_that_has_not_begun_in_time(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, start_deadline=30.0)
    tick(reports, clock, at(0, 5))
    scheduler = reports.schedules.scheduler()
    assert scheduler.round().pause <= 30.0  # it wakes at the deadline
    clock.advance(31)
    assert scheduler.round().pause > 1.0
    assert outcomes(reports) == [(at(0, 5), at(0, 5), "skipped", "start_deadline")]
    assert "it had not begun by its deadline (2026-01-01 00:05:30 UTC)" in reports.schedules.explain("s", at(0, 5)).text
    assert reports.run_until_idle() == 0
    assert reports.schedules.get("s").last_success is None


def test_start_deadline_does_not_end_a_step_that_began_in_time(app: Stepwell, clock: ManualClock) -> None:
    @app.job(backoff=120)
    def report() -> None:
        raise ValueError("again")

    create(app, start_deadline=30.0, max_retry=2)
    tick(app, clock, at(0, 5))
    app.run_until_idle()
    clock.advance(60)
    scheduler = app.schedules.scheduler()
    assert scheduler.round().pause > 1.0  # nothing to do: the step waits for its retry
    assert [each[2] for each in outcomes(app)] == ["fired"]
    clock.advance(90)
    app.run_until_idle()
    assert app.schedules.executions("s")[0].status == "FAILED"


@pytest.mark.parametrize("ends", ["fails", "is cancelled"])
def test_start_deadline_is_no_deadline_for_a_retry_by_hand(reports: Stepwell, clock: ManualClock, ends: str) -> None:
    create(reports, start_deadline=60.0, params={"fails": ends == "fails"}, max_retry=1)
    tick(reports, clock, at(0, 5))
    if ends == "fails":
        reports.run_until_idle()
    else:
        reports.cancel(only(reports).step_id or 0, who="bob")
    assert only(reports).status == "FAILED"
    clock.advance(120)
    reports.retry(only(reports).step_id or 0, who="bob")
    reports.schedules.run_once()
    assert only(reports).status == "PENDING"
    assert outcomes(reports) == [(at(0, 5), at(0, 5), "fired", None)]
