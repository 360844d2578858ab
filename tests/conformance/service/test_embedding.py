"""Stepwell inside other programs: a block of a program's own, ASGI lifespans and preloading web servers."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from stepwell import Stepwell

SECONDS = 60.0


@pytest.mark.sqlite_file
def test_a_block_runs_steps_in_threads_and_ends_with_none_left(database_url: str) -> None:
    app = Stepwell(database_url)

    @app.job
    def double(number: int) -> int:
        return 2 * number

    before = signal.getsignal(signal.SIGTERM)
    with app.running(executor="thread", slots=2):
        assert signal.getsignal(signal.SIGTERM) is before
        assert double.enqueue(1).result(SECONDS) == 2
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("stepwell")]
    assert app.workers() == []
    waiting = double.enqueue(2)
    with app.running(executor="thread"):
        assert waiting.result(SECONDS) == 4
    app.close()


@pytest.mark.one_database
def test_the_end_of_an_async_block_waits_for_a_step_that_needs_the_programs_event_loop(app: Stepwell) -> None:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        begun = asyncio.Event()

        async def answer() -> int:
            return 42

        @app.job
        def ask() -> int:
            loop.call_soon_threadsafe(begun.set)
            return asyncio.run_coroutine_threadsafe(answer(), loop).result(SECONDS)

        async with app.running(executor="thread"):
            handle = await ask.aenqueue()
            await begun.wait()
        return await handle

    assert asyncio.run(main()) == 42


def test_an_error_of_a_part_is_raised_at_the_end_of_the_block(app: Stepwell, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("stepwell.service.crew.Crew.run", broken)
    running = app.running(executor="thread")
    with pytest.raises(ZeroDivisionError), running:
        pass


_WEB = """
import os
from stepwell import Stepwell

app = Stepwell(os.environ["DATABASE"])

@app.job
def double(number: int) -> int:
    return 2 * number

double.enqueue(0)  # so it is open in the process that preloads

def web(environ, start_response):
    double.enqueue(1)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{os.getpid()} {app.stats().states['Pending']}".encode()]

async def asgi(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        async with app.running(executor="thread", slots=2):
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    result = await (await double.aenqueue(21))
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(result).encode()})
"""


@contextmanager
def server(tmp_path: Path, url: str, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    (tmp_path / "web.py").write_text(_WEB)
    environment = {**os.environ, "DATABASE": url, "PYTHONPATH": str(tmp_path)}
    with (tmp_path / "log").open("wb") as log:
        started = subprocess.Popen([sys.executable, "-m", *command], cwd=tmp_path, env=environment, stderr=log)
    try:
        yield started
    finally:
        if started.poll() is None:
            started.kill()
        started.wait()


def listening_port(tmp_path: Path, started: subprocess.Popen[bytes]) -> int:
    """The port that the server logs."""
    give_up = time.monotonic() + SECONDS
    while time.monotonic() < give_up and started.poll() is None:
        for word in (tmp_path / "log").read_text().split():
            _, found, port = word.partition("http://127.0.0.1:")
            if found and port.isdecimal():
                return int(port)
    raise AssertionError((tmp_path / "log").read_text())


def get(port: int) -> str:
    connection = HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    connection.request("GET", "/")
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    assert response.status == 200, body
    return body


@pytest.mark.slow
def test_an_app_that_is_opened_while_gunicorn_preloads_works_in_every_worker(
    shared_database_url: str, tmp_path: Path
) -> None:
    command = ("gunicorn", "--preload", "--workers", "2", "--bind", "127.0.0.1:0", "web:web")
    with server(tmp_path, shared_database_url, *command) as started:
        port = listening_port(tmp_path, started)
        answers = [get(port).split() for _ in range(20)]
        give_up = time.monotonic() + SECONDS
        while len({pid for pid, _ in answers}) < 2 and time.monotonic() < give_up:
            answers.append(get(port).split())
        assert [int(count) for _, count in answers] == list(range(2, len(answers) + 2))
        started.send_signal(signal.SIGTERM)
        assert started.wait(SECONDS) == 0


@pytest.mark.slow
def test_steps_run_in_the_lifespan_of_an_asgi_server_and_end_with_it(shared_database_url: str, tmp_path: Path) -> None:
    with server(tmp_path, shared_database_url, "uvicorn", "--port", "0", "web:asgi") as started:
        port = listening_port(tmp_path, started)
        assert [get(port) for _ in range(3)] == ["42"] * 3
        started.send_signal(signal.SIGTERM)
        assert started.wait(SECONDS) in (0, -signal.SIGTERM)
    with Stepwell(shared_database_url) as app:
        assert app.workers() == []
        assert app.stats().states["Completed"] == 4
