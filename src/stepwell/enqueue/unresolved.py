"""Steps that were created before any worker had recorded their job.

They have the general defaults until then, and a row in `steps_unsettled` that says which settings they left out. The
first worker that knows the job resolves their settings before it claims any: a worker records its jobs when it starts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from stepwell.define.drafts import NewStep, ResolvedStep
from stepwell.define.registry import Registry
from stepwell.enqueue.place.queues import queue_of
from stepwell.enqueue.resolve import DECLARABLE, declarations_for, resolve_settings
from stepwell.enqueue.set_aside import log_set_aside
from stepwell.model import codec
from stepwell.model.actors import ADOPTION
from stepwell.model.error_text import describe
from stepwell.model.errors import InvalidStep
from stepwell.store import Database, Transaction
from stepwell.store.engine import actions, adoption, creation, keys
from stepwell.store.engine.actions import Declaration, UnresolvedStep

BATCH: Final = 500


def note_unresolved(tx: Transaction, created: Sequence[tuple[int, ResolvedStep]]) -> None:
    """Remember which of these new steps have general defaults only because no worker has recorded their job."""
    unresolved = [(id, draft) for id, draft in created if draft.unresolved]
    if unresolved:
        actions.add_unresolved(
            tx,
            ids=[id for id, _ in unresolved],
            left_out=[" ".join(draft.unresolved) for _, draft in unresolved],
        )


def resolve_late(database: Database, jobs: Registry) -> None:
    """Resolve the settings of all steps of jobs that have been recorded since the steps were created.

    Usually those are jobs of the worker that starts. Others are left over from a transaction that began before its
    job was recorded and was committed after it.
    """
    known = sorted(jobs.actions())
    names = database.read(lambda tx: actions.declared_but_unresolved(tx, known=known))
    resolved = len(names)
    while resolved:
        resolved = database.transact(lambda tx: _resolve_batch(tx, names, jobs, database))


def _resolve_batch(tx: Transaction, names: Collection[str], jobs: Registry, database: Database) -> int:
    rows = actions.unresolved_steps(tx, names=sorted(names), limit=BATCH)
    if not rows:
        return 0
    declared, queues = declarations_for(tx, names), set(creation.queue_names(tx))
    now, refused = database.now(), list[tuple[int, str]]()
    for row in rows:
        try:
            _resolve(tx, row, declared[row.action], jobs, queues)
        except InvalidStep as error:
            if adoption.refuse_step(tx, id=row.id, actor=ADOPTION, message=str(error), now=now):
                refused.append((row.id, str(error)))
    log_set_aside(tx, refused, ADOPTION, now)
    actions.delete_unresolved(tx, ids=[row.id for row in rows])
    return len(rows)


def _resolve(tx: Transaction, row: UnresolvedStep, declared: Declaration, jobs: Registry, queues: set[str]) -> None:
    left_out = row.left_out.split()
    kept = {name: getattr(row, name) for name in DECLARABLE if name not in left_out}
    if "concurrency_key" in left_out and declared.key_function is not None:
        kept["concurrency_key"] = _key_of_function(row, jobs)
    draft = resolve_settings(NewStep(action=row.action, **kept), row.arguments, declared)
    priority = draft.priority or actions.priority_of_parent(tx, id=row.id) or row.priority
    written = actions.write_late_settings(
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
    if written and actions.write_late_settings_to_agenda(tx, id=row.id) and draft.concurrency_key is not None:
        keys.mark_key(tx, key=draft.concurrency_key)


def _key_of_function(row: UnresolvedStep, jobs: Registry) -> str | None:
    job = jobs.get(row.action)
    if job is None:
        return None  # `resolve_settings` says that only a program with the code can make it
    try:
        key: str | None = job.key_settings(codec.decode(row.arguments)).get("concurrency_key")
    except Exception as error:  # the code of the user
        raise InvalidStep(f"its concurrency key cannot be computed: {describe(error)}") from error
    return key
