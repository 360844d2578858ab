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

_LOGGER: Final = logging.getLogger("stepwell.sweep")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about a step that nothing had announced."""

    step_id: int
    finding: str


def sweep(database: Database, groups: Collection[str] | None = None) -> list[Finding]:
    """Look at everything once; returns what had to be mended (normally nothing)."""
    known = [row["group"] for row in database.read(lambda tx: tx.rows("all_groups"))]
    findings: list[Finding] = []
    for group in known if groups is None else [group for group in known if group in groups]:
        findings += database.transact(lambda tx, group=group: _sweep_group(tx, group))  # type: ignore[misc]
    for finding in findings:
        _LOGGER.error("the sweep mended step %d: %s", finding.step_id, finding.finding)
    return findings


def _sweep_group(tx: Transaction, group: str) -> list[Finding]:
    tx.change("hold_one_snapshot")
    tx.rows("keep_to_indexes")
    if tx.value("has_marks", group=group) is not None:
        return []  # decisions are under way: the ticks will make them
    findings = []
    for row in tx.rows("wrong_in_blocks", group=group):
        tx.change("drop_block_entry", id=row["id"])
        tx.change("mend_block_entry", id=row["id"])
        findings.append(Finding(row["id"], row["finding"]))
    for row in tx.rows("wrong_on_agenda", group=group):
        tx.change("drop_agenda_entry", id=row["id"])
        tx.change("mend_agenda_entry", id=row["id"])
        findings.append(Finding(row["id"], row["finding"]))
    for row in tx.rows("unannounced_decisions", group=group):
        tx.change("mark_again", id=row["id"])
        findings.append(Finding(row["id"], row["finding"]))
    return findings
