"""The schema is created once, whole or not at all, and a program that does not fit it refuses to start."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from stepwell import Stepwell
from stepwell.model.clock import SystemClock
from stepwell.model.errors import DatabaseBusy, SchemaError
from stepwell.store import database, open_database
from stepwell.store import migrate as migrating
from stepwell.store.definitions import definitions
from stepwell.store.migrate import Migration, known_migrations, migrate
from stepwell.store.sqlite import connections as sqlite
from stepwell.testing import behave
from tests.conformance.support.engine import in_processes
from tests.conformance.support.ticks import expect_line, process


@contextmanager
def plain(url: str) -> Iterator[Any]:
    """A connection that knows nothing of Stepwell; every statement commits by itself."""
    if url.startswith("postgresql"):
        with psycopg.connect(url, autocommit=True) as connection:
            yield connection
    else:
        with closing(sqlite3.connect(file_of(url), isolation_level=None)) as connection:
            yield connection


def file_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def contents(url: str) -> dict[str, list[str]]:
    """Every table with its rows, and every other thing in the schema by its name."""
    with plain(url) as connection:
        if url.startswith("postgresql"):
            tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
            other = "SELECT relname FROM pg_class WHERE relnamespace = CAST(current_schema() AS regnamespace)"
        else:
            tables = "SELECT name FROM sqlite_master WHERE type = 'table'"
            other = "SELECT name FROM sqlite_master"
        found = {
            table: sorted(map(repr, connection.execute(f"SELECT * FROM {table}").fetchall()))
            for (table,) in connection.execute(tables).fetchall()
        }
        return found | {"": sorted(name for (name,) in connection.execute(other).fetchall())}


def change(url: str, *statements: str) -> None:
    with plain(url) as connection:
        for statement in statements:
            connection.execute(statement)


def create(url: str) -> None:
    Stepwell(url).open().close()


def works(url: str) -> None:
    """A step can be enqueued and run, and the promises hold."""
    with Stepwell(url) as app:
        step = behave(app).enqueue(result=7)
        app.run_until_idle()
        assert app.step(step).response == 7
        assert app.check_invariants() == []


def _open_and_enqueue(url: str) -> int:
    with Stepwell(url) as app:
        return app.enqueue("behave").id


@pytest.mark.slow
def test_eight_processes_that_open_an_empty_database_at_once_all_find_one_whole_schema(
    empty_database_url: str,
) -> None:
    steps = in_processes(_open_and_enqueue, [(empty_database_url,)] * 8)
    assert len(set(steps)) == 8
    with plain(empty_database_url) as connection:
        applied = connection.execute(
            "SELECT version FROM steps_migrations WHERE version > 0 ORDER BY version"
        ).fetchall()
        assert applied == [(version,) for version in range(1, NEWEST + 1)]
        assert connection.execute("SELECT count(*) FROM steps_dispatcher").fetchone() == (10,)
    works(empty_database_url)


IN_THE_SCRIPT = """
from stepwell.store.postgres.connections import PostgresMigrationSession
from stepwell.store.sqlite.connections import SqliteMigrationSession
def stop_half_way(session):
    whole = session.run_script
    def half(self, script):
        whole(self, script[:script.index("CREATE TABLE steps_dispatcher_ticks")])
        say("half")
        wait_for_a_line()
    session.run_script = half
stop_half_way(PostgresMigrationSession)
stop_half_way(SqliteMigrationSession)
Stepwell(url).open()
"""
BEFORE_THE_COMMIT = """
from stepwell.store import migrate
define = migrate._define
def all_but_the_commit(*arguments):
    define(*arguments)
    say("half")
    wait_for_a_line()
migrate._define = all_but_the_commit
Stepwell(url).open()
"""


@pytest.mark.slow
@pytest.mark.parametrize("script", [IN_THE_SCRIPT, BEFORE_THE_COMMIT], ids=["in-the-script", "before-the-commit"])
def test_a_migration_that_is_killed_leaves_nothing_and_the_next_one_completes(
    empty_database_url: str, script: str
) -> None:
    with process(script, empty_database_url) as (child,):
        expect_line(child, "half")
        child.kill()
        child.wait()
    assert contents(empty_database_url) == {"": []}
    works(empty_database_url)


def test_migrating_again_applies_and_changes_nothing(empty_database_url: str) -> None:
    works(empty_database_url)
    before = contents(empty_database_url)
    database = open_database(empty_database_url, SystemClock())
    try:
        assert migrate(database) == []
    finally:
        database.close()
    create(empty_database_url)
    assert contents(empty_database_url) == before


NEWEST = len(known_migrations("sqlite"))
NEWER = [f"INSERT INTO steps_migrations VALUES ({NEWEST + 1}, 'future', 'x')"]
TOO_NEW = f"has version {NEWEST + 1}, this program supports only {NEWEST}; nothing was changed. Update"


@pytest.mark.parametrize("migrate_schema", [False, True], ids=["open", "migrate"])
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(NEWER, TOO_NEW, id="newer"),
        pytest.param(
            ["UPDATE steps_migrations SET checksum = 'x'"], "migration 1 in the database differs", id="checksum"
        ),
        pytest.param(
            ["DROP TABLE step_logs", "DROP TABLE steps_settings"], "step_logs, steps_settings missing", id="table"
        ),
        pytest.param(
            ["DELETE FROM steps_migrations"], "`steps_migrations` is empty: the schema is damaged", id="no-rows"
        ),
        pytest.param(["DROP TABLE steps_migrations"], "but no `steps_migrations`", id="no-table"),
    ],
)
def test_a_schema_that_is_newer_or_damaged_is_refused_and_left_as_it_is(
    empty_database_url: str, damage: list[str], message: str, migrate_schema: bool
) -> None:
    create(empty_database_url)
    change(empty_database_url, *damage)
    before = contents(empty_database_url)
    with pytest.raises(SchemaError, match=message) as refusal:
        Stepwell(empty_database_url, migrate_schema=migrate_schema).open()
    assert "nothing was changed" in str(refusal.value)
    assert contents(empty_database_url) == before


def test_an_older_schema_is_refused_with_the_way_out_until_it_is_migrated(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    works(empty_database_url)
    before = contents(empty_database_url)

    def with_one_more(dialect: str) -> list[Migration]:
        return [*known_migrations(dialect), Migration(NEWEST + 1, "next", "CREATE TABLE steps_next (id integer);\n")]

    with monkeypatch.context() as newer_program:
        newer_program.setattr(migrating, "known_migrations", with_one_more)
        with pytest.raises(
            SchemaError, match=rf"has version {NEWEST}, .* needs version {NEWEST + 1}; nothing was .*`stepwell migrate`"
        ):
            Stepwell(empty_database_url).open()
        assert contents(empty_database_url) == before
        Stepwell(empty_database_url, migrate_schema=True).open().close()
        works(empty_database_url)
    with pytest.raises(SchemaError, match=f"this program supports only {NEWEST}"):
        Stepwell(empty_database_url).open()


@pytest.mark.parametrize("table", ["steps", "steps_settings"])
def test_tables_of_somebody_else_are_refused_by_name_and_not_touched(empty_database_url: str, table: str) -> None:
    change(empty_database_url, f"CREATE TABLE {table} (mine text)", f"INSERT INTO {table} VALUES ('precious')")
    before = contents(empty_database_url)
    sqlite_bytes = None if empty_database_url.startswith("postgresql") else file_of(empty_database_url).read_bytes()
    with pytest.raises(SchemaError, match=f"the database has a table `{table}` but no `steps_migrations`") as refusal:
        Stepwell(empty_database_url).open()
    assert "nothing was changed" in str(refusal.value)
    if sqlite_bytes is not None:
        assert file_of(empty_database_url).read_bytes() == sqlite_bytes
    assert contents(empty_database_url) == before


@pytest.mark.parametrize("text", [b"diary", b"Dear diary,\n" * 1000], ids=["short", "long"])
def test_a_file_that_is_no_database_is_refused_and_left_byte_for_byte(tmp_path: Path, text: bytes) -> None:
    diary = tmp_path / "diary.txt"
    diary.write_bytes(text)
    with pytest.raises(SchemaError, match=r"is not a SQLite database .*it was not changed"):
        Stepwell(f"sqlite:///{diary}").open()
    assert diary.read_bytes() == text
    assert list(tmp_path.iterdir()) == [diary]


def test_a_database_that_somebody_keeps_locked_opens_and_is_called_busy_by_what_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/stepwell.db"
    create(url)
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.02)
    monkeypatch.setattr(database, "CONFLICT_TRIES", 2)
    with plain(url) as other:
        other.execute("BEGIN IMMEDIATE")
        with Stepwell(url) as app, pytest.raises(DatabaseBusy, match="database is locked"):
            app.enqueue("behave")
    works(url)


def test_triggers_and_views_are_created_anew_when_those_of_the_program_have_changed(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    works(empty_database_url)
    newer = definitions(dialect_of(empty_database_url)) + "\nCREATE VIEW steps_next AS SELECT 7 AS n;\n"
    with monkeypatch.context() as newer_program:
        newer_program.setattr(migrating, "definitions", lambda dialect: newer)
        with pytest.raises(SchemaError, match=r"triggers and views .* nothing was changed. Run `stepwell migrate`"):
            Stepwell(empty_database_url).open()
        assert migrate(open_database(empty_database_url, SystemClock())) == []
        works(empty_database_url)
        with plain(empty_database_url) as other:
            assert other.execute("SELECT n FROM steps_next").fetchone() == (7,)
    with pytest.raises(SchemaError, match="triggers and views"):
        Stepwell(empty_database_url).open()


def dialect_of(url: str) -> str:
    return "postgres" if url.startswith("postgresql") else "sqlite"
