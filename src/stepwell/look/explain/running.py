"""What a Running step waits for: its children, or the rescue from a worker that is gone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from stepwell.look.explain.facts import Facts
from stepwell.look.explain.found import Found, cause
from stepwell.look.explain.text import moment
from stepwell.look.explain.waiting import REPAIR, UNREPAIRED
from stepwell.model.features import PROCESS
from stepwell.model.states import State
from stepwell.store.engine.explaining import StepFacts


def lease(facts: Facts, step: StepFacts) -> Iterator[Found]:
    """A run whose worker is dead, or has been silent for longer than it should be."""
    if step.state is not State.RUNNING or step.waits_for_children:
        return
    if step.lease_worker is None:
        yield cause("bookkeeping", "it is Running, but no worker holds its lease", advice=REPAIR)
        return
    trouble = silence(facts, step)
    if trouble is not None:
        message, changes_at = trouble
        then = "; the reaper returns this step to Pending" + ("" if changes_at is None else " then")
        if step.belongs_to == PROCESS:
            then = ""  # the reaper leaves tasks alone: the source of main processes says what does not
        yield cause("heartbeat", f"{message}{then}", changes_at=changes_at)


def silence(facts: Facts, step: StepFacts) -> tuple[str, datetime | None] | None:
    """What is wrong with the worker that holds the lease of a step, and when it will count as dead."""
    name, worker = step.lease_worker or "", facts.workers.get(step.lease_worker or "")
    if worker is None:
        return f"worker {name} is no longer registered", None
    if worker.alive_until <= facts.now:
        heard = moment(worker.heartbeat_at)
        return f"no heartbeat from worker {name} since {heard}: dead since {moment(worker.alive_until)}", None
    if step.lease_deadline is not None and step.lease_deadline <= facts.now:
        return f"it has run past its deadline ({moment(step.lease_deadline)}) on worker {name}", None
    # A live worker sends three heartbeats in this time.
    if facts.now - worker.heartbeat_at > worker.alive_until - facts.now:
        heard, until = moment(worker.heartbeat_at), moment(worker.alive_until)
        return (
            f"no heartbeat from worker {name} since {heard}: it counts as dead from {until}",
            worker.alive_until,
        )
    return None


def decision(facts: Facts, step: StepFacts) -> Iterator[Found]:
    """A parent that has nothing left to wait for; `children` has what it waits for."""
    if not step.waits_for_children or facts.unfinished_children(step):
        return
    if step.id in facts.parents_to_decide:
        yield cause("decision", "its own code is done and all its children have ended: the next tick decides it")
    else:
        message = f"its own code is done and nothing that it waits for is left, but {UNREPAIRED}"
        yield cause("bookkeeping", message, advice=REPAIR)
