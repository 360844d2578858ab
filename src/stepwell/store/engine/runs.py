"""A worker's writes for a step that it runs: each takes effect only under the token of its claim."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from stepwell.model.claimed import Claim, ClaimedStep
from stepwell.model.features import WORKFLOW
from stepwell.model.states import State
from stepwell.store.changes import Change
from stepwell.store.engine.agenda import open_ready, steps_waiting_for
from stepwell.store.engine.claims import new_batch
from stepwell.store.engine.tallying import tally_finished
from stepwell.store.statement import change, query, records, transition
from stepwell.store.transaction import Transaction
from stepwell.store.wake import Wake

_STATES = {state.value: state for state in State}


class Finished(msgspec.Struct, frozen=True, array_like=True):
    """A step whose own code is done; `decides`: this may affect another step."""

    id: int
    state: str
    decides: bool | int  # SQLite has no booleans
    belongs_to: str | None


class Success(msgspec.Struct, frozen=True):
    """A successful run: its claim, its result as JSON (None: keep the recorded one), its duration."""

    claim: Claim
    response: str | None
    duration: float


@transition
def finish(
    tx: Transaction,
    *,
    id: int,
    token: int,
    response: str | None,
    error: str | None,
    stack: str | None,
    duration: float,
    actor: str,
    now: datetime,
) -> list[Change]:
    """Own code done: Completed, or Running until the children have concluded."""
    ...


@records
def finish_many(
    tx: Transaction,
    *,
    ids: Sequence[int],
    tokens: Sequence[int],
    responses: Sequence[str | None],
    durations: Sequence[float],
    endings: Sequence[tuple[int, int, str | None, float]],
    actor: str,
    now: datetime,
    batch: int,
) -> list[Finished]: ...


def finish_all(tx: Transaction, runs: Sequence[Success], *, actor: str, now: datetime) -> dict[int, State]:
    """`finish` for many runs at once; returns the new states of those whose lease was still held."""
    ids = [run.claim.step_id for run in runs]
    tokens = [run.claim.token for run in runs]
    responses = [run.response for run in runs]
    durations = [run.duration for run in runs]
    finished = finish_many(
        tx,
        ids=ids,
        tokens=tokens,
        responses=responses,
        durations=durations,
        endings=list(zip(ids, tokens, responses, durations, strict=True)),
        actor=actor,
        now=now,
        batch=new_batch(),
    )
    states = {each.id: _STATES[each.state] for each in finished}
    tally_finished(tx, runs, states, now)
    if followed := {each.id for each in finished if each.belongs_to is not None}:
        _touch_features(tx, [run.claim.step for run in runs if run.claim.step_id in followed], actor)
    if tx.collects_changes:
        tx.changed([
            _completed(run, actor, now) for run in runs if states.get(run.claim.step_id) is State.COMPLETED
        ])  # fmt: skip
    if deciding := [each.id for each in finished if each.decides]:
        tx.wake(Wake.DECISIONS)
        open_steps_waiting_for(tx, deciding, now)
    return states


def _touch_features(tx: Transaction, steps: Sequence[ClaimedStep], actor: str) -> None:
    """The end of a child cannot settle its workflow while its parent waits for it.

    So the elements of a large map do not wait for each other at the row of their workflow.
    """
    parents: set[int] = set()
    for step in steps:
        if step.belongs_to == WORKFLOW and step.parent_step_id is not None:
            parents.add(step.parent_step_id)
        else:
            tx.touch_step(step, step.id, actor)
    for workflow_id in workflows_of_ended(tx, ids=sorted(parents)) if parents else ():
        tx.touch(WORKFLOW, workflow_id, actor)


@query
def workflows_of_ended(tx: Transaction, *, ids: Sequence[int]) -> list[str]:
    """The workflows of those of these steps that have ended."""
    ...


def _completed(run: Success, actor: str, now: datetime) -> Change:
    claim = run.claim
    return Change(
        step_id=claim.step_id,
        workflow_id=claim.step.workflow_id,
        action=claim.step.action,
        from_state=State.RUNNING,
        to_state=State.COMPLETED,
        actor=actor,
        at=now,
        attempt=claim.step.attempts,
        duration=run.duration,
    )


def open_steps_waiting_for(tx: Transaction, ids: Sequence[int], now: datetime) -> int:
    """Put steps on the agenda that waited only for these, without waiting for the tick that processes the marks.

    So neither the next step of a chain nor the first children of a parent wait for a tick. A claim checks readiness
    again, so a step that was opened on stale data is not run.
    """
    waiting = steps_waiting_for(tx, ids=ids)
    return open_ready(tx, ids=waiting, now=now) if waiting else 0


@transition
def retry_later(
    tx: Transaction,
    *,
    id: int,
    token: int,
    dispatch_after: datetime | None,
    error: str | None,
    stack: str | None,
    stage: str | None,
    actor: str,
    now: datetime,
) -> list[Change]: ...


@transition
def throttle(
    tx: Transaction,
    *,
    id: int,
    token: int,
    dispatch_after: datetime | None,
    stage: str | None,
    actor: str,
    now: datetime,
) -> list[Change]: ...


@transition
def check_again(
    tx: Transaction,
    *,
    id: int,
    token: int,
    dispatch_after: datetime | None,
    stage: str | None,
    actor: str,
    now: datetime,
) -> list[Change]: ...


@transition
def not_completed(
    tx: Transaction,
    *,
    id: int,
    token: int,
    dispatch_after: datetime | None,
    limit: int,
    cut: bool,
    error: str | None,
    stage: str | None,
    actor: str,
    now: datetime,
) -> list[Change]:
    """The run ended without completing the step: Pending again after its cooldown, at most `limit` times in a row.

    `cut`: at its timeout, which is an attempt for the execution of a cron job.
    """
    ...


@transition
def run_again(
    tx: Transaction, *, id: int, token: int, dispatch_after: datetime | None, actor: str, now: datetime
) -> list[Change]:
    """The run was successful, and the step has to run again, from the start."""
    ...


@transition
def rescue(
    tx: Transaction,
    *,
    id: int,
    token: int,
    dispatch_after: datetime | None,
    limit: int,
    began: bool,
    error: str | None,
    actor: str,
    now: datetime,
) -> list[Change]:
    """Its process died: Pending again, or Failed as poison after `limit` deaths in a row of runs that had begun.

    `began`: the caller knows that this one had; otherwise what is on record counts.
    """
    ...


@transition
def fail(
    tx: Transaction,
    *,
    id: int,
    token: int,
    reason: str | None,
    error: str | None,
    stack: str | None,
    stage: str | None,
    duration: float,
    fingerprint: str,
    actor: str,
    now: datetime,
) -> list[Change]: ...


@transition
def stop(
    tx: Transaction,
    *,
    id: int,
    token: int,
    reason: str | None,
    duration: float,
    fingerprint: str,
    actor: str,
    now: datetime,
) -> list[Change]: ...


@transition
def skip(
    tx: Transaction, *, id: int, token: int, reason: str | None, duration: float, actor: str, now: datetime
) -> list[Change]: ...


@transition
def hand_back(
    tx: Transaction,
    *,
    id: int,
    token: int,
    dispatch_after: datetime | None,
    error: str | None,
    stage: str | None,
    actor: str,
    now: datetime,
) -> list[Change]:
    """Return the step to Pending unfinished: the attempt does not count."""
    ...


@transition
def release_lease(tx: Transaction, *, id: int, token: int, now: datetime) -> list[Change]:
    """The process of a step that was cancelled, skipped or failed from outside has ended."""
    ...


@change
def record_begun(tx: Transaction, *, ids: Sequence[int], tokens: Sequence[int]) -> int:
    """Runs that were claimed ahead of a free slot have begun: their deaths count."""
    ...


@query
def lock_lease(tx: Transaction, *, id: int, token: int) -> int | None:
    """Lock the lease until this transaction ends; None if it is already lost."""
    ...


@query
def holds_lease(tx: Transaction, *, id: int, token: int) -> int | None: ...


@query
def is_recorded(tx: Transaction, *, id: int, token: int) -> int | None:
    """Whether the run with this token has recorded the result of its compute."""
    ...


@change
def record_compute(tx: Transaction, *, id: int, token: int, stage: str, response: str, now: datetime) -> int:
    """Compute is done and never runs again: a later attempt starts at `stage`."""
    ...


@change
def save_checkpoint(tx: Transaction, *, id: int, token: int, data: str) -> int: ...


@change
def record_progress(tx: Transaction, *, id: int, token: int, done: float, total: float | None) -> int: ...


class LogEntry(msgspec.Struct, frozen=True):
    """A line that a run logged."""

    at: datetime
    level: str
    message: str


def add_logs(tx: Transaction, claim: Claim, entries: Sequence[LogEntry]) -> None:
    rows = [
        (claim.step_id, claim.step.attempts, tx.timestamp(entry.at), entry.level, entry.message) for entry in entries
    ]
    tx.insert("step_logs", ("step_id", "attempt", "at", "level", "message"), rows)
