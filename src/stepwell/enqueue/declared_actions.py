"""What the jobs of an app declare, recorded in `steps_actions` for programs that create steps without their code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import structs

from stepwell.define.definition import JobDefinition
from stepwell.define.drafts import ResolvedStep
from stepwell.define.keys import KeyTemplate
from stepwell.define.registry import Registry
from stepwell.enqueue.unresolved import resolve_late
from stepwell.model.this_process import this_process
from stepwell.store import Database, Transaction
from stepwell.store.engine import actions, creation
from stepwell.store.engine.actions import Declaration


def record_actions(database: Database, jobs: Registry) -> None:
    """Record what the jobs declare, and resolve the settings of steps that were created before that.

    Writes only what differs from the record. Of two programs the last one decides.
    """
    wanted = {declaration.name: declaration for job in jobs for declaration in declarations(job)}

    def difference(tx: Transaction) -> tuple[list[Declaration], list[str]]:
        """The declarations that differ from the record, and the aliases that are no more."""
        known = {row.name: row for row in actions.declared_actions(tx, names=sorted(wanted))}
        former = set(actions.aliases_of(tx, actions=sorted(wanted))) - wanted.keys()
        return [row for name, row in sorted(wanted.items()) if known.get(name) != row], sorted(former)

    def record(tx: Transaction) -> None:
        changed, former = difference(tx)
        now, by = database.now(), this_process()
        for queue in sorted({row.queue for row in changed if row.queue is not None}):
            creation.add_queue(tx, name=queue)
        for row in changed:  # in the order of their names, so that two programs cannot deadlock
            actions.record_action(tx, **structs.asdict(row), now=now, by=by)
        for name in former:
            actions.delete_alias(tx, name=name)

    if any(database.read(difference)):
        database.transact(record)
    resolve_late(database, jobs)


def declarations(job: JobDefinition[..., Any]) -> Iterator[Declaration]:
    """One for each name of the job."""
    key = job.settings.get("concurrency_key")
    function = None if key is None or isinstance(key, str | KeyTemplate) else getattr(key, "__qualname__", repr(key))
    settings = {**job.settings, "concurrency_key": None}
    draft = ResolvedStep(action=job.action, **settings)
    declared = Declaration(
        name=job.action,
        alias_of=None,
        queue=draft.queue,
        priority=draft.priority or "default",
        max_retries=draft.max_retries,
        timeout=float(draft.timeout),
        cooldown=float(draft.cooldown),
        concurrency_key=key.text if isinstance(key, KeyTemplate) else key if isinstance(key, str) else None,
        key_function=function,
        concurrency_limit=draft.concurrency_limit,
        weight=float(job.policy.weight),
        max_running=job.policy.max_running,
    )
    yield declared
    for alias in job.aliases:
        yield structs.replace(declared, name=alias, alias_of=job.action)
