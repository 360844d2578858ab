"""As `test_explain_roots`, for declared workflows: random graphs of jobs, maps and gates with conditions.

There is no model here: what is checked is only that a step which waits runs (a gate: opens), or is skipped by what its
template says, once every root cause has been removed by what its kind calls for. Runs succeed from then on.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

import pytest

from stepwell import ActionRefused, Permanent, Skip, State, Step, Stepwell, Stop
from stepwell.look.explain import Explanation, RootCause
from stepwell.model import codec
from stepwell.model.claimed import Claim
from stepwell.model.errors import IllegalTransition
from stepwell.model.reasons import DORMANT
from stepwell.model.states import CONCLUDED, TERMINAL
from stepwell.run.finish import Finisher
from stepwell.run.inline import InlineRunner
from stepwell.testing import ManualClock
from stepwell.workflow.live.start import Start
from tests.conformance.support.ticks import run
from tests.conformance.workflow.random_graphs import random_graph

SEED: Final = int(os.environ.get("STEPWELL_EXPLORE_SEED", "20260101"))
STEPS: Final = 40
# Each of these must have been a root cause.
DRAWN: Final = frozenset(("gate", "breaker", "workflow", "ended", "running", "limit", "heartbeat", "workers"))
WHO: Final = "tester"


class World:
    """Some random workflows, in the middle of their runs."""

    def __init__(self, app: Stepwell, clock: ManualClock, chance: random.Random) -> None:
        self.app, self.clock, self.chance = app, clock, chance
        self.succeeds = False
        self.to_answer: set[int] = set()  # gates that are named, and not open yet
        if "act" not in app.jobs:
            app.job(name="act")(self._act)
        self.claims: dict[int, tuple[InlineRunner, Claim]] = {}
        self.runners = [app.inline_runner(slots=50)]
        self.workflows: set[str] = set()
        for number in range(3):
            graph = random_graph(chance)
            name = f"g{chance.getrandbits(60):x}{number}"
            start = Start(context=codec.encode(graph.context()))
            self.workflows.add(app.workflow_engine.starter.start(graph.template(name), start))

    def steps(self) -> list[Step]:
        return [step for step in self.app.steps(limit=100) if step.workflow_id in self.workflows]

    def _act(self, outcome: str, needs: list[str], **inputs: Any) -> str:
        if not self.succeeds:
            match outcome:
                case "fail":
                    raise Permanent("told to fail")
                case "stop":
                    raise Stop("told to stop")
                case "skip":
                    raise Skip("told to skip")
                case "flaky":
                    raise RuntimeError("told to fail")
        return "ok"

    def close(self) -> None:
        for runner in self.runners:
            runner.close()

    # what happens ---------------------------------------------------------------------------------------------

    def happen(self) -> None:
        step = self.chance.choice(self.steps())
        self.tick()
        match self.chance.randrange(14):
            case 0 | 1 | 2 | 3 | 4:
                self.claim(self.chance.randint(1, 3))
            case 5 | 6 | 7:
                for step_id in list(self.claims)[:2]:
                    self.end(step_id)
            case 8:
                self._by_hand(self.chance.choice(("cancel", "skip", "retry", "retry", "complete")), step)
            case 9:
                self.app.pause_workflow(step, who=WHO)
            case 10:
                self.app.breaker.pause(WHO)
            case 11:
                self.app.limits.set("action", "act", self.chance.choice((1, 2)))
            case 12:
                self._fall_silent()
            case 13:
                self.let_time_pass(self.chance.choice((1.0, 30.0)))

    def _by_hand(self, verb: str, step: Step) -> None:
        with suppress(ActionRefused, IllegalTransition):
            getattr(self.app, verb)(step, who=WHO)

    def _fall_silent(self) -> None:
        """A worker claims a step and sends no heartbeat any more; sometimes it was the only one."""
        runner = self.app.inline_runner(slots=1)
        runner.claim(1)
        if self.chance.random() < 0.3:
            self.runners.clear()
            self.claims.clear()
        self.let_time_pass(40.0)

    def let_time_pass(self, seconds: float) -> None:
        self.clock.advance(seconds)
        for runner in self.runners:
            runner.worker.heartbeat()

    def tick(self) -> None:
        for report in self.app.dispatcher().run_until_quiet():
            assert report.error is None

    def claim(self, limit: int) -> int:
        claimed = [(runner, claim) for runner in self.runners for claim in runner.claim(limit)]
        self.claims |= {claim.step_id: (runner, claim) for runner, claim in claimed}
        return len(claimed)

    def end(self, step_id: int) -> None:
        runner, claim = self.claims.pop(step_id)
        if self.app.step(step_id).state is State.RUNNING:
            run(runner, claim)
        else:
            Finisher(self.app.database).release_lease(claim)

    # what is explained ----------------------------------------------------------------------------------------

    def waiting(self) -> list[Step]:
        found = [step for step in self.steps() if self._waits(step)]
        self.chance.shuffle(found)
        return found

    def _waits(self, step: Step) -> bool:
        if step.state is State.RUNNING:
            return step.own_code_done_at is not None
        return step.state in (State.PENDING, State.DISPATCHED, State.NOT_RUNNABLE) and step.reason != DORMANT

    def remove(self, explanation: Explanation) -> None:
        moments = [root.changes_at for root in explanation.roots if root.changes_at and root.condition != "gate"]
        self.let_time_pass(max(0.0, (max([self.clock.now(), *moments]) - self.clock.now()).total_seconds()))
        if any(root.condition in ("heartbeat", "lease") for root in explanation.roots):
            self.app.reaper().round()
            self.let_time_pass(5.0)  # a rescue waits for a random part of a second or more
        for root in explanation.roots:
            for step_id in root.steps:
                self._remove_one(root, step_id)

    def _remove_one(self, root: RootCause, step_id: int) -> None:
        step = self.app.step(step_id)
        match root.condition:
            case "pending" | "dispatched" | "room" | "slots" | "decision" | "key" | "dispatch_after" | "heartbeat":
                pass  # time has passed, and the engine does the rest
            case "gate":
                self.to_answer.add(step_id)
            case "workers":
                if not self.runners:
                    self.runners.append(self.app.inline_runner(slots=50))
            case "limit":
                kind, value = root.advice[0].removeprefix("stepwell limits --").split()
                name, _, maximum = value.rpartition("=")
                self.app.limits.set(kind, name, int(maximum))  # type: ignore[arg-type]
            case "breaker":
                self.app.breaker.resume(WHO)
            case "workflow":
                self._by_hand("resume_workflow", step)
            case "running" | "lease":
                if step_id in self.claims:
                    self.end(step_id)
            case "ended" | "dormant" | "not_runnable":
                verb, number = self.chance.choice(root.advice).split()[1:]
                other = self.app.step(int(number))
                if other.state in TERMINAL - CONCLUDED and not (verb == "retry" and other.state is State.NOT_RUNNABLE):
                    getattr(self.app, verb)(other.id, who=WHO)
            case _:
                raise AssertionError(f"what is that? {root}")

    def runs(self, step: Step) -> bool:
        """Leave the engine to itself."""
        self.succeeds = True
        for _ in range(60):
            self.tick()
            now = self.app.step(step)
            if now.state in CONCLUDED or now.attempts > step.attempts or (now.attempts and not step.attempts):
                return True
            if now.id not in self.to_answer and self._is_open_gate(now):
                return True
            did = self.claim(1_000) + self._answer_gates()
            for step_id in list(self.claims):
                self.end(step_id)
            if not did:
                return False
        return False

    def _answer_gates(self) -> int:
        """Those that are open now, of those that were named."""
        is_open = {step_id for step_id in self.to_answer if self._is_open_gate(self.app.step(step_id))}
        for step_id in is_open:
            self.app.workflow_engine.gates.answer(step_id, "ok", WHO)
        self.to_answer -= is_open
        return len(is_open)

    def _is_open_gate(self, step: Step) -> bool:
        return step.kind == "gate" and any(each.condition == "gate" for each in self.app.explain(step).obstacles)


@pytest.mark.slow
def test_a_step_of_a_workflow_runs_once_its_root_causes_are_removed(database_url: str) -> None:
    clock = ManualClock()
    seen: Counter[str] = Counter()
    released, number = 0, 0
    with Stepwell(database_url, clock=clock) as app:
        steps = 3 * STEPS if app.database.dialect == "sqlite" else STEPS
        while released < steps:
            seed = f"{SEED}/{number}"
            print(f"seed {seed}")
            released += _release_one(app, clock, random.Random(seed), seen)
            number += 1
            _empty(app)
            clock.advance(timedelta(days=1).total_seconds())
        print(seen)
        assert [str(violation) for violation in app.check_invariants()] == []
    if steps > STEPS:
        assert seen.keys() >= DRAWN


def _release_one(app: Stepwell, clock: ManualClock, chance: random.Random, seen: Counter[str]) -> bool:
    world = World(app, clock, chance)
    try:
        for _ in range(chance.randint(5, 25)):
            world.happen()
        world.tick()
        for step in world.waiting():
            explanation = app.explain(step)
            if any(_is_final(root, step.id) for root in explanation.roots):
                continue
            seen.update({root.condition for root in explanation.roots})
            try:
                world.remove(explanation)
                assert world.runs(step), f"it does not run: {_text(app.explain(step))}"
            except BaseException as error:
                error.add_note(f"step {step.id}, {_text(explanation)}")
                raise
            return True
        return False
    finally:
        world.close()


def _is_final(root: RootCause, step: int) -> bool:
    return root.condition in ("ended", "dormant", "not_runnable") and set(root.advice) <= {f"stepwell skip {step}"}


def _text(explanation: Explanation) -> str:
    return f"{explanation.state}: {explanation.summary} {explanation.roots}"


def _empty(app: Stepwell) -> None:
    """End what is left, so that nothing of it holds up the next world."""
    app.breaker.resume(WHO)
    app.limits.set("action", "act", None)
    app.reaper().round()
    for step in app.steps(limit=100):
        if step.state not in TERMINAL:
            app.cancel(step, who=WHO)
    app.dispatcher().run_until_quiet()
