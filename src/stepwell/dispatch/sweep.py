"""The full sweep: checks marks, agenda and block entries, repairs what is wrong and reports it.

Ticks find work only through marks. If a mark is missing, the sweep finds the step by reading the tables themselves,
marks it again and logs an error: each finding is a bug that should be reported.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from stepwell.model.actors import SWEEP
from stepwell.store import Database, Transaction
from stepwell.store.engine import reading
from stepwell.store.engine import sweep as verbs

_LOGGER: Final = logging.getLogger("stepwell.sweep")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about a step that was wrong and has been repaired."""

    step_id: int
    finding: str


def sweep(database: Database, groups: Collection[str] | None = None) -> list[Finding]:
    """Check everything once; returns what had to be repaired (normally nothing)."""
    return sweep_groups(database, groups).findings


@dataclass(frozen=True, slots=True)
class Swept:
    findings: list[Finding]
    busy: list[str]  # groups with marks that no tick has processed yet: nothing can be said about them


def sweep_groups(database: Database, groups: Collection[str] | None = None) -> Swept:
    known = [row.group for row in database.read(reading.all_groups)]
    swept = Swept([], [])
    chosen = [group for group in known if groups is None or group in groups]
    for group in chosen:
        found = database.transact(lambda tx, group=group: _sweep_group(tx, group))  # type: ignore[misc]
        if found is None:
            swept.busy.append(group)
        else:
            swept.findings.extend(found)
    swept.findings.extend(database.transact(lambda tx: _sweep_workflows(tx, chosen)))
    for finding in swept.findings:
        _LOGGER.error("sweep repaired step %d: %s", finding.step_id, finding.finding)
    return swept


def _sweep_group(tx: Transaction, group: str) -> list[Finding] | None:
    """What was repaired in a group; None if it has marks."""
    verbs.use_one_snapshot(tx)
    if verbs.has_marks(tx, group=group):
        return None
    findings = []
    for row in verbs.wrong_block_entries(tx, group=group):
        verbs.delete_block_entry(tx, id=row.id)
        verbs.repair_block_entry(tx, id=row.id)
        findings.append(Finding(row.id, row.finding))
    for row in verbs.wrong_agenda_entries(tx, group=group):
        verbs.delete_agenda_entry(tx, id=row.id)
        verbs.repair_agenda_entry(tx, id=row.id)
        findings.append(Finding(row.id, row.finding))
    for row in verbs.unmarked_decisions(tx, group=group):
        verbs.mark_again(tx, id=row.id)
        findings.append(Finding(row.id, row.finding))
    return findings


def _sweep_workflows(tx: Transaction, groups: Collection[str]) -> list[Finding]:
    verbs.use_one_snapshot(tx)
    findings = []
    for row in verbs.wrong_workflow_states(tx):
        if row.group in groups:
            verbs.settle_again(tx, workflow=row.workflow_id, actor=SWEEP)
            findings.append(Finding(row.id, row.finding))
    return findings
