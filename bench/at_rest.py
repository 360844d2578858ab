"""What `stepwell up` costs while there is nothing to do: of the database, and of the processors."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import psycopg

from bench.figures import Figure
from bench.load import Ledger
from bench.own import Crew, Place
from bench.peers.environment import ROOT
from bench.peers.servers import fresh, scratch
from stepwell import Stepwell
from tests.postgres_server import server_url

# Everything is imported, connected and registered by then; the first rounds look more often than later ones.
SECONDS_TO_SETTLE: Final = 2.0
SECONDS_TO_START: Final = 30.0
# The index of the write-ahead log begins with two numbers, then this one: it moves with every transaction that wrote.
_CHANGES: Final = struct.Struct("=8xI")


def at_rest(database: str, seconds: float) -> Iterator[Figure]:
    """The figures of one database, for the executor that idle pick-up is measured with."""
    crew = Crew()
    with scratch() as directory, fresh(database, Path(directory)) as url:
        place = Place(database, url, Path(directory, "ledger"))
        Stepwell(place.app_url).close()
        transactions = _counter(place)
        with _up(place, crew) as process:
            time.sleep(min(SECONDS_TO_SETTLE, seconds))
            started, before, used = time.perf_counter(), transactions(), _cpu_seconds(process.pid)
            time.sleep(seconds)
            took = time.perf_counter() - started
            changes, cpu = transactions() - before, _cpu_seconds(process.pid) - used
    what = {"sqlite": "writing transactions", "postgres": "transactions"}[database]
    detail = f"over {took:.1f} s of `stepwell up --executor {crew.executor}` with nothing to do"
    yield Figure(f"{what} while idle", database, changes / took, "1/s", detail=detail)
    whole = f"the process tree, {detail}"
    yield Figure("processor while idle", database, 100 * cpu / took, "% of a core", detail=whole)


@contextmanager
def _up(place: Place, crew: Crew) -> Iterator[subprocess.Popen[bytes]]:
    command = ["up", "--app", "bench.peers.stepwell:app", "--executor", crew.executor, "--slots", "8", "--grace", "1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "stepwell.cli", *command],
        cwd=ROOT,
        env=place.environment(crew),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        with Stepwell(place.app_url) as app:
            app.enqueue("no_op")  # it is up when this has run
        _await_first_job(place, process)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _await_first_job(place: Place, process: subprocess.Popen[bytes]) -> None:
    ledger, deadline = Ledger(place.ledger), time.monotonic() + SECONDS_TO_START
    while not ledger.count():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"`stepwell up` did not run its first job within {SECONDS_TO_START:.0f} s")
        time.sleep(0.02)


def _counter(place: Place) -> Callable[[], int]:
    """How many transactions the database has seen, without adding any to it."""
    if place.database == "sqlite":
        index = Path(f"{place.url}-shm")
        return lambda: int(_CHANGES.unpack_from(index.read_bytes()[: _CHANGES.size])[0])
    name, elsewhere = urlsplit(place.url).path.removeprefix("/"), server_url(durable=True)

    def count() -> int:
        with psycopg.connect(elsewhere) as connection:
            query = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = %s"
            row = connection.execute(query, (name,)).fetchone()
        assert row is not None
        return int(row[0])

    return count


def _cpu_seconds(root: int) -> float:
    """What a process and all below it have used so far."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue  # it has ended meanwhile
        fields = text.rpartition(")")[2].split()  # the name before it may contain anything
        parents[int(stat.parent.name)] = int(fields[1])
        ticks[int(stat.parent.name)] = int(fields[11]) + int(fields[12])

    def belongs(process: int) -> bool:
        while process not in (root, 0):
            process = parents.get(process, 0)
        return process == root

    return sum(used for process, used in ticks.items() if belongs(process)) / os.sysconf("SC_CLK_TCK")
