"""Settling: everything runs, at the moments at which it is due, without waiting."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from stepwell import State, Stepwell, StepwellError, current_step
from stepwell.testing import ManualClock, behave, run, settle


@pytest.fixture
def app() -> Iterator[Stepwell]:
    with Stepwell("sqlite://", clock=ManualClock()) as app:
        behave(app)
        yield app


def test_a_backoff_passes_at_the_moment_it_ends(app: Stepwell) -> None:
    started = []

    @app.job(retries=2, backoff=[10, 100])
    def flaky() -> int:
        started.append((app.clock.now() - begin).total_seconds())
        if len(started) < 3:
            raise ConnectionError("no")
        return 7

    begin = app.clock.now()
    assert run(flaky).result(0) == 7
    assert started == [0, 10, 110]


def test_within_lets_exactly_this_much_time_pass(app: Stepwell) -> None:
    job = app.jobs["behave"]
    early, late = job.options(delay=60).enqueue(), job.options(delay=3600).enqueue()
    begin = app.clock.now()
    assert settle(app, within=timedelta(minutes=10)) == 1
    assert app.clock.now() - begin == timedelta(minutes=10)
    assert (early.step().state, late.step().state) == (State.COMPLETED, State.PENDING)
    assert settle(app) == 1
    assert app.clock.now() - begin == timedelta(hours=1)


def test_a_gate_expires(app: Stepwell) -> None:
    flow = app.workflows().workflow("flow")
    flow.gate("approval", expires=timedelta(days=14))
    begin = app.clock.now()
    started = run(flow)
    assert (started.state, started.step("approval").reason) == ("error", "gate_expired")
    assert app.clock.now() - begin == timedelta(days=14)


def test_a_gate_without_an_end_stays_open_and_can_be_answered(app: Stepwell) -> None:
    flow = app.workflows().workflow("flow")
    gate = flow.gate("approval", result=bool)
    started = run(flow)
    assert started.state == "in_progress" or started.step("approval").state is State.PENDING
    started.answer(gate, True, who="ann")
    settle(app)
    assert started.state == "complete"


def test_timeout_reached_follows_the_clock_and_a_run_beyond_its_cooldown_is_cut(app: Stepwell) -> None:
    reached = []

    @app.job(timeout=30, cooldown=5, max_not_completed=1)
    def slow(seconds: float) -> str:
        app.clock.sleep(seconds)
        reached.append(current_step().timeout_reached)
        return "done"

    assert run(slow, 29).result(0) == "done"
    assert run(slow, 34).result(0) == "done"
    cut = run(slow, 36).step()
    assert (cut.state, cut.response) == (State.FAILED, None)
    assert "run abandoned 5 s after its timeout of 30 s" in str(cut.error_message)
    assert reached[:3] == [False, True, True]


def test_a_job_that_always_reschedules_itself_is_named(app: Stepwell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepwell.testing.settling.MAX_MOVES", 5)
    app.jobs["behave"].options(label="poll").enqueue("throttle", seconds=1)
    with pytest.raises(StepwellError, match=r"moved 5 times.* step 1 \(poll\).*pass within="):
        settle(app)
    assert settle(app, within=3) == 3


def test_a_clock_that_cannot_be_moved_is_refused_before_anything_is_written() -> None:
    app = Stepwell("sqlite://")
    job = behave(app)
    with pytest.raises(StepwellError, match="SystemClock, which cannot be moved; use a ManualClock"):
        run(job)
    with pytest.raises(StepwellError, match="cannot be moved"):
        settle(app)
    assert app.steps() == []


def test_a_clock_never_goes_back() -> None:
    clock = ManualClock()
    clock.advance(timedelta(minutes=1))
    assert clock.monotonic() == 60
    with pytest.raises(ValueError, match="cannot be moved back"):
        clock.advance(-1)
