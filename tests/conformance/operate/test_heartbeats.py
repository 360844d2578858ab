"""Heartbeats and clocks: what the reaper believes."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest

from stepwell import Stepwell
from stepwell.dispatch import lock as group_lock
from stepwell.dispatch.lock import LOCK_SECONDS
from stepwell.model.leases import LEASE_SECONDS
from stepwell.operate.reaper import ROUND_SECONDS
from stepwell.operate.reaper_part import HEARTBEAT_GRACE_LEASES, ReaperPart
from stepwell.run.worker_row import WorkerRow
from stepwell.store.sqlite.path import path_of
from stepwell.testing import ManualClock
from tests.conformance.support.engine import Engine
from tests.conformance.support.ticks import GROUP

HOUR = 3600.0


def _row(app: Stepwell, alive_seconds: float = LEASE_SECONDS) -> WorkerRow:
    return WorkerRow(app.database, ("default",), {"behave"}, 1, alive_seconds)


# A heartbeat that had to wait -------------------------------------------------------------------------------------


@contextmanager
def _blocking_writes(url: str) -> Iterator[None]:
    """A transaction of somebody else that a heartbeat has to wait for."""
    if (path := path_of(url)) is not None and url.startswith("sqlite"):
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("COMMIT")
    else:
        with psycopg.connect(url) as other:
            other.execute("SELECT id FROM steps_workers FOR UPDATE")
            yield


def _until_it_waits(app: Stepwell, begun: threading.Event) -> None:
    assert begun.wait(60)
    if app.database.dialect == "postgres":
        with psycopg.connect(app.database.url, autocommit=True) as connection:
            sql = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            while connection.execute(sql).fetchone() is None:
                pass


def test_a_heartbeat_that_waited_for_another_writer_has_the_time_at_which_it_was_written(
    shared_database_url: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Stepwell(shared_database_url, clock=clock) as app:
        row = _row(app)
        begun, transaction = threading.Event(), app.database.connections.transaction

        def beginning(*arguments: Any, **options: Any) -> Any:
            begun.set()
            return transaction(*arguments, **options)

        monkeypatch.setattr(app.database.connections, "transaction", beginning)
        with _blocking_writes(shared_database_url):
            thread = threading.Thread(target=row.heartbeat)
            thread.start()
            _until_it_waits(app, begun)
            clock.advance(LEASE_SECONDS)
        thread.join()
        (worker,) = app.workers()
        assert worker.heartbeat_at == clock.now()


# A reaper that was away -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leases", [(2.0,), (600.0,), (2.0, 600.0), ()])
def test_after_an_absence_the_reaper_waits_half_of_the_longest_configured_lease(
    app: Stepwell, clock: ManualClock, leases: tuple[float, ...]
) -> None:
    for seconds in leases:
        _row(app, seconds)
    part = ReaperPart(app.reaper(), app.database)
    part.round(())
    clock.advance(HOUR)
    assert part.round(()) == HEARTBEAT_GRACE_LEASES * max(leases, default=LEASE_SECONDS)


# A clock that was set back ----------------------------------------------------------------------------------------


def _reap_for(engine: Engine, seconds: float, *beating: WorkerRow) -> None:
    """Run a reaper's rounds, and the heartbeats of these workers."""
    reaper = engine.app.reaper()
    for _ in range(1 + int(seconds / ROUND_SECONDS)):
        for worker in beating:
            worker.heartbeat()
        reaper.round()
        engine.clock.advance(ROUND_SECONDS)


def test_a_clock_that_was_set_back_delays_a_rescue_by_no_more_than_a_lease(engine: Engine) -> None:
    engine.plant("step", group=GROUP)
    with engine.worker() as runner:
        engine.claim(runner, "step")
        engine.clock.adjust(-HOUR)
        _reap_for(engine, LEASE_SECONDS - 2 * ROUND_SECONDS)
        assert engine.state("step") == "Running"
        _reap_for(engine, LEASE_SECONDS + ROUND_SECONDS)
        assert (engine.state("step"), engine["step"].reason) == ("Pending", "rescued")


def test_a_live_worker_keeps_its_steps_when_the_clock_is_set_back(engine: Engine) -> None:
    engine.plant("step", group=GROUP)
    with engine.worker() as runner:
        engine.claim(runner, "step")
        reaper = engine.app.reaper()
        reaper.round()
        engine.clock.adjust(-HOUR)
        reaper.round()  # before the next heartbeat
        _reap_for(engine, 3 * LEASE_SECONDS, runner.worker)
        assert (engine.state("step"), engine["step"].rescues) == ("Running", 0)


def test_a_clock_that_was_set_back_does_not_keep_the_lock_of_a_dead_dispatcher(engine: Engine) -> None:
    assert group_lock.acquire(engine.app.database, GROUP, "dead") is not None
    engine.clock.adjust(-HOUR)
    assert group_lock.acquire(engine.app.database, GROUP, "alive") is not None


def test_a_clock_that_is_a_little_behind_takes_no_lock_of_a_live_dispatcher(engine: Engine) -> None:
    assert group_lock.acquire(engine.app.database, GROUP, "alive") is not None
    engine.clock.adjust(-LOCK_SECONDS / 2)
    assert group_lock.acquire(engine.app.database, GROUP, "behind") is None
