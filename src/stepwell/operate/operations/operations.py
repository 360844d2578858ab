"""Actions on many steps or workflows at once: a preview, its execution, and undoing that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from stepwell.model import codec
from stepwell.model.actors import actor_of, storable
from stepwell.model.errors import ActionRefused, OperationNotFound
from stepwell.model.ids import LARGEST_ID
from stepwell.operate.operations.executing import UNDO, OperationExecutor
from stepwell.operate.operations.kinds import Kinds
from stepwell.operate.operations.pace import items_per_second
from stepwell.operate.operations.previewing import take_preview
from stepwell.operate.step_actions import StepActions
from stepwell.store import Database, Transaction
from stepwell.store.engine import operations
from stepwell.store.engine.operations import ActionCount, Item, ItemCount, OperationRow, Targets
from stepwell.store.filters import check_page


@dataclass(frozen=True, slots=True)
class PreviewCounts:
    """How many steps or workflows match, would change, would be refused; and how many steps change with them."""

    targets: int
    done: int
    refused: int
    also: Mapping[str, int]  # revived, skipped, cancelled, failed


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an operation has come: targets by outcome, and how many steps changed with them."""

    targets: int
    done: int
    refused: int
    changed: int
    left: int
    also: Mapping[str, int]


class _Stored:
    """Something that is kept as rows; an object of this class holds its id alone."""

    def __init__(self, database: Database, executor: OperationExecutor, id: int) -> None:
        self.id = id
        self._database = database
        self._executor = executor

    def row(self) -> OperationRow:
        found = self._database.read(lambda tx: operations.operation(tx, id=self.id))
        if found is None:
            raise OperationNotFound(f"operation {self.id} does not exist; a preview is deleted after a day")
        return found

    def items(
        self,
        *,
        role: str = "target",
        expected: str | None = None,
        outcome: str | None = None,
        after: int = 0,
        limit: int = 100,
    ) -> list[Item]:
        """Items with an id above `after`: targets or, with `role="also"`, the steps that change with them."""
        return self._database.read(
            lambda tx: operations.items(
                tx, operation=self.id, role=role, expected=expected, outcome=outcome, after=after, limit=limit
            )
        )

    def by_action(self) -> list[ActionCount]:
        """The targets by action and by their state before."""
        return self._database.read(lambda tx: operations.targets_by_action(tx, operation=self.id))

    def _counts(self) -> list[ItemCount]:
        return self._database.read(lambda tx: operations.count_items(tx, operation=self.id))


class Preview(_Stored):
    """What an action would do, frozen to the rows that were seen: later ones are not touched."""

    def counts(self) -> PreviewCounts:
        found = self._counts()
        targets = [each for each in found if each.role == "target"]
        return PreviewCounts(
            targets=_sum(targets),
            done=_sum([each for each in targets if each.expected == "done"]),
            refused=_sum([each for each in targets if each.expected == "refused"]),
            also=_by_effect(found),
        )

    def execute(self, *, who: str, why: str | None = None, pace: str | None = None, wait: bool = True) -> Operation:
        """Act on the targets, in batches, at most at this `pace` ("50/minute"); returns when all is done.

        With `wait=False` it is only started: `Operation.run` executes it, in any process.
        """
        actor, per_second = actor_of(who), None if pace is None else items_per_second(pace)

        def start(tx: Transaction) -> None:
            row = operations.lock_operation(tx, id=self.id)
            if row is None:
                raise OperationNotFound(f"preview {self.id} no longer exists: make a new one; nothing changed")
            now = self._database.now()
            if not operations.start_operation(
                tx, id=self.id, actor=actor, reason=storable(why), pace=per_second, now=now
            ):
                raise ActionRefused(_why_not_started(row))

        self._database.transact(start)
        operation = Operation(self._database, self._executor, self.id)
        if wait:
            operation.run()
        return operation


class Operation(_Stored):
    """An action on many steps or workflows that was started; one on a single step is one with a single item."""

    def progress(self) -> Progress:
        found = self._counts()
        targets = [each for each in found if each.role == "target"]
        by_outcome = {name: _sum([each for each in targets if each.outcome == name]) for name in _OUTCOMES}
        return Progress(
            targets=_sum(targets),
            done=by_outcome["done"],
            refused=by_outcome["refused"],
            changed=by_outcome["changed"],
            left=by_outcome[None],
            also=_by_effect([each for each in found if each.outcome == "done"]),
        )

    def run(self) -> None:
        """Execute what is left, if it was not executed to its end."""
        self._executor.run(self.id)

    def round(self) -> float | None:
        """Execute one batch. Returns after how many seconds the next one is due, or None when it is done."""
        return self._executor.round(self.id)

    def undo(self, *, who: str, why: str | None = None, pace: str | None = None, wait: bool = True) -> Operation:
        """Revert what it did, where the table of transitions allows it and nothing has happened since.

        The undo is an operation of its own: its items say what was reverted, and why the rest was not.
        """
        actor, per_second = actor_of(who), None if pace is None else items_per_second(pace)

        def start(tx: Transaction) -> int:
            row = operations.lock_operation(tx, id=self.id)
            if row is None or row.state != "done" or row.kind == UNDO:
                raise ActionRefused(_why_not_undone(self.id, row))
            self._executor.refuse_undo(row.kind)
            if (other := operations.undo_of(tx, id=self.id)) is not None:
                raise ActionRefused(f"operation {self.id} was undone by operation {other}; nothing changed")
            now = self._database.now()
            undo = operations.insert_operation(
                tx,
                kind=UNDO,
                state="previewed",
                filters="{}",
                parameters=codec.encode({"of": row.kind}),
                actor=None,
                reason=None,
                undo_of=self.id,
                now=now,
            )
            operations.freeze_for_undo(tx, operation=undo, undone=self.id)
            operations.start_operation(tx, id=undo, actor=actor, reason=storable(why), pace=per_second, now=now)
            return undo

        operation = Operation(self._database, self._executor, self._database.transact(start))
        if wait:
            operation.run()
        return operation


class Operations:
    """`app.operations`: actions in bulk, and the audit trail of all that was done by hand."""

    def __init__(self, database: Database, steps: StepActions) -> None:
        self._database = database
        self.kinds = Kinds(steps)
        self._executor = OperationExecutor(database, self.kinds)

    def preview(self, kind: str, *, result: Any = None, **filters: Any) -> Preview:
        """Freeze the steps that match, and find out what `kind` would do to each; changes nothing.

        The filters are those of `app.steps`; for kinds that end in `_workflow` they are those of workflows. `result` is
        what `complete` completes the steps with.
        """
        parameters = {"result": result} if kind == "complete" else {}
        id = take_preview(self._database, self.kinds[kind], parameters, filters)
        return Preview(self._database, self._executor, id)

    def open_preview(self, id: int) -> Preview:
        """A preview that was taken earlier, perhaps by another process."""
        found = Preview(self._database, self._executor, id)
        found.row()
        return found

    def get(self, id: int) -> Operation:
        """An operation by its id; `run` continues it if it was not executed to its end."""
        found = Operation(self._database, self._executor, id)
        found.row()
        return found

    def can_undo(self, kind: str) -> bool:
        """Whether operations of this kind can be undone, as far as nothing has happened since."""
        return kind in self.kinds and self.kinds[kind].can_undo

    def newest(self, *, before: int | None = None, limit: int = 50) -> list[OperationRow]:
        """Who did what, when and why: the newest operations, with an id below `before`."""
        check_page(limit, before)
        at = LARGEST_ID if before is None else before
        return self._database.read(lambda tx: operations.newest_operations(tx, before=at, limit=limit))

    def targets_of(self, ids: Sequence[int], *, most: int) -> dict[int, Targets]:
        """How many steps or workflows these operations were about, counted up to `most`, and the first of them."""
        return {row.id: row for row in self._database.read(lambda tx: operations.targets_of(tx, ids=ids, most=most))}

    def of_step(self, step_id: int, *, limit: int = 50) -> list[OperationRow]:
        """What was done by hand to a step, the newest first."""
        check_page(limit)
        return self._database.read(lambda tx: operations.operations_of_step(tx, step_id=step_id, limit=limit))

    def of_workflow(self, workflow_id: str, *, limit: int = 50) -> list[OperationRow]:
        """What was done by hand to a whole workflow, the newest first."""
        check_page(limit)
        return self._database.read(
            lambda tx: operations.operations_of_workflow(tx, workflow_id=workflow_id, limit=limit)
        )


_OUTCOMES: Final = ("done", "refused", "changed", None)


def _sum(counts: list[ItemCount]) -> int:
    return sum(each.items for each in counts)


def _by_effect(counts: list[ItemCount]) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in counts:
        if each.role == "also" and each.effect is not None:
            found[each.effect] = found.get(each.effect, 0) + each.items
    return found


def _why_not_started(row: OperationRow) -> str:
    if row.state == "previewing":
        return f"preview {row.id} was not taken to its end: take another one; nothing changed"
    return (
        f"operation {row.id} was executed by {row.actor} at {row.started_at:%Y-%m-%d %H:%M:%S} UTC and is {row.state}; "
        "nothing changed"
    )


def _why_not_undone(id: int, row: OperationRow | None) -> str:
    if row is None:
        return f"operation {id} does not exist"
    if row.kind == UNDO:
        return f"operation {id} is itself an undo, which cannot be undone; nothing changed"
    return f"operation {id} is not done yet ({row.state}): execute the rest of it first; nothing changed"
