"""Timeout, cooldown and cancellation, with code that listens and code that does not (SPEC 6)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.survival.support import Well, is_there

HOUR = 3600.0


def test_code_that_listens_ends_by_itself_and_code_that_does_not_is_ended_with_its_process(well: Well) -> None:
    well.add("polite", "wait politely", timeout=0.2, cooldown=HOUR)
    well.add("stubborn", "swallow", timeout=0.2, cooldown=2.0)
    well.add("without a limit", "wait", go="go", timeout=0.0)
    well.add("polite, cancelled", "wait politely", cooldown=HOUR)
    well.add("stubborn, cancelled", "swallow", cooldown=0.5)
    well.start(slots=5)
    for label in well.refs:
        well.until_began(label)
    for label in ("polite, cancelled", "stubborn, cancelled"):
        well.app.cancel(well.refs[label], who="tester")

    well.until(lambda: well["polite"].reason == "not_completed")
    polite = well["polite"]
    (noticed,) = well.entries("noticed", "polite")
    assert (noticed.facts["timeout"], noticed.facts["cancel"]) == ("True", "False")
    assert (str(polite.state), polite.not_completed, polite.retries) == ("Pending", 1, 0)
    assert polite.dispatch_after == polite.updated_at + timedelta(seconds=HOUR)

    well.until(lambda: well["stubborn"].reason == "not_completed")
    stubborn = well["stubborn"]
    (began,) = well.entries("began", "stubborn")
    assert not is_there(began.pid)
    assert (str(stubborn.state), stubborn.not_completed, stubborn.rescues) == ("Pending", 1, 0)
    assert stubborn.dispatch_after == stubborn.updated_at + timedelta(seconds=2.0)
    assert "2 s after its timeout of 0.2 s" in str(stubborn.error_message)
    assert stubborn.updated_at - stubborn.started_at >= timedelta(seconds=2.2)  # type: ignore[operator]

    for label in ("polite, cancelled", "stubborn, cancelled"):
        well.until(lambda label=label: well[label].lease_worker is None)  # type: ignore[misc]
        assert str(well[label].state) == "Cancelled"
    (noticed,) = well.entries("noticed", "polite, cancelled")
    assert (noticed.facts["timeout"], noticed.facts["cancel"]) == ("False", "True")
    assert not is_there(well.entries("began", "stubborn, cancelled")[0].pid)

    well.say("go")
    well.until_states(**{"without a limit": "Completed"})
    assert well["without a limit"].attempts == 1


@pytest.mark.parametrize("executor", ["thread", "async"])
def test_a_thread_that_exceeds_its_time_limit_is_abandoned_and_its_stale_write_is_ignored(
    well: Well, executor: str
) -> None:
    worker = well.start(executor=executor, slots=1)
    well.add("hung", "wait", go="go", timeout=0.2, cooldown=0.3)
    well.until_began("hung", 2)  # in the only slot: the thread that hangs keeps nobody from it
    assert ("Pending", "not_completed") in well.path("hung")
    assert not well.entries("ended", "hung")
    well.say("go")
    well.until_states(hung="Completed")
    runs = len(well.entries("began", "hung"))
    well.until(lambda: len(well.entries("ended", "hung")) == runs)
    step = well["hung"]
    assert (step.attempts, step.not_completed, step.rescues) == (runs, runs - 1, 0)

    well.add("cancelled", "wait", go="later")
    well.until_began("cancelled")
    well.app.cancel(well.refs["cancelled"], who="tester")
    well.add("politely cancelled", "wait politely")
    well.until(lambda: "abandoning the run" not in worker.said and well["cancelled"].lease_worker is not None)
    well.say("later")  # a thread cannot be ended: its lease stands until it ends by itself
    well.until(lambda: well["cancelled"].lease_worker is None)
    assert str(well["cancelled"].state) == "Cancelled"
    well.until_began("politely cancelled")
    well.app.cancel(well.refs["politely cancelled"], who="tester")
    well.until(lambda: well["politely cancelled"].lease_worker is None)


def test_a_coroutine_is_cancelled_at_its_limit(well: Well) -> None:
    well.start(executor="async", slots=2)
    well.add("slow", action="act_async", go="go", timeout=0.2, cooldown=0.3)
    well.add("patient", action="act_async", go="go")
    well.until_began("slow", 2)
    well.say("go")
    well.until_states(slow="Completed", patient="Completed")
    assert (well["slow"].response, well["patient"].attempts) == ("awaited", 1)
    assert len(well.entries("ended", "slow")) == 1


def test_nothing_is_claimed_for_a_loop_that_does_not_answer(well: Well) -> None:
    well.start(executor="async", slots=2)
    well.add("blocks", action="block_the_loop", go="go", timeout=0.2)
    well.until(lambda: ("Pending", "not_completed") in well.path("blocks"))
    well.say("free")
    well.add("next", action="act_async", go="free")
    well.until_heartbeats(3)
    for label, runs in (("blocks", 1), ("next", 0)):
        assert [state for state, _ in well.path(label)].count("Running") == runs
    well.say("go")
    well.until_all()
    assert (well["blocks"].not_completed, well["blocks"].attempts, well["next"].attempts) == (1, 2, 1)


@pytest.mark.parametrize("slots", [2, 100])  # with many, short steps are claimed ahead of the slots
def test_what_a_held_up_loop_has_not_begun_goes_back_unspent(well: Well, slots: int) -> None:
    well.start(executor="async", slots=slots)
    well.say("free")
    for number in range(20):
        well.add(f"quick {number}", action="act_async", go="free")
    well.until_all()
    well.add("blocks", action="block_the_loop", go="go")
    well.until_began("blocks")
    well.add("next", action="act_async", go="free", timeout=0.6)
    well.until(lambda: ("Pending", "handed_back") in well.path("next"))
    well.until_heartbeats(3)
    assert [state for state, _ in well.path("next")].count("Running") == 1
    well.say("go")
    well.until_all()
    assert (well["next"].attempts, well["next"].not_completed, well["blocks"].attempts) == (1, 0, 1)
