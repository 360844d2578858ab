"""What holds up a step although no other step does: pauses, workers, keys, limits, full queues."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from stepwell.look.explain.facts import Facts
from stepwell.look.explain.found import Found, behind, cause
from stepwell.look.explain.text import moment
from stepwell.model.reasons import DORMANT
from stepwell.model.states import State
from stepwell.store.engine.explaining import StepFacts


def _is_to_be_dispatched(step: StepFacts) -> bool:
    """Now or after what failed before it has been retried. A gate never is."""
    if step.kind == "gate":
        return False
    return step.state is State.PENDING or (step.state is State.NOT_RUNNABLE and step.reason != DORMANT)


def workflow(facts: Facts, step: StepFacts) -> Iterator[Found]:
    pause = facts.pauses.get(step.workflow_id or "")
    if step.state in (State.PENDING, State.NOT_RUNNABLE) and step.reason != DORMANT and pause is not None:
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
    yield cause("breaker", message, advice=["stepwell resume"])


def key(facts: Facts, step: StepFacts) -> Iterator[Found]:
    if step.state is not State.PENDING or not step.key_blocked or step.status != "open":
        return
    holders = facts.key_holders.get(step.concurrency_key or "", [])
    if not holders and not any(lane.open for lane in facts.lanes_of(step)):
        return  # its lane is the problem, not its key
    what, limit = f"concurrency key {step.concurrency_key!r}", step.concurrency_limit or 1
    if len(holders) < limit:
        yield cause("key", f"{what} is below its limit ({limit}): the next tick unblocks this step")
    else:
        message = f"{what} is at its limit ({limit}): {facts.listed(holders)}"
        yield behind("key", message, holders, any_of=True)


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
            more = f"{maximum + 1}" if kind == "total" else shlex.quote(f"{name}={maximum + 1}")
            message = f"{what} is at its limit ({maximum}): {count} steps are running"
            yield cause("limit", message, advice=[f"stepwell limits --{kind} {more}"])


def queue(facts: Facts, step: StepFacts) -> Iterator[Found]:
    """A queue takes twice its slots."""
    queue, group = step.queue or "", step.group or ""
    slots = facts.slots.get((queue, ""), 0) + facts.slots.get((queue, group), 0)
    dispatched = facts.dispatched.get((queue, group), 0)
    if _is_to_be_dispatched(step) and step.state is State.PENDING and slots and dispatched >= 2 * slots:
        yield cause("room", f"queue {step.queue!r} is full: {dispatched} steps dispatched for {slots} slots")


def slots(facts: Facts, step: StepFacts) -> Iterator[Found]:
    lanes = facts.lanes_of(step)
    if step.state is State.DISPATCHED and lanes and not any(lane.has_free_slot for lane in lanes):
        running, slots = sum(lane.running for lane in lanes), sum(lane.slots for lane in lanes)
        yield cause("slots", f"every slot of the workers that serve it is busy: {running} steps run in {slots} slots")
