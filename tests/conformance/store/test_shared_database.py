"""The database is the application's, too: names do not collide, and a file is private."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from stepwell import Stepwell
from stepwell.testing import behave

TABLES = (
    "settings", "workers", "workflows", "jobs", "migrations", "queues", "actions", "groups", "limits", "logs",
    "schedules", "transitions", "agenda", "marks", "dispatcher", "readiness", "worker_lanes",
)  # fmt: skip


def execute(url: str, *commands: str) -> None:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
            for command in commands:
                file.execute(command)
            file.commit()
    else:
        with psycopg.connect(url) as connection:
            for command in commands:
                connection.execute(command.encode())


def test_an_application_with_tables_of_common_names_shares_its_database(empty_database_url: str) -> None:
    execute(empty_database_url, *(f"CREATE TABLE {name} (id integer, mine text)" for name in TABLES))
    execute(empty_database_url, *(f"INSERT INTO {name} VALUES (1, 'kept')" for name in TABLES))
    with Stepwell(empty_database_url, migrate_schema=True) as app:
        step = behave(app).enqueue(result=1)
        app.run_until_idle()
        assert app.step(step).response == 1
        assert app.check_invariants() == []
        for name in TABLES:
            rows = app.database.read(lambda tx, name=name: tx.fetch(f"SELECT * FROM {name}", {}))  # type: ignore[misc]
            assert rows == [{"id": 1, "mine": "kept"}]


def test_everything_that_a_migration_creates_has_a_name_of_ours(empty_database_url: str) -> None:
    Stepwell(empty_database_url, migrate_schema=True).open().close()
    if empty_database_url.startswith("sqlite"):
        with closing(sqlite3.connect(empty_database_url.removeprefix("sqlite:///"))) as file:
            found = {name for (name,) in file.execute("SELECT name FROM sqlite_master")}
        found = {name for name in found if not name.startswith("sqlite_")}
    else:
        with psycopg.connect(empty_database_url) as connection:
            found = {
                name
                for (name,) in connection.execute(
                    "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace "
                    "UNION SELECT proname FROM pg_proc WHERE pronamespace = current_schema()::regnamespace "
                    "UNION SELECT tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
                    "WHERE NOT tgisinternal AND relnamespace = current_schema()::regnamespace"
                )
            }
    assert len(found) > 40
    # These two tables, and what belongs to them, have the names that people know them by.
    ours = ("step_", "steps", "cron_jobs", "job_executions")
    assert [name for name in sorted(found) if not name.startswith(ours)] == []


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    return {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in folder.iterdir()}


@pytest.mark.usefixtures("no_umask")
def test_a_new_file_belongs_to_its_owner_alone_and_so_do_its_log_and_index(tmp_path: Path) -> None:
    with Stepwell(f"sqlite:///{tmp_path}/work.db") as app:
        app.enqueue("anything")
        assert modes(tmp_path) == dict.fromkeys(("work.db", "work.db-wal", "work.db-shm"), "0o600")


@pytest.mark.usefixtures("no_umask")
def test_an_existing_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "work.db"
    sqlite3.connect(path).close()
    path.touch()
    path.chmod(0o640)
    with Stepwell(f"sqlite:///{path}") as app:
        app.enqueue("anything")
        assert set(modes(tmp_path).values()) == {"0o640"}
