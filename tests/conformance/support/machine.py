"""The state machine of the stateful tests: all operations on a database, compared with the reference model.

The changes of a tick are checked against the model in two ways. Each change must be one that its phase allows at that
moment (phases also run one by one, in any order). And when nothing changes any more, the result must be the one that
the model reaches by itself.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, Protocol

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from stepwell import Stepwell
from stepwell.define.drafts import NewStep
from stepwell.define.outcomes import Permanent, Reschedule, Retry, Skip, Stop
from stepwell.dispatch import lock as group_lock
from stepwell.dispatch.phases import STATE_PHASES, PhaseContext, dispatch, pick, process_marks
from stepwell.model.claimed import Claim
from stepwell.model.errors import ActionRefused, IllegalTransition, InvalidStep
from stepwell.model.leases import LEASE_SECONDS
from stepwell.model.states import TERMINAL, State
from stepwell.run.finish import Finisher
from stepwell.store import Transaction
from stepwell.store.engine import ticks
from stepwell.testing import ManualClock
from tests.conformance.support.engine import raised, returned
from tests.conformance.support.reference_model import HANDLER, Model, Node, Refused

ACTION: Final = "act"
WHO: Final = "tester"

PHASES: Final = {phase.number: phase for phase in STATE_PHASES}

# The phase that a change belongs to, by its reason.
PHASE_OF: Final = {
    "parent_skipped": 2,
    "parent_cancelled": 3,
    "promoted": 4,
    "children_failed": 5,
    "parent_failed": 6,
    "predecessor_failed": 6,
    "parent_not_runnable": 6,
    "children_concluded": 7,
    "max_retries_reached": 8,
    None: 10,
}
BLOCKED: Final = ("predecessor_failed", "parent_not_runnable")  # both may apply; either may be first

# Steps created together: for each its parent, its index, whether it is a handler, and its dependencies.
Shape = Sequence[tuple[int | None, int, bool, Sequence[int]]]
SHAPES: Final[Sequence[Shape]] = (
    [(None, 1, False, []), (0, 1, False, []), (0, 2, False, []), (0, 1, True, [])],
    [
        (None, 1, False, []),
        (0, 1, False, []),
        (1, 1, False, []),
        (2, 1, False, []),
        (1, 1, True, []),
        (4, 1, False, []),
    ],
    [(None, 1, False, []), (None, 1, False, [0]), (None, 1, False, [0]), (None, 1, False, [1, 2]), (3, 1, False, [1])],
    [
        (None, 1, False, []),
        (None, 1, False, [0]),
        (1, 1, False, []),
        (1, 2, False, [0]),
        (2, 1, False, []),
        (2, 3, True, []),
    ],
    [(None, 1, False, []), (0, 1, False, [0])],  # waits for its own parent: rejected
    [(None, 1, False, []), (0, 2, False, []), (0, 1, False, [1])],  # waits for a later index: rejected
)

TRIGGER_RULES: Final = ("all_concluded", "all_concluded", "all_ended", "any_concluded")
OUTCOMES: Final = (*["ok"] * 5, "fail", "fail", "stop", "skip", "retry", "throttle", "hand_back")

delays = st.sampled_from([0.0, 5.0])
indexes, trigger_rules, outcomes = st.integers(0, 3), st.sampled_from(TRIGGER_RULES), st.sampled_from(OUTCOMES)


class Opener(Protocol):
    """Opens the database of one example."""

    def __call__(self, *, clock: ManualClock) -> Stepwell: ...


class Machine(RuleBasedStateMachine):
    """One database and its model."""

    steps = Bundle("steps")
    claims = Bundle("claims")  # old ones too: their stale writes must be ignored

    def __init__(self, open_app: Opener, slots: int, reopens: bool) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.open_app, self.slots, self.reopens = open_app, slots, reopens
        self.model = Model()
        self.breaker_on = True
        self.workers: list[datetime] = []  # until when each of them counts as alive
        self.last_claims: dict[int, Claim] = {}
        self.all_claims: list[Claim] = []
        self.history_read = 0
        self.open()

    def open(self) -> None:
        self.app = self.open_app(clock=self.clock)
        self.app.job(name=ACTION)(lambda: None)
        self.runner = self.app.inline_runner(slots=self.slots)
        self.workers.append(self.clock.now() + timedelta(seconds=LEASE_SECONDS))
        self.finisher = Finisher(self.app.database)

    def rows(self, sql: str, **parameters: Any) -> list[dict[str, Any]]:
        return self.app.database.read(lambda tx: tx.fetch(sql, parameters))

    # creating -------------------------------------------------------------------------------------------------

    def create(self, drafts: Sequence[NewStep], nodes: Sequence[Node]) -> Any:
        """Engine and model both accept, or both reject."""
        try:
            self.model.refuse(nodes)
        except Refused:
            with pytest.raises(InvalidStep):
                self.app.enqueue_many(drafts)
            return multiple()
        refs = self.app.enqueue_many(drafts)
        for node, ref in zip(nodes, refs, strict=True):
            node.id, node.index = ref.id, node.index or 1
            self.model.add(node)
        return multiple(*(ref.id for ref in refs))

    @initialize(target=steps, shape=st.sampled_from(SHAPES[:4]), delay=delays)
    def start(self, shape: Shape, delay: float) -> Any:
        return self.bulk(shape, delay)

    @rule(target=steps, shape=st.sampled_from(SHAPES), delay=delays)
    def create_many(self, shape: Shape, delay: float) -> Any:
        return self.bulk(shape, delay)

    def bulk(self, shape: Shape, delay: float) -> Any:
        """All but the first are planned for later, if there is a delay."""
        drafts: list[NewStep] = []
        nodes: list[Node] = []
        workflow = object()
        for parent, index, handler, after in shape:
            kind = "resolve-exception" if handler else "default"
            extra = self.draw_extra()
            drafts.append(
                NewStep(
                    **extra,
                    parent=None if parent is None else drafts[parent],
                    index=index,
                    type="resolve-exception" if handler else "default",
                    depends_on=[drafts[number] for number in after],
                    max_retries=1,
                    delay=(drafts and delay) or None,
                )
            )
            above = None if parent is None else nodes[parent]
            block = object() if above is None else self.child_block(above)
            edges = tuple(nodes[number] for number in after)
            due = self.due(delay if nodes else 0.0)
            nodes.append(Node(0, above, block, index, kind, edges, workflow=workflow, max_retries=1, due=due, **extra))
        return self.create(drafts, nodes)

    def draw_extra(self) -> dict[str, Any]:
        """Settings of a step that decide who can run it, and beside what."""
        return {"action": ACTION}

    def child_block(self, node: Node) -> object:
        node.child_block = node.child_block or object()
        return node.child_block

    def due(self, delay: float) -> datetime | None:
        return self.clock.now() + timedelta(seconds=delay) if delay else None

    @rule(target=steps, handler=st.booleans(), delay=delays)
    def create_root(self, handler: bool, delay: float) -> Any:
        kind = HANDLER if handler else "default"
        extra = self.draw_extra()
        draft = NewStep(**extra, type=kind, delay=delay or None, max_retries=1)  # type: ignore[arg-type]
        node = Node(0, None, object(), 1, kind, workflow=object(), max_retries=1, due=self.due(delay), **extra)
        return self.create([draft], [node])

    @rule(
        target=steps,
        parent=steps,
        index=indexes,
        handler=st.sampled_from([False, False, True]),
        after=st.lists(steps, max_size=2, unique=True),
        trigger_rule=trigger_rules,
        delay=delays,
    )
    def create_child(
        self, parent: int, index: int, handler: bool, after: list[int], trigger_rule: str, delay: float
    ) -> Any:
        above = self.model.nodes[parent]
        block = self.child_block(above)
        return self.create_one(above, block, index, handler, after, trigger_rule, delay, parent=parent)

    @rule(target=steps, beside=steps, index=indexes, handler=st.booleans())
    def join_block(self, beside: int, index: int, handler: bool) -> Any:
        other = self.model.nodes[beside]
        block = self.app.step(beside).block_uuid
        place = other.parent, other.block, index, handler
        return self.create_one(*place, [], "all_concluded", 0.0, block=block, like=other)

    @rule(
        target=steps,
        after=st.lists(steps, min_size=1, max_size=3, unique=True),
        trigger_rule=trigger_rules,
        delay=delays,
    )
    def create_dependent(self, after: list[int], trigger_rule: str, delay: float) -> Any:
        like = self.model.nodes[after[0]]
        return self.create_one(None, object(), 1, False, after, trigger_rule, delay, like=like)

    def create_one(
        self,
        above: Node | None,
        shared: object,
        index: int,
        handler: bool,
        after: list[int],
        trigger_rule: str,
        delay: float,
        *,
        like: Node | None = None,
        **place: Any,
    ) -> Any:
        kind = HANDLER if handler else "default"
        home = above or like
        assert home is not None
        edges = tuple(self.model.nodes[number] for number in after)
        extra = self.draw_extra()
        node = Node(0, above, shared, index or 1, kind, edges, trigger_rule, home.workflow, max_retries=1, **extra)
        node.due = self.due(delay)
        settings: dict[str, Any] = {"index": index, "type": kind, "depends_on": after, "trigger_rule": trigger_rule}
        return self.create([NewStep(max_retries=1, delay=delay or None, **extra, **settings, **place)], [node])

    # dispatching --------------------------------------------------------------------------------------------------

    @contextmanager
    def locked(self, group: str) -> Iterator[tuple[group_lock.GroupLock, Callable[[Callable[..., Any]], Any]]]:
        database = self.app.database
        lock = group_lock.acquire(database, group, "any order")
        assert lock is not None

        def guarded(work: Callable[[Transaction, PhaseContext], Any]) -> Any:
            def fenced(tx: Transaction) -> Any:
                lock.fence(tx)
                return work(tx, PhaseContext(group, f"tick:{lock.tick}", database.now()))

            return database.transact(fenced)

        yield lock, guarded

        def release(tx: Transaction) -> None:
            ticks.delete_tick(tx, tick=lock.tick)
            ticks.release_lock(tx, group=group, token=lock.token, now=database.now(), ended_early=False)

        database.transact(release)

    @rule(
        step=steps,
        order=st.permutations(list(PHASES)),
        how_many=st.integers(1, 10),
        with_dispatch=st.booleans(),
        meanwhile=st.sampled_from(["", "cancel", "fail", "skip", "retry"]),
    )
    def run_phases_in_any_order(
        self, step: int, order: list[int], how_many: int, with_dispatch: bool, meanwhile: str
    ) -> None:
        """Under the group's lock, which does not block operators: one acts between the phases and the end."""
        with self.locked(self.app.step(step).group or "") as (lock, guarded):
            for number in order[:how_many]:
                assert guarded(PHASES[number].run) == self.absorb_ticks(), "a phase miscounted what it changed"
            if meanwhile:
                getattr(self, meanwhile)(step)
                self.engine_and_model_agree()
            # Marks may be deleted once every phase has processed them.
            guarded(lambda tx, at: process_marks(tx, at, lock.survey.marks if how_many >= len(order) else []))
            if with_dispatch and self.breaker_on:
                guarded(lambda tx, at: dispatch(tx, at, pick(tx, at, 100), lock.tick))
                self.absorb_ticks()

    @rule()
    def tick_once(self) -> None:
        for report in self.app.dispatcher().round():
            assert report.error is None
        self.absorb_ticks()

    @rule()
    def tick_until_quiet(self) -> None:
        predicted = self.model.copy()
        predicted.settle()
        self.app.dispatcher().run_until_quiet(max_rounds=200)
        self.absorb_ticks()
        for node in predicted.eligible(self.clock.now()):
            if self.model.nodes[node.id].state is State.DISPATCHED:
                predicted.dispatch(node)
        seen = all_normalized(self.model.states())
        wrong = {
            n: f"model {fact}, engine {seen[n]}"
            for n, fact in all_normalized(predicted.states()).items()
            if seen[n] != fact
        }
        assert not wrong, f"nothing changes any more, but not as predicted: {wrong}"
        left = self.model.eligible(self.clock.now())
        if self.breaker_on and left:
            assert len(self.in_state(State.DISPATCHED)) >= 2 * self.live_slots(), f"{left} could be dispatched"
        assert self.app.dispatcher().round() == [], "an idle dispatcher finds something to do"
        assert (findings := self.app.sweep()) == [], findings

    def absorb_ticks(self) -> int:
        """Apply the changes of the ticks to the model if it allows them; returns how many there were."""
        found = self.rows(
            "SELECT id, step_id, to_state, reason, actor FROM step_transitions WHERE id > "
            f"{self.history_read} ORDER BY id"
        )
        self.history_read = found[-1]["id"] if found else self.history_read
        found = [row for row in found if row["actor"] is not None and row["actor"].startswith("tick:")]
        for (_, number), rows in itertools.groupby(found, lambda row: (row["actor"], PHASE_OF[row["reason"]])):
            changes = {row["step_id"]: (State(row["to_state"]), row["reason"]) for row in rows}
            if number == 10:
                self.absorb_dispatch(changes)
            else:
                allowed = self.model.copy().phase(number)
                assert all_normalized(changes).items() <= all_normalized(allowed).items(), (
                    f"phase {number} may do {allowed}"
                )
                for step, (state, reason) in changes.items():
                    self.model.nodes[step].state, self.model.nodes[step].reason = state, reason
        return len(found)

    def absorb_dispatch(self, changes: dict[int, tuple[State, str | None]]) -> None:
        eligible = {node.id for node in self.model.eligible(self.clock.now())}
        assert self.breaker_on
        assert changes.keys() <= eligible, f"only {eligible} may be dispatched"
        for step in changes:
            self.model.dispatch(self.model.nodes[step])
        assert len(self.in_state(State.DISPATCHED)) <= 2 * self.live_slots()

    def in_state(self, state: State) -> list[int]:
        return [node.id for node in self.model.nodes.values() if node.state is state]

    def live_slots(self) -> int:
        return self.slots * sum(until > self.clock.now() for until in self.workers)

    # working ------------------------------------------------------------------------------------------------------

    @rule(target=claims, limit=st.integers(1, 5))
    def claim(self, limit: int) -> Any:
        claims = self.runner.claim(limit)
        assert [claim.step_id for claim in claims] == sorted(self.in_state(State.DISPATCHED))[:limit]
        for claim in claims:
            assert claim.token == self.model.claim(self.model.nodes[claim.step_id])
            self.last_claims[claim.step_id] = claim
            self.all_claims.append(claim)
        return multiple(*claims)

    @rule(claim=claims, outcome=outcomes, seconds=st.sampled_from([0.0, 5.0]))
    def finish(self, claim: Claim, outcome: str, seconds: float) -> None:
        node = self.model.nodes[claim.step_id]
        expected = self.model.finish(node, claim.token, outcome, self.clock.now(), seconds)
        assert self.write_ending(claim, outcome, seconds) is expected

    def write_ending(self, claim: Claim, outcome: str, seconds: float) -> State | None:
        match outcome:
            case "ok":
                return returned(self.finisher, claim, None)
            case "hand_back":
                return self.finisher.hand_back(claim)
            case "retry":
                return raised(self.finisher, claim, Retry(in_=seconds))
            case "throttle":
                return raised(self.finisher, claim, Reschedule(in_=seconds))
        return raised(self.finisher, claim, {"fail": Permanent, "stop": Stop, "skip": Skip}[outcome]())

    @rule(which=st.integers(0, 20), outcome=outcomes)
    def finish_what_runs(self, which: int, outcome: str) -> None:
        if leased := [node.id for node in self.model.nodes.values() if node.leased]:
            self.finish(self.last_claims[leased[which % len(leased)]], outcome, 1.0)

    @rule(
        target=claims,
        which=st.integers(0, 20),
        how=st.sampled_from(["hand_back", "throttle", "cancel"]),
        stale_outcome=outcomes,
    )
    def lose_to_another(self, which: int, how: str, stale_outcome: str) -> Any:
        """A process loses its step, another claims it, and then the first one writes."""
        if not (running := [n for n in self.model.nodes.values() if n.leased and n.state is State.RUNNING]):
            return multiple()
        node = running[which % len(running)]
        loser = self.last_claims[node.id]
        if how == "cancel":
            self.cancel(node.id)
            self.release_lease(loser)
            self.retry(node.id)
        else:
            self.finish(loser, how, 0.0)
        self.engine_and_model_agree()
        self.tick_until_quiet()
        claims = self.claim(100)
        self.engine_and_model_agree()
        if which % 2:
            self.finish(loser, stale_outcome, 0.0)
        elif node.state is State.RUNNING:
            self.cancel(node.id)
        self.release_lease(loser)
        return claims

    @rule(claim=claims)
    def release_lease(self, claim: Claim) -> None:
        assert self.finisher.release_lease(claim) == self.model.release_lease(
            self.model.nodes[claim.step_id], claim.token
        )

    @rule(target=claims, ends=st.lists(outcomes, min_size=1, max_size=3))
    def do_a_round_of_work(self, ends: list[str]) -> Any:
        return self.work(ends)

    @rule(target=claims, ends=st.lists(outcomes, min_size=1, max_size=3))
    def do_another_round_of_work(self, ends: list[str]) -> Any:  # a second rule, so that it is drawn twice as often
        return self.work(ends)

    def work(self, ends: list[str]) -> Any:
        """Tick, claim, and end all but one of the claims."""
        self.tick_until_quiet()
        claims = self.claim(len(ends) + 1)
        for claim, outcome in zip(claims.values, ends, strict=False):
            self.finish(claim, outcome, 0.0)
        return claims

    # operating ------------------------------------------------------------------------------------------------------

    def operate(self, action: Callable[..., Any], in_the_model: Callable[[Node], Any], step: int) -> None:
        """Engine and model both accept with the same result, or both reject."""
        try:
            expected = in_the_model(self.model.nodes[step])
        except Refused:
            with pytest.raises((ActionRefused, IllegalTransition)):
                action(step, who=WHO)
            return
        result = action(step, who=WHO)
        assert result is None or set(result.revived) == expected

    @rule(step=steps)
    def cancel(self, step: int) -> None:
        self.operate(self.app.cancel, self.model.cancel, step)

    @rule(step=steps)
    def fail(self, step: int) -> None:
        self.operate(partial(self.app.transition_to, state=State.FAILED), self.model.fail, step)

    @rule(step=steps)
    def stop(self, step: int) -> None:
        self.operate(partial(self.app.transition_to, state=State.STOPPED), self.model.stop, step)

    @rule(step=steps)
    def skip(self, step: int) -> None:
        self.operate(self.app.skip, partial(self.model.skip, now=self.clock.now()), step)

    @rule(step=steps)
    def complete(self, step: int) -> None:
        self.operate(self.app.complete, partial(self.model.complete, now=self.clock.now()), step)

    @rule(step=steps)
    def retry(self, step: int) -> None:
        self.operate(self.app.retry, partial(self.model.retry, now=self.clock.now()), step)

    @rule(which=st.integers(0, 20))
    def retry_what_ended_badly(self, which: int) -> None:
        if bad := [
            n.id for n in self.model.nodes.values() if n.state in (State.FAILED, State.STOPPED, State.CANCELLED)
        ]:
            self.retry(bad[which % len(bad)])

    @rule(on=st.booleans())
    def turn_breaker(self, on: bool) -> None:
        (self.app.breaker.resume if on else self.app.breaker.pause)(WHO)
        self.breaker_on = on

    @rule(step=steps)
    def pause_workflow(self, step: int) -> None:
        self.app.pause_workflow(step, who=WHO)
        self.model.paused.add(self.model.nodes[step].workflow)

    @rule(step=steps)
    def resume_workflow(self, step: int) -> None:
        workflow = self.model.nodes[step].workflow
        if workflow in self.model.paused:
            self.app.resume_workflow(step, who=WHO)
            self.model.paused.discard(workflow)
        else:
            with pytest.raises(ActionRefused):
                self.app.resume_workflow(step, who=WHO)

    # time and accidents ---------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([1.0, 5.0, LEASE_SECONDS]), beat=st.booleans())
    def let_time_pass(self, seconds: float, beat: bool) -> None:
        self.clock.advance(seconds)
        if beat:
            self.runner.worker.heartbeat()
            self.workers[-1] = self.clock.now() + timedelta(seconds=LEASE_SECONDS)

    @precondition(lambda self: self.reopens)
    @rule()
    def crash_and_reopen(self) -> None:
        """Everything that was only in memory is lost."""
        self.app.close()
        self.open()

    @rule()
    def the_sweep_finds_nothing(self) -> None:
        assert (findings := self.app.sweep()) == [], findings

    @rule(step=steps)
    def explain(self, step: int) -> None:
        """It reports exactly those steps as eligible that may be dispatched."""
        eligible = self.model.nodes[step] in self.model.eligible(self.clock.now()) and self.live_slots() > 0
        assert self.app.explain(step).eligible == eligible

    # always ---------------------------------------------------------------------------------------------------------

    @invariant()
    def engine_and_model_agree(self) -> None:
        seen = {}
        for row in self.rows(
            "SELECT id, state, reason, lease_worker, lease_token, attempts, retries, own_code_done_at, "
            "dispatch_after FROM steps"
        ):
            done, leased = row["own_code_done_at"] is not None, row["lease_worker"] is not None
            fact = normalized(State(row["state"]), row["reason"])
            due = self.ahead(row["dispatch_after"])
            seen[row["id"]] = (fact, leased, row["lease_token"], row["attempts"], row["retries"], done, due)
        expected = {
            n.id: (
                normalized(n.state, n.reason),
                n.leased,
                n.token,
                n.attempts,
                n.retries,
                n.own_code_done,
                self.ahead(n.due),
            )
            for n in self.model.nodes.values()
        }
        wrong = {
            step: f"model {fact}, engine {seen.get(step)}" for step, fact in expected.items() if seen.get(step) != fact
        }
        assert (wrong, len(seen)) == ({}, len(expected)), wrong
        self.history_read = self.rows("SELECT coalesce(max(id), 0) AS last FROM step_transitions")[0]["last"]

    def ahead(self, due: datetime | None) -> datetime | None:
        """A time that still lies ahead; one that has passed has no meaning."""
        return due if due is not None and due > self.clock.now() else None

    @invariant()
    def invariants_hold(self) -> None:
        assert [str(violation) for violation in self.app.check_invariants()] == []

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:
                self.run_to_completion()
        finally:
            self.app.close()

    def run_to_completion(self) -> None:
        """With the breaker on, nothing paused and only successful runs, every step ends."""
        self.turn_breaker(True)
        for node in self.model.nodes.values():
            if node.workflow in self.model.paused:
                self.resume_workflow(node.id)
        for _ in range(100):
            self.let_time_pass(60.0, True)
            self.tick_until_quiet()
            self.claim(1_000)
            leased = [node.id for node in self.model.nodes.values() if node.leased]
            for step in leased:
                if self.model.nodes[step].state in TERMINAL:
                    self.release_lease(self.last_claims[step])
                else:
                    self.finish(self.last_claims[step], "ok", 0.0)
            self.engine_and_model_agree()
            if not leased and all(node.over for node in self.model.nodes.values()):
                break
        assert [node for node in self.model.nodes.values() if not node.over] == []
        assert self.app.dispatcher().round() == []
        assert (findings := self.app.sweep()) == [], findings
        self.invariants_hold()


def normalized(state: State, reason: str | None) -> tuple[State, str | None]:
    return state, "blocked" if reason in BLOCKED else reason


def all_normalized(facts: dict[int, tuple[State, str | None]]) -> dict[int, tuple[State, str | None]]:
    return {step: normalized(*fact) for step, fact in facts.items()}
