"""`stepwell init` creates a project that runs, and overwrites nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stepwell.cli.init_commands import FILES
from tests.unit.cli.support import PATIENCE, environment, run_bare


@pytest.mark.slow
def test_the_project_runs_its_first_step_and_its_tests_pass(tmp_path: Path) -> None:
    project = tmp_path / "x"
    run_bare("init", str(project))
    assert sorted(path.name for path in project.iterdir()) == sorted(FILES)

    def python(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=project,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "3 passed" in python("-m", "pytest", "-q", "-p", "no:cacheprovider")
    up = subprocess.Popen(
        [sys.executable, "-m", "stepwell.cli", "up"],
        cwd=project, env=environment(), stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        word, step, word_after, workflow = python("jobs.py").split()
        assert (word, word_after) == ("step", "workflow")
        result = f"import jobs; print(jobs.app.handle({step}).result(timeout=30))"
        assert python("-c", result) == "Hello, World!\n"
        shipped = f"import jobs; print(jobs.app.workflows.run({workflow!r}).result(jobs.ship, timeout=30))"
        assert python("-c", shipped).startswith("one parcel with ")
        assert "check_stock  */5 * * * *" in python("-m", "stepwell.cli", "schedules", "list")
    finally:
        os.killpg(up.pid, signal.SIGTERM)
        output, _ = up.communicate(timeout=PATIENCE)
    assert up.returncode == 0
    assert "Retention: settled workflows are deleted 30 days after their end (retention.keep_days).\n" in output


def test_the_project_uses_the_database_that_is_named(tmp_path: Path) -> None:
    run_bare("init", str(tmp_path), "--db", "postgresql://db/shop")
    assert 'app = Stepwell("postgresql://db/shop", name="shop")\n' in (tmp_path / "jobs.py").read_text()
    assert 'url = "postgresql://db/shop" #' in (tmp_path / "stepwell.toml").read_text()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text("mine")
    result = run_bare("init", str(tmp_path), code=1)
    assert "has jobs.py already; nothing was written" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["jobs.py"]
    assert (tmp_path / "jobs.py").read_text() == "mine"


def test_the_next_commands_can_be_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "\n  cd 'my shop'\n" in run_bare("init", "my shop").stdout
