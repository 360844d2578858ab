"""Steps that were created before any worker had recorded their job.

They have the general defaults until then, and a row in `steps_unsettled` that says which settings they left out. The
first worker that knows the job settles them before it claims any: a worker records its jobs when it starts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from stepwell.define.drafts import NewStep, SettledStep
from stepwell.define.registry import Registry
from stepwell.enqueue.place.queues import queue_of
from stepwell.enqueue.set_aside import log_set_aside
from stepwell.enqueue.settle import DECLARABLE, declarations_for, settle
from stepwell.model import codec
from stepwell.model.actors import ADOPTION
from stepwell.model.error_text import describe
from stepwell.model.errors import InvalidStep
from stepwell.store import Database, Transaction
from stepwell.store.engine import actions, adoption, creation, keys
from stepwell.store.engine.actions import Declaration, UnsettledStep

BATCH: Final = 500


def note_unsettled(tx: Transaction, created: Sequence[tuple[int, SettledStep]]) -> None:
    """Remember which of these new steps have general defaults only because no worker has recorded their job."""
    unsettled = [(id, draft) for id, draft in created if draft.unsettled]
    if unsettled:
        actions.add_unsettled(
            tx,
            ids=[id for id, _ in unsettled],
            left_out=[" ".join(draft.unsettled) for _, draft in unsettled],
        )


def settle_declared(database: Database, jobs: Registry) -> None:
    """Settle all steps of jobs that have been recorded since the steps were created.

    Usually those are jobs of the worker that starts. Others are left over from a transaction that began before its
    job was recorded and was committed after it.
    """
    known = sorted(jobs.actions())
    names = database.read(lambda tx: actions.declared_but_unsettled(tx, known=known))
    settled = len(names)
    while settled:
        settled = database.transact(lambda tx: _settle_batch(tx, names, jobs, database))


def _settle_batch(tx: Transaction, names: Collection[str], jobs: Registry, database: Database) -> int:
    rows = actions.unsettled_steps(tx, names=sorted(names), limit=BATCH)
    if not rows:
        return 0
    declared, queues = declarations_for(tx, names), set(creation.queue_names(tx))
    now, refused = database.now(), list[tuple[int, str]]()
    for row in rows:
        try:
            _settle(tx, row, declared[row.action], jobs, queues)
        except InvalidStep as error:
            if adoption.refuse_step(tx, id=row.id, actor=ADOPTION, message=str(error), now=now):
                refused.append((row.id, str(error)))
    log_set_aside(tx, refused, ADOPTION, now)
    actions.delete_unsettled(tx, ids=[row.id for row in rows])
    return len(rows)


def _settle(tx: Transaction, row: UnsettledStep, declared: Declaration, jobs: Registry, queues: set[str]) -> None:
    left_out = row.left_out.split()
    kept = {name: getattr(row, name) for name in DECLARABLE if name not in left_out}
    if "concurrency_key" in left_out and declared.key_function is not None:
        kept["concurrency_key"] = _key_of_function(row, jobs)
    draft = settle(NewStep(action=row.action, **kept), row.arguments, declared)
    priority = draft.priority or actions.priority_of_parent(tx, id=row.id) or row.priority
    written = actions.settle_step(
        tx,
        id=row.id,
        queue=queue_of(draft.queue, priority, queues),
        priority=priority,
        max_retries=draft.max_retries,
        timeout=float(draft.timeout),
        cooldown=float(draft.cooldown),
        concurrency_key=draft.concurrency_key,
        concurrency_limit=draft.concurrency_limit,
    )
    if written and actions.settle_agenda_entry(tx, id=row.id) and draft.concurrency_key is not None:
        keys.mark_key(tx, key=draft.concurrency_key)


def _key_of_function(row: UnsettledStep, jobs: Registry) -> str | None:
    job = jobs.get(row.action)
    if job is None:
        return None  # `settle` says that only a program with the code can make it
    try:
        key: str | None = job.key_settings(codec.decode(row.arguments)).get("concurrency_key")
    except Exception as error:  # the code of the user
        raise InvalidStep(f"its concurrency key cannot be computed: {describe(error)}") from error
    return key
