"""What `explain` names is what holds a step up: once the root causes are removed, the step runs, without further help.

Steps of the random walks of the stateful tests are taken while they wait. Each root cause is removed by what its kind
calls for (advice is taken literally, and must be accepted). Then the engine is left to itself: ticks, and a worker
whose runs succeed. Neither the clock nor an operator helps any more; what ran before and was not named keeps running.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final

import pytest

from stepwell import Stepwell
from stepwell.look.explain import Explanation, RootCause
from stepwell.model.reasons import DORMANT
from stepwell.model.states import TERMINAL, State
from tests.conformance.engine.test_stateful import emptied, moves
from tests.conformance.support.machine import SHAPES, Machine, Opener
from tests.conformance.support.reference_model import Node

SEED: Final = int(os.environ.get("STEPWELL_EXPLORE_SEED", "20260101"))
STEPS: Final = 300
MOVES_BETWEEN: Final = 12
STEPS_PER_WALK: Final = 15
# A retried parent runs its own code again, and only then can its failed children be retried: two rounds, rarely more.
ROUNDS: Final = 4
# Nothing can make these run again; the engine says so and refuses a retry.
FINAL: Final = ("dormant", "not_runnable")


@pytest.mark.slow
@pytest.mark.sqlite
def test_a_step_runs_once_its_root_causes_are_removed_in_memory() -> None:
    _check(lambda: partial(Stepwell, "sqlite://"))


@pytest.mark.slow
def test_a_step_runs_once_its_root_causes_are_removed_on_postgres(postgres_url: str) -> None:
    Stepwell(postgres_url).open().close()
    _check(lambda: emptied(postgres_url))


def _check(fresh: Callable[[], Opener]) -> None:
    done, number = Counter[int](), 0
    seen: Counter[str] = Counter()
    while sum(done.values()) < STEPS:
        seed = f"{SEED}/{number}"
        print(f"seed {seed}")
        chance = random.Random(seed)
        machine = Machine(fresh(), 50, False)
        try:
            machine.start(chance.choice(SHAPES[:4]), 0.0)
            for _ in range(STEPS_PER_WALK):
                for _ in range(MOVES_BETWEEN):
                    weights, choices = zip(*moves(machine, chance), strict=True)
                    chance.choices(choices, weights)[0]()
                rounds = _release_one(machine, chance, seen)
                if rounds:
                    done[rounds] += 1
        except BaseException as error:
            error.add_note(f"in the walk {seed!r}")
            raise
        finally:
            machine.app.close()
        number += 1
    print(done, seen)
    assert done[1] > 0.8 * STEPS


def _release_one(machine: Machine, chance: random.Random, seen: Counter[str]) -> int:
    """Remove the root causes of a random step that waits; after how many rounds it ran, 0 if none can run."""
    machine.tick_until_quiet()
    waiting = [node for node in machine.model.nodes.values() if _waits(node)]
    chance.shuffle(waiting)
    for node in waiting:
        explanation = machine.app.explain(node.id)
        if _cannot_run(explanation):
            continue
        attempts = node.attempts
        history: list[str] = []
        for rounds in range(1, ROUNDS + 1):
            seen.update(root.condition for root in explanation.roots)
            history.append(_text(explanation))
            try:
                _remove(machine, explanation, chance)
            except BaseException as error:
                error.add_note("\n".join(history))
                raise
            if _runs(machine, node, attempts):
                return rounds
            explanation = machine.app.explain(node.id)
            if _cannot_run(explanation):
                break  # it waits for a handler, which is dormant again because what had failed is retried
        else:
            history.append(_text(explanation))
            raise AssertionError(f"step {node.id} does not run: " + "\n".join(history))
    return 0


def _cannot_run(explanation: Explanation) -> bool:
    return any(root.condition in FINAL or _is_final(root) for root in explanation.roots)


def _text(explanation: Explanation) -> str:
    return f"{explanation.state}: {explanation.summary} {explanation.roots}"


def _waits(node: Node) -> bool:
    if node.state is State.RUNNING:
        return bool(node.own_code_done)
    return node.state in (State.PENDING, State.DISPATCHED, State.NOT_RUNNABLE) and node.reason != DORMANT


def _is_final(root: RootCause) -> bool:
    return root.condition == "ended" and not root.advice


def _remove(machine: Machine, explanation: Explanation, chance: random.Random) -> None:
    until = machine.clock.now()
    for root in explanation.roots:
        if root.condition == "dispatch_after":
            assert root.changes_at is not None
            until = max(until, root.changes_at)
    machine.let_time_pass((until - machine.clock.now()).total_seconds(), True)
    for root in explanation.roots:
        for step in root.steps:
            _remove_one(machine, root, step, chance)
    machine.let_time_pass(0.0, True)


def _remove_one(machine: Machine, root: RootCause, step: int, chance: random.Random) -> None:
    match root.condition:
        case "dispatch_after" | "workers" | "pending" | "dispatched" | "room" | "slots" | "decision":
            pass  # time has passed, a worker is there, and the engine does the rest
        case "breaker":
            machine.turn_breaker(True)
        case "workflow":
            if machine.model.nodes[step].workflow in machine.model.paused:
                machine.resume_workflow(step)
        case "lease":
            machine.release_lease(machine.last_claims[step])
        case "running" | "heartbeat":
            machine.finish(machine.last_claims[step], "ok", 0.0)
        case "ended":
            verb, number = chance.choice(root.advice).split()[1:]
            if machine.model.nodes[int(number)].state in (State.FAILED, State.STOPPED, State.CANCELLED):
                getattr(machine, verb)(int(number))
                assert machine.app.step(int(number)).state not in (State.FAILED, State.STOPPED, State.CANCELLED), (
                    f"the engine refused `{verb} {number}`: {root}"
                )
        case _:
            raise AssertionError(f"what is that? {root}")


def _runs(machine: Machine, node: Node, attempts: int) -> bool:
    """Leave the engine to itself; whether the step then ran, or ended if it is a parent that waited."""
    waited = node.state is State.RUNNING and node.own_code_done
    for _ in range(100):
        machine.tick_until_quiet()
        machine.let_time_pass(0.0, True)
        claimed = machine.claim(1_000).values
        if node.state in TERMINAL if waited else node.attempts > attempts or node.state is State.COMPLETED:
            return True
        for claim in claimed:
            if machine.model.nodes[claim.step_id].state is State.RUNNING:
                machine.finish(claim, "ok", 0.0)
        if not claimed:
            return False
    return False
