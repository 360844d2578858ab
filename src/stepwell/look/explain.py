"""«Why is this step not running?»: every unmet condition, the rows behind it, and when it will change.

The facts come from the view `step_readiness`, which is also what phase 9 picks by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from stepwell.model.reasons import DORMANT, PARENT_NOT_RUNNABLE
from stepwell.model.states import CONCLUDED, TERMINAL, State
from stepwell.model.step import Step
from stepwell.store import Database, Row, Transaction


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One condition that is not met."""

    condition: str
    message: str
    steps: tuple[int, ...] = ()
    changes_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a step is where it is."""

    step_id: int
    name: str
    state: State
    summary: str
    eligible: bool
    obstacles: list[Obstacle] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def explain(database: Database, step: Step) -> Explanation:
    """Look at one step the way the dispatcher does."""
    if step.state is not State.PENDING:
        return Explanation(step.id, step.name, step.state, _story(database, step), False)

    def look(tx: Transaction) -> list[Obstacle]:
        readiness = tx.row("readiness", id=step.id)
        assert readiness is not None
        return [obstacle for condition in _CONDITIONS for obstacle in condition(tx, step, readiness, database.now())]

    obstacles = database.read(look)
    row_facts = [o for o in obstacles if o.condition not in ("breaker", "room", "adoption", "key", "limit")]
    if not obstacles:
        summary = "it is ready: the next tick of its group dispatches it"
    elif not row_facts:
        summary = "it is ready, but held back: " + obstacles[0].message
    else:
        summary = "it waits: " + "; ".join(obstacle.message for obstacle in obstacles)
    return Explanation(step.id, step.name, step.state, summary, not row_facts, obstacles)


def _named(row: Row) -> str:
    return f"step {row['id']} ({row['label'] or row['action']}, {row['state']})"


def _not_placed(tx: Transaction, step: Step, facts: Row, now: datetime) -> Iterator[Obstacle]:
    if facts["status"] == "new":
        yield Obstacle("adoption", "it was written by plain SQL and gets its place at the next tick")


def _not_due(tx: Transaction, step: Step, facts: Row, now: datetime) -> Iterator[Obstacle]:
    if step.dispatch_after is not None and step.dispatch_after > now:
        cause = {"retry": "its retry waits", "throttled": "it is throttled"}.get(step.reason or "", "it is delayed")
        yield Obstacle(
            "dispatch_after",
            f"{cause} until {step.dispatch_after:%Y-%m-%d %H:%M:%S.%f} UTC",
            changes_at=step.dispatch_after,
        )


def _parent(tx: Transaction, step: Step, facts: Row, now: datetime) -> Iterator[Obstacle]:
    if facts["parent_ready"] or step.parent_step_id is None:
        return
    parent = tx.row("step_by_id", id=step.parent_step_id)
    assert parent is not None
    if State(parent["state"]) is State.RUNNING:
        message = f"its parent's own code is not done: {_named(parent)}"
    elif State(parent["state"]).is_terminal:
        message = f"its parent has ended, and the next tick ends this one with it: {_named(parent)}"
    else:
        message = f"its parent has not run yet: {_named(parent)}"
    yield Obstacle("parent", message, (parent["id"],))


def _order(tx: Transaction, step: Step, facts: Row, now: datetime) -> Iterator[Obstacle]:
    if facts["order_met"]:
        return
    rows = tx.rows("unconcluded_before", block=step.block_uuid, type=step.type, index=step.index)
    yield Obstacle(
        "index",
        f"index {step.index} comes after {', '.join(_named(row) for row in rows)}",
        tuple(row["id"] for row in rows),
    )


def _dependencies(tx: Transaction, step: Step, facts: Row, now: datetime) -> Iterator[Obstacle]:
    if facts["dependencies_met"]:
        return
    rows = tx.rows("dependencies_of", id=step.id)
    met_by = TERMINAL if step.trigger_rule == "all_ended" else CONCLUDED
    waiting = [row for row in rows if State(row["state"]) not in met_by or row["lease_worker"]]
    yield Obstacle(
        "dependencies",
        f"{step.trigger_rule} of its dependencies is not met: {', '.join(_named(row) for row in waiting)}",
        tuple(row["id"] for row in waiting),
    )


def _unsatisfiable(tx: Transaction, step: Step, facts: Row, now: datetime) -> Iterator[Obstacle]:
    if facts["unsatisfiable"]:
        yield Obstacle("unsatisfiable", "a predecessor ended badly: the next tick makes it NotRunnable")


def _retries(tx: Transaction, step: Step, facts: Row, now: datetime) -> Iterator[Obstacle]:
    if not facts["retries_left"]:
        yield Obstacle(
            "retries",
            f"its retries are exhausted ({step.retries} of {step.max_retries}): the next tick fails it",
        )


def _workflow(tx: Transaction, step: Step, facts: Row, now: datetime) -> Iterator[Obstacle]:
    if facts["workflow_runs"]:
        return
    pause = tx.row("workflow_pause", workflow=step.workflow_id)
    assert pause is not None
    why = f": {pause['paused_reason']}" if pause["paused_reason"] else ""
    yield Obstacle("workflow", f"its workflow was paused by {pause['paused_by']} at {pause['paused_at']:%H:%M:%S}{why}")


def _workers(tx: Transaction, step: Step, facts: Row, now: datetime) -> Iterator[Obstacle]:
    if not tx.value("lane_is_served", queue=step.queue, action=step.action, now=now):
        yield Obstacle(
            "workers", f"no live worker serves the queue {step.queue!r} and knows the action {step.action!r}"
        )


def _breaker(tx: Transaction, step: Step, facts: Row, now: datetime) -> Iterator[Obstacle]:
    row = tx.row("breaker_state")
    if row is None:
        yield Obstacle("breaker", "dispatching is off: the setting can_dispatch_steps is missing (stepwell resume)")
    elif row["value"] != "on":
        why = f": {row['reason']}" if row["reason"] else ""
        yield Obstacle(
            "breaker",
            f"dispatching is paused by {row['changed_by']} since {row['changed_at']:%Y-%m-%d %H:%M:%S} UTC{why}",
        )


def _key(tx: Transaction, step: Step, facts: Row, now: datetime) -> Iterator[Obstacle]:
    if facts["key_blocked"]:
        rows = tx.rows("holders_of_key", key=step.concurrency_key)
        if not rows and tx.value("can_begin", queue=step.queue, action=step.action, now=now) is None:
            return  # not its key is in the way
        yield Obstacle(
            "key",
            f"of the steps with the key {step.concurrency_key!r} only {step.concurrency_limit} may run at once: "
            + (", ".join(map(_named, rows)) or "the next tick lets it pass"),
            tuple(row["id"] for row in rows),
        )


def _limits(tx: Transaction, step: Step, facts: Row, now: datetime) -> Iterator[Obstacle]:
    limits = {(row["kind"], row["name"]): row["maximum"] for row in tx.rows("limits")}
    if not limits:
        return
    running = tx.rows("running_of_queues")
    for kind, name in (("total", ""), ("queue", step.queue), ("action", step.action)):
        if (kind, name) in limits:
            count = sum(row["running"] for row in running if kind == "total" or row[kind] == name)
            if count >= limits[kind, name]:
                what = "in all" if kind == "total" else f"of the {kind} {name!r}"
                yield Obstacle("limit", f"{limits[kind, name]} steps {what} may run at once, and {count} do")


def _room(tx: Transaction, step: Step, facts: Row, now: datetime) -> Iterator[Obstacle]:
    room = tx.row("queue_room", queue=step.queue, now=now)
    assert room is not None
    if room["slots"] and room["dispatched"] >= 2 * room["slots"]:
        yield Obstacle(
            "room",
            f"the queue {step.queue!r} is full: {room['dispatched']} steps are dispatched to {room['slots']} slots",
        )


_CONDITIONS: tuple[Callable[[Transaction, Step, Row, datetime], Iterator[Obstacle]], ...] = (
    _not_placed, _not_due, _parent, _order, _dependencies, _unsatisfiable, _retries, _workflow, _workers, _breaker,
    _key, _limits, _room,
)  # fmt: skip


def _story(database: Database, step: Step) -> str:
    """Where a step is that is not waiting to be dispatched."""
    match step.state:
        case State.DISPATCHED:
            return f"it is handed to the queue {step.queue!r}; the next free worker of it takes it"
        case State.RUNNING if step.own_code_done_at is not None:
            rows = database.read(lambda tx: tx.rows("steps_of_block", block=step.child_block_uuid))
            open_ = [row for row in rows if not State(row["state"]).is_terminal or row["lease_worker"]]
            return f"its own code is done; it waits for {', '.join(_named(row) for row in open_[:20])}"
        case State.RUNNING:
            return f"it is running on {step.hostname} (worker {step.lease_worker}, attempt {step.attempts})"
        case State.NOT_RUNNABLE if step.reason == DORMANT:
            return "it is an exception handler and sleeps until a step of its block fails"
        case State.NOT_RUNNABLE:
            culprits = ", ".join(_named(row) for row in database.read(lambda tx: _culprits(tx, step)))
            return f"it cannot run ({step.reason}) because of {culprits}: retry or skip that, and it comes back"
    cause = f" ({step.reason})" if step.reason else ""
    error = f": {step.error_message}" if step.error_message else ""
    return f"it ended {step.state}{cause}{error}"


def _culprits(tx: Transaction, step: Step) -> list[Row]:
    """What keeps a NotRunnable step from running: above it, or before it in its block or among its dependencies."""
    if step.reason == PARENT_NOT_RUNNABLE:
        return tx.rows("step_by_id", id=step.parent_step_id)
    before = tx.rows("unconcluded_before", block=step.block_uuid, type=step.type, index=step.index)
    ended = [row for row in (*before, *tx.rows("dependencies_of", id=step.id)) if State(row["state"]).is_terminal]
    bad = [row for row in ended if State(row["state"]) not in (State.COMPLETED, State.SKIPPED)]
    # Those that failed themselves say more than those that stand behind a failure, too.
    return [row for row in bad if State(row["state"]) is not State.NOT_RUNNABLE] or bad
