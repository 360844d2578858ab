"""A dispatcher that is killed or suspended in a tick: its group waits for one lease, however long that is."""

from __future__ import annotations

import signal
from datetime import timedelta

import pytest

from stepwell import NewStep
from stepwell.dispatch.lock import LOCK_SECONDS
from tests.survival.failpoints import IN_A_TICK, SUSPENDED
from tests.survival.support import LEASE_SECONDS, WAIT_SECONDS, Cluster, is_suspended


def _add_family(cluster: Cluster) -> None:
    """Its parent needs a tick to end."""
    parent = NewStep(action="act", label="parent")
    child = NewStep(action="act", label="child", parent=parent)
    cluster.refs["parent"], cluster.refs["child"] = cluster.app.enqueue_many([parent, child])


def _check_that_it_is_locked_for_a_lease(cluster: Cluster) -> None:
    (locked,) = [row for row in cluster.app.groups() if row.lock_owner is not None]
    assert locked.lock_deadline is not None
    assert locked.lock_deadline <= cluster.app.database.now() + timedelta(seconds=LEASE_SECONDS)
    assert LEASE_SECONDS < LOCK_SECONDS


def test_the_group_of_a_dispatcher_that_is_killed_in_a_tick_is_taken_over_within_a_lease(cluster: Cluster) -> None:
    killed = cluster.start("up", failpoint=IN_A_TICK)
    _add_family(cluster)
    assert killed.process.wait(WAIT_SECONDS) == -signal.SIGKILL
    _check_that_it_is_locked_for_a_lease(cluster)
    cluster.start("up")
    cluster.until(lambda: set(cluster.states().values()) == {"Completed"}, reap=False, tick=False)


# On SQLite, another thread of the suspended process may hold the write lock: see `test_suspended_holders_of_locks`.
@pytest.mark.postgres
@pytest.mark.parametrize("shared_database_url", ["postgres"], indirect=True)
def test_a_dispatcher_that_was_suspended_in_a_tick_changes_nothing_when_it_continues(cluster: Cluster) -> None:
    suspended = cluster.start("up", failpoint=SUSPENDED + IN_A_TICK)
    _add_family(cluster)
    cluster.until(lambda: is_suspended(suspended.pid), reap=False, tick=False)
    _check_that_it_is_locked_for_a_lease(cluster)
    another = cluster.start("up")
    cluster.until(lambda: set(cluster.states().values()) == {"Completed"}, reap=False, tick=False)
    before = {label: cluster.path(label) for label in cluster.refs}
    suspended.signal(signal.SIGCONT)
    cluster.until(lambda: "this tick was aborted" in suspended.output, reap=False, tick=False)
    assert {label: cluster.path(label) for label in cluster.refs} == before
    assert suspended.stop() == 0
    assert another.stop() == 0
