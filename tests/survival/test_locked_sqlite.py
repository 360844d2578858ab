"""SQLite while another program holds its write lock: nobody healthy is declared dead, and workers still end in time."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta

import pytest

from stepwell.store.sqlite.path import path_of
from tests.survival.jobs import PATIENCE
from tests.survival.support import LEASE_SECONDS, WAIT_SECONDS, Cluster

pytestmark = [pytest.mark.sqlite, pytest.mark.parametrize("shared_database_url", ["sqlite-file"], indirect=True)]


@contextmanager
def locked(cluster: Cluster) -> Iterator[None]:
    with closing(sqlite3.connect(str(path_of(cluster.url)), isolation_level=None, timeout=WAIT_SECONDS)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("COMMIT")


@pytest.mark.parametrize("executor", ["process", "thread"])
def test_a_lock_that_outlasts_the_lease_costs_no_healthy_worker_its_steps(cluster: Cluster, executor: str) -> None:
    cluster.start(executor=executor, slots=1)
    cluster.add("held", "wait", go="go")
    cluster.until_started("held")
    for _ in range(3):
        with locked(cluster):
            cluster.until(lambda: _has_lapsed(cluster, LEASE_SECONDS), reap=False, tick=False)
            reaper = threading.Thread(target=cluster.reaper.round)
            reaper.start()
        reaper.join()
        cluster.until(lambda: not _has_lapsed(cluster), reap=False, tick=False)
    assert (str(cluster["held"].state), cluster["held"].attempts) == ("Running", 1)
    cluster.release("go")
    cluster.until_states(held="Completed")


def _has_lapsed(cluster: Cluster, seconds: float = 0.0) -> bool:
    """Whether the worker has counted as dead for this long."""
    (worker,) = cluster.app.workers()
    return bool(worker.alive_until <= cluster.app.database.now() - timedelta(seconds=seconds))


@pytest.mark.parametrize("executor", ["process", "thread"])
def test_the_processes_of_a_worker_end_with_its_grace_period_although_nobody_can_write(
    cluster: Cluster, executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would wait for the lock for hours: only the end of the grace period ends that."""
    monkeypatch.setenv(PATIENCE, "10000")
    worker = cluster.start("up", executor=executor, slots=2, options=["--grace", "1"])
    cluster.add("running", "wait", go="never")
    cluster.until_started("running")
    cluster.add("ends", "wait", go="go")
    cluster.until_started("ends")
    pids = set(worker.descendant_pids())
    with locked(cluster):
        cluster.release("go")  # its end cannot be written
        cluster.until(lambda: cluster.entries("ended", "ends"), reap=False, tick=False)
        assert worker.stop() == 0, worker.output
        cluster.until_gone(pids)
    cluster.release("never")
    cluster.start()
    cluster.until_all()
