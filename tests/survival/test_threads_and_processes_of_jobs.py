"""Threads, tasks and processes that a job starts belong to its run, and cannot affect another."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stepwell import Stepwell, StepwellError
from tests.survival import jobs
from tests.survival.support import ROOT, Cluster

# Each executor and each database, but not all pairs: what a job starts never uses the database directly.
EXECUTORS = pytest.mark.parametrize(
    ("shared_database_url", "executor"),
    [
        pytest.param("postgres", "process", id="postgres-process", marks=pytest.mark.postgres),
        pytest.param("sqlite-file", "thread", id="sqlite-file-thread", marks=pytest.mark.sqlite),
        pytest.param("postgres", "async", id="postgres-async", marks=pytest.mark.postgres),
    ],
    indirect=["shared_database_url"],
)


@EXECUTORS
def test_an_exit_in_a_task_ends_neither_the_loop_nor_another_step(cluster: Cluster, executor: str) -> None:
    cluster.start("up", executor=executor)
    cluster.add("exits", action="exit_in_a_task", cooldown=3600)
    cluster.until(lambda: ("Pending", "not_completed") in cluster.path("exits"))
    assert cluster["exits"].rescues == 0
    cluster.release("go")
    for number in range(5):
        cluster.add(f"later {number}", action="act_async", go="go")
    cluster.until_states(**{f"later {number}": "Completed" for number in range(5)})


@EXECUTORS
def test_children_that_a_thread_of_the_job_creates_are_part_of_its_result(cluster: Cluster, executor: str) -> None:
    cluster.start("up", executor=executor)
    cluster.add("parent", "create children in threads", max_retries=1)
    cluster.until_states(parent="Completed")
    children = [step for step in cluster.app.steps(limit=50) if str(step.label).startswith("child")]
    assert sorted(str(step.label) for step in children) == ["child 0 of parent", "child 1 of parent"]
    assert {step.parent_step_id for step in children} == {cluster.refs["parent"].id}


@EXECUTORS
def test_a_coroutine_may_name_its_own_step_by_its_number(cluster: Cluster, executor: str) -> None:
    cluster.start("up", executor=executor)
    cluster.add("parent", action="create_a_child_by_number", max_retries=1)
    cluster.until_states(parent="Completed")
    (child,) = [step for step in cluster.app.steps(limit=50) if step.label == "child of parent"]
    assert child.parent_step_id == cluster.refs["parent"].id


@pytest.mark.parametrize("executor", ["process", "thread"])
def test_a_thread_that_outlives_its_run_cannot_write_to_the_next_one(cluster: Cluster, executor: str) -> None:
    cluster.start("up", executor=executor, slots=1)
    cluster.add("leaves one", "leave a thread")
    cluster.until_states(**{"leaves one": "Completed"})
    for number in range(3):
        cluster.add(f"next {number}", "sleep", seconds=0.3)
    cluster.until_states(**{f"next {number}": "Completed" for number in range(3)})
    for number in range(3):
        step = cluster[f"next {number}"]
        assert (step.checkpoint, step.progress_done, step.rescues) == (None, None, 0)
        assert cluster.app.logs(step) == []


def test_a_job_may_have_processes_of_its_own(cluster: Cluster) -> None:
    cluster.start("up")
    cluster.add("parallel", "have children of its own")
    cluster.until_states(parallel="Completed")
    assert cluster["parallel"].response == [1, 2, 3]


def test_a_job_that_only_the_worker_knows_fails_with_the_reason(cluster: Cluster) -> None:
    """The processes of the slots import the app by its name: they do not know jobs that a program defines later."""
    program = """
from stepwell.service.crew import Crew
from tests.survival import jobs
app = jobs.make()
app.job(name="besides", retries=0)(lambda: None)
Crew([app.worker(executor="process", slots=1, app_name="tests.survival.jobs:make")]).run()
"""
    environment = {**os.environ, jobs.DATABASE: cluster.url, jobs.FOLDER: str(cluster.folder)}
    cluster.add("unknown", action="besides")
    worker = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, env=environment)
    try:
        cluster.until_states(unknown="Failed")
    finally:
        worker.kill()
        worker.wait()
    assert (cluster["unknown"].reason, cluster["unknown"].rescues) == ("error", 0)
    assert "tests.survival.jobs:make" in str(cluster["unknown"].error_message)


def test_a_worker_that_is_never_run_leaves_no_process_behind(tmp_path: Path) -> None:
    """For example because the program fails before it runs the worker."""
    program = f"""
from stepwell import Stepwell
Stepwell("sqlite:///{tmp_path}/x.db").worker(executor="process", app_name="tests.survival.jobs:make")
raise SystemExit(5)
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 5


def test_steps_of_a_database_in_memory_are_not_given_to_other_processes() -> None:
    with Stepwell("sqlite://") as app, pytest.raises(StepwellError, match="visible to this process only"):
        app.worker(executor="process", app_name="tests.survival.jobs:make")
