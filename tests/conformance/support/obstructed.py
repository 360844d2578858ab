"""The machine of the stateful tests, with what keeps steps from running although no other step does.

Queues that no worker serves, actions that no worker knows, concurrency keys, limits, and workers that stop sending
heartbeats while they run steps.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from hypothesis.stateful import multiple

from stepwell.model.leases import LEASE_SECONDS
from stepwell.model.states import State
from stepwell.run.inline import InlineRunner
from tests.conformance.support.machine import ACTION, Machine, Opener
from tests.conformance.support.reference_model import Node

OTHER_ACTIONS: Final = ("other", "another")
QUEUES: Final = ("candles", "indicators")
KEYS: Final = ("k1", "k2")
LIMITS: Final = (("total", ""), ("queue", "default"), ("action", ACTION))


class ObstructedMachine(Machine):
    """Its moves are drawn from `chance` alone."""

    def __init__(self, open_app: Opener, slots: int, chance: random.Random) -> None:
        self.chance = chance
        self.runners: list[InlineRunner] = []  # those that send heartbeats
        self.abandoned: dict[int, int] = {}  # by step: the token of its claim by a worker that fell silent
        super().__init__(open_app, slots, False)

    def open(self) -> None:
        super().open()
        self.runner.close()
        self.runner = self._worker("default")
        self._add(self.runner)

    def _worker(self, queue: str) -> InlineRunner:
        return self.app.inline_runner(queues=[queue], slots=self.slots)

    def _add(self, runner: InlineRunner) -> None:
        self.runners.append(runner)
        self._keep_alive(runner)

    def _keep_alive(self, runner: InlineRunner) -> None:
        until = self.clock.now() + timedelta(seconds=LEASE_SECONDS)
        lanes = self.rows(f"SELECT queue, action FROM steps_worker_lanes WHERE worker_id = '{runner.worker.id}'")
        for lane in lanes:
            self.model.lanes[lane["queue"], lane["action"]] = until

    def draw_extra(self) -> dict[str, Any]:
        extra = super().draw_extra()
        draw = self.chance.random()
        if draw < 0.05:
            extra["queue"] = self.chance.choice(QUEUES)
        elif draw < 0.08:
            extra["action"] = self.chance.choice(OTHER_ACTIONS)
        elif draw < 0.25:
            extra["concurrency_key"] = self.chance.choice(KEYS)
        return extra

    # moves --------------------------------------------------------------------------------------------------

    def more_moves(self) -> list[tuple[float, Callable[[], Any]]]:
        kind, name = self.chance.choice(LIMITS)
        return [
            (3, self.claim_and_fall_silent),
            (1, lambda: self.set_limit(kind, name, self.chance.choice((1, 2)))),
            (2, lambda: self.set_limit(kind, name, None)),
            (0.5, self.reap),
        ]

    def claim_and_fall_silent(self) -> None:
        """A worker claims steps and never sends a heartbeat again."""
        runner = self._worker("default")
        self._keep_alive(runner)
        self.workers.insert(0, self.clock.now() + timedelta(seconds=LEASE_SECONDS))
        self.abandoned |= {claim.step_id: claim.token for claim in self._claim(runner, 2)}
        self.let_time_pass(self.chance.choice((0.0, 20.0, 40.0)), True)

    def is_abandoned(self, node: Node) -> bool:
        return node.leased and self.abandoned.get(node.id) == node.token

    def set_limit(self, kind: Any, name: str, maximum: int | None) -> None:
        self.app.limits.set(kind, name, maximum)

    def serve(self, queue: str, action: str) -> None:
        """Start a worker for a lane that has none."""
        if (until := self.model.lanes.get((queue, action))) is not None and until > self.clock.now():
            return
        if action not in self.app.jobs:
            self.app.job(name=action)(lambda: None)
        self._add(self._worker(queue))

    def reap(self) -> None:
        """What the reaper does follows from leases and time; the model takes note."""
        self.app.reaper().round()
        rows = {
            row["id"]: row for row in self.rows("SELECT id, state, reason, lease_worker, dispatch_after FROM steps")
        }
        for node in self.model.nodes.values():
            row = rows[node.id]
            is_rescued = node.leased and row["lease_worker"] is None
            if is_rescued or (node.state is State.DISPATCHED and row["reason"] == "recovered"):
                node.leased = False
                node.state, node.reason, node.due = State(row["state"]), row["reason"], row["dispatch_after"]

    # what differs -------------------------------------------------------------------------------------------

    def let_time_pass(self, seconds: float, beat: bool) -> None:
        self.clock.advance(seconds)
        if beat:
            for runner in self.runners:
                runner.worker.heartbeat()
                self._keep_alive(runner)
            self.workers[-1] = self.clock.now() + timedelta(seconds=LEASE_SECONDS)

    def claim(self, limit: int) -> Any:
        return multiple(*(claim for runner in self.runners for claim in self._claim(runner, limit)))

    def _claim(self, runner: InlineRunner, limit: int) -> list[Any]:
        claims = runner.claim(limit)
        for claim in claims:
            node = self.model.nodes[claim.step_id]
            assert node.state is State.DISPATCHED
            assert claim.token == self.model.claim(node)
            self.last_claims[claim.step_id] = claim
            self.all_claims.append(claim)
        return claims

    def explain(self, step: int) -> None:
        """Keys and limits are not conditions of the step: the test of root causes looks at the answer."""
        self.app.explain(step)
