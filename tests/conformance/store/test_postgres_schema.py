"""`?schema=jobs`: the tables are in a schema of their own, whatever the search path of a connection is."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import count
from pkgutil import iter_modules

import psycopg
import pytest

import stepwell.store.engine
from stepwell import Stepwell, StepwellError
from stepwell.model.errors import SchemaError
from stepwell.store import Listener
from stepwell.store.migrate import migrate
from stepwell.store.postgres.namespace import Namespace, split_url
from stepwell.store.postgres.servers import reason_to_refuse
from stepwell.store.statement import statements
from stepwell.testing import behave
from tests.conformance.support.engine import in_processes

RESERVED = "order"  # a keyword of SQL


@pytest.fixture
def plain_url(postgres_url: str) -> str:
    """A database whose sessions have the usual search path."""
    return postgres_url.split("?")[0] if "host=" not in postgres_url else re.sub(r"&?options=[^&]*", "", postgres_url)


def with_schema(url: str, schema: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}schema={schema}"


@pytest.fixture(params=["work", RESERVED, "a" * 63])
def own_url(request: pytest.FixtureRequest, plain_url: str) -> str:
    return with_schema(plain_url, request.param)


@pytest.fixture
def own(own_url: str) -> Iterator[Stepwell]:
    with Stepwell(own_url) as app:
        behave(app)
        yield app


def test_the_schema_is_created_and_everything_in_it(own: Stepwell, plain_url: str) -> None:
    step = own.enqueue("behave", {"result": 7}, key="once", concurrency_key="k", delay=0)
    own.enqueue_many(own.jobs["behave"].draft() for _ in range(20))
    assert own.run_until_idle() == 21
    assert own.step(step).response == 7
    assert own.check_invariants() == []
    assert own.sweep() == []
    with psycopg.connect(plain_url) as connection:
        found = connection.execute(
            "SELECT DISTINCT table_schema FROM information_schema.tables WHERE table_name = 'steps'"
        ).fetchall()
    assert sorted(found) == sorted([("jobs",), (split_url(own.database.url)[1].schema,)])


def test_a_step_in_the_callers_transaction_leaves_its_search_path_alone(own: Stepwell, plain_url: str) -> None:
    with psycopg.connect(plain_url) as connection:
        connection.execute("CREATE SCHEMA shop")
        connection.execute("SET search_path TO shop, public")
        connection.execute("CREATE TABLE steps (mine text)")
        step = own.enqueue("behave", {"result": 1}, connection=connection, key="a", concurrency_key="k")
        own.enqueue_many([own.jobs["behave"].draft(), own.jobs["behave"].draft()], connection=connection)
        assert connection.execute("SHOW search_path").fetchone() == ("shop, public",)
        assert connection.execute("SELECT count(*) FROM steps").fetchone() == (0,)
    own.run_until_idle()
    assert own.step(step).response == 1


def test_plain_sql_fires_the_triggers_whatever_its_search_path_is(own: Stepwell, plain_url: str) -> None:
    (schema,) = [split_url(own.database.url)[1].schema]
    with psycopg.connect(plain_url) as connection:
        connection.execute("SET search_path TO public")
        connection.execute(f"""INSERT INTO "{schema}".steps (action) VALUES ('behave'), ('behave')""".encode())
        connection.commit()
        own.dispatch_once()
        (first, second) = own.steps()
        change = f"""UPDATE "{schema}".steps SET state = %s, actor = 'operator:ann', updated_at = now() WHERE id = %s"""
        connection.execute(change.encode(), ("Cancelled", first.id))
        connection.commit()
        with pytest.raises(psycopg.DatabaseError, match="illegal transition"):
            connection.execute(change.encode(), ("Dispatched", first.id))
        connection.rollback()
    own.run_until_idle()
    assert [str(own.step(step).state) for step in (first, second)] == ["Cancelled", "Completed"]
    assert str(own.history(first)[-1].to_state) == "Cancelled"


def test_the_triggers_of_a_schema_in_the_search_path_do_not_depend_on_it(postgres_url: str, plain_url: str) -> None:
    with Stepwell(postgres_url) as app:
        behave(app)
        with psycopg.connect(plain_url) as connection:
            connection.execute("INSERT INTO jobs.steps (action) VALUES ('behave')")
        assert app.run_until_idle() == 1


def await_wake(listener: Listener, send: Callable[[], object]) -> None:
    """A process does not send every wake-up, so it is repeated until it arrives."""
    give_up = time.monotonic() + 10
    while not listener.poll_wakes():
        assert time.monotonic() < give_up
        send()


def test_two_schemas_are_two_stepwells(plain_url: str) -> None:
    impatient = f"{with_schema(plain_url, 'two')}&options=-clock_timeout%3D2s"  # a shared lock fails instead of hanging
    with Stepwell(with_schema(plain_url, "one")) as one, Stepwell(impatient) as two:
        behave(one), behave(two)
        listeners = one.database.listen(), two.database.listen()
        with psycopg.connect(plain_url) as connection:
            one.enqueue("behave", key="same", connection=connection)  # holds the lock of its key
            two.enqueue("behave", key="same")
        await_wake(listeners[0], lambda: one.enqueue("behave"))
        await_wake(listeners[1], lambda: two.enqueue("behave"))
        listeners[0].poll_wakes()
        await_wake(listeners[1], lambda: two.enqueue("behave"))
        assert not listeners[0].poll_wakes()
        for listener in listeners:
            listener.close()
        for app in (one, two):
            assert app.run_until_idle() == app.stats().states["Completed"] > 0
        one.breaker.pause(who="ann")
        assert two.breaker.state().dispatching


def test_every_statement_finds_its_tables_without_the_search_path(postgres_url: str, plain_url: str) -> None:
    namespace, prepared = Namespace("jobs"), 0
    with psycopg.connect(plain_url, autocommit=True) as connection:
        connection.execute("SET search_path TO pg_catalog")
        for module in iter_modules(stepwell.store.engine.__path__):
            import_module(f"stepwell.store.engine.{module.name}")
            for name, sql in statements(module.name, "postgres").items():
                if "SET TRANSACTION" in sql:
                    continue
                number = count(1)
                text = re.sub(r"%\(\w+\)s", lambda _, number=number: f"${next(number)}", namespace.qualify(sql))  # type: ignore[misc]
                text = text.replace("%%", "%").rstrip("; \n")
                result = connection.pgconn.prepare(b"", text.encode())
                # A parameter without a type may be an error; by then all tables have been found.
                state = result.error_field(psycopg.pq.DiagnosticField.SQLSTATE)
                assert state != b"42P01", (name, result.error_message, text)
                prepared += 1
    assert prepared > 150


@pytest.mark.parametrize("schema", ["Jobs", "1st", "a-b", "", "a" * 64, "pg_jobs", 'x";DROP', "one&schema=two"])
def test_a_name_that_is_none_is_refused(schema: str) -> None:
    with pytest.raises(StepwellError, match="schema="):
        Stepwell(f"postgresql://localhost/db?schema={schema}")


def test_other_parameters_of_the_url_are_left_as_they_are() -> None:
    url, namespace = split_url("postgresql://u:p%40s@h/db?options=-csearch_path%3Da&schema=jobs&connect_timeout=3")
    assert url == "postgresql://u:p%40s@h/db?options=-csearch_path%3Da&connect_timeout=3"
    assert namespace == Namespace("jobs")


def test_a_role_that_may_not_create_the_schema_is_told_what_to_ask_for(plain_url: str) -> None:
    with psycopg.connect(plain_url, autocommit=True) as connection:
        role = f"guest_{connection.info.backend_pid}"
        connection.execute(f"CREATE ROLE {role} LOGIN".encode())
        database = connection.info.dbname
        connection.execute(f"REVOKE CREATE ON DATABASE {database} FROM PUBLIC".encode())
        try:
            url = with_schema(plain_url, "guests")
            guest = url + f"&options=-crole%3D{role}"
            with pytest.raises(SchemaError, match=r"no schema guests.*CREATE SCHEMA guests AUTHORIZATION"):
                Stepwell(guest).open()
            connection.execute(f"CREATE SCHEMA guests AUTHORIZATION {role}".encode())
            with Stepwell(guest) as app:
                app.enqueue("anything")
        finally:
            connection.execute(f"DROP OWNED BY {role} CASCADE".encode())
            connection.execute(f"DROP ROLE {role}".encode())


def _migrate(url: str) -> int:
    app = Stepwell(url)
    done = len(migrate(app.database))
    app.close()
    return done


@pytest.mark.slow
def test_eight_processes_create_the_schema_once(plain_url: str) -> None:
    in_processes(_migrate, [(with_schema(plain_url, "many"),)] * 8)
    with Stepwell(with_schema(plain_url, "many")) as app:
        assert app.stats().states["Pending"] == 0


@pytest.mark.parametrize(
    ("version", "extensions", "server"),
    [
        ("CockroachDB CCL v23.1.11 (x86_64-pc-linux-gnu, built 2023/09/27 01:53:43, go1.19.10)", [], "CockroachDB"),
        ("CockroachDB OSS v22.2.0 (aarch64-unknown-linux-gnu, built 2022/12/05, go1.19.1)", [], "CockroachDB"),
        ("PostgreSQL 11.2-YB-2.18.1.0-b0 on x86_64-pc-linux-gnu, compiled by clang version 15.0.3, 64-bit", ["plpgsql"],
         "YugabyteDB"),
        ("PostgreSQL 15.12-YB-2025.1.0.0-b0 on aarch64-unknown-linux-gnu, compiled by clang 17.0.6, 64-bit", [],
         "YugabyteDB"),
        ("PostgreSQL 16.4 (Debian 16.4-1.pgdg120+1) on x86_64-pc-linux-gnu, compiled by gcc (Debian 12.2.0-14) 12.2.0",
         ["plpgsql", "citus", "citus_columnar"], "Citus"),
    ],
)  # fmt: skip
def test_servers_that_only_speak_the_protocol_are_recognized(version: str, extensions: list[str], server: str) -> None:
    assert server in str(reason_to_refuse(version, extensions))


@pytest.mark.parametrize(
    "version",
    [
        "PostgreSQL 18.0 on x86_64-pc-linux-gnu, compiled by gcc (GCC) 12.2.0, 64-bit",
        "PostgreSQL 13.22 on aarch64-unknown-linux-gnu, compiled by aarch64-unknown-linux-gnu-gcc (GCC) 9.5.0, 64-bit",
        "EnterpriseDB PostgreSQL 16.3.0 on x86_64-pc-linux-gnu, compiled by gcc",
    ],
)
def test_postgresql_is_not_taken_for_another_server(version: str) -> None:
    assert reason_to_refuse(version, ["plpgsql", "pg_stat_statements"]) is None


def test_migrate_refuses_such_a_server_and_changes_nothing(plain_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with psycopg.connect(plain_url) as connection:
        connection.execute("CREATE SCHEMA fake")
        connection.execute(
            "CREATE FUNCTION fake.version() RETURNS text LANGUAGE sql AS $$ SELECT 'CockroachDB CCL v23.1.11' $$"
        )
    # Found before the real one, because the search path names pg_catalog last.
    url = f"{plain_url}{'&' if '?' in plain_url else '?'}options=-csearch_path%3Dfake,pg_catalog"
    with pytest.raises(SchemaError, match=r"this server is CockroachDB.*Nothing was changed"):
        Stepwell(url).open()
    with psycopg.connect(plain_url) as connection:
        tables = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'fake'"
        assert connection.execute(tables).fetchone() == (0,)
