"""What `explain` names is what holds a step up: once the root causes are removed, the step runs, without further help.

Steps of the random walks of the stateful tests are taken while they wait. Each root cause is removed by what its kind
calls for (advice is taken literally, in the order in which the causes are listed, and must be accepted). Then the
engine is left to itself: ticks, and workers whose runs succeed. Neither the clock nor an operator helps any more; what
ran before and was not named keeps running.

One round must do. What cannot be known beforehand is not part of it:

- runs succeed, and create no children that were not there before (what a run does anew, nobody knows);
- a rescued step waits for a random part of a second or more, so that not all steps of a dead worker begin at once: the
  test lets that pass;
- that other workers fall silent or limits are set meanwhile.
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
from stepwell.model.states import CONCLUDED, TERMINAL, State
from tests.conformance.engine.test_stateful import emptied, moves
from tests.conformance.support.machine import SHAPES, Opener
from tests.conformance.support.obstructed import ObstructedMachine
from tests.conformance.support.reference_model import ENDED_BADLY, Node

SEED: Final = int(os.environ.get("STEPWELL_EXPLORE_SEED", "20260101"))
STEPS: Final = 300
PARTS: Final = 3  # on PostgreSQL, so that no test takes minutes
MOVES_BETWEEN: Final = 12
STEPS_PER_WALK: Final = 15
# What takes an action of an operator on a step that has ended.
BY_ACTION: Final = ("ended", "dormant", "not_runnable")
# Each of these must have kept one of the steps from running.
DRAWN: Final = frozenset(
    ("breaker", "children", "dependencies", "dispatch_after", "dispatched", "ended", "heartbeat", "index", "key",
     "lease", "limit", "not_runnable", "parent", "running", "workers", "workflow")
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.sqlite
def test_a_step_runs_once_its_root_causes_are_removed_in_memory() -> None:
    seen = _check(lambda: partial(Stepwell, "sqlite://"), 0, STEPS)
    assert seen.keys() >= DRAWN


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_a_step_runs_once_its_root_causes_are_removed_on_postgres(postgres_url: str, part: int) -> None:
    Stepwell(postgres_url).open().close()
    _check(lambda: emptied(postgres_url), part * STEPS, STEPS // PARTS)


def _check(fresh: Callable[[], Opener], first: int, steps: int) -> Counter[str]:
    released, number = 0, first
    seen: Counter[str] = Counter()
    while released < steps:
        seed = f"{SEED}/{number}"
        print(f"seed {seed}")
        released += _walk(fresh(), seed, seen)
        number += 1
    print(seen)
    return seen


def _walk(open_app: Opener, seed: str, seen: Counter[str]) -> int:
    chance = random.Random(seed)
    machine = ObstructedMachine(open_app, 50, chance)
    released = 0
    try:
        machine.start(chance.choice(SHAPES[:4]), 0.0)
        for _ in range(STEPS_PER_WALK):
            for _ in range(MOVES_BETWEEN):
                weights, choices = zip(*moves(machine, chance), *machine.more_moves(), strict=True)
                chance.choices(choices, weights)[0]()
            released += _release_one(machine, chance, seen)
    except BaseException as error:
        error.add_note(f"in the walk {seed!r}")
        raise
    finally:
        machine.app.close()
    return released


def _release_one(machine: ObstructedMachine, chance: random.Random, seen: Counter[str]) -> bool:
    """Remove the root causes of a random step that waits, and see that it runs; False if none can."""
    machine.tick_until_quiet()
    waiting = [node for node in machine.model.nodes.values() if _waits(machine, node)]
    chance.shuffle(waiting)
    for node in waiting:
        explanation = machine.app.explain(node.id)
        if any(_is_final(root, node.id) for root in explanation.roots):
            continue
        if machine.is_abandoned(node) and not explanation.obstacles:
            continue  # the silence of its worker is not noticed yet
        seen.update(_conditions(explanation))
        attempts = node.attempts
        try:
            _remove(machine, explanation, chance)
            assert _runs(machine, node, attempts), f"it does not run: {_text(machine.app.explain(node.id))}"
        except BaseException as error:
            error.add_note(f"step {node.id}, {_text(explanation)}")
            raise
        return True
    return False


def _conditions(explanation: Explanation) -> set[str]:
    steps = (explanation, *explanation.behind)
    obstacles = [each.condition for step in steps for each in (*step.obstacles, *step.afterwards)]
    return {*obstacles, *(root.condition for root in explanation.roots)}


def _text(explanation: Explanation) -> str:
    return f"{explanation.state}: {explanation.summary} {explanation.roots}"


def _waits(machine: ObstructedMachine, node: Node) -> bool:
    if node.state is State.RUNNING:
        return node.own_code_done or machine.is_abandoned(node)
    return node.state in (State.PENDING, State.DISPATCHED, State.NOT_RUNNABLE) and node.reason != DORMANT


def _is_final(root: RootCause, step: int) -> bool:
    """Whether nothing makes the step run: there is no advice, or only to skip the step itself."""
    return root.condition in BY_ACTION and set(root.advice) <= {f"stepwell skip {step}"}


def _remove(machine: ObstructedMachine, explanation: Explanation, chance: random.Random) -> None:
    now = machine.clock.now()
    until = [root.changes_at for root in explanation.roots if root.changes_at is not None]
    machine.let_time_pass((max([now, *until]) - now).total_seconds(), True)
    if any(root.condition in ("heartbeat", "lease") for root in explanation.roots):
        machine.reap()
    for root in explanation.roots:
        for step in root.steps:
            _remove_one(machine, root, step, chance)


def _remove_one(machine: ObstructedMachine, root: RootCause, step: int, chance: random.Random) -> None:
    node = machine.model.nodes[step]
    match root.condition:
        case "dispatch_after" | "pending" | "dispatched" | "room" | "slots" | "decision" | "key":
            pass  # time has passed, a worker is there, and the engine does the rest
        case "heartbeat":
            if node.reason == "rescued" and node.due is not None:
                machine.let_time_pass(max(0.0, (node.due - machine.clock.now()).total_seconds()), True)
        case "workers":
            machine.serve(node.queue, node.action)
        case "limit":
            kind, value = root.advice[0].removeprefix("stepwell limits --").split()
            name, _, maximum = value.rpartition("=")
            machine.set_limit(kind, name, int(maximum))
        case "breaker":
            machine.turn_breaker(True)
        case "workflow":
            if node.workflow in machine.model.paused:
                machine.resume_workflow(step)
        case "lease":
            machine.release_lease(machine.last_claims[step])
        case "running":
            machine.finish(machine.last_claims[step], "ok", 0.0)
        case "ended" | "dormant" | "not_runnable":
            verb, number = chance.choice(root.advice).split()[1:]
            other = machine.model.nodes[int(number)]
            if other.state in ENDED_BADLY and not (verb == "retry" and other.state is State.NOT_RUNNABLE):
                getattr(machine, verb)(other.id)
                assert other.state not in ENDED_BADLY, f"the engine refused `{verb} {number}`: {root}"
        case _:
            raise AssertionError(f"what is that? {root}")


def _runs(machine: ObstructedMachine, node: Node, attempts: int) -> bool:
    """Leave the engine to itself; whether the step then ran, or ended if it is a parent that waited."""
    waited = node.state is State.RUNNING and node.own_code_done
    for _ in range(100):
        machine.tick_until_quiet()
        claimed = machine.claim(1_000).values
        if node.state in (CONCLUDED if waited else TERMINAL) and (waited or node.state is State.COMPLETED):
            return True
        if not waited and node.attempts > attempts:
            return True
        for claim in claimed:
            if machine.model.nodes[claim.step_id].state is State.RUNNING:
                machine.finish(claim, "ok", 0.0)
        if not claimed:
            return False
    return False
