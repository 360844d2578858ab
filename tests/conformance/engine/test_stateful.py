"""Random operations in random order, by workers, operators, dispatchers and callers: the engine and the reference model
agree on what is accepted and on every step after each of them, and what the engine promises holds throughout.

Hypothesis plays short games, and finds the shortest that fails. Walks are long: they get to where a step has lived
several lives, and words from the earlier ones arrive.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from stepwell import Stepwell
from stepwell.define.drafts import NewStep
from stepwell.dispatch import lock as group_lock
from stepwell.dispatch.phases import STATE_PHASES, PhaseContext, process_marks
from stepwell.model.states import UNFINISHED, State
from stepwell.run.finish import Finisher
from stepwell.store.engine import runs, ticks
from stepwell.store.postgres.callers import CallersTransaction
from stepwell.testing import ManualClock
from tests.conformance.support.engine import returned
from tests.conformance.support.machine import ACTION, OUTCOMES, PHASES, SHAPES, TRIGGER_RULES, Machine, Opener
from tests.conformance.support.reference_model import ENDED_BADLY

FULL: Final = os.environ.get("STEPWELL_EXPLORE") == "full"
SEED: Final = int(os.environ.get("STEPWELL_EXPLORE_SEED", "20260101"))


def play(fresh: Callable[[], Opener], examples: int, *, slots: int = 50, reopens: bool = True) -> None:
    run_state_machine_as_test(
        lambda: Machine(fresh(), slots, reopens),  # type: ignore[arg-type]
        settings=settings(
            max_examples=examples * (20 if FULL else 1),
            stateful_step_count=40,
            deadline=None,
            derandomize=not FULL,
            suppress_health_check=list(HealthCheck),
        ),
    )


def walk(open_app: Opener, seed: str, *, length: int, slots: int, reopens: bool = True) -> None:
    """One long game; `seed` plays it again."""
    chance = random.Random(seed)
    machine = Machine(open_app, slots, reopens)
    machine.start(SHAPES[0], 0.0)
    try:
        for number in range(length):
            weights, choices = zip(*moves(machine, chance), strict=True)
            try:
                chance.choices(choices, weights)[0]()
                machine.engine_and_model_agree()
                machine.invariants_hold()
            except BaseException as error:
                error.add_note(f"at move {number} of the walk {seed!r} with {slots} slots")
                raise
        machine.run_to_completion()
    finally:
        machine.app.close()


def moves(machine: Machine, chance: random.Random) -> list[tuple[float, Callable[[], Any]]]:
    """What can be done next, and how often it should be."""
    nodes, claims = list(machine.model.nodes.values()), machine.all_claims
    step, number, coin = chance.choice(nodes).id, chance.randint(0, 20), chance.random() < 0.5
    # Among those that may have children, those with kin, those that ended badly: most of what is asked for is possible.
    parent = chance.choice([node for node in nodes if node.state in UNFINISHED] or nodes)
    kin = [node.id for node in nodes if node.workflow is parent.workflow and node.type == "default"]
    after = chance.sample(kin, min(len(kin), chance.choice((0, 0, 1, 2))))
    beside = chance.choice([node.id for node in nodes if coin and node.state in ENDED_BADLY] or [step])
    rule, outcome, index = chance.choice(TRIGGER_RULES), chance.choice(OUTCOMES), chance.randint(0, 3)
    ends = chance.choices(OUTCOMES, k=3)
    order = chance.sample(list(PHASES), len(PHASES))
    meanwhile = chance.choice(("", "", "", "cancel", "fail", "skip", "retry"))
    creating = 1 if len(nodes) < 50 else 0
    moves: list[tuple[float, Callable[[], Any]]] = [
        (3 * creating, lambda: machine.create_many(chance.choice(SHAPES), 5.0 * coin)),
        (creating, lambda: machine.create_root(number < 2, 5.0 * coin)),
        (3 * creating, lambda: machine.create_child(parent.id, index, number < 6, after, rule, 30.0 * coin)),
        (2 * creating, lambda: machine.join_block(beside, index, number < 5)),
        (creating, lambda: machine.create_dependent(after or [step], rule, 5.0 * coin)),
        (4, lambda: machine.run_phases_in_any_order(step, order, number % 10 + 1, coin, meanwhile)),
        (2, machine.tick_once),
        (2, machine.tick_until_quiet),
        (6, lambda: machine.work(ends)),
        (1, lambda: machine.claim(number % 4 + 1)),
        (2, lambda: machine.finish_what_runs(number, outcome)),
        (3, lambda: machine.lose_to_another(number, ("hand_back", "throttle", "cancel")[number % 3], outcome)),
        (1, lambda: machine.cancel(step)),
        (0.5, lambda: machine.fail(step)),
        (0.5, lambda: machine.stop(step)),
        (0.3, lambda: machine.skip(step)),
        (0.3, lambda: machine.complete(step)),
        (1, lambda: machine.retry(step)),
        (2, lambda: machine.retry_what_ended_badly(number)),
        (1, lambda: machine.turn_breaker(number > 2)),
        (1, lambda: (machine.pause_workflow if number < 3 else machine.resume_workflow)(step)),
        (1, lambda: machine.let_time_pass((1.0, 5.0, 30.0)[number % 3], number > 1)),
        (1, machine.the_sweep_finds_nothing),
        (1, lambda: machine.explain(step)),
    ]
    if claims:
        claim = chance.choice(claims)
        moves += [(1, lambda: machine.finish(claim, outcome, 0.0)), (2, lambda: machine.release_lease(claim))]
    if machine.reopens:
        moves.append((1, machine.crash_and_reopen))
    return moves


WALKS: Final = 400 if FULL else 20


@pytest.mark.slow
@pytest.mark.sqlite
@pytest.mark.parametrize("slots", [1, 50])
def test_long_walks_agree_with_the_model_in_memory(slots: int) -> None:
    for number in range(WALKS):
        walk(partial(Stepwell, "sqlite://"), f"{SEED}/{number}", length=120, slots=slots, reopens=False)


@pytest.mark.slow
def test_long_walks_agree_with_the_model_on_postgres(postgres_url: str) -> None:
    Stepwell(postgres_url).open().close()
    for number in range(WALKS // 4):
        walk(emptied(postgres_url), f"{SEED}/{number}", length=120, slots=50)


@pytest.mark.slow
@pytest.mark.sqlite
@pytest.mark.parametrize("slots", [1, 50])
def test_any_operations_in_any_order_agree_with_the_model_in_memory(slots: int) -> None:
    play(lambda: partial(Stepwell, "sqlite://"), 60, slots=slots, reopens=False)


@pytest.mark.slow
@pytest.mark.sqlite
def test_any_operations_in_any_order_agree_with_the_model_in_a_file(tmp_path: Path) -> None:
    numbers = itertools.count()
    play(lambda: partial(Stepwell, f"sqlite:///{tmp_path}/{next(numbers)}.db"), 10)


@pytest.mark.slow
def test_any_operations_in_any_order_agree_with_the_model_on_postgres(postgres_url: str) -> None:
    Stepwell(postgres_url).open().close()
    play(lambda: emptied(postgres_url), 20)


def emptied(url: str) -> Opener:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "TRUNCATE steps, step_dependencies, step_transitions, steps_workflows, steps_workers, steps_worker_lanes, "
            "steps_tally, steps_totals, steps_minutes, steps_trouble, steps_causes_tally, steps_causes, "
            "steps_agenda, steps_unconcluded, steps_marks, steps_dispatcher_ticks RESTART IDENTITY CASCADE"
        )
        connection.execute("ALTER SEQUENCE steps_round_robin RESTART")
        connection.execute("UPDATE steps_dispatcher SET lock_owner = NULL, lock_deadline = NULL, ended_early = false")
        connection.execute("UPDATE steps_settings SET value = 'true' WHERE name = 'can_dispatch_steps'")
    return partial(Stepwell, url)


def test_a_mark_that_commits_late_is_not_forgotten_with_younger_ones(postgres_url: str) -> None:
    """One process, one operation at a time cannot show this: two ends overlap, the elder commits within a tick."""
    with Stepwell(postgres_url, clock=ManualClock()) as app, psycopg.connect(postgres_url) as connection:
        app.job(name=ACTION)(lambda: None)
        parent = NewStep(action=ACTION)
        children = [NewStep(action=ACTION, parent=parent) for _ in range(2)]
        parent_ref = app.enqueue_many([parent, *children])[0]
        runner, finisher = app.inline_runner(), Finisher(app.database)
        app.dispatcher().run_until_quiet()
        (whole,) = runner.claim(1)
        returned(finisher, whole, None)
        app.dispatcher().run_until_quiet()
        block_root, younger = runner.claim(2)

        connection.execute("SELECT 1")
        late = CallersTransaction(connection, app.database.hooks)
        (change,) = runs.finish(
            late,
            id=block_root.step_id,
            token=block_root.token,
            response="null",
            error=None,
            stack=None,
            duration=0.0,
            actor=block_root.actor,
            now=app.clock.now(),
        )
        assert change.to_state is State.COMPLETED
        assert returned(finisher, younger, None) is State.COMPLETED
        lock = group_lock.acquire(app.database, app.step(parent_ref).group or "", "a tick")
        assert lock is not None
        assert len(lock.survey.marks) == 1, "only the younger end is there yet"
        at = PhaseContext(lock.group, f"tick:{lock.tick}", app.clock.now())
        app.database.transact(lambda tx: [phase.run(tx, at) for phase in STATE_PHASES])
        connection.commit()
        app.database.transact(lambda tx: process_marks(tx, at, lock.survey.marks))
        app.database.transact(
            lambda tx: ticks.release_lock(tx, group=lock.group, token=lock.token, now=at.now, ended_early=False)
        )

        app.dispatcher().run_until_quiet()
        assert app.step(parent_ref).state is State.COMPLETED
        assert app.sweep() == []
