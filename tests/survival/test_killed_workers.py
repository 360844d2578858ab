"""A worker killed at any point of a step's life: the step ends, and what had ended never runs again."""

from __future__ import annotations

import random
import signal

import pytest

from stepwell import NewStep
from tests.survival import failpoints
from tests.survival.support import WAIT_SECONDS, Cluster

LABELS = [f"step {number}" for number in range(4)]


@pytest.mark.parametrize("point", failpoints.POINTS)
def test_a_worker_that_is_killed_loses_nothing_and_repeats_nothing_that_had_ended(cluster: Cluster, point: str) -> None:
    for label in LABELS:
        cluster.add(label)
    killed = cluster.start(failpoint=point)
    assert killed.process.wait(WAIT_SECONDS) == -signal.SIGKILL, killed.output
    ended = [label for label in LABELS if cluster.states(label)[label] == "Completed"]
    left = [label for label in LABELS if str(cluster[label].state) == "Running"]
    ran = {label: len(cluster.entries("started", label)) for label in LABELS}

    match point:
        case "before the claim is committed":
            assert not ended
            assert not left
            assert not any(ran.values())
        case "after the claim, before the start":
            assert left
            assert not ended
            assert not any(ran.values())
        case "after the end, before it is written":
            assert any(cluster.entries("ended", label) for label in left)
            assert not ended
        case "after the end is committed":
            assert ended

    cluster.start()
    cluster.until_all()
    for label in LABELS:
        assert cluster.rescues(label) == (label in left)
        assert len(cluster.entries("ended", label)) >= 1
    for label in ended:
        assert len(cluster.entries("started", label)) == 1


def test_the_steps_of_a_worker_killed_while_they_ran_are_run_by_another(cluster: Cluster) -> None:
    """Its slots do not outlive it, and a compute that was recorded does not run again."""
    cluster.add("running", "wait", go="go")
    cluster.add("staged", action="three_stages", go="go")
    killed = cluster.start()
    cluster.until_started("running")
    cluster.until(lambda: cluster.entries("completes", "staged"))
    pids = killed.descendant_pids()
    assert len(pids) >= 3
    killed.kill()
    cluster.until_gone(pids)
    another = cluster.start()
    cluster.until_started("running", 2)
    cluster.until(lambda: len(cluster.entries("completes", "staged")) == 2)
    cluster.release("go")
    cluster.until_all()
    assert (cluster.rescues("running"), cluster.rescues("staged")) == (1, 1)
    assert (len(cluster.entries("computed", "staged")), len(cluster.entries("started", "child of staged"))) == (1, 1)
    assert another.stop() == 0


def test_the_heartbeat_process_of_a_thread_worker_does_not_outlive_it(cluster: Cluster) -> None:
    """Even if a job has forked, and the copy keeps every file of the worker open."""
    cluster.add("forks", "fork a copy")
    cluster.add("running", "wait", go="go")
    killed = cluster.start(executor="thread")
    cluster.until_states(forks="Completed")
    cluster.until_started("running")
    heartbeat_pids = killed.descendant_pids() - {cluster["forks"].response}
    assert len(heartbeat_pids) == 1
    killed.kill()
    cluster.until_gone(heartbeat_pids)
    cluster.until(lambda: cluster["running"].rescues == 1)


def test_workers_that_are_killed_again_and_again_finish_all_of_it(cluster: Cluster) -> None:
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for number in range(20):
        cluster.add(f"step {number}", "sleep", seconds=rng.uniform(0.0, 0.1))
    for number in range(5):
        root, *_ = cluster.app.enqueue_many(_family_tree(number))
        cluster.refs[f"root {number}"] = root
    completed: dict[str, int] = {}
    for _ in range(3):
        worker = cluster.start()
        goal = len(list(cluster.run_log())) + rng.randrange(2, 12)
        cluster.until(lambda goal=goal: len(list(cluster.run_log())) >= goal)  # type: ignore[misc]
        worker.kill()
        for label in cluster.refs:
            if str(cluster[label].state) == "Completed":
                completed.setdefault(label, len(cluster.entries("started", label)))
    cluster.start()
    cluster.until_all()
    assert {label: len(cluster.entries("started", label)) for label in completed} == completed


def _family_tree(number: int) -> list[NewStep]:
    root = NewStep(action="act", label=f"root {number}")
    return [root, *(NewStep(action="act", label=f"leaf {number}.{leaf}", parent=root) for leaf in range(2))]
