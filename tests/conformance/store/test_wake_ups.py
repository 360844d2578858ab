"""Every enqueue wakes those who listen, on either database."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Sequence
from contextlib import closing, suppress
from typing import Any

import pytest

from stepwell import NewStep, Stepwell, StepwellError
from stepwell.run.claim import Claimer
from stepwell.service.crew import Crew
from stepwell.store import Transaction, Wake
from stepwell.store.postgres.listener import PostgresListener
from stepwell.store.wake import ANY_WAKE
from stepwell.testing import ManualClock, behave
from tests.conformance.support.wakes import first_wakes
from tests.survival.outages import SilentProxy

pytestmark = pytest.mark.sqlite_file  # a file is watched, memory is not

WAIT_SECONDS = 30.0


def test_an_enqueue_wakes_listeners(app: Stepwell) -> None:
    with closing(app.database.listen()) as listener:
        app.enqueue("behave")
        assert Wake.WORK in first_wakes(listener)


def test_a_bulk_enqueue_wakes_listeners(app: Stepwell) -> None:
    with closing(app.database.listen()) as listener:
        app.enqueue_many(NewStep(action="behave") for _ in range(3))
        assert Wake.WORK in first_wakes(listener)


def test_a_step_with_a_concurrency_key_wakes_the_dispatcher_too(app: Stepwell) -> None:
    with closing(app.database.listen()) as listener:
        app.enqueue("behave", concurrency_key="one at a time")
        assert first_wakes(listener) >= {Wake.WORK, Wake.DECISIONS}


@pytest.mark.parametrize("many", [1, 3])
def test_a_delayed_step_wakes_the_dispatcher(app: Stepwell, many: int) -> None:
    with closing(app.database.listen()) as listener:
        app.enqueue_many(NewStep(action="behave", delay=0.1) for _ in range(many))
        assert Wake.DECISIONS in first_wakes(listener)


@pytest.mark.parametrize("fails", [True, False])
def test_a_wake_up_is_sent_again_at_once_only_if_the_first_one_was_rolled_back(postgres_url: str, fails: bool) -> None:
    """Between two calls of the same kind lie some milliseconds of silence; but what was rolled back was not told."""

    def tell(tx: Transaction) -> None:
        assert tx.wakes_to_send(Wake.WORK) == ["work"]
        if fails:
            raise StepwellError("so it is rolled back")

    with Stepwell(postgres_url, clock=ManualClock()) as app:  # a clock that stands still
        with suppress(StepwellError):
            app.database.transact(tell)
        assert app.database.transact(lambda tx: tx.wakes_to_send(Wake.WORK)) == (["work"] if fails else [])


def test_after_a_quiet_time_a_wake_up_is_taken_for_work(app: Stepwell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looked first, as it does in busier times, would find nothing here."""
    monkeypatch.setattr(Claimer, "is_there_work", lambda claimer: False)
    monkeypatch.setattr("stepwell.run.poll_times.SILENCE_SECONDS", 0.0)
    job = behave(app)
    worker = app.worker(slots=1)
    listens, files = threading.Event(), worker.files

    def files_and_say_so() -> Sequence[Any]:
        listens.set()
        return files()

    monkeypatch.setattr(worker, "files", files_and_say_so)  # asked before each wait
    crew = Crew([worker])
    thread = threading.Thread(target=crew.run)
    thread.start()
    try:
        assert listens.wait(WAIT_SECONDS)
        job.enqueue().result(timeout=WAIT_SECONDS)
    finally:
        crew.stop()
        thread.join()


@pytest.mark.parametrize("silent", [True, False])
def test_a_listener_whose_connection_went_silent_connects_again(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, silent: bool
) -> None:
    """Nothing arrives, and nothing fails: only its own notification, which does not come back, shows it."""
    monkeypatch.setattr("stepwell.store.postgres.listener.PING_SECONDS", 0.2)
    monkeypatch.setattr("stepwell.store.postgres.listener.RECONNECT_SECONDS", 0.0)
    proxy = SilentProxy(postgres_url)
    with Stepwell(postgres_url) as app, closing(proxy), closing(PostgresListener(proxy.url, None)) as listener:

        def wakes() -> Collection[Wake]:
            """The next ones; like a loop, which waits for no longer than a second at a time."""
            give_up = time.monotonic() + WAIT_SECONDS
            while not (found := listener.wait([], 0.05)):
                assert time.monotonic() < give_up
            return found

        first, pings = listener._connection, 0
        while pings < 3:  # that are heard
            pings += not listener._was_heard
            listener.wait([], 0.3)
        assert listener._connection is first
        if silent:
            proxy.silence()
            app.enqueue("behave")
            assert wakes() == ANY_WAKE
            assert wakes() == ANY_WAKE
            assert listener._connection not in (first, None)
        app.enqueue("behave")
        assert Wake.WORK in wakes()
    assert ("no response for 0.2 s" in caplog.text) == silent
