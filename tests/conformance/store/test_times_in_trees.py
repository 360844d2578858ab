"""Times along a tree: no clock can put a parent's end before its children's, or a start before its cause."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from time import sleep

import psycopg
import pytest

from stepwell import Stepwell
from stepwell.model.clock import since_boot
from stepwell.run.ending import Ending
from stepwell.store import Transaction
from stepwell.store.engine import schema
from stepwell.store.postgres import connections as postgres
from stepwell.store.postgres.connections import PostgresConnections
from stepwell.testing import ManualClock
from tests.conformance.support.engine import Engine, returned
from tests.conformance.support.ticks import GROUP

AHEAD = 0.01
HOUR = 3600.0


def _at(engine: Engine, label: str, state: str) -> datetime:
    return next(change.at for change in reversed(engine.history(label)) if change.to_state == state)


def _completed_at(engine: Engine, label: str) -> datetime:
    found = engine.app.step(engine.refs[label]).completed_at
    assert found is not None
    return found


def _work(engine: Engine, worker: Stepwell, *labels: str) -> None:
    """Claim and finish these steps in the process of a worker; the dispatcher is that of the engine."""
    runner = worker.inline_runner()
    for label in labels:
        worker.clock.sleep(AHEAD)  # each ends later than the one before, by this clock alone
        engine.tick()
        claims = {claim.step.label: claim for claim in runner.claim(10)}
        for name, claim in claims.items():
            returned(runner._finisher, claim, name)
        assert label in claims
    runner.close()
    engine.tick()


@pytest.fixture
def processes(shared_database_url: str) -> Iterator[tuple[Engine, Stepwell]]:
    """A dispatcher, and a worker whose clock is ahead."""
    clock, ahead = ManualClock(), ManualClock()
    ahead.advance(AHEAD)
    with ExitStack() as stack:
        engine = Engine(stack.enter_context(Stepwell(shared_database_url, clock=clock)), clock)
        worker = stack.enter_context(Stepwell(shared_database_url, clock=ahead))
        Engine(worker, ahead)
        yield engine, worker
        assert engine.app.check_invariants() == []


def test_a_parent_does_not_complete_before_its_children_by_a_clock_that_is_behind(
    processes: tuple[Engine, Stepwell],
) -> None:
    engine, worker = processes
    engine.plant("root(first, second)", group=GROUP)
    _work(engine, worker, "root", "first")
    assert engine.states() == {"root": "Completed", "first": "Completed", "second": "Completed"}
    for label in ("first", "second"):
        assert _at(engine, label, "Completed") <= _at(engine, "root", "Completed")
        assert _completed_at(engine, label) <= _completed_at(engine, "root")


def test_a_parent_does_not_fail_before_its_children_by_a_clock_that_is_behind(
    processes: tuple[Engine, Stepwell],
) -> None:
    engine, worker = processes
    engine.plant("root(bad)", group=GROUP)
    _work(engine, worker, "root")
    worker.clock.sleep(AHEAD)
    runner = worker.inline_runner()
    engine.tick()
    (claim,) = runner.claim(1)
    runner._finisher.write(claim, Ending(verb="fail", reason="error", error="broken"))
    engine.tick()
    runner.close()
    assert engine.state("root") == "Failed"
    assert _at(engine, "bad", "Failed") <= _at(engine, "root", "Failed")
    assert _completed_at(engine, "bad") <= _completed_at(engine, "root")


def _misread(app: Stepwell, seconds: float) -> None:
    app.database.now()
    connections = app.database.connections
    assert isinstance(connections, PostgresConnections)
    assert connections._reading is not None
    time, elapsed = connections._reading
    connections._reading = time + timedelta(seconds=seconds), elapsed
    connections._next_reading = math.inf


@pytest.fixture
def server_clocks(postgres_url: str) -> Iterator[tuple[Engine, Stepwell]]:
    """The same with the clock of the server, which two processes have read with different delays."""
    with ExitStack() as stack:
        engine = Engine(stack.enter_context(Stepwell(postgres_url)), ManualClock())
        worker = stack.enter_context(Stepwell(postgres_url))
        Engine(worker, ManualClock())
        _misread(engine.app, -HOUR)
        _misread(worker, HOUR)
        yield engine, worker
        assert engine.app.check_invariants() == []


def test_the_server_decides_the_time_of_every_transition_on_postgres(server_clocks: tuple[Engine, Stepwell]) -> None:
    engine, worker = server_clocks
    now = engine.sql("SELECT clock_timestamp() AS now")[0]["now"]
    engine.plant("root(first > second), source, sink<source", group=GROUP)
    runner = worker.inline_runner()
    _misread(engine.app, 2 * HOUR)  # or the worker would not count as alive
    for _ in range(6):
        engine.tick()
        for claim in runner.claim(10):
            returned(runner._finisher, claim, None)
    runner.close()
    assert set(engine.states().values()) == {"Completed"}
    later = engine.sql("SELECT clock_timestamp() AS now")[0]["now"]
    for label in engine.refs:
        for change in engine.history(label)[1:]:
            assert now <= change.at <= later
    assert _at(engine, "first", "Completed") <= _at(engine, "second", "Running") <= _at(engine, "root", "Completed")
    assert max(_completed_at(engine, label) for label in ("first", "second")) <= _completed_at(engine, "root")
    assert _at(engine, "source", "Completed") <= _at(engine, "sink", "Running")


def test_a_process_that_was_suspended_while_it_read_the_clock_is_not_behind_for_long(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For half a minute it stayed behind by as much as it was suspended: its heartbeats looked old, and so it did."""
    answer, behind = schema.database_time, [0.3]

    def suspended(tx: Transaction) -> datetime:
        time = answer(tx)
        sleep(behind.pop() if behind else 0)
        return time

    monkeypatch.setattr(schema, "database_time", suspended)
    monkeypatch.setattr(postgres, "CLOCK_RETRY_SECONDS", 0.0)
    with Stepwell(postgres_url) as app, psycopg.connect(postgres_url) as server:
        app.database.now()
        for _ in range(100):  # the machine may be so busy that a reading takes long again
            app.groups()
            if not behind and app.database.connections._next_reading > since_boot():  # type: ignore[attr-defined]
                break
        row = server.execute("SELECT clock_timestamp()").fetchone()
        assert row is not None
        assert row[0] - app.database.now() < timedelta(seconds=0.2)


@pytest.mark.one_database  # on PostgreSQL the clock of the server decides
def test_a_clock_that_was_set_back_does_not_put_a_start_before_its_cause_on_sqlite(engine: Engine) -> None:
    engine.plant("root(first > second, !unused), source, sink<source, chain > next", group=GROUP)
    for _ in range(30):
        engine.app.run_until_idle(slots=1, max_rounds=10_000)
        engine.clock.adjust(-HOUR)
    assert engine.app.check_invariants() == []


def test_a_child_is_not_created_before_its_parent_began(processes: tuple[Engine, Stepwell]) -> None:
    engine, worker = processes
    engine.plant("root", group=GROUP)
    runner = worker.inline_runner()
    engine.tick()
    (claim,) = runner.claim(1)
    engine.add("child", parent=engine["root"])
    returned(runner._finisher, claim, None)
    runner.close()
    assert engine.history("child")[0].at >= _at(engine, "root", "Running")


@pytest.mark.parametrize("joined_later", [False, True])
def test_a_start_before_its_cause_is_found_although_the_block_was_made_in_that_microsecond(
    lawless_app: Stepwell, clock: ManualClock, joined_later: bool
) -> None:
    """The manual clock stands still: creation and start have one time, and only their numbers tell them apart."""
    engine = Engine(lawless_app, clock)
    engine.plant("first > second")
    engine.settle()
    first, second = engine.refs["first"].id, engine.refs["second"].id
    later = engine.clock.now() + timedelta(seconds=1)
    engine.change(
        f"UPDATE step_transitions SET at = '{later:%Y-%m-%d %H:%M:%S.%f}{'' if _is_sqlite(engine) else '+00'}' "
        f"WHERE step_id = {first} AND to_state = 'Completed'"
    )
    if joined_later:  # its history is written again, with higher numbers: the second was alone when it began
        engine.change(f"UPDATE step_transitions SET step_id = -1 WHERE step_id = {first} AND from_state IS NULL")
        (newest,) = engine.sql("SELECT max(id) AS id FROM step_transitions")
        engine.change(
            "INSERT INTO step_transitions (step_id, to_state, at, attempt) SELECT "
            f"{first}, 'Pending', at, 0 FROM step_transitions WHERE step_id = -1"
        )
        engine.change(f"DELETE FROM step_transitions WHERE step_id = {first} AND id <= {newest['id']}")
        engine.change(
            "INSERT INTO step_transitions (step_id, from_state, to_state, at, attempt) VALUES "
            f"({first}, 'Running', 'Completed', '{later:%Y-%m-%d %H:%M:%S.%f}{'' if _is_sqlite(engine) else '+00'}', 1)"
        )
    found = [str(violation) for violation in engine.app.check_invariants()]
    assert any("before the index before its own" in line and str(second) in line for line in found) is not joined_later


def _is_sqlite(engine: Engine) -> bool:
    return engine.app.database.dialect == "sqlite"
