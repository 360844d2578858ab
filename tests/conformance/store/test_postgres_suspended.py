"""PostgreSQL: a process that is suspended inside a transaction loses its locks, and repeats it when it continues."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from stepwell import Stepwell
from stepwell.events import GroupStalled
from stepwell.model.errors import DatabaseBusy
from stepwell.store import Transaction, database
from stepwell.store.engine import creation, reading
from stepwell.store.postgres import bounds
from stepwell.testing import ManualClock, behave
from tests.conformance.support.ticks import expect_line, process, wait_for_exit

GIVE_UP_SECONDS = 60.0  # for what takes a second

_STOPS = """
def stop_once(module, name):
    original = getattr(module, name)
    def stopping(*args, **kwargs):
        result = original(*args, **kwargs)
        setattr(module, name, original)
        say("inside")
        os.kill(os.getpid(), signal.SIGSTOP)
        return result
    setattr(module, name, stopping)
"""

_IN_A_CLAIM = (
    _STOPS
    + """
from stepwell.store.engine import claims
with Stepwell(url) as app:
    behave(app)
    app.database.lease_seconds = float(sys.argv[2])
    runner = app.inline_runner()
    app.dispatch_once()
    stop_once(claims, "pick_for_claim")
    say(len(runner.claim(5)))
"""
)

_IN_AN_EXCHANGE = (
    _STOPS
    + """
from stepwell.run.ending import Ending
from stepwell.store.engine import claims
with Stepwell(url) as app:
    behave(app)
    app.limits.set("total", maximum=10)
    app.database.lease_seconds = float(sys.argv[2])
    runner = app.inline_runner()
    app.dispatch_once()
    (claim,) = runner.claim(1)
    app.enqueue("behave")
    stop_once(claims, "pick_for_claim")
    runner._finisher.write_all_and([(claim, Ending(verb="finish"))], lambda tx: runner._claimer.claim(tx, 1))
"""
)

_IN_A_DECISION_ABOUT_A_KEY = (
    _STOPS
    + """
from stepwell.store.engine import keys
with Stepwell(url) as app:
    behave(app)
    app.database.lease_seconds = float(sys.argv[2])
    stop_once(keys, "delete_key_marks")
    app.dispatch_once()
    say("done")
"""
)


_IN_A_MIGRATION = (
    _STOPS
    + """
from stepwell.store import migrate
stop_once(migrate, "_apply")
app = Stepwell(url)
app.database.lease_seconds = float(sys.argv[2])
with app.open():
    say("done")
"""
)


@contextmanager
def stopped(script: str, url: str, lease: float = 1.0) -> Iterator[subprocess.Popen[str]]:
    """A process that has suspended itself inside a transaction. If the test hangs, it is killed, and the test fails."""
    with process(script, url, str(lease)) as (child,):
        expect_line(child, "inside")
        os.waitpid(child.pid, os.WUNTRACED)
        give_up = threading.Timer(GIVE_UP_SECONDS, child.kill)
        give_up.start()
        try:
            yield child
            assert give_up.is_alive(), "its locks were held until it was killed"
        finally:
            give_up.cancel()


def test_a_worker_suspended_in_a_claim_under_limits_does_not_stop_the_others(postgres_url: str) -> None:
    with Stepwell(postgres_url) as app:
        behave(app)
        app.limits.set("total", maximum=10)
        step = app.enqueue("behave")
        with stopped(_IN_A_CLAIM, postgres_url) as child:
            assert app.run_until_idle() == 1
            assert app.step(step).state == "Completed"
            os.kill(child.pid, signal.SIGCONT)
            assert wait_for_exit(child).strip() == "0"  # its transaction was repeated, and found nothing left
        assert app.check_invariants() == []


def test_a_dispatcher_suspended_while_it_decides_a_key_does_not_stop_the_others(postgres_url: str) -> None:
    with Stepwell(postgres_url) as app:
        behave(app)
        step = app.enqueue("behave", concurrency_key="k", concurrency_limit=1)
        with stopped(_IN_A_DECISION_ABOUT_A_KEY, postgres_url) as child:
            assert app.run_until_idle() == 1
            assert app.step(step).state == "Completed"
            os.kill(child.pid, signal.SIGCONT)
            assert wait_for_exit(child).strip() == "done"


def test_a_process_suspended_while_it_creates_the_schema_does_not_stop_the_others(postgres_url: str) -> None:
    """It held the lock of migrations: no other process could start."""
    url = f"{postgres_url}&schema=suspended"
    with stopped(_IN_A_MIGRATION, url) as child, Stepwell(url) as app:
        app.enqueue("behave")
        os.kill(child.pid, signal.SIGCONT)
        assert wait_for_exit(child).strip() == "done"  # it was repeated, and found the schema


def test_a_group_that_waits_behind_a_suspended_worker_is_reported(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while the reaper itself waits: here for the step that the suspended worker runs."""
    monkeypatch.setattr(database, "CONFLICT_SECONDS", 0.1)
    with Stepwell(postgres_url) as writer:
        behave(writer)
        writer.enqueue("behave")
    alarms: list[GroupStalled] = []
    clock = ManualClock(datetime.now(UTC) + timedelta(hours=1))  # the lease of the suspended worker has expired
    with stopped(_IN_AN_EXCHANGE, postgres_url, lease=3_600), Stepwell(postgres_url, clock=clock) as app:
        behave(app)
        app.events.on(GroupStalled)(alarms.append)
        app.database.idle_seconds = 0.1
        runner, reaper = app.inline_runner(), app.reaper()
        for _ in range(2):
            with pytest.raises(DatabaseBusy):
                reaper.round()
            clock.advance(61)
            runner.worker.heartbeat()
        assert len(alarms) == 1


@pytest.mark.parametrize("arrives", ["with the next statement", "between two statements"])
def test_a_transaction_that_the_server_ended_for_idling_is_repeated(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, arrives: str
) -> None:
    """However long it was suspended (that was not spent waiting for others), and whenever it reads why."""
    monkeypatch.setattr(database, "CONFLICT_SECONDS", 0.01)
    with Stepwell(postgres_url) as app, psycopg.connect(postgres_url, autocommit=True) as server:
        app.database.idle_seconds = 0.05
        tries = []

        def work(tx: Transaction) -> None:
            tries.append(creation.ensure_group(tx, group="once"))
            if len(tries) < 3:
                (pid,) = tx.fetch("SELECT pg_backend_pid() AS pid", {})
                while server.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %(pid)s", pid).fetchone():
                    pass
                if arrives == "between two statements":
                    tx._connection.pgconn.consume_input()  # type: ignore[attr-defined]
                    tx._connection.pgconn.is_busy()  # type: ignore[attr-defined]
                tx.fetch("SELECT 1", {})
            app.database.idle_seconds = None

        app.database.transact(work)
        assert tries == [1, 1, 1]
        assert [row.group for row in app.groups()].count("once") == 1


def test_a_transaction_waits_for_a_lock_no_longer_than_its_bound(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "CONFLICT_SECONDS", 0.0)
    with Stepwell(postgres_url) as app, psycopg.connect(postgres_url) as other:
        app.groups()
        other.execute("LOCK TABLE steps_dispatcher")
        app.database.idle_seconds = 0.02
        with pytest.raises(DatabaseBusy, match="lock timeout"):
            app.groups()


def test_the_bounds_follow_the_shortest_lease_of_the_process_and_end_with_the_transaction(postgres_url: str) -> None:
    def bound(tx: Transaction) -> str:
        names = ("idle_in_transaction_session_timeout", "lock_timeout")
        (row,) = tx.fetch("SELECT " + ", ".join(f"current_setting('{name}') AS {name}" for name in names), {})
        return " ".join(row.values())

    with Stepwell(postgres_url) as app:
        assert app.database.read(bound) == "10s 15s"
        app.dispatcher(lock_seconds=12.0)
        assert app.database.read(bound) == "4s 6s"
        behave(app)
        app.worker(slots=1, alive_seconds=6.0).row.unregister()
        assert app.database.transact(bound) == "2s 3s"
        assert app.database.transact(bound, single=True) == "0 0"  # on the same session, outside of a transaction
        app.database.idle_seconds = 7.0
        assert app.database.read(bound) == "7s 10500ms"


def test_a_url_can_set_its_own_options_of_the_socket() -> None:
    options = bounds.socket_options("postgresql://host/name?tcp_user_timeout=5&keepalives_idle=6", 12.0)
    assert options == {"keepalives_interval": 3, "keepalives_count": 3}
    assert set(options) < set(bounds.socket_options("postgresql://host/name", 12.0))
    assert conninfo_to_dict("", **bounds.socket_options("", 12.0))["tcp_user_timeout"] == 12000


def test_reads_are_bounded_too(postgres_url: str) -> None:
    with Stepwell(postgres_url) as app:
        app.database.idle_seconds = 0.02
        with psycopg.connect(postgres_url, autocommit=True) as server:

            def work(tx: Transaction) -> int:
                (pid,) = tx.fetch("SELECT pg_backend_pid() AS pid", {})
                app.database.idle_seconds = None
                if not pids:
                    pids.append(pid)
                    while server.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %(pid)s", pid).fetchone():
                        pass
                return len(reading.all_groups(tx))

            pids: list[object] = []
            assert app.database.read(work) == 10
