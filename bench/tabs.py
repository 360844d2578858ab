"""`python -m bench.tabs`: what 50 visible tabs of the dashboard cost that poll every two seconds.

The server is a process of its own; the clients do what `live.js` does: they ask for a fragment with the tag of what
they have. Measured are the CPU time of the server, and its statements. `one` is 50 tabs on the overview; `ten` is five
on each of ten screens. `idle`: nothing is committed; `busy`: five steps per second are enqueued.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.cpu import seconds_of
from bench.databases import KINDS, settle
from bench.million import fill
from bench.peers.servers import fresh, scratch
from stepwell import Stepwell
from stepwell.store.postgres.transaction import PostgresTransaction
from stepwell.store.sqlite.transaction import SqliteTransaction
from stepwell.web import Role, Visitor, application
from tests.browser.serving import Server

TABS: Final = 50
EVERY: Final = 2.0
SCREENS: Final = (
    "/", "/steps", "/steps?state=Failed", "/steps/1", "/failures", "/workflows", "/schedules", "/workers", "/groups",
    "/deploy",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cost:
    cpu: float  # of one core
    statements: float  # per second
    answers: Counter[int]


def _serve(url: str, pipe: Any) -> None:
    """In a process of its own: answer, until something is received; the statements are counted."""
    counted = [0]
    for kind in (SqliteTransaction, PostgresTransaction):
        for name in ("query", "records", "change", "fetch", "execute"):
            _count(kind, name, counted)
    with Stepwell(url) as app:
        server = Server(application(app, recognise=lambda scope: Visitor("ann", Role.ADMIN)))
        server.start()
        pipe.send(server.port)
        while pipe.recv() is not None:
            pipe.send(counted[0])
        server.stop()


def _count(kind: Any, name: str, counted: list[int]) -> None:
    plain = getattr(kind, name)

    def counting(self: Any, *args: Any) -> Any:
        counted[0] += 1
        return plain(self, *args)

    setattr(kind, name, counting)


async def _tab(port: int, path: str, start: float, until: float, answers: Counter[int]) -> None:
    await asyncio.sleep(start)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    tag = ""
    while time.monotonic() < until:
        asked = time.monotonic()
        known = [f"If-None-Match: {tag}"] if tag else []
        first = [f"GET /step-dispatcher{path} HTTP/1.1", f"Host: localhost:{port}"]
        lines = [*first, "X-Stepwell-Fragment: 1", *known, "", ""]
        writer.write("\r\n".join(lines).encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        await reader.readexactly(int(fields.get("content-length", "0")))
        tag = fields.get("etag", tag)
        answers[int(head.split()[1])] += 1
        await asyncio.sleep(max(0.0, EVERY - (time.monotonic() - asked)))
    writer.close()


async def _tabs(port: int, screens: Sequence[str], seconds: float) -> Counter[int]:
    answers: Counter[int] = Counter()
    until = time.monotonic() + seconds
    await asyncio.gather(
        *(_tab(port, screens[number % len(screens)], EVERY * number / TABS, until, answers) for number in range(TABS))
    )
    return answers


@contextmanager
def _commits(app: Stepwell, is_busy: bool) -> Iterator[None]:
    """Five steps per second, while it lasts."""
    stop = threading.Event()

    def enqueue() -> None:
        while is_busy and not stop.wait(0.2):
            app.enqueue("nobody runs this", delay=86_400)

    thread = threading.Thread(target=enqueue)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def measure(url: str, screens: Sequence[str], *, is_busy: bool, seconds: float) -> Cost:
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    server = spawn.Process(target=_serve, args=(url, theirs))
    server.start()
    try:
        port = ours.recv()
        asyncio.run(_tabs(port, screens, 2 * EVERY))  # every screen has been rendered, every connection opened
        with Stepwell(url) as app, _commits(app, is_busy):
            used, statements = seconds_of([server.pid or 0]), _asked(ours)
            started = time.monotonic()
            answers = asyncio.run(_tabs(port, screens, seconds))
            passed = time.monotonic() - started
            return Cost((seconds_of([server.pid or 0]) - used) / passed, (_asked(ours) - statements) / passed, answers)
    finally:
        ours.send(None)
        server.join()


def _asked(pipe: Any) -> int:
    pipe.send("how many")
    return int(pipe.recv())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.tabs", description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000, help="finished steps in the database")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--database", action="append", choices=KINDS, help="this one only (default: both)")
    options = parser.parse_args(arguments)
    print("| database | screens | commits | CPU of a core | statements/s | answers/s | of them 304 |")
    print("|---|---|---|---:|---:|---:|---:|")
    for database in options.database or KINDS:
        prefix = "sqlite:///" if database == "sqlite" else ""
        with scratch() as place, fresh(database, Path(place)) as plain:
            url = f"{prefix}{plain}"
            with Stepwell(url) as app:
                fill(app, options.steps)
                settle(app)
            for name, screens in (("one", SCREENS[:1]), ("ten", SCREENS)):
                for is_busy in (False, True):
                    cost = measure(url, screens, is_busy=is_busy, seconds=options.seconds)
                    total = cost.answers.total()
                    cells = [
                        database,
                        name,
                        "busy" if is_busy else "idle",
                        f"{100 * cost.cpu:.1f} %",
                        f"{cost.statements:.0f}",
                        f"{total / options.seconds:.1f}",
                        f"{100 * cost.answers[304] / total:.0f} %",
                    ]
                    print(f"| {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
