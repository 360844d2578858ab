"""The loop that runs every part: what wakes it, what it does about errors, and how it ends."""

from __future__ import annotations

import logging
import threading

import pytest

from stepwell.model.errors import DatabaseUnavailable
from stepwell.service import retry_delay
from stepwell.service.loop import Loop
from stepwell.service.retry_delay import RetryDelay
from stepwell.service.wakeup import WakePipe
from stepwell.store import Wake
from stepwell.store.sqlite.listener import CommitListener
from stepwell.store.wake import ANY_WAKE
from tests.unit.service.parts import HOUR, FakePart, in_thread, wait


@pytest.fixture
def second_round() -> threading.Event:
    return threading.Event()


def _says_when(event: threading.Event, rounds: int, pause: float = HOUR) -> FakePart:
    """Sets the event in that round."""

    def work(part: FakePart) -> float:
        if part.rounds == rounds:
            event.set()
        return pause

    return FakePart(work=work)


def test_a_part_that_never_sleeps_can_be_stopped() -> None:
    many = threading.Event()
    loop = Loop(_says_when(many, 100, pause=0.0))
    with in_thread(loop.run):
        wait(many)
        loop.stop()


def test_a_part_that_sleeps_is_woken_to_stop() -> None:
    sleeps = threading.Event()
    loop = Loop(_says_when(sleeps, 1))
    with in_thread(loop.run):
        wait(sleeps)
        loop.stop()
    assert loop.part.calls == ["open", "close"]  # type: ignore[attr-defined]


def test_a_part_that_can_wait_begins_later(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    began = threading.Event()
    part = _says_when(began, 1)
    monkeypatch.setattr(type(part), "first_round_after", HOUR)
    monkeypatch.setattr(WakePipe, "wait", lambda pipe, seconds: waited.append(seconds))
    loop = Loop(part)
    with in_thread(loop.run):
        wait(began)
        loop.stop()
    assert waited == [HOUR]


def test_a_part_that_is_stopped_before_its_late_begin_does_no_round(monkeypatch: pytest.MonkeyPatch) -> None:
    part = FakePart()
    monkeypatch.setattr(FakePart, "first_round_after", HOUR)
    loop = Loop(part)
    monkeypatch.setattr(WakePipe, "wait", lambda pipe, seconds: loop.stop())
    loop.run()
    assert (part.calls, part.rounds) == (["open", "close"], 0)


def test_what_was_stopped_before_it_began_does_no_round() -> None:
    part = FakePart()
    loop = Loop(part)
    loop.stop()
    loop.run()
    assert (part.calls, part.rounds) == (["open", "close"], 0)


def test_a_readable_file_brings_the_next_round_forward(second_round: threading.Event) -> None:
    part, file = _says_when(second_round, 2), WakePipe()
    part.waits_for = [file]
    loop = Loop(part)
    with in_thread(loop.run):
        file.wake()
        wait(second_round)
        loop.stop()


def test_a_wake_up_brings_the_next_round_forward_and_is_given_to_it(second_round: threading.Event) -> None:
    commits = [0]
    part = _says_when(second_round, 2)
    part.heard = CommitListener(lambda: commits[0])
    loop = Loop(part)
    with in_thread(loop.run):
        commits[0] = 1
        wait(second_round)
        loop.stop()
    assert part.wakes == [ANY_WAKE, ANY_WAKE]


def test_a_part_that_never_sleeps_hears_wake_ups_too() -> None:
    """The first round is told everything; then there is nothing, until something is committed."""
    commits, heard = [0], threading.Event()

    def work(part: FakePart) -> float:
        if part.rounds == 3:
            commits[0] = 1
        if part.rounds > 3 and Wake.WORK in part.wakes[-1]:
            heard.set()
        return 0.0

    part = FakePart(work=work)
    part.heard = CommitListener(lambda: commits[0])
    loop = Loop(part)
    with in_thread(loop.run):
        wait(heard)
        loop.stop()
    assert part.wakes[1:3] == [(), ()]


def test_a_part_with_something_left_to_do_gets_rounds_until_it_is_done() -> None:
    stopped, rounds = threading.Event(), []

    def work(part: FakePart) -> float:
        if part.stops:
            rounds.append(part.rounds)
            part.needs_grace = len(rounds) < 3
            return 0.0
        stopped.set()
        return HOUR

    part = FakePart(work=work)
    part.needs_grace = True
    loop = Loop(part)
    with in_thread(loop.run):
        wait(stopped)
        loop.stop()
    assert (part.stops, len(rounds)) == ([False], 3)


def test_to_be_stopped_at_once_ends_a_part_that_is_not_done() -> None:
    sleeps, has_been_asked = threading.Event(), threading.Event()

    def work(part: FakePart) -> float:
        (has_been_asked if part.stops else sleeps).set()
        return HOUR

    part = FakePart(work=work)
    part.needs_grace = True
    loop = Loop(part)
    with in_thread(loop.run):
        wait(sleeps)
        loop.stop()
        wait(has_been_asked)
        loop.stop(at_once=True)
    assert (part.stops, part.rounds) == ([False, True], 2)


# errors ---------------------------------------------------------------------------------------------------------


def test_a_round_that_fails_is_repeated_and_knows_nothing_of_what_it_missed(
    second_round: threading.Event, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(retry_delay, "FAILURE_SECONDS", (0.001, 0.001))

    def work(part: FakePart) -> float:
        if part.rounds == 1:
            raise DatabaseUnavailable("gone")
        if part.rounds == 2:
            raise ZeroDivisionError
        second_round.set()
        return HOUR

    part = FakePart(work=work)
    loop = Loop(part)
    with in_thread(loop.run):
        wait(second_round)
        loop.stop()
    assert part.wakes == [ANY_WAKE] * 3
    ours, unknown = caplog.records
    assert ours.getMessage() == "fake failed; retrying in 0.0 s: gone"
    assert (ours.levelno, bool(ours.exc_info)) == (logging.WARNING, False)
    assert (unknown.levelno, bool(unknown.exc_info)) == (logging.ERROR, True)


def test_to_stop_does_not_wait_for_the_next_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry_delay, "FAILURE_SECONDS", (HOUR, HOUR))
    failed = threading.Event()

    def work(part: FakePart) -> float:
        failed.set()
        raise DatabaseUnavailable("gone")

    loop = Loop(FakePart(work=work))
    with in_thread(loop.run):
        wait(failed)
        loop.stop()


def test_a_part_that_fails_after_it_was_stopped_is_not_tried_without_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry_delay, "FAILURE_SECONDS", (HOUR, HOUR))
    tries = [threading.Event() for _ in range(3)]

    def work(part: FakePart) -> float:
        tries[min(part.rounds, 3) - 1].set()
        raise DatabaseUnavailable("gone")

    part = FakePart(work=work)
    part.needs_grace = True
    loop = Loop(part)
    with in_thread(loop.run):
        wait(tries[0])
        loop.stop()
        wait(tries[1])
        assert not tries[2].wait(0.1)
        loop.stop(at_once=True)


def test_an_error_at_the_start_is_not_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    part = FakePart()

    def fail() -> None:
        raise DatabaseUnavailable("gone")

    monkeypatch.setattr(part, "open", fail)
    with pytest.raises(DatabaseUnavailable):
        Loop(part).run()
    assert (part.rounds, part.calls) == (0, [])


def test_whatever_ends_the_loop_the_part_is_closed() -> None:
    def work(part: FakePart) -> float:
        raise KeyboardInterrupt

    part = FakePart(work=work)
    with pytest.raises(KeyboardInterrupt):
        Loop(part).run()
    assert part.calls == ["open", "close"]


def test_delays_double_up_to_their_limit_and_begin_anew_after_a_success() -> None:
    delay = RetryDelay((1.0, 4.0))
    for longest in (1.0, 2.0, 4.0, 4.0):
        assert 0.5 * longest <= delay.next() <= longest
    delay.reset()
    assert delay.next() <= 1.0
