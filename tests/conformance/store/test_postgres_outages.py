"""PostgreSQL: cut connections and deadlocks never leave a wrong state, and the dispatcher goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from stepwell import NewStep, Stepwell
from stepwell.dispatch import dispatcher_part
from stepwell.model.errors import DatabaseUnavailable
from stepwell.service import retry_delay
from stepwell.service.crew import Crew
from stepwell.store import Transaction
from stepwell.store.engine import creation, ticks
from stepwell.store.postgres import connections as postgres
from stepwell.testing import ManualClock, behave

WAIT_SECONDS = 60.0  # for what takes milliseconds on a quiet machine


class Server:
    """The server's side of one app's connections."""

    def __init__(self, url: str, connection: psycopg.Connection[Any]) -> None:
        self.name = f"cut-{uuid4().hex[:12]}"
        self.url = f"{url}&application_name={self.name}"
        self.connection = connection

    def sessions(self, state: str = "%") -> int:
        row = self.connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
            " AND coalesce(wait_event_type, '') LIKE %s",
            (self.name, state),
        ).fetchone()
        assert row is not None
        return int(row[0])

    def cut(self) -> int:
        """End every session of the app; returns how many there were."""
        ended = self.connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s", (self.name,)
        ).fetchall()
        return len(ended)

    def count(self, table: str = "steps") -> int:
        row = self.connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()
        assert row is not None
        return int(row[0])


def until(condition: Callable[[], Any]) -> None:
    give_up = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < give_up, "waited in vain"


@pytest.fixture
def server(postgres_url: str) -> Iterator[Server]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield Server(postgres_url, connection)


@pytest.fixture
def database_url(server: Server) -> str:
    return server.url


@contextmanager
def in_thread(work: Callable[[], Any]) -> Iterator[list[BaseException]]:
    """Something that goes on meanwhile; the list has its error when it is over."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield errors
    finally:
        thread.join(WAIT_SECONDS)
        assert not thread.is_alive()


def test_an_operation_after_its_idle_connections_were_cut_just_works(app: Stepwell, server: Server) -> None:
    behave(app)
    step = app.enqueue("behave", {"result": 1})
    for use in (lambda: app.step(step), lambda: app.enqueue("behave"), app.run_until_idle):
        assert server.cut() >= 1
        use()
    assert [str(step.state) for step in app.steps()] == ["Completed", "Completed"]


def test_a_transaction_that_is_cut_writes_nothing_and_says_that_the_database_is_unavailable(
    app: Stepwell, server: Server
) -> None:
    def work(tx: Transaction) -> None:
        assert creation.ensure_group(tx, group="halfway") == 1
        server.cut()
        creation.ensure_group(tx, group="never")

    with pytest.raises(DatabaseUnavailable, match="PostgreSQL is unavailable"):
        app.database.transact(work)
    assert {"halfway", "never"}.isdisjoint(row.group for row in app.groups())


def test_a_cut_just_before_the_commit_is_not_taken_for_a_success(app: Stepwell, server: Server) -> None:
    def work(tx: Transaction) -> None:
        creation.ensure_group(tx, group="halfway")
        server.cut()

    with pytest.raises(DatabaseUnavailable, match="may or may not have succeeded"):
        app.database.transact(work)
    assert "halfway" not in {row.group for row in app.groups()}


def test_a_bulk_enqueue_that_is_cut_while_it_waits_leaves_nothing(
    app: Stepwell, server: Server, postgres_url: str
) -> None:
    drafts = [NewStep(action="behave") for _ in range(100)]
    with psycopg.connect(postgres_url) as other:
        other.execute("LOCK TABLE steps_agenda IN SHARE MODE")
        with in_thread(lambda: app.enqueue_many(drafts)) as errors:
            until(lambda: server.sessions("Lock") == 1)
            server.cut()
    assert [type(error) for error in errors] == [DatabaseUnavailable]
    assert (server.count("steps"), server.count("step_transitions")) == (0, 0)
    assert len(app.enqueue_many(drafts)) == 100
    assert server.count("steps_agenda") == 100


@pytest.mark.slow
def test_the_dispatcher_goes_on_when_its_connections_are_cut_again_and_again(
    app: Stepwell, server: Server, postgres_url: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry_delay, "FAILURE_SECONDS", (0.001, 0.01))
    monkeypatch.setattr(dispatcher_part, "IDLE_SECONDS", 0.001)
    crew = Crew(app.parts.of_dispatcher(app.dispatcher()))
    with Stepwell(postgres_url, clock=clock) as worker, in_thread(crew.run) as errors:
        try:
            behave(worker)
            runner = worker.inline_runner()
            steps = [worker.enqueue("behave", {"spawn": [{}, {"index": 2}]}) for _ in range(3)]
            cuts = 0

            def all_done() -> bool:
                nonlocal cuts
                if cuts < 8:
                    cuts += server.cut()
                if runner.round() == 0:
                    clock.advance(10)  # past the deadline of a lock whose tick could not release it
                return {str(worker.step(step).state) for step in steps} == {"Completed"}

            until(all_done)
            runner.close()
        finally:
            crew.stop()
    assert errors == []
    assert cuts >= 8
    assert server.count() == 9
    assert app.check_invariants() == []


def test_two_transactions_in_a_deadlock_both_succeed(app: Stepwell, server: Server) -> None:
    met = threading.Barrier(2, timeout=WAIT_SECONDS)
    tries: list[str] = []

    def work(first: str, second: str) -> None:
        waits = iter([met.wait])  # only the first time: the one that is run again would wait for ever

        def both(tx: Transaction) -> None:
            tries.append(first)
            tx.fetch("SELECT set_config('deadlock_timeout', '20ms', true)", {})
            ticks.record_selection(tx, group=first, now=app.clock.now())
            next(waits, lambda: None)()
            creation.ensure_group(tx, group=f"{first} was here")
            ticks.record_selection(tx, group=second, now=app.clock.now())

        app.database.transact(both)

    with in_thread(lambda: work("alpha", "beta")) as errors:
        work("beta", "alpha")
    assert errors == []
    assert len(tries) >= 3
    groups = [row.group for row in app.groups()]
    assert (groups.count("alpha was here"), groups.count("beta was here")) == (1, 1)


def test_an_error_in_a_transaction_rolls_all_of_it_back(app: Stepwell) -> None:
    def work(tx: Transaction) -> None:
        creation.ensure_group(tx, group="halfway")
        raise KeyError("not a database error")

    with pytest.raises(KeyError):
        app.database.transact(work)
    assert "halfway" not in {row.group for row in app.groups()}


def test_the_sweep_works_when_its_transaction_also_has_to_read_the_clock(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "CLOCK_READING_SECONDS", -1.0)
    with Stepwell(postgres_url) as app:
        app.enqueue("behave")
        assert app.sweep() == []
