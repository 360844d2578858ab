"""Stopping: no new work, a grace period, then handed back unspent; a second signal stops at once (SPEC 6)."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress

import pytest

from stepwell.service.crew import SAME_SIGNAL_SECONDS
from tests.survival.support import WAIT_SECONDS, Well, is_there


@pytest.mark.parametrize("executor", ["process", "thread"])
def test_after_a_signal_running_steps_get_the_grace_period_and_nothing_new_begins(well: Well, executor: str) -> None:
    """The signal goes to every process of the service, as service managers send it."""
    worker = well.start("up", executor=executor, options=["--grace", "3"])
    well.add("short", "wait", go="go")
    well.add("long", "wait", go="never")
    well.until_began("short")
    well.until_began("long")
    well.add("waiting")
    family = set(worker.family())
    assert len(family) >= (3 if executor == "process" else 1)
    for pid in (worker.pid, *family):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    well.say("go")
    well.until_states(short="Completed")
    assert all(map(is_there, family))
    assert worker.process.wait(WAIT_SECONDS) == 0, worker.said
    well.until_gone(family)
    assert (str(well["short"].state), well["short"].rescues) == ("Completed", 0)
    assert ("Pending", "handed_back") in well.path("long")  # the dispatcher may have had the last word
    assert (well["long"].attempts, well["long"].rescues, well["long"].lease_worker) == (0, 0, None)
    assert str(well["waiting"].state) in ("Pending", "Dispatched")
    assert not well.entries("began", "waiting")
    assert well.app.breaker.safe_to_restart().running == 0


@pytest.mark.parametrize("executor", ["process", "thread", "async"])
def test_a_second_signal_stops_at_once(well: Well, executor: str) -> None:
    worker = well.start(executor=executor, options=["--grace", "600"])
    well.add("hung", "swallow")
    began = well.until_began("hung")
    family = set(worker.family())
    worker.signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):  # two at once are taken for one that was sent to all
        worker.process.wait(SAME_SIGNAL_SECONDS + 0.1)
    worker.signal(signal.SIGINT)
    assert worker.process.wait(WAIT_SECONDS) == 0, worker.said
    well.until_gone({*family, began.pid})
    step = well["hung"]
    assert (str(step.state), step.reason, step.attempts) == ("Pending", "handed_back", 0)
