"""Workflows of any size: what stands in them, counted a limited number of rows at a time, and pages of their steps."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from threading import Lock
from typing import Final, TypeAlias

from stepwell.look import palette
from stepwell.model.states import FAILED, State
from stepwell.store import Database, Transaction
from stepwell.store.engine import outlines, ticks, workflows
from stepwell.store.engine.outlines import CensusRow, OutlineStep, WorkflowInList
from stepwell.store.engine.workflows import Execution

# Steps that one answer counts: the budget of a list. The next answer continues where it stopped.
CHUNK: Final = 20_000
# Steps among which those of one stack are looked for.
WINDOW: Final = 2_000
# Stacks that are told apart; what is beyond is counted in the totals alone. (Where all steps have children of their
# own, there are as many stacks as steps.)
MOST_STACKS: Final = 2_000
# Dispatched and running steps among which those of one workflow are looked for: more than the slots of most sites.
MOST_IN_FLIGHT: Final = 2_000
# Steps that ended without concluding, among which the failed ones are looked for.
MOST_ENDED: Final = 1_000
# Workflows whose counts are kept.
MOST_KEPT: Final = 50

Alike: TypeAlias = tuple[int | None, str, str]  # parent, name in the template, action
_NEWEST: Final = "ffffffff-ffff-ffff-ffff-ffffffffffff"


@dataclass(slots=True)
class Stack:
    """Steps of one parent that run the same action, under one name of the template."""

    parent: int | None
    template: str
    action: str
    first: int  # the lowest id
    index: int | None  # the lowest
    looks: Counter[str] = field(default_factory=Counter)  # by the key of the look

    @property
    def key(self) -> str:
        """As addresses name it: it never changes, because no later step has a lower id."""
        return f"g{self.first}"

    @property
    def name(self) -> str:
        return self.template or self.action

    @property
    def steps(self) -> int:
        return self.looks.total()


@dataclass(slots=True)
class Census:
    """All steps of a workflow beside its root, by state and by what makes them alike."""

    states: Counter[State] = field(default_factory=Counter)
    stacks: dict[Alike, Stack] = field(default_factory=dict)
    position: int = 0  # the highest id that is counted
    is_complete: bool = False
    as_of: datetime | None = None

    @property
    def steps(self) -> int:
        return self.states.total()

    def add(self, rows: Iterable[CensusRow]) -> None:
        for row in sorted(rows, key=lambda row: row.first):
            self.states[row.state] += row.steps
            self.position = max(self.position, row.last)
            alike = (row.parent_step_id, row.template or "", row.action)
            stack = self.stacks.get(alike)
            if stack is None:
                if len(self.stacks) >= MOST_STACKS:
                    continue
                stack = self.stacks[alike] = Stack(*alike, row.first, row.index)
            look = palette.of_step(row.state, is_throttled=row.is_throttled, own_code_done=row.own_code_done)
            stack.looks[look.key] += row.steps
            if row.index is not None and (stack.index is None or row.index < stack.index):
                stack.index = row.index

    def copy(self) -> Census:
        """As it is now: another thread may continue to count."""
        stacks = {alike: replace(stack, looks=stack.looks.copy()) for alike, stack in self.stacks.items()}
        return replace(self, states=self.states.copy(), stacks=stacks)

    def below(self, parent: int | None) -> list[Stack]:
        return sorted((stack for stack in self.stacks.values() if stack.parent == parent), key=lambda each: each.first)


@dataclass(slots=True)
class _Counting:
    """The last count that is complete, and the one under way."""

    shown: Census = field(default_factory=Census)
    next: Census = field(default_factory=Census)
    is_final: bool = False  # the workflow was settled before the count began, and all its steps had ended
    lock: Lock = field(default_factory=Lock)


class Censuses:
    """Counts of large workflows: each look counts one chunk, and shows the last count that is complete."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Counting] = OrderedDict()
        self._lock = Lock()

    def of(self, database: Database, workflow: str, *, is_settled: bool) -> Census:
        """Until the first count is complete: what has been counted so far."""
        with self._lock:
            counting = self._kept.setdefault(workflow, _Counting())
            self._kept.move_to_end(workflow)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        with counting.lock:
            if not (is_settled and counting.is_final):
                _count(database, workflow, counting, is_settled=is_settled)
            return counting.shown


def _count(database: Database, workflow: str, counting: _Counting, *, is_settled: bool) -> None:
    census = counting.next
    if census.position == 0:
        counting.is_final = is_settled
    counting.is_final = counting.is_final and is_settled
    rows = database.read(lambda tx: outlines.census(tx, workflow=workflow, after=census.position, limit=CHUNK))
    census.add(rows)
    if sum(row.steps for row in rows) == CHUNK:
        if not counting.shown.is_complete:
            counting.shown = census.copy()
        return
    # The steps below a root that was cancelled follow it one by one.
    counting.is_final = counting.is_final and all(state.is_terminal for state in census.states)
    census.is_complete, census.as_of = True, database.now()
    counting.shown, counting.next = census, Census()


@dataclass(frozen=True, slots=True)
class Listed:
    """A workflow in a list; the steps of a large one are not counted."""

    row: WorkflowInList
    execution: Execution | None


def listed(database: Database, *, state: str | None, name: str | None, limit: int, large: int) -> list[Listed]:
    """The workflows that were started last; those with more than `large` steps without their numbers."""

    def look(tx: Transaction) -> list[Listed]:
        ticks.keep_to_indexes(tx)
        rows = outlines.listed_workflows(tx, state=state, name=name, before=_NEWEST, limit=limit)
        small = [row.id for row in rows if not _is_larger(tx, row.id, large)]
        found = {each.workflow_id: each for each in workflows.execution(tx, ids=small)} if small else {}
        return [Listed(row, found.get(row.id)) for row in rows]

    return database.read(look)


def _is_larger(tx: Transaction, workflow: str, steps: int) -> bool:
    return outlines.size_of_workflow(tx, workflow=workflow, after=0, most=steps + 1) > steps


class Outline:
    """Pages of the steps of one workflow."""

    def __init__(self, database: Database, workflow: str) -> None:
        self._database = database
        self._workflow = workflow

    def is_larger_than(self, steps: int) -> bool:
        return self._database.read(lambda tx: _is_larger(tx, self._workflow, steps))

    def steps(self, ids: Sequence[int]) -> dict[int, OutlineStep]:
        found = self._database.read(lambda tx: outlines.outline_steps(tx, ids=ids)) if ids else []
        return {step.id: step for step in found}

    def page(self, after: int, limit: int) -> list[OutlineStep]:
        """Steps by id; the root is not among them."""
        ids = self._database.read(
            lambda tx: outlines.ids_of_workflow(tx, workflow=self._workflow, after=after, limit=limit)
        )
        return list(self.steps(ids).values())

    def children(self, parent: int, after: int, limit: int) -> list[OutlineStep]:
        ids = self._database.read(lambda tx: outlines.ids_of_children(tx, parent=parent, after=after, limit=limit))
        return list(self.steps(ids).values())

    def members(self, stack: Stack, limit: int) -> list[OutlineStep]:
        """The first steps of a stack."""
        after, parent = stack.first - 1, stack.parent
        if parent is None:
            ids = self._database.read(
                lambda tx: outlines.ids_alike_on_top(
                    tx, workflow=self._workflow, action=stack.action, template=stack.template, after=after,
                    window=WINDOW, limit=limit,
                )
            )  # fmt: skip
        else:
            ids = self._database.read(
                lambda tx: outlines.ids_alike_below(
                    tx, parent=parent, action=stack.action, after=after, window=WINDOW, limit=limit
                )
            )
        return list(self.steps(ids).values())

    def failed(self, root: int | None, limit: int) -> list[OutlineStep]:
        """Steps that Failed or were Stopped: of a declared workflow, or among the children of a root."""
        if root is None:
            ids = self._database.read(
                lambda tx: outlines.ids_ended_in_workflow(tx, workflow=self._workflow, limit=MOST_ENDED)
            )
        else:
            ids = self._database.read(lambda tx: outlines.ids_ended_below(tx, parent=root, limit=MOST_ENDED))
        return [step for step in self.steps(ids).values() if step.state in FAILED][:limit]

    def in_flight(self, limit: int) -> list[OutlineStep]:
        """Dispatched and running steps of this workflow."""
        ids = self._database.read(lambda tx: outlines.ids_in_flight(tx, limit=MOST_IN_FLIGHT))
        return [step for step in self.steps(ids).values() if step.workflow_id == self._workflow][:limit]
