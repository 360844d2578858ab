"""The demo ends as expected on both databases, and what it prints is true."""

from __future__ import annotations

import os
import pty
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from stepwell import State, Stepwell
from stepwell.demo import verdict
from stepwell.store import Transaction
from stepwell.testing import ManualClock, behave
from tests.unit.cli.support import ANSI, PATIENCE, environment, finished, run, run_bare

T = TypeVar("T")
# Five times as fast as by default.
FAST = ["--pace", "0.2"]


@pytest.mark.slow
def test_the_demo_ends_as_expected(shared_database_url: str) -> None:
    ended = finished("demo", *FAST, url=shared_database_url)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stderr == ""
    for part in (
        "fetch prices            Pending     retrying soon: Retry: the exchange does not answer",
        "tell the buyer          Pending     exception handler, needed now",
        "new search index        Cancelled   by ann: the shop stays open tonight",
        "34 steps in ",
        "Completed 28, Cancelled 3, Failed 2, NotRunnable 1",
        "✓ priority: the password mail was enqueued last and ran before the last images",
        "✓ invariants OK",
    ):
        assert part in ended.stdout
    assert not ANSI.search(ended.stdout)
    with Stepwell(shared_database_url) as app:
        assert len(app.steps(limit=100)) == 34
        assert app.check_invariants() == []
        assert app.sweep() == []
        assert app.stats().workers == []


def test_the_commands_that_the_demo_prints_really_work(tmp_path: Path) -> None:
    ended = run_bare("--db", f"sqlite:///{tmp_path}/a shop.db", "demo", *FAST)
    printed = [line for line in ended.stdout.splitlines() if " --db " in line]
    assert len(printed) == 3
    for line in printed:
        _, *arguments = shlex.split(line)
        shown = run_bare(*arguments).stdout
        assert shown.startswith("step ")


@pytest.mark.slow
def test_the_demo_keeps_a_fresh_file_and_leaves_the_database_of_the_environment_alone(tmp_path: Path) -> None:
    mine = tmp_path / "production.db"
    env = {"STEPWELL_DB": f"sqlite:///{mine}", "TMPDIR": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-m", "stepwell.cli", "demo", *FAST],
        capture_output=True,
        text=True,
        env=environment() | env,
        timeout=PATIENCE,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert not mine.exists()
    (kept,) = tmp_path.glob("stepwell-*/demo.db")
    assert str(kept) in ended.stdout


@pytest.mark.slow
def test_on_a_terminal_the_demo_is_shown_live(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    url = f"sqlite:///{tmp_path}/demo.db"
    with subprocess.Popen(
        [sys.executable, "-m", "stepwell.cli", "--db", url, "demo", *FAST],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment() | {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"},
    ) as started:
        os.close(slave)
        shown = read_all(master)
        os.close(master)
        assert started.wait(timeout=PATIENCE) == 0, shown
    assert ANSI.search(shown)
    text = ANSI.sub("", shown)
    assert text.count("3 workers · one dispatcher") > 5, "the picture was drawn again and again"
    assert "reminder: not due yet" in text
    assert "Try next (the database is kept)" in text


def read_all(terminal: int) -> str:
    parts = []
    while True:
        try:
            part = os.read(terminal, 65_536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts).decode(errors="replace")


def test_a_story_that_ends_otherwise_ends_with_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(verdict._OTHER_ENDS, "publish", State.SKIPPED)
    ended = run(f"sqlite:///{tmp_path}/demo.db", "demo", *FAST, code=1)
    assert "✗ all 34 steps ended as expected, except: publish is Completed" in ended.stdout
    assert "did not end as expected" in ended.stderr


def test_a_paused_database_is_reported_instead_of_waiting_for_ever(shared_database_url: str) -> None:
    run(shared_database_url, "migrate")
    run(shared_database_url, "pause")
    assert "Dispatching is paused on this database" in run(shared_database_url, "demo", code=1).stdout


def test_a_claim_that_had_to_wait_is_dated_when_it_happened(
    app: Stepwell, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by the demo: a worker that waited for the tick's transaction started before it was dispatched."""
    behave(app)
    step = app.enqueue("behave")
    runner = app.inline_runner()
    transact: Callable[..., Any] = app.database.transact

    def after_the_tick(work: Callable[[Transaction], T], *, write: bool = True) -> T:
        monkeypatch.undo()
        clock.advance(1)
        app.dispatch_once()
        found: T = transact(work, write=write)
        return found

    monkeypatch.setattr(app.database, "transact", after_the_tick)
    assert len(runner.claim(1)) == 1
    _, dispatched, started = (change.at for change in app.history(step))
    assert app.step(step).started_at == started >= dispatched
    assert app.check_invariants() == []
    runner.close()


@pytest.mark.slow
def test_the_shop_gives_every_screen_something_to_show(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/demo.db"
    ended = finished("demo", "--pace", "0.1", "--seconds", "10", url=url)
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout
    assert "Dashboard: http://127.0.0.1:" in ended.stdout
    assert "/step-dispatcher/login#code=" in ended.stdout
    with Stepwell(url) as app:
        assert {workflow.state for workflow in app.workflows.newest()} >= {"complete", "error"}
        assert {cause.action for cause in app.figures.causes()} >= {"shop.order.charge", "confirm"}
        (schedule,) = app.schedules.list()
        assert schedule.disabled_by is not None, "nothing would decide its slots any more"
        assert app.schedules.executions(schedule.name)[0].status == "SUCCESS"
        assert {share.task_class for share in app.main_processes.shares()} == {"sync_prices", "sync_pictures"}
        assert app.stats().workers == []
        assert app.check_invariants() == []


@pytest.mark.slow
def test_on_a_terminal_the_shop_opens_and_ctrl_c_closes_it(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    env = {name: value for name, value in environment().items() if name != "CI"}
    with subprocess.Popen(
        [sys.executable, "-m", "stepwell.cli", "demo", "--pace", "0.1"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=env | {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24", "TMPDIR": str(tmp_path)},
    ) as started:
        os.close(slave)
        try:
            shown = ""
            while "closes in 5" not in shown:  # the line that changes: 59 s, 58 s …
                shown += os.read(master, 65_536).decode(errors="replace")
            started.send_signal(signal.SIGINT)
            shown += read_all(master)
            assert started.wait(timeout=PATIENCE) == 0, shown
        finally:
            started.kill()
    os.close(master)
    assert "Dashboard: http://127.0.0.1:" in shown
    assert "The shop is closed after " in shown


@pytest.mark.parametrize("options", [[], ["--no-web", "--seconds", "60"]])
def test_without_a_terminal_or_a_dashboard_the_demo_does_not_wait(tmp_path: Path, options: list[str]) -> None:
    ended = run(f"sqlite:///{tmp_path}/demo.db", "demo", *FAST, *options)
    assert "Dashboard" not in ended.stdout
