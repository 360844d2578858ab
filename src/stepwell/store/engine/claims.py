"""A worker claims steps."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from stepwell.model.actors import worker_actor
from stepwell.model.claimed import ClaimedStep
from stepwell.model.features import WORKFLOW
from stepwell.model.states import State
from stepwell.store.changes import Change
from stepwell.store.engine.tallying import tally_claimed
from stepwell.store.statement import query, records, transition
from stepwell.store.transaction import Transaction

BATCH_BITS: Final = 48  # of the random number that identifies the rows changed by one SQLite statement


class Candidate(msgspec.Struct, array_like=True, frozen=True):
    """A step that may be claimed.

    `tier` orders high priority before the rest; `has_limits` says whether there are any limits at all.
    """

    step_id: int
    queue: str
    action: str
    tier: int
    has_limits: bool | int


@query
def wait_for_dispatch(tx: Transaction, *, worker: str) -> int:
    """Return when no tick is dispatching to the queues of the worker, so that its claim finds the oldest steps."""
    ...


@transition
def set_aside(tx: Transaction, *, id: int, actor: str, message: str, now: datetime) -> list[Change]:
    """Fail a step whose row cannot be read."""
    ...


@query
def has_claimable_steps(tx: Transaction, *, worker: str) -> bool | None:
    """A read-only check before a claim."""
    ...


@records
def pick_for_claim(
    tx: Transaction,
    *,
    worker: str,
    limit: int,
    most: int,
    high: int,
    open_too: bool,
    full_queues: Sequence[str],
    full_actions: Sequence[str],
) -> list[Candidate]:
    """The steps that a worker of all groups may claim."""
    ...


@records
def pick_in_groups_for_claim(
    tx: Transaction,
    *,
    worker: str,
    limit: int,
    most: int,
    high: int,
    open_too: bool,
    full_queues: Sequence[str],
    full_actions: Sequence[str],
) -> list[Candidate]:
    """The same for a worker that serves only some groups."""
    ...


@records
def claim(
    tx: Transaction,
    *,
    ids: Sequence[int],
    starting: Sequence[int],
    worker: str,
    actor: str,
    hostname: str,
    now: datetime,
    margin: float,
    batch: int,
) -> list[ClaimedStep]: ...


def claim_steps(
    tx: Transaction,
    ids: Sequence[int],
    *,
    worker: str,
    hostname: str,
    now: datetime,
    margin: float,
    starting: Sequence[int] | None = None,
) -> list[ClaimedStep]:
    """Move these steps to Running under a new token; returns those that were claimed.

    Those of `starting` (None: all) have a free slot. Of the others, a step whose last run died is not claimed: it would
    not be known whether the next death is its own.
    """
    actor = worker_actor(worker)
    batch = new_batch()
    steps = claim(
        tx,
        ids=ids,
        starting=ids if starting is None else starting,
        worker=worker,
        actor=actor,
        hostname=hostname,
        now=now,
        margin=margin,
        batch=batch,
    )
    tally_claimed(tx, steps, hostname, now)
    if tx.collects_changes:
        tx.changed([change for step in steps for change in _changes(step, actor, now)])
    followed = [step for step in steps if step.belongs_to is not None]
    if not followed:
        return steps
    for step in followed:
        # A parent of a workflow has begun before its children, and with it the workflow.
        if step.parent_step_id is None or step.belongs_to != WORKFLOW:
            tx.touch_step(step, step.id, actor)
    return tx.prepare(steps)


def _changes(step: ClaimedStep, actor: str, now: datetime) -> list[Change]:
    def change(origin: State, target: State, attempt: int) -> Change:
        return Change(
            step_id=step.id,
            workflow_id=step.workflow_id,
            action=step.action,
            from_state=origin,
            to_state=target,
            actor=actor,
            at=now,
            attempt=attempt,
        )

    running = change(State.DISPATCHED, State.RUNNING, step.attempts)
    if not step.was_open:
        return [running]
    return [change(State.PENDING, State.DISPATCHED, step.attempts - 1), running]


def new_batch() -> int:
    return random.getrandbits(BATCH_BITS)
