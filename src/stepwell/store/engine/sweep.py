"""The full sweep: finds missing marks and wrong agenda or block entries by reading the tables themselves."""

from __future__ import annotations

import msgspec

from stepwell.model.features import WORKFLOW
from stepwell.store.statement import change, query
from stepwell.store.transaction import Transaction


class FindingRow(msgspec.Struct, frozen=True):
    id: int
    finding: str


class WorkflowFinding(FindingRow, frozen=True):
    """A finding about a declared workflow, named by its first step."""

    workflow_id: str
    group: str | None


@change
def use_one_snapshot(tx: Transaction) -> int: ...


@query
def has_marks(tx: Transaction, *, group: str) -> bool | None: ...


@query
def wrong_workflow_states(tx: Transaction) -> list[WorkflowFinding]: ...


def settle_again(tx: Transaction, *, workflow: str, actor: str) -> None:
    """Set the state that follows from the steps of a workflow, at the end of this transaction."""
    tx.touch(WORKFLOW, workflow, actor)


@query
def wrong_block_entries(tx: Transaction, *, group: str) -> list[FindingRow]: ...


@query
def wrong_agenda_entries(tx: Transaction, *, group: str) -> list[FindingRow]: ...


@query
def unmarked_decisions(tx: Transaction, *, group: str) -> list[FindingRow]: ...


@change
def delete_block_entry(tx: Transaction, *, id: int) -> int: ...


@change
def repair_block_entry(tx: Transaction, *, id: int) -> int: ...


@change
def delete_agenda_entry(tx: Transaction, *, id: int) -> int: ...


@change
def repair_agenda_entry(tx: Transaction, *, id: int) -> int: ...


@change
def mark_again(tx: Transaction, *, id: int) -> int: ...
