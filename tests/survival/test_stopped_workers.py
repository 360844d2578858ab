"""A worker that was suspended beyond its lease and resumes: its stale writes are ignored."""

from __future__ import annotations

import math
import os
import signal
import time
from typing import Any

import pytest

from stepwell.model.errors import DatabaseUnavailable
from stepwell.run.ending import Ending
from stepwell.run.worker import Worker
from stepwell.store.engine import workers
from tests.conformance.support.engine import returned
from tests.survival.failpoints import SUSPENDED
from tests.survival.support import Cluster, is_alive, is_suspended


@pytest.mark.parametrize("executor", ["process", "thread"])
def test_a_worker_suspended_beyond_its_lease_loses_its_steps_and_keeps_working(cluster: Cluster, executor: str) -> None:
    worker = cluster.start(executor=executor, slots=1)
    cluster.add("held", "wait", go="go")
    cluster.until_started("held")
    worker.signal(signal.SIGSTOP)
    cluster.until(lambda: cluster["held"].reason == "rescued")
    assert cluster["held"].lease_worker is None
    another = cluster.app.inline_runner(slots=1)
    (claim,) = cluster.until(lambda: another.claim(1))
    cluster.release("go")  # the first run ends before its worker notices that it was declared dead
    if executor == "process":
        cluster.until(lambda: cluster.entries("ended", "held"))
    worker.signal(signal.SIGCONT)
    cluster.add("meanwhile")
    cluster.until_states(meanwhile="Completed")
    held = cluster["held"]
    assert (str(held.state), held.lease_worker, held.attempts, held.rescues) == ("Running", another.worker.id, 2, 1)
    assert returned(another._finisher, claim, "by another") == "Completed"
    assert cluster["held"].response == "by another"
    another.close()

    worker.signal(signal.SIGSTOP)
    (before,) = _workers(cluster)
    cluster.app.database.transact(lambda tx: workers.delete_worker(tx, id=before))
    worker.signal(signal.SIGCONT)
    cluster.add("next")
    cluster.until_states(next="Completed")
    (after,) = _workers(cluster)
    assert after != before
    assert worker.stop() == 0
    assert "1 run lost its lease" in worker.output


@pytest.mark.parametrize("executor", ["process", "thread", "async"])
def test_a_worker_suspended_with_claims_in_hand_begins_none_that_others_have_ended(
    cluster: Cluster, executor: str
) -> None:
    labels = [f"step {number}" for number in range(4)]
    for label in labels:
        cluster.add(label)
    worker = cluster.start(executor=executor, failpoint=SUSPENDED + "after the claim, before the start")
    cluster.until(lambda: is_suspended(worker.pid), reap=False, tick=False)
    another = cluster.start()
    cluster.until_all()
    before = cluster.runs()
    worker.signal(signal.SIGCONT)
    assert another.stop() == 0
    cluster.add("meanwhile")
    cluster.until_states(meanwhile="Completed")
    assert cluster.runs() - before == {cluster.entries("started", "meanwhile")[0].run: 1}
    assert worker.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
@pytest.mark.parametrize("executor", ["thread", "async"])
def test_a_worker_whose_heartbeat_process_stops_restarts_it_and_loses_nothing(
    cluster: Cluster, executor: str, number: int
) -> None:
    worker = cluster.start(executor=executor, slots=1)
    cluster.add("held", "wait", go="go")
    cluster.until_started("held")
    for _ in range(2):
        (heartbeat_pid,) = worker.descendant_pids()
        os.kill(heartbeat_pid, number)
        cluster.until(lambda old=heartbeat_pid: worker.descendant_pids() - {old} and not is_alive(old))  # type: ignore[misc]
        cluster.until_heartbeats(3)
    cluster.release("go")
    cluster.until_states(held="Completed")
    assert (cluster["held"].rescues, cluster["held"].attempts) == (0, 1)
    assert worker.output.count("restarting it") == 2
    assert worker.stop() == 0


def _idle_worker(cluster: Cluster) -> Worker:
    """A worker whose rounds the test runs."""
    worker = cluster.app.worker(slots=1)
    worker._reconciler.next_at = math.inf
    return worker


def _workers(cluster: Cluster) -> list[Any]:
    return [row["id"] for row in cluster.app.database.read(lambda tx: tx.fetch("SELECT id FROM steps_workers", {}))]


def test_a_claim_that_waited_through_a_long_suspension_is_not_started(cluster: Cluster) -> None:
    worker = _idle_worker(cluster)
    cluster.add("ahead")
    claims = cluster.app.database.transact(lambda tx: worker._exchange._claim(tx, 1))
    worker._in_flight.add_claims(claims, time.monotonic() - 10.0)
    worker.stop()  # only so that it does not claim the step again
    worker.round(())
    assert not cluster.entries("started", "ahead")
    assert ("Pending", "handed_back") in cluster.path("ahead")
    worker.row.unregister()


def test_a_worker_with_unwritten_ends_backs_off_during_an_outage(cluster: Cluster) -> None:
    worker = _idle_worker(cluster)
    cluster.add("ended")
    (claim,) = cluster.app.database.transact(lambda tx: worker._exchange._claim(tx, 1))
    worker._in_flight.add_ending(claim, Ending(verb="finish", response="1"), time.monotonic() - 1.0)
    worker._back_off(DatabaseUnavailable("gone"))
    assert worker._pause() > 0.05
    worker._retry_at, worker._reconciler.next_at = 0.0, math.inf
    worker.round(())
    assert str(cluster["ended"].state) == "Completed"
    worker.row.unregister()
