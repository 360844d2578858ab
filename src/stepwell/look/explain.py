"""Why is this step not running? Every unmet condition, the steps that cause it, and when it will change.

The conditions come from the view `step_readiness`, which phase 9 uses, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from stepwell.model.decision import EXPIRES_AT, OPENED_AT, REFUSED_ANSWER
from stepwell.model.reasons import DORMANT, PARENT_NOT_RUNNABLE
from stepwell.model.states import CONCLUDED, TERMINAL, State
from stepwell.model.step import Step
from stepwell.store import Database, Transaction
from stepwell.store.engine import explaining, limits, reading, settings
from stepwell.store.engine.explaining import Named, Readiness


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One unmet condition."""

    condition: str
    message: str
    steps: tuple[int, ...] = ()
    changes_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a step is in its state."""

    step_id: int
    name: str
    state: State
    summary: str
    eligible: bool
    obstacles: list[Obstacle] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def explain(database: Database, step: Step) -> Explanation:
    """Check one step against the conditions that the dispatcher uses."""
    if step.state is not State.PENDING:
        return Explanation(step.id, step.name, step.state, _describe_state(database, step), False)

    def look(tx: Transaction) -> list[Obstacle]:
        readiness = explaining.readiness(tx, id=step.id)
        assert readiness is not None
        conditions = _CONDITIONS if step.kind == "gate" else (*_CONDITIONS, *_CONDITIONS_OF_RUNS)
        return [obstacle for condition in conditions for obstacle in condition(tx, step, readiness, database.now())]

    obstacles = database.read(look)
    row_facts = [o for o in obstacles if o.condition not in ("breaker", "room", "adoption", "key", "limit", "decision")]
    if not obstacles:
        summary = "ready: the next tick of its group dispatches it"
    elif not row_facts:
        summary = "ready, but not dispatched: " + obstacles[0].message
    else:
        summary = "waiting: " + "; ".join(obstacle.message for obstacle in obstacles)
    return Explanation(step.id, step.name, step.state, summary, not row_facts, obstacles)


def _named(step: Named | Step) -> str:
    return f"step {step.id} ({step.label or step.action}, {step.state})"


def _not_placed(tx: Transaction, step: Step, facts: Readiness, now: datetime) -> Iterator[Obstacle]:
    if facts.status == "new":
        yield Obstacle("adoption", "inserted with plain SQL; the next tick places it")


def _not_due(tx: Transaction, step: Step, facts: Readiness, now: datetime) -> Iterator[Obstacle]:
    if step.dispatch_after is not None and step.dispatch_after > now:
        cause = {"retry": "its retry is delayed", "throttled": "throttled"}.get(step.reason or "", "delayed")
        yield Obstacle(
            "dispatch_after",
            f"{cause} until {step.dispatch_after:%Y-%m-%d %H:%M:%S.%f} UTC",
            changes_at=step.dispatch_after,
        )


def _parent(tx: Transaction, step: Step, facts: Readiness, now: datetime) -> Iterator[Obstacle]:
    if facts.parent_ready or step.parent_step_id is None:
        return
    parent = reading.step_by_id(tx, id=step.parent_step_id)
    assert parent is not None
    if parent.state is State.RUNNING:
        message = f"its parent's own code is not done: {_named(parent)}"
    elif parent.state.is_terminal:
        message = f"its parent has ended, and the next tick will end this step, too: {_named(parent)}"
    else:
        message = f"its parent has not run yet: {_named(parent)}"
    yield Obstacle("parent", message, (parent.id,))


def _order(tx: Transaction, step: Step, facts: Readiness, now: datetime) -> Iterator[Obstacle]:
    if facts.order_met:
        return
    rows = explaining.unconcluded_before(tx, block=step.block_uuid, type=step.type, index=step.index)
    yield Obstacle(
        "index",
        f"index {step.index} comes after {', '.join(_named(row) for row in rows)}",
        tuple(row.id for row in rows),
    )


def _dependencies(tx: Transaction, step: Step, facts: Readiness, now: datetime) -> Iterator[Obstacle]:
    if facts.dependencies_met:
        return
    rows = reading.dependencies_of(tx, id=step.id)
    met_by = TERMINAL if step.trigger_rule == "all_ended" else CONCLUDED
    waiting = [row for row in rows if row.state not in met_by or row.lease_worker]
    yield Obstacle(
        "dependencies",
        f"its trigger rule {step.trigger_rule} is not met by: {', '.join(_named(row) for row in waiting)}",
        tuple(row.id for row in waiting),
    )


def _unsatisfiable(tx: Transaction, step: Step, facts: Readiness, now: datetime) -> Iterator[Obstacle]:
    if facts.unsatisfiable:
        yield Obstacle("unsatisfiable", "a predecessor failed or cannot run: the next tick makes this step NotRunnable")


def _retries(tx: Transaction, step: Step, facts: Readiness, now: datetime) -> Iterator[Obstacle]:
    if not facts.retries_left:
        yield Obstacle(
            "retries",
            f"its retries are exhausted ({step.retries} of {step.max_retries}): the next tick makes it Failed",
        )


def _workflow(tx: Transaction, step: Step, facts: Readiness, now: datetime) -> Iterator[Obstacle]:
    if facts.workflow_runs:
        return
    pause = explaining.workflow_pause(tx, workflow=step.workflow_id)
    assert pause is not None
    why = f": {pause.paused_reason}" if pause.paused_reason else ""
    yield Obstacle("workflow", f"its workflow was paused by {pause.paused_by} at {pause.paused_at:%H:%M:%S}{why}")


def _decision(tx: Transaction, step: Step, facts: Readiness, now: datetime) -> Iterator[Obstacle]:
    if facts.status == "undecided":
        what = "opens this gate" if step.kind == "gate" else "decides whether it runs"
        yield Obstacle("decision", f"the next tick checks its condition and its inputs, and {what}")
    if facts.status == "gate":
        yield _open_gate(step.decision or {})


def _open_gate(decision: dict[str, Any]) -> Obstacle:
    opened, expires, refused = (decision.get(key) for key in (OPENED_AT, EXPIRES_AT, REFUSED_ANSWER))
    until = datetime.fromisoformat(expires) if expires else None
    message = (
        f"an open gate that waits for an answer since {datetime.fromisoformat(opened):%Y-%m-%d %H:%M:%S} UTC"
        if opened
        else ""
    )
    message += f"; it expires at {until:%Y-%m-%d %H:%M:%S} UTC" if until else ""
    if refused:
        message += f". An answer by {refused['answered_by']} was refused: {refused['why']}"
    return Obstacle("gate", message, changes_at=until)


def _workers(tx: Transaction, step: Step, facts: Readiness, now: datetime) -> Iterator[Obstacle]:
    if not explaining.lane_is_served(tx, queue=step.queue, action=step.action, now=now):
        yield Obstacle("workers", f"no live worker serves queue {step.queue!r} and action {step.action!r}")


def _breaker(tx: Transaction, step: Step, facts: Readiness, now: datetime) -> Iterator[Obstacle]:
    row = settings.breaker_state(tx)
    if row is None:
        yield Obstacle("breaker", "dispatching is off: the setting can_dispatch_steps is missing (stepwell resume)")
    elif not row.is_on:
        why = f": {row.reason}" if row.reason else ""
        yield Obstacle(
            "breaker",
            f"dispatching is paused by {row.changed_by} since {row.changed_at:%Y-%m-%d %H:%M:%S} UTC{why}",
        )


def _key(tx: Transaction, step: Step, facts: Readiness, now: datetime) -> Iterator[Obstacle]:
    if facts.key_blocked:
        rows = explaining.holders_of_key(tx, key=step.concurrency_key)
        if not rows and explaining.can_begin(tx, queue=step.queue, action=step.action, now=now) is None:
            return  # its lane is the problem, not its key
        yield Obstacle(
            "key",
            f"concurrency key {step.concurrency_key!r} is at its limit ({step.concurrency_limit}): "
            + (", ".join(map(_named, rows)) or "the next tick unblocks this step"),
            tuple(row.id for row in rows),
        )


def _limits(tx: Transaction, step: Step, facts: Readiness, now: datetime) -> Iterator[Obstacle]:
    maxima = {(row.kind, row.name): row.maximum for row in limits.limits(tx)}
    if not maxima:
        return
    running = limits.running_by_lane(tx)
    for kind, name in (("total", ""), ("queue", step.queue), ("action", step.action)):
        if (kind, name) in maxima:
            count = sum(row.running for row in running if kind == "total" or getattr(row, kind) == name)
            if count >= maxima[kind, name]:
                what = "the total" if kind == "total" else f"{kind} {name!r}"
                yield Obstacle("limit", f"{what} is at its limit ({maxima[kind, name]}): {count} steps are running")


def _room(tx: Transaction, step: Step, facts: Readiness, now: datetime) -> Iterator[Obstacle]:
    room = explaining.queue_room(tx, queue=step.queue, now=now)
    if room.slots and room.dispatched >= 2 * room.slots:
        yield Obstacle(
            "room",
            f"queue {step.queue!r} is full: {room.dispatched} steps dispatched for {room.slots} slots",
        )


_Condition: TypeAlias = Callable[[Transaction, Step, Readiness, datetime], Iterator[Obstacle]]
_CONDITIONS: tuple[_Condition, ...] = (
    _not_placed, _not_due, _parent, _order, _dependencies, _unsatisfiable, _retries, _workflow, _decision,
)  # fmt: skip
_CONDITIONS_OF_RUNS: tuple[_Condition, ...] = (_workers, _breaker, _key, _limits, _room)  # a gate is never run


def _describe_state(database: Database, step: Step) -> str:
    """The situation of a step that is not Pending."""
    match step.state:
        case State.DISPATCHED:
            return f"dispatched to queue {step.queue!r}; the next free worker claims it"
        case State.RUNNING if step.own_code_done_at is not None:
            rows = database.read(lambda tx: reading.steps_of_block(tx, block=step.child_block_uuid))
            unfinished = [row for row in rows if not row.state.is_terminal or row.lease_worker]
            return f"its own code is done; waiting for {', '.join(_named(row) for row in unfinished[:20])}"
        case State.RUNNING:
            return f"running on {step.hostname} (worker {step.lease_worker}, attempt {step.attempts})"
        case State.NOT_RUNNABLE if step.reason == DORMANT:
            return "dormant exception handler: it runs only if a step of its block fails"
        case State.NOT_RUNNABLE:
            blockers = ", ".join(_named(row) for row in database.read(lambda tx: _blockers(tx, step)))
            return f"cannot run ({step.reason}) because of {blockers}: retry or skip that to revive it"
    cause = f" ({step.reason})" if step.reason else ""
    error = f": {step.error_message}" if step.error_message else ""
    return f"ended {step.state}{cause}{error}"


def _blockers(tx: Transaction, step: Step) -> Sequence[Named | Step]:
    """The steps that keep a NotRunnable step from running: its parent, its predecessors or its dependencies."""
    if step.reason == PARENT_NOT_RUNNABLE and step.parent_step_id is not None:
        parent = reading.step_by_id(tx, id=step.parent_step_id)
        return [] if parent is None else [parent]
    before = explaining.unconcluded_before(tx, block=step.block_uuid, type=step.type, index=step.index)
    upstream: list[Named | Step] = [*before, *reading.dependencies_of(tx, id=step.id)]
    bad = [row for row in upstream if row.state.is_terminal and row.state not in CONCLUDED]
    # Steps that failed themselves explain more than those that are NotRunnable for the same reason.
    return [row for row in bad if row.state is not State.NOT_RUNNABLE] or bad
