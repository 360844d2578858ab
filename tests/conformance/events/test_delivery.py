"""Events of a running engine: delivered in time, by whatever process or call ends, and never in anybody's way."""

from __future__ import annotations

import subprocess
import sys
import threading

from stepwell import State, Stepwell
from stepwell.events import Event, StepChanged, StepCompleted, TaskFinalizationStarted, WorkflowChanged, on
from tests.conformance.support.engine import Engine

PROGRAM = """
import sys, time
from stepwell import Stepwell
from stepwell.events import StepChanged
app = Stepwell(sys.argv[1])
@app.events.on(StepChanged)
def show(event):
    time.sleep(0.05)
    print(event.name, flush=True)
app.cancel(app.enqueue("pay"), who="ann")
"""


def test_a_slow_subscriber_changes_nothing_of_what_runs(engine: Engine) -> None:
    released = threading.Event()
    received: list[Event] = []

    @engine.app.events.on(StepChanged)
    def wait(event: StepChanged) -> None:
        released.wait()
        received.append(event)

    engine.plant("root > (a, b)")
    engine.settle()
    assert {engine[name].state for name in ("root", "a", "b")} == {State.COMPLETED}
    assert received == []
    released.set()
    assert engine.app.events.flush()
    assert len(received) == sum(len(engine.path(name)) for name in ("root", "a", "b"))


def test_events_are_delivered_when_run_until_idle_returns_with_the_clock_of_the_system(database_url: str) -> None:
    with Stepwell(database_url) as app:
        seen: list[str] = []
        app.events.on(StepCompleted)(lambda event: seen.append(event.action))

        @app.job
        def pay() -> None: ...

        pay.enqueue()
        app.run_until_idle()
        assert seen == ["pay"]


def test_close_delivers_the_last_events(database_url: str) -> None:
    app = Stepwell(database_url)
    seen: list[str] = []
    app.events.on(StepChanged)(lambda event: seen.append(event.name))
    app.cancel(app.enqueue("pay"), who="ann")
    app.close()
    assert seen == ["step.created", "step.cancelled"]


def test_the_end_of_a_program_delivers_the_last_events(shared_database_url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, shared_database_url], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["step.created", "step.cancelled"]


def test_an_object_follows_steps_and_workflows_in_the_order_of_their_commits(app: Stepwell) -> None:
    class Follower:
        def __init__(self) -> None:
            self.seen: list[str] = []

        @on(StepChanged)
        def step(self, event: StepChanged) -> None:
            self.seen.append(event.name)

        @on(WorkflowChanged, TaskFinalizationStarted)
        def workflow(self, event: Event) -> None:
            self.seen.append(event.name)

    follower = app.events.subscribe(Follower())
    flow = app.workflows("shop").workflow("short")

    @flow.step
    def only() -> None: ...

    run = flow.start()
    app.run_until_idle()
    assert run.state == "complete"
    assert follower.seen == [
        "step.created",
        "workflow.started",
        "step.dispatched",
        "step.running",
        "workflow.in_progress",
        "step.completed",
        "workflow.task_finalization_started",
        "workflow.completed",
    ]
