"""SQLite while a suspended process holds one of its locks: whatever waits names the process and says what to do."""

from __future__ import annotations

import json
import logging
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from stepwell.model.errors import DatabaseBusy
from stepwell.store import database
from stepwell.store.sqlite import checkpoints, connections
from stepwell.store.sqlite.checkpoints import CHECKPOINT_PAGES
from stepwell.store.sqlite.path import path_of
from stepwell.store.sqlite.wal import is_longer_than, log_of
from stepwell.web.health import health
from tests.survival.failpoints import SUSPENDED
from tests.survival.jobs import PATIENCE
from tests.survival.support import ROOT, Cluster, is_suspended

pytestmark = [pytest.mark.sqlite, pytest.mark.parametrize("shared_database_url", ["sqlite-file"], indirect=True)]

_PROGRAM = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN")
connection.execute(sys.argv[2]).fetchall()
os.kill(os.getpid(), signal.SIGSTOP)
connection.execute("ROLLBACK")
"""
WRITES = "UPDATE steps_settings SET value = value"
READS = "SELECT count(*) FROM steps"


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for the lock for longer than a moment."""
    monkeypatch.setattr(connections, "BUSY_SECONDS", 0.05)
    monkeypatch.setattr(checkpoints, "BUSY_SECONDS", 0.05)
    monkeypatch.setattr(checkpoints, "SUSPENDED_READER_SECONDS", 0.0)
    monkeypatch.setattr(database, "CONFLICT_SECONDS", 0.05)
    monkeypatch.setenv(PATIENCE, "0.2")


@contextmanager
def suspended(cluster: Cluster, sql: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that was suspended in a transaction; at the end it continues."""
    process = subprocess.Popen([sys.executable, "-c", _PROGRAM, str(path_of(cluster.url)), sql])
    try:
        cluster.until(lambda: is_suspended(process.pid), reap=False, tick=False)
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.wait()


def doctor(cluster: Cluster) -> tuple[int, str, dict[str, object]]:
    """Its exit code, its text, and its JSON."""
    command = [sys.executable, "-m", "stepwell.cli", "doctor", "--db", cluster.url]
    text, as_json = (
        subprocess.run([*command, *more], cwd=ROOT, capture_output=True, text=True, check=False)
        for more in ([], ["--json"])
    )
    return text.returncode, " ".join(text.stdout.split()), json.loads(as_json.stdout)


def test_whatever_waits_for_a_suspended_writer_names_it_and_says_how_to_end_that(cluster: Cluster) -> None:
    waiting = cluster.add("waiting")
    with suspended(cluster, WRITES) as process:
        named = f"process {process.pid} (python"
        to_do = f"continue it with `kill -CONT {process.pid}`, or end it with `kill -9 {process.pid}`"

        with pytest.raises(DatabaseBusy) as refused:
            cluster.add("refused")
        assert named.capitalize() in str(refused.value)
        assert to_do in str(refused.value)

        (check,) = [check for check in health(cluster.app).checks if check.name == "database"]
        assert check.verdict == "red"
        assert named in check.message

        explanation = cluster.app.explain(waiting)
        assert named in explanation.summary
        assert explanation.obstacles[0].condition == "database"

        code, text, found = doctor(cluster)
        assert code == 1
        assert named in text
        assert to_do in text
        assert found["healthy"] is False
        assert isinstance(found["suspended_writer"], dict)
        assert found["suspended_writer"]["pid"] == process.pid

    assert not [check for check in health(cluster.app).checks if check.name == "database"]
    assert cluster.app.explain(waiting).obstacles[0].condition != "database"
    assert doctor(cluster)[2]["suspended_writer"] is None
    cluster.app.cancel(waiting, who="test")


def test_the_alarm_of_a_group_without_progress_names_the_suspended_writer(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    watching = cluster.app.reaper(stalled_seconds=0.0)
    worker = cluster.app.worker(slots=1)
    step = cluster.add("ready")
    with suspended(cluster, WRITES) as process, caplog.at_level(logging.ERROR, "stepwell.reaper"):
        watching.round()
        (alarm,) = caplog.messages
    assert f"step {step.id} has been ready" in alarm
    assert f"process {process.pid} (python" in alarm
    worker.row.unregister()
    cluster.app.cancel(step, who="test")


def test_a_worker_that_is_suspended_in_a_claim_is_named_by_the_others_and_continues(cluster: Cluster) -> None:
    cluster.add("claimed")
    claiming = cluster.start(failpoint=f"{SUSPENDED}before the claim is committed")
    cluster.until(lambda: is_suspended(claiming.pid), reap=False, tick=False)
    holder = cluster.app.database.suspended_writer()
    assert holder is not None
    assert holder.pid == claiming.pid
    assert "stepwell.cli worker" in holder.command
    another = cluster.start("up")
    cluster.until(lambda: f"rocess {claiming.pid} (" in another.output, reap=False, tick=False)
    assert "is stopped and holds the write lock" in another.output
    claiming.signal(signal.SIGCONT)
    cluster.until_all()
    assert claiming.stop() == 0


def test_a_writer_that_runs_is_named_without_the_advice_to_end_it(cluster: Cluster) -> None:
    with closing(sqlite3.connect(str(path_of(cluster.url)), isolation_level=None)) as own:
        assert cluster.app.database.lock_holder() is None
        own.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseBusy, match=r"This process itself holds the write lock of .*; if it is your own"):
            cluster.app.enqueue("act")
        assert cluster.app.database.suspended_writer() is None
        own.execute("ROLLBACK")


def test_no_checkpoint_waits_for_a_suspended_reader(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """It would hold the write lock meanwhile: for ten seconds of every seventy, nobody could write."""
    path = path_of(cluster.url)
    assert path is not None
    cluster.app.enqueue("act")
    statements: list[str] = []
    with suspended(cluster, READS) as process, caplog.at_level(logging.WARNING, "stepwell.sqlite"):
        cluster.app.database.connections.writer().set_trace_callback(statements.append)  # type: ignore[attr-defined]
        while not is_longer_than(CHECKPOINT_PAGES, log_of(path)):
            cluster.app.enqueue("act")
        cluster.app.enqueue("act")
        assert not [sql for sql in statements if "wal_checkpoint" in sql]
        (warning,) = caplog.messages
        assert f"process {process.pid} (python" in warning
        assert "is stopped and holds a read lock of" in warning
    cluster.app.enqueue("act")
    cluster.app.enqueue("act")
    assert not is_longer_than(CHECKPOINT_PAGES, log_of(path))
