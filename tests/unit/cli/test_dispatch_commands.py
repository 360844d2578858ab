"""Dispatching from the command line: real processes, real signals, both databases."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stepwell import State, Stepwell
from stepwell.testing import behave
from tests.unit.cli.support import PATIENCE, ask, finished, other_writers_blocked, process, refuse_dispatch, run

STOPPED = r"Stopped: \d+ dispatched in \d+ ticks?; all locks released\."


@pytest.fixture
def app(shared_database_url: str) -> Iterator[Stepwell]:
    with Stepwell(shared_database_url) as app:
        behave(app)
        yield app


def url_of(app: Stepwell) -> str:
    return app.database.url


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)  # between two looks, so that the processes get a turn


def first_line(started: subprocess.Popen[str]) -> str:
    assert started.stdout is not None
    return started.stdout.readline()


# dispatch ----------------------------------------------------------------------------------------------


def test_dispatch_once_ticks_every_group_with_work_and_says_what_it_did(app: Stepwell) -> None:
    refs = [app.enqueue("behave") for _ in range(3)]
    runner = app.inline_runner()
    ended = finished("dispatch", "--once", url=url_of(app))
    assert (ended.returncode, ended.stderr) == (0, "")
    _, *rows = ended.stdout.splitlines()
    assert [row.split()[1] for row in rows] == ["alpha", "beta", "gamma"]
    assert all(row.endswith("dispatch 1") for row in rows)
    assert {app.step(ref).state for ref in refs} == {State.DISPATCHED}
    runner.close()


def test_dispatch_of_one_group_leaves_the_others_alone(app: Stepwell) -> None:
    here, there = app.enqueue("behave", group="beta"), app.enqueue("behave", group="gamma")
    runner = app.inline_runner()
    (report,) = ask(url_of(app), "dispatch", "--once", "--group", "beta")
    assert (report["group"], report["dispatched"], report["error"]) == ("beta", 1, None)
    assert (app.step(here).state, app.step(there).state) == (State.DISPATCHED, State.PENDING)
    runner.close()


def test_dispatch_without_once_goes_on_while_there_is_progress(app: Stepwell) -> None:
    top = app.enqueue("fetch")
    middle = app.enqueue("fetch", parent=top)
    app.enqueue("fetch", parent=middle)
    app.cancel(top, who="ann")
    run(url_of(app), "dispatch")
    assert {step.state for step in app.steps()} == {State.CANCELLED}


def test_an_idle_tick_says_so(app: Stepwell) -> None:
    assert run(url_of(app), "dispatch", "--once").stdout.startswith("Nothing to do")
    assert ask(url_of(app), "dispatch", "--once") == []


def test_a_paused_dispatch_says_so(app: Stepwell) -> None:
    top = app.enqueue("fetch")
    app.enqueue("fetch", parent=top)
    app.cancel(top, who="ann")
    app.breaker.pause("ann")
    ended = run(url_of(app), "dispatch")
    assert "cascade_cancellations 1" in ended.stdout
    assert "Dispatching is paused" in ended.stdout


def test_a_tick_that_raised_ends_with_1_and_its_error_on_stderr(app: Stepwell) -> None:
    app.enqueue("behave", group="beta")
    runner = app.inline_runner()
    refuse_dispatch(url_of(app))
    ended = finished("dispatch", "--once", url=url_of(app))
    assert ended.returncode == 1
    assert "failed; see stderr" in ended.stdout
    assert re.match(r"stepwell: tick \d+ of group beta failed: \w+: .*the disk is on fire", ended.stderr)
    assert ended.stderr.count("\n") == 1
    assert "the disk is on fire" in run(url_of(app), "ticks").stdout
    (report,) = ask(url_of(app), "dispatch", "--once", code=1)
    assert "the disk is on fire" in report["error"]
    runner.close()


# dispatcher --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_a_dispatcher_cleanly(app: Stepwell, number: signal.Signals) -> None:
    with process(url_of(app), "dispatcher") as started:
        assert first_line(started).startswith("Dispatching all groups of ")
        started.send_signal(number)
        out, err = started.communicate(timeout=PATIENCE)
    assert (started.returncode, err) == (0, "")
    stopping, stopped = out.splitlines()
    assert stopping == "Stopping after the current tick."
    assert re.fullmatch(STOPPED, stopped)


def test_a_signal_that_comes_twice_still_stops_it_cleanly(app: Stepwell) -> None:
    """As `timeout`, make and terminals send it: to the process and to its group."""
    app.enqueue("behave")
    runner = app.inline_runner()
    with process(url_of(app), "dispatcher") as started:
        first_line(started)
        with other_writers_blocked(url_of(app)):
            started.send_signal(signal.SIGTERM)
            assert first_line(started).startswith("Stopping")
            started.send_signal(signal.SIGTERM)
        out, _ = started.communicate(timeout=PATIENCE)
    assert started.returncode == 0
    assert re.fullmatch(STOPPED, out.strip())
    assert all(row.lock_owner is None for row in app.groups())
    runner.close()


@pytest.mark.slow
def test_two_dispatchers_at_once_dispatch_every_step_once(app: Stepwell) -> None:
    refs = [app.enqueue("behave", {"spawn": [{}, {"index": 2}]}) for _ in range(20)]
    runner = app.inline_runner(slots=4)
    with process(url_of(app), "dispatcher") as one, process(url_of(app), "dispatcher") as two:
        first_line(one)
        first_line(two)

        def all_done() -> bool:
            runner.round()
            return all(app.step(ref).state is State.COMPLETED for ref in refs)

        wait_until(all_done)
        for started in (one, two):
            assert started.poll() is None, "neither may have died"
            started.send_signal(signal.SIGTERM)
        for started in (one, two):
            assert started.communicate(timeout=PATIENCE)[1] == ""
            assert started.returncode == 0
    runner.close()
    steps = app.steps(limit=100)
    assert len(steps) == 60
    assert all([change.to_state for change in app.history(step)].count(State.DISPATCHED) == 1 for step in steps)
    assert all(row.lock_owner is None for row in app.groups())
    assert app.check_invariants() == []


def test_a_dispatcher_of_some_groups_serves_only_those(app: Stepwell) -> None:
    ours, others = app.enqueue("behave", group="beta"), app.enqueue("behave", group="gamma")
    runner = app.inline_runner()
    with process(url_of(app), "dispatcher", "--group", "alpha", "--group", "beta") as started:
        assert first_line(started).startswith("Dispatching groups alpha, beta of ")
        wait_until(lambda: app.step(ours).state is State.DISPATCHED)
        later = app.enqueue("behave", group="beta")  # dispatched in a round of its own, after a whole one
        wait_until(lambda: app.step(later).state is State.DISPATCHED)
        assert app.step(others).state is State.PENDING
    runner.close()


def test_the_log_of_ticks_goes_to_a_file(app: Stepwell, tmp_path: Path) -> None:
    step = app.enqueue("behave", group="beta")
    runner = app.inline_runner()
    with process(url_of(app), "dispatcher", "--log-file", "logs/dispatcher.log", cwd=tmp_path) as started:
        wait_until(lambda: app.step(step).state is State.DISPATCHED)
        started.send_signal(signal.SIGTERM)
        out, err = started.communicate(timeout=PATIENCE)
    assert "Logging ticks to logs/dispatcher.log." in out
    assert err == ""
    log = (tmp_path / "logs" / "dispatcher.log").read_text()
    assert re.search(r"\[TICK START\] Group: beta \| Time: \d\d:\d\d:\d\d\.\d{6}\n", log)
    assert re.search(r"\[Phase 10\] dispatch: Dispatched 1 steps \| Duration: [\d.]+ms\n", log)
    assert re.search(r"\[TICK END\] Total: [\d.]+ms \| Dispatched: 1\n", log)
    runner.close()


def test_a_verbose_dispatcher_logs_to_stderr(app: Stepwell) -> None:
    step = app.enqueue("behave", group="beta")
    runner = app.inline_runner()
    with process(url_of(app), "dispatcher", "-v") as started:
        wait_until(lambda: app.step(step).state is State.DISPATCHED)
        started.send_signal(signal.SIGTERM)
        _, log = started.communicate(timeout=PATIENCE)
    assert "[TICK END]" in log
    runner.close()


def test_a_log_that_cannot_be_written_is_reported_at_once(app: Stepwell, tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("not a folder")
    ended = finished("dispatcher", "--log-file", "logs/dispatcher.log", url=url_of(app), cwd=tmp_path)
    assert ended.returncode == 1
    assert ended.stderr.startswith("stepwell: cannot write the log to logs/dispatcher.log: ")


def test_a_dispatcher_survives_ticks_that_raise(app: Stepwell) -> None:
    app.enqueue("behave", group="beta")
    runner = app.inline_runner()
    refuse_dispatch(url_of(app))
    with process(url_of(app), "dispatcher") as started:
        wait_until(lambda: len(app.ticks()) >= 2)
        started.send_signal(signal.SIGTERM)
        _, err = started.communicate(timeout=PATIENCE)
    assert started.returncode == 0
    assert "the disk is on fire" in err
    runner.close()


def test_a_dispatcher_says_when_dispatching_is_paused(app: Stepwell) -> None:
    app.breaker.pause("ann")
    with process(url_of(app), "dispatcher") as started:
        first_line(started)
        assert "Dispatching is paused (`stepwell resume`)" in first_line(started)
