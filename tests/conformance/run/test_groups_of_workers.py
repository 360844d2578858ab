"""A worker of some groups claims only their steps, and nothing waits for it in vain."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from stepwell import Step, Stepwell
from stepwell.run.claim import Claimer
from stepwell.run.worker_row import WorkerRow, default_queues
from tests.conformance.support.engine import Engine


@contextmanager
def worker(app: Stepwell, *groups: str, slots: int = 2) -> Iterator[Claimer]:
    row = WorkerRow(app.database, default_queues(), app.jobs.actions(), slots, groups=groups)
    try:
        yield Claimer(app.database, row)
    finally:
        row.unregister()


def claim(app: Stepwell, claimer: Claimer, limit: int = 100) -> list[Step]:
    claimed = app.database.transact(lambda tx: claimer.claim(tx, limit))
    return [app.step(each.step.id) for each in claimed]


def plant(engine: Engine, groups: str, **settings: Any) -> None:
    for number, group in enumerate(groups.split()):
        engine.add(f"{group} {number}", group=group, **settings)


def test_a_worker_of_a_group_claims_open_and_dispatched_steps_of_it_alone(engine: Engine) -> None:
    plant(engine, "alpha beta gamma alpha beta")
    with worker(engine.app, "alpha") as claimer, worker(engine.app):
        engine.app.dispatcher(["alpha"]).round()
        engine.add("open", group="alpha")
        assert claimer.is_there_work()
        assert {step.group for step in claim(engine.app, claimer)} == {"alpha"}
        assert not claimer.is_there_work()
        assert claim(engine.app, claimer) == []


def test_a_worker_of_two_groups_claims_both(engine: Engine) -> None:
    plant(engine, "alpha beta gamma alpha beta", queue="candles")
    with worker(engine.app, "alpha", "gamma") as claimer:
        assert [step.group for step in claim(engine.app, claimer)] == ["alpha", "gamma", "alpha"]


def test_a_tick_dispatches_nothing_to_workers_of_other_groups(engine: Engine) -> None:
    plant(engine, "alpha beta")
    with worker(engine.app, "alpha"):
        assert [(report.group, report.dispatched) for report in engine.app.dispatch_once()] == [("alpha", 1)]
        assert engine.app.dispatch_once() == []


def test_each_group_has_the_room_of_its_own_workers(engine: Engine) -> None:
    plant(engine, "alpha " * 9 + "beta " * 9 + "gamma " * 9)
    with worker(engine.app, "alpha"), worker(engine.app, "beta", "gamma"):
        engine.app.dispatcher().run_until_quiet()
        dispatched = [step.group for step in engine.app.steps(state="Dispatched")]
        assert dispatched.count("alpha") == 4  # twice the slots
        assert dispatched.count("beta") + dispatched.count("gamma") == 4


def test_explain_and_doctor_know_that_nobody_serves_the_group(engine: Engine) -> None:
    plant(engine, "alpha beta")
    with worker(engine.app, "alpha"):
        assert engine.app.explain(engine.refs["alpha 0"]).obstacles == []
        (obstacle,) = engine.app.explain(engine.refs["beta 1"]).obstacles
        assert obstacle.message == "no live worker serves queue 'default' and action 'behave' in group 'beta'"
        assert [lane.steps for lane in engine.app.reader.unserved_lanes()] == [1]
    with worker(engine.app):
        assert engine.app.reader.unserved_lanes() == []


def test_a_dispatched_step_whose_group_lost_its_workers_returns_to_pending(engine: Engine) -> None:
    plant(engine, "beta")
    with worker(engine.app, "alpha"):
        with worker(engine.app, "beta"):
            engine.app.dispatch_once()
        assert len(engine.app.reaper().round().recovered) == 1


def test_a_key_is_not_kept_by_a_step_of_a_group_that_nobody_serves(engine: Engine) -> None:
    plant(engine, "beta alpha", concurrency_key="one")
    with worker(engine.app, "alpha") as claimer:
        engine.app.dispatcher().round()
        engine.app.dispatcher().round()
        assert [step.group for step in claim(engine.app, claimer)] == ["alpha"]


@pytest.mark.sqlite_file
def test_the_part_that_runs_takes_groups_too(engine: Engine) -> None:
    plant(engine, "alpha beta")
    made = engine.app.worker(groups=["beta"], slots=1)
    try:
        assert made.row.groups == ("beta",)
        assert [row.groups for row in engine.app.workers()] == [["beta"]]
    finally:
        made.row.unregister()
