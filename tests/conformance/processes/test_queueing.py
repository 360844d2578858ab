"""Queueing main processes: what becomes of a task in each state, all or nothing."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import NewStep, State, Stepwell, current_step
from stepwell.model.task_states import TaskState
from stepwell.processes.errors import QueueingError, TaskStateError
from stepwell.store import Transaction
from stepwell.testing import ManualClock
from tests.conformance.processes.crystal import Tasks, refuse

# What a queueing does with a task in each state: in a main process where it depends on nothing, and where it does.
RULES: list[tuple[TaskState, str, str]] = [
    ("new", "kept", "kept"),
    ("completed", "made new", "made new"),
    ("error", "made new", "made new"),
    ("running", "refused", "passed over"),
    ("dead", "refused", "refused"),
    ("not_completed", "refused", "refused"),
]
TABLES = ("steps", "step_transitions", "steps_agenda", "steps_tasks", "steps_task_dependencies")


def rows_of(app: Stepwell) -> dict[str, Any]:
    """Everything that a queueing writes."""

    def look(tx: Transaction) -> dict[str, Any]:
        return {table: sorted(tx.fetch(f"SELECT * FROM {table}", {}), key=repr) for table in TABLES}

    return app.database.read(look)


@pytest.mark.parametrize("main_process", ["free", "bound"])
@pytest.mark.parametrize(("state", "free", "bound"), RULES, ids=lambda value: str(value))
def test_what_a_queueing_does_with_a_task_follows_from_its_state(
    app: Stepwell, clock: ManualClock, main_process: str, state: TaskState, free: str, bound: str
) -> None:
    expected = free if main_process == "free" else bound
    tasks = Tasks(app, max_error_tries=1)
    with tasks.brought_to(state, "dependent", "dependent", clock):
        step, before = tasks.step_of("dependent"), rows_of(app)
        if expected == "refused":
            with pytest.raises(TaskStateError) as caught:
                tasks.processes.queue(main_process)
            assert (caught.value.task_class, caught.value.state) == ("dependent", state)
            assert (caught.value.part, caught.value.step_id) == ("1/1", step)
            assert rows_of(app) == before  # the other task of the main process is rolled back, too
            return
        queued = tasks.processes.queue(main_process)
        other = tasks.step_of("other")
        assert queued.kept == ([step] if expected == "kept" else [])
        assert queued.passed_over == ([step] if expected == "passed over" else [])
        assert sorted(queued.new) == sorted({other, tasks.step_of("dependent")} - {step})
        assert tasks.states()["dependent"] == ("running" if expected == "passed over" else "new")
        assert tasks.states()["other"] == "new"


def test_a_refused_queueing_names_every_task_that_stands_in_the_way(app: Stepwell) -> None:
    tasks = Tasks(app)
    tasks.not_completed("other")
    tasks.not_completed("dependee")
    tasks.processes.queue("both")
    app.run_until_idle()
    with pytest.raises(TaskStateError) as caught:
        tasks.processes.queue("both")
    other, dependee = tasks.step_of("other"), tasks.step_of("dependee")
    reason = "is not_completed: it has to be rescheduled first (`stepwell heartbeat reschedule`, or `stepwell up`)"
    assert str(caught.value) == (
        f"main process 'both' is not queued: task 'dependee' (step {dependee}) {reason}; "
        f"task 'other' (step {other}) {reason}"
    )


def test_queueing_again_keeps_the_place_in_line(app: Stepwell) -> None:
    tasks = Tasks(app)
    tasks.processes.queue("dependee")
    tasks.processes.queue("both")  # `other` stands behind it
    for _ in range(3):
        tasks.processes.queue("both")
        tasks.processes.queue("dependee")
    assert len(app.steps()) == 2
    app.run_until_idle(slots=1)
    assert tasks.runs == ["dependee", "other"]


def test_a_completed_task_is_succeeded_by_a_new_step_and_its_history_stays(app: Stepwell) -> None:
    tasks = Tasks(app)
    (first,) = tasks.processes.queue("dependee").new
    app.run_until_idle()
    (second,) = tasks.processes.queue("dependee").new
    assert app.step(first).state is State.COMPLETED
    assert app.step(second).state is State.PENDING
    assert tasks.step_of("dependee") == second


def test_errors_are_counted_and_the_last_try_is_an_error(app: Stepwell, clock: ManualClock) -> None:
    tasks = Tasks(app, max_error_tries=3)
    tasks.does["other"] = refuse
    tasks.processes.queue("both")
    for _ in range(10):
        app.run_until_idle()
        clock.advance(60)
    assert tasks.runs.count("other") == 3
    assert tasks.states()["other"] == "error"


def test_between_two_error_tries_a_task_is_new(app: Stepwell) -> None:
    tasks = Tasks(app, max_error_tries=2)
    tasks.does["other"] = refuse
    tasks.processes.queue("both")
    app.run_until_idle()
    assert tasks.states()["other"] == "new"
    assert tasks.processes.queue("both").kept == [tasks.step_of("other")]


def test_a_step_that_was_succeeded_cannot_be_retried(app: Stepwell) -> None:
    tasks = Tasks(app, max_error_tries=1)
    tasks.does["other"] = refuse
    tasks.processes.queue("both")
    app.run_until_idle()
    old = tasks.step_of("other")
    tasks.processes.queue("both")
    with pytest.raises(Exception, match="is no longer the current one of its task"):
        app.retry(old, who="ada")
    assert app.step(old).state is State.FAILED


def split(app: Stepwell, resources: int, entity: str = "customers.id", **settings: Any) -> Any:
    return app.main_processes.configure(
        {
            "main_processes": {"nightly": {"tasks": [{"class": "sync"}]}},
            "tasks": {"sync": {"class": "sync", "timeout": 60, "cooldown": 5, "range_strategy": "HashRange",
                               "resources": resources, "entity_uid": entity}},
            **settings,
        }
    )  # fmt: skip


def test_a_task_runs_in_the_parts_of_its_entities_and_reads_its_part_from_its_step(app: Stepwell) -> None:
    found: list[str] = []

    @app.job()
    def sync() -> None:
        step = current_step()
        found.append(step.partition.characters)
        assert step.relatable is not None
        assert step.relatable[0] == "customers.id"

    processes = split(app, 3)
    processes.queue("nightly")
    app.run_until_idle()
    assert sorted(found) == ["012345", "6789a", "bcdef"]
    assert [task.part for task in processes.tasks()] == ["1/3", "2/3", "3/3"]


def test_a_part_that_is_running_fails_the_queueing_of_all_parts(app: Stepwell) -> None:
    refused: list[str] = []

    @app.job()
    def sync() -> None:
        if current_step().partition.number == 2:
            with pytest.raises(TaskStateError) as caught:
                processes.queue("nightly")
            refused.append(caught.value.part)

    processes = split(app, 3)
    processes.queue("nightly")
    app.run_until_idle(slots=1)
    assert refused == ["2/3"]


def test_a_class_is_split_otherwise_only_after_all_old_parts_have_ended(app: Stepwell) -> None:
    app.job(name="sync")(lambda: None)
    split(app, 2).queue("nightly")
    three = split(app, 3)
    with pytest.raises(TaskStateError, match="split differently before; wait until that part has ended"):
        three.queue("nightly")
    app.run_until_idle()
    assert len(three.queue("nightly").new) == 3
    assert [task.part for task in three.tasks()] == ["1/3", "2/3", "3/3"]
    app.run_until_idle()
    other = split(app, 3, entity="orders.id")
    other.queue("nightly")
    assert {task.entity for task in other.tasks()} == {"orders.id"}


class Drafts:
    """A factory that makes every task of one job, with arguments or settings of its own."""

    def __init__(self, made: Any) -> None:
        self.made = made

    def create(self, task_class: str) -> Any:
        return self.made


def test_a_factory_may_give_a_task_arguments_and_another_job(app: Stepwell) -> None:
    tasks = Tasks(app)
    got: list[int] = []

    @app.job()
    def count(days: int) -> None:
        got.append(days)

    tasks.processes.queue("dependee", task_factory=Drafts(count.options(priority="high").draft(days=7)))
    step = app.step(tasks.step_of("dependee"))
    assert (step.action, step.label, step.priority, step.timeout) == ("count", "dependee", "high", 60)
    app.run_until_idle()
    assert got == [7]
    assert tasks.states() == {"dependee": "completed"}


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ("sync", "the task factory returned 'sync' for 'dependee': return a job, or a draft of one"),
        (None, "the task factory returned None for 'dependee'"),
        (NewStep(action="other", key="k", index=2), "a draft of 'other' with index, key: a task stands alone"),
    ],
)
def test_what_a_factory_must_not_return_is_refused(app: Stepwell, made: Any, message: str) -> None:
    tasks = Tasks(app)
    before = rows_of(app)
    with pytest.raises(QueueingError, match=message):
        tasks.processes.queue("dependee", task_factory=Drafts(made))
    assert rows_of(app) == before
