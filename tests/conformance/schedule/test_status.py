"""Rule 6: the status of an execution moves in the transactions of its step or workflow, whoever makes them."""

from __future__ import annotations

import pytest

from stepwell import Stepwell, current_step
from stepwell.model.leases import LEASE_SECONDS
from stepwell.testing import ManualClock
from tests.conformance.schedule.support import at, create, only, outcomes, statuses, tick


def test_pending_running_success_with_times_and_result(app: Stepwell, clock: ManualClock) -> None:
    seen: list[tuple[str, object]] = []

    @app.job()
    def report() -> dict[str, int]:
        row = only(app)
        seen.append((row.status, row.started_at))
        clock.advance(7)
        return {"rows": 3}

    create(app)
    tick(app, clock, at(0, 5))
    assert only(app).status == "PENDING"
    app.run_until_idle()
    row = only(app)
    assert seen == [("RUNNING", at(0, 5))]
    assert (row.status, row.result, row.retry_count, row.error_message) == ("SUCCESS", '{"rows":3}', 0, None)
    assert row.started_at is not None
    assert row.finished_at is not None
    assert (row.finished_at - row.started_at).total_seconds() == 7
    assert app.schedules.get("s").last_success == at(0, 5)


def test_max_retry_is_the_number_of_attempts_in_all(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, params={"fails": True}, max_retry=2)
    tick(reports, clock, at(0, 5))
    for _ in range(4):
        reports.run_until_idle()
        clock.advance(60)
    row = only(reports)
    assert (row.status, row.retry_count) == ("FAILED", 1)
    assert "no data" in (row.error_message or "")
    assert reports.step(row.step_id or 0).attempts == 2


def test_a_retry_by_hand_reopens_the_execution(reports: Stepwell, clock: ManualClock) -> None:
    create(reports, params={"fails": True}, max_retry=1)
    tick(reports, clock, at(0, 5))
    reports.run_until_idle()
    reports.retry(only(reports).step_id or 0, who="alice")
    row = only(reports)
    assert (row.status, row.finished_at) == ("PENDING", None)


def test_a_cut_at_the_timeout_spends_an_attempt_and_the_last_one_is_timeout(app: Stepwell, clock: ManualClock) -> None:
    @app.job()
    def report() -> None:
        clock.advance(100)

    create(app, timeout_seconds=10, max_retry=2)
    tick(app, clock, at(0, 5))
    app.run_until_idle()
    row = only(app)
    assert (row.status, row.retry_count) == ("TIMEOUT", 1)
    assert app.step(row.step_id or 0).attempts == 2


@pytest.mark.parametrize(("action", "status"), [("cancel", "FAILED"), ("skip", "SUCCESS"), ("complete", "SUCCESS")])
def test_an_operator_who_ends_the_step_ends_the_execution(
    reports: Stepwell, clock: ManualClock, action: str, status: str
) -> None:
    create(reports)
    tick(reports, clock, at(0, 5))
    getattr(reports, action)(only(reports).step_id or 0, who="bob", why="not needed")
    row = only(reports)
    assert row.status == status
    assert row.finished_at == clock.now()


def test_skipped_before_it_began_counts_as_skipped_in_the_ledger_and_is_no_success(
    reports: Stepwell, clock: ManualClock
) -> None:
    create(reports)
    tick(reports, clock, at(0, 5))
    reports.skip(only(reports).step_id or 0, who="bob", why="not needed")
    assert outcomes(reports) == [(at(0, 5), at(0, 5), "skipped", "operator")]
    assert reports.schedules.get("s").last_success is None
    again = reports.schedules.backfill("s", at(0, 5), at(0, 5), who="bob")
    assert again.slots == [at(0, 5)]
    reports.run_until_idle()
    assert reports.schedules.get("s").last_success == at(0, 5)


def test_skipped_by_its_own_code_is_a_success(app: Stepwell, clock: ManualClock) -> None:
    @app.job()
    def report() -> None:
        current_step().skip("nothing to report")

    create(app)
    tick(app, clock, at(0, 5))
    app.run_until_idle()
    assert only(app).status == "SUCCESS"
    assert outcomes(app) == [(at(0, 5), at(0, 5), "fired", None)]
    assert app.schedules.get("s").last_success == at(0, 5)


@pytest.mark.parametrize("ends", ["stop", "fail"])
def test_a_step_that_stops_or_fails_itself_is_failed(app: Stepwell, clock: ManualClock, ends: str) -> None:
    @app.job()
    def report() -> None:
        getattr(current_step(), ends)("enough")

    create(app)
    tick(app, clock, at(0, 5))
    app.run_until_idle()
    assert only(app).status == "FAILED"
    assert "enough" in (only(app).error_message or "")


def test_a_step_whose_worker_dies_is_pending_again(reports: Stepwell, clock: ManualClock) -> None:
    create(reports)
    tick(reports, clock, at(0, 5))
    dead = reports.inline_runner()
    dead.worker.register()
    reports.dispatch_once()
    assert len(dead.claim(8)) == 1
    assert only(reports).status == "RUNNING"
    clock.advance(LEASE_SECONDS + 1)
    assert reports.reaper().round().rescued == [only(reports).step_id]
    dead.close()
    assert only(reports).status == "PENDING"
    reports.run_until_idle()
    assert only(reports).status == "SUCCESS"


def test_a_scheduler_without_the_code_creates_executions_that_are_followed_all_the_same(
    shared_database_url: str,
) -> None:
    clock = ManualClock(at(0))
    with Stepwell(shared_database_url, clock=clock) as coded, Stepwell(shared_database_url, clock=clock) as bare:

        @coded.job(queue="priority", retries=9)
        def report() -> str:
            return "done"

        coded.record_jobs()
        create(bare, max_retry=2, timeout_seconds=77)
        tick(bare, clock, at(0, 5))
        bare.schedules.run_now("s", who="bob")
        step = coded.step(bare.schedules.executions("s")[-1].step_id or 0)
        assert (step.queue, step.max_retries, step.timeout) == ("priority", 1, 77.0)
        assert coded.run_until_idle() == 2
        assert [row.status for row in bare.schedules.executions("s")] == ["SUCCESS", "SUCCESS"]


# the handler ----------------------------------------------------------------------------------------------


def test_the_handler_can_read_its_slot_and_the_previous_success(app: Stepwell, clock: ManualClock) -> None:
    seen: list[tuple[object, ...]] = []

    @app.job(backoff=0)
    def report() -> None:
        run = current_step().schedule
        assert run is not None
        seen.append((run.name, run.kind, run.slot, run.previous_success))

    create(app)
    for minute in (5, 10):
        tick(app, clock, at(0, minute))
        app.run_until_idle()
    app.schedules.backfill("s", at(0, 0), at(0, 0), who="bob")
    app.run_until_idle()
    app.schedules.run_now("s", who="bob")
    app.run_until_idle()
    assert seen == [
        ("s", "slot", at(0, 5), None),
        ("s", "slot", at(0, 10), at(0, 5)),
        ("s", "backfill", at(0, 0), None),
        ("s", "manual", None, at(0, 10)),
    ]


def test_a_step_without_a_schedule_has_none(app: Stepwell) -> None:
    seen: list[object] = []

    @app.job()
    def report() -> None:
        seen.append(current_step().schedule)

    report.enqueue()
    app.run_until_idle()
    assert seen == [None]


# workflows ------------------------------------------------------------------------------------------------


@pytest.fixture
def flows(app: Stepwell) -> Stepwell:
    @app.job(retries=0)
    def report(fails: bool = False) -> object:
        if fails:
            raise ValueError("no data")
        run = current_step().schedule
        return None if run is None else run.slot

    for name, fails in (("daily", False), ("broken", True)):
        flow = app.workflows("shop").workflow(name)
        flow.step(name="report", arguments={"fails": fails}, retry_limit=1)(report)
    return app


def test_a_schedule_of_a_workflow_starts_it_and_follows_it(flows: Stepwell, clock: ManualClock) -> None:
    create(flows, handler="shop.daily", target="workflow")
    tick(flows, clock, at(0, 5))
    row = only(flows)
    assert (row.status, row.step_id) == ("PENDING", None)
    flows.run_until_idle()
    row = only(flows)
    assert (row.status, row.scheduled_time) == ("SUCCESS", at(0, 5))
    assert row.started_at is not None
    assert row.finished_at is not None
    assert flows.schedules.get("s").last_success == at(0, 5)
    (step,) = [step for step in flows.steps() if step.workflow_id == row.workflow_id]
    assert str(step.response).startswith("2026-01-01T00:05")


def test_a_workflow_that_ends_in_error_is_failed_and_resolved_by_hand_is_success(
    flows: Stepwell, clock: ManualClock
) -> None:
    create(flows, handler="shop.broken", target="workflow")
    tick(flows, clock, at(0, 5))
    flows.run_until_idle()
    row = only(flows)
    assert row.status == "FAILED"
    flows.workflows.run(row.workflow_id or "").resolve(who="bob", why="done by hand")
    assert only(flows).status == "SUCCESS"


def test_a_cancelled_workflow_is_failed(flows: Stepwell, clock: ManualClock) -> None:
    create(flows, handler="shop.daily", target="workflow")
    tick(flows, clock, at(0, 5))
    flows.workflows.run(only(flows).workflow_id or "").cancel(who="bob")
    flows.run_until_idle()
    assert statuses(flows) == [(at(0, 5), "FAILED")]


def test_workflows_without_overlap_never_run_at_once(flows: Stepwell, clock: ManualClock) -> None:
    create(flows, handler="shop.daily", target="workflow", allow_overlap=False, misfire="all")
    tick(flows, clock, at(3))
    assert len(statuses(flows)) == 1  # a workflow cannot wait for another: one of the missed slots, and no other
    assert outcomes(flows)[-1] == (at(3), at(3), "skipped", "overlap")
    tick(flows, clock, at(6))
    assert len(statuses(flows)) == 1
    assert flows.schedules.check_ledger() == []
