"""The inline runner: what it has claimed is run or handed back, also after an interrupt."""

from __future__ import annotations

import pytest

from stepwell import Stepwell
from stepwell.run import heartbeat
from stepwell.run.worker_row import WorkerRow
from stepwell.store.engine import reaping
from stepwell.testing import ManualClock, behave

pytestmark = pytest.mark.sqlite_file  # its heartbeat is another thread


def test_an_interrupt_hands_back_the_steps_that_have_not_begun(app: Stepwell) -> None:
    began: list[int] = []

    @app.job(retries=0)
    def work(number: int) -> None:
        began.append(number)
        if len(began) == 1:
            raise KeyboardInterrupt

    handles = [work.enqueue(number) for number in range(5)]
    with pytest.raises(KeyboardInterrupt):
        app.run_until_idle()
    assert {str(handle.step().state) for handle in handles} == {"Pending"}
    assert {(handle.step().attempts, handle.step().rescues) for handle in handles} == {(0, 0)}
    app.run_until_idle()
    assert {str(handle.step().state) for handle in handles} == {"Completed"}
    assert sorted(began) == [0, 0, 1, 2, 3, 4]
    assert app.check_invariants() == []


def test_a_long_run_is_not_taken_for_dead(app: Stepwell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "HEARTBEATS_PER_LEASE", 3_000)
    beats: list[str] = []
    monkeypatch.setattr(WorkerRow, "heartbeat", lambda row: beats.append(row.id))

    @app.job()
    def long() -> None:
        while len(beats) < 3:
            pass

    long.enqueue()
    assert app.run_until_idle() == 1


def test_the_runner_writes_its_heartbeat_after_a_third_of_its_lease(app: Stepwell, clock: ManualClock) -> None:
    runner = app.inline_runner()
    runner.worker.alive_seconds = 3.0
    beats = []
    for seconds in (0.9, 0.2, 0.9, 0.2):
        clock.advance(seconds)
        runner.heartbeat()
        (worker,) = app.database.read(reaping.heartbeats)
        beats.append(worker.heartbeat_at == clock.now())
    runner.close()
    assert beats == [False, True, False, True]


def test_an_end_that_the_database_refuses_fails_that_step_alone(app: Stepwell, monkeypatch: pytest.MonkeyPatch) -> None:
    job = behave(app)
    handles = [job.enqueue() for _ in range(3)]
    runner = app.inline_runner()
    app.dispatcher().run_until_quiet()
    write = runner._finisher.write
    refused: list[int] = []

    def refuse_the_first(claim: object, ending: object) -> object:
        if not refused:
            refused.append(1)
            raise OverflowError("date value out of range")
        return write(claim, ending)  # type: ignore[arg-type]

    monkeypatch.setattr(runner._finisher, "write", refuse_the_first)
    runner.round()
    states = [str(handle.step().state) for handle in handles]
    assert states == ["Failed", "Completed", "Completed"]
    assert "cannot be written" in str(handles[0].step().error_message)
    runner.close()
