"""Timeout, cooldown and cancellation, with cooperative code and code that ignores them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from stepwell import Step
from tests.survival.support import Cluster, is_alive

HOUR = 3600.0


def test_code_that_listens_ends_by_itself_and_code_that_does_not_is_ended_with_its_process(cluster: Cluster) -> None:
    cluster.add("cooperative", "wait cooperatively", timeout=0.2, cooldown=HOUR)
    cluster.add("stubborn", "ignore exceptions", timeout=0.2, cooldown=2.0)
    cluster.add("without a limit", "wait", go="go", timeout=0.0)
    cluster.add("cooperative, cancelled", "wait cooperatively", cooldown=HOUR)
    cluster.add("stubborn, cancelled", "ignore exceptions", cooldown=0.5)
    cluster.start(slots=5)
    for label in cluster.refs:
        cluster.until_started(label)
    for label in ("cooperative, cancelled", "stubborn, cancelled"):
        cluster.app.cancel(cluster.refs[label], who="tester")

    cluster.until(lambda: cluster["cooperative"].reason == "not_completed")
    cooperative = cluster["cooperative"]
    (noticed,) = cluster.entries("noticed", "cooperative")
    assert (noticed.facts["timeout"], noticed.facts["cancel"]) == ("True", "False")
    assert (str(cooperative.state), cooperative.not_completed, cooperative.retries) == ("Pending", 1, 0)
    assert round(_delay(cooperative)) == HOUR

    cluster.until(lambda: cluster["stubborn"].reason == "not_completed")
    stubborn = cluster["stubborn"]
    (started,) = cluster.entries("started", "stubborn")
    assert not is_alive(started.pid)
    assert (str(stubborn.state), stubborn.not_completed, stubborn.rescues) == ("Pending", 1, 0)
    assert round(_delay(stubborn)) == 2
    assert "2 s after its timeout of 0.2 s" in str(stubborn.error_message)
    assert stubborn.updated_at - stubborn.started_at >= timedelta(seconds=2.2)  # type: ignore[operator]

    for label in ("cooperative, cancelled", "stubborn, cancelled"):
        cluster.until(lambda label=label: cluster[label].lease_worker is None)  # type: ignore[misc]
        assert str(cluster[label].state) == "Cancelled"
    (noticed,) = cluster.entries("noticed", "cooperative, cancelled")
    assert (noticed.facts["timeout"], noticed.facts["cancel"]) == ("False", "True")
    assert not is_alive(cluster.entries("started", "stubborn, cancelled")[0].pid)

    cluster.release("go")
    cluster.until_states(**{"without a limit": "Completed"})
    assert cluster["without a limit"].attempts == 1


@pytest.mark.parametrize("executor", ["thread", "async"])
def test_a_thread_that_exceeds_its_time_limit_is_abandoned_and_its_stale_write_is_ignored(
    cluster: Cluster, executor: str
) -> None:
    worker = cluster.start(executor=executor, slots=1)
    cluster.add("hung", "wait", go="go", timeout=0.2, cooldown=0.3)
    cluster.until_started("hung", 2)  # in the only slot: the hanging thread does not occupy it
    assert ("Pending", "not_completed") in cluster.path("hung")
    assert not cluster.entries("ended", "hung")
    cluster.release("go")
    cluster.until_states(hung="Completed")
    runs = len(cluster.entries("started", "hung"))
    cluster.until(lambda: len(cluster.entries("ended", "hung")) == runs)
    step = cluster["hung"]
    assert (step.attempts, step.not_completed, step.rescues) == (runs, runs - 1, 0)

    cluster.add("cancelled", "wait", go="later")
    cluster.until_started("cancelled")
    cluster.app.cancel(cluster.refs["cancelled"], who="tester")
    cluster.add("cooperatively cancelled", "wait cooperatively")
    cluster.until(lambda: "abandoning the run" not in worker.output and cluster["cancelled"].lease_worker is not None)
    cluster.release("later")  # a thread cannot be killed: its lease is held until it ends by itself
    cluster.until(lambda: cluster["cancelled"].lease_worker is None)
    assert str(cluster["cancelled"].state) == "Cancelled"
    cluster.until_started("cooperatively cancelled")
    cluster.app.cancel(cluster.refs["cooperatively cancelled"], who="tester")
    cluster.until(lambda: cluster["cooperatively cancelled"].lease_worker is None)


def test_a_coroutine_is_cancelled_at_its_limit(cluster: Cluster) -> None:
    cluster.start(executor="async", slots=2)
    cluster.add("slow", action="act_async", go="go", timeout=0.2, cooldown=0.3)
    cluster.add("patient", action="act_async", go="go")
    cluster.until_started("slow", 2)
    cluster.release("go")
    cluster.until_states(slow="Completed", patient="Completed")
    assert (cluster["slow"].response, cluster["patient"].attempts) == ("awaited", 1)
    assert len(cluster.entries("ended", "slow")) == 1


def test_nothing_is_claimed_for_a_blocked_loop(cluster: Cluster) -> None:
    cluster.start(executor="async", slots=2)
    cluster.add("blocks", action="block_the_loop", go="go", timeout=0.2)
    cluster.until(lambda: ("Pending", "not_completed") in cluster.path("blocks"))
    cluster.release("free")
    cluster.add("next", action="act_async", go="free")
    cluster.until_heartbeats(3)
    for label, runs in (("blocks", 1), ("next", 0)):
        assert [state for state, _ in cluster.path(label)].count("Running") == runs
    cluster.release("go")
    cluster.until_all()
    assert (cluster["blocks"].not_completed, cluster["blocks"].attempts, cluster["next"].attempts) == (1, 2, 1)


@pytest.mark.parametrize("slots", [2, 100])  # with many, short steps are claimed ahead of the slots
def test_claims_that_a_blocked_loop_has_not_started_are_handed_back_without_spending_an_attempt(
    cluster: Cluster, slots: int
) -> None:
    cluster.start(executor="async", slots=slots)
    cluster.release("free")
    for number in range(20):
        cluster.add(f"quick {number}", action="act_async", go="free")
    cluster.until_all()
    cluster.add("blocks", action="block_the_loop", go="go")
    cluster.until_started("blocks")
    cluster.add("next", action="act_async", go="free", timeout=0.6)
    cluster.until(lambda: ("Pending", "handed_back") in cluster.path("next"))
    cluster.until_heartbeats(3)
    assert [state for state, _ in cluster.path("next")].count("Running") == 1
    cluster.release("go")
    cluster.until_all()
    assert (cluster["next"].attempts, cluster["next"].not_completed, cluster["blocks"].attempts) == (1, 0, 1)


def _delay(step: Step) -> float:
    """Seconds until its next attempt. On PostgreSQL, the worker's clock is a little behind that of the server."""
    assert step.dispatch_after is not None
    return (step.dispatch_after - step.updated_at).total_seconds()
