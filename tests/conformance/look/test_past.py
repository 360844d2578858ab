"""History rebuilds any earlier moment, compared with what was read at that moment."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import pytest

from stepwell import Stepwell
from stepwell.look.past import WorkflowThen
from stepwell.model.claimed import Claim
from stepwell.model.errors import StepwellError, WorkflowNotFound
from stepwell.model.leases import LEASE_SECONDS
from stepwell.model.workflow_states import SETTLED
from stepwell.store.engine.workflows import WorkflowRow
from tests.conformance.support.engine import Engine
from tests.conformance.support.ticks import run
from tests.conformance.workflow.flows import job, row_of, start

WHO = {"who": "ann", "why": "test"}


def dump(app: Stepwell, flow: str) -> tuple[Any, dict[int, Any]]:
    """A workflow and its steps as they are now."""
    row = row_of(app, flow)
    steps = [step for step in app.steps(limit=1_000) if step.workflow_id == flow]
    return whole(row), {step.id: (step.state, step.reason, step.actor, step.attempts) for step in steps}


def rebuilt(app: Stepwell, flow: str, when: datetime) -> tuple[Any, dict[int, Any]]:
    then = app.workflow_at(flow, when)
    return whole(then), {step.id: (step.state, step.reason, step.actor, step.attempt) for step in then.steps}


def whole(workflow: WorkflowRow | WorkflowThen) -> Any:
    """Until its processes have ended, a cancelled workflow has the reason of its cancellation, and no such state."""
    return (workflow.state, workflow.reason, workflow.actor) if workflow.state in SETTLED else workflow.state


def random_flow(app: Stepwell, random: random.Random) -> str:
    words = ["ok", "fail", "raise/ok", "raise/raise/ok", "stop", "skip", "throttle/ok"]

    def outcome() -> Any:
        word = random.choice(words)
        return word.split("/") if "/" in word else word

    spawn = [{"label": f"kid {number}", "outcome": outcome()} for number in range(2)]
    return start(
        app,
        job("a", outcome=outcome()),
        job("b", outcome=outcome(), after=("a",)),
        job("c", spawn=spawn),
        job("d", outcome=outcome(), after=("b", "c")),
        job("e", after=("c",), trigger="all_ended"),
    )


def act(app: Stepwell, flow: str, random: random.Random) -> None:
    """Something that an operator may do, or that is refused."""
    step = random.choice([step for step in app.steps(limit=1_000) if step.workflow_id == flow])
    of_flow = app.workflow_engine.actions
    choices: list[Callable[[], Any]] = [
        lambda: app.retry(step, **WHO),
        lambda: app.cancel(step, **WHO),
        lambda: app.skip(step, **WHO),
        lambda: app.complete(step, **WHO),
        lambda: app.reset_attempts(step, **WHO),
        lambda: of_flow.cancel(flow, "ann", "all of it"),
        lambda: of_flow.retry(flow, "ann", "all of it"),
        lambda: of_flow.resolve(flow, "ann", "by phone"),
        lambda: app.operations.preview("retry", workflow=flow, state=["Failed", "Cancelled"]).execute(who="ben"),
    ]
    with suppress(StepwellError):
        random.choice(choices)()


class Life:
    """A worker that holds claims for a while, and may die."""

    def __init__(self, engine: Engine, random: random.Random) -> None:
        self._engine = engine
        self._random = random
        self._runner = engine.app.inline_runner()
        self._held: list[Claim] = []

    def goes_on(self) -> None:
        match self._random.randrange(7):
            case 0:
                self._engine.app.dispatch_once()
            case 1:
                self._engine.tick()
            case 2 | 3:
                self._held += self._runner.claim(self._random.randint(1, 3))
            case 4 | 5:
                self._random.shuffle(self._held)
                run(self._runner, *(self._held.pop() for _ in range(min(2, len(self._held)))))
            case 6 if self._random.random() < 0.3:
                self._engine.clock.advance(LEASE_SECONDS + 1)
                self._engine.app.reaper().round()
                if self._held and self._random.random() < 0.5:
                    run(self._runner, self._held[0])  # a stale write
                self.end()
                self._runner, self._held = self._engine.app.inline_runner(), []
            case _:
                self._engine.clock.advance(self._random.choice([1, 10]))

    def end(self) -> None:
        self._runner.close()


@pytest.mark.parametrize("seed", range(6))
def test_every_moment_of_a_random_run_is_rebuilt(engine: Engine, seed: int) -> None:
    chance = random.Random(seed)
    before = engine.clock.now() - timedelta(seconds=1)
    flows = [random_flow(engine.app, chance) for _ in range(3)]
    life, dumps = Life(engine, chance), list[tuple[datetime, str, Any]]()
    for _ in range(80):
        engine.clock.advance(0.001)
        for _ in range(chance.randint(1, 3)):
            if chance.random() < 0.15:
                act(engine.app, chance.choice(flows), chance)
            else:
                life.goes_on()
        dumps += [(engine.clock.now(), flow, dump(engine.app, flow)) for flow in flows]
    life.end()
    assert len({str(taken) for _, _, taken in dumps}) > 30
    for when, flow, taken in dumps:
        assert rebuilt(engine.app, flow, when) == taken, f"seed {seed} at {when}"
    assert rebuilt(engine.app, flows[0], before) == (None, {})


def test_a_step_is_rebuilt_alone_and_is_none_before_it_existed(engine: Engine) -> None:
    before = engine.clock.now() - timedelta(seconds=1)
    engine.plant("a:raise/ok")
    moments = [(engine.clock.now(), engine["a"])]
    for _ in range(3):
        engine.clock.advance(3_600)
        engine.app.run_until_idle()
        moments.append((engine.clock.now(), engine["a"]))
    app, ref = engine.app, engine.refs["a"]
    assert app.step_at(ref, before) is None
    for when, step in moments:
        then = app.step_at(ref, when)
        assert then is not None
        assert (then.state, then.reason, then.actor, then.attempt, then.since) == (
            step.state, step.reason, step.actor, step.attempts, step.updated_at,
        )  # fmt: skip


def test_a_workflow_of_plain_steps_has_steps_and_no_state(engine: Engine) -> None:
    engine.plant("root(kid)")
    then = engine.app.workflow_at(engine.refs["root"].uuid, engine.clock.now())
    assert (then.state, [str(step.state) for step in then.steps]) == (None, ["Pending", "Pending"])


def test_reset_attempts_are_zero_until_the_next_attempt(engine: Engine) -> None:
    engine.plant("a:raise/raise/raise/raise")
    engine.app.run_until_idle()
    first = engine.clock.now()
    engine.clock.advance(1)
    engine.app.reset_attempts(engine.refs["a"], who="ann")
    second = engine.clock.now()
    engine.clock.advance(1)
    engine.app.run_until_idle()
    found = [engine.app.step_at(engine.refs["a"], when) for when in (first, second, engine.clock.now())]
    assert [then.attempt for then in found if then is not None] == [1, 0, 1]


def test_an_unknown_workflow_and_a_time_without_zone_are_refused(app: Stepwell, clock: Any) -> None:
    for unknown in ("nonsense", "00000000-0000-7000-8000-000000000000"):
        with pytest.raises(WorkflowNotFound, match=f"no workflow has the id {unknown}"):
            app.workflow_at(unknown, clock.now())
    with pytest.raises(StepwellError, match="has no time zone"):
        app.workflow_at("00000000-0000-7000-8000-000000000000", datetime(2026, 1, 1))


def test_without_a_moment_it_is_as_it_is_by_the_clock_that_stamps_the_history(postgres_url: str) -> None:
    with Stepwell(postgres_url) as app:
        connections: Any = app.database.connections
        time, elapsed = app.database.now(), connections._reading[1]
        connections._reading = (time - timedelta(seconds=10), elapsed)  # what is known of the server's clock is behind
        connections._next_reading = math.inf
        step = app.step(app.enqueue("behave"))
        then = app.workflow_at(step.uuid)
        assert [each.id for each in then.steps] == [step.id]
        assert app.workflow_at(step.uuid, then.at) == then
