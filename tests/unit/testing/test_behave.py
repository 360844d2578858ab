"""The job whose arguments choose its behavior."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stepwell import State, Stepwell
from stepwell.define.definition import JobDefinition
from stepwell.testing import ManualClock, behave, run


@pytest.fixture
def app() -> Iterator[Stepwell]:
    with Stepwell("sqlite://", clock=ManualClock()) as app:
        behave(app)
        yield app


@pytest.fixture
def job(app: Stepwell) -> JobDefinition[..., object]:
    return app.jobs["behave"]


@pytest.mark.parametrize(
    ("outcome", "state", "attempts"),
    [
        ("ok", State.COMPLETED, 1),
        ("fail", State.FAILED, 1),
        ("raise", State.FAILED, 4),
        ("retry", State.FAILED, 4),
        ("stop", State.STOPPED, 1),
        ("skip", State.SKIPPED, 1),
        ("sleep", State.COMPLETED, 1),
    ],
)
def test_each_outcome(job: JobDefinition[..., object], outcome: str, state: State, attempts: int) -> None:
    step = run(job, outcome).step()
    assert (step.state, step.attempts) == (state, attempts)


@pytest.mark.parametrize("outcome", ["raise", "retry", "throttle", "not_completed", "exit", "hang"])
def test_an_outcome_for_some_attempts_then_success(job: JobDefinition[..., object], outcome: str) -> None:
    step = run(job.options(timeout=5), outcome, times=2, result="done").step()
    assert (step.state, step.attempts, step.response) == (State.COMPLETED, 3, "done")


def test_a_list_has_one_outcome_for_each_attempt(job: JobDefinition[..., object]) -> None:
    step = run(job, ["raise", "throttle", "skip"]).step()
    assert (step.state, step.attempts) == (State.SKIPPED, 3)


def test_raise_raises_the_chosen_error(job: JobDefinition[..., object]) -> None:
    assert "ConnectionError: no route" in str(run(job, "raise", error="ConnectionError", message="no route").step())
    assert run(job, "raise", error="Permanent").step().attempts == 1
    assert "expected the name of a built-in exception" in str(run(job, "raise", error="print").step().error_message)
    assert "unknown outcome 'fly'; valid outcomes: ok, fail" in str(run(job, "fly").step().error_message)


def test_hang_ends_at_the_timeout_and_needs_one(job: JobDefinition[..., object]) -> None:
    hung = run(job.options(timeout=60, cooldown=5), "hang", times=1).step()
    assert (hung.state, hung.not_completed) == (State.COMPLETED, 1)
    assert "set its timeout" in str(run(job, "hang").step().error_message)


def test_kill_does_not_end_the_process_of_the_test(job: JobDefinition[..., object]) -> None:
    step = run(job, "kill").step()
    assert step.state is State.FAILED
    assert "kill would end the process of the test itself" in str(step.error_message)


def test_checkpoint_and_children_are_kept(app: Stepwell, job: JobDefinition[..., object]) -> None:
    spawned = [{"label": "left", "index": 1}, {"label": "right", "index": 2, "outcome": "skip"}]
    step = run(job, checkpoint={"page": 3}, spawn=spawned).step()
    assert step.checkpoint == {"page": 3}
    assert [(child.step.label, child.step.state) for child in app.tree(step).children] == [
        ("left", State.COMPLETED),
        ("right", State.SKIPPED),
    ]


def test_it_is_the_handler_of_steps_of_workflows_in_python_and_yaml(app: Stepwell) -> None:
    flow = app.workflows("shop").workflow("flow")
    pay = flow.step(name="pay", arguments={"outcome": "raise", "times": 1, "result": 10})(app.jobs["behave"])
    flow.step(name="ship", inputs={"result": "pay"})(app.jobs["behave"])
    assert run(flow).result(flow["ship"], 0) == 10
    assert run(flow).result(pay, 0) == 10
    [loaded] = app.workflows.load_yaml(flow.export().replace("name: flow", "name: again"))
    assert run(loaded).state == "complete"
