"""What a job can do while it runs: checkpoint, progress, log, ask for time and cancellation; interrupts."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sqlite3
from typing import Any

import pytest

from stepwell import Job, Retry, State, Stepwell, StepwellError, current_step
from stepwell.testing import ManualClock
from tests.conformance.support.engine import Engine
from tests.conformance.support.jobs import Script

pytestmark = pytest.mark.sqlite_file  # a job asks while it runs


def test_current_step_is_the_step_that_the_code_runs_for(app: Stepwell, clock: ManualClock) -> None:
    with pytest.raises(StepwellError, match="outside of a running step"):
        current_step()
    seen: list[object] = []

    @app.job(label="mine", queue="candles", relatable=("account", 7), timeout=30, cooldown=5, retries=4)
    def look() -> None:
        step = current_step()
        seen.append((step.id, step.uuid, step.action, step.label, step.queue, step.relatable, step.attempts))
        seen.append((step.retries, step.max_retries, step.timeout, step.cooldown, step.index, step.priority))
        seen.append((step.parent_step_id, step.has_children, step.stage, step.group, step.workflow_id, step.ref))

    handle = look.enqueue()
    app.run_until_idle()
    row = handle.step()
    assert seen == [
        (handle.id, handle.uuid, "look", "mine", "candles", ("account", "7"), 1),
        (0, 4, 30.0, 5.0, 1, "default"),
        (None, False, None, row.group, row.workflow_id, row.ref),
    ]


def test_a_checkpoint_is_there_in_the_next_attempt(app: Stepwell, clock: ManualClock) -> None:
    seen: list[object] = []

    def compute(job: Job) -> object:
        seen.append(job.step.checkpointed)
        job.checkpoint({"page": job.step.attempts})
        seen.append((job.step.checkpointed, app.step(job.step).checkpoint))
        if job.step.attempts < 3:
            raise OSError("not yet")
        return job.step.checkpointed

    step = Script(app, clock, compute=compute).run()
    pages: list[Any] = [{"page": number} for number in (1, 2, 3)]
    assert seen == [None, (pages[0],) * 2, pages[0], (pages[1],) * 2, pages[1], (pages[2],) * 2]
    assert (step.response, step.checkpoint) == (pages[2], pages[2])


def test_a_checkpoint_survives_an_operators_retry(app: Stepwell, clock: ManualClock) -> None:
    def compute(job: Job) -> Any:
        if job.step.checkpointed is None:
            job.checkpoint([1])
            job.fail("stop here")
        return job.step.checkpointed

    script = Script(app, clock, compute=compute)
    assert script.run().state == "Failed"
    app.retry(script.step, who="tester")
    assert script.settle().response == [1]


def test_a_checkpoint_under_a_lost_lease_ends_the_run_without_writing_anything(
    app: Stepwell, clock: ManualClock
) -> None:
    after: list[str] = []

    def compute(job: Job) -> None:
        app.cancel(job.step, who="tester")
        try:
            job.checkpoint("late")
        except Exception:  # it is none: code that catches every Exception ends all the same
            after.append("caught")
        after.append("went on")

    script = Script(app, clock, compute=compute, ignore_exception=True, resolve_exception=True)
    step = script.run()
    assert (step.state, step.checkpoint, step.error_message, after) == ("Cancelled", None, None, [])
    assert step.lease_worker is None
    assert script.calls == ["compute"]


def test_progress_shows_on_the_step_and_figures_that_are_none_are_refused(app: Stepwell, clock: ManualClock) -> None:
    seen: list[object] = []

    def compute(job: Job) -> None:
        for done, total in ((1, 4), (2.5, None)):
            job.progress(done, total)
            step = app.step(job.step)
            seen.append((step.progress_done, step.progress_total))
        with pytest.raises(ValueError, match="nan"):
            job.progress(float("nan"))

    assert Script(app, clock, compute=compute).run().state == "Completed"
    assert seen == [(1.0, 4.0), (2.5, None)]


def test_log_leaves_lines_with_attempt_level_and_time(engine: Engine, app: Stepwell, clock: ManualClock) -> None:
    def compute(job: Job) -> None:
        job.log("first \0 line")
        job.step.log({"n": 1}, level=logging.WARNING)
        if job.step.attempts == 1:
            raise Retry(in_=5)

    started = clock.now()
    script = Script(app, clock, compute=compute)
    script.run()
    lines = engine.sql("SELECT step_id, attempt, at, level, message FROM step_logs ORDER BY id")
    assert script.ref is not None
    assert [(line["step_id"], line["attempt"], line["level"], line["message"]) for line in lines] == [
        (script.ref.id, attempt, level, text)
        for attempt in (1, 2)
        for level, text in (("INFO", "first \N{REPLACEMENT CHARACTER} line"), ("WARNING", "{'n': 1}"))
    ]
    assert [(line["at"] - started).total_seconds() for line in lines] == [0, 0, 5, 5]


def test_a_level_is_a_number_or_a_name_and_is_stored_as_its_name(app: Stepwell, clock: ManualClock) -> None:
    def compute(job: Job) -> None:
        for level in ("ERROR", "error", "Warn", logging.DEBUG, 35):
            job.log("a line", level=level)
        job.step.log("a line", level="critical")
        for nonsense in ("loud", "", None, 2.5, True):
            with pytest.raises(ValueError, match=r"unknown level.*WARNING"):
                job.log("a line", level=nonsense)  # type: ignore[arg-type]

    script = Script(app, clock, compute=compute)
    assert script.run(retries=0).state == "Completed"
    levels = [line.level for line in app.logs(script.step)]
    assert levels == ["ERROR", "ERROR", "WARNING", "DEBUG", "Level 35", "CRITICAL"]


@pytest.mark.parametrize(("timeout", "reached"), [(0, False), (60, True), (61, False)])
def test_timeout_reached_turns_true_at_the_timeout(
    app: Stepwell, clock: ManualClock, timeout: float, reached: bool
) -> None:
    def compute(job: Job) -> bool:
        clock.advance(60)
        return job.step.timeout_reached

    assert Script(app, clock, compute=compute).run(timeout=timeout).response is reached


@pytest.mark.parametrize("state", [State.CANCELLED, State.SKIPPED, State.FAILED, State.STOPPED])
def test_cancel_requested_turns_true_when_the_step_is_ended_from_outside(
    app: Stepwell, clock: ManualClock, state: State
) -> None:
    seen: list[bool] = []

    def compute(job: Job) -> str:
        seen.append(job.step.cancel_requested)
        app.transition_to(job.step, state, who="tester")
        seen.append(job.step.cancel_requested)
        return "late"

    step = Script(app, clock, compute=compute).run()
    assert seen == [False, True]
    assert (step.state, step.response) == (state, None)


# Interrupts ----------------------------------------------------------------------------------------------------


def test_ctrl_c_hands_the_step_back_unspent_and_goes_through_to_the_person(app: Stepwell, clock: ManualClock) -> None:
    def compute(job: Job) -> str:
        if len(script.calls) == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return "done"

    script = Script(app, clock, compute=compute, ignore_exception=True)
    with pytest.raises(KeyboardInterrupt):
        script.run(retries=0)
    script.ref = app.steps()[0].ref
    assert (script.step.state, script.step.reason, script.step.attempts) == ("Pending", "handed_back", 0)
    assert (script.settle().state, script.step.attempts) == ("Completed", 1)


def test_ctrl_c_goes_through_a_coroutine_job_too(app: Stepwell) -> None:
    runs: list[int] = []

    @app.job(retries=0)
    async def wait() -> str:
        runs.append(1)
        if len(runs) == 1:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
        return "done"

    handle = wait.enqueue()
    with pytest.raises(KeyboardInterrupt):
        app.run_until_idle()
    assert (handle.step().state, handle.step().attempts) == ("Pending", 0)
    app.run_until_idle()
    assert handle.result(timeout=0) == "done"


def test_a_coroutine_job_whose_own_inner_task_was_cancelled_has_an_error_like_any_other(
    app: Stepwell, clock: ManualClock
) -> None:
    @app.job(retries=0)
    async def wait() -> None:
        inner = asyncio.create_task(asyncio.Event().wait())
        await asyncio.sleep(0)
        inner.cancel()
        await inner

    handle = wait.enqueue()
    app.run_until_idle()
    assert (handle.step().state, handle.step().error_message) == ("Failed", "CancelledError")


def test_an_error_of_the_jobs_own_database_is_its_own(app: Stepwell, clock: ManualClock) -> None:
    script = Script(app, clock, compute=sqlite3.OperationalError("no such table: orders"))
    assert (script.run(retries=0).state, script.step.error_message) == (
        "Failed",
        "OperationalError: no such table: orders",
    )
