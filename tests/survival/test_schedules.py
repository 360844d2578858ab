"""Executions of schedules in real slots: the timeout really ends them, and the handler knows its slot."""

from __future__ import annotations

from tests.survival.support import Cluster, is_alive


def test_a_timeout_on_the_last_attempt_ends_the_process_and_the_execution_is_timeout(cluster: Cluster) -> None:
    schedules = cluster.app.schedules
    schedules.create(
        "stubborn", "0 0 1 1 *", "act", {"behaviour": "ignore exceptions"}, who="tester", timeout_seconds=1, max_retry=1
    )
    schedules.create("knows", "0 0 1 1 *", "act", {"behaviour": "read its schedule"}, who="tester")
    stubborn = schedules.run_now("stubborn", who="tester")
    schedules.run_now("knows", who="tester")
    cluster.start(slots=2)
    cluster.until(lambda: schedules.executions("knows")[0].status == "SUCCESS")
    assert schedules.executions("knows")[0].result == '"knows manual"'
    cluster.until(lambda: schedules.executions("stubborn")[0].status not in ("PENDING", "RUNNING"))
    row = schedules.executions("stubborn")[0]
    assert (row.status, row.retry_count) == ("TIMEOUT", 0)
    assert cluster.app.step(stubborn.step_id or 0).attempts == 1
    (started,) = cluster.entries("started", "stubborn")
    assert not is_alive(started.pid)
