"""Retention is killed in the middle of its work: every workflow is whole, in one place, and the next run goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stepwell import NewStep, Stepwell
from stepwell.testing import behave
from tests.survival.support import WAIT_SECONDS

pytestmark = pytest.mark.slow
TREES = 100


def test_a_killed_pass_leaves_every_workflow_whole(shared_database_url: str, tmp_path: Path) -> None:
    with Stepwell(shared_database_url) as app:
        behave(app)
        roots = [NewStep(action="behave") for _ in range(TREES)]
        children = [NewStep(action="behave", parent=root) for root in roots for _ in range(2)]
        app.enqueue_many([*roots, *children])
        app.run_until_idle(slots=64)
        everything = _steps(app, "steps")
        process = _start(shared_database_url, tmp_path)
        _wait(lambda: len(_steps(app, "steps")) < len(everything))
        process.send_signal(signal.SIGKILL)
        process.wait(WAIT_SECONDS)
        live, archived = _steps(app, "steps"), _steps(app, "steps_archive")
        assert live.keys().isdisjoint(archived)
        assert live.keys() | archived.keys() == everything.keys()
        assert set(live.values()).isdisjoint(archived.values())
        assert _orphans(app) == 0
        assert app.check_invariants() == []
        assert _start(shared_database_url, tmp_path).wait(WAIT_SECONDS) == 0
        assert _steps(app, "steps") == {}
        assert _steps(app, "steps_archive") == everything


def _start(url: str, folder: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "STEPWELL_RETENTION_BATCH": "10", "PYTHONUNBUFFERED": "1"}
    arguments = [sys.executable, "-m", "stepwell.cli", "archive", "--keep-days", "0", "--key-days", "0", "--db", url]
    return subprocess.Popen(arguments, cwd=folder, env=environment, stdout=subprocess.DEVNULL)


def _steps(app: Stepwell, table: str) -> dict[int, str]:
    rows = app.database.read(lambda tx: tx.fetch(f"SELECT id, workflow_id FROM {table}", {}))
    return {row["id"]: str(row["workflow_id"]) for row in rows}


def _orphans(app: Stepwell) -> int:
    sql = "SELECT count(*) AS n FROM step_transitions t WHERE NOT EXISTS (SELECT 1 FROM steps s WHERE s.id = t.step_id)"
    return int(app.database.read(lambda tx: tx.fetch(sql, {}))[0]["n"])


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "retention removed nothing"
        time.sleep(0.005)
