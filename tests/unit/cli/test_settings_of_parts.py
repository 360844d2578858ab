"""A part uses the settings that it is given, not the defaults."""

from __future__ import annotations

from datetime import timedelta

import pytest

from stepwell import Stepwell
from stepwell.dispatch.lock import acquire
from stepwell.dispatch.sweep_part import SweepPart
from stepwell.model.leases import LEASE_SECONDS
from stepwell.testing import ManualClock, behave


def test_a_group_is_locked_for_the_seconds_given(app: Stepwell, clock: ManualClock) -> None:
    assert acquire(app.database, "alpha", "tester", seconds=7) is not None
    (group,) = [group for group in app.groups() if group.group == "alpha"]
    assert group.lock_deadline == clock.now() + timedelta(seconds=7)


def test_the_sweep_comes_after_the_seconds_given(app: Stepwell) -> None:
    sweep = SweepPart(app.database, None, 42)
    sweep.open()
    assert sweep.round(()) == 42


def test_a_step_is_rescued_as_often_as_the_reaper_is_given(app: Stepwell, clock: ManualClock) -> None:
    behave(app)
    step = app.enqueue("behave")
    reaper = app.reaper(rescues=0)
    runner = app.inline_runner()
    app.dispatch_once()
    assert len(runner.claim(1)) == 1
    clock.advance(LEASE_SECONDS + 1)
    assert reaper.round().poisoned == [step.id]
    runner.close()


def test_an_untaken_step_returns_to_pending_after_the_seconds_given(app: Stepwell, clock: ManualClock) -> None:
    behave(app)
    step = app.enqueue("behave")
    runner = app.inline_runner()
    app.dispatch_once()
    reaper = app.reaper(unclaimed_seconds=10)
    clock.advance(9)
    assert reaper.round().recovered == []
    clock.advance(1)
    assert reaper.round().recovered == [step.id]
    runner.close()


def test_a_dead_worker_is_forgotten_after_the_seconds_given(app: Stepwell, clock: ManualClock) -> None:
    behave(app)
    runner = app.inline_runner()
    clock.advance(LEASE_SECONDS + 4)
    assert app.reaper(dead_worker_retention_seconds=6).round().workers_deleted == 0
    assert app.reaper(dead_worker_retention_seconds=3).round().workers_deleted == 1
    runner.close()


def test_a_group_is_stalled_after_the_seconds_given(app: Stepwell, clock: ManualClock) -> None:
    behave(app)
    app.enqueue("behave", group="alpha")
    runner = app.inline_runner()
    app.dispatcher().round(open_too=False)
    reaper = app.reaper(stalled_seconds=10)
    assert reaper.round().stalled == []
    clock.advance(9)
    assert reaper.round().stalled == []
    clock.advance(1)
    assert reaper.round().stalled == ["alpha"]
    runner.close()


@pytest.mark.postgres
def test_a_process_opens_no_more_connections_than_it_is_given(postgres_url: str) -> None:
    app = Stepwell(postgres_url)
    app.database.max_connections = 3
    with app:
        assert app.database.connections._pool.max_size == 3  # type: ignore[attr-defined]
