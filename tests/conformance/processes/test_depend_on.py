"""dependOn: a task is complete only if a full run of it began after its dependees had completed."""

from __future__ import annotations

from stepwell import State, Stepwell
from stepwell.testing import ManualClock
from tests.conformance.processes.crystal import Tasks


def settle(tasks: Tasks, clock: ManualClock) -> None:
    """Beat until nothing changes any more."""
    for _ in range(5):
        tasks.app.run_until_idle()
        tasks.processes.reschedule()
        clock.advance(10)


def test_a_dependent_that_began_before_its_dependee_completed_runs_again(app: Stepwell, clock: ManualClock) -> None:
    tasks = Tasks(app)
    tasks.processes.queue("pair")  # the dependent is first in line
    app.run_until_idle(slots=1)
    assert tasks.states() == {"dependent": "not_completed", "dependee": "completed"}
    step = app.step(tasks.step_of("dependent"))
    assert (step.state, step.reason) == (State.PENDING, "not_completed")
    clock.advance(3600)
    assert app.run_until_idle() == 0  # it waits for the reschedule beat, not for its cooldown
    settle(tasks, clock)
    assert tasks.states() == {"dependent": "completed", "dependee": "completed"}
    assert tasks.runs == ["dependent", "dependee", "dependent"]


def test_a_dependent_that_began_after_it_is_complete(app: Stepwell) -> None:
    tasks = Tasks(app)
    tasks.processes.queue("dependee")
    app.run_until_idle()
    tasks.processes.queue("dependent")
    app.run_until_idle()
    assert tasks.states() == {"dependent": "completed", "dependee": "completed"}


def test_a_dependee_in_error_does_not_hold_it(app: Stepwell) -> None:
    tasks = Tasks(app, max_error_tries=1)

    def broken() -> None:
        raise ValueError("no")

    tasks.does["dependee"] = broken
    tasks.processes.queue("dependee")
    app.run_until_idle()
    tasks.processes.queue("dependent")
    app.run_until_idle()
    assert tasks.states() == {"dependent": "completed", "dependee": "error"}


def test_when_a_dependee_completes_later_its_completed_dependent_runs_again(app: Stepwell, clock: ManualClock) -> None:
    tasks = Tasks(app)
    tasks.processes.queue("dependent")
    app.run_until_idle()
    assert tasks.states() == {"dependent": "completed"}  # there was nothing to wait for
    before = tasks.step_of("dependent")
    tasks.processes.queue("dependee")
    app.run_until_idle()
    assert tasks.states() == {"dependent": "not_completed", "dependee": "completed"}
    assert tasks.step_of("dependent") != before
    assert app.step(before).state is State.COMPLETED
    settle(tasks, clock)
    assert tasks.states() == {"dependent": "completed", "dependee": "completed"}
    assert tasks.runs == ["dependent", "dependee", "dependent"]


def test_an_operator_who_completes_the_dependee_lets_the_dependent_run_again(app: Stepwell, clock: ManualClock) -> None:
    tasks = Tasks(app, max_error_tries=1)

    def broken() -> None:
        raise ValueError("no")

    tasks.does["dependee"] = broken
    tasks.processes.queue("dependee")
    app.run_until_idle()
    tasks.processes.queue("dependent")
    app.run_until_idle()
    app.complete(tasks.step_of("dependee"), who="ada")
    assert tasks.states() == {"dependent": "not_completed", "dependee": "completed"}
    settle(tasks, clock)
    assert tasks.states() == {"dependent": "completed", "dependee": "completed"}


def test_runs_that_end_without_completing_have_no_limit_unless_one_is_configured(
    app: Stepwell, clock: ManualClock
) -> None:
    tasks = Tasks(app)
    tasks.not_completed("other")
    tasks.processes.queue("both")
    for _ in range(25):
        settle(tasks, clock)
        if len(tasks.runs) > 30:
            break
    assert tasks.runs.count("other") > 25
    assert tasks.states()["other"] in ("new", "not_completed")


def test_a_configured_limit_of_runs_without_completion_is_an_error(app: Stepwell, clock: ManualClock) -> None:
    tasks = Tasks(app, max_not_completed=2)
    tasks.not_completed("other")
    tasks.processes.queue("both")
    settle(tasks, clock)
    assert tasks.runs.count("other") == 3
    assert tasks.states()["other"] == "error"
