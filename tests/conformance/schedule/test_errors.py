"""Rule 8: errors are isolated per schedule, and the scheduler never stops."""

from __future__ import annotations

import logging
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from stepwell import Stepwell
from stepwell.model.errors import DatabaseUnavailable
from stepwell.schedule.errors import ConnectionPoolExhaustedError, TransactionError
from stepwell.schedule.options import Options
from stepwell.service.crew import Crew
from stepwell.testing import ManualClock
from tests.conformance.schedule.support import at, create, fired, outcomes, plain_sql, tick


def test_the_defaults_are_those_of_the_cron_dispatcher() -> None:
    options = Options()
    assert (options.poll_interval_seconds, options.max_sleep_seconds, options.min_cron_interval_seconds) == (
        60,
        300,
        60,
    )
    assert options.grace.total_seconds() == 120


def test_a_job_that_cannot_be_created_is_logged_and_tried_again_in_the_next_cycle(
    app: Stepwell, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    broken = [True]

    def key(**_: object) -> str:
        if broken[0]:
            raise LookupError("no such customer")
        return "k"

    @app.job(concurrency_key=lambda: key())
    def report() -> None: ...

    @app.job()
    def fine() -> None: ...

    broken[0] = False
    create(app)
    create(app, name="fine", handler="fine")
    broken[0] = True
    scheduler = app.schedules.scheduler()
    clock.move_to(at(0, 5))
    with caplog.at_level(logging.ERROR):
        done = scheduler.round()
    assert (done.fired, done.failed) == (1, 1)
    assert "JobCreationError" in caplog.text
    assert "no such customer" in caplog.text
    assert fired(app, "fine") == [at(0, 5)]
    assert scheduler.round().failed == 0  # not before the next cycle
    broken[0] = False
    clock.advance(61)
    assert scheduler.round().fired == 1
    assert fired(app) == [at(0, 5)]
    assert app.schedules.check_ledger() == []


def _refuse_executions_of(app: Stepwell, cron_id: int) -> None:
    """A constraint of the database that one schedule violates."""
    if app.database.dialect == "sqlite":
        plain_sql(
            app,
            f"CREATE TRIGGER refuses BEFORE INSERT ON job_executions WHEN NEW.job_id = {cron_id} "
            "BEGIN SELECT RAISE(ABORT, 'not this one'); END",
        )
    else:
        plain_sql(app, f"ALTER TABLE job_executions ADD CONSTRAINT refuses CHECK (job_id <> {cron_id})")


def _allow_executions(app: Stepwell) -> None:
    is_sqlite = app.database.dialect == "sqlite"
    plain_sql(app, "DROP TRIGGER refuses" if is_sqlite else "ALTER TABLE job_executions DROP CONSTRAINT refuses")


def test_a_statement_that_fails_for_one_schedule_leaves_out_that_schedule_only(
    reports: Stepwell, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(5):
        create(reports, name=f"s{number}")
    _refuse_executions_of(reports, 3)
    scheduler = reports.schedules.scheduler()
    clock.move_to(at(0, 5))
    with caplog.at_level(logging.ERROR):
        done = scheduler.round()
    assert (done.fired, done.failed) == (4, 1)
    assert "QueryExecutionError" in caplog.text
    assert "schedule 's2' failed; retrying in 60 s" in caplog.text
    assert fired(reports, "s2") == []
    clock.advance(61)
    assert scheduler.round().failed == 1
    _allow_executions(reports)
    clock.advance(61)
    assert scheduler.round().fired == 1
    assert fired(reports, "s2") == [at(0, 5)]
    assert reports.schedules.check_ledger() == []


def test_an_expression_that_went_bad_disables_its_schedule_with_the_reason(
    reports: Stepwell, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    create(reports)
    create(reports, name="good")
    # What schedulers go by, as if a zone had been removed from the time zone database.
    plain_sql(reports, "UPDATE cron_jobs SET recorded = replace(recorded, 'UTC', 'Mars/Base') WHERE name = 's'")
    with caplog.at_level(logging.ERROR):
        assert tick(reports, clock, at(0, 5)) == 1
    bad = reports.schedules.get("s")
    assert (bad.definition.enabled, bad.disabled_by) == (False, "scheduler")
    assert "Mars/Base" in (bad.disabled_reason or "")
    assert fired(reports, "good") == [at(0, 5)]


def test_a_workflow_schedule_waits_for_a_scheduler_that_has_the_code(
    shared_database_url: str,
) -> None:
    clock = ManualClock(at(0))
    with Stepwell(shared_database_url, clock=clock) as coded:

        @coded.job()
        def report() -> None: ...

        coded.workflows("shop").workflow("daily").step(name="report")(report)
        create(coded, handler="shop.daily", target="workflow")
        clock.move_to(at(0, 5))
        with Stepwell(shared_database_url, clock=clock) as bare:
            scheduler = bare.schedules.scheduler()
            assert scheduler.round().fired == 0
            assert scheduler.round().pause == 1.0
        assert coded.schedules.run_once() == 1
        assert outcomes(coded) == [(at(0, 5), at(0, 5), "fired", None)]


def test_a_database_that_was_away_is_used_again_and_nothing_is_lost(
    reports: Stepwell, clock: ManualClock, database_url: str
) -> None:
    create(reports)
    scheduler = reports.schedules.scheduler()
    clock.move_to(at(0, 5))
    if reports.database.dialect == "sqlite":
        away = True

        def fail(moment: str, _: object) -> None:
            if away:
                raise DatabaseUnavailable("disk I/O error")

        reports.database.watch = fail
        with pytest.raises(DatabaseUnavailable):
            scheduler.round()
        away = False
        reports.database.watch = None
    else:
        with psycopg.connect(reports.database.url, autocommit=True) as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
    clock.advance(60)
    assert scheduler.round().fired == 1
    assert fired(reports) == [at(0, 5)]
    assert reports.schedules.check_ledger() == []


@pytest.mark.postgres
def test_a_lock_that_one_schedule_waits_for_in_vain_leaves_out_that_schedule_only(
    postgres_url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepwell.store.database.CONFLICT_TRIES", 1)
    clock = ManualClock(at(0))
    with Stepwell(postgres_url, clock=clock) as app, psycopg.connect(postgres_url) as other:

        @app.job()
        def report() -> None: ...

        for number in range(3):
            create(app, name=f"s{number}")
        app.database.idle_seconds = 0.2  # and so the time for which a statement waits for a lock
        plain_sql(
            app,
            "CREATE FUNCTION waits() RETURNS trigger LANGUAGE plpgsql AS "
            "'BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NEW; END'",
        )
        plain_sql(
            app,
            "CREATE TRIGGER waits BEFORE INSERT ON job_executions FOR EACH ROW WHEN (NEW.job_id = 2) "
            "EXECUTE FUNCTION waits()",
        )
        other.execute("SELECT pg_advisory_xact_lock(7)")
        scheduler = app.schedules.scheduler()
        clock.move_to(at(0, 5))
        with caplog.at_level(logging.ERROR):
            done = scheduler.round()
        assert (done.fired, done.failed) == (2, 1)
        assert "schedule 's1' failed; retrying in 60 s: TransactionError" in caplog.text
        other.rollback()
        clock.advance(61)
        assert scheduler.round().fired == 1
        assert fired(app, "s1") == [at(0, 5)]
        assert app.schedules.check_ledger() == []


def test_a_database_that_another_program_has_locked_is_a_transaction_error_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepwell.store.sqlite.connections.BUSY_SECONDS", 0.05)
    monkeypatch.setattr("stepwell.store.database.CONFLICT_TRIES", 1)
    clock = ManualClock(at(0))
    with Stepwell(f"sqlite:///{tmp_path}/shop.db", clock=clock) as app:

        @app.job()
        def report() -> None: ...

        create(app)
        scheduler = app.schedules.scheduler()
        clock.move_to(at(0, 5))
        with closing(sqlite3.connect(tmp_path / "shop.db")) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(TransactionError, match="locked"):
                scheduler.round()
            other.rollback()
        assert scheduler.round().fired == 1


@pytest.mark.postgres
def test_a_pool_without_a_free_connection_is_waited_for_and_nothing_is_lost(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepwell.store.postgres.connections.CONNECT_TIMEOUT", 0.2)
    monkeypatch.setattr("stepwell.store.postgres.connections.MAX_CONNECTIONS", 1)
    clock = ManualClock(at(0))
    with Stepwell(postgres_url, clock=clock) as app, ThreadPoolExecutor(1) as pool:

        @app.job()
        def report() -> None: ...

        create(app)
        scheduler = app.schedules.scheduler()
        clock.move_to(at(0, 5))
        with pytest.raises(ConnectionPoolExhaustedError, match="were in use"):
            app.database.read(lambda _: pool.submit(scheduler.round).result())
        assert scheduler.round().fired == 1


def test_the_part_goes_on_after_a_round_that_failed(shared_database_url: str) -> None:
    with Stepwell(shared_database_url) as app:
        part = app.parts.scheduler()
        rounds: list[int] = []
        whole = part.round

        def failing(wakes: object) -> float:
            rounds.append(1)
            if len(rounds) == 1:
                raise DatabaseUnavailable("away")
            crew.stop()
            return whole(wakes)  # type: ignore[arg-type]

        part.round = failing  # type: ignore[method-assign]
        with Crew([part]) as crew:
            crew.run()
        assert len(rounds) >= 2
