"""Calling the command line from tests: in this process where possible, else as a separate process."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from click.testing import CliRunner, Result

from stepwell.cli import main

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# Long enough for a busy machine to start a Python process; nothing ever waits that long when all is well.
PATIENCE = 60.0


def run(url: str, *arguments: str, code: int = 0, env: dict[str, str] | None = None, stdin: str = "") -> Result:
    """`stepwell --db URL ARGUMENTS`, which must end with that exit code and without a traceback."""
    return run_bare("--db", url, *arguments, code=code, env=env, stdin=stdin)


def run_bare(*arguments: str, code: int = 0, env: dict[str, str] | None = None, stdin: str = "") -> Result:
    result = CliRunner().invoke(main, list(arguments), env=env, input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, f"exit code {result.exit_code}\n{result.stdout}\n{result.stderr}"
    return result


def ask(url: str, *arguments: str, code: int = 0) -> Any:
    """The JSON document that a command prints, with nothing else on stdout."""
    return json.loads(run(url, *arguments, "--json", code=code).stdout)


def on_terminal(url: str, *arguments: str, code: int = 0) -> list[str]:
    """The lines that a terminal of 80 columns would show."""
    result = run(url, *arguments, code=code, env={"FORCE_COLOR": "1", "COLUMNS": "80", "TERM": "xterm"})
    assert ANSI.search(result.stdout), "no colour"
    return ANSI.sub("", result.stdout).splitlines()


def command(url: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "stepwell.cli", "--db", url, *arguments]


def environment() -> dict[str, str]:
    """The environment of the test, without variables that colour the output or select a database."""
    return {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "STEPWELL_DB")} | {"PYTHONUNBUFFERED": "1"}


@contextmanager
def process(url: str, *arguments: str, cwd: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    """The command as a separate process, killed at the end if it still runs."""
    with subprocess.Popen(
        command(url, *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        cwd=cwd,
    ) as started:
        try:
            yield started
        finally:
            if started.poll() is None:
                started.kill()


def finished(*arguments: str, cwd: Path | None = None, url: str) -> subprocess.CompletedProcess[str]:
    """The command as a separate process, run to its end."""
    return subprocess.run(
        command(url, *arguments), capture_output=True, text=True, env=environment(), cwd=cwd, timeout=PATIENCE
    )


def plain_sql(url: str, *statements: str) -> None:
    """Change the database with plain SQL, not through Stepwell."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        try:
            for statement in statements:
                connection.execute(statement)
            connection.commit()
        finally:
            connection.close()
        return
    with psycopg.connect(url, autocommit=True) as server:
        for statement in statements:
            server.execute(statement.encode())


@contextmanager
def other_writers_blocked(url: str) -> Iterator[None]:
    """Every tick waits until this context ends."""
    if url.startswith("sqlite"):
        file = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        try:
            file.execute("BEGIN IMMEDIATE")
            yield
            file.execute("ROLLBACK")
        finally:
            file.close()
        return
    with psycopg.connect(url) as server:
        server.execute("LOCK TABLE steps_dispatcher IN ACCESS EXCLUSIVE MODE")
        yield


def refuse_dispatch(url: str) -> None:
    """Make every dispatch of a tick fail."""
    if url.startswith("sqlite"):
        plain_sql(
            url,
            "CREATE TRIGGER boom BEFORE UPDATE OF state ON steps WHEN NEW.state = 'Dispatched' "
            "BEGIN SELECT RAISE(ABORT, 'the disk is on fire'); END",
        )
        return
    plain_sql(
        url,
        "CREATE FUNCTION boom() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'the disk is on fire'; END $$",
        "CREATE TRIGGER boom BEFORE UPDATE ON steps FOR EACH ROW WHEN (NEW.state = 'Dispatched') "
        "EXECUTE FUNCTION boom()",
    )


def until(condition: Callable[[], object]) -> None:
    """Wait for a condition."""
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up, "waited in vain"
        time.sleep(0.02)


def columns(line: str) -> Sequence[str]:
    return re.split(r"\s{2,}", line.strip())
