"""A process that declares nothing of a feature still does for its steps what the feature promises."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stepwell import Stepwell
from stepwell.processes.queueing import QUEUE
from stepwell.testing import ManualClock
from stepwell.workflow.template import StepTemplate
from tests.conformance.workflow.flows import row_of, start


@pytest.fixture
def app(shared_database_url: str, clock: ManualClock) -> Iterator[Stepwell]:
    with Stepwell(shared_database_url, clock=clock) as app:
        yield app


@pytest.fixture
def other(app: Stepwell, clock: ManualClock) -> Iterator[Stepwell]:
    """A second app on the same database that has only the job: it has loaded no feature."""
    with Stepwell(app.database.url, clock=clock, queues=[QUEUE]) as other:

        @other.job(name="work")
        def work() -> str:
            return "done"

        yield other


def _has_loaded(app: Stepwell, feature: str) -> bool:
    return f"{feature}_engine" in vars(app._attached)


def test_the_last_step_of_a_workflow_settles_it(app: Stepwell, other: Stepwell) -> None:
    workflow = start(
        app, StepTemplate(name="first", action="work"), StepTemplate(name="last", action="work", after=("first",))
    )
    assert not _has_loaded(other, "workflow")
    assert other.run_until_idle() == 2
    assert row_of(app, workflow).state == "complete"
    assert _has_loaded(other, "workflow")


def test_the_end_of_a_step_ends_its_execution(app: Stepwell, other: Stepwell) -> None:
    @app.job(name="work")
    def work() -> str:
        return "here"

    app.schedules.create("nightly", "0 4 * * *", work, who="ann")
    execution = app.schedules.run_now("nightly", who="ann")
    assert not _has_loaded(other, "schedule")
    assert other.run_until_idle() == 1
    assert [row.status for row in app.schedules.executions("nightly") if row.id == execution.id] == ["SUCCESS"]


def test_the_end_of_a_step_completes_its_task(app: Stepwell, other: Stepwell) -> None:
    app.job(name="work")(lambda: "here")
    processes = app.main_processes.configure(
        {
            "main_processes": {"nightly": {"tasks": [{"class": "work"}]}},
            "tasks": {"work": {"class": "work", "timeout": 60, "cooldown": 5}},
        }
    )
    processes.queue("nightly")
    assert not _has_loaded(other, "process")
    assert other.run_until_idle() == 1
    assert [task.state for task in processes.tasks()] == ["completed"]
    assert _has_loaded(other, "process")


def test_a_step_that_plain_steps_surround_is_the_only_one_to_load_a_feature(app: Stepwell, other: Stepwell) -> None:
    app.enqueue_many([app.jobs.draft("work", {}, {}) for _ in range(3)])
    assert other.run_until_idle() == 3
    assert [name for name in ("workflow", "schedule", "process") if _has_loaded(other, name)] == []
