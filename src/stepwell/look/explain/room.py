"""What holds up a step although no other step does: pauses, workers, keys, limits, full queues."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from stepwell.look.explain.facts import Facts
from stepwell.look.explain.found import Found, Goal, behind, cause
from stepwell.look.explain.text import moment
from stepwell.model.states import State
from stepwell.store.engine.explaining import StepFacts


def _is_to_be_dispatched(step: StepFacts) -> bool:
    """A gate never is."""
    return step.state is State.PENDING and step.kind != "gate"


def database(facts: Facts, step: StepFacts) -> Iterator[Found]:
    if not step.state.is_terminal and facts.suspended_writer is not None:
        yield cause("database", f"nothing can be written: {facts.suspended_writer}")


def workflow(facts: Facts, step: StepFacts) -> Iterator[Found]:
    pause = facts.pauses.get(step.workflow_id or "")
    if step.state is State.PENDING and pause is not None:
        why = f": {pause.paused_reason}" if pause.paused_reason else ""
        yield cause(
            "workflow",
            f"its workflow was paused by {pause.paused_by} at {moment(pause.paused_at)}{why}",
            advice=[f"stepwell resume --workflow {pause.id}"],
        )


def workers(facts: Facts, step: StepFacts) -> Iterator[Found]:
    if step.queue is None or facts.lanes_of(step):
        return
    message = f"no live worker serves queue {step.queue!r} and action {step.action!r}"
    if facts.is_served_elsewhere(step):
        message += f" in group {step.group!r}"
    if _is_to_be_dispatched(step):
        yield cause("workers", message)
    elif step.state is State.DISPATCHED:
        yield cause("workers", f"{message}: the reaper will return this step to Pending")


def breaker(facts: Facts, step: StepFacts) -> Iterator[Found]:
    row = facts.breaker
    if not _is_to_be_dispatched(step) or (row is not None and row.is_on):
        return
    if row is None:
        message = "dispatching is off: the setting can_dispatch_steps is missing (stepwell resume)"
    else:
        why = f": {row.reason}" if row.reason else ""
        message = f"dispatching is paused by {row.changed_by} since {moment(row.changed_at)}{why}"
        if row.planned_end is not None:
            message += f"; planned until {moment(row.planned_end)}"
    yield cause("breaker", message, advice=["stepwell resume"])


def key(facts: Facts, step: StepFacts) -> Iterator[Found]:
    if step.state is not State.PENDING or step.concurrency_key is None:
        return
    is_open = step.status == "open"
    if is_open and not step.key_blocked:
        return
    holders = [each for each in facts.key_holders.get(step.concurrency_key, []) if each != step.id]
    what, limit = f"concurrency key {step.concurrency_key!r}", step.concurrency_limit or 1
    if len(holders) >= limit:
        message = f"{what} is at its limit ({limit}): {facts.listed(holders)}"
        yield behind("key", message, holders, goal=Goal.LEASE_RELEASED, any_of=True)
    elif is_open and (holders or any(lane.open for lane in facts.lanes_of(step))):
        yield cause("key", f"{what} is below its limit ({limit}): the next tick unblocks this step")


def limits(facts: Facts, step: StepFacts) -> Iterator[Found]:
    if step.state not in (State.PENDING, State.DISPATCHED) or step.kind == "gate":
        return
    for kind, name in (("total", ""), ("queue", step.queue), ("action", step.action)):
        maximum = None if name is None else facts.maxima.get((kind, name))
        if maximum is None:
            continue
        count = sum(row.running for row in facts.running if kind == "total" or getattr(row, kind) == name)
        if count >= maximum:
            what = "the total" if kind == "total" else f"{kind} {name!r}"
            more = f"{count + 1}" if kind == "total" else shlex.quote(f"{name}={count + 1}")
            message = f"{what} is at its limit ({maximum}): {count} steps are running"
            yield cause("limit", message, advice=[f"stepwell limits --{kind} {more}"])


def queue(facts: Facts, step: StepFacts) -> Iterator[Found]:
    """A queue takes twice its slots. What is not ready yet may find room when it is."""
    if step.status == "unchecked":
        return
    queue, group = step.queue or "", step.group or ""
    slots = facts.slots.get((queue, ""), 0) + facts.slots.get((queue, group), 0)
    dispatched = facts.dispatched.get((queue, group), 0)
    if _is_to_be_dispatched(step) and slots and dispatched >= 2 * slots:
        yield cause("room", f"queue {step.queue!r} is full: {dispatched} steps dispatched for {slots} slots")


def slots(facts: Facts, step: StepFacts) -> Iterator[Found]:
    lanes = facts.lanes_of(step)
    if step.state is State.DISPATCHED and lanes and not any(lane.has_free_slot for lane in lanes):
        running, slots = sum(lane.running for lane in lanes), sum(lane.slots for lane in lanes)
        yield cause("slots", f"every slot of the workers that serve it is busy: {running} steps run in {slots} slots")
