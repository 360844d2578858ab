"""After compute: double_check, confirm_or_retry, complete. Compute itself never runs again."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from stepwell import NOT_COMPLETED, Job, NewStep, Permanent, Reschedule, Skip, Stepwell, Stop
from stepwell.testing import ManualClock
from tests.conformance.support.jobs import Script, below, names, settle

LATER = ("double_check", "confirm_or_retry", "complete")


def test_work_that_is_verified_at_the_second_look_completes_without_spending_a_retry(
    app: Stepwell, clock: ManualClock
) -> None:
    script = Script(app, clock, compute="result", double_check=[False, True])
    step = script.run()
    assert (step.state, step.response, step.retries, step.attempts) == ("Completed", "result", 0, 2)
    assert script.calls == ["compute", "double_check", "double_check"]
    assert script.reasons == ["double_check", None]


def test_work_that_is_not_verified_in_two_looks_fails(app: Stepwell, clock: ManualClock) -> None:
    script = Script(app, clock, compute="result", double_check=False, complete=None)
    step = script.run(retries=9)
    assert (step.state, step.reason, step.retries, step.response) == ("Failed", "not_verified", 0, "result")
    assert step.error_message == "double_check returned False 2 times"
    assert script.calls == ["compute", "double_check", "double_check"]


def test_the_second_look_comes_after_the_backoff(app: Stepwell, clock: ManualClock) -> None:
    script = Script(app, clock, {"backoff": [7, 70]}, double_check=[False, True])
    ref = script.job.enqueue()
    app.run_until_idle()
    step = app.step(ref)
    assert (step.state, step.dispatch_after) == ("Pending", clock.now() + timedelta(seconds=7))
    settle(app, clock)


def test_confirm_or_retry_spends_retries_and_resumes_in_confirmation_mode(app: Stepwell, clock: ManualClock) -> None:
    script = Script(
        app,
        clock,
        prepare=None,
        start_or_skip=True,
        compute="sent",
        double_check=True,
        confirm_or_retry=[False, False, True],
        complete=None,
    )
    step = script.run()
    assert (step.state, step.response, step.retries, step.attempts) == ("Completed", "sent", 2, 3)
    first = ["prepare", "start_or_skip", "compute", "double_check", "confirm_or_retry"]
    assert script.calls == [*first, "prepare", "confirm_or_retry", "prepare", "confirm_or_retry", "complete"]
    assert script.errors == ["confirm_or_retry returned False"] * 2 + [None]


def test_confirm_or_retry_that_is_never_confirmed_fails_when_the_retries_are_spent(
    app: Stepwell, clock: ManualClock
) -> None:
    script = Script(app, clock, compute="sent", confirm_or_retry=False)
    step = script.run(retries=2)
    assert (step.state, step.reason, step.attempts) == ("Failed", "max_retries_reached", 3)
    assert script.calls == ["compute", *["confirm_or_retry"] * 3]


def test_the_answer_of_complete_does_not_matter(app: Stepwell, clock: ManualClock) -> None:
    assert Script(app, clock, complete=False).run().state == "Completed"


@pytest.mark.parametrize("stage", LATER)
@pytest.mark.parametrize(
    ("word", "spent"),
    [(OSError("once"), 1), (Reschedule(in_=5), 0), (SystemExit(1), 0), (NOT_COMPLETED, 0)],
    ids=["error", "reschedule", "exit", "not completed"],
)
def test_a_later_stage_that_is_sent_back_begins_there_again(
    app: Stepwell, clock: ManualClock, stage: str, word: Any, spent: int
) -> None:
    script = Script(app, clock, compute="result", **{**dict.fromkeys(LATER, True), stage: [word, True]})
    step = script.run(cooldown=2)
    assert (step.state, step.response, step.retries, step.attempts) == ("Completed", "result", spent, 2)
    before, after = LATER[: LATER.index(stage)], LATER[LATER.index(stage) + 1 :]
    assert script.calls == ["compute", *before, stage, stage, *after]


@pytest.mark.parametrize("stage", LATER)
@pytest.mark.parametrize("word", [Permanent("no"), Stop("enough")], ids=["failed", "stopped"])
def test_compute_does_not_run_again_after_an_operators_retry(
    app: Stepwell, clock: ManualClock, stage: str, word: Any
) -> None:
    script = Script(app, clock, compute="result", **{stage: [word, True]})
    assert script.run().state in ("Failed", "Stopped")
    app.retry(script.step, who="tester")
    step = script.settle()
    assert (step.state, step.response) == ("Completed", "result")
    assert script.calls == ["compute", stage, stage]


def test_an_operators_retry_gives_double_check_its_budget_again(app: Stepwell, clock: ManualClock) -> None:
    script = Script(app, clock, double_check=[False, False, False, True])
    assert script.run().reason == "not_verified"
    app.retry(script.step, who="tester")
    assert script.settle().state == "Completed"
    assert script.calls == ["compute", *["double_check"] * 4]


def test_compute_does_not_run_again_when_bad_arguments_came_between(app: Stepwell, clock: ManualClock) -> None:
    calls: list[str] = []

    class Pays(Job):
        def __init__(self, amount: int) -> None:
            if len(calls) == 2:
                calls.append("new release")
                raise TypeError("this release wants a currency")

        def compute(self) -> None:
            calls.append("compute")

        def complete(self) -> None:
            calls.append("complete")
            if len(calls) == 2:
                raise OSError("once")

    ref = app.job()(Pays).enqueue(1)
    settle(app, clock)
    assert app.step(ref).reason == "bad_arguments"
    app.retry(ref, who="tester")
    settle(app, clock)
    assert app.step(ref).state == "Completed"
    assert calls == ["compute", "complete", "new release", "complete"]


def test_compute_does_not_run_again_when_a_later_stage_had_bad_children(app: Stepwell, clock: ManualClock) -> None:
    def complete(job: Job) -> None:
        job.children(NewStep(action="script", depends_on=["00000000-0000-4000-8000-000000000000"]))

    script = Script(app, clock, compute="result", complete=[complete, None])
    assert script.run().reason == "bad_children"
    app.retry(script.step, who="tester")
    assert (script.settle().state, script.step.response) == ("Completed", "result")
    assert script.calls == ["compute", "complete", "complete"]


def test_later_stages_find_the_result_typed_also_in_a_later_attempt(app: Stepwell, clock: ManualClock) -> None:
    seen: list[Any] = []

    class Typed(Job):
        def compute(self) -> datetime:
            return clock.now()

        def complete(self) -> None:
            seen.append(self.step.response)
            if len(seen) == 1:
                raise OSError("once")

    started = clock.now()
    handle = app.job()(Typed).enqueue()
    settle(app, clock)
    assert seen == [started, started]
    assert handle.result(timeout=0) == started


def test_a_later_stage_may_change_the_result(app: Stepwell, clock: ManualClock) -> None:
    def change(job: Job) -> None:
        job.step.response["confirmed"] = True

    script = Script(app, clock, compute=lambda job: {"id": 1}, complete=change)
    assert script.run().response == {"id": 1, "confirmed": True}


def test_what_compute_returns_wins_over_what_it_set_before(app: Stepwell, clock: ManualClock) -> None:
    def compute(job: Job) -> str:
        job.step.response = "set"
        return "returned"

    assert Script(app, clock, compute=compute, complete=None).run().response == "returned"


def test_a_result_of_a_later_stage_that_cannot_be_stored_fails_the_step(app: Stepwell, clock: ManualClock) -> None:
    def spoil(job: Job) -> None:
        job.step.response = object()

    step = Script(app, clock, compute=1, complete=spoil).run()
    assert (step.state, step.reason, step.attempts, step.response) == ("Failed", "unstorable_result", 1, 1)


@pytest.mark.parametrize("word", [Skip("enough"), OSError("gone")], ids=["skipped", "failed"])
def test_children_of_compute_end_with_a_parent_that_a_later_stage_ends(
    app: Stepwell, clock: ManualClock, word: Exception
) -> None:
    leaf = app.job(name="leaf")(lambda: None)
    script = Script(
        app, clock, {"retries": 0}, compute=lambda job: job.children(leaf.draft()) and None, complete=[word, None]
    )
    parent = script.run()
    (child,) = below(app, parent)
    assert child.state == parent.state
    assert child.attempts == 0
    if parent.state == "Failed":
        app.retry(parent, who="tester")
        assert script.settle().state == "Completed"
        (child,) = below(app, parent)
        assert (child.state, script.calls) == ("Completed", ["compute", "complete", "complete"])


def test_the_end_of_compute_is_recorded_before_the_later_stages_run(app: Stepwell, clock: ManualClock) -> None:
    seen: list[Any] = []
    leaf = app.job(name="leaf")(lambda: None)

    def compute(job: Job) -> str:
        job.children(leaf.draft())
        return "result"

    def look(job: Job) -> None:
        step = app.step(job.step)
        seen.append((step.state, step.response, step.compute_done_at, step.own_code_done_at, names(below(app, step))))

    script = Script(app, clock, compute=compute, complete=look)
    script.run()
    assert seen == [("Running", "result", clock.now(), None, ["leaf"])]


def test_a_stage_whose_hook_is_gone_is_passed_over(app: Stepwell, clock: ManualClock, database_url: str) -> None:
    """A release that drops a hook finds steps that wait for it."""
    script = Script(app, clock, compute="result", double_check=[False, True], complete=None)
    script.ref = script.job.enqueue()
    app.run_until_idle()
    assert script.step.stage == "double_check"
    app.jobs._jobs.clear()
    script = Script(app, clock, compute="again", complete=None)
    script.ref = app.steps()[0].ref
    assert (script.settle().state, script.calls) == ("Completed", ["complete"])
