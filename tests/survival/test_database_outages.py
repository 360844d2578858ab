"""Database outages, and commits whose response is lost: nothing is lost and nothing is done twice."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwell import Stepwell
from tests.survival.outages import CREATES_ONE_STEP, LossyProxy, OwnServer
from tests.survival.support import Cluster

CLAIM = b"attempts = attempts + 1"
END = b"own_code_done_at = "
COMPUTE = b"compute_done_at = coalesce(compute_done_at"


@pytest.fixture
def crashing(tmp_path: Path) -> Iterator[tuple[Cluster, OwnServer]]:
    with OwnServer() as server:
        cluster = Cluster(server.url, tmp_path)
        try:
            yield cluster, server
            cluster.check()
        finally:
            cluster.close()


@pytest.fixture
def lossy(postgres_url: str, tmp_path: Path) -> Iterator[tuple[Cluster, LossyProxy]]:
    """A cluster whose workers go through a proxy; the test itself does not."""
    proxy = LossyProxy(postgres_url)
    cluster = Cluster(postgres_url, tmp_path)
    try:
        yield cluster, proxy
        cluster.check()
    finally:
        cluster.close()
        proxy.close()


@pytest.mark.postgres
def test_a_worker_survives_crashes_of_the_server_and_loses_no_run(crashing: tuple[Cluster, OwnServer]) -> None:
    cluster, server = crashing
    worker = cluster.start("up", slots=3, lease=30)
    cluster.add("ends meanwhile", "wait", go="first")
    cluster.add("goes on", "wait", go="second")
    cluster.until_started("ends meanwhile")
    cluster.until_started("goes on")
    for label in ("first", "third"):
        cluster.add(f"waits for the {label}", "sleep", seconds=0.1)
    server.crash()
    cluster.release("first")
    while not cluster.entries("ended", "ends meanwhile"):  # there is no database to tick with
        assert worker.process.poll() is None
    server.start()
    cluster.until_states(**{"ends meanwhile": "Completed"})
    server.crash()
    server.start()
    cluster.release("second")
    cluster.add("after all")
    cluster.until_all()
    assert {label: cluster[label].rescues for label in cluster.refs} == dict.fromkeys(cluster.refs, 0)
    assert len(cluster.entries("started", "ends meanwhile")) == len(cluster.entries("started", "goes on")) == 1
    assert worker.stop() == 0


@pytest.mark.parametrize("executor", ["process", "thread"])
def test_a_commit_whose_response_is_lost_is_neither_lost_nor_done_twice(
    lossy: tuple[Cluster, LossyProxy], executor: str
) -> None:
    cluster, proxy = lossy
    worker = cluster.start(executor=executor, url=proxy.url, lease=10)
    cluster.add("first")
    cluster.until_all()
    for when in ("before", "after"):
        for words, name in ((CLAIM, "claim"), (END, "end")):
            label = f"{name} dropped {when}"
            proxy.lose(words, when)
            cluster.add(label)
            cluster.until_states(**{label: "Completed"})
            assert proxy.has_dropped, label
            step = cluster[label]
            assert (step.attempts, step.rescues) == (1, 0), label
            assert len(cluster.entries("started", label)) == 1, label
            handed_back = ("Pending", "handed_back") in cluster.path(label)
            assert handed_back == (label == "claim dropped after")
        label = f"compute dropped {when}"
        proxy.lose(COMPUTE, when)
        cluster.add(label, action="three_stages")
        cluster.until_states(**{label: "Completed"})
        assert proxy.has_dropped, label
        computed = len(cluster.entries("computed", label))
        # A thread cannot repeat the write: its run is handed back, and resumes at the stage that the database recorded.
        assert computed == (2 if (executor, when) == ("thread", "before") else 1)
        children = [step for step in cluster.app.steps(limit=500) if step.label == f"child of {label}"]
        assert [str(child.state) for child in children] == ["Completed"]
    assert worker.process.poll() is None


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("action", ["declared", "unknown"])  # one statement, or a transaction with two
def test_an_enqueue_whose_response_is_lost_creates_one_step(postgres_url: str, action: str, when: str) -> None:
    proxy = LossyProxy(postgres_url)
    try:
        with Stepwell(proxy.url) as app:
            app.job(name="declared")(lambda: None)
            app.enqueue(action, label="first")
            proxy.lose(CREATES_ONE_STEP, when)
            ref = app.enqueue(action, label="second")
            assert proxy.has_dropped
            assert [step.id for step in app.steps(limit=10) if step.label == "second"] == [ref.id]
            assert app.step(ref).uuid == ref.uuid
            assert app.check_invariants() == []
            assert app.sweep() == []
    finally:
        proxy.close()


def test_a_worker_whose_connections_drop_at_random_commits_does_all_of_its_work_once(
    lossy: tuple[Cluster, LossyProxy],
) -> None:
    cluster, proxy = lossy
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    cluster.start(url=proxy.url, lease=30)
    cluster.add("first")
    cluster.until_all()
    proxy.lose_at_random(seed, times=6)
    for number in range(20):
        cluster.add(f"step {number}", "sleep", seconds=0.02)
    for number in range(4):
        cluster.add(f"staged {number}", action="three_stages")
    cluster.until_all()
    assert proxy.drops
    assert {label: len(cluster.entries("ended", f"step {label}")) for label in range(20)} == dict.fromkeys(range(20), 1)
    assert [len(cluster.entries("computed", f"staged {number}")) for number in range(4)] == [1] * 4


@pytest.mark.sqlite
def test_a_sqlite_file_that_another_program_keeps_locked_only_delays_the_worker(
    tmp_path: Path,
) -> None:
    cluster = Cluster(f"sqlite:///{tmp_path}/stepwell.db", tmp_path)
    try:
        worker = cluster.start()
        cluster.add("running", "wait", go="go")
        cluster.until_started("running")
        other = sqlite3.connect(tmp_path / "stepwell.db", isolation_level=None, timeout=30)
        other.execute("BEGIN IMMEDIATE")
        cluster.release("go")
        cluster.until(lambda: cluster.entries("ended", "running"), reap=False, tick=False)
        lease = cluster.app.database.read(lambda tx: tx.fetch("SELECT alive_until FROM steps_workers", {}))[0][
            "alive_until"
        ]
        cluster.until(lambda: cluster.app.database.now() > lease, reap=False, tick=False)  # no heartbeat gets through
        other.execute("COMMIT")
        other.close()
        cluster.until(lambda: str(cluster["running"].state) == "Completed", reap=False)
        assert cluster["running"].rescues == 0
        cluster.add("next")
        cluster.until_all()
        assert worker.stop() == 0
        cluster.check()
    finally:
        cluster.close()
