"""Readiness has one definition: what `explain` calls ready is exactly what the dispatcher picks next.

Random trees and graphs are moved along at random: steps end in every way, operators act, time passes, workflows are
paused, steps come late. After every move cascades settle with the breaker off; then every Pending step is explained,
and the ticks that follow must dispatch those without an obstacle, and no others.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepwell import ActionRefused, InvalidStep, NewStep, Permanent, Reschedule, Retry, Skip, StepRef, Stepwell, Stop
from stepwell.model.claimed import Claim
from stepwell.run.inline import InlineRunner
from stepwell.share.strategies import NORMAL_SHARE
from stepwell.testing import ManualClock, behave
from tests.conformance.support.engine import raised, returned
from tests.conformance.support.ticks import tick

EXAMPLES = int(os.environ.get("STEPWELL_EXAMPLES", "20"))
TRIGGER_RULES = ["all_concluded", "all_ended", "any_concluded"]
ENDINGS = ["return", "fail", "stop", "skip", "retry", "throttle", "hand back", "keep running"]


@st.composite
def forests(draw: st.DrawFn) -> list[NewStep]:
    """A handful of steps, each somewhere below, beside or behind the earlier ones."""
    drafts: list[NewStep] = []
    for number in range(draw(st.integers(1, 9))):
        parent = draw(st.none() | st.sampled_from(drafts)) if drafts else None
        handler = parent is not None and draw(st.integers(0, 4)) == 0
        others = [draft for draft in drafts if draft.type == "default" and draft is not parent]
        edges = draw(st.lists(st.sampled_from(others), max_size=2, unique_by=id)) if others and not handler else []
        drafts.append(
            NewStep(
                action=draw(st.sampled_from(["behave", "behave", "behave", "unknown"])) if number else "behave",
                label=f"s{number}",
                parent=parent,
                index=draw(st.integers(1, 3)),
                type="resolve-exception" if handler else "default",
                depends_on=edges,
                trigger_rule=draw(st.sampled_from(TRIGGER_RULES)),
                delay=draw(st.sampled_from([None, None, None, 30.0])),
                queue=draw(st.sampled_from([None, None, None, "candles"])),
                priority=draw(st.sampled_from(["default", "default", "high"])),
                max_retries=draw(st.integers(0, 2)),
            )
        )
    return drafts


class Moving:
    """The steps of one example, and all that can happen to them."""

    def __init__(self, app: Stepwell, clock: ManualClock, drafts: list[NewStep]) -> None:
        self.app = app
        self.clock = clock
        self.refs: list[StepRef] = [*app.enqueue_many(drafts)]
        self.runner: InlineRunner = app.inline_runner(queues=["default", "priority"], slots=1_000)
        self.claims: list[Claim] = []

    def agrees(self) -> None:
        """The ticks dispatch what `explain` calls ready, and nothing else."""
        self.app.breaker.pause("tester")
        self._tick()
        self.app.breaker.resume("tester")
        before = {step.id: step for step in self._steps()}
        ready = {
            step_id
            for step_id, step in before.items()
            if step.state == "Pending" and not self.app.explain(step).obstacles
        }
        eligible = {i for i, step in before.items() if step.state == "Pending" and self.app.explain(step).eligible}
        self._tick()
        picked = {step.id for step in self._steps() if step.state == "Dispatched" != before[step.id].state}
        assert picked == ready == eligible
        untouched = {step.id for step in self._steps() if step.state == before[step.id].state}
        assert untouched == before.keys() - picked

    def _tick(self) -> None:
        for report in self.app.dispatcher().run_until_quiet():
            if report.error is not None:
                raise report.error

    def _steps(self) -> list[Any]:
        return [self.app.step(ref) for ref in self.refs]

    # what can happen ------------------------------------------------------------------------------------------

    def move(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(["run", "run", "run", "act", "wait", "pause", "add"]))
        getattr(self, f"_{name}")(data)

    def _run(self, data: st.DataObject) -> None:
        self.claims += self.runner.claim(data.draw(st.integers(1, 4)))
        for claim in list(self.claims):
            ending = data.draw(st.sampled_from(ENDINGS))
            if ending == "keep running":
                continue
            self.claims.remove(claim)
            if _end(self.runner, claim, ending) is None:
                self.runner._finisher.release_lease(claim)

    def _act(self, data: st.DataObject) -> None:
        act = getattr(self.app, data.draw(st.sampled_from(["cancel", "skip", "complete", "retry", "retry"])))
        ref = data.draw(st.sampled_from(self.refs))
        with suppress(ActionRefused):
            act(ref, who="tester")

    def _wait(self, data: st.DataObject) -> None:
        self.clock.advance(data.draw(st.sampled_from([0.5, 29.0, 31.0])))
        self.runner.worker.heartbeat()

    def _pause(self, data: st.DataObject) -> None:
        ref = data.draw(st.sampled_from(self.refs))
        try:
            self.app.resume_workflow(ref, who="tester")
        except ActionRefused:
            self.app.pause_workflow(ref, who="tester")

    def _add(self, data: st.DataObject) -> None:
        near = self.app.step(data.draw(st.sampled_from(self.refs)))
        place: dict[str, Any] = data.draw(
            st.sampled_from([{"parent": near.ref}, {"block": near.block_uuid}, {"depends_on": [near.ref]}])
        )
        place |= {"index": data.draw(st.integers(1, 3)), "trigger_rule": data.draw(st.sampled_from(TRIGGER_RULES))}
        with suppress(InvalidStep):
            self.refs.append(self.app.enqueue("behave", **place))

    def leave(self) -> None:
        """Make room for the next example: everything ends."""
        for claim in self.claims:
            if _end(self.runner, claim, "fail") is None:
                self.runner._finisher.release_lease(claim)
        for ref in self.refs:
            if self.app.step(ref).state in ("Pending", "Dispatched", "Running"):
                self.app.cancel(ref, who="tester")
        self._tick()
        self.runner.close()


def _end(runner: InlineRunner, claim: Claim, ending: str) -> Any:
    finisher = runner._finisher
    match ending:
        case "return":
            return returned(finisher, claim, None)
        case "hand back":
            return finisher.hand_back(claim)
    error = {
        "fail": Permanent("no"),
        "stop": Stop("no"),
        "skip": Skip("no"),
        "retry": Retry("again", in_=10),
        "throttle": Reschedule(in_=20),
    }[ending]
    return raised(finisher, claim, error)


SETTINGS = settings(
    max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.fixture
def calm_app(app: Stepwell) -> Stepwell:
    behave(app)
    return app


@pytest.mark.slow
@given(drafts=forests(), data=st.data())
@SETTINGS
def test_what_the_dispatcher_picks_next_is_exactly_what_explain_calls_ready(
    calm_app: Stepwell, clock: ManualClock, drafts: list[NewStep], data: st.DataObject
) -> None:
    try:
        moving = Moving(calm_app, clock, drafts)
    except InvalidStep:
        return  # a cycle
    try:
        for _ in range(data.draw(st.integers(1, 8))):
            moving.agrees()
            moving.move(data)
        moving.agrees()
        assert [str(violation) for violation in calm_app.check_invariants()] == []
        assert calm_app.sweep() == []
    finally:
        moving.leave()


@pytest.mark.slow
@given(
    priorities=st.lists(st.sampled_from(["default", "high"]), min_size=1, max_size=12),
    slots=st.integers(1, 4),
    limit=st.integers(1, 6),
)
@SETTINGS
def test_with_little_room_the_picks_are_the_first_of_what_is_ready(
    calm_app: Stepwell, priorities: list[Any], slots: int, limit: int
) -> None:
    refs = calm_app.enqueue_many(
        NewStep(action="behave", group="alpha", queue="default", priority=priority) for priority in priorities
    )
    runner = calm_app.inline_runner(queues=["default"], slots=slots)
    waiting = {
        rank: [ref.id for ref, p in zip(refs, priorities, strict=True) if p == rank] for rank in ("high", "default")
    }
    free = 2 * slots
    while free and any(waiting.values()):
        expected = sorted(_in_turn(waiting, free, spare=0)[:1])
        assert not calm_app.explain(expected[0]).obstacles
        report = tick(calm_app, batch_limit=limit)
        assert report.tick is not None
        expected = sorted(_in_turn(waiting, free, spare=int(report.tick % NORMAL_SHARE == 0))[: min(free, limit)])
        left = [*waiting["high"], *waiting["default"]]
        assert sorted(i for i in left if calm_app.step(i).state == "Dispatched") == expected
        waiting = {rank: [i for i in ids if i not in expected] for rank, ids in waiting.items()}
        free -= len(expected)
    for left_over in (*waiting["high"], *waiting["default"]):
        assert [obstacle.condition for obstacle in calm_app.explain(left_over).obstacles] == ["room"]
    for ref in refs:
        calm_app.cancel(ref, who="tester")
    runner.close()


def _in_turn(waiting: dict[str, list[int]], free: int, spare: int) -> list[int]:
    """The urgent first, but an eighth of the room (and now and then one more) is for the others."""
    urgent = max(0, free - free // 8 - spare)
    return [*waiting["high"][:urgent], *waiting["default"], *waiting["high"][urgent:]]
