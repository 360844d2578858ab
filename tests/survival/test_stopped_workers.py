"""A worker that was suspended beyond its lease and resumes: its stale writes are ignored (SPEC 6, 11.2)."""

from __future__ import annotations

import math
import signal
import time
from typing import Any

import pytest

from stepwell.model.errors import DatabaseUnavailable
from stepwell.run.ending import Ending
from stepwell.run.worker import Worker
from stepwell.store.engine import workers
from tests.conformance.support.engine import returned
from tests.survival.support import Well


@pytest.mark.parametrize("executor", ["process", "thread"])
def test_a_worker_that_slept_beyond_its_lease_gives_its_steps_up_and_goes_on(well: Well, executor: str) -> None:
    worker = well.start(executor=executor, slots=1)
    well.add("held", "wait", go="go")
    well.until_began("held")
    worker.signal(signal.SIGSTOP)
    well.until(lambda: well["held"].reason == "rescued")
    assert well["held"].lease_worker is None
    another = well.app.inline_runner(slots=1)
    (claim,) = well.until(lambda: another.claim(1))
    well.say("go")  # the first run ends before its worker learns that it was taken for dead
    if executor == "process":
        well.until(lambda: well.entries("ended", "held"))
    worker.signal(signal.SIGCONT)
    well.add("meanwhile")
    well.until_states(meanwhile="Completed")
    held = well["held"]
    assert (str(held.state), held.lease_worker, held.attempts, held.rescues) == ("Running", another.worker.id, 2, 1)
    assert returned(another._finisher, claim, "by another") == "Completed"
    assert well["held"].response == "by another"
    another.close()

    worker.signal(signal.SIGSTOP)
    (before,) = _workers(well)
    well.app.database.transact(lambda tx: workers.forget_worker(tx, id=before))
    worker.signal(signal.SIGCONT)
    well.add("next")
    well.until_states(next="Completed")
    (after,) = _workers(well)
    assert after != before
    assert worker.stop() == 0
    assert "1 run lost its lease" in worker.said


def _idle_worker(well: Well) -> Worker:
    """One whose rounds the test makes."""
    worker = well.app.worker(slots=1)
    worker._reconciler.next_at = math.inf
    return worker


def _workers(well: Well) -> list[Any]:
    return [row["id"] for row in well.app.database.read(lambda tx: tx.fetch("SELECT id FROM workers", {}))]


def test_what_was_claimed_ahead_of_a_long_stop_is_not_begun_after_it(well: Well) -> None:
    worker = _idle_worker(well)
    well.add("ahead")
    claims = well.app.database.transact(lambda tx: worker._exchange._claim(tx, 1))
    worker._in_flight.add_claims(claims, time.monotonic() - 10.0)
    worker.stop()  # only so that it does not claim the step anew
    worker.round(())
    assert not well.entries("began", "ahead")
    assert ("Pending", "handed_back") in well.path("ahead")
    worker.row.unregister()


def test_a_worker_with_unwritten_ends_backs_off_during_an_outage(well: Well) -> None:
    worker = _idle_worker(well)
    well.add("ended")
    (claim,) = well.app.database.transact(lambda tx: worker._exchange._claim(tx, 1))
    worker._in_flight.add_ending(claim, Ending(verb="finish", response="1"), time.monotonic() - 1.0)
    worker._back_off(DatabaseUnavailable("gone"))
    assert worker._pause() > 0.05
    worker._retry_at, worker._reconciler.next_at = 0.0, math.inf
    worker.round(())
    assert str(well["ended"].state) == "Completed"
    worker.row.unregister()
