"""A database that goes away, or whose answer to a commit is lost: nothing lost, nothing done twice (SPEC 6, 11)."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwell import Stepwell
from tests.survival.outages import LossyProxy, OwnServer
from tests.survival.support import Well

CLAIM = b"attempts = attempts + 1"
END = b"own_code_done_at = "
COMPUTE = b"compute_done_at = coalesce(compute_done_at"


@pytest.fixture
def crashing(tmp_path: Path) -> Iterator[tuple[Well, OwnServer]]:
    with OwnServer() as server:
        well = Well(server.url, tmp_path)
        try:
            yield well, server
            well.check()
        finally:
            well.close()


@pytest.fixture
def lossy(postgres_url: str, tmp_path: Path) -> Iterator[tuple[Well, LossyProxy]]:
    """A well whose workers go through a proxy; the test itself does not."""
    proxy = LossyProxy(postgres_url)
    well = Well(postgres_url, tmp_path)
    try:
        yield well, proxy
        well.check()
    finally:
        well.close()
        proxy.close()


@pytest.mark.postgres
def test_a_worker_lives_through_crashes_of_the_server_and_loses_no_run(crashing: tuple[Well, OwnServer]) -> None:
    well, server = crashing
    worker = well.start("up", slots=3, lease=30)
    well.add("ends meanwhile", "wait", go="first")
    well.add("goes on", "wait", go="second")
    well.until_began("ends meanwhile")
    well.until_began("goes on")
    for label in ("first", "third"):
        well.add(f"waits for the {label}", "nap", seconds=0.1)
    server.crash()
    well.say("first")
    while not well.entries("ended", "ends meanwhile"):  # there is no database to tick with
        assert worker.process.poll() is None
    server.start()
    well.until_states(**{"ends meanwhile": "Completed"})
    server.crash()
    server.start()
    well.say("second")
    well.add("after all")
    well.until_all()
    assert {label: well[label].rescues for label in well.refs} == dict.fromkeys(well.refs, 0)
    assert len(well.entries("began", "ends meanwhile")) == len(well.entries("began", "goes on")) == 1
    assert worker.stop() == 0


@pytest.mark.parametrize("executor", ["process", "thread"])
def test_a_commit_whose_answer_is_lost_is_neither_lost_nor_done_twice(
    lossy: tuple[Well, LossyProxy], executor: str
) -> None:
    well, proxy = lossy
    worker = well.start(executor=executor, url=proxy.url, lease=10)
    well.add("first")
    well.until_all()
    for when in ("before", "after"):
        for words, name in ((CLAIM, "claim"), (END, "end")):
            label = f"{name} cut {when}"
            proxy.lose(words, when)
            well.add(label)
            well.until_states(**{label: "Completed"})
            assert proxy.has_cut, label
            step = well[label]
            assert (step.attempts, step.rescues) == (1, 0), label
            assert len(well.entries("began", label)) == 1, label
            handed_back = ("Pending", "handed_back") in well.path(label)
            assert handed_back == (label == "claim cut after")
        label = f"compute cut {when}"
        proxy.lose(COMPUTE, when)
        well.add(label, action="three_stages")
        well.until_states(**{label: "Completed"})
        assert proxy.has_cut, label
        computed = len(well.entries("computed", label))
        # A thread has no way to ask again: its run is handed back and begins where the database says it had come to.
        assert computed == (2 if (executor, when) == ("thread", "before") else 1)
        children = [step for step in well.app.steps(limit=500) if step.label == f"child of {label}"]
        assert [str(child.state) for child in children] == ["Completed"]
    assert worker.process.poll() is None


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_enqueue_whose_answer_is_lost_creates_one_step(postgres_url: str, when: str) -> None:
    proxy = LossyProxy(postgres_url)
    try:
        with Stepwell(proxy.url) as app:
            app.enqueue("work", label="first")
            proxy.lose(b"WITH rotation AS", when)
            ref = app.enqueue("work", label="second")
            assert proxy.has_cut
            assert [step.id for step in app.steps(limit=10) if step.label == "second"] == [ref.id]
            assert app.step(ref).uuid == ref.uuid
            assert app.check_invariants() == []
            assert app.sweep() == []
    finally:
        proxy.close()


def test_a_worker_whose_commits_are_cut_at_random_does_all_of_its_work_once(lossy: tuple[Well, LossyProxy]) -> None:
    well, proxy = lossy
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    well.start(url=proxy.url, lease=30)
    well.add("first")
    well.until_all()
    proxy.lose_at_random(seed, times=6)
    for number in range(20):
        well.add(f"step {number}", "nap", seconds=0.02)
    for number in range(4):
        well.add(f"staged {number}", action="three_stages")
    well.until_all()
    assert proxy.cuts
    assert {label: len(well.entries("ended", f"step {label}")) for label in range(20)} == dict.fromkeys(range(20), 1)
    assert [len(well.entries("computed", f"staged {number}")) for number in range(4)] == [1] * 4


@pytest.mark.sqlite
def test_a_sqlite_file_that_another_program_keeps_locked_holds_the_worker_up_and_nothing_more(
    tmp_path: Path,
) -> None:
    well = Well(f"sqlite:///{tmp_path}/stepwell.db", tmp_path)
    try:
        worker = well.start()
        well.add("running", "wait", go="go")
        well.until_began("running")
        other = sqlite3.connect(tmp_path / "stepwell.db", isolation_level=None, timeout=30)
        other.execute("BEGIN IMMEDIATE")
        well.say("go")
        well.until(lambda: well.entries("ended", "running"), reap=False, tick=False)
        lease = well.app.database.read(lambda tx: tx.fetch("SELECT alive_until FROM workers", {}))[0]["alive_until"]
        well.until(lambda: well.app.database.now() > lease, reap=False, tick=False)  # no heartbeat gets through
        other.execute("COMMIT")
        other.close()
        well.until(lambda: str(well["running"].state) == "Completed", reap=False)
        assert well["running"].rescues == 0
        well.add("next")
        well.until_all()
        assert worker.stop() == 0
        well.check()
    finally:
        well.close()
