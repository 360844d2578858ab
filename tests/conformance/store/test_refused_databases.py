"""A database that cannot be used is refused at once, with the reason and what to do about it."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import psycopg.sql
import pytest

from stepwell import Stepwell
from stepwell.model.errors import DatabaseUnavailable, StepwellError
from stepwell.store.postgres import connections as postgres
from tests.unit.cli.support import run

OPENS = """
import os, sys
from stepwell import Stepwell
from stepwell.model.errors import DatabaseUnavailable
with Stepwell("sqlite://") as app:
    app.enqueue("behave")  # everything is imported before the rights to read it are given up
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    Stepwell(sys.argv[1]).enqueue("behave")
except DatabaseUnavailable as error:
    print(error)
"""


def opened_by_another_user(path: Path) -> str:
    """What a user without special rights reads: root may write everywhere."""
    command = [sys.executable, "-c", OPENS, f"sqlite:///{path}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """A database in a directory that every user can reach."""
    for directory in [tmp_path, *tmp_path.parents]:
        if directory.stat().st_uid == os.geteuid() and directory.stat().st_mode & 0o005 != 0o005:
            directory.chmod(0o755)
    path = tmp_path / "steps.db"
    with Stepwell(f"sqlite:///{path}"):
        pass
    yield path
    tmp_path.chmod(0o755)


def test_a_read_only_sqlite_file_is_named_as_the_reason(file: Path) -> None:
    file.chmod(0o444)
    file.parent.chmod(0o777)
    assert "may not write the file or its directory" in opened_by_another_user(file)


def test_a_read_only_directory_is_named_as_the_reason(file: Path) -> None:
    file.chmod(0o666)
    file.parent.chmod(0o555)
    assert "SQLite creates files beside the database" in opened_by_another_user(file)


def test_a_directory_in_which_no_file_can_be_created_is_named_as_the_reason(file: Path) -> None:
    file.parent.chmod(0o555)
    assert f"the directory {file.parent} is read-only for user" in opened_by_another_user(file.with_name("new.db"))


def test_a_directory_that_does_not_exist_and_one_in_place_of_the_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailable, match="none does not exist: create it"):
        Stepwell(f"sqlite:///{tmp_path}/none/steps.db").open()
    with pytest.raises(DatabaseUnavailable, match="is a directory: name a file in it"):
        Stepwell(f"sqlite:///{tmp_path}").open()


def refusal(url: str) -> str:
    with pytest.raises(DatabaseUnavailable) as caught:
        Stepwell(url).enqueue("behave")
    assert "\n" not in str(caught.value)
    (line,) = run(url, "enqueue", "behave", code=1).stderr.splitlines()
    assert line == f"stepwell: {caught.value}"
    return str(caught.value)


def with_(url: str, **parts: str) -> str:
    return urlsplit(url)._replace(**parts).geturl()


@pytest.mark.parametrize("url", ["postgresql://ann:s3]cret@db/jobs", "postgresql://ann:s3cret@[::1/jobs"])
def test_a_bracket_without_the_other_is_a_malformed_url(url: str) -> None:
    """It was a ValueError, which commands show with a traceback."""
    with pytest.raises(StepwellError, match="the database URL is malformed") as caught:
        Stepwell(url)
    assert "cret" not in "".join(traceback.format_exception(caught.value.with_traceback(None)))


def test_a_server_that_is_away_is_named_at_once() -> None:
    message = refusal("postgresql://nobody@127.0.0.1:1/nowhere")
    assert message.startswith("PostgreSQL cannot be reached (connection failed: ")
    assert "Connection refused" in message
    assert "couldn't get a connection" not in message


def test_an_unknown_database_is_named_at_once(postgres_url: str) -> None:
    message = refusal(with_(postgres_url, path="/no_such_database"))
    assert message.startswith("PostgreSQL has no such database (")
    assert "create it (createdb) or correct the name" in message


def test_an_unknown_user_is_named_at_once(postgres_url: str) -> None:
    message = refusal(f"{postgres_url}{'&' if '?' in postgres_url else '?'}user=no_such_user")
    assert "no_such_user" in message
    assert message.startswith(("PostgreSQL refused the connection (", "PostgreSQL refused the login ("))


@pytest.fixture
def login(postgres_url: str) -> Iterator[str]:
    """A role that the server asks for its password; all others stay as they are."""
    role = f"login_{os.getpid()}"
    with psycopg.connect(postgres_url, autocommit=True) as server:
        (rules,) = server.execute("SELECT pg_read_file(current_setting('hba_file'))").fetchone() or ("",)
        asks = "".join(f"{kind} all {role} {where} scram-sha-256\n" for kind, where in (("local", ""), ("host", "all")))
        server.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'right/pass'".encode())
        _write_rules(server, asks + rules)
        try:
            yield role
        finally:
            _write_rules(server, rules)
            server.execute(f"DROP ROLE {role}".encode())


def _write_rules(server: psycopg.Connection[Any], rules: str) -> None:
    (path,) = server.execute("SELECT current_setting('hba_file')").fetchone() or ("",)
    lines = psycopg.sql.Literal([line for line in rules.splitlines() if line])
    statement = psycopg.sql.SQL("COPY (SELECT unnest({}::text[])) TO {} (DELIMITER E'\\x01')")
    server.execute(statement.format(lines, psycopg.sql.Literal(path)))
    server.execute("SELECT pg_reload_conf()")


@pytest.mark.parametrize("password", ["wrong%2Fpass", ""])
def test_a_wrong_password_is_named_at_once_and_not_shown(postgres_url: str, login: str, password: str) -> None:
    def with_login(password: str) -> str:
        parts = urlsplit(postgres_url)
        host = parts.netloc.rpartition("@")[2]
        return parts._replace(netloc=f"{login}:{password}@{host}" if password else f"{login}@{host}").geturl()

    with psycopg.connect(with_login("right%2Fpass")):
        pass  # the server asks, and takes the right one
    message = refusal(with_login(password))
    assert message.startswith("PostgreSQL refused the login (")
    assert message.endswith("check user and password in the URL")
    assert "wrong" not in message


def test_a_read_only_server_is_named_at_once(postgres_url: str) -> None:
    with Stepwell(postgres_url) as app, psycopg.connect(postgres_url, autocommit=True) as server:
        app.enqueue("behave")
        name = server.info.dbname
        server.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on'.encode())
    message = refusal(postgres_url)
    assert message.startswith("PostgreSQL is read-only: it is a standby, or default_transaction_read_only is on.")
    with Stepwell(postgres_url) as app:
        assert len(app.steps()) == 1  # it can still be read


@pytest.mark.parametrize(
    ("grant", "message"),
    [
        ("", "PostgreSQL has no schema that its user may use: "),
        ("GRANT USAGE ON SCHEMA {schema} TO {role}", "PostgreSQL denies its user the rights that Stepwell needs. "),
    ],
)
def test_missing_rights_are_named_at_once(postgres_url: str, grant: str, message: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as server:
        ((schema,),) = server.execute("SELECT current_schema()").fetchall()
        role = f"visitor_{server.info.backend_pid}"
        server.execute(f"CREATE ROLE {role} LOGIN".encode())
        try:
            server.execute(f"REVOKE ALL ON SCHEMA {schema} FROM PUBLIC".encode())
            server.execute(grant.format(schema=schema, role=role).encode())
            refused = refusal(f"{postgres_url}{'&' if '?' in postgres_url else '?'}user={role}")
        finally:
            server.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())
    assert refused.startswith(message)


def test_a_pool_that_waits_in_vain_gives_the_reason(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "CONNECT_TIMEOUT", 0.3)
    with Stepwell(postgres_url) as app:
        app.database.connections._pool.conninfo = "postgresql://nobody@127.0.0.1:1/nowhere"  # type: ignore[attr-defined]
        app.database.connections._pool.drain()  # type: ignore[attr-defined]
        with pytest.raises(DatabaseUnavailable, match=r"cannot be reached .*Connection refused"):
            app.steps()
