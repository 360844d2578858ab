"""The full sweep: proves that marks and agenda are right, and mends and reports what is not.

Ticks find work only from marks. Should a mark ever be missing, the sweep finds what it would have decided by
reading the tables themselves, marks it again, and says so loudly: each finding is a bug worth reporting.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from stepwell.store import Database, Transaction
from stepwell.store.engine import reading, ticks
from stepwell.store.engine import sweep as verbs

_LOGGER: Final = logging.getLogger("stepwell.sweep")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about a step that nothing had announced."""

    step_id: int
    finding: str


def sweep(database: Database, groups: Collection[str] | None = None) -> list[Finding]:
    """Look at everything once; returns what had to be mended (normally nothing)."""
    known = [row.group for row in database.read(reading.all_groups)]
    findings: list[Finding] = []
    for group in known if groups is None else [group for group in known if group in groups]:
        findings += database.transact(lambda tx, group=group: _sweep_group(tx, group))  # type: ignore[misc]
    for finding in findings:
        _LOGGER.error("the sweep mended step %d: %s", finding.step_id, finding.finding)
    return findings


def _sweep_group(tx: Transaction, group: str) -> list[Finding]:
    verbs.use_one_snapshot(tx)
    ticks.keep_to_indexes(tx)
    if verbs.has_marks(tx, group=group):
        return []  # decisions are under way: the ticks will make them
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
