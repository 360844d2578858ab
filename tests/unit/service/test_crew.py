"""A crew: parts that start and stop together, gently or at once, by hand or by a signal."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from stepwell.model.errors import DatabaseUnavailable
from stepwell.service import crew as crews
from stepwell.service.crew import SAME_SIGNAL_SECONDS, Crew
from tests.unit.cli.support import PATIENCE, environment
from tests.unit.service.parts import HOUR, FakePart, in_thread, wait


def _noting(name: str, threads: dict[str, str], started: threading.Event) -> FakePart:
    def work(part: FakePart) -> float:
        threads[name] = threading.current_thread().name
        if len(threads) == 3:
            started.set()
        return HOUR

    return FakePart(name, work)


@pytest.fixture
def three() -> tuple[list[FakePart], dict[str, str], threading.Event]:
    """Three parts, the threads in which they run, and an event that is set when all of them do."""
    threads: dict[str, str] = {}
    started = threading.Event()
    return [_noting(name, threads, started) for name in ("one", "two", "three")], threads, started


def test_the_first_part_runs_in_the_calling_thread_and_the_others_beside_it(
    three: tuple[list[FakePart], dict[str, str], threading.Event],
) -> None:
    parts, threads, started = three
    crew = Crew(parts)
    with in_thread(crew.run) as caller:
        wait(started)
        crew.stop()
    assert threads == {"one": caller.name, "two": "stepwell-two", "three": "stepwell-three"}
    assert [part.calls for part in parts] == [["open", "close"]] * 3


def test_the_others_are_stopped_when_the_first_is_done(
    three: tuple[list[FakePart], dict[str, str], threading.Event],
) -> None:
    parts, _, started = three
    parts[0].needs_grace = True
    crew = Crew(parts)
    with in_thread(crew.run):
        wait(started)
        crew.stop()
        assert [part.stops for part in parts] == [[False], [], []]
        parts[0].needs_grace = False
        crew._first.stop()  # as if its last run had ended
    assert [part.stops for part in parts[1:]] == [[False], [False]]


@pytest.mark.parametrize(("seconds", "stops"), [(HOUR, [False]), (0.0, [False, True])])
def test_to_ask_again_means_at_once_unless_it_was_the_same_moment(
    monkeypatch: pytest.MonkeyPatch, seconds: float, stops: list[bool]
) -> None:
    monkeypatch.setattr(crews, "SAME_SIGNAL_SECONDS", seconds)
    part = FakePart()
    crew = Crew([part])
    crew.stop()
    crew.stop()
    assert part.stops == stops


def test_at_once_is_meant_for_all(
    three: tuple[list[FakePart], dict[str, str], threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crews, "SAME_SIGNAL_SECONDS", 0.0)
    parts, _, started = three
    for part in parts:
        part.needs_grace = True
    crew = Crew(parts)
    with in_thread(crew.run):
        wait(started)
        crew.stop()
        crew.stop()
    assert all(True in part.stops for part in parts)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_error_at_the_start_of_one_ends_all_and_is_raised(
    three: tuple[list[FakePart], dict[str, str], threading.Event], monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    parts, _, _ = three

    def fail() -> None:
        raise DatabaseUnavailable(f"of part {place}")

    monkeypatch.setattr(parts[place], "open", fail)
    with pytest.raises(DatabaseUnavailable, match=f"of part {place}"):
        Crew(parts).run()
    assert [part.calls for part in parts if part is not parts[place]] == [["open", "close"]] * 2


def test_a_part_that_raises_in_its_rounds_keeps_no_other_from_working(
    three: tuple[list[FakePart], dict[str, str], threading.Event],
) -> None:
    parts, _, started = three

    def fail(part: FakePart) -> float:
        raise ZeroDivisionError

    crew = Crew([*parts, FakePart("broken", fail)])
    with in_thread(crew.run):
        wait(started)
        crew.stop()


def test_a_crew_reports_what_its_parts_have_to_say(
    three: tuple[list[FakePart], dict[str, str], threading.Event],
) -> None:
    parts, _, _ = three
    parts[0].said, parts[2].said = "3 steps claimed", "1 rescued"
    assert Crew(parts).report() == "3 steps claimed; 1 rescued"


# signals, in a process of their own -------------------------------------------------------------------------------

PROGRAM = """
import os
import time

from stepwell.service.crew import Crew
from tests.unit.service.parts import HOUR, FakePart

def work(part):
    os.write(1, f"round, stops {part.stops}\\n".encode())
    if HANGS:
        time.sleep(HOUR)
    return HOUR

part = FakePart(work=work)
part.needs_grace = GRACE
with Crew([part, FakePart("other")], on_signal=lambda: os.write(1, b"signal\\n")) as crew:
    crew.run()
os.write(1, f"ended, stops {part.stops}\\n".encode())
"""


@contextmanager
def _program(*, grace: bool, hangs: bool = False) -> Iterator[tuple[subprocess.Popen[str], Callable[[], str]]]:
    """It has had its first round."""
    program = PROGRAM.replace("GRACE", str(grace)).replace("HANGS", str(hangs))
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=environment()) as run:
        assert run.stdout is not None
        try:
            assert run.stdout.readline() == "round, stops []\n"
            yield run, run.stdout.readline
        finally:
            run.kill()


def _wait_for_another_signal(run: subprocess.Popen[str]) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run.wait(SAME_SIGNAL_SECONDS + 0.1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_a_crew_gently(number: signal.Signals) -> None:
    with _program(grace=False) as (run, line):
        run.send_signal(number)
        assert (line(), line()) == ("signal\n", "ended, stops [False]\n")
        assert run.wait(PATIENCE) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_stops_it_at_once(number: signal.Signals) -> None:
    with _program(grace=True) as (run, line):
        run.send_signal(number)
        assert (line(), line()) == ("signal\n", "round, stops [False]\n")
        run.send_signal(number)  # the same one, sent to the group as well
        _wait_for_another_signal(run)
        run.send_signal(number)
        assert line() == "ended, stops [False, True]\n"
        assert run.wait(PATIENCE) == 0


def test_a_third_signal_ends_what_hangs() -> None:
    with _program(grace=True, hangs=True) as (run, line):
        run.send_signal(signal.SIGTERM)
        assert line() == "signal\n"
        _wait_for_another_signal(run)
        run.send_signal(signal.SIGTERM)
        _wait_for_another_signal(run)
        run.send_signal(signal.SIGTERM)
        assert run.wait(PATIENCE) == -signal.SIGTERM


def test_the_handlers_of_before_are_back_afterwards() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with Crew([FakePart()]) as crew:
        assert signal.getsignal(signal.SIGTERM) not in before
        crew.stop()
        crew.run()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
