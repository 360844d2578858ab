"""Retention is killed in the middle of its work: every workflow is whole, in one place, and the next run goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stepwell import NewStep, Stepwell
from stepwell.testing import behave
from tests.survival.support import WAIT_SECONDS

pytestmark = pytest.mark.slow
TREES = 300


@pytest.mark.parametrize("command", ["archive", "prune"])
def test_a_killed_pass_leaves_every_workflow_whole(shared_database_url: str, tmp_path: Path, command: str) -> None:
    with Stepwell(shared_database_url) as app:
        behave(app)
        for _ in range(TREES):
            root = NewStep(action="behave")
            app.enqueue_many([root, NewStep(action="behave", parent=root), NewStep(action="behave", parent=root)])
        app.run_until_idle(slots=32)
        everything = _steps(app, "steps")
        assert len(everything) == 3 * TREES
        kills = 0
        while len(_steps(app, "steps")) > 0 and kills < 3:
            left = len(_steps(app, "steps"))
            process = _start(shared_database_url, tmp_path, command)
            _wait(lambda left=left: len(_steps(app, "steps")) < left)  # type: ignore[misc]
            process.send_signal(signal.SIGKILL)
            process.wait(WAIT_SECONDS)
            kills += 1
            live, archived = _steps(app, "steps"), _steps(app, "steps_archive")
            assert live.keys().isdisjoint(archived)
            if command == "archive":
                assert live.keys() | archived.keys() == everything.keys()
            for place in (live, archived):
                sizes: dict[str, int] = {}
                for workflow in place.values():
                    sizes[workflow] = sizes.get(workflow, 0) + 1
                assert set(sizes.values()) <= {3}
            assert set(live.values()).isdisjoint(archived.values())
            assert _orphans(app) == 0
            assert app.check_invariants() == []
        assert kills
        process = _start(shared_database_url, tmp_path, command)
        assert process.wait(WAIT_SECONDS) == 0
        assert _steps(app, "steps") == {}
        assert len(_steps(app, "steps_archive")) == (3 * TREES if command == "archive" else 0)


def _start(url: str, folder: Path, command: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "STEPWELL_RETENTION_BATCH": "10", "PYTHONUNBUFFERED": "1"}
    arguments = [sys.executable, "-m", "stepwell.cli", command, "--keep-days", "0", "--key-days", "0", "--db", url]
    return subprocess.Popen(arguments, cwd=folder, env=environment, stdout=subprocess.DEVNULL)


def _steps(app: Stepwell, table: str) -> dict[int, str]:
    rows = app.database.read(lambda tx: tx.fetch(f"SELECT id, workflow_id FROM {table}", {}))
    return {row["id"]: str(row["workflow_id"]) for row in rows}


def _orphans(app: Stepwell) -> int:
    sql = "SELECT count(*) AS n FROM step_transitions t WHERE NOT EXISTS (SELECT 1 FROM steps s WHERE s.id = t.step_id)"
    return int(app.database.read(lambda tx: tx.fetch(sql, {}))[0]["n"])


def _wait(condition: object) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "retention removed nothing"
        time.sleep(0.005)
