"""Short steps are prefetched for a slot: whatever happens to the running one, those behind it are not affected."""

from __future__ import annotations

import socket
import time
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from stepwell import Stepwell
from stepwell.model.claimed import Claim
from stepwell.model.clock import since_boot
from stepwell.run.claim import Claimer
from stepwell.run.ending import Ended
from stepwell.run.executors import PREFETCH_SECONDS, run_queue
from stepwell.run.executors.processes import PREFETCH_LIMIT, ProcessExecutor
from stepwell.run.executors.run_queue import UNREAD_MESSAGES
from stepwell.run.finish import Finisher
from stepwell.run.worker_row import WorkerRow
from stepwell.store import database
from stepwell.store.sqlite import connections as sqlite
from tests.unit.run import prefetched_jobs

SHORT = 0.0001
WAIT_SECONDS = 10.0


class Channel:
    """An executor of processes, claimed steps for it, and the diary of what ran."""

    def __init__(self, folder: Path, slots: int) -> None:
        self.app = prefetched_jobs.define(Stepwell(f"sqlite:///{folder}/steps.db"))
        database = self.app.database
        self._diary = folder / "diary"
        self._claimer = Claimer(database, WorkerRow(database, (), ["act"], slots))
        self._finisher = Finisher(database)
        self.executor = ProcessExecutor(database, self._finisher, "tests.unit.run.prefetched_jobs:app", slots)
        self.until(lambda: self.executor.free() == slots)

    def claims(self, *deeds: str, padding: str = "", **settings: Any) -> deque[Claim]:
        """Claimed steps, one for each deed, labelled by their numbers."""
        for number, deed in enumerate(deeds):
            said = {"diary": str(self._diary), "deed": deed, "padding": padding}
            self.app.enqueue("act", said, label=str(number), **settings)
        claimed = self.app.database.transact(lambda tx: self._claimer.claim(tx, len(deeds)))
        assert len(claimed) == len(deeds)
        return deque(claimed)

    def go(self, word: str = "go") -> None:
        Path(f"{self._diary}.{word}").touch()

    @property
    def ran(self) -> list[str]:
        return self._diary.read_text().split() if self._diary.exists() else []

    def until(self, condition: Any) -> list[Ended]:
        """Collect until something is true; what has ended."""
        ended: list[Ended] = []
        give_up = time.monotonic() + WAIT_SECONDS
        while True:
            ended += self.executor.collect()
            if condition():
                return ended
            assert time.monotonic() < give_up, (self.ran, ended)
            time.sleep(0.001)

    def until_ended(self, count: int) -> dict[str, str]:
        """The verbs of this many endings, by label."""
        ended: list[Ended] = []
        give_up = time.monotonic() + WAIT_SECONDS
        while len(ended) < count:
            assert time.monotonic() < give_up, (self.ran, ended)
            ended += self.executor.collect()
            time.sleep(0.001)
        assert len({claim.key for claim, _ in ended}) == count
        return {str(claim.step.label): ending.verb for claim, ending in ended}

    def close(self) -> None:
        self.executor.close()
        self.app.close()


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Channel]:
    line = Channel(tmp_path, slots=1)
    yield line
    line.close()


@pytest.fixture
def two_lines(tmp_path: Path) -> Iterator[Channel]:
    line = Channel(tmp_path, slots=2)
    yield line
    line.close()


def test_short_steps_are_prefetched_and_run_in_order(line: Channel) -> None:
    waiting = line.claims(*[""] * 50)
    assert len(line.executor.start(waiting, SHORT)) == 50
    assert (line.executor.free(), line.executor.prefetched(), len(waiting)) == (0, 49, 0)
    assert set(line.until_ended(50).values()) == {"finish"}
    assert line.ran == [str(number) for number in range(50)]
    assert (line.executor.free(), line.executor.prefetched()) == (1, 0)


def test_prefetched_steps_are_spread_evenly_over_the_slots(two_lines: Channel) -> None:
    two_lines.executor.start(two_lines.claims(*["wait"] * 7), SHORT)
    assert (two_lines.executor.free(), two_lines.executor.prefetched()) == (0, 5)
    two_lines.go()
    two_lines.until_ended(7)


@pytest.mark.parametrize("seconds_per_step", [None, 2 * PREFETCH_SECONDS])
def test_only_short_steps_are_prefetched(line: Channel, seconds_per_step: float | None) -> None:
    waiting = line.claims("", "", "")
    assert [claim.step.label for claim in line.executor.start(waiting, seconds_per_step)] == ["0"]
    assert len(waiting) == 2


def test_the_prefetch_is_bounded_by_the_duration_of_its_steps_and_by_a_maximum(
    line: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_queue, "PREFETCH_SECONDS", WAIT_SECONDS)  # on a busy machine, the first run looks stalled
    waiting = line.claims(*["wait"] * (PREFETCH_LIMIT + 5))
    assert len(line.executor.start(waiting, PREFETCH_SECONDS / 4)) == 4
    assert len(line.executor.start(waiting, 0.0)) == PREFETCH_LIMIT - 4
    line.go()


def test_a_step_with_a_time_limit_is_not_prefetched(line: Channel) -> None:
    waiting = line.claims("wait", "", timeout=60.0)
    assert len(line.executor.start(waiting, SHORT)) == 1
    line.go()
    line.until_ended(1)
    assert len(line.executor.start(waiting, SHORT)) == 1


def test_large_arguments_behind_a_step_that_waits_do_not_hold_up_the_worker(line: Channel) -> None:
    waiting = line.claims("wait")
    waiting += line.claims("", "", padding="x" * 500_000)
    assert len(line.executor.start(waiting, SHORT)) == 1
    line.go()
    line.until_ended(1)
    while waiting:
        assert len(line.executor.start(waiting, SHORT)) == 1
        line.until_ended(1)
    assert line.ran == ["0", "0", "1"]


def test_steps_prefetched_behind_a_long_step_are_handed_back_and_never_begin(line: Channel) -> None:
    line.executor.start(line.claims("wait", "", "", ""), SHORT)
    line.until(lambda: line.ran and line.executor._slots[0].queue.is_occupied(time.monotonic()))
    withdrawn = line.executor.withdraw()
    assert [claim.step.label for claim in withdrawn] == ["1", "2", "3"]
    assert line.executor.prefetched() == 0
    assert line.executor.start(deque(withdrawn), SHORT) == [], "the slot is held up"
    line.go()
    line.until_ended(1)
    assert line.ran == ["0"]

    line.executor.start(deque(withdrawn), SHORT)
    line.until_ended(3)
    assert line.ran == ["0", "1", "2", "3"]


def test_nothing_is_given_back_in_time_unless_everything_is_wanted(line: Channel) -> None:
    line.executor.start(line.claims("wait", "", ""), SHORT)
    line.until(lambda: line.ran)
    line.executor._slots[0].queue.started_at = time.monotonic() + 60  # however slow this machine is
    assert line.executor.withdraw() == []
    assert len(line.executor.withdraw(everything=True)) == 2
    line.go()
    line.until_ended(1)


def test_no_step_runs_twice_while_prefetched_steps_are_recalled_again_and_again(two_lines: Channel) -> None:
    waiting = two_lines.claims(*[""] * 200)
    ended: list[Ended] = []
    while len(ended) < 200:
        two_lines.executor.start(waiting, SHORT)
        waiting.extendleft(reversed(two_lines.executor.withdraw(everything=True)))
        ended += two_lines.executor.collect()
    assert Counter(two_lines.ran) == Counter(map(str, range(200)))


def test_a_death_counts_for_the_step_that_ran_and_for_none_behind_it(line: Channel) -> None:
    line.executor.start(line.claims("", "", "kill", "", ""), SHORT)
    assert line.until_ended(3) == {"0": "finish", "1": "finish", "2": "rescue"}
    withdrawn = line.executor.withdraw()
    assert [claim.step.label for claim in withdrawn] == ["3", "4"]
    line.until(lambda: line.executor.free() == 1)
    line.executor.start(deque(withdrawn), SHORT)
    assert line.until_ended(2) == {"3": "finish", "4": "finish"}
    assert line.ran == ["0", "1", "2", "3", "4"]


def test_killing_a_run_hands_back_the_steps_prefetched_behind_it(line: Channel) -> None:
    first, *others = taken = line.executor.start(line.claims("wait", "", ""), SHORT)
    line.until(lambda: line.ran)
    line.executor.abandon(first)
    assert line.executor.withdraw() == others
    assert line.until(lambda: line.executor.free() == 1) == []
    assert len(taken) == 3


def test_killing_a_step_that_has_not_begun_affects_no_other(line: Channel) -> None:
    first, second, third = line.executor.start(line.claims("wait", "", ""), SHORT)
    line.until(lambda: line.ran)
    line.executor.abandon(second)
    assert line.executor.withdraw() == [third]
    line.go()
    assert line.until_ended(1) == {first.step.label: "finish"}
    assert line.ran == ["0"]


def test_killing_a_run_that_has_just_ended_affects_no_other(line: Channel) -> None:
    first, second = line.executor.start(line.claims("", "wait"), SHORT)
    line_of_slot = line.executor._slots[0].queue.runs
    while line.ran != ["0", "1"]:  # it has said so, and nobody has listened
        time.sleep(0.001)
    assert [claim for _, claim in line_of_slot] == [first, second]
    line.executor.abandon(first)
    line.go()
    assert line.until_ended(1) == {"1": "finish"}


def test_the_answer_to_a_request_reaches_a_slot_with_prefetched_steps(line: Channel) -> None:
    waiting = line.claims("checkpoint", "", "checkpoint", "")
    line.executor.start(waiting, SHORT)
    assert set(line.until_ended(4).values()) == {"finish"}
    assert line.ran == ["0", "1", "2", "3"]


def test_a_cancelled_step_is_notified_but_not_the_one_before_it(line: Channel) -> None:
    first, second = line.executor.start(line.claims("wait", "wait more"), SHORT)
    line.until(lambda: line.ran)
    queue = line.executor._slots[0].queue
    line.executor.request_cancel(second)
    assert queue.cancelled.value == 0
    line.go()
    line.until(lambda: queue.claim is second)
    assert queue.cancelled.value == queue.runs[0][0]
    line.go("more")
    line.until_ended(1)
    line.executor.request_cancel(first)  # it is over: nothing happens


def test_a_step_that_its_slot_had_not_read_is_not_charged_with_the_death(line: Channel) -> None:
    (first, second) = line.executor.start(line.claims("wait", ""), SHORT)
    line.until(lambda: line.ran)
    line.executor._slots[0].queue.forget(first)  # as if it had just said that it has ended
    line.executor._slots[0].kill()
    assert line.until(lambda: line.executor.free() == 1) == []
    assert line.executor.withdraw() == [second]


def test_what_a_job_writes_into_the_pipe_costs_no_other_step_more_than_time(line: Channel) -> None:
    line.executor.start(line.claims("nonsense", "", "wait", ""), SHORT)
    while line.ran != ["0", "1", "2"]:  # the worker has not listened yet
        time.sleep(0.001)
    assert line.until_ended(3) == {"0": "rescue", "1": "hand_back", "2": "hand_back"}
    assert [claim.step.label for claim in line.executor.withdraw()] == ["3"]


def test_killing_a_run_whose_process_has_just_died_is_harmless(line: Channel) -> None:
    (first, second) = line.executor.start(line.claims("kill", ""), SHORT)
    while line.executor._slots[0].is_alive():
        time.sleep(0.001)
    line.executor.abandon(first)
    assert line.executor.withdraw() == [second]
    assert line.until(lambda: line.executor.free() == 1) == []


def test_a_program_with_a_default_socket_timeout_works(line: Channel) -> None:
    socket.setdefaulttimeout(5.0)
    try:
        line.executor.start(line.claims("wait", ""), SHORT)
        line.until(lambda: line.ran)
        assert len(line.executor.withdraw(everything=True)) == 1
        assert line.executor.withdraw(everything=True) == []
        line.go()
        line.until_ended(1)
        line.executor.start(line.claims(""), SHORT)
        line.until_ended(1)
    finally:
        socket.setdefaulttimeout(None)


def test_the_prefetch_never_exceeds_what_the_pipe_holds(line: Channel) -> None:
    waiting = line.claims("wait", *[""] * 50)
    queue = line.executor._slots[0].queue
    while line.executor.start(deque([waiting[0]]), SHORT):
        waiting.popleft()
        queue.started_at = time.monotonic() + 60  # however slow this machine is
    assert len(queue.runs) == UNREAD_MESSAGES
    line.go()
    while waiting or line.executor.prefetched() or not line.executor.free():
        line.executor.start(waiting, SHORT)
        line.executor.collect()
    assert len(line.ran) == 51


def test_a_step_whose_own_transaction_blocks_its_checkpoint_gets_an_error_that_says_so(
    line: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.02)
    monkeypatch.setattr(database, "CONFLICT_TRIES", 2)
    waiting = line.claims("checkpoint in its own way", "")
    line.executor.start(waiting, SHORT)
    assert line.until_ended(2) == {"0": "retry_later", "1": "finish"}


def test_a_prefetched_step_does_not_begin_after_the_lease_of_its_worker_has_expired(line: Channel) -> None:
    """The worker was suspended with its steps in the pipe, and others have run them since."""
    first, second, third = line.claims("wait", "", "")
    expired = [replace(claim, begin_before=since_boot() + 0.1) for claim in (second, third)]
    line.executor.start(deque([first, *expired]), SHORT)
    line.until(lambda: line.ran == ["0"] and not expired[0].may_begin())
    line.go()
    assert line.until_ended(3) == {"0": "finish", "1": "hand_back", "2": "hand_back"}
    assert line.ran == ["0"]
    line.executor.start(line.claims(""), SHORT)
    assert line.until_ended(1) == {"0": "finish"}
