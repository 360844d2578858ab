"""Stopping: no new work, a grace period, then steps return to Pending; a second signal stops at once."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress

import pytest

from stepwell.service.crew import SAME_SIGNAL_SECONDS
from tests.survival.support import WAIT_SECONDS, Cluster, is_alive


@pytest.mark.parametrize("executor", ["process", "thread"])
def test_after_a_signal_running_steps_get_the_grace_period_and_nothing_new_begins(
    cluster: Cluster, executor: str
) -> None:
    """The signal goes to every process of the service, as service managers send it."""
    worker = cluster.start("up", executor=executor, options=["--grace", "3"])
    cluster.add("short", "wait", go="go")
    cluster.add("long", "wait", go="never")
    cluster.until_started("short")
    cluster.until_started("long")
    cluster.add("waiting")
    pids = set(worker.descendant_pids())
    assert len(pids) >= (3 if executor == "process" else 1)
    for pid in (worker.pid, *pids):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    cluster.release("go")
    cluster.until_states(short="Completed")
    assert all(map(is_alive, pids))
    assert worker.process.wait(WAIT_SECONDS) == 0, worker.output
    cluster.until_gone(pids)
    assert (str(cluster["short"].state), cluster["short"].rescues) == ("Completed", 0)
    assert ("Pending", "handed_back") in cluster.path("long")  # the dispatcher may have dispatched it again
    assert (cluster["long"].attempts, cluster["long"].rescues, cluster["long"].lease_worker) == (0, 0, None)
    assert str(cluster["waiting"].state) in ("Pending", "Dispatched")
    assert not cluster.entries("started", "waiting")
    assert cluster.app.breaker.safe_to_restart().running == 0


@pytest.mark.parametrize("executor", ["process", "thread", "async"])
def test_a_second_signal_stops_at_once(cluster: Cluster, executor: str) -> None:
    worker = cluster.start(executor=executor, options=["--grace", "600"])
    cluster.add("hung", "ignore exceptions")
    started = cluster.until_started("hung")
    pids = set(worker.descendant_pids())
    worker.signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):  # two at once count as one that was sent to all
        worker.process.wait(SAME_SIGNAL_SECONDS + 0.1)
    worker.signal(signal.SIGINT)
    assert worker.process.wait(WAIT_SECONDS) == 0, worker.output
    cluster.until_gone({*pids, started.pid})
    step = cluster["hung"]
    assert (str(step.state), step.reason, step.attempts) == ("Pending", "handed_back", 0)
