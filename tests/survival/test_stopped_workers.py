"""A worker that was stopped beyond its lease, and goes on: its late word does not count (SPEC 6, 11.2)."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tests.survival.support import Well


@pytest.mark.parametrize("executor", ["process", "thread"])
def test_a_worker_that_slept_beyond_its_lease_gives_its_steps_up_and_goes_on(well: Well, executor: str) -> None:
    worker = well.start(executor=executor, slots=1)
    well.add("held", "wait", go="go")
    well.until_began("held")
    worker.signal(signal.SIGSTOP)
    well.until(lambda: well["held"].reason == "rescued")
    assert well["held"].lease_worker is None
    well.say("go")  # the first run ends before its worker learns that it was taken for dead
    if executor == "process":
        well.until(lambda: well.entries("ended", "held"))
    worker.signal(signal.SIGCONT)
    well.until_states(held="Completed")
    step = well["held"]
    assert (step.attempts, step.rescues) == (2, 1)
    assert [change for change in well.path("held") if change[0] == "Completed"] == [("Completed", None)]
    assert len(well.entries("began", "held")) == 2

    worker.signal(signal.SIGSTOP)
    (before,) = _workers(well)
    well.app.database.transact(lambda tx: tx.change("forget_worker", id=before))
    worker.signal(signal.SIGCONT)
    well.add("next")
    well.until_states(next="Completed")
    (after,) = _workers(well)
    assert after != before
    assert worker.stop() == 0
    assert "1 run no longer counted" in worker.said


def _workers(well: Well) -> list[Any]:
    return [row["id"] for row in well.app.database.read(lambda tx: tx.fetch("SELECT id FROM workers", {}))]
