"""`connection=`: steps in the transactions of SQLAlchemy, Django, aiosqlite and async psycopg."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import aiosqlite
import django
import django.conf
import psycopg
import pytest
import sqlalchemy
import sqlalchemy.ext.asyncio
import sqlalchemy.orm
from django.db import connections as django_connections
from django.db import transaction as django_transaction

from stepwell import JobDefinition, KeyConflict, NewStep, Stepwell, StepwellError
from tests.databases import Templates

pytestmark = pytest.mark.sqlite_file


@pytest.fixture
def app(shared_database_url: str) -> Iterator[Stepwell]:
    with Stepwell(shared_database_url) as app:
        yield app


@pytest.fixture
def job(app: Stepwell) -> JobDefinition[[int], int]:
    @app.job
    def double(number: int) -> int:
        return 2 * number

    return double


def path_of(app: Stepwell) -> str:
    return app.database.url.removeprefix("sqlite:///")


def sqlalchemy_url(app: Stepwell, *, is_async: bool = False) -> str:
    if app.database.dialect == "sqlite":
        return f"sqlite{'+aiosqlite' if is_async else ''}:///{path_of(app)}"
    return app.database.url.replace("postgresql:", "postgresql+psycopg:")


@pytest.fixture
def engine(app: Stepwell) -> Iterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine(sqlalchemy_url(app))
    yield engine
    engine.dispose()


Enqueue = Callable[[Any, int], Any]


@pytest.fixture(params=["job", "app", "many"])
def enqueue(request: pytest.FixtureRequest, app: Stepwell, job: JobDefinition[[int], int]) -> Enqueue:
    """Each way to create a step on a connection."""
    ways: dict[str, Enqueue] = {
        "job": lambda connection, number: job.options(connection=connection).enqueue(number),
        "app": lambda connection, number: app.enqueue("double", {"number": number}, connection=connection),
        "many": lambda connection, number: app.enqueue_many([job.draft(number)], connection=connection)[0],
    }
    return ways[request.param]


def numbers(app: Stepwell) -> list[int]:
    return sorted(step.arguments["number"] for step in app.steps())


# Sync -----------------------------------------------------------------------------------------------------


def test_a_session_of_sqlalchemy_commits_and_rolls_back_the_step(
    app: Stepwell, engine: sqlalchemy.Engine, enqueue: Enqueue
) -> None:
    with sqlalchemy.orm.Session(engine) as session:
        enqueue(session, 1)
        assert numbers(app) == []
        session.commit()
        enqueue(session, 2)
        session.rollback()
        kept = enqueue(session, 3)
        with suppress(ZeroDivisionError), session.begin_nested():
            enqueue(session, 4)
            raise ZeroDivisionError
        session.commit()
    assert numbers(app) == [1, 3]
    app.run_until_idle()
    assert kept.result(1) == 6


def test_a_connection_of_sqlalchemy_commits_and_rolls_back_the_step(
    app: Stepwell, engine: sqlalchemy.Engine, enqueue: Enqueue
) -> None:
    with engine.begin() as connection:
        enqueue(connection, 1)
    with engine.connect() as connection:
        enqueue(connection, 2)
        connection.rollback()
        enqueue(connection, 3)
        connection.commit()
        enqueue(connection, 4)
    scoped = sqlalchemy.orm.scoped_session(sqlalchemy.orm.sessionmaker(engine))
    enqueue(scoped, 5)
    scoped.commit()
    scoped.remove()
    assert numbers(app) == [1, 3, 5]


def test_a_connection_of_sqlalchemy_in_autocommit_mode_is_refused(
    app: Stepwell, engine: sqlalchemy.Engine, enqueue: Enqueue
) -> None:
    with (
        engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
        pytest.raises(StepwellError, match="autocommit"),
    ):
        enqueue(connection, 1)
    assert numbers(app) == []


@pytest.fixture
def django_connection(app: Stepwell) -> Iterator[Any]:
    """The connection of a Django project whose database is that of the app."""
    if not django.conf.settings.configured:
        django.conf.settings.configure(USE_TZ=True, DATABASES={})
        django.setup()
    if app.database.dialect == "sqlite":
        settings: dict[str, Any] = {"ENGINE": "django.db.backends.sqlite3", "NAME": path_of(app)}
    else:
        url = urlsplit(app.database.url)
        options = {name: unquote(values[0]) for name, values in parse_qs(url.query).items()}
        settings = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": url.path[1:],
            "USER": url.username or "",
            "PASSWORD": url.password or "",
            "HOST": url.hostname or options.pop("host", ""),
            "PORT": str(url.port or options.pop("port", "")),
            "OPTIONS": {"options": options["options"]},
        }
    django_connections.databases["default"] = settings
    django_connections.configure_settings(django_connections.databases)
    connection = django_connections["default"]
    yield connection
    connection.close()
    del django_connections["default"]


def test_a_django_transaction_commits_and_rolls_back_the_step(
    app: Stepwell, django_connection: Any, enqueue: Enqueue
) -> None:
    with pytest.raises(StepwellError, match="autocommit"):
        enqueue(django_connection, 0)
    with django_transaction.atomic():
        enqueue(django_connection, 1)
        with suppress(ZeroDivisionError), django_transaction.atomic():
            enqueue(django_connection, 2)
            raise ZeroDivisionError
    with suppress(ZeroDivisionError), django_transaction.atomic():
        enqueue(django_connection, 3)
        raise ZeroDivisionError
    assert numbers(app) == [1]
    app.run_until_idle()
    assert app.steps()[0].response == 2


def test_a_conflict_leaves_the_callers_transaction_usable(app: Stepwell, engine: sqlalchemy.Engine) -> None:
    app.enqueue("other", {"number": 0}, key="taken")
    with sqlalchemy.orm.Session(engine) as session:
        app.enqueue("double", {"number": 1}, connection=session)
        with pytest.raises(KeyConflict):
            app.enqueue("double", {"number": 2}, key="taken", connection=session)
        session.execute(sqlalchemy.text("SELECT 1"))
        app.enqueue("double", {"number": 3}, connection=session)
        session.commit()
    assert numbers(app) == [0, 1, 3]


def test_an_error_of_the_database_leaves_the_callers_transaction_usable_and_without_a_part_of_the_steps(
    app: Stepwell, engine: sqlalchemy.Engine
) -> None:
    with sqlalchemy.orm.Session(engine) as session:
        app.enqueue("double", {"number": 1}, connection=session)

        def refuse(*arguments: Any) -> None:
            raise ZeroDivisionError

        app.database.hooks.in_transaction(refuse)
        with pytest.raises(ZeroDivisionError):
            app.enqueue_many([NewStep(action="double", arguments={"number": n}) for n in (2, 3)], connection=session)
        session.commit()
    assert numbers(app) == [1]


# Another database -----------------------------------------------------------------------------------------


def test_a_connection_to_another_database_is_refused_also_to_a_copy(
    app: Stepwell, templates: Templates, tmp_path: Path
) -> None:
    kind = "sqlite-file" if app.database.dialect == "sqlite" else "postgres"
    other = tmp_path / "other"
    other.mkdir()
    with templates.copy(kind, other) as url, Stepwell(url) as copy:
        if kind == "postgres":
            connection: Any = psycopg.connect(url)
        else:
            connection = sqlite3.connect(other / "stepwell.db")
        with closing(connection):
            with pytest.raises(StepwellError, match="leads to another database"):
                app.enqueue("nobody", connection=connection)
            copy.enqueue("nobody", connection=connection)
            connection.commit()
        assert len(copy.steps()) == 1
    assert app.steps() == []


def test_a_database_without_stepwell_is_refused_and_the_transaction_stays_usable(app: Stepwell, tmp_path: Path) -> None:
    if app.database.dialect == "sqlite":
        connection: Any = sqlite3.connect(tmp_path / "foreign.db")
    else:
        connection = psycopg.connect(app.database.url)
        connection.execute("SET search_path = pg_temp")
    with closing(connection):
        with pytest.raises(StepwellError, match="leads to another database"):
            app.enqueue("nobody", connection=connection)
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_an_app_in_memory_takes_no_connection_of_others() -> None:
    with (
        Stepwell("sqlite://") as app,
        closing(sqlite3.connect(":memory:")) as connection,
        pytest.raises(StepwellError, match="leads to another database"),
    ):
        app.enqueue("nobody", connection=connection)


def test_the_same_file_by_another_name_is_the_same_database(app: Stepwell, tmp_path: Path) -> None:
    if app.database.dialect != "sqlite":
        return
    link = tmp_path / "link.db"
    link.symlink_to(path_of(app))
    with closing(sqlite3.connect(link)) as connection:
        app.enqueue("nobody", connection=connection)
        connection.commit()
    assert len(app.steps()) == 1


# Async ----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def driver_connection(app: Stepwell) -> AsyncIterator[Any]:
    if app.database.dialect == "sqlite":
        async with aiosqlite.connect(path_of(app)) as connection:
            yield connection
    else:
        async with await psycopg.AsyncConnection.connect(app.database.url) as connection:
            yield connection


@asynccontextmanager
async def sqlalchemy_connection(app: Stepwell) -> AsyncIterator[Any]:
    engine = sqlalchemy.ext.asyncio.create_async_engine(sqlalchemy_url(app, is_async=True))
    async with engine.connect() as connection:
        yield connection
    await engine.dispose()


@asynccontextmanager
async def sqlalchemy_session(app: Stepwell) -> AsyncIterator[Any]:
    engine = sqlalchemy.ext.asyncio.create_async_engine(sqlalchemy_url(app, is_async=True))
    async with sqlalchemy.ext.asyncio.AsyncSession(engine) as session:
        yield session
    await engine.dispose()


CONNECTIONS = [driver_connection, sqlalchemy_connection, sqlalchemy_session]


@pytest.mark.parametrize("connect", CONNECTIONS)
def test_an_async_connection_commits_and_rolls_back_the_step(
    app: Stepwell, job: JobDefinition[[int], int], connect: Callable[[Stepwell], Any]
) -> None:
    async def main() -> None:
        async with connect(app) as connection:
            handle = await job.options(connection=connection).aenqueue(1)
            await app.aenqueue("double", {"number": 2}, connection=connection)
            drafts = [job.draft(number) for number in range(3, 6)]
            await app.aenqueue_many([*drafts, NewStep(action="double", arguments={"number": 6}, depends_on=drafts)],
                                    connection=connection)  # fmt: skip
            assert numbers(app) == []
            await connection.commit()
            await job.options(connection=connection).aenqueue(7)
            await connection.rollback()
            await job.options(connection=connection, key="k").aenqueue(8)
            with pytest.raises(KeyConflict):
                await job.options(connection=connection, key="k").aenqueue(9)
            await connection.commit()
        app.run_until_idle()
        assert await handle == 2

    asyncio.run(main())
    assert numbers(app) == [1, 2, 3, 4, 5, 6, 8]


@pytest.mark.parametrize("connect", CONNECTIONS)
def test_a_sync_call_refuses_an_async_connection_and_names_the_async_one(
    app: Stepwell, job: JobDefinition[[int], int], connect: Callable[[Stepwell], Any]
) -> None:
    async def main() -> None:
        async with connect(app) as connection:
            for call in (
                lambda: job.options(connection=connection).enqueue(1),
                lambda: app.enqueue("double", connection=connection, arguments={"number": 1}),
            ):
                with pytest.raises(TypeError, match="is async: it can be used with `await job"):
                    call()

    asyncio.run(main())
    assert numbers(app) == []


def test_aenqueue_takes_a_sync_connection_of_the_calling_thread(app: Stepwell, job: JobDefinition[[int], int]) -> None:
    is_sqlite = app.database.dialect == "sqlite"
    connection: Any = sqlite3.connect(path_of(app)) if is_sqlite else psycopg.connect(app.database.url)
    with closing(connection):
        asyncio.run(job.options(connection=connection).aenqueue(1))
        connection.commit()
    assert numbers(app) == [1]


def test_a_cancelled_aenqueue_has_stopped_writing_when_the_caller_rolls_back(
    app: Stepwell, job: JobDefinition[[int], int]
) -> None:
    begun, released = threading.Event(), threading.Event()

    def hold(*arguments: Any) -> None:
        begun.set()
        assert released.wait(60)

    app.database.hooks.in_transaction(hold)

    async def main() -> None:
        async with driver_connection(app) as connection:
            task = asyncio.create_task(job.options(connection=connection).aenqueue(1))
            await asyncio.to_thread(begun.wait)
            task.cancel()
            for _ in range(10):
                await asyncio.sleep(0)
            has_ended_early = task.done()
            released.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            await connection.rollback()
        assert not has_ended_early

    asyncio.run(main())
    assert numbers(app) == []


# Refused --------------------------------------------------------------------------------------------------


def test_a_draft_of_a_job_with_a_connection_is_refused(job: JobDefinition[[int], int]) -> None:
    with pytest.raises(StepwellError, match="a draft has no connection"):
        job.options(connection=object()).draft(1)


def test_a_failed_transaction_is_refused_in_our_own_words(app: Stepwell) -> None:
    if app.database.dialect != "postgres":
        return
    with closing(psycopg.connect(app.database.url)) as connection:
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT nonsense")
        with pytest.raises(StepwellError, match="has already failed: roll it back first"):
            app.enqueue("nobody", connection=connection)
