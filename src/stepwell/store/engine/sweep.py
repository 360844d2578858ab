"""The full sweep: what a mark or an agenda entry should have announced, found by reading the tables themselves."""

from __future__ import annotations

import msgspec

from stepwell.store.statement import change, query
from stepwell.store.transaction import Transaction


class FindingRow(msgspec.Struct, frozen=True):
    id: int
    finding: str


@change
def hold_one_snapshot(tx: Transaction) -> int: ...


@query
def has_marks(tx: Transaction, *, group: str) -> bool | None: ...


@query
def wrong_in_blocks(tx: Transaction, *, group: str) -> list[FindingRow]: ...


@query
def wrong_on_agenda(tx: Transaction, *, group: str) -> list[FindingRow]: ...


@query
def unannounced_decisions(tx: Transaction, *, group: str) -> list[FindingRow]: ...


@change
def drop_block_entry(tx: Transaction, *, id: int) -> int: ...


@change
def mend_block_entry(tx: Transaction, *, id: int) -> int: ...


@change
def drop_agenda_entry(tx: Transaction, *, id: int) -> int: ...


@change
def mend_agenda_entry(tx: Transaction, *, id: int) -> int: ...


@change
def mark_again(tx: Transaction, *, id: int) -> int: ...
