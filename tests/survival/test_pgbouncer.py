"""Behind a pooler in transaction mode: every transaction may use a different session of the server."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from stepwell import Stepwell
from stepwell.store import Transaction
from stepwell.testing import behave
from tests.postgres_server import _server_user, server_url
from tests.survival.pooler import NoPooler, Program, pgbouncer
from tests.survival.support import Cluster

_WHERE = ("host", "port", "user", "password")

SETTINGS = """
[databases]
* = {server} pool_size=3
[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
listen_port = 6432
auth_type = any
pool_mode = transaction
max_client_conn = 200
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short enough for the path of a socket, and accessible to the server's user."""
    made = Path(tempfile.mkdtemp(prefix="stepwell-bouncer-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def bouncer(pytestconfig: pytest.Config, folder: Path) -> Program:
    assert pytestconfig.cache is not None
    try:
        return pgbouncer(pytestconfig.cache.mkdir("pgbouncer"), folder)
    except NoPooler as error:
        pytest.skip(f"pgbouncer is neither installed nor downloadable: {error}")


@pytest.fixture
def pooled_url(postgres_server: None, bouncer: Program, folder: Path) -> Iterator[tuple[str, str]]:
    """The URLs of a new database: through the pooler, and direct."""
    server = server_url()
    name = f"pooled_{os.getpid()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    where: dict[str, Any] = {key: value for key, value in conninfo_to_dict(server).items() if key in _WHERE}
    user = _server_user()
    settings = folder / "pgbouncer.ini"
    settings.write_text(SETTINGS.format(server=make_conninfo(**where), folder=folder))
    if user is not None:  # like PostgreSQL, it refuses to run as root
        for path in (folder, settings):
            os.chown(path, user.pw_uid, user.pw_gid)
    log = (folder / "log").open("wb")
    running = subprocess.Popen(
        [bouncer.path, settings],
        stdout=log,
        stderr=log,
        env={**os.environ, **bouncer.environment},
        user=user and user.pw_uid,
        group=user and user.pw_gid,
        extra_groups=None if user is None else [],
    )
    try:
        _wait_for(folder / ".s.PGSQL.6432", running)
        pooled = f"postgresql://postgres@/{name}?host={quote(str(folder), safe='')}&port=6432"
        yield pooled, urlsplit(server)._replace(path=f"/{name}").geturl()
    finally:
        running.kill()
        running.wait()
        log.close()
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def _wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    while True:
        assert process.poll() is None, (path.parent / "log").read_text()
        with socket.socket(socket.AF_UNIX) as probe, suppress(OSError):
            probe.connect(str(path))
            return


@pytest.mark.postgres
@pytest.mark.parametrize("schema", [None, "jobs"])
def test_workers_and_dispatchers_work_behind_a_pooler_in_transaction_mode(
    pooled_url: tuple[str, str], tmp_path: Path, schema: str | None
) -> None:
    pooled, direct = pooled_url
    if schema is not None:
        pooled, direct = (f"{url}{'&' if '?' in url else '?'}schema={schema}" for url in (pooled, direct))
    cluster = Cluster(direct, tmp_path)
    try:
        workers = [cluster.start("up", url=pooled, executor=executor) for executor in ("process", "thread")]
        for number in range(20):
            cluster.add(f"step {number}")
        for number in range(4):
            cluster.add(f"staged {number}", action="three_stages")
        cluster.until(lambda: set(cluster.states().values()) == {"Completed"}, tick=False, reap=False)
        assert [len(cluster.entries("started", f"step {number}")) for number in range(20)] == [1] * 20
        assert [len(cluster.entries("computed", f"staged {number}")) for number in range(4)] == [1] * 4
        for worker in workers:
            assert worker.stop() == 0
            assert "rror" not in worker.output
        cluster.check()
    finally:
        cluster.close()


@pytest.mark.postgres
def test_nothing_is_prepared_behind_a_pooler(pooled_url: tuple[str, str]) -> None:
    """On the next session the same name could be another program's statement: worse than an error."""
    pooled, direct = pooled_url
    for url, expected in ((pooled, 0), (direct, 1)):
        with Stepwell(url, migrate_schema=True) as app:
            for _ in range(10):
                app.groups()

            def look(tx: Transaction) -> int:
                return int(tx.fetch("SELECT count(*) AS prepared FROM pg_prepared_statements", {})[0]["prepared"])

            assert min(app.database.read(look), 1) == expected


def test_statements_that_the_server_has_forgotten_are_prepared_again(postgres_url: str) -> None:
    """Because of a pooler that was not detected, or of a DEALLOCATE."""
    with Stepwell(postgres_url) as app:
        behave(app)
        for _ in range(10):
            app.groups()
        app.database.transact(lambda tx: tx.execute("DEALLOCATE ALL", {}))
        step = app.enqueue("behave", {"result": 1})
        app.database.transact(lambda tx: tx.execute("DEALLOCATE ALL", {}))
        assert len(app.groups()) == 10
        app.run_until_idle()
        assert app.step(step).response == 1
