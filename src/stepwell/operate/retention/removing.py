"""Removing workflows: only whole ones that are settled, each in one transaction with all that belongs to it.

A workflow is all steps with one workflow_id. It is settled when no step of it is unfinished, no lease is held, no tick
has anything left to decide about it and, if it was declared, its state is final. What another transaction has locked is
left for the next pass: retention waits for no lock on steps, so it cannot be part of a deadlock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from stepwell.model.errors import StepwellError
from stepwell.operate.retention.options import Rule
from stepwell.store import Transaction
from stepwell.store.engine import retention as verbs
from stepwell.store.engine import ticks

UNSETTLED: Final = ("pending", "in_progress")


@dataclass(slots=True)
class Removed:
    """What went, and what would have gone without its key."""

    workflows: int = 0
    steps: int = 0
    kept_for_keys: int = 0
    from_archive: int = 0  # steps that were deleted from the archive

    def add(self, other: Removed) -> None:
        self.workflows += other.workflows
        self.steps += other.steps
        self.kept_for_keys += other.kept_for_keys
        self.from_archive += other.from_archive


def remove(tx: Transaction, workflows: Sequence[str], rule: Rule, now: datetime) -> Removed:
    """Delete or archive those of these workflows that may go."""
    found, removed = _removable(tx, workflows, rule, locking=True)
    if not found:
        return removed
    going, ids = list(found), [id for members in found.values() for id in members]
    if rule.archive:
        verbs.archive_workflows(tx, workflows=going, now=now)
        _require(verbs.archive_steps(tx, ids=ids, now=now), len(ids), "archived")
    _require(verbs.remove_workflows(tx, workflows=going, ids=ids), len(ids), "deleted")
    verbs.count_removed(
        tx, workflow_count=len(going), step_count=len(ids), deleted_to=0 if rule.archive else max(ids, default=0)
    )
    return removed


def count(tx: Transaction, workflows: Sequence[str], rule: Rule) -> Removed:
    """What `remove` would do now."""
    ticks.keep_to_indexes(tx)
    return _removable(tx, workflows, rule, locking=False)[1]


def _removable(
    tx: Transaction, workflows: Sequence[str], rule: Rule, *, locking: bool
) -> tuple[dict[str, list[int]], Removed]:
    """The workflows that may go, with all their steps."""
    locked = set[int]()
    locked_workflows = set[str]()
    if locking:
        locked_workflows.update(verbs.lock_workflows(tx, workflows=workflows))
        locked.update(verbs.lock_members(tx, workflows=workflows))
    # Read after the locks were taken: on PostgreSQL, a step that joined before that is seen here.
    rows = {row.id: row for row in verbs.declared_workflows(tx, workflows=workflows)}
    free = {id for id in workflows if not locking or id not in rows or id in locked_workflows}
    members: dict[str, list[verbs.Member]] = {}
    for member in verbs.members(tx, workflows=workflows, before=rule.before, keys_before=rule.keys_before):
        members.setdefault(member.workflow_id, []).append(member)
    found: dict[str, list[int]] = {}
    removed = Removed()
    for workflow in free & (members.keys() | rows.keys()):
        row, steps = rows.get(workflow), members.get(workflow, [])
        if not all(step.settled and (not locking or step.id in locked) for step in steps):
            continue
        if row is not None and not _is_over(row, rule):
            continue
        if any(step.promised for step in steps) or (row is not None and _is_promised(row, rule)):
            removed.kept_for_keys += 1
            continue
        found[workflow] = [step.id for step in steps]
    undecided = set(verbs.marked(tx, ids=[id for ids in found.values() for id in ids])) if found else set()
    found = {workflow: ids for workflow, ids in found.items() if undecided.isdisjoint(ids)}
    removed.workflows, removed.steps = len(found), sum(map(len, found.values()))
    return found, removed


def _is_over(row: verbs.OldWorkflow, rule: Rule) -> bool:
    return row.state not in UNSETTLED and row.settled_at is not None and row.settled_at < rule.before


def _is_promised(row: verbs.OldWorkflow, rule: Rule) -> bool:
    return row.has_identity and row.created_at >= rule.keys_before


def _require(number: int, expected: int, what: str) -> None:
    if number != expected:
        raise StepwellError(f"retention: {number} of {expected} steps would have been {what}; nothing was changed")
