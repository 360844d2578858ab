"""Rule 3: with `allow_overlap=0`, executions of a schedule never run at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from stepwell import Stepwell
from stepwell.testing import ManualClock
from tests.conformance.schedule.support import at, create, fired, outcomes, statuses, tick


def test_an_on_time_slot_is_skipped_while_another_execution_is_live(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, allow_overlap=False)
    tick(reports, clock, at(0, 5))
    tick(reports, clock, at(0, 10))
    assert [each[2:] for each in outcomes(reports)] == [("fired", None), ("skipped", "overlap")]
    assert "execution 1" in (reports.schedules.slots("s")[-1].detail or "")
    reports.run_until_idle()
    tick(reports, clock, at(0, 15))
    assert fired(reports) == [at(0, 5), at(0, 15)]


def test_two_slots_that_are_due_together_do_not_both_fire(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, "* * * * *", allow_overlap=False)
    tick(reports, clock, at(0, 2))
    assert fired(reports) == [at(0, 1)]
    assert outcomes(reports)[-1][2:] == ("skipped", "overlap")


def test_missed_slots_are_not_skipped_but_wait_for_each_other(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, allow_overlap=False, misfire="all", misfire_limit=3)
    tick(reports, clock, at(0, 58))
    assert fired(reports) == [at(0, 45), at(0, 50), at(0, 55)]
    keys = {reports.step(row.step_id or 0).concurrency_key for row in reports.schedules.executions("s")}
    assert len(keys) == 1
    assert None not in keys


def test_manual_and_backfilled_executions_share_the_key(app: Stepwell, clock: ManualClock) -> None:
    running: list[int] = []

    @app.job()
    def report() -> None:
        running.append(1)
        assert len(running) == 1
        running.pop()

    create(app, allow_overlap=False)
    tick(app, clock, at(0, 5))
    app.schedules.run_now("s", who="bob")
    app.schedules.backfill("s", at(0, 0), at(0, 0), who="bob")
    steps = [app.step(row.step_id or 0) for row in app.schedules.executions("s")]
    assert {(step.concurrency_key, step.concurrency_limit) for step in steps} == {("schedule:1", 1)}
    app.run_until_idle()
    assert {status for _, status in statuses(app)} == {"SUCCESS"}


def test_it_recovers_when_the_running_execution_died(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, allow_overlap=False)
    tick(reports, clock, at(0, 5))
    row = reports.schedules.executions("s")[0]
    reports.cancel(row.step_id or 0, who="bob")  # as the reaper does with a step that died too often
    assert statuses(reports) == [(at(0, 5), "FAILED")]
    tick(reports, clock, at(0, 10))
    assert fired(reports) == [at(0, 5), at(0, 10)]


def test_a_cancelled_execution_whose_process_still_runs_counts_as_live(app: Stepwell, clock: ManualClock) -> None:
    seen: list[list[tuple[object, ...]]] = []

    @app.job()
    def report() -> None:
        row = app.schedules.executions("s")[0]
        app.cancel(row.step_id or 0, who="bob")
        tick(app, clock, at(0, 10))
        seen.append(list(outcomes(app)))

    create(app, allow_overlap=False)
    tick(app, clock, at(0, 5))
    app.run_until_idle()
    assert seen[0][-1][2:] == ("skipped", "overlap")
    tick(app, clock, at(0, 15))
    assert outcomes(app)[-1][2:] == ("fired", None)


def test_a_retried_execution_waits_for_the_one_that_runs(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, allow_overlap=False, params={"fails": True}, max_retry=1)
    tick(reports, clock, at(0, 5))
    reports.run_until_idle()
    old = reports.schedules.executions("s")[0]
    assert old.status == "FAILED"
    tick(reports, clock, at(0, 10))
    reports.retry(old.step_id or 0, who="bob")
    steps = [reports.step(row.step_id or 0) for row in reports.schedules.executions("s")]
    assert {step.concurrency_key for step in steps} == {"schedule:1"}
    assert [status for _, status in statuses(reports)] == ["PENDING", "PENDING"]


def test_overlap_is_allowed_by_default(reports: Stepwell, clock: ManualClock) -> None:
    create(reports)
    tick(reports, clock, at(0, 5))
    tick(reports, clock, at(0, 10))
    assert fired(reports) == [at(0, 5), at(0, 10)]


def test_schedulers_that_run_at_once_fire_one_slot_once_and_skip_the_next(shared_database_url: str) -> None:
    clock = ManualClock(at(0))
    apps = [Stepwell(shared_database_url, clock=clock) for _ in range(4)]
    for app in apps:
        app.job(name="report")(lambda: None)
        app.open()
    create(apps[0], allow_overlap=False)
    for minute in (5, 10):
        clock.move_to(at(0, minute))
        together = threading.Barrier(len(apps))

        def decide(app: Stepwell, together: threading.Barrier = together) -> None:
            together.wait()
            app.schedules.run_once()

        with ThreadPoolExecutor(len(apps)) as threads:
            list(threads.map(decide, apps))
    assert [each[2:] for each in outcomes(apps[0])] == [("fired", None), ("skipped", "overlap")]
    assert fired(apps[0]) == [at(0, 5)]
    for app in apps:
        app.close()
