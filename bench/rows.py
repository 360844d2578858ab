"""Steps by the hundred thousand, written without the triggers, as the engine would have left them.

Creating and running a million steps would take an hour. These rows go straight into the tables, with their history,
agenda, block entries and edges; a test lets the engine's own checks look for a difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from stepwell.model.ids import Uuid7Generator
from stepwell.operate.fold import recount
from stepwell.store import Database, Transaction
from stepwell.store.engine import creation

GROUP: Final = "alpha"
ACTION: Final = "work"
QUEUE: Final = "default"
BATCH: Final = 20_000
ACTOR: Final = "bench"
BEFORE_THE_CROWD: Final = 1_000_000_000  # an index that the work of a benchmark stays below
NEVER: Final = timedelta(days=3650)  # when what is `delayed` here comes due

_STEPS: Final = (
    "id", "uuid", "workflow_id", "parent_step_id", "block_uuid", "child_block_uuid", "index", "action", "arguments",
    "queue", "group", "state", "reason", "actor", "placed", "dependencies", "has_dependents", "has_children",
    "attempts", "dispatch_after", "lease_token", "compute_done_at", "own_code_done_at", "started_at", "completed_at",
    "duration", "response", "created_at", "updated_at", "priority", "max_retries", "timeout", "cooldown",
    "concurrency_limit",
)  # fmt: skip
_HISTORY: Final = ("step_id", "from_state", "to_state", "reason", "actor", "at", "attempt")
_AGENDA: Final = ("step_id", "status", "group", "queue", "action", "rank", "due_at")
_BLOCKS: Final = ("step_id", "block_uuid", "type", "index", "ended")
_EDGES: Final = ("step_id", "depends_on_id")

# The way to each state, as the history tells it.
_WAYS: Final = {
    "Pending": ("Pending",),
    "Running": ("Pending", "Dispatched", "Running"),
    "Completed": ("Pending", "Dispatched", "Running", "Completed"),
    "Failed": ("Pending", "Dispatched", "Running", "Failed"),
    "Cancelled": ("Pending", "Cancelled"),
}


@dataclass(frozen=True, slots=True)
class Parent:
    """What a child needs to know of its parent."""

    id: int
    child_block: str
    workflow: str


@contextmanager
def behind_the_triggers(database: Database) -> Iterator[Loader]:
    """A loader of rows that no trigger sees."""
    triggers = database.transact(_take_triggers_down) if database.dialect == "sqlite" else []
    loader = Loader(database)
    yield loader
    loader.flush()
    database.transact(lambda tx: [tx.fetch(trigger, {}) for trigger in triggers])
    recount(database)


def _take_triggers_down(tx: Transaction) -> list[str]:
    triggers = tx.fetch("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' ORDER BY rowid", {})
    for trigger in triggers:
        tx.fetch(f"DROP TRIGGER {trigger['name']}", {})
    return [trigger["sql"] for trigger in triggers]


class Loader:
    """Collects rows and writes them in batches."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.uuids = Uuid7Generator()
        self._now = database.now()
        self._rows: dict[str, list[tuple[Any, ...]]] = {}
        self._ids: Iterator[int] = iter(())
        self._uuids: Iterator[str] = iter(())
        self._text = self._database.read(lambda tx: tx.timestamp(self._now))
        self._never = self._database.read(lambda tx: tx.timestamp(self._now + NEVER))
        self._left = 0
        self.flush()

    def step(
        self,
        state: str = "Pending",
        *,
        parent: Parent | None = None,
        block: str | None = None,
        workflow: str | None = None,
        index: int = 1,
        child_block: str | None = None,
        depends_on: Sequence[int] = (),
        has_dependents: bool = False,
        status: str | None = None,
    ) -> tuple[int, str]:
        """One step; returns its id and uuid. With a `child_block` it is a parent; without a `block` it stands alone."""
        if self._left == 0:
            self.flush()
        self._left -= 1
        number, uuid = next(self._ids), next(self._uuids)
        if parent is not None:
            block, workflow = parent.child_block, parent.workflow
        ended, ran = state in ("Completed", "Failed", "Cancelled"), state in ("Running", "Completed", "Failed")
        at, due = self._text, self._never if status == "delayed" else None
        self._rows["steps"].append((
            number, uuid, workflow or uuid, parent and parent.id, block or uuid, child_block, index, ACTION, "{}",
            QUEUE, GROUP, state, None, ACTOR, True, len(depends_on), has_dependents, child_block is not None, int(ran),
            due, int(ran), at if ran else None, at if ran else None, at if ran else None, at if ended else None,
            0.01 if ran else None, "null" if ran else None, at, at, "default", 3, 0.0, 0.0, 1,
        ))  # fmt: skip
        before = None
        for attempt, then in enumerate(_WAYS[state]):
            self._rows["step_transitions"].append((number, before, then, None, _actor(then), at, int(attempt >= 2)))
            before = then
        if status is not None:
            self._rows["steps_agenda"].append((number, status, GROUP, QUEUE, ACTION, 1, due))
        if block is not None and state != "Completed":
            self._rows["steps_unconcluded"].append((number, block, "default", index, ended))
        for predecessor in depends_on:
            self._rows["step_dependencies"].append((number, predecessor))
        return number, uuid

    def parent(self, state: str = "Pending", *, parent: Parent | None = None, status: str | None = None) -> Parent:
        """A step that has children."""
        child_block = self.uuids.next()
        number, uuid = self.step(state, parent=parent, child_block=child_block, status=status)
        return Parent(number, child_block, uuid if parent is None else parent.workflow)

    def flush(self) -> None:
        """Write what was collected, and take new numbers."""
        if any(self._rows.values()):
            self._database.transact(self._write)
        self._rows = {
            "steps": [], "step_transitions": [], "steps_agenda": [], "steps_unconcluded": [], "step_dependencies": []
        }  # fmt: skip
        self._ids = iter(self._database.transact(lambda tx: creation.reserve_step_ids(tx, BATCH)))
        self._uuids, self._left = iter(self.uuids.many(BATCH)), BATCH

    def _write(self, tx: Transaction) -> None:
        if self._database.dialect == "postgres":
            tx.fetch("SELECT set_config('session_replication_role', 'replica', true)", {})
        names = (_STEPS, _HISTORY, _AGENDA, _BLOCKS, _EDGES)
        for (table, rows), columns in zip(self._rows.items(), names, strict=True):
            if rows:
                tx.insert(table, columns, rows)


def _actor(state: str) -> str:
    return "operator:bench" if state == "Cancelled" else ACTOR
