"""Finding the place of a new step: its workflow, block, parent and neighbours."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

import msgspec

from stepwell.model.states import State
from stepwell.store.statement import query
from stepwell.store.transaction import Transaction


class ExistingStep(msgspec.Struct):
    """An existing step that new ones refer to, locked until the transaction ends."""

    id: int
    uuid: str
    label: str | None
    action: str
    state: State
    reason: str | None
    type: str
    group: str | None
    workflow_id: str | None
    priority: str
    parent_step_id: int | None
    block_uuid: str | None
    child_block_uuid: str | None
    index: int | None
    updated_at: datetime
    belongs_to: str | None = None


class GraphStep(msgspec.Struct, frozen=True):
    id: int
    label: str | None
    action: str
    parent_step_id: int | None
    block_uuid: str
    type: str
    index: int


class Edge(msgspec.Struct, frozen=True):
    step_id: int
    depends_on_id: int


@query
def lock_steps(tx: Transaction, *, ids: Collection[int], uuids: Collection[str]) -> list[ExistingStep]: ...


@query
def lock_name(tx: Transaction, *, name: str) -> int:
    """Lock a name until the transaction ends (on SQLite, the write lock is enough)."""
    ...


@query
def existing_blocks(tx: Transaction, *, uuids: Sequence[str]) -> list[str]: ...


@query
def group_of_workflow(tx: Transaction, *, workflow: str) -> str | None:
    """The group of an existing workflow."""
    ...


@query
def parent_of_block(tx: Transaction, *, block: str) -> int | None: ...


@query
def member_of_block(tx: Transaction, *, block: str) -> int | None: ...


@query
def occupant_of_block(tx: Transaction, *, block: str, parent: int) -> int | None:
    """A step that prevents the block from becoming the child block of this parent."""
    ...


@query
def workflow_graph(tx: Transaction, *, workflow: str) -> list[GraphStep]:
    """The steps that may still wait for others, for cycle detection."""
    ...


@query
def workflow_edges(tx: Transaction, *, workflow: str) -> list[Edge]: ...
