"""Whatever a job does to its process, other steps are not affected and nothing is lost."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import pytest

from tests.survival.support import Cluster

NEIGHBOURS = [f"neighbour {number}" for number in range(10)]


def _neighbours_are_done(cluster: Cluster) -> None:
    """Each ran exactly once."""
    cluster.until(lambda: set(cluster.states(*NEIGHBOURS).values()) == {"Completed"})
    assert [len(cluster.entries("ended", label)) for label in NEIGHBOURS] == [1] * len(NEIGHBOURS)


def test_whatever_a_job_does_to_its_process_its_step_ends_in_the_right_state(cluster: Cluster) -> None:
    deadly = ("os._exit", "kill", "segfault")
    for behaviour in (
        *deadly,
        "interrupt",
        "unprintable",
        "return an object",
        "close stdout",
        "fork and both return",
        "exhaust memory",
    ):
        cluster.add(behaviour, behaviour)
    cluster.add("sys.exit", "sys.exit", cooldown=3600)
    for label in NEIGHBOURS:
        cluster.add(label)
    cluster.start("up", slots=3, options=["--max-memory", "512M"])
    _neighbours_are_done(cluster)

    for behaviour in deadly:
        cluster.until_states(**{behaviour: "Failed"})
        step = cluster[behaviour]
        assert (step.reason, step.rescues, step.retries, step.attempts) == ("poison", 4, 0, 4)
        assert cluster.path(behaviour).count(("Pending", "rescued")) == 3
    assert "exited with code 7" in str(cluster["os._exit"].error_message)
    assert "SIGKILL" in str(cluster["kill"].error_message)
    assert "SIGSEGV" in str(cluster["segfault"].error_message)

    cluster.until_states(
        **{
            "sys.exit": "Pending",
            "interrupt": "Failed",
            "unprintable": "Failed",
            "return an object": "Failed",
            "close stdout": "Completed",
            "fork and both return": "Completed",
            "exhaust memory": "Failed",
        }
    )
    exited = cluster["sys.exit"]
    assert (exited.reason, exited.not_completed, exited.retries, exited.rescues) == ("not_completed", 1, 0, 0)
    assert "KeyboardInterrupt" in str(cluster["interrupt"].error_message)
    assert "its text cannot be printed" in str(cluster["unprintable"].error_message)
    assert cluster["return an object"].reason == "unstorable_result"
    assert "MemoryError" in str(cluster["exhaust memory"].error_message)
    assert (cluster["close stdout"].response, cluster["close stdout"].rescues) == ("closed", 0)
    assert (cluster["fork and both return"].response, cluster["fork and both return"].rescues) == ("the slot", 0)


def test_in_threads_a_job_that_exits_or_is_interrupted_ends_only_itself(cluster: Cluster) -> None:
    cluster.add("sys.exit", "sys.exit", cooldown=3600)
    for behaviour in ("interrupt", "unprintable", "return an object"):
        cluster.add(behaviour, behaviour)
    cluster.add("raise an unwritable retry", "raise an unwritable retry", max_retries=3)
    for label in NEIGHBOURS:
        cluster.add(label)
    cluster.start("up", executor="thread")
    _neighbours_are_done(cluster)
    cluster.until_states(
        **{"sys.exit": "Pending", "interrupt": "Failed", "unprintable": "Failed", "return an object": "Failed"}
    )
    cluster.until_states(**{"raise an unwritable retry": "Failed"})
    assert "the end of the run cannot be written" in str(cluster["raise an unwritable retry"].error_message)
    assert (cluster["sys.exit"].reason, cluster["sys.exit"].not_completed) == ("not_completed", 1)


def test_a_job_that_misuses_the_pipe_of_its_slot_cannot_block_the_worker(cluster: Cluster) -> None:
    for behaviour in ("die mid-message", "send garbage", "raise an unwritable retry", "log from a fork"):
        cluster.add(behaviour, behaviour, max_retries=3)
    for label in NEIGHBOURS:
        cluster.add(label)
    cluster.start(slots=3)
    _neighbours_are_done(cluster)
    for behaviour in ("die mid-message", "send garbage"):
        cluster.until_states(**{behaviour: "Failed"})
        assert (cluster[behaviour].reason, cluster[behaviour].rescues) == ("poison", 4)
    cluster.until_states(**{"raise an unwritable retry": "Failed", "log from a fork": "Completed"})
    assert "the end of the run cannot be sent" in str(cluster["raise an unwritable retry"].error_message)
    assert cluster["raise an unwritable retry"].rescues == 0
    assert cluster["log from a fork"].response == 5
    logs = cluster.app.database.read(lambda tx: tx.fetch("SELECT message FROM step_logs", {}))
    assert [row["message"] for row in logs] == ["from the slot"]


@pytest.mark.parametrize("executor", ["process", "thread"])
def test_a_job_that_holds_the_gil_beyond_the_lease_does_not_stop_the_heartbeat_of_its_worker(
    cluster: Cluster, executor: str
) -> None:
    """One worker to a database: a thread worker frozen in a transaction would keep SQLite's write lock from others."""
    seconds = 7.0
    cluster.add("holder", "hold the gil", seconds=seconds)
    cluster.start(executor=executor, lease=6.0)  # longer than any pause of an overloaded machine
    cluster.until_states(holder="Completed")
    step = cluster["holder"]
    assert (step.attempts, step.rescues) == (1, 0)
    assert step.duration is not None
    assert step.duration >= seconds


def test_a_process_that_a_job_left_behind_blocks_no_other_step_and_ends_with_the_worker(cluster: Cluster) -> None:
    cluster.add("parent", "fork and leave")
    cluster.add("killed", "kill")
    for label in NEIGHBOURS:
        cluster.add(label)
    worker = cluster.start()
    cluster.until_states(parent="Completed", killed="Failed")
    _neighbours_are_done(cluster)
    left_behind = cluster["parent"].response
    assert worker.stop() == 0
    cluster.until_gone([left_behind])


def test_a_worker_keeps_working_when_all_its_other_processes_are_killed(cluster: Cluster) -> None:
    """The out-of-memory killer may pick any of them: slots, fork server, heartbeat process."""
    worker = cluster.start("worker", options=["-v"])
    cluster.add("before", "wait", go="never")
    cluster.until_started("before")
    for pid in worker.descendant_pids():
        _kill(pid)
    cluster.until_started("before", 2)
    cluster.release("never")
    cluster.until_states(before="Completed")
    assert cluster.rescues("before") >= 1


def test_threads_keep_their_leases_when_their_heartbeat_process_is_killed(cluster: Cluster) -> None:
    worker = cluster.start(executor="thread")
    cluster.add("long", "wait", go="go")
    cluster.until_started("long")
    (heartbeat_pid,) = worker.descendant_pids()
    _kill(heartbeat_pid)
    (another,) = cluster.until(lambda: worker.descendant_pids() - {heartbeat_pid})
    assert another != heartbeat_pid
    cluster.release("go")
    cluster.until_states(long="Completed")
    assert (cluster["long"].attempts, cluster["long"].rescues) == (1, 0)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
